"""Whether an access and an operation, or two accesses, are ordered: by happens-before, by locks, by fences."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.access.exposed import Exposed
from weft.base.event_id import EventId
from weft.order import Order
from weft.terms.calls import masks, words
from weft.terms.windows import EXCLUSIVE
from weft.trace import Rank, Trace
from weft.usage.lock_handovers import Handovers
from weft.usage.window_accesses import WindowAccesses

_ASKS: Final = words(
    "Wait Win_sync Iprobe Test Wtime Win_flush Win_flush_all Win_flush_local Win_flush_local_all Win_lock Win_unlock"
    " Win_lock_all Win_unlock_all Request_get_status"
)
_MOST_BETWEEN: Final = 4
_GETS: Final = words("Get Rget Fetch_and_op Get_accumulate")
_FETCHES: Final = words("Fetch_and_op Compare_and_swap Get_accumulate")


class Ordering:
    """Answers for one run. An access stands between event `before` - 1 and event `before` of its rank."""

    def __init__(self, trace: Trace, order: Order, operations: WindowAccesses) -> None:
        self.trace, self.order = trace, order
        self._handed = Handovers(trace, order, operations)
        self._fetched: dict[int, int] = {}
        self._repeated: dict[int, int] = {}
        self._polled: dict[tuple[int, int], int] = {}

    def access_first(self, program: Exposed, row: int, of: WindowAccesses, op: int) -> bool:
        """Whether the access is over when the operation may begin at the target."""
        rank, before = program.rank.index, int(program.touches.before[row])
        begins = (int(of.rank[op]), int(of.begin[op])), (int(of.target[op]), int(of.opened[op]))
        return any(self._reaches(rank, before, *begin) for begin in begins if begin[1] >= 0)

    def operation_first(self, program: Exposed, row: int, of: WindowAccesses, op: int) -> bool:
        """Whether the operation is complete at the target before the access."""
        rank, behind = program.rank.index, int(program.touches.before[row]) - 1
        ends = (int(of.rank[op]), int(of.end[op])), (int(of.target[op]), int(of.closed[op]))
        return any(self._reaches(*end, rank, behind) for end in ends if end[1] >= 0)

    def accesses_ordered(self, one: Exposed, a: int, two: Exposed, b: int) -> bool:
        """Whether one access is over before another begins."""
        first, second = int(one.touches.before[a]), int(two.touches.before[b]) - 1
        return self._reaches(one.rank.index, first, two.rank.index, second)

    def _reaches(self, rank: int, event: int, other: int, behind: int) -> bool:
        """Whether an event's start comes before, or is, another's end."""
        if behind < 0 or event >= len(self.trace.ranks[rank]):
            return False
        if rank == other:
            return event <= behind
        return self.order.reaches(EventId(rank, event), EventId(other, behind)) or self._handed.reaches(
            rank, event, other, behind
        )

    @staticmethod
    def kept_apart(program: Exposed, row: int, of: WindowAccesses, op: int) -> bool:
        """Whether locks of two ranks exclude one the other, or fences part them."""
        if program.rank.index == int(of.rank[op]):
            return False
        locks = {int(program.lock[row]), int(of.lock[op])}
        parted = int(of.fence[op]) >= 0 and int(program.fence[row]) != int(of.fence[op])
        return (0 not in locks and EXCLUSIVE in locks) or parted

    @staticmethod
    def both_kept_apart(one: Exposed, a: int, two: Exposed, b: int) -> bool:
        """The same for two accesses."""
        locks = {int(one.lock[a]), int(two.lock[b])}
        parted = int(one.fence[a]) != int(two.fence[b])
        return (0 not in locks and EXCLUSIVE in locks) or parted

    def ends_first(self, program: Exposed, row: int, of: WindowAccesses, op: int) -> bool:
        """Whether the access is over in time before the operation."""
        end = int(of.end[op])
        over = self.trace.event(int(of.rank[op]), end).exit_ns if end >= 0 else None
        if over is None:
            return True
        axis = program.rank.axis
        return int(axis.ns_array(np.array([program.touches.last[row]], np.uint64))[0]) <= over

    def polled(self, program: Exposed, row: int, other: int) -> None:
        """Take down that a rank waited for another's operation by loading what it changes, again and again."""
        key, before = (program.rank.index, other), int(program.touches.before[row])
        self._polled[key] = min(before, self._polled.get(key, before))

    def by_hand(self, program: Exposed, row: int, other: int) -> bool:
        """Whether what orders an access and another rank may be made by hand, of which the record knows nothing.

        A value of the other's that was waited for, by loads or by gets, or locks of atomic fetches by both ranks.
        """
        before, rank = int(program.touches.before[row]), program.rank.index
        if before >= self._polled.get((rank, other), before + 1) or before > self._first_repeated_get(rank):
            return True
        return self._first_fetch(rank) < before and self._first_fetch(other) < len(self.trace.ranks[other])

    def only_asks(self, rank: Rank, first: int, last: int) -> bool:
        """Whether there are calls between two accesses, and none but those that a rank makes while it waits."""
        functions = rank.events["function"][first:last]
        return 0 < len(functions) <= _MOST_BETWEEN and bool(masks(self.trace.functions).table(_ASKS)[functions].all())

    def _first_fetch(self, rank: int) -> int:
        """The first atomic fetch of a rank, behind its last event where it has none."""
        if rank not in self._fetched:
            of = self.trace.ranks[rank]
            events = masks(self.trace.functions).where(of, _FETCHES)
            self._fetched[rank] = int(events[0]) if len(events) else len(of) + 1
        return self._fetched[rank]

    def _first_repeated_get(self, rank: int) -> int:
        """The first get that follows one by the same line into the same place, with only completions between."""
        if rank not in self._repeated:
            of = self.trace.ranks[rank]
            events = masks(self.trace.functions).where(of, _GETS)
            rows = of.events[events]
            same = (rows["site"][1:] == rows["site"][:-1]) & (rows["buffer"][1:] == rows["buffer"][:-1])
            pairs = np.flatnonzero(same & (np.diff(events) <= _MOST_BETWEEN))
            again = (int(events[k + 1]) for k in pairs if self.only_asks(of, int(events[k]) + 1, int(events[k + 1])))
            self._repeated[rank] = next(again, len(of) + 1)
        return self._repeated[rank]
