"""What late senders, late receivers, late members of collectives and uneven work cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.match import NONE, Match, Post, Posts
from weft.terms import calls
from weft.terms.calls import masks
from weft.terms.describe import where
from weft.terms.telling import cause, finding
from weft.terms.words import rank_words
from weft.trace import Event, Trace

Ints = NDArray[np.int64]

SHARE: Final = 0.05
"""A wait is told when it costs this share of all ranks' time together ..."""

LEAST_NS: Final = 20_000_000
"""... and at least this much: less is noise of a healthy run."""

IMBALANCE: Final = 0.25
"""Work is uneven when the busiest rank computes this much longer than the mean."""

_N_TO_N = frozenset(n.lower() for n in calls.ALL_TO_ALL)
_FROM_ROOT = frozenset(n.lower() for n in calls.FROM_ROOT)
_TO_ROOT = frozenset(n.lower() for n in calls.TO_ROOT)


class Clockwork:
    """Entry and exit times of all events of a run in one row, ns since its start. An open call has no exit (-1)."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.first = np.concatenate([[0], np.cumsum([len(r.events) for r in trace.ranks])]).astype(np.int64)

    @cached_property
    def enter(self) -> Ints:
        """Entry times."""
        return np.concatenate([r.enter_ns() for r in self.trace.ranks if len(r)] or [np.zeros(0, np.int64)])

    @cached_property
    def exit(self) -> Ints:
        """Exit times."""
        return np.concatenate([r.exit_ns() for r in self.trace.ranks if len(r)] or [np.zeros(0, np.int64)])

    @cached_property
    def site(self) -> Ints:
        """Site ids, each rank's own."""
        parts = [r.events["site"].astype(np.int64) for r in self.trace.ranks]
        return np.concatenate(parts or [np.zeros(0, np.int64)])

    def at(self, rank: NDArray[Any], event: NDArray[Any]) -> Ints:
        """Places of events in the row."""
        return self.first[rank.astype(np.int64)] + event.astype(np.int64)

    def event(self, place: int) -> Event:
        """The event at a place."""
        rank = int(np.searchsorted(self.first, place, side="right")) - 1
        return self.trace.ranks[rank].event(place - int(self.first[rank]))

    @cached_property
    def span(self) -> int:
        """From the first entry to the last exit."""
        return int(max(self.exit.max(initial=0), self.enter.max(initial=0)) - self.enter.min(initial=0))

    @property
    def least(self) -> float:
        """What a wait must cost to be told."""
        return max(LEAST_NS, SHARE * self.span * len(self.trace.ranks))


def find(trace: Trace, match: Match) -> list[Finding]:
    """Notes on what cost a noticeable share of the run's time, by call site, the dearest first."""
    clock = Clockwork(trace)
    if len(trace.ranks) < 2 or not len(clock.enter):
        return []
    found = [
        *_late_senders(clock, match),
        *_late_receivers(clock, match),
        *_collectives(clock, match),
        *_imbalance(clock),
    ]
    return sorted(found, key=lambda f: -int(f.evidence["ns"]))


def _told(clock: Clockwork, kind: str, text: str, waits: tuple[Ints, Ints, Ints]) -> Iterator[Finding]:
    """Findings of the waits (who, ns, for whom) with one pair of call sites that together cost enough."""
    waiter, cost, culprit = waits
    some = np.flatnonzero(cost > 0)
    if not len(some):
        return
    waiter, cost, culprit = waiter[some], cost[some], culprit[some]
    # Sites are numbered by each rank: equal lines of several ranks come together by name below.
    ranks = np.searchsorted(clock.first, np.stack([waiter, culprit]), side="right") - 1
    keys = np.stack([ranks[0], clock.site[waiter], ranks[1], clock.site[culprit]], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    totals = np.bincount(inverse.reshape(-1), weights=cost).astype(np.int64)
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


def seconds(ns: float) -> str:
    """A time for people: 1.3 s, 25 ms."""
    return f"{ns / 1e9:.3g} s" if ns >= 1e9 else f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"


def _ends(clock: Clockwork, posts: Posts, rows: NDArray[Any]) -> Ints:
    """Where the calls stand in which the posts of some rows were waited for."""
    return clock.at(posts.ranks()[rows], posts.completion[rows])


Waits = tuple[Ints, Ints, Ints]
"""Places of the waiting calls, what each cost in ns (below 0: nothing), places of the calls that were late."""


def waiting(clock: Clockwork, match: Match) -> Ints:
    """By event of the run the ns that it waited for somebody late."""
    total = np.zeros(len(clock.enter), np.int64)
    for waits in (_late_sends(clock, match), _late_receives(clock, match), _late_members(clock, match)):
        place, cost, _ = waits
        np.maximum.at(total, place, np.maximum(cost, 0))
    return total


def _late_senders(clock: Clockwork, match: Match) -> Iterator[Finding]:
    yield from _told(
        clock, "late-sender",
        "{waiters} wait{verb} {cost} ({share} of all time) in {call}{here} for messages that {late} sent late{there}",
        _late_sends(clock, match),
    )  # fmt: skip


def _late_sends(clock: Clockwork, match: Match) -> Waits:
    recvs = match.recvs
    rows = np.flatnonzero((recvs.partner != NONE) & (recvs.completion != NONE))
    wait = _ends(clock, recvs, rows)
    partner = recvs.partner[rows]
    send = clock.at(match.sends.ranks()[partner], match.sends.event[partner])
    cost = np.minimum(clock.enter[send], clock.exit[wait]) - clock.enter[wait]
    return wait, _once(wait, cost), send


def _once(wait: Ints, cost: Ints) -> Ints:
    """Of several messages that one call waited for only the last to come counts."""
    order = np.lexsort((-cost, wait))
    first = np.ones(len(order), np.bool_)
    first[1:] = wait[order][1:] != wait[order][:-1]
    kept = np.zeros(len(cost), np.int64)
    kept[order[first]] = cost[order[first]]
    return kept


def _late_receivers(clock: Clockwork, match: Match) -> Iterator[Finding]:
    yield from _told(
        clock, "late-receiver",
        "{waiters} wait{verb} {cost} ({share} of all time) in {call}{here} until {late} posted the receives{there}",
        _late_receives(clock, match),
    )  # fmt: skip


def _late_receives(clock: Clockwork, match: Match) -> Waits:
    sends = match.sends
    skip = Post.BUFFERED | Post.READY
    rows = np.flatnonzero((sends.partner != NONE) & (sends.completion != NONE) & ((sends.flags & skip) == 0))
    wait = _ends(clock, sends, rows)
    partner = sends.partner[rows]
    receive = clock.at(match.recvs.ranks()[partner], match.recvs.event[partner])
    # A send that returned before its receive was posted was buffered and waited for nobody.
    waited = clock.exit[wait] > clock.enter[receive]
    cost = np.where(waited, np.minimum(clock.enter[receive], clock.exit[wait]) - clock.enter[wait], 0)
    return wait, _once(wait, cost), receive


def _collectives(clock: Clockwork, match: Match) -> Iterator[Finding]:
    yield from _told(
        clock, "wait-at-collective",
        "{waiters} wait{verb} {cost} ({share} of all time) in {call}{here} for {late}, last to come",
        _late_members(clock, match),
    )  # fmt: skip


def _late_members(clock: Clockwork, match: Match) -> Waits:
    parts, of = match.collectives, match.instances
    if not len(of):
        return (np.zeros(0, np.int64),) * 3
    rows = of.rows.astype(np.int64)
    first = of.first[:-1].astype(np.int64)
    place = clock.at(parts.ranks()[rows], parts.event[rows])
    instance = np.repeat(np.arange(len(of)), of.first[1:].astype(np.int64) - first)
    names = _names(clock.trace, parts.function[rows])
    blocking = parts.completion[rows] == parts.event[rows]
    enter = clock.enter[place]
    last = np.maximum.reduceat(enter, first)
    is_last = np.flatnonzero(enter == last[instance])
    latest = np.zeros(len(of), np.int64)
    latest[instance[is_last]] = place[is_last]
    root = _roots(clock, match, rows, place, instance)
    none = np.full(len(of), -1, np.int64)
    root_place = none.copy()
    root_place[instance[root]] = place[root]
    cost = np.zeros(len(rows), np.int64)
    culprit = latest[instance]
    all_ = names["all"]
    cost[all_] = (last[instance] - enter)[all_]
    late_root = names["from"] & (root_place[instance] >= 0)
    cost[late_root] = (clock.enter[root_place[instance]] - enter)[late_root]
    culprit = np.where(late_root, root_place[instance], culprit)
    at_root = names["to"] & root
    cost[at_root] = (last[instance] - enter)[at_root]
    leave = clock.exit[place]
    cost = np.where(blocking & (leave >= 0), np.minimum(cost, leave - enter), 0)
    return place, cost, culprit


def _names(trace: Trace, functions: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    ids = np.unique(functions)
    table = masks(trace.functions)
    name = {int(i): table.name(int(i)).lower() for i in ids}
    return {
        sort: np.isin(functions, [i for i, n in name.items() if n in wanted])
        for sort, wanted in (("all", _N_TO_N), ("from", _FROM_ROOT), ("to", _TO_ROOT))
    }


def _roots(clock: Clockwork, match: Match, rows: Ints, place: Ints, instance: Ints) -> NDArray[np.bool_]:
    """Parts that are the root of their collective."""
    trace = clock.trace
    peers = np.concatenate([r.events["peer"].astype(np.int64) for r in trace.ranks] or [np.zeros(0, np.int64)])[place]
    ranks = match.collectives.ranks()[rows].astype(np.int64)
    result = np.zeros(len(rows), np.bool_)
    comm = match.instances.comm[instance]
    for index in np.unique(comm).tolist():
        mine = np.flatnonzero(comm == index)
        members = np.asarray(trace.communicators[index].members, np.int64)
        good = (peers[mine] >= 0) & (peers[mine] < len(members))
        result[mine[good]] = members[peers[mine[good]]] == ranks[mine[good]]
    return result


def _imbalance(clock: Clockwork) -> Iterator[Finding]:
    """Time outside MPI, by rank: the busiest against the mean."""
    trace = clock.trace
    work = []
    for rank in trace.ranks:
        part = slice(int(clock.first[rank.index]), int(clock.first[rank.index + 1]))
        enter, leave = clock.enter[part], clock.exit[part]
        if len(rank.threads) != 1 or not len(enter) or (leave < 0).any():
            return  # threads compute beside MPI calls, an open call has no end: no number would be right
        work.append(int(leave[-1] - enter[0] - (leave - enter).sum()))
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
