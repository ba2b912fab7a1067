"""Two runs side by side: where another run differs from the one shown, aligned by rank, as the page draws it in both.

The other run is one that was named, or an outcome that `weft explore` ran.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import weft
from weft.base.event_id import EventId
from weft.compare import compare, find_slower_places
from weft.compare.calls import AlikeRange, ThreadCalls
from weft.compare.contents import ContentComparison, MessageContent
from weft.compare.differences import Comparison, Difference
from weft.compare.report import errors_and_warnings, render_comparison
from weft.compare.result_report import compare_message_contents
from weft.compare.values.tolerance import Tolerance
from weft.errors import UsageError
from weft.match import NONE
from weft.terms.call_text import call_text
from weft.trace.explored import read_explored
from weft.view.run_view import RunView
from weft.view.scale import Scale

Body = dict[str, Any]
Id = tuple[int, int]
MARKED: Final = 400
"""Calls of a run that are marked, those first that come first."""
CONTEXT: Final = 8
"""Calls of a rank before and behind its difference that are shown with it."""


class OtherRuns:
    """The runs that can be shown beside one, by name. Each is opened when it is first asked for."""

    def __init__(self, picture: RunView, named: Path | None = None, *, has_values: bool = False) -> None:
        self.picture = picture
        self.named = named
        self.has_values = has_values
        """Whether the values of that run can be seen beside those of this one."""
        self._lock = threading.Lock()
        self._known: dict[str, SideBySide] = {}

    def run_path(self, name: str) -> Path:
        """Return the folder of a run by its name. UsageError unless the run was named by the user or comes from
        `weft explore`.
        """
        if self.named is not None and name == self.named.name:
            return self.named
        outcomes = read_explored(self.picture.trace.path).get("outcomes", [])
        if name in {one["run"] for one in outcomes}:
            return self.picture.trace.path.resolve().with_name(name)
        raise UsageError(f"{name!r} is not a run beside this one")

    def open_beside(self, name: str) -> SideBySide:
        """Open a run to show it beside the current one, and start its analysis."""
        path = self.run_path(name)
        with self._lock:
            if name not in self._known:
                other = RunView(weft.open(path))
                threading.Thread(target=other.analyse, daemon=True).start()
                self._known[name] = SideBySide(self.picture, other, has_values=self.has_values)
            return self._known[name]

    def find_view(self, name: str) -> RunView:
        """Return the view of the run with this name. An empty name means the run that was opened."""
        return self.open_beside(name).after if name else self.picture


class SideBySide:
    """Two runs, with the differences of `after` from `before`."""

    def __init__(self, before: RunView, after: RunView, *, has_values: bool = False) -> None:
        self.before, self.after, self.has_values = before, after, has_values
        self._lock = threading.Lock()
        self._comparison: Comparison | None = None
        self._contents: ContentComparison | None = None
        self._texts: list[str] = []

    def to_json(self, axis: str) -> Body:
        """Return the differences of both runs, as texts and as positions on an axis. Waits until both runs are
        analysed.
        """
        comparison = self._compare_runs()
        scales = self.before.axis_by_name(axis), self.after.axis_by_name(axis)
        found = [*comparison.first, *comparison.following]
        return {
            "axis": axis, "texts": self._texts, "values": self.has_values,
            "differences": [
                *(self._content_to_json(scales, one) for one in (self._contents.first if self._contents else ())),
                *(self._difference_to_json(scales, one, n < len(comparison.first)) for n, one in enumerate(found)),
            ],
            "sides": [self._side_to_json(side, scales[side], found) for side in (0, 1)],
        }  # fmt: skip

    def _compare_runs(self) -> Comparison:
        """Compare both runs at the first request: calls, contents of messages, and findings. Waits for the analyses;
        UsageError if one failed.
        """
        with self._lock:
            if self._comparison is None:
                reports = []
                for picture in (self.before, self.after):
                    picture.reported.wait()
                    if picture.report is None:
                        raise UsageError(picture.failure or f"{picture.trace.path} could not be analysed")
                    reports.append(errors_and_warnings(picture.report.findings))
                made = compare(self.before.context.match, self.after.context.match, self.after.context.order)
                messages = compare_message_contents(made, self.after.context.order, Tolerance())
                self._contents = messages.contents
                told = render_comparison(
                    made, find_slower_places(made), (reports[0], reports[1]), with_calls=messages.results is None
                )
                self._texts = [*messages.lines, *told]
                self._comparison = made
            return self._comparison

    def _difference_to_json(self, scales: tuple[Scale, Scale], one: Difference, first: bool) -> Body:
        """Return a difference between calls as JSON values, with its position in both runs. `first`: it is not a
        consequence of another one.
        """
        sides = ((self.before, one.before), (self.after, one.after))
        found = [_locate_difference(picture, scale, one.rank, event)
                 for (picture, event), scale in zip(sides, scales, strict=True)]  # fmt: skip
        return {"rank": one.rank, "what": "call", "first": first, "alike": one.alike, "sides": found}

    def _content_to_json(self, scales: tuple[Scale, Scale], one: MessageContent) -> Body:
        """Return a message with different contents as JSON values, with its position in both runs. Later messages may
        differ as a consequence of it.
        """
        sides = ((self.before, one.before), (self.after, one.after))
        found = [_locate_difference(picture, scale, one.rank, event)
                 for (picture, event), scale in zip(sides, scales, strict=True)]  # fmt: skip
        what = "sent" if one.sent else "received"
        return {"rank": one.rank, "what": what, "first": True, "alike": 0, "sides": found}

    def _side_to_json(self, side: int, scale: Scale, found: Iterable[Difference]) -> Body:
        """Return where one of both runs differs from the other: the calls to mark, and their messages. `side`: 0 for
        the earlier run, 1 for the later one.
        """
        picture = (self.before, self.after)[side]
        spread = []
        for one in found:
            seen = _locate_difference(picture, scale, one.rank, one.after if side else one.before)
            spread.append([seen["row"], seen["at"]])
        assert self._comparison is not None
        changed, only = find_marked_calls(self._comparison, side)
        held = self._calls_with_other_contents(side)
        return {
            "name": picture.trace.path.resolve().name,
            "ended": str(picture.trace.run.get("ended") or "unknown"),
            "spread": spread,
            "changed": _events_with_positions(scale, changed),
            "only": _events_with_positions(scale, only),
            "held": _events_with_positions(scale, held),
            "messages": self._messages_of_calls(side, scale, [*changed, *only, *held]),
        }

    def _calls_with_other_contents(self, side: int) -> list[Id]:
        """Return the calls of a run whose messages have other contents than in the other run; by time, at most
        `MARKED`. `side`: 0 for the earlier run, 1 for the later one.
        """
        ranks = (self.before, self.after)[side].trace.ranks
        found: list[tuple[int, Id]] = []
        for rank, both in (self._contents.unlike if self._contents else {}).items():
            events = np.unique(both[side])[:MARKED]
            times = ranks[rank].enter_ns(slice(None))[events]
            found += [(int(t), (rank, int(e))) for t, e in zip(times.tolist(), events.tolist(), strict=True)]
        return [event for _, event in sorted(found)[:MARKED]]

    def _messages_of_calls(self, side: int, scale: Scale, events: Iterable[Id]) -> list[Any]:
        """Return the messages that some calls received, as the page draws them. `side`: 0 for the earlier run, 1 for
        the later one.
        """
        links = (self.before, self.after)[side].links
        if links is None:
            return []
        match, rows = links.match, set[int]()
        for event in (EventId(*one) for one in events):
            rows |= {int(row) for row in match.sends_of(event) if match.sends.partner[row] != NONE}
            rows |= {int(sent) for row in match.receives_of(event) if (sent := match.recvs.partner[row]) != NONE}
        return links.draw_messages(scale, np.array(sorted(rows), np.int64))


def find_marked_calls(comparison: Comparison, side: int) -> tuple[list[Id], list[Id]]:
    """Return two lists of calls of one run: calls that receive another message than in the other run, and calls that
    the other run does not have. `side`: 0 for the earlier run, 1 for the later one.

    Each list has the first `MARKED` calls by time.
    """
    changed: list[tuple[int, Id]] = []
    only: list[tuple[int, Id]] = []
    for one, two, alike_ranges in comparison.threads:
        mine = two if side else one
        other, alone = _find_unlike_calls(one, two, alike_ranges, side)
        for found, places in ((changed, other), (only, alone)):
            events = mine.events[places[:MARKED]]
            times = mine.rank.enter_ns(slice(None))[events] if len(events) else events
            found += [(int(t), (mine.rank.index, int(e))) for t, e in zip(times.tolist(), events.tolist(), strict=True)]
    return [event for _, event in sorted(changed)[:MARKED]], [event for _, event in sorted(only)[:MARKED]]


def _find_unlike_calls(
    one: ThreadCalls, two: ThreadCalls, alike_ranges: Iterable[AlikeRange], side: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two arrays with positions of a thread's calls: calls that receive another message than in the other run,
    and calls that the other run does not have. `side`: 0 for the earlier run, 1 for the later one.
    """
    alone = np.ones(len(two if side else one), bool)
    other: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for stretch in alike_ranges:
        before = slice(stretch.before, stretch.before + stretch.count)
        after = slice(stretch.after, stretch.after + stretch.count)
        mine = after if side else before
        alone[mine] = False
        other.append(mine.start + np.flatnonzero(one.taken[before] != two.taken[after]).astype(np.int64))
    return np.concatenate(other), np.flatnonzero(alone).astype(np.int64)


def _locate_difference(picture: RunView, scale: Scale, rank: int, event: Id | None) -> Body:
    """Return where on an axis a rank differs in one run. It is the call `event`; if this is None, the end of the rank's
    calls.
    """
    count = len(picture.trace.ranks[rank].events)
    if event is None and not count:
        return {"event": None, "text": "no call", "row": picture.rows.first[rank], "at": 0.0, "around": [0.0, 0.0]}
    last = event or (rank, count - 1)
    row, start, end = scale.event_positions([last])[0]
    near = [max(0, last[1] - CONTEXT), min(count - 1, last[1] + CONTEXT)]
    around = scale.event_positions([(rank, near[0]), (rank, near[1])])
    return {
        "event": event, "row": row, "at": end if event is None else start,
        "text": "no further call" if event is None else call_text(picture.trace.event(*event)),
        "around": [around[0][1], min(around[1][2], scale.measured)],
    }  # fmt: skip


def _events_with_positions(scale: Scale, events: list[Id]) -> list[list[float]]:
    return (
        [[*event, *spot] for event, spot in zip(events, scale.event_positions(events), strict=True)] if events else []
    )
