"""Recognizes benign races, in which only the order differs: a loop that serves whoever comes, and answers each.

A master of a pool receives from any source at one line, answers that sender, and receives again. Which worker it serves
first is free, and meant to be. Such a race becomes a note. Two things must hold, for one line of one rank,
whoever called its function:

1. Every message that could have been exchanged is received at that site (after a probe: was seen by the probe at that
   site). So whatever comes first, it is the same line that gets it.
2. The program looks at who came: before the next wildcard at the site it sends to the source it got, or receives from
   it by name (after a probe, or the body after a header). A receive that ends a conversation needs no answer: where
   the site answers others, and the source had been sent something since its last message was taken.

A function may probe at several lines, by whether it has more to give away, and receive at one. Then a message may be
seen by any of them, and what holds for the receives of any source at that line holds for each of the probes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post, Posts
from weft.match.grouping import group_rows
from weft.order import Order
from weft.races.search import Races
from weft.terms.argument_columns import indices_in, sorted_distinct
from weft.trace import Trace

I64 = NDArray[np.int64]

ANSWERED: Final = 1
"""The sender gets an answer, or ends a conversation."""
HEARD: Final = 2
"""The sender gets no answer before the next receive: the rest of its messages is received from it by name."""
SEEN: Final = 3
"""A probe that shows the sender to a receive of any source; one of the two is reported."""


class _Lines:
    """The lines at which calls were made: calls at one line that were reached by different callers have one number."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._numbers: dict[tuple[int, int], int] = {}
        self._first: dict[tuple[int, str, str | None, int], int] = {}

    def number_lines(self, rank: int, events: NDArray[np.integer]) -> I64:
        """Return for each of some events of a rank a number that is equal for calls at the same line."""
        sites = self._trace.ranks[rank].events["site"][events].astype(np.int64)
        distinct = sorted_distinct(sites)
        numbers = np.array([self._number_site(rank, site) for site in distinct.tolist()], np.int64)
        return numbers[indices_in(distinct, sites)] if len(distinct) else sites

    def _number_site(self, rank: int, site: int) -> int:
        """Return the id of the first call site at the line of a call site; its own id if its line is not known."""
        if (rank, site) not in self._numbers:
            place = self._trace.ranks[rank].site(site)
            line = rank, place.file or "", place.function, place.line
            self._numbers[rank, site] = self._first.setdefault(line, site) if place.known else site
        return self._numbers[rank, site]


@dataclass(frozen=True)
class _RacingSite:
    """Races of one rank, at one line, with one pattern, by row."""

    lines: _Lines
    rank: int
    site: int
    comm: int
    tag: int
    probe: bool
    races: I64
    rows: I64


@dataclass(frozen=True)
class _PeerEvents:
    """Events of one rank that deal with others, in one communicator: (peer, event) as one number, ascending."""

    keys: I64

    @classmethod
    def made(cls, peers: I64, events: I64) -> _PeerEvents:
        """Make it from two columns."""
        return cls(np.sort(_encode_key(peers, events)))

    def has_event_between(self, peer: I64, low: I64, high: I64) -> NDArray[np.bool_]:
        """Return a mask of the rows for which an event with the row's peer is after `low` and before `high`."""
        at = np.searchsorted(self.keys, _encode_key(peer, low), side="right")
        found = np.append(self.keys, np.iinfo(np.int64).max)[at]
        result: NDArray[np.bool_] = found < _encode_key(peer, high)
        return result

    def last_event_before(self, peer: I64, event: I64) -> I64:
        """Return for each row the last event with the row's peer before `event`; -1 if there is none."""
        at = np.searchsorted(self.keys, _encode_key(peer, event)) - 1
        found = np.append(self.keys, -1)[at]
        result: I64 = np.where(
            found >= _encode_key(peer, np.zeros(1, np.int64)), found - _encode_key(peer, np.zeros(1, np.int64)), -1
        )
        return result


def _encode_key(peer: I64, event: I64) -> I64:
    """Return peer and event as one number. Events are counted from 1 here, so that -1 comes before all."""
    key: I64 = (np.asarray(peer, np.int64) << 33) + np.asarray(event, np.int64) + 1
    return key


def classify_benign(match: Match, order: Order, races: Races) -> NDArray[np.uint8]:
    """Return for each race why it changes nothing but an order: ANSWERED, HEARD or SEEN; 0 if it may change more."""
    found = np.zeros(len(races), np.uint8)
    sent: tuple[NDArray[np.uint64], NDArray[np.uint32]] | None = None
    received: dict[tuple[int, int, int], int] = {}
    for place in _group_by_site(match, races):  # probes after receives
        if sent is None:
            sent = group_rows(match.sends.peer.view(np.uint32), len(match.trace.ranks))
        to_me = sent[1][int(sent[0][place.rank]) : int(sent[0][place.rank + 1])].astype(np.int64)
        taken_at = _receiving_site(match, place) if place.probe else None
        key = place.rank, place.comm, place.site if taken_at is None else taken_at
        if not _are_all_received_here(match, order, place, to_me, taken_at):
            service = 0
        elif taken_at is not None and key in received:
            service = received[key] and SEEN
        else:
            service = _classify_answers(match, place)
        if not place.probe:
            received[key] = min(service, received.get(key, service))
        found[place.races] = service
    return found


def _receiving_site(match: Match, place: _RacingSite) -> int | None:
    """Return the call site at which all messages were received that a racing probe saw; None if there are several, or
    it is in another function than the probe.
    """
    seen = match.probes.partner[place.rows]
    taken = match.sends.partner[seen[seen != NONE]]
    if (taken == NONE).any():
        return None
    rank = match.trace.ranks[place.rank]
    events = sorted_distinct(match.recvs.event[taken].astype(np.int64))
    sites = sorted_distinct(place.lines.number_lines(place.rank, events))
    if len(sites) != 1:
        return None
    first, probe = (rank.event(int(event)).site for event in (events[0], match.probes.event[place.rows[0]]))
    return int(sites[0]) if first.file == probe.file and first.function == probe.function is not None else None


def _posts(match: Match, probe: bool) -> Posts:
    return match.probes if probe else match.recvs


def _group_by_site(match: Match, races: Races) -> list[_RacingSite]:
    """Return the races in groups with the same rank, call site, communicator and tag; those of receives before those of
    probes.
    """
    found: list[_RacingSite] = []
    lines = _Lines(match.trace)
    for probe in (False, True):
        posts = _posts(match, probe)
        which = np.flatnonzero(races.probe == probe)
        rows = races.row[which].astype(np.int64)
        if not len(rows):
            continue
        ranks = np.searchsorted(posts.first, rows.astype(np.uint64), side="right") - 1
        site = _site_of_each_row(lines, posts, rows, ranks)
        tag = np.where(posts.flags[rows] & Post.ANY_TAG, -1, posts.tag[rows])
        code, columns = _encode_combinations((ranks, site, posts.comm[rows].astype(np.int64), tag.astype(np.int64)))
        for one in sorted_distinct(code).tolist():
            mine = np.flatnonzero(code == one)
            mine = mine[np.argsort(rows[mine], kind="stable")]
            rank, at, comm, tagged = (int(column[mine[0]]) for column in columns)
            found.append(_RacingSite(lines, rank, at, comm, tagged, probe, which[mine], rows[mine]))
    return found


def _encode_combinations(columns: tuple[I64, ...]) -> tuple[I64, tuple[I64, ...]]:
    """Number the different combinations of values in some columns. Return the number for each row (equal rows have
    equal numbers), and `columns` as they are."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        ids = sorted_distinct(column)
        code = code * len(ids) + indices_in(ids, column)
        code = indices_in(sorted_distinct(code), code).astype(np.int64)
    return code, columns


def _site_of_each_row(lines: _Lines, posts: Posts, rows: I64, ranks: I64) -> I64:
    """Return for each row the number of its event's line. `ranks`: the rank of each row."""
    found = np.zeros(len(rows), np.int64)
    for rank in sorted_distinct(ranks).tolist():
        mine = ranks == rank
        found[mine] = lines.number_lines(rank, posts.event[rows[mine]])
    return found


def _are_all_received_here(match: Match, order: Order, place: _RacingSite, incoming: I64, taken_at: int | None) -> bool:
    """Return whether every message that could have come first was received at the site of these races. `incoming`: rows
    of the sends to the rank. `taken_at`: the site that receives what a probe saw.
    """
    sends, recvs = match.sends, match.recvs
    fits = sends.comm[incoming] == place.comm
    if place.tag >= 0:
        fits &= sends.tag[incoming] == place.tag
    rows = incoming[fits]
    taker = sends.partner[rows].astype(np.int64)
    here = _received_here(match, place, rows, taker, taken_at)
    if match.trace.until is not None:
        here |= taker == NONE  # it goes on: who receives the message is not known yet
    # Received in the order sent: before a message can be taken, the one before it of that sender must be gone.
    source = np.searchsorted(sends.first, rows.astype(np.uint64), side="right")
    first = np.concatenate([[True], source[1:] != source[:-1]]) if len(rows) else np.zeros(0, np.bool_)
    gone = np.full(len(rows), np.iinfo(np.int64).max)
    gone[taker != NONE] = recvs.event[taker[taker != NONE]]
    before = np.where(first, -1, np.concatenate([[-1], gone[:-1]]) if len(rows) else gone)
    posts = _posts(match, place.probe)
    posted = posts.event[place.rows].astype(np.int64)
    known = (posts.event if place.probe else order.known)[place.rows].astype(np.int64)
    for k in np.flatnonzero(~here).tolist():
        last = int(np.searchsorted(posted, gone[k])) - 1
        if last < 0 or posted[last] <= before[k]:
            continue
        send_known = int(order.send_known[rows[k]])
        if send_known == NONE or send_known < 2 * known[last] + 2:
            return False
    return True


def _received_here(match: Match, place: _RacingSite, rows: I64, taker: I64, taken_at: int | None) -> NDArray[np.bool_]:
    """Return a mask of the messages that the site received or saw with a probe, or that the site `taken_at` received.
    `rows`: the sends, `taker`: the receive of each.
    """
    recvs, probes = match.recvs, match.probes
    here, taken = np.zeros(len(rows), np.bool_), taker != NONE
    if place.probe:
        part = probes.of_rank(place.rank)
        at_site = place.lines.number_lines(place.rank, probes.event[part]) == place.site
        here = np.isin(rows, probes.partner[part][at_site])
    site = taken_at if place.probe else place.site
    if site is not None:
        here[taken] |= place.lines.number_lines(place.rank, recvs.event[taker[taken]]) == site
    return here


def _classify_answers(match: Match, place: _RacingSite) -> int:
    """Return ANSWERED if the rank answers the source of each racing receive before it receives again at this site, or
    the receive ends a conversation. HEARD if it receives the rest from the source by name instead; 0 if neither.
    """
    posts = _posts(match, place.probe)
    part = posts.of_rank(place.rank)
    wild = (posts.flags[part] & Post.ANY_SOURCE != 0) & (posts.comm[part] == place.comm)
    wild &= place.lines.number_lines(place.rank, posts.event[part]) == place.site
    # A probe in a loop may see one message again and again: that is one service.
    decided = (posts.event if place.probe else posts.decided)[part][wild].astype(np.int64)
    to, named = _sends_by_peer(match, place), _named_receives_by_peer(match, place)
    took = _PeerEvents.made(posts.peer[part][wild].astype(np.int64), decided)
    at = (posts.event if place.probe else posts.decided)[place.rows].astype(np.int64)
    peer = posts.peer[place.rows].astype(np.int64)
    decided = np.append(np.sort(decided), NONE)
    until = decided[np.searchsorted(decided[:-1], at, side="right")]
    sent, heard = to.has_event_between(peer, at, until), named.has_event_between(peer, at, until)
    open_end = ~(sent | heard)
    told = _is_decided_here(match, to, took, _RacingReceives(peer, at, until, open_end))
    if not told.any():
        told[:] = True  # nothing else is known
    sent, open_end, peer, at = sent[told], open_end[told], peer[told], at[told]
    if open_end.all() or not _was_sent_something(to, took, peer[open_end], at[open_end]).all():
        return 0
    return ANSWERED if (sent | open_end).all() else HEARD


class _RacingReceives(NamedTuple):
    """The source of each racing receive, when it was taken, when the site took the next, and whether it has no
    answer.
    """

    peer: I64
    at: I64
    until: I64
    has_no_answer: NDArray[np.bool_]


def _is_decided_here(match: Match, to: _PeerEvents, took: _PeerEvents, of: _RacingReceives) -> NDArray[np.bool_]:
    """Return a mask of the racing receives of which it is known whether they are answered.

    The answer to the last one may be in the next part of the run, and what was sent to the source of the first one in
    the part before.
    """
    last = of.has_no_answer & (of.until == NONE) if match.trace.goes_on else np.zeros(len(of.at), np.bool_)
    if not match.trace.has_earlier_calls:
        return ~last
    first = took.last_event_before(of.peer, of.at) == -1
    told: NDArray[np.bool_] = ~(last | of.has_no_answer & first & ~_was_sent_something(to, took, of.peer, of.at))
    return told


def _was_sent_something(to: _PeerEvents, took: _PeerEvents, peer: I64, at: I64) -> NDArray[np.bool_]:
    """Return whether the source had been sent something since the site last took a message from it."""
    return to.has_event_between(peer, took.last_event_before(peer, at), at)


def _sends_by_peer(match: Match, place: _RacingSite) -> _PeerEvents:
    """Return the events at which the rank sent to each other rank in this communicator."""
    part = match.sends.of_rank(place.rank)
    mine = match.sends.comm[part] == place.comm
    return _PeerEvents.made(
        match.sends.peer[part][mine].astype(np.int64), match.sends.event[part][mine].astype(np.int64)
    )


def _named_receives_by_peer(match: Match, place: _RacingSite) -> _PeerEvents:
    """Return the events at which the rank posted receives from each other rank by its number in this communicator."""
    recvs, part = match.recvs, match.recvs.of_rank(place.rank)
    mine = (recvs.comm[part] == place.comm) & (recvs.flags[part] & Post.ANY_SOURCE == 0)
    return _PeerEvents.made(recvs.peer[part][mine].astype(np.int64), recvs.event[part][mine].astype(np.int64))
