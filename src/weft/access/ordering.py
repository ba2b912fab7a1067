"""Decide whether an access and an operation, or two accesses, are ordered: by happens-before, locks or fences."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.access.window_accesses import WindowAccesses
from weft.base.event_id import EventId
from weft.order import Order
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

    def is_access_first(self, program: WindowAccesses, row: int, of: RmaAccesses, op: int) -> bool:
        """Return whether access `row` is over when operation `op` of `of` may begin at the target."""
        rank, before = program.rank.index, int(program.touches.before[row])
        begins = (int(of.rank[op]), int(of.begin[op])), (int(of.target[op]), int(of.opened[op]))
        return any(self._reaches(rank, before, *begin) for begin in begins if begin[1] >= 0)

    def is_operation_first(self, program: WindowAccesses, row: int, of: RmaAccesses, op: int) -> bool:
        """Return whether operation `op` of `of` is complete at the target before access `row`."""
        rank, behind = program.rank.index, int(program.touches.before[row]) - 1
        ends = (int(of.rank[op]), int(of.end[op])), (int(of.target[op]), int(of.closed[op]))
        return any(self._reaches(*end, rank, behind) for end in ends if end[1] >= 0)

    def is_access_before(self, one: WindowAccesses, a: int, two: WindowAccesses, b: int) -> bool:
        """Return whether access `a` of `one` is over before access `b` of `two` begins."""
        first, second = int(one.touches.before[a]), int(two.touches.before[b]) - 1
        return self._reaches(one.rank.index, first, two.rank.index, second)

    def _reaches(self, rank: int, event: int, other: int, behind: int) -> bool:
        """Return whether the start of event (`rank`, `event`) happens before, or is, the event (`other`, `behind`)."""
        if behind < 0 or event >= len(self.trace.ranks[rank]):
            return False
        if rank == other:
            return event <= behind
        return self.order.reaches(EventId(rank, event), EventId(other, behind)) or self._handed.reaches(
            rank, event, other, behind
        )

    @staticmethod
    def is_excluded_from_operation(program: WindowAccesses, row: int, of: RmaAccesses, op: int) -> bool:
        """Return whether locks exclude an access and an operation from each other, or a fence separates them."""
        if program.rank.index == int(of.rank[op]):
            return False
        locks = {int(program.lock[row]), int(of.lock[op])}
        parted = int(of.fence[op]) >= 0 and int(program.fence[row]) != int(of.fence[op])
        return (0 not in locks and EXCLUSIVE in locks) or parted

    @staticmethod
    def is_excluded_from_access(one: WindowAccesses, a: int, two: WindowAccesses, b: int) -> bool:
        """Return whether locks exclude two accesses from each other, or a fence separates them."""
        locks = {int(one.lock[a]), int(two.lock[b])}
        parted = int(one.fence[a]) != int(two.fence[b])
        return (0 not in locks and EXCLUSIVE in locks) or parted

    def is_access_over_first(self, program: WindowAccesses, row: int, of: RmaAccesses, op: int) -> bool:
        """Return whether the access ended, by the clock, before the operation did."""
        end = int(of.end[op])
        over = self.trace.event(int(of.rank[op]), end).exit_ns if end >= 0 else None
        if over is None:
            return True
        axis = program.rank.axis
        return int(axis.ns_array(np.array([program.touches.last[row]], np.uint64))[0]) <= over

    def polled(self, program: WindowAccesses, row: int, other: int) -> None:
        """Note that a rank waited for an operation of rank `other` by loading the value again and again."""
        key, before = (program.rank.index, other), int(program.touches.before[row])
        self._polled[key] = min(before, self._polled.get(key, before))

    def may_be_ordered_by_values(self, program: WindowAccesses, row: int, other: int) -> bool:
        """Return whether an access may be ordered after another rank by means that the record does not show.

        Such means are a value of the other rank that was waited for, by loads or gets, and locks made of atomic
        fetches.
        """
        before, rank = int(program.touches.before[row]), program.rank.index
        if before >= self._polled.get((rank, other), before + 1) or before > self._first_repeated_get(rank):
            return True
        return self._first_fetch(rank) < before and self._first_fetch(other) < len(self.trace.ranks[other])

    def has_only_polling_calls(self, rank: Rank, first: int, last: int) -> bool:
        """Return whether there are calls between two events, and only those that a rank makes while it waits."""
        functions = rank.events["function"][first:last]
        return 0 < len(functions) <= _MOST_BETWEEN and bool(
            masks_of(self.trace.functions).table(_ASKS)[functions].all()
        )

    def _first_fetch(self, rank: int) -> int:
        """Return the first atomic fetch of a rank; an index after its last event if it has none."""
        if rank not in self._fetched:
            of = self.trace.ranks[rank]
            events = masks_of(self.trace.functions).where(of, _FETCHES)
            self._fetched[rank] = int(events[0]) if len(events) else len(of) + 1
        return self._fetched[rank]

    def _first_repeated_get(self, rank: int) -> int:
        """Return the first get that repeats one of the same line into the same place, with only completions between
        them.
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
