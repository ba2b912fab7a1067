"""Another run beside the one that is shown: where they differ, aligned by rank, as the page draws it in both.

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
from weft.compare import compare, slower
from weft.compare.calls import Calls, Stretch
from weft.compare.contents import Content, Contents
from weft.compare.differences import Comparison, Difference
from weft.compare.told import lines, worth_telling
from weft.compare.told_results import held
from weft.compare.values.tolerance import Tolerance
from weft.errors import UsageError
from weft.match import NONE
from weft.terms.call_text import call_text
from weft.trace.explored import kept
from weft.view.picture import Picture
from weft.view.scale import Scale

Body = dict[str, Any]
Id = tuple[int, int]
MARKED: Final = 400
"""Calls of a run that are marked, those first that come first."""
CONTEXT: Final = 8
"""Calls of a rank before and behind its difference that are shown with it."""


class Others:
    """The runs that can be shown beside one, by name: each is opened when it is first asked for."""

    def __init__(self, picture: Picture, named: Path | None = None, *, has_values: bool = False) -> None:
        self.picture = picture
        self.named = named
        self.has_values = has_values
        """Whether the values of that run can be seen beside those of this one."""
        self._lock = threading.Lock()
        self._known: dict[str, Beside] = {}

    def path(self, name: str) -> Path:
        """Where a run lies. UsageError for one that was neither named nor explored."""
        if self.named is not None and name == self.named.name:
            return self.named
        outcomes = kept(self.picture.trace.path).get("outcomes", [])
        if name in {one["run"] for one in outcomes}:
            return self.picture.trace.path.resolve().with_name(name)
        raise UsageError(f"{name!r} is not a run beside this one")

    def beside(self, name: str) -> Beside:
        """A run beside the one that is shown."""
        path = self.path(name)
        with self._lock:
            if name not in self._known:
                other = Picture(weft.open(path))
                threading.Thread(target=other.analyse, daemon=True).start()
                self._known[name] = Beside(self.picture, other, has_values=self.has_values)
            return self._known[name]

    def picture_of(self, name: str) -> Picture:
        """The run that a question is about; that which is shown has no name."""
        return self.beside(name).after if name else self.picture


class Beside:
    """Two runs, `after` held against `before`."""

    def __init__(self, before: Picture, after: Picture, *, has_values: bool = False) -> None:
        self.before, self.after, self.has_values = before, after, has_values
        self._lock = threading.Lock()
        self._comparison: Comparison | None = None
        self._contents: Contents | None = None
        self._texts: list[str] = []

    def told(self, axis: str) -> Body:
        """What differs, in words and in places of an axis; waits until both runs are analysed."""
        comparison = self._compared()
        scales = self.before.scale(axis), self.after.scale(axis)
        found = [*comparison.first, *comparison.following]
        return {
            "axis": axis, "texts": self._texts, "values": self.has_values,
            "differences": [
                *(self._content(scales, one) for one in (self._contents.first if self._contents else ())),
                *(self._difference(scales, one, n < len(comparison.first)) for n, one in enumerate(found)),
            ],
            "sides": [self._side(side, scales[side], found) for side in (0, 1)],
        }  # fmt: skip

    def _compared(self) -> Comparison:
        with self._lock:
            if self._comparison is None:
                reports = []
                for picture in (self.before, self.after):
                    picture.reported.wait()
                    if picture.report is None:
                        raise UsageError(picture.failure or f"{picture.trace.path} could not be analysed")
                    reports.append(worth_telling(picture.report.findings))
                made = compare(self.before.ground.match, self.after.ground.match, self.after.ground.order)
                messages = held(made, self.after.ground.order, Tolerance())
                self._contents = messages.contents
                told = lines(made, slower(made), (reports[0], reports[1]), calls=messages.results is None)
                self._texts = [*messages.lines, *told]
                self._comparison = made
            return self._comparison

    def _difference(self, scales: tuple[Scale, Scale], one: Difference, first: bool) -> Body:
        sides = ((self.before, one.before), (self.after, one.after))
        found = [_seen(picture, scale, one.rank, event)
                 for (picture, event), scale in zip(sides, scales, strict=True)]  # fmt: skip
        return {"rank": one.rank, "what": "call", "first": first, "alike": one.alike, "sides": found}

    def _content(self, scales: tuple[Scale, Scale], one: Content) -> Body:
        """The first message of those that depend on each other that holds other bytes."""
        sides = ((self.before, one.before), (self.after, one.after))
        found = [_seen(picture, scale, one.rank, event)
                 for (picture, event), scale in zip(sides, scales, strict=True)]  # fmt: skip
        what = "sent" if one.sent else "received"
        return {"rank": one.rank, "what": what, "first": True, "alike": 0, "sides": found}

    def _side(self, side: int, scale: Scale, found: Iterable[Difference]) -> Body:
        picture = (self.before, self.after)[side]
        spread = []
        for one in found:
            seen = _seen(picture, scale, one.rank, one.after if side else one.before)
            spread.append([seen["row"], seen["at"]])
        assert self._comparison is not None
        changed, only = marked(self._comparison, side)
        held = self._held(side)
        return {
            "name": picture.trace.path.resolve().name, "ended": str(picture.trace.run.get("ended") or "unknown"),
            "spread": spread, "changed": _spots(scale, changed), "only": _spots(scale, only),
            "held": _spots(scale, held), "messages": self._messages(side, scale, [*changed, *only, *held]),
        }  # fmt: skip

    def _held(self, side: int) -> list[Id]:
        """The calls of a run whose messages hold other bytes than their like; the first ones."""
        ranks = (self.before, self.after)[side].trace.ranks
        found: list[tuple[int, Id]] = []
        for rank, both in (self._contents.unlike if self._contents else {}).items():
            events = np.unique(both[side])[:MARKED]
            times = ranks[rank].enter_ns(slice(None))[events]
            found += [(int(t), (rank, int(e))) for t, e in zip(times.tolist(), events.tolist(), strict=True)]
        return [event for _, event in sorted(found)[:MARKED]]

    def _messages(self, side: int, scale: Scale, events: Iterable[Id]) -> list[Any]:
        """The messages of calls, that came."""
        links = (self.before, self.after)[side].links
        if links is None:
            return []
        match, rows = links.match, set[int]()
        for event in (EventId(*one) for one in events):
            rows |= {int(row) for row in match.sends_of(event) if match.sends.partner[row] != NONE}
            rows |= {int(sent) for row in match.receives_of(event) if (sent := match.recvs.partner[row]) != NONE}
        return links.messages(scale, np.array(sorted(rows), np.int64))


def marked(comparison: Comparison, side: int) -> tuple[list[Id], list[Id]]:
    """The calls of one side that take another message than their like, and those that have none; the first ones."""
    changed: list[tuple[int, Id]] = []
    only: list[tuple[int, Id]] = []
    for one, two, stretchs in comparison.threads:
        mine = two if side else one
        other, alone = _unlike(one, two, stretchs, side)
        for found, places in ((changed, other), (only, alone)):
            events = mine.events[places[:MARKED]]
            times = mine.rank.enter_ns(slice(None))[events] if len(events) else events
            found += [(int(t), (mine.rank.index, int(e))) for t, e in zip(times.tolist(), events.tolist(), strict=True)]
    return [event for _, event in sorted(changed)[:MARKED]], [event for _, event in sorted(only)[:MARKED]]


def _unlike(
    one: Calls, two: Calls, stretchs: Iterable[Stretch], side: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of a thread's calls that take another message, and of those that the other run does not have."""
    alone = np.ones(len(two if side else one), bool)
    other: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for stretch in stretchs:
        before = slice(stretch.before, stretch.before + stretch.count)
        after = slice(stretch.after, stretch.after + stretch.count)
        mine = after if side else before
        alone[mine] = False
        other.append(mine.start + np.flatnonzero(one.taken[before] != two.taken[after]).astype(np.int64))
    return np.concatenate(other), np.flatnonzero(alone).astype(np.int64)


def _seen(picture: Picture, scale: Scale, rank: int, event: Id | None) -> Body:
    """A rank's place of difference in one run: its call, or where the rank's record ends; and what lies around it."""
    count = len(picture.trace.ranks[rank].events)
    if event is None and not count:
        return {"event": None, "text": "no call", "row": picture.rows.first[rank], "at": 0.0, "around": [0.0, 0.0]}
    last = event or (rank, count - 1)
    row, start, end = scale.spots([last])[0]
    near = [max(0, last[1] - CONTEXT), min(count - 1, last[1] + CONTEXT)]
    around = scale.spots([(rank, near[0]), (rank, near[1])])
    return {
        "event": event, "row": row, "at": end if event is None else start,
        "text": "no further call" if event is None else call_text(picture.trace.event(*event)),
        "around": [around[0][1], min(around[1][2], scale.measured)],
    }  # fmt: skip


def _spots(scale: Scale, events: list[Id]) -> list[list[float]]:
    return [[*event, *spot] for event, spot in zip(events, scale.spots(events), strict=True)] if events else []
