"""Holds what analyses build on: the trace, its matched messages and the order of its events, made on first use."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.findings import Finding
from weft.match import Match, Post, match_operations
from weft.terms import calls
from weft.terms.calls import catalogue_of, masks_of
from weft.trace import Trace
from weft.trace.layout import StreamKind
from weft.trace.mapping import release_freed_memory
from weft.trace.segment import Segment

if TYPE_CHECKING:
    from weft.order import Cut, Order
    from weft.segments import Cuts
    from weft.segments.cut_knowledge import CutKnowledge


MANY: Final = 1 << 16
"""The number of calls from which on what was derived from them is given back at once."""


class AnalysisContext:
    """What the analyses of one run share: the trace, its match, its order, and its segments."""

    def __init__(self, trace: Trace, found: Match | None = None) -> None:
        self.trace = trace
        self._lock = RLock()
        self._found = found
        self.parts: RunSegments | None = None
        """The segments that the run is analysed in, None where it is analysed whole."""
        self.known: Callable[[], NDArray[np.int64]] | None = None
        """For a segment that looks ahead: what each rank knows of the others when it begins."""

    def prepare(self) -> None:
        """Compute the match, and read definitions, clock and calls of each rank, before several threads use them."""
        _ = self.match
        if "called" in self.__dict__:
            return  # the catalogues are other workers'
        for rank in self.trace.own:
            _ = rank.definitions, rank.axis
            catalogue_of(rank)

    def take(self, found: Match | None, called: frozenset[int]) -> None:
        """Set what several processes found together, so that nothing of it is read from the records again."""
        self._found, self.__dict__["called"] = found, called

    @cached_property
    def match(self) -> Match:
        """Return weft.match of the run, computed on first use."""
        return match_operations(self.trace) if self._found is None else self._found

    @property
    def order(self) -> Order:
        """Return weft.order of the run; while one thread computes it the others wait."""
        with self._lock:
            return self._order

    @cached_property
    def _order(self) -> Order:
        """Return the order of the run's events. It is computed when first asked for, as only some analyses need it."""
        # Only some analyses need the order.
        from weft.order import order_events

        return order_events(self.trace, self.match)

    def locate_event(self, event: EventId) -> tuple[AnalysisContext, EventId]:
        """Return the context that has an event of the run, and the event's id there."""
        return (self, event) if self.parts is None else self.parts.locate_event(event)

    def locate_finding(self, finding: Finding) -> tuple[AnalysisContext, Finding]:
        """Return the context of the part of the run (segment) in which a finding's events are, and the finding with the
        numbers that its events have there. In a run that is analysed whole: this context, and the finding as it is.
        """
        if self.parts is None or not finding.events:
            return self, finding
        from weft.races import translate_to_run  # only findings of segments

        context, _ = self.parts.locate_event(finding.events[0])
        segment = segment_of(context)

        def here(event: EventId) -> EventId:
            return segment.to_segment_event(event) or EventId(
                event.rank, 0
            )  # what is drawn or proved of a race lies in one segment

        found = translate_to_run(finding, here, lambda what, rank: 0)
        there = tuple(event for one in finding.events if (event := segment.to_segment_event(one)) is not None)
        return context, replace(found, events=there)

    def named(self, event: EventId) -> EventId:
        """Return the id in the run of an event of this context."""
        return self.trace.to_run_event(event) if isinstance(self.trace, Segment) else event

    def count_in_past(self, past: Cut) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two arrays by rank: how many calls of the whole run have begun, and how many have ended, in `past`, a
        cut of this context's events.

        In a part of a run (segment) all calls before it count as begun and ended. The call at its beginning, which
        every rank has entered, counts as ended only for ranks of which a later call is in `past`.
        """
        if not isinstance(self.trace, Segment):
            return past.started, past.ended
        if self.known is not None:
            from weft.segments.cut_knowledge import points_in_run  # only proofs of races ask

            found = points_in_run(self.trace, past, self.known())
            return (found + 1) // 2, found // 2
        first = np.array(self.trace.first, np.int64)
        ahead = np.array([rank.ahead for rank in self.trace.ranks], np.int64)
        begun = first + np.maximum(past.started - ahead, 0)
        ended = first + np.maximum(past.ended - ahead, 0) - ((past.started <= ahead) & (first > 0))
        return begun, ended

    def locate_at_end(self, findings: list[Finding]) -> tuple[Trace, list[Finding]]:
        """Return the trace of the last part (segment) of the run, and the findings with the numbers that their events
        have there; events elsewhere are left out. In a run that is analysed whole: its trace, and the findings as they
        are.
        """
        if self.parts is None:
            return self.trace, findings
        end = segment_of(self.parts.context_of(self.parts.spans[-1]))
        return end, [
            replace(
                one, events=tuple(here for event in one.events if (here := end.to_segment_event(event)) is not None)
            )
            for one in findings
        ]

    @property
    def receives(self) -> bool:
        """Return whether anything is received or probed from any source: only then another message may come first."""
        return any(bool((of.flags & Post.ANY_SOURCE).any()) for of in (self.match.recvs, self.match.probes))

    @property
    def windows(self) -> bool:
        """Return whether any call of the run is one-sided, or makes a window."""
        return self.calls_any_of(calls.ON_WINDOWS | calls.WINDOW_MAKERS)

    @property
    def ready(self) -> bool:
        """Return whether a message is sent in the ready mode."""
        return bool((self.match.sends.flags & Post.READY).any())

    @property
    def files(self) -> bool:
        """Return whether a file is opened."""
        return self.calls_any_of(calls.word_set("File_open"))

    @property
    def has_data_calls(self) -> bool:
        """Return whether a call of the run takes a buffer or a request."""
        taking = (f.id for f in self.trace.functions if any(p.kind in ("BUFFER", "REQUEST") for p in f.parameters))
        return not self.called.isdisjoint(taking)

    def calls_any_of(self, names: Iterable[str]) -> bool:
        """Return whether a rank of this process calls one of some functions, given by their names without `MPI_`."""
        return not self.called.isdisjoint(masks_of(self.trace.functions).ids(names))

    @cached_property
    def called(self) -> frozenset[int]:
        """Return the ids of the functions that this process's ranks call."""
        return frozenset(id for rank in self.trace.own for id in catalogue_of(rank).present)

    @property
    def touched(self) -> bool:
        """Return whether the run has the program's own accesses to memory that MPI had."""
        return any(rank.file is not None and rank.file.numbers(StreamKind.ACCESSES) for rank in self.trace.ranks)

    @property
    def has_halos(self) -> bool:
        """Return whether the run has what its program did to arrays with ghost cells."""
        return (self.trace.path / "halo").is_dir()

    @property
    def contents(self) -> bool:
        """Return whether the run has what ranks contributed to reductions."""
        return any(rank.file is not None and rank.file.numbers(StreamKind.CONTENTS) for rank in self.trace.ranks)


def collect_garbage(call_count: int) -> None:
    """Give back the memory of objects that were derived from `call_count` calls, if these are many. They refer to each
    other, so that only Python's garbage collector frees them.
    """
    if call_count > MANY:
        gc.collect()
        release_freed_memory()


@contextmanager
def freeze_garbage_collector() -> Iterator[None]:
    """Exempt all objects that exist now from garbage collection during a `with` block, as there are very many for many
    ranks.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class RunSegments:
    """The segments of a run: `spans` are those of `cuts` that a report goes by, from the run's start to its end."""

    def __init__(self, cuts: Cuts, spans: list[tuple[int, int]]) -> None:
        self.cuts, self.spans = cuts, spans
        self._last: tuple[tuple[int, int], bool, AnalysisContext] | None = None
        self._calls = 0
        self._known: CutKnowledge | None = None

    def context_of(self, span: tuple[int, int], *, looking: bool = False) -> AnalysisContext:
        """Return the analysis context of a part of the run (segment). Only the last one is kept in memory.

        `span`: the part, by two of the moments at which the run is cut. `looking`: also with the later calls that its
        analyses have to see.
        """
        looking = looking and span[0] in self.cuts.looks
        if self._last is None or self._last[:2] != (span, looking):
            self._last = None  # the one before goes first
            collect_garbage(self._calls)
            segment = self.cuts.segment_looking_ahead(span[0]) if looking else self.cuts.segment(*span)
            context, self._calls = AnalysisContext(segment, _match_without_carried(segment)), segment.event_count
            if looking:
                context.known = partial(self._last_known_points, span[0])
            self._last = span, looking, context
        return self._last[2]

    def _last_known_points(self, moment: int) -> NDArray[np.int64]:
        """Return a matrix: in row r, column s is the last point (begin or end of a call) of rank s that rank r knows of
        at `moment`, one of the moments that cut the run into segments.
        """
        if self._known is None:
            from weft.segments.cut_knowledge import CutKnowledge  # as above

            self._known = CutKnowledge(self.cuts)
        return self._known.points_at(moment)

    def iterate(self) -> Iterator[AnalysisContext]:
        """Yield the context of each segment in turn. Only one is in memory at a time: each is released before the next
        is made.
        """
        for span in self.spans:
            context = self.context_of(span)
            yield context
            segment_of(context).release()

    def locate_event(self, event: EventId) -> tuple[AnalysisContext, EventId]:
        """Return the context of the part of the run (segment) that has an event, and the number of the event in it."""
        place = self.cuts.moment_before(event)
        context = self.context_of(next(span for span in self.spans if span[0] <= place < span[1]), looking=True)
        here = segment_of(context).to_segment_event(event)
        assert here is not None
        return context, here


def _match_without_carried(segment: Segment) -> Match | None:
    """Match the messages of a segment (a part of the run), except those whose calls are counted in a later segment.
    None if the segment has no such calls."""
    if not any(map(len, segment.out)):
        return None
    from weft.segments.greatest_cut import match_without_carried  # only runs that are cut so

    return match_without_carried(match_operations(segment), segment)


def segment_of(context: AnalysisContext) -> Segment:
    """Return the segment that a context is of."""
    assert isinstance(context.trace, Segment)
    return context.trace
