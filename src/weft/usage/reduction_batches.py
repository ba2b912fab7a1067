"""Compute all reductions of a run again, many at once, and find members whose result no order of the numbers gives.

Reductions of one communicator, function, operation, type and length are one array, a few million numbers at a time, so
that no time is spent on each of them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import Match
from weft.terms.reduction_values import KINS, PREFIX, blocking_name, combine_numbers, numpy_type
from weft.trace import Datatype, Rank, Trace
from weft.trace.layout import CONTENT_MOST, HashSide

Ints = NDArray[np.int64]
Suspects = NDArray[np.int64]
"""Rows of instance and member (its place among the ranks): whose result is wrong."""
STRETCH: Final = 1 << 21
"""Numbers that are looked at together."""


def find_wrong_results(trace: Trace, match: Match) -> Suspects:
    """Return the wrong results of reductions as pairs: the index of the collective in match.instances, and the index of
    the member among those of the collective. Sorted by both.
    """
    columns = _ReductionColumns(trace, match)
    found = [np.zeros((0, 2), np.int64)]
    found += [
        wrong for group in columns.group_by_shape() for wrong in _ReductionGroup(columns, *group).find_wrong_members()
    ]
    every = np.concatenate(found)
    return every[np.lexsort((every[:, 1], every[:, 0]))]


class _ReductionColumns:
    """What each member brought to its reductions and got: columns with a value for each row of Match.collectives."""

    def __init__(self, trace: Trace, match: Match) -> None:
        self.trace, self.match = trace, match
        self.kins = {f.id: blocking_name(f.name) for f in trace.functions if blocking_name(f.name) in KINS}
        self.operations: list[str] = []
        self.dtypes = [""]
        """By their own words: a type of numpy equals None where that is float64."""
        count = len(match.collectives.event)
        self.op, self.dtype = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.at = {side: np.full(count, -1) for side in (HashSide.SENT, HashSide.RECEIVED)}
        self.bytes = {side: np.zeros(count, np.int64) for side in (HashSide.SENT, HashSide.RECEIVED)}
        for rank in trace.ranks:
            if len(rank.hashes):
                self._read_rank(rank)

    def _read_rank(self, rank: Rank) -> None:
        """Copy what one rank brought to its reductions, and got from them, into the columns."""
        part = self.match.collectives.of_rank(rank.index)
        rows = np.flatnonzero(np.isin(self.match.collectives.function[part], list(self.kins))) + part.start
        events = self.match.collectives.event[rows].astype(np.int64)
        slots = rank.events[events]
        self.op[rows] = self._number_names(slots["tag"], self.operations, lambda id_: rank.object_name("OP", id_))
        self.dtype[rows] = self._number_names(
            slots["datatype"], self.dtypes, lambda id_: _dtype_text(rank.datatype(id_))
        )
        hashed = rank.message_hashes
        for side in self.at:
            kept = np.flatnonzero((hashed.at >= 0) & (hashed.rows["side"] == side))
            # Of several of one event and side the last counts.
            at = np.searchsorted(hashed.rows["event"][kept], events, "right") - 1
            there = (at >= 0) & (hashed.rows["event"][kept][at] == events) if len(kept) else np.zeros(len(rows), bool)
            mine = kept[at[there]] if len(kept) else kept
            self.at[side][rows[there]] = hashed.at[mine]
            self.bytes[side][rows[there]] = np.minimum(hashed.rows["bytes"][mine], CONTENT_MOST)

    @staticmethod
    def _number_names(ids: NDArray[Any], known: list[str], named: Callable[[int], str]) -> Ints:
        """Replace a rank's ids by numbers that all ranks share: indices in the list of names `known`, to which new
        names are added. `named(id)`: returns the name of an id.
        """
        found, inverse = np.unique(ids, return_inverse=True)
        codes = []
        for id_ in found.tolist():
            name = named(id_)
            if name not in known:
                known.append(name)
            codes.append(known.index(name))
        return np.array(codes, np.int64)[inverse] if len(found) else np.zeros(0, np.int64)

    def group_by_shape(self) -> Iterator[tuple[Ints, NDArray[np.int64]]]:
        """Yield groups of reductions that differ only in their numbers, so that a group can be computed at once:
        (indices in match.instances, rows of their calls as a matrix of reduction by member).
        """
        instances, collectives = self.match.instances, self.match.collectives
        sizes = np.diff(instances.first.astype(np.int64))
        members = np.array([len(comm.members) for comm in self.trace.communicators] or [0])
        first = instances.rows[np.minimum(instances.first[:-1].astype(np.int64), max(len(instances.rows) - 1, 0))]
        chosen = np.isin(collectives.function[first], list(self.kins)) if len(first) else np.zeros(0, bool)
        chosen &= (sizes > 0) & (instances.comm >= 0) & (sizes == members[np.maximum(instances.comm, 0)])
        for size in np.unique(sizes[chosen]).tolist():
            these = np.flatnonzero(chosen & (sizes == size))
            rows = instances.rows[instances.first[these].astype(np.int64)[:, None] + np.arange(size)].astype(np.int64)
            yield from self._split_by_shape(these, rows)

    def _split_by_shape(self, these: Ints, rows: NDArray[np.int64]) -> Iterator[tuple[Ints, NDArray[np.int64]]]:
        """Yield groups of reductions that have communicator, function, operation, type and length in common: (indices,
        rows).

        `these`: indices of reductions with equally many members. `rows`: the rows of their calls, reduction by member.
        Reductions whose members disagree, or for which numbers are missing, are left out.
        """
        width = np.array([np.dtype(one).itemsize if one else 1 for one in self.dtypes])
        sent = self.at[HashSide.SENT][rows]
        counts = self.bytes[HashSide.SENT][rows] // width[self.dtype[rows]]
        dtypes = self.dtype[rows]
        whole = (sent >= 0).all(1) & (dtypes[:, 0] > 0) & (dtypes == dtypes[:, :1]).all(1)
        whole &= (counts == counts[:, :1]).all(1)
        kins = np.array([self.kins.get(id_, "") for id_ in range(max(self.kins, default=0) + 1)])
        functions = np.minimum(self.match.collectives.function[rows], len(kins) - 1)
        whole &= (counts[:, 0] > 0) & (kins[functions] == kins[functions[:, :1]]).all(1)
        comm, function = self.match.instances.comm[these], self.match.collectives.function[rows[:, 0]]
        keys = np.stack([comm, function, self.op[rows[:, 0]], dtypes[:, 0], counts[:, 0]], axis=1)[whole]
        these, rows, order = these[whole], rows[whole], np.lexsort(keys.T[::-1])
        starts = np.flatnonzero(np.diff(keys[order], axis=0, prepend=-1).any(1))
        for part in np.split(order, starts[1:]) if len(order) else ():
            yield these[part], rows[part]

    def read_numbers(self, side: HashSide, rows: Ints, count: int) -> NDArray[Any]:
        """Return the numbers that the calls `rows` of one rank gave to a reduction, or got from it (`side`): a matrix
        with `count` numbers for each call.
        """
        rank = self.trace.ranks[self.match.collectives.rank_of(int(rows[0]))]
        dtype = np.dtype(self.dtypes[int(self.dtype[rows[0]])])
        raw = rank.message_hashes.content[self.at[side][rows][:, None] + np.arange(count * dtype.itemsize)]
        return raw.view(dtype)


def _dtype_text(datatype: Datatype | None) -> str:
    kind = numpy_type(datatype)
    return kind.str if kind is not None else ""


@dataclass(frozen=True, slots=True)
class _ReductionGroup:
    """Reductions that differ in their numbers only."""

    columns: _ReductionColumns
    instances: Ints
    rows: NDArray[np.int64]

    def find_wrong_members(self) -> Iterator[Suspects]:
        """Yield pairs (index of the reduction, index of the member) whose result is wrong. They come in batches, so
        that few numbers are in memory at once.
        """
        row, columns = int(self.rows[0, 0]), self.columns
        count = int(columns.bytes[HashSide.SENT][row]) // np.dtype(columns.dtypes[int(columns.dtype[row])]).itemsize
        name = columns.operations[int(columns.op[row])]
        step = max(1, STRETCH // max(1, count * self.rows.shape[1]))
        for begin in range(0, len(self.rows), step):
            rows = self.rows[begin : begin + step]
            brought = np.stack([columns.read_numbers(HashSide.SENT, member, count) for member in rows.T])
            for k, wrong in self._find_wrong_by_member(rows, brought, name):
                instances = self.instances[begin + wrong]
                yield np.stack([instances, np.full(len(instances), k)], axis=1)

    def _find_wrong_by_member(
        self, rows: NDArray[np.int64], brought: NDArray[Any], name: str
    ) -> Iterator[tuple[int, Ints]]:
        """Yield (member, indices into `rows` of the reductions that gave it a wrong result).

        `rows`: the members' calls, reduction by member. `brought`: what they gave, by member, reduction and element.
        `name`: the operation.
        """
        columns, count = self.columns, brought.shape[2]
        scanned = PREFIX.get(columns.kins[int(columns.match.collectives.function[rows[0, 0]])])
        expected = combine_numbers(brought, name) if scanned is None else None
        for k, member in enumerate(rows.T):
            got = columns.bytes[HashSide.RECEIVED][member] // brought.dtype.itemsize == count
            got &= columns.at[HashSide.RECEIVED][member] >= 0
            if scanned is not None:
                expected = combine_numbers(brought[: k + scanned], name) if k + scanned else None
            there = np.flatnonzero(got)
            if expected is None or not len(there):
                continue
            result, bound = expected
            near = bound[there] if isinstance(bound, np.ndarray) else bound
            right = are_allowed_results(
                columns.read_numbers(HashSide.RECEIVED, member[there], count), result[there], near, name
            )
            yield k, there[~right.all(1)]


def are_allowed_results(got: NDArray[Any], expected: NDArray[Any], bound: Any, name: str) -> NDArray[np.bool_]:
    """Return which numbers of `got` a reduction may give: the expected one or, of floating-point types, one within
    `bound` of it. Numbers that are infinite or not a number are allowed too.

    `name`: the operation, such as MPI_LAND.
    """
    if name in ("MPI_LAND", "MPI_LOR", "MPI_LXOR"):
        same: NDArray[np.bool_] = (got != 0) == expected
        return same
    with np.errstate(invalid="ignore", over="ignore"):
        right = (got == expected) | (np.abs(got - expected) <= bound) if got.dtype.kind in "fc" else got == expected
    # A number that is none, or too large, depends on the order in more than its last bits.
    odd = ~np.isfinite(expected) | ~np.isfinite(got) | ~np.isfinite(bound) if got.dtype.kind in "fc" else False
    result: NDArray[np.bool_] = right | odd
    return result
