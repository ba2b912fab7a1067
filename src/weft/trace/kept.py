"""The end of a run whose beginning was dropped (`weft run --keep`): which calls count, and what came before them.

Each thread's ring begins somewhere else. What counts is what had not returned at the latest of these beginnings, in
every thread: so what is left out is closed to the past. Whatever comes causally behind a call that is there is there
too, since it began later, and the order of the calls that are there is known without those that are not.

Within one host that moment is of one clock; of several hosts it is as good as their clocks agree, and `exact` is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.trace.layout import (
    DROPPED,
    DROPPED_RECEIVED,
    EVENT,
    RECEIVED,
    TAIL_ALIGN,
    Events,
    Flag,
    StreamKind,
    decode_durations,
)
from weft.trace.rings import Before

if TYPE_CHECKING:
    from weft.trace.rank import Rank, Thread

_SORTED: Final = Flag.CLOSED | Flag.ANY_SOURCE | Flag.ANY_TAG | Flag.TRUE | Flag.CANCELLED
"""What of an event's flags tells sorts of dropped calls apart, as in native/record.c."""


class Kept:
    """What a run keeps of its threads' calls. Made for runs in which something was dropped."""

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self._ranks = ranks
        self.made: dict[str, object] = {}
        """What rooms above make of it and keep for whoever asks next, by their names."""
        self._rings: dict[tuple[int, int], tuple[Events, int]] = {}

    @cached_property
    def exact(self) -> bool:
        """Whether the ticks of all ranks are of one clock."""
        return len({(rank.header.host, rank.header.clock) for rank in self._ranks if rank.header}) <= 1

    @cached_property
    def calls(self) -> int:
        """How many calls were dropped, or do not count as others of their time were."""
        return sum(self._before(thread).events + self._start(thread) for r in self._ranks for thread in r.threads)

    @property
    def begins(self) -> int:
        """The moment from which on calls count, ns. A thread's last call is there also where it returned before."""
        return self._since[1]

    def events(self, thread: Thread) -> Events:
        """The calls of a thread that count, with the places of their tails in what is there of these."""
        ring, _ = self._ring(thread)
        events = ring[self._start(thread) :]
        moved = self._before(thread).tails // TAIL_ALIGN
        if moved:
            events = events.copy()
            tailed = (events["flags"] & Flag.HAS_TAIL) != 0
            events["result"][tailed] -= np.uint32(moved % (1 << 32))
            events.flags.writeable = False
        return events

    def before(self, rank: Rank) -> tuple[NDArray[Any], int]:
        """The calls of a rank that do not count, by their sorts (dtype DROPPED), and how many have no sort."""
        parts = [self._before(thread).rows for thread in rank.threads]
        parts += [_sorted_out(self._ring(thread)[0][: self._start(thread)]) for thread in rank.threads]
        parts += [_counted(self._received(thread)) for thread in rank.threads]
        return np.concatenate([np.zeros(0, DROPPED), *parts]), sum(self._before(t).uncounted for t in rank.threads)

    def _received(self, thread: Thread) -> NDArray[Any]:
        """The messages that a thread took for calls that do not count, as sorts of such calls."""
        file = thread.rank.file
        data = file.stream(StreamKind.RECEIVED, thread.slot) if file else np.empty(0, np.uint8)
        rows = data[: len(data) // RECEIVED.itemsize * RECEIVED.itemsize].view(RECEIVED)
        away = np.zeros(len(rows), np.bool_)
        for other in thread.rank.threads:
            first = self._before(other).events + self._start(other)
            ahead = rows["call"] - np.uint32(first % (1 << 32))  # below 0, where it does not count
            away |= (rows["thread"] == other.slot) & (ahead >= 1 << 31)
        sorts = np.zeros(int(away.sum()), DROPPED)
        sorts["function"] = DROPPED_RECEIVED
        for name in ("comm", "peer", "tag"):
            sorts[name] = rows[name][away]
        return sorts

    # Where a thread's calls begin to count

    def _before(self, thread: Thread) -> Before:
        file = thread.rank.file
        return file.before.get(thread.slot, Before()) if file else Before()

    def _ring(self, thread: Thread) -> tuple[Events, int]:
        """All calls that are there, and from which one on all have their tails."""
        key = (thread.rank.index, thread.slot)
        if key not in self._rings:
            file, before = thread.rank.file, self._before(thread)
            data = file.stream(StreamKind.EVENTS, thread.slot) if file else np.empty(0, np.uint8)
            ring: Events = data[: len(data) // EVENT.itemsize * EVENT.itemsize].view(EVENT)
            away = ring["result"] - np.uint32(before.tails // TAIL_ALIGN % (1 << 32))
            lost = np.flatnonzero(((ring["flags"] & Flag.HAS_TAIL) != 0) & (away >= 1 << 31))
            self._rings[key] = ring, int(lost[-1]) + 1 if len(lost) else 0
        return self._rings[key]

    @cached_property
    def _since(self) -> tuple[int, int]:
        """The latest beginning of a ring that dropped something: in ticks, and in ns of the common axis."""
        ticks, ns = 0, -(2**62)
        for rank in self._ranks:
            for thread in rank.threads:
                ring, whole = self._ring(thread)
                if (whole or self._before(thread).events) and whole < len(ring):
                    enter = int(ring["enter"][whole])
                    ticks, ns = max(ticks, enter), max(ns, rank.axis.ns(enter))
        return ticks, ns

    def _start(self, thread: Thread) -> int:
        """The first call that counts: later ones returned at the moment or behind it, or never."""
        ring, whole = self._ring(thread)
        since = self._since[0] if self.exact else thread.rank.axis.ticks(self._since[1])
        returned = ring["enter"] + decode_durations(ring["duration"])
        counts = ((ring["flags"] & Flag.CLOSED) == 0) | (returned >= np.uint64(since))
        counts[:whole] = False
        return int(np.argmax(counts)) if counts.any() else max(0, len(ring) - 1)  # the last call says where it ended


def _sorted_out(events: Events) -> NDArray[Any]:
    """Calls by their sorts, as native/record.c counts those that it drops."""
    sorts = np.zeros(len(events), DROPPED)
    for name in ("function", "error", "comm", "peer", "tag"):
        sorts[name] = events[name]
    sorts["flags"] = events["flags"] & int(_SORTED)
    return _counted(sorts)


def _counted(sorts: NDArray[Any]) -> NDArray[Any]:
    """How many there are of each sort."""
    unique, counts = np.unique(sorts, return_counts=True)
    unique["count"] = counts
    return unique
