"""The suffix of a run whose rings dropped its first calls: the calls that count, and the counts of those before them.

The ring of each thread begins at another moment. The suffix is what had not returned at the latest of these moments,
in every thread. So its complement is closed to the past: whatever follows causally from a call of the suffix began
later, and is in the suffix too; the order of its calls is known without the dropped ones.

On one host that moment is of one clock. On several hosts it is as exact as their clocks agree (`has_one_clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.trace.clock import Axis
from weft.trace.layout import (
    DROPPED,
    DROPPED_RECEIVED,
    EVENT,
    RECEIVED,
    TAIL_ALIGN,
    Events,
    Flag,
    StreamKind,
    compute_return_ticks,
)
from weft.trace.rankfile import RankFile
from weft.trace.rings.chunks import DroppedCalls

_SORT_FLAGS: Final = Flag.CLOSED | Flag.ANY_SOURCE | Flag.ANY_TAG | Flag.TRUE | Flag.CANCELLED
"""What of an event's flags tells sorts of dropped calls apart, as in native/record.c."""

Derived = TypeVar("Derived")


class SuffixThread(Protocol):
    """What `Suffix` needs to know of a thread."""

    @property
    def slot(self) -> int:
        """Return its number in the rank's record."""

    @property
    def rank(self) -> SuffixRank:
        """Return the rank that it belongs to."""


class SuffixRank(Protocol):
    """What `Suffix` needs to know of a rank."""

    @property
    def index(self) -> int:
        """Return its place among the ranks of the run."""

    @property
    def file(self) -> RankFile | None:
        """Return its record, None if it left none."""

    @property
    def axis(self) -> Axis:
        """Return how its ticks become nanoseconds of the run."""

    @property
    def threads(self) -> Sequence[SuffixThread]:
        """Return its threads that recorded something."""


class Suffix:
    """The calls of a run from the moment on that the rings of all its threads still have."""

    def __init__(self, ranks: Sequence[SuffixRank], *, has_one_clock: bool) -> None:
        self._ranks = ranks
        self.has_one_clock = has_one_clock
        self._derived: dict[type, object] = {}
        self._rings: dict[tuple[int, int], tuple[Events, int]] = {}

    def derive_once(self, kind: type[Derived], make: Callable[[], Derived]) -> Derived:
        """Return the object of class `kind` that was computed from these calls. `make()` computes it at the first
        request.
        """
        found = self._derived.get(kind)
        if not isinstance(found, kind):
            found = self._derived[kind] = make()
        return found

    @cached_property
    def dropped_count(self) -> int:
        """Return how many calls of the run do not count, because they lie before the moment that every ring
        still has.
        """
        threads = [thread for rank in self._ranks for thread in rank.threads]
        return sum(self._dropped(thread).events + self._first_call(thread) for thread in threads)

    @property
    def begin_ns(self) -> int:
        """Return the time in ns from which on all calls are known. A thread's last call is kept even if it returned
        before.
        """
        return self._begin_ticks_and_ns[1]

    def events(self, thread: SuffixThread) -> Events:
        """Return the calls of a thread from the moment on that every ring still has; earlier ones do not count. The
        places of their tails are offsets in the TAILS stream as it is in the file.
        """
        ring, _ = self._read_ring(thread)
        events = ring[self._first_call(thread) :]
        moved = self._dropped(thread).tails // TAIL_ALIGN
        if moved:
            events = events.copy()
            tailed = (events["flags"] & Flag.HAS_TAIL) != 0
            events["result"][tailed] -= np.uint32(moved % (1 << 32))
            events.flags.writeable = False
        return events

    def dropped_sorts(self, rank: SuffixRank) -> tuple[NDArray[Any], int]:
        """Return how many calls of each sort a rank made before the calls that count (dtype DROPPED), and how many more
        were not counted by sort. A sort is function, error, communicator, peer, tag and flags.
        """
        parts = [self._dropped(thread).sorts for thread in rank.threads]
        parts += [
            count_calls_by_sort(self._read_ring(thread)[0][: self._first_call(thread)]) for thread in rank.threads
        ]
        parts += [_sum_equal_sorts(self._rows_of_earlier_receives(thread)) for thread in rank.threads]
        return np.concatenate([np.zeros(0, DROPPED), *parts]), sum(self._dropped(t).uncounted for t in rank.threads)

    def _rows_of_earlier_receives(self, thread: SuffixThread) -> NDArray[Any]:
        """Return communicator, peer and tag of the messages that a thread received for calls before the suffix (the
        calls that count). Each message has one row (dtype DROPPED).
        """
        file = thread.rank.file
        data = file.stream(StreamKind.RECEIVED, thread.slot) if file else np.empty(0, np.uint8)
        rows = data[: len(data) // RECEIVED.itemsize * RECEIVED.itemsize].view(RECEIVED)
        is_before = np.zeros(len(rows), np.bool_)
        for other in thread.rank.threads:
            first = self._dropped(other).events + self._first_call(other)
            distance = rows["call"] - np.uint32(first % (1 << 32))  # below 0, where the call is before the suffix
            is_before |= (rows["thread"] == other.slot) & (distance >= 1 << 31)
        sorts = np.zeros(int(is_before.sum()), DROPPED)
        sorts["function"] = DROPPED_RECEIVED
        for name in ("comm", "peer", "tag"):
            sorts[name] = rows[name][is_before]
        return sorts

    # Where the suffix begins

    def _dropped(self, thread: SuffixThread) -> DroppedCalls:
        file = thread.rank.file
        return file.dropped.get(thread.slot, DroppedCalls()) if file else DroppedCalls()

    def _read_ring(self, thread: SuffixThread) -> tuple[Events, int]:
        """Return all calls that a thread's ring buffer still has, and the index from which on none of them lacks its
        tail (its further arguments).
        """
        key = (thread.rank.index, thread.slot)
        if key not in self._rings:
            file, dropped = thread.rank.file, self._dropped(thread)
            data = file.stream(StreamKind.EVENTS, thread.slot) if file else np.empty(0, np.uint8)
            ring: Events = data[: len(data) // EVENT.itemsize * EVENT.itemsize].view(EVENT)
            distance = ring["result"] - np.uint32(dropped.tails // TAIL_ALIGN % (1 << 32))
            lost = np.flatnonzero(((ring["flags"] & Flag.HAS_TAIL) != 0) & (distance >= 1 << 31))
            self._rings[key] = ring, int(lost[-1]) + 1 if len(lost) else 0
        return self._rings[key]

    @cached_property
    def _begin_ticks_and_ns(self) -> tuple[int, int]:
        """Return the moment from which on every ring has all calls: in clock ticks, and in ns of the common time axis.
        It is the latest beginning of a ring that dropped something.
        """
        ticks, ns = 0, -(2**62)
        for rank in self._ranks:
            for thread in rank.threads:
                ring, whole = self._read_ring(thread)
                if (whole or self._dropped(thread).events) and whole < len(ring):
                    enter = int(ring["enter"][whole])
                    ticks, ns = max(ticks, enter), max(ns, rank.axis.ns(enter))
        return ticks, ns

    def _first_call(self, thread: SuffixThread) -> int:
        """Return the index, in a thread's ring, of the first call that counts: it returned at the begin of the suffix
        or later, or not at all.
        """
        ring, whole = self._read_ring(thread)
        begin = (
            self._begin_ticks_and_ns[0] if self.has_one_clock else thread.rank.axis.ticks(self._begin_ticks_and_ns[1])
        )
        returned = compute_return_ticks(ring)
        counts = ((ring["flags"] & Flag.CLOSED) == 0) | (returned >= np.uint64(begin))
        counts[:whole] = False
        return int(np.argmax(counts)) if counts.any() else max(0, len(ring) - 1)  # the last call says where it ended


def count_calls_by_sort(events: Events) -> NDArray[Any]:
    """Return one row for each sort of calls, with the number of such calls in `count`. A sort is function, error,
    communicator, peer, tag and flags.

    native/record.c counts the calls that it drops in this way.
    """
    sorts = np.zeros(len(events), DROPPED)
    for name in ("function", "error", "comm", "peer", "tag"):
        sorts[name] = events[name]
    sorts["flags"] = events["flags"] & int(_SORT_FLAGS)
    return _sum_equal_sorts(sorts)


def _sum_equal_sorts(sorts: NDArray[Any]) -> NDArray[Any]:
    """Return one row for each distinct row, with the number of its occurrences in `count`."""
    unique, counts = np.unique(sorts, return_counts=True)
    unique["count"] = counts
    return unique
