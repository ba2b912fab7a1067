"""One run as the page sees it: the graph at once, matches and findings as soon as they are there."""

from __future__ import annotations

import platform
import threading
from collections import OrderedDict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft import sources
from weft.base.event_id import EventId
from weft.base.words import plural
from weft.endings import lines as ends
from weft.errors import UsageError, WeftError
from weft.evidence import Race
from weft.findings import Finding
from weft.picture.classes import CLASSES, class_table
from weft.report import Ground, Report, examine
from weft.report.failure import failure_lines
from weft.report.rings import describe_scope
from weft.report.text import heading, replays
from weft.safety.runs import describe_execution, explain_doubt
from weft.trace import Level, Trace
from weft.trace.filter import Filter
from weft.view.delivery import message
from weft.view.details import details, tip
from weft.view.ends import end_marks, placed
from weft.view.index import Progress, indexed, last_time, margin, remembered
from weft.view.levels import logical
from weft.view.links import Links, arrows_of, open_events
from weft.view.replayed import Replayed
from weft.view.rows import Rows
from weft.view.scale import Scale, folded, on_the_clock
from weft.view.sums import Sums
from weft.view.window import Hits, parse_lanes, window

AXES: Final = ("time", "folded", "logical")
KEPT_FILTERS: Final = 6
MAX_EVENTS: Final = 64
"""Events of a finding that are marked in the graph."""

BEFORE: Final = 6
"""Calls of a row that are shown before those of a finding ..."""

CONTEXT: Final = 3
OPEN_CONTEXT: Final = 6
"""... where they take no more than so many times the time of the finding's own (that of a hang is hardly recorded)."""


class Picture:
    """A run, its rows, its axes, and what the analyses say of it. Questions may come from several threads."""

    def __init__(self, trace: Trace, progress: Progress | None = None) -> None:
        if trace.level == Level.OUTCOMES and not trace.event_count:
            raise UsageError(
                f"{trace.path} was recorded with --level outcomes: it holds outcomes for a replay, and no calls to draw"
            )
        self.trace = trace
        self.rows = Rows(trace)
        self.ends = end_marks(trace)
        last = max([last_time(self.rows), *(mark.time for mark in self.ends)])
        self.measured = last
        timeline = indexed(self.rows, last + margin(last), progress)
        self._scales: dict[str, Scale] = {"time": on_the_clock(timeline, last), "folded": folded(timeline, last)}
        self._lock = threading.Lock()
        self._filters: OrderedDict[str, Hits] = OrderedDict()
        self.ground = Ground(trace)
        self.replayed = Replayed(trace)
        self.report: Report | None = None
        self.failure: str | None = None
        self._links: Links | None = None
        self._sums: Sums | None = None
        self.matched, self.reported = threading.Event(), threading.Event()
        self.shown = threading.Event()

    def analyse(self, patience: float = 0.0) -> None:
        """Match the run and look for findings: what a thread of its own does once the page has its first picture.

        It is waited for `patience` seconds at most: the analysis takes all processors, and the picture comes first.
        """
        self.shown.wait(patience)
        try:
            self._links = Links(self.rows, self.ground.match)
            self.matched.set()
            self.report = examine(self.trace, ground=self.ground)
        except Exception as error:  # the graph is worth looking at without
            self.failure = f"the analysis failed: {type(error).__name__}: {error}"
        self.matched.set()
        self.reported.set()

    @property
    def links(self) -> Links | None:
        """Messages and collectives, None until the run is matched."""
        return self._links

    def scale(self, name: str) -> Scale:
        """An axis by its name. Logical time needs the match, and is made when it is first asked for."""
        if name not in AXES:
            raise UsageError(f"there is no axis {name!r}, only {', '.join(AXES)}")
        if name == "logical":
            self._matched()
        with self._lock:
            if name not in self._scales:
                self._scales[name] = logical(self.rows, self._matched().match)
            return self._scales[name]

    # What the page asks for

    def facts(self) -> dict[str, Any]:
        """The run, its rows and what colours mean."""
        trace = self.trace
        table = class_table(trace.functions)
        command = trace.run.get("command")
        return {
            "path": str(trace.path), "name": trace.path.resolve().name, "ranks": len(trace.ranks),
            "command": [str(word) for word in command] if isinstance(command, list) else [],
            "ended": str(trace.run.get("ended") or "unknown"), "started": str(trace.run.get("started") or ""),
            "events": trace.event_count, "last_ns": self.measured, "classes": [c.word for c in CLASSES],
            "functions": {f.id: [f.name, int(table[f.id])] for f in trace.functions},
            "rows": [[row.label, row.rank.index, row.thread, row.rank.state] for row in self.rows],
            "names": trace.names, "system": trace.system.name,
            "open": [[*event, self.rows.of_event(*event)[0]] for event in open_events(trace)],
            "groupings": remembered(trace, self.scale("time").timeline.last, "groupings", self.rows.groupings),
            "sources_note": sources.of(trace).note(),
        }  # fmt: skip

    def here(self) -> dict[str, Any]:
        """The facts, as this machine's server tells them; what is exported says the same everywhere."""
        run = self.trace.run
        foreign = bool(explain_doubt(self.trace.path, run)) or run.get("host") != platform.node()
        return {**self.facts(), "elsewhere": foreign, "folder": describe_execution(run)[1]}

    def axis(self, name: str) -> dict[str, Any]:
        """Where the axis ends, and what is folded."""
        scale = self.scale(name)
        folds = [[fold.at, fold.width, fold.start, fold.end] for fold in scale.folds]
        ends = placed(self.ends, scale, self.rows.first, self.trace)
        return {"name": name, "end": scale.end, "measured": scale.measured, "folds": folds, "ends": ends}

    def window(self, axis: str, lanes: str, span: tuple[float, float], columns: int, query: str = "") -> bytes:
        """A stretch of the axis."""
        start, end = span
        if not start < end:
            raise UsageError("a window has to end after it begins")
        hits = self.hits(query) if query else None
        lanes_asked = parse_lanes(lanes, len(self.rows))
        found = window(self.rows, self.scale(axis), lanes_asked, span, columns=columns, hits=hits)
        self.shown.set()
        return found

    def between(self, axis: str, start: float, end: float, query: str = "") -> dict[str, Any]:
        """Messages and collectives of a stretch of the axis; not ready until the run is matched."""
        if self._links is None:
            return {"ready": self.matched.is_set(), "messages": [], "bands": [], "hidden": 0, "bands_hidden": False}
        hits = self.hits(query) if query else None
        return {"ready": True, **self._links.in_window(self.scale(axis), start, end, hits=hits)}

    def message(self, axis: str, side: str, row: int) -> dict[str, Any]:
        """One message, with its arrow as the graph draws it."""
        links, scale, facts = self._matched(), self.scale(axis), self.message_facts(side, row)
        rows = np.array([row], np.int64)
        arrows = links.messages(scale, rows) if side == "send" else links.lonely(scale, rows)
        ends = [facts[end]["event"] for end in ("send", "post", "receive") if facts[end]]
        return {**facts, "arrow": arrows[0], "places": scale.spots(ends)}

    def message_facts(self, side: str, row: int) -> dict[str, Any]:
        """One message, without where it is drawn."""
        return message(self._matched(), side, row)

    def _matched(self) -> Links:
        self.matched.wait()
        if self._links is None:
            raise WeftError(self.failure or "the run could not be matched")
        return self._links

    def tip(self, rank: int, index: int) -> dict[str, Any]:
        """What the box of a call says of itself."""
        return tip(self._known(rank, index))

    def findings(self, axis: str, patience: float = 0.0) -> dict[str, Any]:
        """The findings, worst first, with where they are on the axis."""
        if not self.reported.wait(patience) or self.report is None:
            return {"ready": self.reported.is_set(), "findings": [], "failures": [self.failure] if self.failure else []}
        scale = self.scale(axis)
        return {
            "ready": True,
            "heading": heading(self.trace, self.report),
            "findings": [self._finding(scale, f) for f in self.report.findings],
            "failures": failure_lines(self.trace.path, self.report.failures),
            "problems": [*describe_scope(self.trace), *self.trace.problems],
            "ends": ends(self.trace),
        }

    def _finding(self, scale: Scale, finding: Finding) -> dict[str, Any]:
        of = finding.events[:MAX_EVENTS]
        events = [[*event, *spot] for event, spot in zip(of, scale.spots(of), strict=True)]
        marks = arrows_of(finding, scale)
        first = _of_the_first(finding)
        return {**finding.to_json(), "events": events, "first": first, "arrows": marks,
                "replays": replays(self.trace, finding),
                "window": self._around_of(scale, finding, events[:first], marks)}  # fmt: skip

    def _around_of(
        self, scale: Scale, finding: Finding, events: list[Any], marks: list[dict[str, Any]]
    ) -> list[float] | None:
        """The stretch of the axis that shows a finding: its calls, and some that came before them."""
        starts = [e[3] for e in events] + [m["from"][1] for m in marks if "from" in m]
        if not starts:
            return None
        last = max(min(e[4], scale.measured) for e in events)
        before = [self.event_spot(scale, (e[0], max(0, e[1] - BEFORE)))[1] for e in events]
        is_open = any(self.trace.event(e[0], e[1]).open for e in events)
        reach = (last - min(starts)) * (OPEN_CONTEXT if is_open else CONTEXT)
        first = min(*starts, max(float(np.median(before)), min(starts) - reach))
        wide = max(last - first, scale.end * 1e-7, 2.0 if scale.name == "logical" else 1000.0)
        return [first - wide * 0.06, last + wide * (0.35 if is_open else 0.08)]

    def event_spot(self, scale: Scale, event: tuple[int, int]) -> tuple[int, float, float]:
        """Row, start and end of an event on an axis."""
        return scale.spots([event])[0]

    def event(self, axis: str, rank: int, index: int) -> dict[str, Any]:
        """One call, with its messages and its collective as the graph draws them."""
        facts, scale = self.event_facts(rank, index), self.scale(axis)
        facts["place"] = self.event_spot(scale, (rank, index))
        facts["links"] = self._links_of(scale, EventId(rank, index)) if self._links else None
        return facts

    def event_facts(self, rank: int, index: int) -> dict[str, Any]:
        """One call, without where it is drawn."""
        findings = self.report.findings if self.report else ()
        return details(self._known(rank, index), self._links.match if self._links else None, findings)

    def _known(self, rank: int, index: int) -> Any:
        if not 0 <= rank < len(self.trace.ranks):
            raise UsageError(f"the run has no rank {rank}")
        if not 0 <= index < len(self.trace.ranks[rank].events):
            raise UsageError(f"rank {rank} has no event {index}")
        return self.trace.event(rank, index)

    def _links_of(self, scale: Scale, event: EventId) -> dict[str, object]:
        links = self._links
        if links is None:
            return {}
        match = links.match
        recvs = match.recvs.of_rank(event[0])
        done = recvs.start + np.flatnonzero(match.recvs.completion[recvs] == event[1])
        mine = np.unique(np.concatenate([match.receives_of(event), done]).astype(np.int64))
        taken = match.recvs.partner[mine]
        sends = np.concatenate([match.sends_of(event), taken[taken != 0xFFFFFFFF]]).astype(np.int64)
        instance = match.collective_of(event)
        return {
            "messages": links.messages(scale, np.unique(sends)[:256])
            + links.lonely(scale, mine[taken == 0xFFFFFFFF][:64]),
            "band": None if instance is None else links.band(scale, instance),
        }

    def around(self, axis: str, rank: int, index: int) -> dict[str, Any]:
        """How far the past of a call reaches in each row, and where its future begins; None for nowhere."""
        scale = self.scale(axis)
        found = self.frontiers(self._known(rank, index).id)
        return {key: [self._frontier(scale, row, point) for row, point in enumerate(points)]
                for key, points in found.items()}  # fmt: skip

    def frontiers(self, event: EventId) -> dict[str, list[tuple[int, bool] | None]]:
        """By row the last event before a call and the first one after it, and whether their ends are meant."""
        self._matched()
        order = self.ground.order
        past, future = order.past(event, end=True).points.tolist(), order.future(event).points.tolist()
        return {"past": [_point(p, 0) for p in past], "future": [_point(p, 0xFFFFFFFF) for p in future]}

    def _frontier(self, scale: Scale, row: int, point: tuple[int, bool] | None) -> float | None:
        if point is None or not len(self.rows[row].events):
            return None
        _, start, end = self.event_spot(scale, (self.rows[row].rank.index, point[0]))
        return end if point[1] else start

    def at(self, axis: str, row: int, start: float, end: float) -> dict[str, Any]:
        """The longest call of a row in a stretch of the axis: what a click there means."""
        if not 0 <= row < len(self.rows):
            raise UsageError(f"there is no row {row}")
        scale = self.scale(axis)
        t0, t1 = (int(t) for t in scale.time([start, end]))
        first, last = scale.timeline.range(t0, max(t1, t0 + 1))
        low, high = int(first[row]), int(last[row])
        if low >= high:
            return {"event": None}
        boxes = scale.timeline.boxes(row, low, min(high, low + 100_000))
        inside = np.minimum(boxes["end"], t1) - np.maximum(boxes["start"], t0)
        best = low + int(np.argmax(inside))
        found = self.rows[row]
        return {"event": [found.rank.index, found.event_of(best)], "calls": high - low}

    # The filter

    def hits(self, query: str) -> Hits:
        """By row the places of the calls that fit a filter."""
        with self._lock:
            found = self._filters.get(query)
            if found is not None:
                self._filters.move_to_end(query)
                return found
        wanted = Filter(query)
        made: dict[int, NDArray[np.int64]] = {}
        for rank in wanted.ranks(self.trace):
            indices = np.concatenate([np.zeros(0, np.int64), *wanted.indices(rank)]).astype(np.int64)
            if not len(indices):
                continue
            threads = rank.event_threads[indices] if len(rank.threads) > 1 else np.zeros(len(indices), np.int32)
            for thread in np.unique(threads).tolist():
                mine = indices[threads == thread]
                places = rank.event_positions[mine] if len(rank.threads) > 1 else mine
                made[self.rows.first[rank.index] + thread] = places
        with self._lock:
            self._filters[query] = made
            while len(self._filters) > KEPT_FILTERS:
                self._filters.popitem(last=False)
        return made

    def search(self, axis: str, query: str, near: float, row: int, back: bool) -> dict[str, Any]:
        """How many calls fit a filter, and the next one after a place in a row (with `back`: before it).

        Of calls that begin at one time those of lower rows come first.
        """
        hits = self.hits(query)
        scale = self.scale(axis)
        count = sum(map(len, hits.values()))
        best: tuple[float, int, int] | None = None
        for other, places in hits.items():
            too = other < row if back else other > row
            found = _next(scale, other, places, near, back=back, too=too)
            if found and (best is None or (found > best if back else found < best)):
                best = found
        event = None
        if best is not None:
            of = self.rows[best[1]]
            event = [of.rank.index, of.event_of(best[2])]
        return {"count": count, "event": event, "text": plural(count, "call")}

    # Tables

    def tables(self, axis: str, span: tuple[float, float] | None = None) -> dict[str, Any]:
        """Time by function, rank and call site; messages and bytes from rank to rank; waiting by who caused it.

        Of a stretch of the axis, or where that holds all of the run (or none is given), of the run as a whole.
        """
        links, scale = self._matched(), self.scale(axis)
        with self._lock:
            self._sums = self._sums or Sums(links)
        if span is None or (span[0] <= 0 and span[1] >= scale.measured):
            return {**self._sums.whole(), "from": 0.0, "to": scale.measured}
        start, end = max(0.0, span[0]), min(max(span[1], 0.0), scale.measured)
        t0, t1 = (int(t) for t in scale.time([start, max(start, end)]))
        on_the_clock = self._scales["time"].timeline
        if axis == "logical":
            t0, t1 = self._clock_of(scale, t0, t1)
        return {**self._sums.of(t0, t1, links.events(on_the_clock, t0, t1)), "from": start, "to": end}

    def _clock_of(self, scale: Scale, t0: int, t1: int) -> tuple[int, int]:
        """The time in which the calls of a stretch of another axis were under way."""
        first, end = (a.astype(np.int64) for a in scale.timeline.range(t0, t1))
        rows = np.flatnonzero(end > first)
        if not len(rows):
            return 0, 0
        clock = self._scales["time"].timeline
        return int(clock.times(rows, first[rows])[0].min()), int(clock.times(rows, end[rows] - 1)[1].max())


def _point(point: int, nothing: int) -> tuple[int, bool] | None:
    """Rows are what the order calls processes: point 2e + 1 is the start of event e, 2e + 2 its end."""
    return None if point == nothing else ((point - 1) // 2, point % 2 == 0)


def _of_the_first(finding: Finding) -> int:
    """How many of a finding's events belong to the first of the places that it stands for."""
    if finding.kind == "message-race":
        return 2 + (len(finding.evidence.others) if isinstance(finding.evidence, Race) else 0)
    return 2 if finding.alike > 1 else MAX_EVENTS


def _next(
    scale: Scale, row: int, places: NDArray[np.int64], near: float, *, back: bool, too: bool
) -> tuple[float, int, int] | None:
    """The hit of a row that begins next after a place of the axis (`back`: before), or at it where `too` is said."""

    def start(at: int) -> float:
        return float(scale.positions(scale.timeline.times(np.array([row]), places[at : at + 1])[0])[0])

    # What begins at the place itself lies before the cut: going back it is next, going on it is not.
    at_cut = too if back else not too
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        if start(middle) < near or (start(middle) == near and at_cut):
            low = middle + 1
        else:
            high = middle
    at = low - 1 if back else low
    return (start(at), row, int(places[at])) if 0 <= at < len(places) else None
