"""Makes the report of a long run a segment at a time (weft.segments): memory is bounded by a segment, not by the run.

What looks at all ranks runs in each segment, what looks at one rank after the other on each rank of the whole run, and
what asks how the run came to a halt in its last segment. Several workers share segments and ranks, and what they
find is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import field, replace
from functools import partial, reduce
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.facts import changed
from weft.base.lazy import dataclass
from weft.deadlock.wildcard_alternatives import is_bound_note
from weft.deadlock.wildcard_alternatives import join_bound_notes as all_tried
from weft.evidence import (
    Alternative,
    Deadlock,
    Evidence,
    OrderOnly,
    OtherMessage,
    Overlap,
    WindowOverlap,
    translate_place,
)
from weft.findings import Finding
from weft.match import NONE, Match
from weft.races import merge_notes, translate_to_run
from weft.report.attempt import Found, Progress, call_or_fail, may_find
from weft.report.context import AnalysisContext, RunSegments, collect_garbage, freeze_garbage_collector, segment_of
from weft.report.failure import Failure
from weft.report.parallel import SingleWorker, Team, divide_ranks
from weft.report.registry import ANALYSES, Analysis
from weft.segments import (
    SEGMENT,
    LookAhead,
    Looking,
    RankScan,
    SegmentWalk,
    Sends,
    allows_closed_cuts,
    calls_between_cuts,
    cancels_requests,
    cut_between,
    find_cuts,
    has_wide_gaps,
    is_quiet,
    is_worth_cutting,
    last_sends,
    make_cuts_of_whole_run,
    receives_from_any_source,
    scan_rank,
)  # fmt: skip
from weft.systems import MPI
from weft.trace import Level, Trace
from weft.trace.mapping import release_pages
from weft.trace.segment import Segment, view_one_rank
from weft.waits import Costs, compute_costs, make_findings

Span = tuple[int, int]
"""A segment, by two moments of the cuts."""

MOST_ALIKE: Final = 200
"""The most findings of one cause and one rank that are kept of a run; the rest is counted."""
_RACES: Final = "message races"
_AHEAD: Final = (_RACES, "other matches", "potential deadlock")
"""Analyses that look at calls after a segment if it receives from any source."""
TOGETHER: Final = 1 << 19
"""The number of calls after which what was derived from them is given back together."""
MOST_CELLS: Final = 4
"""The most cells of a segment that are analysed by themselves, as what is done once a rank costs more in each."""
IN_VAIN: Final = 3
"""After this many segments whose cells had findings, segments are analysed whole at once."""
AT_ONCE: Final = 4
"""The segments of each worker between two exchanges of the workers."""


def analyse_in_segments(
    team: Team | SingleWorker, context: AnalysisContext, progress: Progress, least: int = SEGMENT, cells: int = 0
) -> dict[str, Found] | None:
    """Analyse a long run part by part (in segments), and return what every analysis finds, by name; None if the run
    cannot or need not be cut. All workers call it together; only the first one gets the findings.

    Afterwards `context.parts` has the segments. `least`: how many calls a segment has at least. `cells`: into how many
    smaller parts a segment is cut at first; by default as many as there are workers, four at most.
    """
    cells = cells or min(team.size, MOST_CELLS)
    trace = context.trace
    if (
        trace.level == Level.OUTCOMES
        or trace.system is not MPI
        or context.has_halos
        or not is_worth_cutting(trace, least)
    ):
        return None
    seen = _scan_ranks(team, trace, progress)
    whole, of = make_cuts_of_whole_run(trace, seen), find_cuts(trace, seen, least)
    closed = allows_closed_cuts(trace, whole.called)
    closed = closed and not (cancels_requests(trace, whole.called) and _wildcard_ranks(team, trace).any())
    if closed and (of is None or has_wide_gaps(of, least)):
        found = _SegmentedReport(team, context, progress, RunSegments(whole, []), least).analyse()
        if found is not None:
            return found
    if of is None:
        return None
    report = _SegmentedReport(team, context, progress, RunSegments(of, []), least if closed else 0)
    report.cell = 0 if cells == 1 else calls_between_cuts(least // cells, len(trace.ranks))
    return report.analyse()


def analyse_in_segments_alone(context: AnalysisContext, progress: Progress | None) -> dict[str, Found] | None:
    """Return what every analysis finds, by name, in one process; None if the run is analysed whole."""
    return analyse_in_segments(SingleWorker(), context, progress or (lambda share, now: None))


def _scan_ranks(team: Team | SingleWorker, trace: Trace, progress: Progress) -> list[RankScan]:
    """Read the calls of each rank once, to see where the run can be cut, and return what was found for each rank. All
    workers call it together.
    """
    mine = []
    for rank in _own_share(team, trace):
        progress(0.1 * rank / len(trace.ranks), "looking for where the run can be cut")
        mine.append(scan_rank(trace.ranks[rank]))
    return [one for part in team.all_gather(mine) for one in part]


def _wildcard_ranks(team: Team | SingleWorker, trace: Trace) -> NDArray[np.bool_]:
    """Return by rank whether it receives from any source."""
    mine = [receives_from_any_source(trace.ranks[rank]) for rank in _own_share(team, trace)]
    return np.array([one for part in team.all_gather(mine) for one in part], np.bool_)


def _sends_by_rank(team: Team | SingleWorker, trace: Trace) -> list[Sends]:
    """Return by rank whom it sends to, and when last."""
    mine = [last_sends(trace.ranks[rank]) for rank in _own_share(team, trace)]
    return [one for part in team.all_gather(mine) for one in part]


def _own_share(team: Team | SingleWorker, trace: Trace) -> range:
    return divide_ranks(trace, team.size)[team.rank]


@dataclass
class _SegmentCounts:
    """What a segment tells: how many receives and probes each rank posted, and collectives each communicator had."""

    quiet: bool
    receives: NDArray[np.int64]
    probes: NDArray[np.int64]
    collectives: NDArray[np.int64]
    races: bool = False
    """Whether receives race in it, which decides what comes after it."""

    def __add__(self, other: _SegmentCounts) -> _SegmentCounts:
        return _SegmentCounts(
            self.quiet and other.quiet, self.receives + other.receives, self.probes + other.probes,
            self.collectives + other.collectives, self.races or other.races,
        )  # fmt: skip


@dataclass
class _SegmentResult:
    """What the analyses found in a segment."""

    told: _SegmentCounts
    segment: Segment
    found: dict[str, Found] = field(default_factory=dict)
    costs: Costs | Failure | None = None


@dataclass
class _KeptResults:
    """What a worker keeps of the segments and ranks that it went through."""

    found: dict[str, list[tuple[int, Finding]]] = field(default_factory=dict)
    """By analysis, with the number of the segment, or of the rank."""
    alike: Counter[Hashable] = field(default_factory=Counter)
    """How many findings of one cause and one rank there were."""
    failed: dict[str, Failure] = field(default_factory=dict)
    costs: Costs | None = None

    def keep_findings(self, name: str, number: int, found: Found) -> None:
        """Keep the findings of an analysis, or its failure. Of equal findings (one cause, one rank) only the first
        MOST_ALIKE are kept.

        `name`: the analysis. `number`: the segment or rank.
        """
        if isinstance(found, Failure):
            self.failed.setdefault(name, found)
            return
        mine = self.found.setdefault(name, [])
        for one in found:
            self.alike[_alike_key(name, one)] += 1 + one.beyond
            if (
                self.alike[_alike_key(name, one)] <= MOST_ALIKE
                or isinstance(one.evidence, OrderOnly)
                or is_bound_note(one)
            ):
                mine.append((number, one))

    def keep_costs(self, one: Costs | Failure | None) -> None:
        """Add the costs of waits in a segment to the others, or keep the failure."""
        if isinstance(one, Failure):
            self.failed.setdefault(one.analysis, one)
        elif one is not None:
            self.costs = one if self.costs is None else self.costs + one


def _alike_key(name: str, one: Finding) -> Hashable:
    return name, one.events[0][0] if one.events else -1, one.severity, *one.cause_key


class _SegmentedReport:
    """The analyses of a run in segments, as one of its workers."""

    def __init__(
        self, team: Team | SingleWorker, context: AnalysisContext, progress: Progress, parts: RunSegments, closed: int =
0
    ) -> None:  # fmt: skip
        """`closed`: how many calls to have between closed cuts, 0 where the run is not cut at such."""
        self.team, self.context, self.parts, self.progress, self.closed = team, context, parts, progress, closed
        self.trace, self.cuts = context.trace, parts.cuts
        context.parts = parts
        context.take(None, parts.cuts.called)
        self.kept = _KeptResults()
        self.before = self._no_counts(quiet=True)
        """What all segments told that are settled."""
        self._walked = 0.0
        """The share of the run that is behind, where nobody knows how many parts there are."""
        self.cell = 0
        """How many calls of a segment are looked at by themselves at first; 0: all of them."""
        self._vain = 0

    def _no_counts(self, *, quiet: bool) -> _SegmentCounts:
        ranks, comms = len(self.trace.ranks), len(self.trace.communicators)
        return _SegmentCounts(quiet, np.zeros(ranks, np.int64), np.zeros(ranks, np.int64), np.zeros(comms, np.int64))

    def analyse(self) -> dict[str, Found] | None:
        """Run all analyses, first segment by segment, then rank by rank. Return what each finds, by name; None if there
        is no place at which the run can be cut.
        """
        with freeze_garbage_collector():
            return self._analyse_all()

    def _analyse_all(self) -> dict[str, Found] | None:
        """Do what `analyse` does and return the same. `analyse` keeps the garbage collector from existing objects
        meanwhile.
        """
        start, rest, many = 0, False, len(self.cuts)
        while not rest and start < len(self.cuts) - 1:
            spans, rest = self._analyse_next_segments(start)
            self.parts.spans += spans
            start = spans[-1][1] if spans else start
        if self.closed and (many == 1 or rest):
            start = self._walk_closed_cuts(start)
            if start == 0 and many == 1:
                self.context.parts = None
                return None
        self.parts.spans.append((start, len(self.cuts)))
        if self.team.is_first:
            self._analyse_last(self.parts.spans[-1])
        self._analyse_ranks()
        return self._join_results()

    # Segments

    def _walk_closed_cuts(self, start: int) -> int:
        """Cut the run from a moment on at closed cuts, and analyse the segments between them. Return the last moment.

        All workers find all cuts, as each depends on the segments before it, and each analyses some of the segments.
        """
        walk, begun = self._start_walk(start), len(self.parts.spans)
        for segment, match, ahead in walk:
            number = len(walk.at) - 2
            span = (start + number, start + number + 1)
            told = self._count_match(match, quiet=True)
            if number % self.team.size == self.team.rank:
                result = _SegmentResult(told, segment)
                self._walked = float(walk.at[-1].sum() / walk.ends.sum())
                self._run_analyses(AnalysisContext(segment, match), result, ("each",), span, _lookahead_context(ahead))
                self._keep_result(span, result)
            self.before += told
            self.parts.spans.append(span)
            del match, ahead
            _release_segment(segment)
        if len({*self.team.all_gather(len(walk.at))}) > 1:
            raise MemoryError(
                "the processes have cut the run at different calls, because one of them had too little memory: run "
                "`weft report` as one process"
            )
        at = np.stack([*self.cuts.at[:start], *walk.at, self.cuts.at[-1]])
        carried = {start + place: calls for place, calls in walk.carried.items()}
        looks = {start + place: look for place, look in walk.looks.items()}
        self.cuts = self.parts.cuts = replace(self.cuts, at=at, carried=carried, looks=looks)
        return start + len(self.parts.spans) - begun

    def _start_walk(self, start: int) -> SegmentWalk:
        """Return the iterator that finds closed cuts from the moment `start` on. It looks at later calls too if
        messages are received from any source.
        """
        looking, of = None, _wildcard_ranks(self.team, self.trace)
        if of.any():
            behind = np.full(len(self.trace.ranks), self.before.races)
            looking = Looking(self.cuts, of, _sends_by_rank(self.team, self.trace), behind)
        return SegmentWalk(self.cuts, self.cuts.at[start], self.closed, looking)

    def _analyse_next_segments(self, start: int) -> tuple[list[Span], bool]:
        """Analyse the next segments from the moment `start` on. Return these segments, and whether all the rest must be
        in the last one.

        If operations are pending at the end of a segment, it is joined with as much of what follows as is needed.
        """
        last = len(self.cuts) - 1
        pending = [(k, k + 1) for k in range(start, min(start + AT_ONCE * self.team.size, last))]
        known: dict[Span, _SegmentCounts] = {}
        mine: dict[Span, _SegmentResult] = {}
        rest = False
        while not rest:
            new = [span for span in pending if span not in known]
            mine |= {span: self._analyse_segment(span) for span in new[self.team.rank :: self.team.size]}
            for part in self.team.all_gather({span: mine[span].told for span in new if span in mine}):
                known |= part
            loud = next((place for place, span in enumerate(pending) if not known[span].quiet), None)
            if loud is None:
                break
            low, high = pending[loud]
            high = 2 * high - low
            high = max([high, *(end for begin, end in pending if begin < high)])
            rest = high > last
            pending = pending[:loud] + ([] if rest else [(low, high), *(span for span in pending if span[0] >= high)])
        for span in pending:
            if span in mine:
                self._keep_result(span, mine[span])
            self.before += known[span]
        return pending, rest

    def _analyse_segment(self, span: Span) -> _SegmentResult:
        """Match the calls of a segment, and run the analyses that go segment by segment if no operation is pending at
        its end.
        """
        silent = self._analyse_in_cells_if_clean(span)
        if silent is not None:
            return silent
        self._show_progress(span, "matching messages")
        context = AnalysisContext(self.cuts.segment(*span))
        segment = segment_of(context)
        result = _SegmentResult(self._count_segment(context, end=False), segment)
        if result.told.quiet:
            self._run_analyses(context, result, ("each",), span)
            result.told.races = bool(result.found.get(_RACES))
        del context
        _release_segment(segment)
        return result

    def _analyse_in_cells_if_clean(self, span: Span, *, end: bool = False) -> _SegmentResult | None:
        """Analyse a segment in smaller parts (cells), which need less memory, and return its result if nothing is found
        in any of them and no operation is pending between them.

        Otherwise return None: the segment has to be analysed whole, as limits on findings for each line may count
        differently in cells. So the report does not depend on the number of cells. `end`: it is the last segment.
        """
        cells = cut_between(self.cuts, *span, self.cell) if self.cell and self._vain < IN_VAIN else None
        if cells is None:
            return None
        told, costs = self._no_counts(quiet=True), list[Costs]()
        for place in range(len(cells)):
            last = end and place == len(cells) - 1
            self._show_progress(span, "matching messages")
            context = AnalysisContext(cells.segment(place, place + 1))
            segment = segment_of(context)
            one = _SegmentResult(self._count_segment(context, end=last), segment)
            if one.told.quiet or last:
                self._run_analyses(context, one, ("each", "end") if last else ("each",), span)
            del context
            _release_segment(segment)
            silent = (one.told.quiet or last) and not any(one.found.values())
            if not silent or not isinstance(one.costs, Costs) or one.costs.blocked:
                self._vain += 1
                return None
            told += one.told
            costs.append(one.costs)
        return _SegmentResult(told, self.cuts.segment(*span), costs=reduce(Costs.__add__, costs))

    def _count_segment(self, context: AnalysisContext, *, end: bool) -> _SegmentCounts:
        """Match the calls of a segment, and return how many receives, probes and collectives it has. `end`: it is the
        last segment.
        """
        try:
            match = context.match
        except Exception:  # the analyses of the last segment, which this one then joins, say why
            return self._no_counts(quiet=False)
        return self._count_match(match, quiet=not end and is_quiet(segment_of(context), match))

    def _count_match(self, match: Match, *, quiet: bool) -> _SegmentCounts:
        """Return how many receives and probes each rank posted, and how many collectives each communicator had.
        `quiet`: whether no operation is pending at the end.
        """
        of = match.instances
        return _SegmentCounts(
            quiet,
            np.diff(match.recvs.first).astype(np.int64),
            np.diff(match.probes.first).astype(np.int64),
            np.bincount(
                of.comm[(of.parent == NONE) & ~match.collectives_before_segment()],
                minlength=len(self.trace.communicators),
            ),
        )

    def _run_analyses(
        self, context: AnalysisContext, result: _SegmentResult, kinds: tuple[str, ...], span: Span, looking:
AnalysisContext | None = None
    ) -> None:  # fmt: skip
        """Run the analyses of some kinds on a segment, and put what they find into `result`.

        `kinds`: "each" for those that run in every segment, "end" for those that run in the last one. `looking`: the
        context of the segment together with the later calls that some analyses have to see.
        """
        to = result.segment.to_run_event
        for analysis in ANALYSES:
            if analysis.cut not in kinds or not may_find(context, analysis):
                continue
            self._show_progress(span, analysis.name)
            if looking is not None and analysis.name in _AHEAD:
                result.found[analysis.name] = call_or_fail(analysis, partial(_list_findings, analysis, looking))
                continue
            if analysis.costs:
                result.costs = call_or_fail(
                    analysis, lambda: compute_costs(context.trace, context.match).with_renamed_events(to)
                )
            else:
                result.found[analysis.name] = call_or_fail(analysis, partial(_list_findings, analysis, context))

    def _analyse_last(self, span: Span) -> None:
        """Analyse the last segment, in which operations may stay pending: it shows how the run ended."""
        self.trace.set_last_part(self.cuts.segment(*span))
        silent = self._analyse_in_cells_if_clean(span, end=True)
        if silent is not None:
            self._keep_result(span, silent)
            return
        context = self.parts.context_of(span)
        result = _SegmentResult(self._count_segment(context, end=True), segment_of(context))
        with suppress(Exception):
            of, carried = context.match.instances, context.match.collectives_before_segment()
            before = self.before.collectives - np.bincount(of.comm[carried & (of.parent == NONE)], minlength=len(
                self.trace.communicators))  # fmt: skip
            own = (of.parent == NONE) & ~carried
            of.ordinal[own] += before[of.comm[own]].astype(np.uint32)
        self.trace.set_last_part(result.segment)
        self._run_analyses(context, result, ("each", "end"), span)
        self._keep_result(span, result)

    def _keep_result(self, span: Span, result: _SegmentResult) -> None:
        """Keep what was found in a segment. Its event numbers become those of the whole run."""
        before = self.before

        def posted(what: str, rank: int) -> int:
            return int((before.probes if what == "probe" else before.receives)[rank])

        for name, found in result.found.items():
            if isinstance(found, Failure):
                self.kept.keep_findings(name, span[0], found)
                continue
            there = [
                _translate_finding(one, result.segment.to_run_event, posted, behind_others=before.races)
                for one in found
            ]
            self.kept.keep_findings(name, span[0], there)
        self.kept.keep_costs(result.costs)

    def _show_progress(self, span: Span, what: str) -> None:
        """Report to the user which segment is analysed for what, and which share of the run is done."""
        if self._walked:
            self.progress(0.1 + 0.7 * self._walked, f"{what} (part {span[0] + 1})")
        else:
            self.progress(0.1 + 0.7 * span[0] / len(self.cuts), f"{what} ({span[0] + 1} of {len(self.cuts)} parts)")

    # Ranks

    def _analyse_ranks(self) -> None:
        """Run the analyses that look at one rank after the other, on each of this worker's ranks over the whole run."""
        share, made = _own_share(self.team, self.trace), 0
        for index in share:
            self.progress(0.8 + 0.2 * (index - share.start) / max(1, len(share)), f"the calls of rank {index}")
            context = AnalysisContext(view_one_rank(self.trace, index))
            context.parts = self.parts
            for analysis in ANALYSES:
                if analysis.cut == "ranks" and analysis.name not in self.kept.failed and may_find(context, analysis):
                    self.kept.keep_findings(
                        analysis.name, index, call_or_fail(analysis, partial(_list_findings, analysis, context))
                    )
            for thread in context.trace.ranks[index].threads:
                release_pages(thread.events)
                release_pages(thread.tails)
            made += len(context.trace.ranks[index])
            del context
            if made > TOGETHER:
                collect_garbage(made)
                made = 0

    # All together

    def _join_results(self) -> dict[str, Found]:
        """Return at the first worker what all workers found, by analysis; empty at the others."""
        told = self.team.gather_objects((self.kept, self.trace.problems))
        if not self.team.is_first:
            return {}
        for text in chain.from_iterable(problems for _, problems in told):
            self.trace.add_problem(text)
        alike = sum((kept.alike for kept, _ in told), Counter[Hashable]())
        whole = _KeptResults(alike=alike)
        for kept, _ in told:
            whole.keep_costs(kept.costs)
            whole.failed = kept.failed | whole.failed
        result: dict[str, Found] = {}
        for analysis in ANALYSES:
            found = [pair for kept, _ in told for pair in kept.found.get(analysis.name, ())]
            found.sort(key=lambda pair: pair[0])
            result[analysis.name] = whole.failed.get(analysis.name) or self._limit_equal_findings(
                analysis.name, [one for _, one in found], alike
            )
            if analysis.costs and whole.costs is not None and analysis.name not in whole.failed:
                result[analysis.name] = call_or_fail(analysis, partial(_cost_findings, self.trace, whole.costs))
        return result

    def _limit_equal_findings(self, name: str, found: list[Finding], alike: Counter[Hashable]) -> list[Finding]:
        """Return the findings, but only the first MOST_ALIKE of equal ones (one cause, one rank). Notes on the same
        line are merged.

        `name`: the analysis. `alike`: how many equal findings there were at all workers.
        """
        notes: dict[Hashable, list[Finding]] = {}
        rest: dict[Hashable, list[Finding]] = {}
        untried = [one for one in found if is_bound_note(one)]
        found = [one for one in found if not is_bound_note(one)]
        for one in found:
            of = notes if isinstance(one.evidence, OrderOnly) else rest
            of.setdefault(_alike_key(name, one), []).append(one)
        first = [merge_notes(self.trace, group) for group in notes.values()]
        first += [all_tried(untried)] if untried else []
        cut: dict[int, int] = {}
        kept: set[int] = set()
        for key, group in rest.items():
            some = group[:MOST_ALIKE]
            kept.update(map(id, some))
            if alike[key] > len(some):
                cut[id(some[-1])] = alike[key] - len(some)
        for one in found:
            if id(one) in kept:
                first.append(replace(one, beyond=cut.get(id(one), 0)))
        return first


def _release_segment(segment: Segment) -> None:
    """Give back the memory of a segment that was analysed."""
    calls = segment.event_count
    segment.release()
    collect_garbage(calls)


def _lookahead_context(ahead: LookAhead | None) -> AnalysisContext | None:
    """Return the context of a segment together with the later calls that its analyses have to see; None if it needs no
    later calls.
    """
    if ahead is None:
        return None
    context = AnalysisContext(ahead.segment, ahead.match)
    context.__dict__["_order"] = ahead.order
    return context


def _list_findings(analysis: Analysis, context: AnalysisContext) -> list[Finding]:
    return list(analysis.find(context))


def _cost_findings(trace: Trace, of: Costs) -> list[Finding]:
    return make_findings(trace, of) if len(trace.ranks) > 1 else []


def _translate_evidence(evidence: Evidence, to_run: Callable[[EventId], EventId]) -> Evidence:
    """Return the evidence with `to_run(event)` in place of each event of the segment."""
    if isinstance(evidence, Alternative):
        took, other = (translate_place(place, to_run) for place in (evidence.took, evidence.alternative))
        return changed(evidence, took=took, alternative=other)
    if isinstance(evidence, Deadlock):
        misses = [changed(m, event=to_run(m.event)) if isinstance(m, OtherMessage) else m for m in evidence.near_misses]
        return changed(evidence, near_misses=tuple(misses))
    if isinstance(evidence, Overlap | WindowOverlap):
        accesses = [
            changed(
                access, **{name: to_run(value) for name, value in vars(access).items() if isinstance(value, EventId)}
            )
            for access in evidence.accesses
        ]
        return changed(evidence, accesses=accesses)
    return evidence


def _translate_finding(
    one: Finding, to_run: Callable[[EventId], EventId], posted: Callable[[str, int], int], *, behind_others: bool
) -> Finding:
    """Return a finding of a segment with the event numbers of the whole run.

    `to_run(event)`: returns the event's id in the run. `posted(what, rank)`: returns how many receives or probes the
    rank posted before the segment. `behind_others`: whether there are message races before the segment."""
    if one.kind == "message-race":
        one = translate_to_run(one, to_run, posted, has_race_before=behind_others)
    else:
        one = replace(one, evidence=_translate_evidence(one.evidence, to_run))
    return replace(one, events=tuple(to_run(event) for event in one.events))
