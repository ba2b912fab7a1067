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
from weft.base.words import plural
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
    """Return the races on window memory in which the program's own loads and stores take part. Only the first race for
    each pair of source lines is returned.
    """
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
        memory.note_polls()
    return [race for memory in memories for race in memory.find_races()]


def _describe_bytes(bytes_: tuple[int, int]) -> str:
    """Return bytes as text: `8 bytes at offset 0`, or only their number if they are addresses in a dynamic window."""
    low, high = bytes_
    return plural(high - low, "byte") + (f" at offset {low:,}" if high < _ADDRESSES else "")


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

    def note_polls(self) -> None:
        """Find the loops in which a rank polls a value in window memory until another rank changes it. For each loop,
        the ordering notes from which access on the rank knows of the other rank's operations.
        """
        for program, classes in zip(self.programs, self.own, strict=True):
            for mine in classes:
                for other in self.operated.overlapping(mine):
                    if self._is_polling_loop(program, mine, other):
                        self.ordering.note_polling(program, int(mine.rows[0]), int(self.of.rank[other.rows[0]]))

    def find_races(self) -> Iterator[Finding]:
        """Yield the races of the program's accesses: first with one-sided operations, then with accesses of other
        ranks.
        """
        for program, classes in zip(self.programs, self.own, strict=True):
            for mine in classes:
                for other in self.operated if program.separate else self.operated.overlapping(mine):
                    yield from self._find_race_with_operation(program, mine, other)
        parts = list(zip(self.programs, self.own, strict=True))
        for (one, first), (two, second) in combinations(parts, 2):
            for mine in first:
                for other in second.overlapping(mine):
                    yield from self._find_race_with_program(one, mine, two, other)

    def _find_race_with_operation(
        self, program: WindowAccesses, accesses: AlikeRows, operations: AlikeRows
    ) -> Iterator[Finding]:
        """Yield a finding if some access of the program races with some one-sided operation. The accesses must be alike
        (same bytes and place), and so must the operations.
        """
        of, first, operation = self.of, accesses.rows.item(0), operations.rows.item(0)
        kind = program.touches.kind.item(first)
        reads = of.sort.item(operation) == READ or of.operation.item(operation) < 0
        if reads and not kind & TouchKind.WRITE:
            return
        apart = program.separate and kind & TouchKind.WRITE and not reads
        shape = of.shape[operation]
        if shape is None:
            bytes_ = program.touches.find_shared_bytes(first, operations.low, operations.high)
        else:
            bytes_ = program.touches.find_overlap_with_layout(first, shape, operations.low - shape.low)
        bytes_ = bytes_ or ((accesses.low, accesses.high) if apart else None)
        if bytes_ is None or self._is_polling_loop(program, accesses, operations):
            return
        i = j = 0
        while i < len(accesses.rows) and j < len(operations.rows) and self.asked < MAX_ASKED:
            self.asked += 1
            row, op = accesses.rows.item(i), operations.rows.item(j)
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

    def _compare_order(self, program: WindowAccesses, row: int, operation_row: int) -> tuple[bool, bool]:
        """Return two bools: whether an access surely comes before a one-sided operation, and whether it surely comes
        after. The result is kept for further accesses between the same calls.
        """
        places = self.ordering.find_events_after(program, row), self.ordering.find_events_before(program, row)
        key = program.rank.index, *places[0], -1, *places[1], -1, *self.of_time[operation_row]
        known = self.answers.get(key)
        if known is None:
            first = self.ordering.is_access_first(program, row, self.of, operation_row)
            known = first, not first and self.ordering.is_operation_first(program, row, self.of, operation_row)
            self.answers[key] = known
        return known

    def _is_polling_loop(self, program: WindowAccesses, accesses: AlikeRows, operations: AlikeRows) -> bool:
        """Return whether a rank waits for an operation of another rank by loading, again and again, the value that the
        operation changes.

        That is allowed in the unified memory model (MPI-4.1, 12.7), and it may order later accesses.
        """
        row = int(accesses.rows[0])
        kind, size = int(program.touches.kind[row]), int(program.touches.size[row])
        if program.separate or kind & TouchKind.WRITE or size > 8 or operations.high - operations.low != size:
            return False
        # One whose value is there at once goes round the loop no more than that.
        if kind & (TouchKind.ATOMIC | TouchKind.VOLATILE) or has_loop_at(program.rank, int(program.touches.site[row])):
            return True
        before = program.touches.before[accesses.rows].tolist()
        return any(
            self.ordering.has_only_polling_calls(program.rank, first, second) for first, second in pairwise(before)
        )

    def _find_race_with_program(
        self,
        first_program: WindowAccesses,
        first_accesses: AlikeRows,
        second_program: WindowAccesses,
        second_accesses: AlikeRows,
    ) -> Iterator[Finding]:
        """Yield a finding if accesses of two ranks' programs to a shared window race. The accesses of each side must be
        alike (same bytes and place).
        """
        first, second = int(first_accesses.rows[0]), int(second_accesses.rows[0])
        kinds = int(first_program.touches.kind[first]), int(second_program.touches.kind[second])
        if not (kinds[0] | kinds[1]) & TouchKind.WRITE or kinds[0] & kinds[1] & TouchKind.ATOMIC:
            return
        if any(kind & (TouchKind.ATOMIC | TouchKind.VOLATILE) for kind in kinds):
            return  # how programs make locks and flags of their own
        bytes_ = _find_common_bytes(first_program, first, second_program, second)
        i = j = 0
        while bytes_ and i < len(first_accesses.rows) and j < len(second_accesses.rows) and self.asked < MAX_ASKED:
            self.asked += 1
            a, b = int(first_accesses.rows[i]), int(second_accesses.rows[j])
            if self.ordering.is_access_before(first_program, a, second_program, b):
                i += 1
            elif self.ordering.is_access_before(second_program, b, first_program, a):
                j += 1
            elif self.ordering.is_excluded_from_access(first_program, a, second_program, b):
                if int(first_program.touches.last[a]) <= int(second_program.touches.last[b]):
                    i += 1
                else:
                    j += 1
            else:
                yield from self._make_shared_window_race(first_program, a, second_program, b, bytes_)
                return

    def _make_operation_race(
        self, program: WindowAccesses, row: int, operation_row: int, shared_bytes: tuple[int, int]
    ) -> Iterator[Finding]:
        """Yield the finding of a race between an access of the program and a one-sided operation. Nothing if this pair
        of lines was reported before, or if values may order the two.
        """
        if self.ordering.may_be_ordered_by_values(program, row, int(self.of.rank[operation_row])):
            return
        rank, touches = program.rank, program.touches
        event = self.trace.event(int(self.of.rank[operation_row]), int(self.of.event[operation_row]))
        kind, site = int(touches.kind[row]), rank.site(int(touches.site[row]))
        key = format_site(site), cause_key(event)
        if key in self.told:
            return
        self.told.add(key)
        end = int(self.of.end[operation_row])
        is_other = event.rank is rank and touches.slot[row] != rank.locate(event.index)[0].slot
        other = " (in another thread)" if is_other else ""
        made = make_finding(
            "rma-race",
            f"rank {rank.index} {'stores to' if kind & TouchKind.WRITE else 'loads from'} "
            f"{_describe_bytes(shared_bytes)} "
            f"of rank {self.target}'s window{format_site(site)}{other}, which rank {event.rank.index} "
            f"{_WORDS[int(self.of.sort[operation_row])]} in {call_at(event)}, and nothing orders the two: "
            "add a synchronisation of the window between them",
            [event],
            evidence=MetOperation(
                access="write" if kind & TouchKind.WRITE else "read", bytes=shared_bytes, target=self.target,
                before=EventId(rank.index, int(touches.before[row])), ticks=int(touches.first[row]),
                operation=event.id, over=EventId(event.rank.index, end) if end >= 0 else None,
            ),
            cause="; ".join((access_word(kind), *key)),
        )  # fmt: skip
        yield add_access_site(made, rank, site, kind)

    def _make_shared_window_race(
        self,
        first_program: WindowAccesses,
        first_row: int,
        second_program: WindowAccesses,
        second_row: int,
        shared_bytes: tuple[int, int],
    ) -> Iterator[Finding]:
        """Yield the finding of a race between accesses of two ranks to a shared window. Nothing if this pair of lines
        was reported before, or if values may order the two.
        """
        if (
            self.ordering.may_be_ordered_by_values(first_program, first_row, second_program.rank.index)
            or first_program.flagged
            or second_program.flagged
        ):
            return
        sites = [
            p.rank.site(int(p.touches.site[row]))
            for p, row in ((first_program, first_row), (second_program, second_row))
        ]
        key = format_site(sites[0]), format_site(sites[1])
        if key in self.told or key[::-1] in self.told:
            return
        self.told.add(key)
        kinds = int(first_program.touches.kind[first_row]), int(second_program.touches.kind[second_row])
        verbs = ["stores to" if kind & TouchKind.WRITE else "loads from" for kind in kinds]
        made = make_finding(
            "rma-race",
            f"rank {first_program.rank.index} {verbs[0]} {_describe_bytes(shared_bytes)} of rank {self.target}'s "
            f"shared window{key[0]} and rank {second_program.rank.index} {verbs[1]} them{key[1]}, and nothing "
            "orders the two: add a synchronisation of the window between them",
            [],
            evidence=MetShared(
                access="write" if kinds[0] & TouchKind.WRITE else "read", bytes=shared_bytes,
                target=self.target,
                before=EventId(first_program.rank.index, int(first_program.touches.before[first_row])),
                ticks=int(first_program.touches.first[first_row]),
                other=EventId(second_program.rank.index, int(second_program.touches.before[second_row])),
            ),
            cause="; ".join(sorted(key)),
        )  # fmt: skip
        yield add_access_site(
            add_access_site(made, second_program.rank, sites[1], kinds[1]), first_program.rank, sites[0], kinds[0]
        )


class AlikeRowGroups:
    """Rows grouped by equal bytes and equal other columns."""

    def __init__(self, low: Ints, high: Ints, columns: tuple[NDArray[Any], ...]) -> None:
        self.all = list(_group_alike(low, high, columns)) if len(low) else []
        self.low = np.array([one.low for one in self.all], np.int64)
        self.high = np.array([one.high for one in self.all], np.int64)

    def __iter__(self) -> Iterator[AlikeRows]:
        return iter(self.all)

    def overlapping(self, mine: AlikeRows) -> Iterator[AlikeRows]:
        """Yield the groups of rows whose bytes overlap those of the group `mine`."""
        return (self.all[k] for k in np.flatnonzero((self.low < mine.high) & (self.high > mine.low)).tolist())


def _group_alike(low: Ints, high: Ints, columns: tuple[NDArray[Any], ...]) -> Iterator[AlikeRows]:
    """Yield groups of rows that are equal in all columns and access the same bytes. `low`, `high`: the first byte of
    each row, and the byte after its last.
    """
    table = np.stack([*columns, high, low])
    order = np.lexsort(table)
    changed = (np.diff(table[:, order], axis=1) != 0).any(axis=0)
    for rows in np.split(order, np.flatnonzero(changed) + 1):
        yield AlikeRows(rows, int(low[rows[0]]), int(high[rows[0]]))


def _group_program_accesses(program: WindowAccesses) -> AlikeRowGroups:
    t = program.touches
    return AlikeRowGroups(t.low, t.high, (t.site, t.kind, t.size, t.stride))


def _find_common_bytes(
    first_program: WindowAccesses, first_row: int, second_program: WindowAccesses, second_row: int
) -> tuple[int, int] | None:
    """Return (first byte, byte after the last) that the accesses of two rows share, for the first access that shares
    any. None if there are none.
    """
    if int(first_program.touches.count[first_row]) > int(second_program.touches.count[second_row]):
        return _find_common_bytes(second_program, second_row, first_program, first_row)
    low, step, size = (int(getattr(first_program.touches, name)[first_row]) for name in ("low", "stride", "size"))
    for k in range(min(int(first_program.touches.count[first_row]), 4096)):
        met = second_program.touches.find_shared_bytes(second_row, low + k * step, low + k * step + size)
        if met:
            return met
    return None
