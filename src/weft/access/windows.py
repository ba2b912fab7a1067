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

from weft.access.exposed import Exposed, exposed
from weft.access.ordering import Ordering
from weft.access.words import at, site_of, word
from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.deadlock.collective_calls import Gatherings
from weft.evidence import MetOperation, MetShared
from weft.findings import Finding
from weft.order import Order
from weft.terms.argument_columns import Ints
from weft.terms.buffer_blocks import numbered_shapes
from weft.terms.describe import loops
from weft.terms.event_findings import cause, finding, said
from weft.trace import Trace
from weft.trace.layout import TouchKind
from weft.usage.one_sided import collect_operation_accesses
from weft.usage.window_accesses import READ, UPDATE, WRITE, WindowAccesses

MAX_ASKED: Final = 500_000
"""Questions about order for one window and target; more is told."""
_ADDRESSES: Final = 1 << 40
_WORDS: Final = {READ: "reads", WRITE: "writes", UPDATE: "updates"}


def find(trace: Trace, order: Order) -> list[Finding]:
    """The races of every window and target, of each pair of lines the first."""
    gatherings = Gatherings(trace)
    parts = exposed(trace, gatherings)
    if not parts:
        return []
    accesses = collect_operation_accesses(trace, gatherings)
    ordering = Ordering(trace, order, accesses)
    memories: list[_Memory] = []
    for key, mine in sorted(parts.items()):
        comm, ordinal, target = key
        rows = np.flatnonzero((accesses.comm == comm) & (accesses.ordinal == ordinal) & (accesses.target == target))
        memories.append(_Memory(trace, ordering, target, mine, accesses.pick(rows)))
    for memory in memories:
        memory.look_for_polls()
    return [race for memory in memories for race in memory.races()]


def _said(bytes_: tuple[int, int]) -> str:
    """`bytes 0 to 8`; how many where they are addresses, as in a dynamic window."""
    low, high = bytes_
    return f"bytes {low:,} to {high:,}" if high < _ADDRESSES else f"{high - low:,} bytes"


@dataclass(frozen=True)
class Class:
    """Accesses of one rank by one line to the same bytes in one way, in their order: rows of a table."""

    rows: Ints
    low: int
    high: int


class _Memory:
    """The memory of one rank in one window: what programs and operations do there."""

    def __init__(
        self, trace: Trace, ordering: Ordering, target: int, programs: list[Exposed], of: WindowAccesses
    ) -> None:
        self.trace, self.ordering, self.target = trace, ordering, target
        self.programs, self.of = programs, of
        self.asked = 0
        self.told: set[tuple[str, str]] = set()
        self.operated = Classes(of.low, of.high, (of.rank, of.site, of.sort, of.operation, numbered_shapes(of.shape)))
        when = (of.rank, of.begin, of.end, of.opened, of.closed)
        self.of_time = list(zip(*(column.tolist() for column in when), strict=True))
        self.answers: dict[tuple[int, ...], tuple[bool, bool]] = {}
        self.own = [_of_program(program) for program in programs]

    def look_for_polls(self) -> None:
        """Tell the ordering from where on ranks know of others' operations by having waited for a value."""
        for program, classes in zip(self.programs, self.own, strict=True):
            for mine in classes:
                for other in self.operated.overlapping(mine):
                    if self._polls(program, mine, other):
                        self.ordering.polled(program, int(mine.rows[0]), int(self.of.rank[other.rows[0]]))

    def races(self) -> Iterator[Finding]:
        """Accesses against operations, then against those of other ranks."""
        for program, classes in zip(self.programs, self.own, strict=True):
            for mine in classes:
                for other in self.operated if program.separate else self.operated.overlapping(mine):
                    yield from self._against_operations(program, mine, other)
        parts = list(zip(self.programs, self.own, strict=True))
        for (one, first), (two, second) in combinations(parts, 2):
            for mine in first:
                for other in second.overlapping(mine):
                    yield from self._against_program(one, mine, two, other)

    def _against_operations(self, program: Exposed, mine: Class, other: Class) -> Iterator[Finding]:
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
            bytes_ = program.touches.meets_layout(first, shape, other.low - shape.low)
        bytes_ = bytes_ or ((mine.low, mine.high) if apart else None)
        if bytes_ is None or self._polls(program, mine, other):
            return
        i = j = 0
        while i < len(mine.rows) and j < len(other.rows) and self.asked < MAX_ASKED:
            self.asked += 1
            row, op = mine.rows.item(i), other.rows.item(j)
            access_first, operation_first = self._which_first(program, row, op)
            if access_first:
                i += 1
            elif operation_first:
                j += 1
            elif self.ordering.kept_apart(program, row, of, op):
                if self.ordering.ends_first(program, row, of, op):
                    i += 1
                else:
                    j += 1
            else:
                yield from self._race(program, row, op, bytes_)
                return

    def _which_first(self, program: Exposed, row: int, op: int) -> tuple[bool, bool]:
        """Whether the access comes first, or the operation: the same for all between two calls and of one time."""
        key = program.rank.index, program.touches.before.item(row), *self.of_time[op]
        known = self.answers.get(key)
        if known is None:
            first = self.ordering.access_first(program, row, self.of, op)
            known = first, not first and self.ordering.operation_first(program, row, self.of, op)
            self.answers[key] = known
        return known

    def _polls(self, program: Exposed, mine: Class, other: Class) -> bool:
        """Whether the rank waits for the other's operation by loading the one value that it changes, again and again.

        In the unified model that is allowed (MPI-4.1, 12.7), and so may be what comes after it.
        """
        row = int(mine.rows[0])
        kind, size = int(program.touches.kind[row]), int(program.touches.size[row])
        if program.separate or kind & TouchKind.WRITE or size > 8 or other.high - other.low != size:
            return False
        # One whose value is there at once goes round the loop no more than that.
        if kind & (TouchKind.ATOMIC | TouchKind.VOLATILE) or loops(program.rank, int(program.touches.site[row])):
            return True
        before = program.touches.before[mine.rows].tolist()
        return any(self.ordering.only_asks(program.rank, first, second) for first, second in pairwise(before))

    def _against_program(self, one: Exposed, mine: Class, two: Exposed, other: Class) -> Iterator[Finding]:
        first, second = int(mine.rows[0]), int(other.rows[0])
        kinds = int(one.touches.kind[first]), int(two.touches.kind[second])
        if not (kinds[0] | kinds[1]) & TouchKind.WRITE or kinds[0] & kinds[1] & TouchKind.ATOMIC:
            return
        if any(kind & (TouchKind.ATOMIC | TouchKind.VOLATILE) for kind in kinds):
            return  # how programs make locks and flags of their own
        bytes_ = _common(one, first, two, second)
        i = j = 0
        while bytes_ and i < len(mine.rows) and j < len(other.rows) and self.asked < MAX_ASKED:
            self.asked += 1
            a, b = int(mine.rows[i]), int(other.rows[j])
            if self.ordering.accesses_ordered(one, a, two, b):
                i += 1
            elif self.ordering.accesses_ordered(two, b, one, a):
                j += 1
            elif self.ordering.both_kept_apart(one, a, two, b):
                if int(one.touches.last[a]) <= int(two.touches.last[b]):
                    i += 1
                else:
                    j += 1
            else:
                yield from self._shared_race(one, a, two, b, bytes_)
                return

    def _race(self, program: Exposed, row: int, op: int, bytes_: tuple[int, int]) -> Iterator[Finding]:
        if self.ordering.by_hand(program, row, int(self.of.rank[op])):
            return
        rank, touches = program.rank, program.touches
        event = self.trace.event(int(self.of.rank[op]), int(self.of.event[op]))
        kind, site = int(touches.kind[row]), rank.site(int(touches.site[row]))
        key = at(site), cause(event)
        if key in self.told:
            return
        self.told.add(key)
        end = int(self.of.end[op])
        made = finding(
            "rma-race",
            f"rank {rank.index} {'stores to' if kind & TouchKind.WRITE else 'loads from'} {_said(bytes_)} of "
            f"rank {self.target}'s window{at(site)}, which rank {event.rank.index} "
            f"{_WORDS[int(self.of.sort[op])]} in {said(event)}: nothing orders the two",
            [event],
            evidence=MetOperation(
                access="write" if kind & TouchKind.WRITE else "read", bytes=bytes_, target=self.target,
                before=EventId(rank.index, int(touches.before[row])), ticks=int(touches.first[row]),
                operation=event.id, over=EventId(event.rank.index, end) if end >= 0 else None,
            ),
            cause="; ".join((word(kind), *key)),
        )  # fmt: skip
        yield site_of(made, rank, site, kind)

    def _shared_race(self, one: Exposed, a: int, two: Exposed, b: int, bytes_: tuple[int, int]) -> Iterator[Finding]:
        if self.ordering.by_hand(one, a, two.rank.index) or one.flagged or two.flagged:
            return
        sites = [p.rank.site(int(p.touches.site[row])) for p, row in ((one, a), (two, b))]
        key = at(sites[0]), at(sites[1])
        if key in self.told or key[::-1] in self.told:
            return
        self.told.add(key)
        kinds = int(one.touches.kind[a]), int(two.touches.kind[b])
        verbs = ["stores to" if kind & TouchKind.WRITE else "loads from" for kind in kinds]
        made = finding(
            "rma-race",
            f"rank {one.rank.index} {verbs[0]} {_said(bytes_)} of rank {self.target}'s shared "
            f"window{key[0]}, rank {two.rank.index} {verbs[1]} them{key[1]}: nothing orders the two",
            [],
            evidence=MetShared(
                access="write" if kinds[0] & TouchKind.WRITE else "read", bytes=bytes_,
                target=self.target, before=EventId(one.rank.index, int(one.touches.before[a])),
                ticks=int(one.touches.first[a]), other=EventId(two.rank.index, int(two.touches.before[b])),
            ),
            cause="; ".join(sorted(key)),
        )  # fmt: skip
        yield site_of(site_of(made, two.rank, sites[1], kinds[1]), one.rank, sites[0], kinds[0])


class Classes:
    """Rows with equal bytes and equal other columns, as classes."""

    def __init__(self, low: Ints, high: Ints, columns: tuple[NDArray[Any], ...]) -> None:
        self.all = list(_classes(low, high, columns)) if len(low) else []
        self.low = np.array([one.low for one in self.all], np.int64)
        self.high = np.array([one.high for one in self.all], np.int64)

    def __iter__(self) -> Iterator[Class]:
        return iter(self.all)

    def overlapping(self, mine: Class) -> Iterator[Class]:
        """Those that share bytes with another, as far as can be seen from their ends."""
        return (self.all[k] for k in np.flatnonzero((self.low < mine.high) & (self.high > mine.low)).tolist())


def _classes(low: Ints, high: Ints, columns: tuple[NDArray[Any], ...]) -> Iterator[Class]:
    table = np.stack([*columns, high, low])
    order = np.lexsort(table)
    changed = (np.diff(table[:, order], axis=1) != 0).any(axis=0)
    for rows in np.split(order, np.flatnonzero(changed) + 1):
        yield Class(rows, int(low[rows[0]]), int(high[rows[0]]))


def _of_program(program: Exposed) -> Classes:
    t = program.touches
    return Classes(t.low, t.high, (t.site, t.kind, t.size, t.stride))


def _common(one: Exposed, a: int, two: Exposed, b: int) -> tuple[int, int] | None:
    """The first bytes that accesses of both rows touch, by the elements of the row that has fewer."""
    if int(one.touches.count[a]) > int(two.touches.count[b]):
        return _common(two, b, one, a)
    low, step, size = (int(getattr(one.touches, name)[a]) for name in ("low", "stride", "size"))
    for k in range(min(int(one.touches.count[a]), 4096)):
        met = two.touches.meets(b, low + k * step, low + k * step + size)
        if met:
            return met
    return None
