"""Makes a run of its own of some calls of each rank of a run: long runs are analysed a segment at a time.

Definitions, communicators, places and clocks are the whole run's. Only ranks of one thread are cut up.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.trace.layout import Events, StreamKind
from weft.trace.mapping import release_pages
from weft.trace.rank import Rank, Run, Thread
from weft.trace.run import Trace

_OF_CALLS: Final = ("threads", "_merged_events", "tasks", "accesses_to_pending_buffers", "message_hashes")
"""The caches that a rank makes from its calls, and that a part of it makes again."""
SEGMENT: Final = 2_000_000
"""Calls of a segment, about; runs of fewer than twice as many stay whole."""
NOTHING: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Lookahead:
    """What a segment with wildcard receives knows of the rest of the run, by rank.

    `told`: how many of its calls are its own; later ones are there to be looked at. `behind`: whether a race is before
    its first one. `sends`: who may send it something after all of them, where anybody may.
    """

    told: NDArray[np.int64]
    behind: NDArray[np.bool_]
    sends: Mapping[int, Sequence[int]]


class _TraceOfOpenRun(Trace):
    """A trace of a run that is open already: what was read of the run is shared."""

    def __init__(self, run: Trace) -> None:
        self.__dict__.update(run.__dict__)
        self._origin, self._end = run.origin, None

    @property
    def origin(self) -> Trace:
        return self._origin


class Segment(_TraceOfOpenRun):
    """The calls `first[r]` up to before `last[r]` of each rank r of a run.

    `earlier` holds by rank calls before them that are there as well, in front: those that made what these go on with.
    `out` holds by rank those of these calls whose messages belong to what comes after. `fenced`: by rank and window,
    how many fences there were before all of them. An index counts calls here; `whole` and `here` translate.
    """

    def __init__(
        self, run: Trace, first: Sequence[int], last: Sequence[int], earlier: Sequence[NDArray[np.int64]] = (),
        *, out: Sequence[NDArray[np.int64]] = (), fenced: Sequence[Mapping[int, int]] = (),
    ) -> None:  # fmt: skip
        # What is read of a run once is read before it is shared.
        _ = run.communicators, run._axes, run.sites, run.names, run.suffix
        super().__init__(run)
        self.__dict__.pop("event_count", None)
        self.first, self.last = list(first), list(last)
        self.has_earlier_calls = any(self.first)
        self.goes_on = any(end < len(rank) for end, rank in zip(self.last, run.ranks, strict=True))
        self.earlier = list(earlier) or [NOTHING] * len(self.first)
        self.out = list(out)
        self.look: Lookahead | None = None
        self._whole, self._fenced = run.ranks, list(fenced) or [{}] * len(self.first)
        self.ranks = [self._make_rank(rank) for rank in run.ranks]

    def _make_rank(self, rank: Rank) -> Rank:
        """Return the part of a rank that lies in this segment of the run."""
        part = _copy_without_caches(rank, self)
        part.fenced = self._fenced[rank.index]
        own = range(self.first[rank.index], self.last[rank.index])
        part.ahead = len(self.earlier[rank.index])
        part.__dict__["threads"] = [_PartOfThread(part, t, own, self.earlier[rank.index]) for t in rank.threads]
        return part

    def __repr__(self) -> str:
        return f"<Segment of {self.path}: {self.event_count} calls>"

    @property
    def event_count(self) -> int:
        """Return the number of calls."""
        return sum(map(len, self.ranks))

    def to_run_event(self, event: EventId) -> EventId:
        """Return the id, in the whole run, of an event of this segment."""
        rank, index = event
        before = self.earlier[rank]
        return EventId(rank, int(before[index]) if index < len(before) else self.first[rank] + index - len(before))

    def to_segment_event(self, event: EventId) -> EventId | None:
        """Return the id, in this segment, of an event of the whole run; None if the event is not in the segment."""
        rank, index = event
        before = self.earlier[rank]
        if self.first[rank] <= index < self.last[rank]:
            return EventId(rank, index - self.first[rank] + len(before))
        place = int(np.searchsorted(before, index))
        return EventId(rank, place) if place < len(before) and before[place] == index else None

    def outgoing_events(self, rank: int) -> list[int]:
        """Return the events of a rank in this segment that belong to messages of later calls of the run."""
        here = [self.to_segment_event(EventId(rank, index)) for index in self.out[rank].tolist()] if self.out else []
        return [event[1] for event in here if event is not None]

    def release(self) -> None:
        """Give back the memory of the record and of all that was computed from the calls. Both are read again at the
        next access.
        """
        for rank in self.ranks:
            for thread in rank.threads:
                assert isinstance(thread, _PartOfThread)
                thread.release()
        self.ranks = [self._make_rank(rank) for rank in self._whole]


def lookahead_of(trace: Trace) -> Lookahead | None:
    """Return what a segment must know of the rest of the run; None for a whole run."""
    return trace.look if isinstance(trace, Segment) else None


class _PartOfThread(Thread):
    """Some calls of a thread."""

    def __init__(self, rank: Rank, of: Thread, own: range, earlier: NDArray[np.int64]) -> None:
        super().__init__(rank, of.slot)
        self._all, self._earlier = of.events, earlier
        self._own = self._all[own.start : own.stop]
        self.__dict__["tails"] = of.tails

    @cached_property
    def events(self) -> Events:
        """Return the calls of this part of a thread; earlier calls that still matter come first."""
        earlier = self._earlier
        joined = np.concatenate([self._all[earlier], self._own]) if len(earlier) else self._own[:]
        if len(earlier):
            joined["duration"][: len(earlier)] = 0  # their time is the segment's in which they were made
        joined.flags.writeable = False
        return joined

    def release(self) -> None:
        release_pages(self._own)
        release_pages(self.tails)


def _copy_without_caches(rank: Rank, trace: Run) -> Rank:
    """Return a copy of a rank that belongs to another trace. What was computed from its calls is not copied."""
    _ = rank.definitions, rank.endings, rank._datatypes
    part = copy.copy(rank)
    part.trace = trace
    for name in _OF_CALLS:
        part.__dict__.pop(name, None)
    return part


class _OneRankView(_TraceOfOpenRun):
    """A run of which this process reads one rank, and drops what it derived from that together with this object."""

    def __init__(self, run: Trace, rank: int) -> None:
        super().__init__(run)
        self.ranks = list(run.ranks)
        self.ranks[rank] = _copy_without_caches(run.ranks[rank], self)
        self.share = range(rank, rank + 1)


def view_one_rank(run: Trace, rank: int) -> Trace:
    """Return the run for code that reads only one of its ranks. `rank`: its rank index."""
    return _OneRankView(run, rank)


def cut_rank(rank: Rank, own_calls: range, earlier: NDArray[np.int64] = NOTHING) -> Rank:
    """Return a rank that consists of some calls of another, which must have one thread. `own_calls`: the range of the
    calls; `earlier`: indices of calls before them that are included, too.
    """
    part = _copy_without_caches(rank, rank.trace)
    part.ahead = len(earlier)
    part.__dict__["threads"] = [_PartOfThread(part, rank.threads[0], own_calls, earlier)]
    return part


def release_piece(piece: Rank) -> None:
    """Give back the memory of a rank made by `cut_rank`. Without this, it and its thread keep each other alive."""
    for thread in piece.__dict__.pop("threads"):
        thread.release()


def is_divisible(trace: Trace) -> bool:
    """Return whether a long run can be analysed part by part. Its records must be whole, of one world and with one
    thread each, and have no tasks, accesses to pending buffers or hashes of messages.
    """
    beside = (StreamKind.ACCESSES, StreamKind.HASHES, StreamKind.CONTENTS)
    return (
        trace.suffix is None and trace.until is None and len(trace.worlds) == 1 and not trace.has_tasks
        and all(
            rank.file is not None and not rank.file.problems and len(rank.threads) == 1
            and not any(rank.file.numbers(kind) for kind in beside)
            for rank in trace.ranks
        )
    )  # fmt: skip
