"""What goes from row to row in a stretch of the axis: messages, collectives, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.match import NONE, Match, Posts
from weft.trace import Flag, Trace
from weft.view.index import Timeline
from weft.view.rows import Rows
from weft.view.scale import Scale
from weft.waits.costs import Clockwork, late_sends

MAX_MESSAGES: Final = 500
"""Where a window has more messages, only the worst ones are drawn ..."""

WORST: Final = 60
"""... and no more than these."""

MAX_BANDS: Final = 120
MAX_PARTS: Final = 6_000
MAX_ARROWS: Final = 6
"""Ranks of one waiting call that each get an arrow."""

MAX_WAITED_FOR: Final = 3

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Slots:
    """Rows of sends or receives whose event lies in the window: by rank the rows [first, end)."""

    first: Ints
    end: Ints

    @property
    def count(self) -> int:
        """How many."""
        return int((self.end - self.first).sum())

    def rows(self) -> Ints:
        """All of them."""
        parts = [np.arange(a, b) for a, b in zip(self.first.tolist(), self.end.tolist(), strict=True) if b > a]
        return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


class Links:
    """The messages and collectives of a matched run, by stretches of an axis."""

    def __init__(self, rows: Rows, match: Match) -> None:
        self.rows = rows
        self.trace: Trace = rows.trace
        self.match = match

    @cached_property
    def _late(self) -> tuple[Ints, Ints, Ints]:
        """The receives that waited for their message, as (places, ns, places of the sends), and sorted by place."""
        waiter, cost, culprit = late_sends(Clockwork(self.trace), self.match)
        by = np.argsort(waiter, kind="stable")
        return waiter[by], cost[by], culprit[by]

    @cached_property
    def _first(self) -> Ints:
        """By rank where its events begin among those of the run."""
        found: Ints = np.concatenate([[0], np.cumsum([len(r.events) for r in self.trace.ranks])]).astype(np.int64)
        return found

    def in_window(self, scale: Scale, start: float, end: float, many: int = MAX_MESSAGES) -> dict[str, Any]:
        """Messages and collectives of [start, end) of the axis, as the page draws them; all of no more than `many`."""
        t0, t1 = (int(t) for t in scale.time([start, end]))
        events = self._events(scale.timeline, t0, t1)
        return {**self._messages(scale, events, many), **self._bands(scale, events, max(many // 4, MAX_BANDS))}

    def _events(self, timeline: Timeline, t0: int, t1: int) -> tuple[Ints, Ints]:
        """By rank the events of the window, as indices [first, end)."""
        first, end = (a.astype(np.int64) for a in timeline.range(t0, t1))
        if len(self.rows) == len(self.trace.ranks):
            return first, end
        lows, highs = [], []
        for rank in self.trace.ranks:
            rows = [self.rows[self.rows.first[rank.index] + t] for t in range(max(1, len(rank.threads)))]
            seen = [(int(first[r.index]), int(end[r.index]), r) for r in rows if end[r.index] > first[r.index]]
            lows.append(min((r.event_of(a) for a, _, r in seen), default=0))
            highs.append(max((r.event_of(b - 1) + 1 for _, b, r in seen), default=0))
        return np.array(lows, np.int64), np.array(highs, np.int64)

    # Messages

    def _slots(self, posts: Posts, events: tuple[Ints, Ints]) -> Slots:
        lows, highs = [], []
        for rank, (a, b) in enumerate(zip(*(e.tolist() for e in events), strict=True)):
            part = posts.of_rank(rank)
            # Posts are in posting order; those of several threads lie by and large so.
            low, high = np.searchsorted(posts.event[part], [a, b])
            lows.append(part.start + int(low))
            highs.append(part.start + int(high))
        return Slots(np.array(lows, np.int64), np.array(highs, np.int64))

    def _messages(self, scale: Scale, events: tuple[Ints, Ints], many: int) -> dict[str, Any]:
        sends, recvs = self._slots(self.match.sends, events), self._slots(self.match.recvs, events)
        if max(sends.count, recvs.count) <= many:
            rows = np.union1d(sends.rows(), self._partners(recvs.rows()))
            lonely = recvs.rows()[self.match.recvs.partner[recvs.rows()] == NONE]
            shown = self.messages(scale, rows.astype(np.int64)) + self.lonely(scale, lonely)
            return {"messages": shown, "hidden": 0}
        worst = self._worst(scale, events)
        return {"messages": worst, "hidden": max(sends.count, recvs.count) - len(worst)}

    def _partners(self, recvs: Ints) -> Ints:
        found = self.match.recvs.partner[recvs]
        sends: Ints = found[found != NONE].astype(np.int64)
        return sends

    def _worst(self, scale: Scale, events: tuple[Ints, Ints]) -> list[dict[str, Any]]:
        """The messages of the window that made somebody wait longest."""
        waiter, cost, culprit = self._late
        edges = np.searchsorted(waiter, np.stack([events[0] + self._first[:-1], events[1] + self._first[:-1]]))
        parts = []
        for a, b in edges.T.tolist():
            if b - a > WORST:
                parts.append(a + np.argpartition(cost[a:b], -WORST)[-WORST:])
            elif b > a:
                parts.append(np.arange(a, b))
        some = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)
        some = some[np.argsort(-cost[some], kind="stable")[:WORST]]
        return [self._arrow(scale, self._id(int(culprit[k])), self._id(int(waiter[k])), {"ns": int(cost[k])})
                for k in some.tolist()]  # fmt: skip

    def _id(self, place: int) -> tuple[int, int]:
        rank = int(np.searchsorted(self._first, place, side="right")) - 1
        return rank, place - int(self._first[rank])

    def messages(self, scale: Scale, rows: Ints) -> list[dict[str, Any]]:
        """The messages of some rows of match.sends."""
        found = []
        sends, recvs = self.match.sends, self.match.recvs
        for row in rows.tolist():
            tag, partner = int(sends.tag[row]), int(sends.partner[row])
            facts: dict[str, Any] = {"tag": tag, "comm": self._comm(int(sends.comm[row]))}
            if partner == NONE:
                found.append(
                    self._stub(scale, sends.id(row), int(sends.peer[row]), {**facts, "kind": "unmatched-send"})
                )
                continue
            to = recvs.rank_of(partner)
            end = recvs.completion[partner] if recvs.completion[partner] != NONE else recvs.event[partner]
            facts["post"] = [to, int(recvs.event[partner])]
            found.append(self._arrow(scale, sends.id(row), (to, int(end)), facts))
        return found

    def lonely(self, scale: Scale, rows: Ints) -> list[dict[str, Any]]:
        """The receives of some rows of match.recvs, which took no message."""
        recvs = self.match.recvs
        facts = [{"tag": int(recvs.tag[row]), "comm": self._comm(int(recvs.comm[row])), "kind": "unmatched-receive"}
                 for row in rows.tolist()]  # fmt: skip
        return [self._stub(scale, recvs.id(row), int(recvs.peer[row]), fact)
                for row, fact in zip(rows.tolist(), facts, strict=True)]  # fmt: skip

    def _comm(self, index: int) -> str:
        return self.trace.communicators[index].name if index >= 0 else "unknown"

    def _arrow(
        self, scale: Scale, send: tuple[int, int], recv: tuple[int, int], facts: Mapping[str, Any]
    ) -> dict[str, Any]:
        """From the beginning of the send to the end of the call that had the message."""
        a_row, a_start, _ = self.at(scale, send)
        b_row, _, b_end = self.at(scale, recv)
        return {"from": [a_row, a_start], "to": [b_row, b_end], "send": list(send), "receive": list(recv), **facts}

    def _stub(self, scale: Scale, event: tuple[int, int], peer: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        """A message that ends in the air, on the way to the row of its peer."""
        row, start, end = self.at(scale, event)
        toward = self.rows.first[peer] if 0 <= peer < len(self.trace.ranks) else None
        return {"from": [row, start], "toward": toward, "end": end, "event": list(event), "peer": peer, **facts}

    def at(self, scale: Scale, event: tuple[int, int]) -> tuple[int, float, float]:
        """Row, start and end of an event on the axis."""
        rows, starts, ends = scale.timeline.times_of(event[0], np.array([event[1]]))
        return int(rows[0]), float(scale.place(starts)[0]), float(scale.place(ends)[0])

    # Collectives

    def _bands(self, scale: Scale, events: tuple[Ints, Ints], many: int) -> dict[str, Any]:
        colls, of = self.match.collectives, self.match.instances
        parts: list[NDArray[Any]] = [np.zeros(0, np.int64)]
        for rank, (a, b) in enumerate(zip(*(e.tolist() for e in events), strict=True)):
            part = colls.of_rank(rank)
            low, high = np.searchsorted(colls.event[part], [a, b])
            if high - low > MAX_PARTS:
                return {"bands": [], "bands_hidden": True}
            parts.append(colls.instance[part.start + int(low) : part.start + int(high)])
        instances = np.unique(np.concatenate(parts))
        sizes = (of.first[instances.astype(np.int64) + 1] - of.first[instances.astype(np.int64)]).astype(np.int64)
        if len(instances) > many or int(sizes.sum()) > MAX_PARTS:
            return {"bands": [], "bands_hidden": True}
        return {"bands": [self.band(scale, int(i)) for i in instances], "bands_hidden": False}

    def band(self, scale: Scale, instance: int) -> dict[str, Any]:
        """One collective: its parts in order of row, each with start and end."""
        colls, of = self.match.collectives, self.match.instances
        places = of.parts(instance)
        parts = []
        for row in places.tolist():
            begin = self.at(scale, colls.id(row))
            done = int(colls.completion[row])
            done = int(colls.event[row]) if done == NONE else done
            parts.append(
                [begin[0], begin[1], self.at(scale, (colls.rank_of(row), done))[2], int(colls.event[row]), done]
            )
        comm = int(of.comm[instance])
        members = len(self.trace.communicators[comm].members) if comm >= 0 else 0
        names = {self.trace.functions[int(colls.function[row])].name for row in places.tolist()}
        return {
            "instance": instance, "comm": self._comm(comm), "comm_index": comm, "name": " / ".join(sorted(names)),
            "missing": max(0, members - len(parts)), "parts": sorted(parts),
        }  # fmt: skip


def arrows_of(finding: Finding, links: Links | None, scale: Scale) -> list[dict[str, Any]]:
    """What a finding draws into the graph: who waits for whom, the message taken, and those that could have been."""
    if finding.kind in ("deadlock", "potential-deadlock"):
        return list(_waits(finding))
    if finding.kind == "message-race" and links is not None and finding.events:
        return list(_race(finding, links, scale))
    return []


def _waits(finding: Finding) -> Iterable[dict[str, Any]]:
    """Who waits for whom; of many ranks in one call one arrow tells for all, and those of the cycle for themselves."""
    cycle = [int(rank) for rank in finding.evidence.get("cycle", ())]
    following = dict(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    yield from ({"kind": "waits", "rank": a, "for": b, "cycle": True, "ranks": 1} for a, b in following.items())
    for wait in finding.evidence.get("waits", ()):
        ranks = [rank for rank in wait["ranks"] if rank not in following]
        for other in wait["for"][:MAX_WAITED_FOR]:
            some = [rank for rank in ranks if rank != other]
            if len(some) > MAX_ARROWS:
                middle = some[len(some) // 2]
                yield {"kind": "waits", "rank": middle, "for": other, "cycle": False, "ranks": len(some)}
            else:
                yield from ({"kind": "waits", "rank": r, "for": other, "cycle": False, "ranks": 1} for r in some)


def _race(finding: Finding, links: Links, scale: Scale) -> Iterable[dict[str, Any]]:
    receive = finding.events[0]
    took = finding.evidence.get("took")
    sends = [(took["rank"], took["event"], "took")] if took else []
    sends += [(other["rank"], other["event"], "could") for other in finding.evidence.get("others", ())[:8]]
    to_row, to_start, to_end = links.at(scale, receive)
    for rank, event, kind in sends:
        row, start, _ = links.at(scale, (int(rank), int(event)))
        yield {"kind": kind, "from": [row, start], "to": [to_row, max(to_start, to_end)], "send": [rank, event],
               "receive": list(receive)}  # fmt: skip


def open_events(trace: Trace) -> list[tuple[int, int]]:
    """The calls that never returned."""
    found = []
    for rank in trace.ranks:
        tail = max(0, len(rank.events) - 64)
        closed = rank.events["flags"][tail:] & Flag.CLOSED
        found += [(rank.index, tail + int(i)) for i in np.flatnonzero(closed == 0)]
    return found
