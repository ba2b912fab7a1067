"""Links between rows in an interval of the axis: messages, collectives, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.evidence import Cycle, Deadlock, Race
from weft.findings import Finding
from weft.match import NONE, Collectives, Match, Posts
from weft.terms.rank_progress import open_calls
from weft.trace import Trace
from weft.view.rows import Rows
from weft.view.scale import Scale
from weft.view.timeline import Timeline
from weft.view.window import Hits
from weft.waits.causes import Cause
from weft.waits.wait_states import WaitRows, waits_of_run

MAX_MESSAGES: Final = 500
"""Where a window has more messages, only the worst ones are drawn ..."""

WORST: Final = 60
"""... and no more than these."""

MAX_LOST: Final = 40
"""Messages that end in the air, drawn of each kind where messages are many."""

MOST_HITS: Final = 20_000
"""Calls of a window that fit a filter: of more, the messages are not looked for."""

MAX_BANDS: Final = 120
MAX_PARTS: Final = 6_000
MAX_ARROWS: Final = 6
"""Ranks of one waiting call that each get an arrow."""

MAX_WAITED_FOR: Final = 3

Ints = NDArray[np.int64]
Id = tuple[int, int]
"""(rank, event)."""


@dataclass(frozen=True)
class WindowRows:
    """The rows of sends or receives whose events are in a window: by rank the rows [first, end)."""

    first: Ints
    end: Ints

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return int((self.end - self.first).sum())

    def intersect(self, sorted_rows: Ints) -> Ints:
        """Return the rows among `sorted_rows` that lie in the window."""
        parts = [
            sorted_rows[slice(*np.searchsorted(sorted_rows, [a, b]))] for a, b in zip(self.first, self.end, strict=True)
        ]
        found: Ints = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)
        return found

    def all_rows(self) -> Ints:
        """Return all rows in the window."""
        parts = [np.arange(a, b) for a, b in zip(self.first.tolist(), self.end.tolist(), strict=True) if b > a]
        return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


class Links:
    """The messages and collectives of a matched run, by intervals of an axis."""

    def __init__(self, rows: Rows, match: Match) -> None:
        self.rows = rows
        self.trace: Trace = rows.trace
        self.match = match

    @cached_property
    def _late_senders(self) -> tuple[Ints, Ints, Ints]:
        """Return the waits of receives for late senders, sorted by waiter: (event numbers, ns, event numbers of the
        sends).
        """
        return _sort_by_waiter(waits_of_run(self.trace, self.match).rows.with_causes(Cause.LATE_SENDER))

    @cached_property
    def _late_receivers(self) -> tuple[Ints, Ints, Ints]:
        """Return the waits of sends for late receivers, sorted by waiter: (event numbers, ns, event numbers of the
        receives).
        """
        return _sort_by_waiter(waits_of_run(self.trace, self.match).rows.with_causes(Cause.LATE_RECEIVER))

    def receive_wait_ns(self, receive: Id, send: Id) -> int:
        """Return how many ns a call waited for a message that was sent late; 0 if it did not."""
        return self._wait_ns(self._late_senders, receive, send)

    def send_wait_ns(self, send: Id, post: Id) -> int:
        """Return how many ns a call waited until the receive of its message was posted; 0 if it did not."""
        return self._wait_ns(self._late_receivers, send, post)

    def _wait_ns(self, waits: tuple[Ints, Ints, Ints], waiter: Id, culprit: Id) -> int:
        mine, theirs = (int(self._event_offsets[rank]) + event for rank, event in (waiter, culprit))
        part = slice(*np.searchsorted(waits[0], [mine, mine + 1]))
        return int(waits[1][part][waits[2][part] == theirs].sum())

    @cached_property
    def _event_offsets(self) -> Ints:
        """Return, for each rank, the number of its first event among all events of the run."""
        found: Ints = np.concatenate([[0], np.cumsum([len(r.events) for r in self.trace.ranks])]).astype(np.int64)
        return found

    def links_in_window(
        self, scale: Scale, start: float, end: float, most_messages: int = MAX_MESSAGES, hits: Hits | None = None
    ) -> dict[str, Any]:
        """Return the messages and collectives to draw in an interval of an axis, from `start` up to `end`.

        If there are more than `most_messages` messages, only the costliest and the unmatched ones are returned; with
        `hits` (calls that fit a filter), the fitting ones instead. With `hits`, each link has a key `fits`: whether one
        of its calls fits.
        """
        t0, t1 = (int(t) for t in scale.times_at([start, end]))
        events = self.events_in_window(scale.timeline, t0, t1)
        found = {
            **self._messages_in_window(scale, events, most_messages, hits),
            **self._bands_in_window(scale, events, max(most_messages // 4, MAX_BANDS)),
        }
        if hits is not None:
            for one in [*found["messages"], *found["bands"]]:
                one["fits"] = any(self._fits_filter(hits, end) for end in _linked_calls(one, self.rows))
        return found

    def _fits_filter(self, hits: Hits, event: Id) -> bool:
        """Return whether a call is among the calls that fit the filter. `hits`: their positions in each row of the
        picture.
        """
        row, position = self.rows.row_of_event(*event)
        of_row = hits.get(row)
        if of_row is None:
            return False
        place = int(np.searchsorted(of_row, position))
        return place < len(of_row) and int(of_row[place]) == position

    def events_in_window(self, timeline: Timeline, t0: int, t1: int) -> tuple[Ints, Ints]:
        """Return the events that lie in an interval of time from `t0` to `t1` ns. They are given as two arrays: the
        first event index of each rank, and the index after the last.
        """
        first, end = (a.astype(np.int64) for a in timeline.events_between(t0, t1))
        if len(self.rows) == len(self.trace.ranks):
            return first, end
        lows, highs = [], []
        for rank in self.trace.ranks:
            rows = [self.rows[self.rows.first[rank.index] + t] for t in range(max(1, len(rank.threads)))]
            seen = [(int(first[r.index]), int(end[r.index]), r) for r in rows if end[r.index] > first[r.index]]
            lows.append(min((r.event_index(a) for a, _, r in seen), default=0))
            highs.append(max((r.event_index(b - 1) + 1 for _, b, r in seen), default=0))
        return np.array(lows, np.int64), np.array(highs, np.int64)

    # Messages

    def _rows_in_window(self, posts: Posts, events: tuple[Ints, Ints]) -> WindowRows:
        """Return the rows of the match's sends or receives whose events lie in a window. `events`: the first event
        index of each rank, and the index after the last.
        """
        lows, highs = [], []
        for rank, (a, b) in enumerate(zip(*(e.tolist() for e in events), strict=True)):
            part = posts.of_rank(rank)
            # Posts are in posting order; those of several threads lie by and large so.
            low, high = np.searchsorted(posts.event[part], [a, b])
            lows.append(part.start + int(low))
            highs.append(part.start + int(high))
        return WindowRows(np.array(lows, np.int64), np.array(highs, np.int64))

    def _messages_in_window(
        self, scale: Scale, events: tuple[Ints, Ints], most_messages: int, hits: Hits | None = None
    ) -> dict[str, Any]:  # fmt: skip
        """Return the messages to draw in a window, and how many are left out. `events`: as from events_in_window;
        `most_messages`: the most messages to draw; `hits`: the calls that fit a filter.
        """
        sends, recvs = self._rows_in_window(self.match.sends, events), self._rows_in_window(self.match.recvs, events)
        count = max(sends.count, recvs.count)
        if count <= most_messages:
            return {"messages": self._messages_of_rows(scale, sends.all_rows(), recvs.all_rows()), "hidden": 0}
        if hits is not None:
            rows = [self._rows_of_hits(posts, events, hits) for posts in (self.match.sends, self.match.recvs)]
            if max(map(len, rows)) <= most_messages and any(map(len, rows)):
                shown = self._messages_of_rows(scale, rows[0], rows[1])
                return {"messages": shown, "hidden": max(0, count - len(shown))}
        worst = self._costliest_messages(scale, events)
        lost = self.draw_messages(scale, sends.intersect(self._unmatched_rows[0])[:MAX_LOST])
        lost += self.draw_unmatched_receives(scale, recvs.intersect(self._unmatched_rows[1])[:MAX_LOST])
        return {"messages": worst + lost, "hidden": max(0, count - len(worst) - len(lost))}

    def _messages_of_rows(self, scale: Scale, sends: Ints, recvs: Ints) -> list[dict[str, Any]]:
        """Return the messages to draw for some rows of the match's sends and receives. Receives without a partner come
        last.
        """
        rows = np.union1d(sends, self._matched_sends(recvs)).astype(np.int64)
        found = self.draw_messages(scale, rows)
        for one in found:
            if "receive" in one:
                one["ns"] = self.receive_wait_ns(
                    (one["receive"][0], one["receive"][1]), (one["send"][0], one["send"][1])
                )
        return found + self.draw_unmatched_receives(scale, recvs[self.match.recvs.partner[recvs] == NONE])

    def _rows_of_hits(self, posts: Posts, events: tuple[Ints, Ints], hits: Hits) -> Ints:
        """Return the rows of the match's sends or receives in the window whose calls fit the filter. Empty if too many
        calls fit.
        """
        parts = [np.zeros(0, np.int64)]
        for row, positions in hits.items():
            rank = self.rows[row].rank.index
            mine = self.rows[row].event_indices(positions)
            mine = mine[slice(*np.searchsorted(mine, [events[0][rank], events[1][rank]]))]
            part = posts.of_rank(rank)
            if len(mine) > MOST_HITS:
                return parts[0]
            first, end = (np.searchsorted(posts.event[part], mine, side=side) for side in ("left", "right"))
            parts += [part.start + np.arange(a, b) for a, b in zip(first.tolist(), end.tolist(), strict=True) if b > a]
        found: Ints = np.unique(np.concatenate(parts)).astype(np.int64)
        return found

    @cached_property
    def _unmatched_rows(self) -> tuple[Ints, Ints]:
        """Return the rows of sends, and the rows of receives, that have no partner."""
        return self.match.unmatched_sends().astype(np.int64), self.match.unmatched_receives().astype(np.int64)

    def _matched_sends(self, recvs: Ints) -> Ints:
        found = self.match.recvs.partner[recvs]
        sends: Ints = found[found != NONE].astype(np.int64)
        return sends

    def _costliest_messages(self, scale: Scale, events: tuple[Ints, Ints]) -> list[dict[str, Any]]:
        """Return the messages of the window for which a rank waited longest, at most `WORST`. `events`: as from
        events_in_window.
        """
        waiter, cost, culprit = self._late_senders
        edges = np.searchsorted(
            waiter, np.stack([events[0] + self._event_offsets[:-1], events[1] + self._event_offsets[:-1]])
        )
        parts = []
        for a, b in edges.T.tolist():
            if b - a > WORST:
                parts.append(a + np.argpartition(cost[a:b], -WORST)[-WORST:])
            elif b > a:
                parts.append(np.arange(a, b))
        some = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)
        some = some[np.argsort(-cost[some], kind="stable")[:WORST]]
        given, had = ([self._event_id(place) for place in side[some].tolist()] for side in (culprit, waiter))
        rows = [self._send_row(*pair) for pair in zip(given, had, strict=True)]
        costs = dict(zip(rows, cost[some].tolist(), strict=True))
        costs.pop(-1, None)
        return [
            {**m, "ns": costs[m["row"]], "worst": True} for m in self.draw_messages(scale, np.array([*costs], np.int64))
        ]

    def _send_row(self, send: Id, receive: Id) -> int:
        """Return the row in match.sends of a message that one call sent and another received or completed; -1 if there
        is none.
        """
        recvs = self.match.recvs
        for row in self.match.sends_of(EventId(*send)):
            to = int(self.match.sends.partner[row])
            if to != NONE and recvs.id(to)[0] == receive[0] and receive[1] in (recvs.completion[to], recvs.event[to]):
                return row
        return -1

    def _event_id(self, place: int) -> Id:
        rank = int(np.searchsorted(self._event_offsets, place, side="right")) - 1
        return rank, place - int(self._event_offsets[rank])

    def draw_messages(self, scale: Scale, rows: Ints) -> list[dict[str, Any]]:
        """Return arrows for some rows of match.sends. An arrow goes from the start of the send to the end of the call
        that completed the receive.
        """
        sends, recvs = self.match.sends, self.match.recvs
        taken = rows[sends.partner[rows] != NONE]
        to = sends.partner[taken].astype(np.int64)
        done = np.where(recvs.completion[to] != NONE, recvs.completion[to], recvs.event[to]).astype(np.int64)
        given, posts = _event_ids(sends, taken, sends.event), _event_ids(recvs, to, recvs.event)
        had = [(rank, int(event)) for (rank, _), event in zip(posts, done, strict=True)]
        facts = [{"tag": int(sends.tag[row]), "comm": self._comm_name(int(sends.comm[row])), "post": list(post),
                  "row": row}
                 for row, post in zip(taken.tolist(), posts, strict=True)]  # fmt: skip
        lost = rows[sends.partner[rows] == NONE]
        return self._draw_arrows(scale, given, had, facts) + self._draw_stubs(scale, sends, lost, "unmatched-send")

    def draw_unmatched_receives(self, scale: Scale, rows: Ints) -> list[dict[str, object]]:
        """Return arrows that lead nowhere for some receives that took no message. `rows`: their rows in match.recvs."""
        return self._draw_stubs(scale, self.match.recvs, rows, "unmatched-receive")

    def _comm_name(self, index: int) -> str:
        return self.trace.communicators[index].name if index >= 0 else "unknown"

    def _draw_arrows(
        self,
        scale: Scale,
        senders: Sequence[Id],
        receivers: Sequence[Id],
        facts: Sequence[Mapping[str, object]],
    ) -> list[dict[str, object]]:
        """Return an arrow for each message, with the message's facts. `senders`, `receivers`, `facts`: parallel, one
        item for each message.
        """
        return [
            {"from": [a[0], a[1]], "to": [b[0], b[2]], "send": list(send), "receive": list(receive), **more}
            for send, receive, a, b, more in zip(
                senders,
                receivers,
                scale.event_positions(senders),
                scale.event_positions(receivers),
                facts,
                strict=True,
            )
        ]

    def _draw_stubs(self, scale: Scale, posts: Posts, rows: Ints, kind: str) -> list[dict[str, object]]:
        """Return arrows for messages without a partner. They end between two rows of the picture, towards the row of
        their peer.
        """
        events = _event_ids(posts, rows, posts.event)
        found = []
        for row, event, spot in zip(rows.tolist(), events, scale.event_positions(events), strict=True):
            peer = int(posts.peer[row])
            toward = self.rows.first[peer] if 0 <= peer < len(self.trace.ranks) else None
            found.append({
                "from": [spot[0], spot[1]], "toward": toward, "end": spot[2], "event": list(event), "peer": peer,
                "tag": int(posts.tag[row]), "comm": self._comm_name(int(posts.comm[row])), "kind": kind,
                "row": row,
            })  # fmt: skip
        return found

    # Collectives

    def _bands_in_window(self, scale: Scale, events: tuple[Ints, Ints], most_bands: int) -> dict[str, Any]:
        """Return the collectives in a window as bands to draw. If there are too many, the list is empty and
        `bands_hidden` is true.
        """
        colls, of = self.match.collectives, self.match.instances
        parts: list[NDArray[np.generic]] = [np.zeros(0, np.int64)]
        for rank, (a, b) in enumerate(zip(*(e.tolist() for e in events), strict=True)):
            part = colls.of_rank(rank)
            low, high = np.searchsorted(colls.event[part], [a, b])
            if high - low > MAX_PARTS:
                return {"bands": [], "bands_hidden": True}
            parts.append(colls.instance[part.start + int(low) : part.start + int(high)])
        instances = np.unique(np.concatenate(parts))
        sizes = (of.first[instances.astype(np.int64) + 1] - of.first[instances.astype(np.int64)]).astype(np.int64)
        if len(instances) > most_bands or int(sizes.sum()) > MAX_PARTS:
            return {"bands": [], "bands_hidden": True}
        return {"bands": [self.draw_collective(scale, int(i)) for i in instances], "bands_hidden": False}

    def draw_collective(self, scale: Scale, instance: int) -> dict[str, object]:
        """Return the band to draw for one collective. Its `parts` are [row, start, end, first event, last event] for
        each rank that takes part. `instance`: the collective's number in the match.
        """
        colls, of = self.match.collectives, self.match.instances
        places = of.parts(instance).astype(np.int64)
        done = np.where(colls.completion[places] != NONE, colls.completion[places], colls.event[places])
        begun = _event_ids(colls, places, colls.event)
        ended = [(rank, int(event)) for (rank, _), event in zip(begun, done, strict=True)]
        parts = [
            [a[0], a[1], b[2], first[1], last[1]]
            for first, last, a, b in zip(
                begun, ended, scale.event_positions(begun), scale.event_positions(ended), strict=True
            )
        ]
        comm = int(of.comm[instance])
        members = len(self.trace.communicators[comm].members) if comm >= 0 else 0
        names = {self.trace.functions[int(id)].name for id in np.unique(colls.function[places])}
        return {
            "instance": instance, "comm": self._comm_name(comm), "comm_index": comm, "name": " / ".join(sorted(names)),
            "missing": max(0, members - len(parts)), "parts": sorted(parts),
        }  # fmt: skip


def _sort_by_waiter(waits: WaitRows) -> tuple[Ints, Ints, Ints]:
    by = np.argsort(waits.waiter, kind="stable")
    return waits.waiter[by], waits.ns[by], waits.culprit[by]


def _linked_calls(link: Mapping[str, Any], rows: Rows) -> Iterable[Id]:
    """Yield the calls of a drawn message or collective, as (rank, event)."""
    if "parts" in link:
        for row, _, _, first, last in link["parts"]:
            yield from ((rows[row].rank.index, first), (rows[row].rank.index, last))
        return
    for name in ("send", "receive", "post", "event"):
        if name in link:
            yield link[name][0], link[name][1]


def _event_ids(rows: Posts | Collectives, which: Ints, column: NDArray[np.generic]) -> list[Id]:
    """Return (rank, event) for some rows of a match. `column`: the column of event indices to take."""
    ranks = np.searchsorted(rows.first, which.astype(np.uint64), side="right") - 1
    return list(zip(ranks.tolist(), column[which].tolist(), strict=True))


def draw_finding_arrows(finding: Finding, scale: Scale) -> list[dict[str, object]]:
    """Return the arrows of a finding: which rank waits for which, or for a race the message received and the messages
    that could have been.
    """
    if finding.kind in ("deadlock", "potential-deadlock"):
        return list(_draw_wait_arrows(finding))
    if finding.kind == "message-race" and finding.events:
        return list(_draw_race_arrows(finding, scale))
    return []


def _draw_wait_arrows(finding: Finding) -> Iterable[dict[str, Any]]:
    """Yield an arrow from each waiting rank to the rank for which it waits. If many ranks wait in one call, they share
    an arrow; each rank of a cycle has its own.
    """
    evidence = finding.evidence
    cycle = list(evidence.cycle) if isinstance(evidence, Deadlock | Cycle) else []
    following = dict(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    yield from ({"kind": "waits", "rank": a, "for": b, "cycle": True, "ranks": 1} for a, b in following.items())
    for wait in evidence.waits if isinstance(evidence, Deadlock) else ():
        ranks = [rank for rank in wait.ranks if rank not in following]
        for other in wait.for_[:MAX_WAITED_FOR]:
            some = [rank for rank in ranks if rank != other]
            if len(some) > MAX_ARROWS:
                middle = some[len(some) // 2]
                yield {"kind": "waits", "rank": middle, "for": other, "cycle": False, "ranks": len(some)}
            else:
                yield from ({"kind": "waits", "rank": r, "for": other, "cycle": False, "ranks": 1} for r in some)


def _draw_race_arrows(finding: Finding, scale: Scale) -> Iterable[dict[str, Any]]:
    """Yield an arrow for the message that a racing receive took, and one for each message that it could have taken."""
    receive = finding.events[0]
    sends: list[tuple[int, int, str]] = []
    if isinstance(race := finding.evidence, Race):
        sends = [(race.took.rank, race.took.event, "took")]
        sends += [(other.rank, other.event, "could") for other in race.others[:8]]
    to_row, to_start, to_end = scale.event_positions([receive])[0]
    spots = scale.event_positions([(rank, event) for rank, event, _ in sends])
    for (rank, event, kind), (row, start, _) in zip(sends, spots, strict=True):
        yield {"kind": kind, "from": [row, start], "to": [to_row, max(to_start, to_end)], "send": [rank, event],
               "receive": list(receive)}  # fmt: skip


def find_open_calls(trace: Trace) -> list[tuple[int, int]]:
    """Return (rank, event) of the calls that never returned."""
    return [(rank.index, index) for rank in trace.ranks for index in open_calls(rank)]
