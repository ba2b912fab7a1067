"""Decide whether an access and an operation, or two accesses, are ordered: by happens-before, locks or fences."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.access.window_accesses import WindowAccesses
from weft.base.event_id import EventId
from weft.order import Order
from weft.order.threads import ThreadOrder
from weft.terms.calls import masks_of, word_set
from weft.terms.windows import EXCLUSIVE
from weft.trace import Rank, Trace
from weft.usage.lock_handovers import Handovers
from weft.usage.window_accesses import RmaAccesses

_ASKS: Final = word_set(
    "Wait Win_sync Iprobe Test Wtime Win_flush Win_flush_all Win_flush_local Win_flush_local_all Win_lock Win_unlock"
    " Win_lock_all Win_unlock_all Request_get_status"
)
_MOST_BETWEEN: Final = 4
_GETS: Final = word_set("Get Rget Fetch_and_op Get_accumulate")
_FETCHES: Final = word_set("Fetch_and_op Compare_and_swap Get_accumulate")


class AccessOrdering:
    """The order of accesses and operations in one run. An access is between event `before` - 1 and `before` of its
    rank.
    """

    def __init__(self, trace: Trace, order: Order, operations: RmaAccesses) -> None:
        self.trace, self.order = trace, order
        self._handed = Handovers(trace, order, operations)
        self._fetched: dict[int, int] = {}
        self._repeated: dict[int, int] = {}
        self._polled: dict[tuple[int, int], int] = {}
        self._placed: dict[int, tuple[list[list[int]], list[list[int]]]] = {}

    def is_access_first(self, program: WindowAccesses, row: int, operations: RmaAccesses, operation_row: int) -> bool:
        """Return whether an access of the program is surely over before a one-sided operation begins at its target.
        `row`: the access in `program`; `operation_row`: the operation in `operations`.
        """
        rank, after = program.rank.index, self.find_events_after(program, row)
        begins = (
            (int(operations.rank[operation_row]), int(operations.begin[operation_row])),
            (int(operations.target[operation_row]), int(operations.opened[operation_row])),
        )
        return any(self._is_before_or_same(rank, event, *begin) for begin in begins if begin[1] >= 0 for event in after)

    def is_operation_first(
        self, program: WindowAccesses, row: int, operations: RmaAccesses, operation_row: int
    ) -> bool:
        """Return whether a one-sided operation is surely complete at its target before an access of the program. `row`:
        the access in `program`; `operation_row`: the operation in `operations`.
        """
        rank, before = program.rank.index, self.find_events_before(program, row)
        ends = (
            (int(operations.rank[operation_row]), int(operations.end[operation_row])),
            (int(operations.target[operation_row]), int(operations.closed[operation_row])),
        )
        return any(self._is_before_or_same(*end, rank, event) for end in ends if end[1] >= 0 for event in before)

    def is_access_before(self, one: WindowAccesses, a: int, two: WindowAccesses, b: int) -> bool:
        """Return whether access `a` of `one` is over before access `b` of `two` begins."""
        return any(
            self._is_before_or_same(one.rank.index, event, two.rank.index, other)
            for event in self.find_events_after(one, a)
            for other in self.find_events_before(two, b)
        )

    def find_events_after(self, program: WindowAccesses, row: int) -> list[int]:
        """Return, for each thread of the rank, its first event that may come after an access. What comes after one of
        them may come after the access.
        """
        return self._place_among_events(program)[0][row]

    def find_events_before(self, program: WindowAccesses, row: int) -> list[int]:
        """Return, for each thread of the rank, its last event that may come before an access."""
        return self._place_among_events(program)[1][row]

    def _place_among_events(self, program: WindowAccesses) -> tuple[list[list[int]], list[list[int]]]:
        """Return, for each access of the program, the first events that may come after it, and the last before it."""
        found = self._placed.get(id(program))
        if found is None:
            found = self._placed[id(program)] = place_among_events(program)
        return found

    def _is_before_or_same(self, rank: int, event: int, other_rank: int, other_event: int) -> bool:
        """Return whether the start of one event happens before another event, or both are the same. False if either
        event does not exist.
        """
        if other_event < 0 or event >= len(self.trace.ranks[rank]):
            return False
        if rank == other_rank and len(self.trace.ranks[rank].threads) == 1:
            return event <= other_event
        return self.order.reaches(EventId(rank, event), EventId(other_rank, other_event)) or self._handed.reaches(
            rank, event, other_rank, other_event
        )

    @staticmethod
    def is_excluded_from_operation(
        program: WindowAccesses, row: int, operations: RmaAccesses, operation_row: int
    ) -> bool:
        """Return whether an access and a one-sided operation cannot happen at the same time, because of locks or a
        fence between them. `row`: the access in `program`; `operation_row`: the operation in `operations`.
        """
        if program.rank.index == int(operations.rank[operation_row]):
            return False
        locks = {int(program.lock[row]), int(operations.lock[operation_row])}
        parted = int(operations.fence[operation_row]) >= 0 and int(program.fence[row]) != int(
            operations.fence[operation_row]
        )
        return (0 not in locks and EXCLUSIVE in locks) or parted

    @staticmethod
    def is_excluded_from_access(
        first_program: WindowAccesses, first_row: int, second_program: WindowAccesses, second_row: int
    ) -> bool:
        """Return whether accesses of two ranks cannot happen at the same time, because of locks or a fence between
        them. Each is a row of its program's accesses.
        """
        locks = {int(first_program.lock[first_row]), int(second_program.lock[second_row])}
        parted = int(first_program.fence[first_row]) != int(second_program.fence[second_row])
        return (0 not in locks and EXCLUSIVE in locks) or parted

    def is_access_over_first(
        self, program: WindowAccesses, row: int, operations: RmaAccesses, operation_row: int
    ) -> bool:
        """Return whether an access ended before a one-sided operation did, by the clock. True if the operation never
        ended.
        """
        end = int(operations.end[operation_row])
        over = self.trace.event(int(operations.rank[operation_row]), end).exit_ns if end >= 0 else None
        if over is None:
            return True
        axis = program.rank.axis
        return int(axis.ns_array(np.array([program.touches.last[row]], np.uint64))[0]) <= over

    def note_polling(self, program: WindowAccesses, row: int, other: int) -> None:
        """Note that a rank waited for an operation of rank `other` by loading a value again and again. From access
        `row` on, it knows of the operation.
        """
        key, before = (program.rank.index, other), int(program.touches.before[row])
        self._polled[key] = min(before, self._polled.get(key, before))

    def may_be_ordered_by_values(self, program: WindowAccesses, row: int, other_rank: int) -> bool:
        """Return whether an access may come after another rank's work by means that the record does not show.

        Such means are a value of the other rank that was waited for, by loads or gets, and locks made of atomic
        fetches.
        """
        before, rank = int(program.touches.before[row]), program.rank.index
        if before >= self._polled.get((rank, other_rank), before + 1) or before > self._find_first_repeated_get(rank):
            return True
        return self._find_first_fetch(rank) < before and self._find_first_fetch(other_rank) < len(
            self.trace.ranks[other_rank]
        )

    def has_only_polling_calls(self, rank: Rank, first_event: int, end_event: int) -> bool:
        """Return whether a rank makes calls between two events, all of them calls that are made while waiting.
        `first_event`, `end_event`: indices, the end excluded.
        """
        functions = rank.events["function"][first_event:end_event]
        return 0 < len(functions) <= _MOST_BETWEEN and bool(
            masks_of(self.trace.functions).table(_ASKS)[functions].all()
        )

    def _find_first_fetch(self, rank: int) -> int:
        """Return the index of a rank's first atomic fetch. If it has none, return a number above all its indices."""
        if rank not in self._fetched:
            of = self.trace.ranks[rank]
            events = masks_of(self.trace.functions).where(of, _FETCHES)
            self._fetched[rank] = int(events[0]) if len(events) else len(of) + 1
        return self._fetched[rank]

    def _find_first_repeated_get(self, rank: int) -> int:
        """Return the index of a rank's first MPI_Get that repeats an earlier one, with only completing calls between
        them. Both have the same source line and buffer. If there is none, return a number above all its indices.
        """
        if rank not in self._repeated:
            of = self.trace.ranks[rank]
            events = masks_of(self.trace.functions).where(of, _GETS)
            rows = of.events[events]
            same = (rows["site"][1:] == rows["site"][:-1]) & (rows["buffer"][1:] == rows["buffer"][:-1])
            pairs = np.flatnonzero(same & (np.diff(events) <= _MOST_BETWEEN))
            again = (
                int(events[k + 1])
                for k in pairs
                if self.has_only_polling_calls(of, int(events[k]) + 1, int(events[k + 1]))
            )
            self._repeated[rank] = next(again, len(of) + 1)
        return self._repeated[rank]


def place_among_events(program: WindowAccesses) -> tuple[list[list[int]], list[list[int]]]:
    """Return, for each access of a rank, the first event of each thread that may come after it, and the last of each
    thread that may come before it. Threads without such an event are left out.
    """
    rank, touches = program.rank, program.touches
    one_thread = len(rank.threads) == 1
    if one_thread and len(np.unique(touches.tid)) == 1 and not (touches.slot < 0).any():
        return [[event] for event in touches.before.tolist()], [[event - 1] for event in touches.before.tolist()]
    threads = ThreadOrder(rank)
    after: list[list[int]] = [[] for _ in range(len(touches))]
    before: list[list[int]] = [[] for _ in range(len(touches))]
    for number, thread in enumerate(rank.threads):
        calls = threads.calls[number]
        for tid in np.unique(touches.tid).tolist():
            rows = np.flatnonzero(touches.tid == tid)
            ticks, name, own = touches.first[rows], threads.name_thread(tid), touches.own_events[rows]
            if name == thread.slot:
                at = np.where(own >= 0, own, np.searchsorted(calls.begun, ticks))  # it had no calls yet
                padded = np.concatenate([[-1], calls.events, [-1]])
                first, last = padded[at + 1], padded[at]
            else:
                first = threads.find_first_calls(name, ticks, number)
                last = threads.find_last_calls(name, ticks, number)
            for row, next_event, last_event in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
                after[row] += [next_event] if next_event >= 0 else []
                before[row] += [last_event] if last_event >= 0 else []
    return after, before
