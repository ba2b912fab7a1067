"""What late senders, late receivers, late members of collectives and uneven work cost."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.match import Match, Post, Posts
from weft.match.native import address, addresses
from weft.terms import calls
from weft.terms.calls import masks
from weft.terms.describe import where
from weft.terms.telling import cause, finding
from weft.terms.words import rank_words
from weft.trace import Event, Trace
from weft.waits import native
from weft.waits.native import Ints, Waits

SHARE: Final = 0.05
"""A wait is told when it costs this share of all ranks' time together ..."""

LEAST_NS: Final = 20_000_000
"""... and at least this much: less is noise of a healthy run."""

IMBALANCE: Final = 0.25
"""Work is uneven when the busiest rank computes this much longer than the mean."""


class Clockwork:
    """Entry and exit times of all events of a run in one row, ns since its start. An open call has no exit (-1)."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.first = np.concatenate([[0], np.cumsum([len(r.events) for r in trace.ranks])]).astype(np.int64)

    @cached_property
    def _times(self) -> tuple[Ints, Ints]:
        enter, leave = np.empty(int(self.first[-1]), np.int64), np.empty(int(self.first[-1]), np.int64)
        for rank in self.trace.ranks:
            part = slice(int(self.first[rank.index]), int(self.first[rank.index + 1]))
            native.fill_times(rank, enter[part], leave[part])
        return enter, leave

    @property
    def enter(self) -> Ints:
        """Entry times."""
        return self._times[0]

    @property
    def exit(self) -> Ints:
        """Exit times."""
        return self._times[1]

    @cached_property
    def _for_c(self) -> tuple[native.Clocks, Any]:
        """What C reads, and what it must find alive."""
        events = [np.ascontiguousarray(r.events) for r in self.trace.ranks]
        axes = (native.Axis * len(events))(*(native.axis_of(r) for r in self.trace.ranks))
        places = addresses(events)
        clocks = native.Clocks(address(self.first), address(places), ctypes.addressof(axes))
        return clocks, (events, axes, places)

    @property
    def clocks(self) -> native.Clocks:
        """The events and clocks of all ranks, as C reads them."""
        return self._for_c[0]

    @cached_property
    def spans(self) -> list[native.Span]:
        """By rank what is asked of all its times together."""
        return [native.span(rank) for rank in self.trace.ranks]

    @cached_property
    def site(self) -> NDArray[np.uint32]:
        """Site ids, each rank's own."""
        return np.concatenate([*(r.events["site"] for r in self.trace.ranks), np.zeros(0, np.uint32)])

    def event(self, place: int) -> Event:
        """The event at a place."""
        rank = int(np.searchsorted(self.first, place, side="right")) - 1
        return self.trace.ranks[rank].event(place - int(self.first[rank]))

    @cached_property
    def span(self) -> int:
        """From the first entry to the last exit."""
        some = [span for span, rank in zip(self.spans, self.trace.ranks, strict=True) if len(rank)]
        last, first = max([0, *(span.most for span in some)]), min([0, *(span.least_enter for span in some)])
        return int(last - first)

    @property
    def least(self) -> float:
        """What a wait must cost to be told."""
        return max(LEAST_NS, SHARE * self.span * len(self.trace.ranks))


def find(trace: Trace, match: Match) -> list[Finding]:
    """Notes on what cost a noticeable share of the run's time, by call site, the dearest first."""
    clock = Clockwork(trace)
    if len(trace.ranks) < 2 or not clock.first[-1]:
        return []
    found = [
        *_late_senders(clock, match),
        *_late_receivers(clock, match),
        *_collectives(clock, match),
        *_imbalance(clock),
    ]
    return sorted(found, key=lambda f: -int(f.evidence["ns"]))


def _told(clock: Clockwork, kind: str, text: str, waits: Waits) -> Iterator[Finding]:
    """Findings of the waits (who, ns, for whom) with one pair of call sites that together cost enough."""
    waiter, cost, culprit = waits
    if int(cost.sum()) < clock.least:
        return
    # Sites are numbered by each rank: equal lines of several ranks come together by name below.
    ranks = np.searchsorted(clock.first, np.stack([waiter, culprit]), side="right") - 1
    first, inverse = _pairs([ranks[0], clock.site[waiter], ranks[1], clock.site[culprit]])
    totals = np.bincount(inverse, weights=cost).astype(np.int64)
    groups: dict[str, list[tuple[int, int]]] = {}
    for row, total in zip(first.tolist(), totals.tolist(), strict=True):
        one, two = clock.event(int(waiter[row])), clock.event(int(culprit[row]))
        groups.setdefault(cause(one, two), []).append((total, row))
    for key, rows in groups.items():
        total = sum(cost_ for cost_, _ in rows)
        if total < clock.least:
            continue
        rows.sort(reverse=True)
        one, two = clock.event(int(waiter[rows[0][1]])), clock.event(int(culprit[rows[0][1]]))
        waiters = {clock.event(int(waiter[row])).rank.index for _, row in rows}
        late = {clock.event(int(culprit[row])).rank.index for _, row in rows}
        share = total / (clock.span * len(clock.trace.ranks)) if clock.span else 0.0
        yield finding(
            kind,
            text.format(
                waiters=rank_words(waiters), cost=seconds(total), share=f"{share:.0%}", late=rank_words(late),
                here=where(one), there=where(two), call=calls.spoken(one.function.name), verb="s" * (len(waiters) == 1),
            ),
            [one, two],
            evidence={
                "ns": total, "share": round(share, 4), "waiting": sorted(waiters)[:64], "late": sorted(late)[:64],
            },
            cause=key,
        )  # fmt: skip


def _pairs(columns: list[NDArray[Any]]) -> tuple[Ints, Ints]:
    """The different rows of the columns, sorted: the first row of each, and for each row which it is."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + inverse.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.full(int(key.max(initial=-1)) + 1, len(key), np.int64)
    np.minimum.at(first, key, np.arange(len(key)))
    return first, key


def seconds(ns: float) -> str:
    """A time for people: 1.3 s, 25 ms."""
    return f"{ns / 1e9:.3g} s" if ns >= 1e9 else f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"


def waiting(clock: Clockwork, match: Match) -> Ints:
    """By event of the run the ns that it waited for somebody late."""
    total = np.zeros(len(clock.enter), np.int64)
    for waits in (late_sends(clock, match), late_receives(clock, match), late_members(clock, match)):
        place, cost, _ = waits
        np.maximum.at(total, place, cost)
    return total


def _late_senders(clock: Clockwork, match: Match) -> Iterator[Finding]:
    yield from _told(
        clock, "late-sender",
        "{waiters} wait{verb} {cost} ({share} of all time) in {call}{here} for messages that {late} sent late{there}",
        late_sends(clock, match),
    )  # fmt: skip


def late_sends(clock: Clockwork, match: Match) -> Waits:
    return _late(clock, match.recvs, match.sends, 0, sends=False)


def _late(clock: Clockwork, mine: Posts, theirs: Posts, skip: int, *, sends: bool) -> Waits:
    """The calls that waited for the other side of a message."""
    columns = (mine.first, mine.completion, mine.partner, theirs.event, mine.peer, mine.flags)
    places = [address(column) for column in columns]
    ranks = len(clock.trace.ranks)
    parts = []
    for rank in range(ranks):
        room = int(mine.first[rank + 1]) - int(mine.first[rank])
        if room:
            parts.append(native.late_posts(clock.clocks, native.LatePosts(rank, ranks, *places, skip, sends), room))
    return _together(parts)


def _together(parts: list[Waits]) -> Waits:
    none = np.zeros(0, np.int64)
    one, two, three = (np.concatenate([none, *(part[i] for part in parts)]) for i in range(3))
    return one, two, three


def _late_receivers(clock: Clockwork, match: Match) -> Iterator[Finding]:
    yield from _told(
        clock, "late-receiver",
        "{waiters} wait{verb} {cost} ({share} of all time) in {call}{here} until {late} posted the receives{there}",
        late_receives(clock, match),
    )  # fmt: skip


def late_receives(clock: Clockwork, match: Match) -> Waits:
    return _late(clock, match.sends, match.recvs, Post.BUFFERED | Post.READY, sends=True)


def _collectives(clock: Clockwork, match: Match) -> Iterator[Finding]:
    yield from _told(
        clock, "wait-at-collective",
        "{waiters} wait{verb} {cost} ({share} of all time) in {call}{here} for {late}, last to come",
        late_members(clock, match),
    )  # fmt: skip


def late_members(clock: Clockwork, match: Match) -> Waits:
    parts, of, trace = match.collectives, match.instances, clock.trace
    if not len(of):
        return _together([])
    table = masks(trace.functions).table
    sort = np.zeros(65536, np.uint8)
    for number, names in enumerate((calls.ALL_TO_ALL, calls.FROM_ROOT, calls.TO_ROOT), 1):
        sort[table(names)] = number
    ranks = parts.ranks()
    counts = [len(c.members) for c in trace.communicators]
    member_first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    members = np.fromiter((m for c in trace.communicators for m in c.members), np.int32, int(member_first[-1]))
    columns = (
        of.first, of.rows, ranks, parts.event, parts.completion, parts.function, sort, of.comm, member_first, members,
    )  # fmt: skip
    given = native.LateMembers(len(of), *(address(c) for c in columns))
    return native.late_members(clock.clocks, given, len(of.rows))


def _imbalance(clock: Clockwork) -> Iterator[Finding]:
    """Time outside MPI, by rank: the busiest against the mean."""
    trace = clock.trace
    work = []
    for rank in trace.ranks:
        span = clock.spans[rank.index]
        if len(rank.threads) != 1 or not len(rank) or span.open:
            return  # threads compute beside MPI calls, an open call has no end: no number would be right
        work.append(span.last_exit - span.first_enter - span.inside)
    mean = sum(work) / len(work)
    busiest = int(np.argmax(work))
    lost = sum(work[busiest] - w for w in work)
    if mean <= 0 or work[busiest] < (1 + IMBALANCE) * mean or lost < clock.least:
        return
    event = trace.ranks[busiest].event(0)
    yield finding(
        "imbalance",
        f"rank {busiest} computes {seconds(work[busiest])} where the mean is {seconds(mean)}: the others could have "
        f"used {seconds(lost)} together",
        [event],
        evidence={"ns": lost, "work_ns": work[:1024]},
    )
