"""One run as the page sees it: the graph at once, matches and findings as soon as they are known."""

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
from weft.endings import describe_ends as ends
from weft.errors import UsageError, WeftError
from weft.evidence import Race
from weft.findings import Finding
from weft.picture.classes import CLASSES, class_table
from weft.report import AnalysisContext, Report, run_analyses
from weft.report.failure import describe_failures
from weft.report.gaps import list_gaps
from weft.report.rings import describe_scope
from weft.report.text import heading, ranks_with_ending, replay_commands
from weft.safety.runs import describe_execution, explain_doubt
from weft.trace import Level, Trace
from weft.trace.filter import Filter
from weft.view.call_details import call_facts, tooltip_facts
from weft.view.end_marks import find_end_marks, marks_to_json
from weft.view.links import Links, draw_finding_arrows, find_open_calls
from weft.view.logical_time import logical_scale
from weft.view.message_details import message_facts
from weft.view.replay_session import ReplaySession
from weft.view.rows import Rows
from weft.view.scale import Scale, clock_scale, folded_scale
from weft.view.tables import IntervalTables
from weft.view.timeline import Progress, end_margin, last_event_time, load_or_build_timeline, load_or_make_json
from weft.view.window import Hits, pack_window, parse_lanes

AXES: Final = ("time", "folded", "logical")
KEPT_FILTERS: Final = 6
MAX_EVENTS: Final = 64
"""Events of a finding that are marked in the graph."""

BEFORE: Final = 6
"""Calls of a row that are shown before those of a finding ..."""

CONTEXT: Final = 3
OPEN_CONTEXT: Final = 6
"""... where they take no more than so many times the time of the finding's own (that of a hang is hardly recorded)."""


class RunView:
    """A run, its rows, its axes, and the results of its analyses. Questions may come from several threads."""

    def __init__(self, trace: Trace, progress: Progress | None = None) -> None:
        if trace.level == Level.OUTCOMES and not trace.event_count:
            raise UsageError(
                f"{trace.path} was recorded with --level outcomes: it holds outcomes for a replay, and no calls to draw"
            )
        self.trace = trace
        self.rows = Rows(trace)
        self.ends = find_end_marks(trace)
        last = max([last_event_time(self.rows), *(mark.time for mark in self.ends)])
        self.measured = last
        timeline = load_or_build_timeline(self.rows, last + end_margin(last), progress)
        self._scales: dict[str, Scale] = {"time": clock_scale(timeline, last), "folded": folded_scale(timeline, last)}
        self._lock = threading.Lock()
        self._filters: OrderedDict[str, Hits] = OrderedDict()
        self.context = AnalysisContext(trace)
        self.replayed = ReplaySession(trace)
        self.report: Report | None = None
        self.failure: str | None = None
        self._links: Links | None = None
        self._sums: IntervalTables | None = None
        self.matched, self.reported = threading.Event(), threading.Event()
        self.shown = threading.Event()

    def analyse(self, patience: float = 0.0) -> None:
        """Match the run's messages and search for findings. Meant for a thread of its own; `matched` and `reported` are
        set when done.

        `patience`: how many seconds to wait for the page's first picture, because the analysis takes all processors.
        """
        self.shown.wait(patience)
        try:
            self._links = Links(self.rows, self.context.match)
            self.matched.set()
            self.report = run_analyses(self.trace, context=self.context)
        except Exception as error:  # the graph is worth looking at without
            self.failure = f"the analysis failed: {type(error).__name__}: {error}"
        self.matched.set()
        self.reported.set()

    @property
    def links(self) -> Links | None:
        """Return the messages and collectives; None until the run is matched."""
        return self._links

    def axis_by_name(self, name: str) -> Scale:
        """Return the axis "time", "folded" or "logical". UsageError for another name.

        The axis of logical time is made at the first request, which waits until the run is matched.
        """
        if name not in AXES:
            raise UsageError(f"there is no axis {name!r}, only {', '.join(AXES)}")
        if name == "logical":
            self._wait_for_match()
        with self._lock:
            if name not in self._scales:
                self._scales[name] = logical_scale(self.rows, self._wait_for_match().match)
            return self._scales[name]

    # What the page asks for

    def run_facts(self) -> dict[str, Any]:
        """Return the facts of the run that the page shows: its rows, functions, classes of calls and so on."""
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
            "open": [[*event, self.rows.row_of_event(*event)[0]] for event in find_open_calls(trace)],
            "groupings": load_or_make_json(
                trace, self.axis_by_name("time").timeline.last, "groupings", self.rows.groupings),
            "sources_note": sources.sources_of(trace).note(),
        }  # fmt: skip

    def local_run_facts(self) -> dict[str, Any]:
        """Return the facts of the run, with two that depend on this machine and are not exported: whether it was
        recorded elsewhere, and the program's folder.
        """
        run = self.trace.run
        foreign = bool(explain_doubt(self.trace.path, run)) or run.get("host") != platform.node()
        return {**self.run_facts(), "elsewhere": foreign, "folder": describe_execution(run)[1]}

    def axis_facts(self, name: str) -> dict[str, Any]:
        """Return where an axis ends, and which spans of time are folded on it."""
        scale = self.axis_by_name(name)
        folds = [[fold.at, fold.width, fold.start, fold.end] for fold in scale.folds]
        ends = marks_to_json(self.ends, scale, self.rows.first, self.trace)
        return {"name": name, "end": scale.end, "measured": scale.measured, "folds": folds, "ends": ends}

    def pack_window(self, axis: str, lanes: str, span: tuple[float, float], columns: int, query: str = "") -> bytes:
        """Return an interval of the axis as bytes for the page (weft.view.window). UsageError for an empty interval."""
        start, end = span
        if not start < end:
            raise UsageError("a window has to end after it begins")
        hits = self.find_hits(query) if query else None
        lanes_asked = parse_lanes(lanes, len(self.rows))
        found = pack_window(self.rows, self.axis_by_name(axis), lanes_asked, span, columns=columns, hits=hits)
        self.shown.set()
        return found

    def links_between(self, axis: str, start: float, end: float, query: str = "") -> dict[str, Any]:
        """Return the messages and collectives to draw in an interval of the axis. Until the run is matched there are
        none, and `ready` is false. `query`: a filter that marks links of fitting calls.
        """
        if self._links is None:
            return {"ready": self.matched.is_set(), "messages": [], "bands": [], "hidden": 0, "bands_hidden": False}
        hits = self.find_hits(query) if query else None
        return {"ready": True, **self._links.links_in_window(self.axis_by_name(axis), start, end, hits=hits)}

    def message_with_arrow(self, axis: str, side: str, row: int) -> dict[str, Any]:
        """Return the facts of one message, and the arrow that draws it. `side` and `row`: as in message_facts."""
        links, scale, facts = self._wait_for_match(), self.axis_by_name(axis), self.message_facts(side, row)
        rows = np.array([row], np.int64)
        arrows = links.draw_messages(scale, rows) if side == "send" else links.draw_unmatched_receives(scale, rows)
        ends = [facts[end]["event"] for end in ("send", "post", "receive") if facts[end]]
        return {**facts, "arrow": arrows[0], "places": scale.event_positions(ends)}

    def message_facts(self, side: str, row: int) -> dict[str, Any]:
        """Return the facts of one message, without positions on an axis. `side`: "send" or "receive"; `row`: its row in
        the match.
        """
        return message_facts(self._wait_for_match(), side, row)

    def _wait_for_match(self) -> Links:
        """Wait until the run is matched, and return its messages and collectives. WeftError if it could not
        be matched.
        """
        self.matched.wait()
        if self._links is None:
            raise WeftError(
                self.failure
                or "the messages of the run could not be matched, so there is no picture: see `weft report`"
            )
        return self._links

    def tooltip_facts(self, rank: int, index: int) -> dict[str, Any]:
        """Return the facts in the tooltip of a call."""
        return tooltip_facts(self._checked_event(rank, index))

    def list_findings(self, axis: str, patience: float = 0.0) -> dict[str, Any]:
        """Return the findings, worst first, with their positions on an axis. Waits up to `patience` seconds for the
        analysis.
        """
        if not self.reported.wait(patience) or self.report is None:
            return {"ready": self.reported.is_set(), "findings": [], "failures": [self.failure] if self.failure else []}
        scale = self.axis_by_name(axis)
        return {
            "ready": True,
            "heading": heading(self.trace, self.report),
            "findings": [self._finding_to_json(scale, f) for f in self.report.findings],
            "failures": describe_failures(self.trace.path, self.report.failures),
            "gaps": [*list_gaps(self.trace), *describe_scope(self.trace)],
            "problems": list(self.trace.problems),
            "ends": ends(self.trace, ranks_with_ending(self.report.findings)),
        }

    def _finding_to_json(self, scale: Scale, finding: Finding) -> dict[str, Any]:
        """Return a finding as JSON values, with its events, its arrows, and the interval of the axis that shows it."""
        of = finding.events[:MAX_EVENTS]
        events = [[*event, *spot] for event, spot in zip(of, scale.event_positions(of), strict=True)]
        marks = draw_finding_arrows(finding, scale)
        first = _count_first_events(finding)
        return {**finding.to_json(), "events": events, "first": first, "arrows": marks,
                "replays": replay_commands(self.trace, finding),
                "window": self._finding_window(scale, finding, events[:first], marks)}  # fmt: skip

    def _finding_window(
        self, scale: Scale, finding: Finding, events: list[Any], marks: list[dict[str, Any]]
    ) -> list[float] | None:
        """Return the interval of the axis that shows the calls of a finding, and some calls before them. None if no
        call of the finding is drawn. `events`, `marks`: its events and arrows with their positions.
        """
        starts = [e[3] for e in events] + [m["from"][1] for m in marks if "from" in m]
        if not starts:
            return None
        last = max(min(e[4], scale.measured) for e in events)
        before = [self.event_position(scale, (e[0], max(0, e[1] - BEFORE)))[1] for e in events]
        is_open = any(self.trace.event(e[0], e[1]).open for e in events)
        reach = (last - min(starts)) * (OPEN_CONTEXT if is_open else CONTEXT)
        first = min(*starts, max(float(np.median(before)), min(starts) - reach))
        wide = max(last - first, scale.end * 1e-7, 2.0 if scale.name == "logical" else 1000.0)
        return [first - wide * 0.06, last + wide * (0.35 if is_open else 0.08)]

    def event_position(self, scale: Scale, event: tuple[int, int]) -> tuple[int, float, float]:
        """Return (row of the picture, start, end) of an event on an axis."""
        return scale.event_positions([event])[0]

    def event_with_links(self, axis: str, rank: int, index: int) -> dict[str, Any]:
        """Return the facts of one call, with its messages and its collective as they are drawn."""
        facts, scale = self.event_facts(rank, index), self.axis_by_name(axis)
        facts["place"] = self.event_position(scale, (rank, index))
        facts["links"] = self._links_of_call(scale, EventId(rank, index)) if self._links else None
        return facts

    def event_facts(self, rank: int, index: int) -> dict[str, Any]:
        """Return the facts of one call, without positions on an axis."""
        findings = self.report.findings if self.report else ()
        return call_facts(self._checked_event(rank, index), self._links.match if self._links else None, findings)

    def _checked_event(self, rank: int, index: int) -> Any:
        """Return an event. UsageError if the run has no such rank or event."""
        if not 0 <= rank < len(self.trace.ranks):
            raise UsageError(f"the run has no rank {rank}")
        if not 0 <= index < len(self.trace.ranks[rank].events):
            raise UsageError(f"rank {rank} has no event {index}")
        return self.trace.event(rank, index)

    def _links_of_call(self, scale: Scale, event: EventId) -> dict[str, object]:
        """Return the messages that a call starts or completes and the collective that it is part of, as they are drawn.
        Empty before the run is matched.
        """
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
            "messages": links.draw_messages(scale, np.unique(sends)[:256])
            + links.draw_unmatched_receives(scale, mine[taken == 0xFFFFFFFF][:64]),
            "band": None if instance is None else links.draw_collective(scale, instance),
        }

    def causal_past_and_future(self, axis: str, rank: int, index: int) -> dict[str, Any]:
        """Return the positions on an axis where the causal past of a call ends and where its future begins. `past` and
        `future` have an item for each row of the picture; None if there is nothing in the row.
        """
        scale = self.axis_by_name(axis)
        found = self.frontier_events(self._checked_event(rank, index).id)
        return {key: [self._frontier_position(scale, row, point) for row, point in enumerate(points)]
                for key, points in found.items()}  # fmt: skip

    def frontier_events(self, event: EventId) -> dict[str, list[tuple[int, bool] | None]]:
        """Return where the causal past of a call ends and where its future begins. `past` and `future` have an item for
        each row: (event, True for its end or False for its start), or None.
        """
        self._wait_for_match()
        order = self.context.order
        past, future = order.past(event, end=True).points.tolist(), order.future(event).points.tolist()
        return {"past": [_decode_point(p, 0) for p in past], "future": [_decode_point(p, 0xFFFFFFFF) for p in future]}

    def _frontier_position(self, scale: Scale, row: int, point: tuple[int, bool] | None) -> float | None:
        """Return the position on the axis where a past ends or a future begins in a row; None if there is none.
        `point`: (event, whether its end is meant).
        """
        if point is None or not len(self.rows[row].events):
            return None
        _, start, end = self.event_position(scale, (self.rows[row].rank.index, point[0]))
        return end if point[1] else start

    def longest_call_between(self, axis: str, row: int, start: float, end: float) -> dict[str, Any]:
        """Return the longest call of a row in an interval of the axis. A click on the interval selects this call."""
        if not 0 <= row < len(self.rows):
            raise UsageError(f"there is no row {row}")
        scale = self.axis_by_name(axis)
        t0, t1 = (int(t) for t in scale.times_at([start, end]))
        first, last = scale.timeline.events_between(t0, max(t1, t0 + 1))
        low, high = int(first[row]), int(last[row])
        if low >= high:
            return {"event": None}
        boxes = scale.timeline.event_boxes(row, low, min(high, low + 100_000))
        inside = np.minimum(boxes["end"], t1) - np.maximum(boxes["start"], t0)
        best = low + int(np.argmax(inside))
        found = self.rows[row]
        return {"event": [found.rank.index, found.event_index(best)], "calls": high - low}

    # The filter

    def find_hits(self, query: str) -> Hits:
        """Return the calls that fit a filter, as their positions in each row of the picture. The results of the latest
        filters are cached.
        """
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

    def search_calls(self, axis: str, query: str, near: float, row: int, back: bool) -> dict[str, Any]:
        """Return how many calls fit a filter, and the next fitting call after the position `near` in a row (with
        `back`: before it).

        Of calls that begin at the same time, those of lower rows come first.
        """
        hits = self.find_hits(query)
        scale = self.axis_by_name(axis)
        count = sum(map(len, hits.values()))
        best: tuple[float, int, int] | None = None
        for other, places in hits.items():
            too = other < row if back else other > row
            found = _next_fitting_call(scale, other, places, near, back=back, including_near=too)
            if found and (best is None or (found > best if back else found < best)):
                best = found
        event = None
        if best is not None:
            of = self.rows[best[1]]
            event = [of.rank.index, of.event_index(best[2])]
        return {"count": count, "event": event, "text": plural(count, "call")}

    # Tables

    def tables(self, axis: str, span: tuple[float, float] | None = None) -> dict[str, Any]:
        """Return three tables: time by function, rank and call site; messages and bytes from rank to rank; waiting by
        the late rank.

        `span`: the interval of the axis that they cover. None, or an interval with all of the run, means the whole run.
        """
        links, scale = self._wait_for_match(), self.axis_by_name(axis)
        with self._lock:
            self._sums = self._sums or IntervalTables(links)
        if span is None or (span[0] <= 0 and span[1] >= scale.measured):
            return {**self._sums.whole_run(), "from": 0.0, "to": scale.measured}
        start, end = max(0.0, span[0]), min(max(span[1], 0.0), scale.measured)
        t0, t1 = (int(t) for t in scale.times_at([start, max(start, end)]))
        on_the_clock = self._scales["time"].timeline
        if axis == "logical":
            t0, t1 = self._clock_span(scale, t0, t1)
        return {
            **self._sums.tables_between(t0, t1, links.events_in_window(on_the_clock, t0, t1)),
            "from": start,
            "to": end,
        }

    def _clock_span(self, scale: Scale, t0: int, t1: int) -> tuple[int, int]:
        """Return the interval of time (ns) in which the calls of an interval of another axis were active; (0, 0) if it
        has none.
        """
        first, end = (a.astype(np.int64) for a in scale.timeline.events_between(t0, t1))
        rows = np.flatnonzero(end > first)
        if not len(rows):
            return 0, 0
        clock = self._scales["time"].timeline
        return int(clock.event_times(rows, first[rows])[0].min()), int(clock.event_times(rows, end[rows] - 1)[1].max())


def _decode_point(point: int, nothing: int) -> tuple[int, bool] | None:
    """Return (event, True for its end or False for its start) for a point of the causal order. None if the point is
    `nothing`.

    Point 2e + 1 is the start of event e, point 2e + 2 its end.
    """
    return None if point == nothing else ((point - 1) // 2, point % 2 == 0)


def _count_first_events(finding: Finding) -> int:
    """Return how many of a finding's events belong to its first occurrence. A finding may stand for several alike."""
    if finding.kind == "message-race":
        return 2 + (len(finding.evidence.others) if isinstance(finding.evidence, Race) else 0)
    return 2 if finding.alike > 1 else MAX_EVENTS


def _next_fitting_call(
    scale: Scale, row: int, positions: NDArray[np.int64], near: float, *, back: bool, including_near: bool
) -> tuple[float, int, int] | None:
    """Return the next call of a row that fits a filter, after the position `near` of the axis (with `back`: before it),
    as (start, row, position in the row). None if there is none.

    `including_near`: a call that begins exactly at the position counts.
    """

    def start(at: int) -> float:
        return float(scale.positions(scale.timeline.event_times(np.array([row]), positions[at : at + 1])[0])[0])

    # What begins at the place itself lies before the cut: going back it is next, going on it is not.
    at_cut = including_near if back else not including_near
    low, high = 0, len(positions)
    while low < high:
        middle = (low + high) // 2
        if start(middle) < near or (start(middle) == near and at_cut):
            low = middle + 1
        else:
            high = middle
    at = low - 1 if back else low
    return (start(at), row, int(positions[at])) if 0 <= at < len(positions) else None
