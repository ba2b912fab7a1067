"""A report of a long run, a segment at a time (weft.segments): memory is bounded by a segment, not by the run.

What looks at all ranks runs in each segment, what looks at one rank after the other on each rank of the whole run, and
what asks how the run came to stand still in its last segment. Several workers share segments and ranks, and what they
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
from weft.evidence import Alternative, Deadlock, Evidence, OrderOnly, OtherMessage, Overlap, WindowOverlap, moved_to
from weft.findings import Finding
from weft.match import NONE, Match
from weft.races import joined, moved
from weft.report.attempt import Found, Progress, attempt, may_find
from weft.report.failure import Failure
from weft.report.ground import Ground, Parts, forget, lasting, segment_of
from weft.report.parallel import Alone, Team, shares
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
    keep_whole,
    last_sends,
    receives_from_any_source,
    scan_rank,
    worth_cutting,
)  # fmt: skip
from weft.systems import MPI
from weft.trace import Level, Trace
from weft.trace.mapping import let_go
from weft.trace.segment import Segment, alone
from weft.waits import Costs, compute_costs, make_findings

Span = tuple[int, int]
"""A segment, by two moments of the cuts."""

MOST_ALIKE: Final = 200
"""Findings of one cause and one rank that are kept of a run; what is beyond is counted."""
_RACES: Final = "message races"
_AHEAD: Final = (_RACES, "other matches", "potential deadlock")
"""Analyses of which what is received of any source asks for what comes behind a segment."""
TOGETHER: Final = 1 << 19
"""Calls of ranks of which what was made is given back together."""
MOST_CELLS: Final = 4
"""Parts of a segment, at most, that are looked at by themselves, for what is done once a rank costs more in each."""
IN_VAIN: Final = 3
"""Segments that were looked at in parts and had something to tell; the others are then looked at whole at once."""
AT_ONCE: Final = 4
"""Segments of each worker between two talks of the workers."""


def found_in_segments(
    team: Team | Alone, ground: Ground, progress: Progress, least: int = SEGMENT, cells: int = 0
) -> dict[str, Found] | None:
    """What every analysis finds, by name; None where the run is analysed whole. Called by all workers together.

    `ground.parts` then holds the segments. Only the first worker gets the findings. `cells`: into how many a segment
    is cut up at first, by default as many as there are workers, and four at most.
    """
    cells = cells or min(team.size, MOST_CELLS)
    trace = ground.trace
    if trace.level == Level.OUTCOMES or trace.system is not MPI or ground.halos or not worth_cutting(trace, least):
        return None
    seen = _seen(team, trace, progress)
    whole, of = keep_whole(trace, seen), find_cuts(trace, seen, least)
    closed = allows_closed_cuts(trace, whole.called)
    closed = closed and not (cancels_requests(trace, whole.called) and _wild(team, trace).any())
    if closed and (of is None or has_wide_gaps(of, least)):
        found = _Report(team, ground, progress, Parts(whole, []), least).found()
        if found is not None:
            return found
    if of is None:
        return None
    report = _Report(team, ground, progress, Parts(of, []), least if closed else 0)
    report.cell = 0 if cells == 1 else calls_between_cuts(least // cells, len(trace.ranks))
    return report.found()


def alone_in_segments(ground: Ground, progress: Progress | None) -> dict[str, Found] | None:
    """The same by one process."""
    return found_in_segments(Alone(), ground, progress or (lambda share, now: None))


def _seen(team: Team | Alone, trace: Trace, progress: Progress) -> list[RankScan]:
    """What a first look at the calls of each rank finds."""
    mine = []
    for rank in _share(team, trace):
        progress(0.1 * rank / len(trace.ranks), "looking for where the run can be cut")
        mine.append(scan_rank(trace.ranks[rank]))
    return [one for part in team.everybody(mine) for one in part]


def _wild(team: Team | Alone, trace: Trace) -> NDArray[np.bool_]:
    """By rank whether it receives of any source."""
    mine = [receives_from_any_source(trace.ranks[rank]) for rank in _share(team, trace)]
    return np.array([one for part in team.everybody(mine) for one in part], np.bool_)


def _sends(team: Team | Alone, trace: Trace) -> list[Sends]:
    """By rank whom it sends to, and when at last."""
    mine = [last_sends(trace.ranks[rank]) for rank in _share(team, trace)]
    return [one for part in team.everybody(mine) for one in part]


def _share(team: Team | Alone, trace: Trace) -> range:
    return shares(trace, team.size)[team.rank]


@dataclass
class _Told:
    """What a segment tells: how many receives and probes each rank posted, and collectives each communicator had."""

    quiet: bool
    receives: NDArray[np.int64]
    probes: NDArray[np.int64]
    collectives: NDArray[np.int64]
    races: bool = False
    """Whether receives race in it, which decides what comes behind it."""

    def __add__(self, other: _Told) -> _Told:
        return _Told(
            self.quiet and other.quiet, self.receives + other.receives, self.probes + other.probes,
            self.collectives + other.collectives, self.races or other.races,
        )  # fmt: skip


@dataclass
class _Segmented:
    """What the analyses found in a segment."""

    told: _Told
    segment: Segment
    found: dict[str, Found] = field(default_factory=dict)
    costs: Costs | Failure | None = None


@dataclass
class _Kept:
    """What a worker keeps of the segments and ranks that it went through."""

    found: dict[str, list[tuple[int, Finding]]] = field(default_factory=dict)
    """By analysis, with the number of the segment, or of the rank."""
    alike: Counter[Hashable] = field(default_factory=Counter)
    """How many findings of one cause and one rank there were."""
    failed: dict[str, Failure] = field(default_factory=dict)
    costs: Costs | None = None

    def take(self, name: str, number: int, found: Found) -> None:
        """Keep findings, of those that are alike the first ones."""
        if isinstance(found, Failure):
            self.failed.setdefault(name, found)
            return
        mine = self.found.setdefault(name, [])
        for one in found:
            self.alike[_key(name, one)] += 1 + one.beyond
            if self.alike[_key(name, one)] <= MOST_ALIKE or isinstance(one.evidence, OrderOnly) or is_bound_note(one):
                mine.append((number, one))

    def add(self, one: Costs | Failure | None) -> None:
        """Keep what waits cost."""
        if isinstance(one, Failure):
            self.failed.setdefault(one.analysis, one)
        elif one is not None:
            self.costs = one if self.costs is None else self.costs + one


def _key(name: str, one: Finding) -> Hashable:
    return name, one.events[0][0] if one.events else -1, one.severity, *one.group


class _Report:
    """The analyses of a run in segments, as one of its workers."""

    def __init__(
        self, team: Team | Alone, ground: Ground, progress: Progress, parts: Parts, closed: int = 0
    ) -> None:  # fmt: skip
        """`closed`: how many calls to have between closed cuts, 0 where the run is not cut at such."""
        self.team, self.ground, self.parts, self.progress, self.closed = team, ground, parts, progress, closed
        self.trace, self.cuts = ground.trace, parts.cuts
        ground.parts = parts
        ground.take(None, parts.cuts.called)
        self.kept = _Kept()
        self.before = self._nothing(quiet=True)
        """What all segments told that are settled."""
        self._walked = 0.0
        """The share of the run that is behind, where nobody knows how many parts there are."""
        self.cell = 0
        """How many calls of a segment are looked at by themselves at first; 0: all of them."""
        self._vain = 0

    def _nothing(self, *, quiet: bool) -> _Told:
        ranks, comms = len(self.trace.ranks), len(self.trace.communicators)
        return _Told(quiet, np.zeros(ranks, np.int64), np.zeros(ranks, np.int64), np.zeros(comms, np.int64))

    def found(self) -> dict[str, Found] | None:
        """Go through the segments, then through the ranks. None where no cut is found: that run is analysed whole."""
        with lasting():
            return self._found()

    def _found(self) -> dict[str, Found] | None:
        start, rest, many = 0, False, len(self.cuts)
        while not rest and start < len(self.cuts) - 1:
            spans, rest = self._settled(start)
            self.parts.spans += spans
            start = spans[-1][1] if spans else start
        if self.closed and (many == 1 or rest):
            start = self._walk(start)
            if start == 0 and many == 1:
                self.ground.parts = None
                return None
        self.parts.spans.append((start, len(self.cuts)))
        if self.team.first:
            self._end(self.parts.spans[-1])
        self._ranks()
        return self._together()

    # Segments

    def _walk(self, start: int) -> int:
        """Analyse segments between closed cuts from one of the moments on; which moment is the last one.

        Every worker finds all of the cuts, as each lies where the segments before it have left it, and analyses some.
        """
        walk, begun = self._begun(start), len(self.parts.spans)
        for segment, match, ahead in walk:
            number = len(walk.at) - 2
            span = (start + number, start + number + 1)
            told = self._counted(match, quiet=True)
            if number % self.team.size == self.team.rank:
                result = _Segmented(told, segment)
                self._walked = float(walk.at[-1].sum() / walk.ends.sum())
                self._analyse(Ground(segment, match), result, ("each",), span, _looking(ahead))
                self._keep(span, result)
            self.before += told
            self.parts.spans.append(span)
            del match, ahead
            _over(segment)
        if len({*self.team.everybody(len(walk.at))}) > 1:
            raise MemoryError("the processes have not cut the run at the same calls: one of them lacked the memory")
        at = np.stack([*self.cuts.at[:start], *walk.at, self.cuts.at[-1]])
        carried = {start + place: calls for place, calls in walk.carried.items()}
        looks = {start + place: look for place, look in walk.looks.items()}
        self.cuts = self.parts.cuts = replace(self.cuts, at=at, carried=carried, looks=looks)
        return start + len(self.parts.spans) - begun

    def _begun(self, start: int) -> SegmentWalk:
        """The walk from one of the moments on: it looks ahead where messages are received of any source."""
        looking, of = None, _wild(self.team, self.trace)
        if of.any():
            behind = np.full(len(self.trace.ranks), self.before.races)
            looking = Looking(self.cuts, of, _sends(self.team, self.trace), behind)
        return SegmentWalk(self.cuts, self.cuts.at[start], self.closed, looking)

    def _settled(self, start: int) -> tuple[list[Span], bool]:
        """Analyse some segments from one of the moments on; they, and whether what follows is left for the last one.

        One that is not quiet at its end is joined with as much as it has behind it, until it is.
        """
        last = len(self.cuts) - 1
        pending = [(k, k + 1) for k in range(start, min(start + AT_ONCE * self.team.size, last))]
        known: dict[Span, _Told] = {}
        mine: dict[Span, _Segmented] = {}
        rest = False
        while not rest:
            new = [span for span in pending if span not in known]
            mine |= {span: self._segment(span) for span in new[self.team.rank :: self.team.size]}
            for part in self.team.everybody({span: mine[span].told for span in new if span in mine}):
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
                self._keep(span, mine[span])
            self.before += known[span]
        return pending, rest

    def _segment(self, span: Span) -> _Segmented:
        """Match a segment, and where it is quiet run the analyses that go segment by segment."""
        silent = self._in_cells(span)
        if silent is not None:
            return silent
        self._say(span, "matching messages")
        ground = Ground(self.cuts.segment(*span))
        segment = segment_of(ground)
        result = _Segmented(self._told(ground, end=False), segment)
        if result.told.quiet:
            self._analyse(ground, result, ("each",), span)
            result.told.races = bool(result.found.get(_RACES))
        del ground
        _over(segment)
        return result

    def _in_cells(self, span: Span, *, end: bool = False) -> _Segmented | None:
        """The same of a segment about which nothing is to be told, in the memory of a part of it; None of others.

        It is cut up at moments within. Where each part ends quiet and nothing is found in any, the segment ends quiet
        and nothing is in it; where something is, the segment is to be looked at whole, as where one goes by a line in
        a part there may be another in the segment. So what is told is the same, however many parts there are.
        """
        cells = cut_between(self.cuts, *span, self.cell) if self.cell and self._vain < IN_VAIN else None
        if cells is None:
            return None
        told, costs = self._nothing(quiet=True), list[Costs]()
        for place in range(len(cells)):
            last = end and place == len(cells) - 1
            self._say(span, "matching messages")
            ground = Ground(cells.segment(place, place + 1))
            segment = segment_of(ground)
            one = _Segmented(self._told(ground, end=last), segment)
            if one.told.quiet or last:
                self._analyse(ground, one, ("each", "end") if last else ("each",), span)
            del ground
            _over(segment)
            silent = (one.told.quiet or last) and not any(one.found.values())
            if not silent or not isinstance(one.costs, Costs) or one.costs.blocked:
                self._vain += 1
                return None
            told += one.told
            costs.append(one.costs)
        return _Segmented(told, self.cuts.segment(*span), costs=reduce(Costs.__add__, costs))

    def _told(self, ground: Ground, *, end: bool) -> _Told:
        try:
            match = ground.match
        except Exception:  # the analyses of the last segment, which this one then joins, say why
            return self._nothing(quiet=False)
        return self._counted(match, quiet=not end and is_quiet(segment_of(ground), match))

    def _counted(self, match: Match, *, quiet: bool) -> _Told:
        of = match.instances
        return _Told(
            quiet,
            np.diff(match.recvs.first).astype(np.int64), np.diff(match.probes.first).astype(np.int64),
            np.bincount(of.comm[(of.parent == NONE) & ~match.carried()], minlength=len(self.trace.communicators)),
        )  # fmt: skip

    def _analyse(
        self, ground: Ground, result: _Segmented, ways: tuple[str, ...], span: Span, looking: Ground | None = None
    ) -> None:  # fmt: skip
        """`looking`: the ground of all that the segment looks at."""
        to = result.segment.whole
        for analysis in ANALYSES:
            if analysis.cut not in ways or not may_find(ground, analysis):
                continue
            self._say(span, analysis.name)
            if looking is not None and analysis.name in _AHEAD:
                result.found[analysis.name] = attempt(analysis, partial(_list, analysis, looking))
                continue
            if analysis.costs:
                result.costs = attempt(
                    analysis, lambda: compute_costs(ground.trace, ground.match).with_renamed_events(to)
                )
            else:
                result.found[analysis.name] = attempt(analysis, partial(_list, analysis, ground))

    def _end(self, span: Span) -> None:
        """The last segment, which need not be quiet: it tells how the run ended."""
        self.trace.ends_with(self.cuts.segment(*span))
        silent = self._in_cells(span, end=True)
        if silent is not None:
            self._keep(span, silent)
            return
        ground = self.parts.ground(span)
        result = _Segmented(self._told(ground, end=True), segment_of(ground))
        with suppress(Exception):
            of, carried = ground.match.instances, ground.match.carried()
            before = self.before.collectives - np.bincount(of.comm[carried & (of.parent == NONE)], minlength=len(
                self.trace.communicators))  # fmt: skip
            own = (of.parent == NONE) & ~carried
            of.ordinal[own] += before[of.comm[own]].astype(np.uint32)
        self.trace.ends_with(result.segment)
        self._analyse(ground, result, ("each", "end"), span)
        self._keep(span, result)

    def _keep(self, span: Span, of: _Segmented) -> None:
        """Take what a segment found, its events by the names that they have in the run."""
        before = self.before

        def posted(what: str, rank: int) -> int:
            return int((before.probes if what == "probe" else before.receives)[rank])

        for name, found in of.found.items():
            if isinstance(found, Failure):
                self.kept.take(name, span[0], found)
                continue
            there = [_moved(one, of.segment.whole, posted, behind_others=before.races) for one in found]
            self.kept.take(name, span[0], there)
        self.kept.add(of.costs)

    def _say(self, span: Span, what: str) -> None:
        if self._walked:
            self.progress(0.1 + 0.7 * self._walked, f"{what} (part {span[0] + 1})")
        else:
            self.progress(0.1 + 0.7 * span[0] / len(self.cuts), f"{what} ({span[0] + 1} of {len(self.cuts)} parts)")

    # Ranks

    def _ranks(self) -> None:
        """What looks at the ranks one by one, on each of this worker's over the whole run."""
        share, made = _share(self.team, self.trace), 0
        for index in share:
            self.progress(0.8 + 0.2 * (index - share.start) / max(1, len(share)), f"the calls of rank {index}")
            ground = Ground(alone(self.trace, index))
            ground.parts = self.parts
            for analysis in ANALYSES:
                if analysis.cut == "ranks" and analysis.name not in self.kept.failed and may_find(ground, analysis):
                    self.kept.take(analysis.name, index, attempt(analysis, partial(_list, analysis, ground)))
            for thread in ground.trace.ranks[index].threads:
                let_go(thread.events)
                let_go(thread.tails)
            made += len(ground.trace.ranks[index])
            del ground
            if made > TOGETHER:
                forget(made)
                made = 0

    # All together

    def _together(self) -> dict[str, Found]:
        """What all workers found, at the first one."""
        told = self.team.at_first((self.kept, self.trace.problems))
        if not self.team.first:
            return {}
        for text in chain.from_iterable(problems for _, problems in told):
            self.trace.add_problem(text)
        alike = sum((kept.alike for kept, _ in told), Counter[Hashable]())
        whole = _Kept(alike=alike)
        for kept, _ in told:
            whole.add(kept.costs)
            whole.failed = kept.failed | whole.failed
        result: dict[str, Found] = {}
        for analysis in ANALYSES:
            found = [pair for kept, _ in told for pair in kept.found.get(analysis.name, ())]
            found.sort(key=lambda pair: pair[0])
            result[analysis.name] = whole.failed.get(analysis.name) or self._few(
                analysis.name, [one for _, one in found], alike
            )
            if analysis.costs and whole.costs is not None and analysis.name not in whole.failed:
                result[analysis.name] = attempt(analysis, partial(_of_costs, self.trace, whole.costs))
        return result

    def _few(self, name: str, found: list[Finding], alike: Counter[Hashable]) -> list[Finding]:
        """The findings, of those that are alike the first; notes of one line as one."""
        notes: dict[Hashable, list[Finding]] = {}
        rest: dict[Hashable, list[Finding]] = {}
        untried = [one for one in found if is_bound_note(one)]
        found = [one for one in found if not is_bound_note(one)]
        for one in found:
            of = notes if isinstance(one.evidence, OrderOnly) else rest
            of.setdefault(_key(name, one), []).append(one)
        first = [joined(self.trace, group) for group in notes.values()]
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


def _over(segment: Segment) -> None:
    """Give back the memory of a segment that was analysed. Its calls are counted first: that would make them again."""
    calls = segment.event_count
    segment.let_go()
    forget(calls)


def _looking(ahead: LookAhead | None) -> Ground | None:
    """The ground of all that a segment looks at."""
    if ahead is None:
        return None
    ground = Ground(ahead.segment, ahead.match)
    ground.__dict__["_order"] = ahead.order
    return ground


def _list(analysis: Analysis, ground: Ground) -> list[Finding]:
    return list(analysis.find(ground))


def _of_costs(trace: Trace, of: Costs) -> list[Finding]:
    return make_findings(trace, of) if len(trace.ranks) > 1 else []


def _renamed(evidence: Evidence, to: Callable[[EventId], EventId]) -> Evidence:
    """The evidence with the names that its events have in the run."""
    if isinstance(evidence, Alternative):
        took, other = (moved_to(place, to) for place in (evidence.took, evidence.alternative))
        return changed(evidence, took=took, alternative=other)
    if isinstance(evidence, Deadlock):
        misses = [changed(m, event=to(m.event)) if isinstance(m, OtherMessage) else m for m in evidence.near_misses]
        return changed(evidence, near_misses=tuple(misses))
    if isinstance(evidence, Overlap | WindowOverlap):
        accesses = [
            changed(access, **{name: to(value) for name, value in vars(access).items() if isinstance(value, EventId)})
            for access in evidence.accesses
        ]
        return changed(evidence, accesses=accesses)
    return evidence


def _moved(
    one: Finding, to: Callable[[EventId], EventId], posted: Callable[[str, int], int], *, behind_others: bool
) -> Finding:
    """A finding of a segment with the names that its events have in the run."""
    if one.kind == "message-race":
        one = moved(one, to, posted, behind_others=behind_others)
    else:
        one = replace(one, evidence=_renamed(one.evidence, to))
    return replace(one, events=tuple(to(event) for event in one.events))
