"""Which threads of a rank may be ordered by other means than MPI: OpenMP's barriers, locks, starts and ends of threads.

Programs built with `weft cc` record when each thread let go of what it had done (a release) and when it took over what
others had let go (an acquisition). What one thread did at a time can come before what another did later only if the
first released in between, and the other acquired after that. Without such a record any two threads may be ordered, by
the clock.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.trace import Rank
from weft.trace.layout import TouchKind

Ticks = NDArray[np.int64]
OTHER_THREADS: Final = 1 << 32


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

    def find_last_before(self, thread: int, ticks: Ticks, other_thread: int) -> Ticks:
        """Return, for what a thread did at each of some times, until when all that another thread had done may come
        before it: the other's last release before this thread's last acquisition. -1 if nothing may.
        """
        acquired, released = self._times(thread, TouchKind.ACQUIRED), self._times(other_thread, TouchKind.RELEASED)
        if acquired is None or released is None:
            return ticks
        return _last_at_most(released, _last_at_most(acquired, ticks))

    def find_first_after(self, thread: int, ticks: Ticks, other_thread: int) -> Ticks:
        """Return, for what a thread did at each of some times, from when on all that another thread does may come after
        it: the other's first acquisition after this thread's first release. A time beyond all others if nothing may.
        """
        released, acquired = self._times(thread, TouchKind.RELEASED), self._times(other_thread, TouchKind.ACQUIRED)
        if acquired is None or released is None:
            return ticks
        return _first_at_least(acquired, _first_at_least(released, ticks))


def _last_at_most(times: Ticks, limits: Ticks) -> Ticks:
    at = np.searchsorted(times, limits, "right") - 1
    found: Ticks = np.append(times, -1)[at]  # -1 is the index of the last, too
    return found


def _first_at_least(times: Ticks, limits: Ticks) -> Ticks:
    found: Ticks = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, limits)]
    return found
