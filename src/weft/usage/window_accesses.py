"""Collect the accesses of windows as rows: which rank touches which bytes of which window, how, and between which
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np

from weft.base.lazy import dataclass
from weft.mpi.meaning import Access, Act, functions_with
from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_columns, integer_column, sorted_distinct
from weft.terms.buffer_blocks import Shapes, empty_shapes
from weft.terms.calls import masks_of, word_set
from weft.terms.datatype_sizes import basic_type_size, machine_type
from weft.terms.significant_arguments import NO_OP
from weft.terms.windows import SHARED
from weft.trace import Rank
from weft.usage.epochs import FENCE, LOCK, LOCK_ALL, Epochs

READ, WRITE, UPDATE = 0, 1, 2
OPERATION, STORED, LOCAL = 0, 1, 2
"""What an access is: a one-sided operation, a store of the program itself, or the local buffer of an operation."""
_READING: Final = functions_with(Act.ACCESS, where=lambda m: m.access is Access.READ)
_WRITING: Final = functions_with(Act.ACCESS, where=lambda m: m.access is Access.WRITE)


@dataclass(frozen=True)
class RmaAccesses:
    """Accesses of windows, one row each; `low` to `high` are bytes of the target's window.

    `sort`: READ, WRITE or UPDATE. `operation`: number of an update's operation, -1 for MPI_NO_OP, which reads.
    `element`: number of an update's basic type and of the offset at which its elements begin; 0 unknown. `ordered`:
    updates of one origin at one location keep their order. `bucket`: accesses of a rank with equal numbers are in one
    epoch with no flush between them. `fence`: the number of a fence epoch, else -1. `begin`, `end`: the events between
    which the access happens, -1 without an end; `opened`, `closed`: such events of the target, -1 unknown. `lock`: the
    type of its lock, 0 without one. `origin`: OPERATION, STORED or LOCAL. `shape`: a Layout that says which of these
    bytes, None for all.
    """

    rank: Ints
    event: Ints
    site: Ints
    comm: Ints
    ordinal: Ints
    target: Ints
    low: Ints
    high: Ints
    sort: Ints
    operation: Ints
    element: Ints
    ordered: Ints
    bucket: Ints
    fence: Ints
    begin: Ints
    end: Ints
    opened: Ints
    closed: Ints
    lock: Ints
    origin: Ints
    shape: Shapes

    def __len__(self) -> int:
        return len(self.rank)

    @classmethod
    def of_rank(
        cls,
        rank: Rank,
        epochs: Epochs,
        rows: Ints,
        places: tuple[Ints, Ints, Ints, Shapes],
        time: tuple[Ints, Ints, Ints],
    ) -> RmaAccesses:
        """Return the accesses of some of a rank's one-sided operations.

        `rows`: rows of `epochs`, one for each access. `places`: for each the target rank, first byte, end and shape.
        `time`: for each the event that completes it, and the post and the wait of its target.
        """
        target, low, high, shape = places
        event, epoch = epochs.event[rows], epochs.epoch[rows].astype(np.int64)
        windows = np.array(epochs.windows, np.int64).reshape(-1, 2)[epochs.window[rows]]
        table = masks_of(rank.trace.functions).table
        function = rank.events["function"][event]
        sort = np.where(table(_READING)[function], READ, UPDATE)
        sort[table(_WRITING)[function]] = WRITE
        fence = np.where(epochs.sort[epoch] == FENCE, epochs.number[epoch], -1).astype(np.int64)
        lock = np.where(epochs.sort[epoch] == LOCK, epochs.lock_type[epoch], 0).astype(np.int64)
        lock[epochs.sort[epoch] == LOCK_ALL] = SHARED  # a shared lock of every rank (12.5.3)
        operation, element = _number_updates(rank, event, sort, low)
        return cls(
            np.full(len(rows), rank.index, np.int64), event, rank.events["site"][event].astype(np.int64), windows[:, 0],
            windows[:, 1], target, low, high, sort.astype(np.int64), operation, element, _keeps_update_order(rank,
            epochs, rows), epoch << 32 | epochs.phase[rows], fence, event, *time, lock,
            np.full(len(rows), OPERATION, np.int64), shape,
        )  # fmt: skip

    def pick(self, rows: Any) -> RmaAccesses:
        """Return the rows that an index, a mask or a slice selects."""
        return RmaAccesses(*(getattr(self, f.name)[rows] for f in fields(self)))


_elements: dict[tuple[str, int], int] = {}
_UNNAMED: Final = 1 << 20
"""The operation of MPI_Compare_and_swap, which has none."""


def _number_updates(rank: Rank, event: Ints, sort: Ints, low: Ints) -> tuple[Ints, Ints]:
    """Return two columns that are equal for accesses that are atomic to each other: the number of the operation of each
    access (0 for no update), and a number for the basic type and the offset of its elements (0 if unknown).
    """
    operation, element = (np.zeros(len(event), np.int64) for _ in range(2))
    updates = np.flatnonzero(sort == UPDATE)
    events = rank.events
    slots = (
        events["function"][event[updates]].astype(np.int64) << 48
        | events["tag"][event[updates]].astype(np.int64) << 32 & 0xFFFF00000000
        | events["datatype"][event[updates]].astype(np.int64)
    )
    for key in sorted_distinct(slots).tolist():
        mine = updates[slots == key]
        args = rank.event(int(event[mine[0]])).args
        op = int(args.get("op", _UNNAMED))
        operation[mine] = -1 if op == NO_OP else op + 1
        types = _read_tail_parameter(rank, event[mine], "target_datatype")
        types = np.full(len(mine), args.get("datatype", 0), np.int64) if types is None else types
        for id in sorted_distinct(types).tolist():
            element[mine[types == id]] = _number_elements(rank, id, low[mine[types == id]])
    return operation, element


def _read_tail_parameter(rank: Rank, events: Ints, name: str) -> Ints | None:
    """Return the values of the parameter `name` in events of one function, whose further arguments have it; None if
    they do not.
    """
    each, inverse = np.unique(events, return_inverse=True)  # an operation may have several accesses
    found = np.zeros(len(each), np.int64)
    for some, values in decode_columns(rank, each, frozenset((name,))):
        if name not in values:
            return None
        found[np.searchsorted(each, some)] = integer_column(values, name)
    return found[inverse.reshape(-1)]


def _number_elements(rank: Rank, datatype_id: int, low: Ints) -> Ints:
    """Return for each access a number for the basic type of its elements and the offset at which they begin; 0 for a
    datatype of several basic types.

    `low`: the first byte of each access.
    """
    datatype = rank.datatype(datatype_id)
    signature = datatype.signature() if datatype else None
    name = signature[0][0] if signature and len(signature) == 1 else ""
    width = basic_type_size(name)
    if not width:
        return np.zeros(len(low), np.int64)
    offsets, inverse = np.unique(low % width, return_inverse=True)
    kind = machine_type(name)
    numbers = np.array([_elements.setdefault((kind, offset), len(_elements) + 1) for offset in offsets.tolist()])
    return numbers.astype(np.int64)[inverse.reshape(-1)]


def _keeps_update_order(rank: Rank, epochs: Epochs, rows: Ints) -> Ints:
    """Return 1 for each row whose window keeps the order of updates from one origin; 0 if the window was made with
    accumulate_ordering that gives this up (MPI-4.1, 12.7.2).
    """
    found = np.ones(len(rows), np.int64)
    loose = {
        event.args.get("info")
        for event in map(rank.event, masks_of(rank.trace.functions).where(rank, word_set("Info_set")).tolist())
        if event.args.get("key") == "accumulate_ordering" and "waw" not in str(event.args.get("value"))
    }
    if loose:
        makers = map(rank.event, masks_of(rank.trace.functions).where(rank, calls.WINDOW_MAKERS).tolist())
        windows = [event.object for event in makers if event.args.get("info") in loose]
        found[np.isin(rank.events["object"][epochs.event[rows]], windows)] = 0
    return found


def join_accesses(parts: Sequence[RmaAccesses]) -> RmaAccesses:
    """Concatenate the accesses of several ranks."""
    empty = {f.name: empty_shapes(0) if f.name == "shape" else np.zeros(0, np.int64) for f in fields(RmaAccesses)}
    return RmaAccesses(*(np.concatenate([none, *(getattr(p, name) for p in parts)]) for name, none in empty.items()))
