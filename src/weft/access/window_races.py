"""Loads and stores of window memory that meet one-sided operations, or each other in shared windows (MPI-4.1, 12.7).

An access of the program happens between two calls of its thread. It is before what those that come after the second of
them know of, and behind what those before the first were known to be behind: happens-before of the record, nothing
else. What is left, overlaps and is not both reads, races.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.access.ordering import AccessOrdering
from weft.access.window_accesses import WindowAccesses, collect_window_accesses
from weft.access.wording import access_word, add_access_site, format_site
from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.deadlock.collective_calls import CollectiveCalls
from weft.evidence import MetOperation, MetShared
from weft.findings import Finding
from weft.order import Order
from weft.terms.argument_columns import Ints
from weft.terms.buffer_blocks import number_shapes
from weft.terms.describe import has_loop_at
from weft.terms.event_findings import call_at, cause_key, make_finding
from weft.trace import Trace
from weft.trace.layout import TouchKind
from weft.usage.one_sided import collect_operation_accesses
from weft.usage.window_accesses import READ, UPDATE, WRITE, RmaAccesses

MAX_ASKED: Final = 500_000
"""The most questions about order for one window and target; a finding says if there were more."""
_ADDRESSES: Final = 1 << 40
_WORDS: Final = {READ: "reads", WRITE: "writes", UPDATE: "updates"}


def find_window_races(trace: Trace, order: Order) -> list[Finding]:
    """Return the races on every window's memory, for each pair of source lines the first."""
    gatherings = CollectiveCalls(trace)
    parts = collect_window_accesses(trace, gatherings)
    if not parts:
        return []
    accesses = collect_operation_accesses(trace, gatherings)
    ordering = AccessOrdering(trace, order, accesses)
    memories: list[_WindowMemory] = []
    for key, mine in sorted(parts.items()):
        comm, ordinal, target = key
        rows = np.flatnonzero((accesses.comm == comm) & (accesses.ordinal == ordinal) & (accesses.target == target))
        memories.append(_WindowMemory(trace, ordering, target, mine, accesses.pick(rows)))
    for memory in memories:
        memory.look_for_polls()
    return [race for memory in memories for race in memory.races()]


def _describe_bytes(bytes_: tuple[int, int]) -> str:
    """Return `bytes 0 to 8`; only the number of bytes for addresses in a dynamic window."""
    low, high = bytes_
    return f"bytes {low:,} to {high:,}" if high < _ADDRESSES else f"{high - low:,} bytes"


@dataclass(frozen=True)
class AlikeRows:
    """Accesses of one rank by one line to the same bytes in the same way, in order: rows of a table."""

    rows: Ints
    low: int
    high: int


class _WindowMemory:
    """The memory of one rank in one window, with all accesses and operations on it."""

    def __init__(
        self, trace: Trace, ordering: AccessOrdering, target: int, programs: list[WindowAccesses], of: RmaAccesses
    ) -> None:
        self.trace, self.ordering, self.target = trace, ordering, target
        self.programs, self.of = programs, of
        self.asked = 0
        self.told: set[tuple[str, str]] = set()
        self.operated = AlikeRowGroups(
            of.low, of.high, (of.rank, of.site, of.sort, of.operation, number_shapes(of.shape))
        )
        when = (of.rank, of.begin, of.end, of.opened, of.closed)
        self.of_time = list(zip(*(column.tolist() for column in when), strict=True))
        self.answers: dict[tuple[int, ...], tuple[bool, bool]] = {}
        self.own = [_group_program_accesses(program) for program in programs]

    def look_for_polls(self) -> None:
        """Note, for the ordering, from which access on a rank knows others' operations by having polled a value."""
        for program, classes in zip(self.programs, self.own, strict=True):
            for mine in classes:
                for other in self.operated.overlapping(mine):
                    if self._is_poll(program, mine, other):
                        self.ordering.polled(program, int(mine.rows[0]), int(self.of.rank[other.rows[0]]))

    def races(self) -> Iterator[Finding]:
        """Yield the races of accesses with operations, then with accesses of other ranks."""
        for program, classes in zip(self.programs, self.own, strict=True):
            for mine in classes:
                for other in self.operated if program.separate else self.operated.overlapping(mine):
                    yield from self._race_with_operations(program, mine, other)
        parts = list(zip(self.programs, self.own, strict=True))
        for (one, first), (two, second) in combinations(parts, 2):
            for mine in first:
                for other in second.overlapping(mine):
                    yield from self._race_with_program(one, mine, two, other)

    def _race_with_operations(self, program: WindowAccesses, mine: AlikeRows, other: AlikeRows) -> Iterator[Finding]:
        """Yield a finding if the program's access and a one-sided operation race."""
        of, first, operation = self.of, mine.rows.item(0), other.rows.item(0)
        kind = program.touches.kind.item(first)
        reads = of.sort.item(operation) == READ or of.operation.item(operation) < 0
        if reads and not kind & TouchKind.WRITE:
            return
        apart = program.separate and kind & TouchKind.WRITE and not reads
        shape = of.shape[operation]
        if shape is None:
            bytes_ = program.touches.meets(first, other.low, other.high)
        else:
            bytes_ = program.touches.overlap_with_layout(first, shape, other.low - shape.low)
        bytes_ = bytes_ or ((mine.low, mine.high) if apart else None)
        if bytes_ is None or self._is_poll(program, mine, other):
            return
        i = j = 0
        while i < len(mine.rows) and j < len(other.rows) and self.asked < MAX_ASKED:
            self.asked += 1
            row, op = mine.rows.item(i), other.rows.item(j)
            access_first, operation_first = self._compare_order(program, row, op)
            if access_first:
                i += 1
            elif operation_first:
                j += 1
            elif self.ordering.is_excluded_from_operation(program, row, of, op):
                if self.ordering.is_access_over_first(program, row, of, op):
                    i += 1
                else:
                    j += 1
            else:
                yield from self._make_operation_race(program, row, op, bytes_)
                return

    def _compare_order(self, program: WindowAccesses, row: int, op: int) -> tuple[bool, bool]:
        """Return whether the access comes first, and whether the operation does; cached for accesses between the same
        calls.
        """
        key = program.rank.index, program.touches.before.item(row), *self.of_time[op]
        known = self.answers.get(key)
        if known is None:
            first = self.ordering.is_access_first(program, row, self.of, op)
            known = first, not first and self.ordering.is_operation_first(program, row, self.of, op)
            self.answers[key] = known
        return known

    def _is_poll(self, program: WindowAccesses, mine: AlikeRows, other: AlikeRows) -> bool:
        """Return whether a rank waits for another's operation by loading the one value that it changes, again and
        again.

        That is allowed in the unified memory model (MPI-4.1, 12.7), and it may order later accesses.
        """
        row = int(mine.rows[0])
        kind, size = int(program.touches.kind[row]), int(program.touches.size[row])
        if program.separate or kind & TouchKind.WRITE or size > 8 or other.high - other.low != size:
            return False
        # One whose value is there at once goes round the loop no more than that.
        if kind & (TouchKind.ATOMIC | TouchKind.VOLATILE) or has_loop_at(program.rank, int(program.touches.site[row])):
            return True
        before = program.touches.before[mine.rows].tolist()
        return any(
            self.ordering.has_only_polling_calls(program.rank, first, second) for first, second in pairwise(before)
        )

    def _race_with_program(
        self, one: WindowAccesses, mine: AlikeRows, two: WindowAccesses, other: AlikeRows
    ) -> Iterator[Finding]:
        """Yield a finding if the accesses of two programs to a shared window race."""
        first, second = int(mine.rows[0]), int(other.rows[0])
        kinds = int(one.touches.kind[first]), int(two.touches.kind[second])
        if not (kinds[0] | kinds[1]) & TouchKind.WRITE or kinds[0] & kinds[1] & TouchKind.ATOMIC:
            return
        if any(kind & (TouchKind.ATOMIC | TouchKind.VOLATILE) for kind in kinds):
            return  # how programs make locks and flags of their own
        bytes_ = _common_bytes(one, first, two, second)
        i = j = 0
        while bytes_ and i < len(mine.rows) and j < len(other.rows) and self.asked < MAX_ASKED:
            self.asked += 1
            a, b = int(mine.rows[i]), int(other.rows[j])
            if self.ordering.is_access_before(one, a, two, b):
                i += 1
            elif self.ordering.is_access_before(two, b, one, a):
                j += 1
            elif self.ordering.is_excluded_from_access(one, a, two, b):
                if int(one.touches.last[a]) <= int(two.touches.last[b]):
                    i += 1
                else:
                    j += 1
            else:
                yield from self._make_shared_window_race(one, a, two, b, bytes_)
                return

    def _make_operation_race(
        self, program: WindowAccesses, row: int, op: int, bytes_: tuple[int, int]
    ) -> Iterator[Finding]:
        """Yield the finding of a race between a program's access and an operation, once for each pair of lines."""
        if self.ordering.may_be_ordered_by_values(program, row, int(self.of.rank[op])):
            return
        rank, touches = program.rank, program.touches
        event = self.trace.event(int(self.of.rank[op]), int(self.of.event[op]))
        kind, site = int(touches.kind[row]), rank.site(int(touches.site[row]))
        key = format_site(site), cause_key(event)
        if key in self.told:
            return
        self.told.add(key)
        end = int(self.of.end[op])
        made = make_finding(
            "rma-race",
            f"rank {rank.index} {'stores to' if kind & TouchKind.WRITE else 'loads from'} {_describe_bytes(bytes_)} of "
            f"rank {self.target}'s window{format_site(site)}, which rank {event.rank.index} "
            f"{_WORDS[int(self.of.sort[op])]} in {call_at(event)}: nothing orders the two",
            [event],
            evidence=MetOperation(
                access="write" if kind & TouchKind.WRITE else "read", bytes=bytes_, target=self.target,
                before=EventId(rank.index, int(touches.before[row])), ticks=int(touches.first[row]),
                operation=event.id, over=EventId(event.rank.index, end) if end >= 0 else None,
            ),
            cause="; ".join((access_word(kind), *key)),
        )  # fmt: skip
        yield add_access_site(made, rank, site, kind)

    def _make_shared_window_race(
        self, one: WindowAccesses, a: int, two: WindowAccesses, b: int, bytes_: tuple[int, int]
    ) -> Iterator[Finding]:
        """Yield the finding of a race between two programs' accesses, once for each pair of lines."""
        if self.ordering.may_be_ordered_by_values(one, a, two.rank.index) or one.flagged or two.flagged:
            return
        sites = [p.rank.site(int(p.touches.site[row])) for p, row in ((one, a), (two, b))]
        key = format_site(sites[0]), format_site(sites[1])
        if key in self.told or key[::-1] in self.told:
            return
        self.told.add(key)
        kinds = int(one.touches.kind[a]), int(two.touches.kind[b])
        verbs = ["stores to" if kind & TouchKind.WRITE else "loads from" for kind in kinds]
        made = make_finding(
            "rma-race",
            f"rank {one.rank.index} {verbs[0]} {_describe_bytes(bytes_)} of rank {self.target}'s shared "
            f"window{key[0]}, rank {two.rank.index} {verbs[1]} them{key[1]}: nothing orders the two",
            [],
            evidence=MetShared(
                access="write" if kinds[0] & TouchKind.WRITE else "read", bytes=bytes_,
                target=self.target, before=EventId(one.rank.index, int(one.touches.before[a])),
                ticks=int(one.touches.first[a]), other=EventId(two.rank.index, int(two.touches.before[b])),
            ),
            cause="; ".join(sorted(key)),
        )  # fmt: skip
        yield add_access_site(add_access_site(made, two.rank, sites[1], kinds[1]), one.rank, sites[0], kinds[0])


class AlikeRowGroups:
    """Rows grouped by equal bytes and equal other columns."""

    def __init__(self, low: Ints, high: Ints, columns: tuple[NDArray[Any], ...]) -> None:
        self.all = list(_group_alike(low, high, columns)) if len(low) else []
        self.low = np.array([one.low for one in self.all], np.int64)
        self.high = np.array([one.high for one in self.all], np.int64)

    def __iter__(self) -> Iterator[AlikeRows]:
        return iter(self.all)

    def overlapping(self, mine: AlikeRows) -> Iterator[AlikeRows]:
        """Yield the groups whose range of bytes overlaps that of another group."""
        return (self.all[k] for k in np.flatnonzero((self.low < mine.high) & (self.high > mine.low)).tolist())


def _group_alike(low: Ints, high: Ints, columns: tuple[NDArray[Any], ...]) -> Iterator[AlikeRows]:
    """Yield the rows that are equal in all columns, with the bytes that they access."""
    table = np.stack([*columns, high, low])
    order = np.lexsort(table)
    changed = (np.diff(table[:, order], axis=1) != 0).any(axis=0)
    for rows in np.split(order, np.flatnonzero(changed) + 1):
        yield AlikeRows(rows, int(low[rows[0]]), int(high[rows[0]]))


def _group_program_accesses(program: WindowAccesses) -> AlikeRowGroups:
    t = program.touches
    return AlikeRowGroups(t.low, t.high, (t.site, t.kind, t.size, t.stride))


def _common_bytes(one: WindowAccesses, a: int, two: WindowAccesses, b: int) -> tuple[int, int] | None:
    """Return the first bytes that accesses of both rows touch, found by the elements of the row with fewer."""
    if int(one.touches.count[a]) > int(two.touches.count[b]):
        return _common_bytes(two, b, one, a)
    low, step, size = (int(getattr(one.touches, name)[a]) for name in ("low", "stride", "size"))
    for k in range(min(int(one.touches.count[a]), 4096)):
        met = two.touches.meets(b, low + k * step, low + k * step + size)
        if met:
            return met
    return None
