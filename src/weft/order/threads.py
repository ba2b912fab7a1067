"""Which threads of a rank may be ordered by other means than MPI: OpenMP's barriers, locks, starts and ends of threads.

Programs built with `weft cc` record when each thread let go of what it had done (a release) and when it took over what
others had let go (an acquisition). What one thread did at a time can come before what another did later only if the
first released in between, and the other acquired after that. Without such a record any two threads may be ordered, by
the clock.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.trace import Flag, Rank
from weft.trace.layout import TouchKind, compute_return_ticks

Ticks = NDArray[np.int64]
OTHER_THREADS: Final = 1 << 32


class _ThreadCalls(NamedTuple):
    """The calls of a thread as events, with the ticks at which they began; those that returned, with the ticks then."""

    events: Ticks
    begun: Ticks
    complete: Ticks
    returned: Ticks


class ThreadOrder:
    """What may order the threads of one rank. Times are in ticks.

    A thread that calls MPI is named by its slot, which a later thread may take over; others by OTHER_THREADS plus the
    system's number (tid).
    """

    def __init__(self, rank: Rank) -> None:
        self.rank = rank

    @cached_property
    def _rows(self) -> NDArray[Any]:
        """Return the recorded releases and acquisitions; none if the record says that they are not all."""
        rows = self.rank.accesses_to_pending_buffers
        rows = rows[rows["kind"] >= TouchKind.RELEASED]
        return rows[:0] if (rows["kind"] == TouchKind.UNORDERED).any() else rows

    @cached_property
    def _slots(self) -> dict[int, int]:
        """Return the slot of each thread that calls MPI: tid -> slot."""
        rows = self.rank.accesses_to_pending_buffers
        rows = rows[rows["thread"] > 0]
        return dict(zip(rows["tid"].tolist(), (rows["thread"].astype(np.int64) - 1).tolist(), strict=True))

    def name_thread(self, tid: int) -> int:
        """Return the name of a thread of the given system's number."""
        return self._slots.get(tid, OTHER_THREADS + tid)

    @cached_property
    def _by_kind(self) -> dict[tuple[int, int], Ticks]:
        """Return the times at which each thread released, and acquired: (thread, kind) -> ascending ticks."""
        rows = self._rows
        names = np.array([self.name_thread(tid) for tid in rows["tid"].tolist()], np.int64)
        kinds = rows["kind"].astype(np.int64)
        return {
            (name, kind): np.sort(rows["first"][(names == name) & (kinds == kind)]).astype(np.int64)
            for name, kind in set(zip(names.tolist(), kinds.tolist(), strict=True))
        }

    def _times(self, thread: int, kind: TouchKind) -> Ticks | None:
        """Return when a thread released, or acquired; None if that is not known."""
        if not any((thread, of) in self._by_kind for of in (TouchKind.RELEASED, TouchKind.ACQUIRED)):
            return None
        return self._by_kind.get((thread, int(kind)), np.zeros(0, np.int64))

    @cached_property
    def calls(self) -> list[_ThreadCalls]:
        """Return the calls of each thread that calls MPI, in the order of `rank.threads`."""
        events, by_thread = self.rank.events, self.rank.event_threads
        closed = events["flags"] & Flag.CLOSED != 0
        found = []
        for number in range(len(self.rank.threads)):
            own = np.flatnonzero(by_thread == number)
            complete = own[closed[own]]
            returned = compute_return_ticks(events[complete]).astype(np.int64)
            found.append(_ThreadCalls(own, events["enter"][own].astype(np.int64), complete, returned))
        return found

    def find_last_calls(self, thread: int, ticks: Ticks, number: int) -> Ticks:
        """Return, for what a thread did at each of some times, the last call (event) of another thread that may come
        before it: one that had returned by the other's last release before this thread's last acquisition. -1 if none
        may. `number`: the other thread's index in `rank.threads`.
        """
        acquired = self._times(thread, TouchKind.ACQUIRED)
        released = self._times(self.rank.threads[number].slot, TouchKind.RELEASED)
        if acquired is not None and released is not None:
            ticks = _last_at_most(released, _last_at_most(acquired, ticks))
        calls = self.calls[number]
        return np.append(calls.complete, -1)[np.searchsorted(calls.returned, ticks, "right") - 1]

    def find_first_calls(self, thread: int, ticks: Ticks, number: int) -> Ticks:
        """Return, for what a thread did at each of some times, the first call (event) of another thread that may come
        after it: one that began after the other's first acquisition after this thread's first release. -1 if none may.
        `number`: the other thread's index in `rank.threads`.
        """
        released = self._times(thread, TouchKind.RELEASED)
        acquired = self._times(self.rank.threads[number].slot, TouchKind.ACQUIRED)
        if acquired is not None and released is not None:
            ticks = _first_at_least(acquired, _first_at_least(released, ticks))
        calls = self.calls[number]
        return np.append(calls.events, -1)[np.searchsorted(calls.begun, ticks)]


def _last_at_most(times: Ticks, limits: Ticks) -> Ticks:
    at = np.searchsorted(times, limits, "right") - 1
    found: Ticks = np.append(times, -1)[at]  # -1 is the index of the last, too
    return found


def _first_at_least(times: Ticks, limits: Ticks) -> Ticks:
    found: Ticks = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, limits)]
    return found
