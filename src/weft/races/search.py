"""Finds the wildcard receives that race, as arrays."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post, Posts
from weft.match.grouping import group_rows
from weft.native.headers import decided
from weft.native.headers.races import RacesInput, kernel
from weft.order import Order
from weft.trace.segment import lookahead_of

U32 = NDArray[np.uint32]

MAX_LISTED_MESSAGES: Final = 32
"""The most racing messages that are listed for one receive (fewer after the first 65,536 receives). All are counted."""

CACHE_NAME: Final = "races"
"""The name under which a match caches the races of a segment's own calls."""

MIN_LATER_CALLS: Final = 4
"""Calls that a rank of a run that still goes on must have made since a receive, so that its answer is seen."""


@dataclass(slots=True)
class Races:
    """The racing receives and probes of a run.

    Race k is that of row `row[k]` of the match's receives, or of its probes where `probe[k]`. `messages[first[k]:
    first[k + 1]]` are rows of the sends that could have been taken instead, by rank of the sender; `total[k]` counts
    all of them, also those that are not listed. `influenced[k]`: another race may have decided whether this one occurs.
    """

    row: U32
    probe: NDArray[np.bool_]
    total: U32
    first: NDArray[np.uint64]
    messages: U32
    influenced: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def others(self, race: int) -> U32:
        """Return the listed rows of sends that race k could have taken instead."""
        return self.messages[int(self.first[race]) : int(self.first[race + 1])]


def detect_races(match: Match, order: Order, max_messages: int = MAX_LISTED_MESSAGES) -> Races:
    """Return the races of a run: receives and probes from any source that could have taken other messages, with these
    messages. A race is defined in native/kernel/races.c.

    For a part of a run that also has later calls to look at, only the races of its own calls are returned.
    """
    look = lookahead_of(match.trace)
    if look is None:
        return detect_among_all(match, order, max_messages)[0]
    found = match.made.get(CACHE_NAME)
    return (
        found
        if isinstance(found, Races)
        else select_before(match, detect_among_all(match, order, max_messages)[0], look.told)
    )


def detect_among_all(match: Match, order: Order, max_messages: int = MAX_LISTED_MESSAGES) -> tuple[Races, U32]:
    """Return the races among all calls of the trace, and by rank the first point that comes after the decision of a
    race.

    A point is the begin or end of an event, 2 * index + 1 or + 2; NONE for a rank without such a point.
    """
    races = _find_candidates(match, order, max_messages)
    races = _remove_ordered(match, order, races)
    after = _first_tainted_points(match, order, races)
    races.influenced = follows_any(match, races, after)
    return races, after


def select_before(match: Match, races: Races, end_events: NDArray[np.int64]) -> Races:
    """Return the races whose receive or probe comes before the event in `end_events`, which has one for each rank."""
    ranks, events, _ = receives_and_taken_sends(match, races)
    first = races.first.astype(np.int64)
    return _select_messages(races, np.repeat(events < end_events[ranks], first[1:] - first[:-1]))


def can_exchange(match: Match, recv: NDArray[np.int64], send: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of pairs, a receive from any source and a message that races for it, in which the two receives
    could exchange their messages: the receive that got the racing message could take the other one.

    `recv`, `send`: rows of the match's receives and sends.
    """
    recvs, sends = match.recvs, match.sends
    other = sends.partner[send].astype(np.int64)
    known = np.where(other == NONE, 0, other)
    tag_fits = (recvs.flags[known] & Post.ANY_TAG != 0) | (recvs.tag[known] == sends.tag[recvs.partner[recv]])
    result: NDArray[np.bool_] = (other != NONE) & (recvs.flags[known] & Post.ANY_SOURCE != 0) & tag_fits
    return result


def select_settled(match: Match, races: Races) -> Races:
    """Return the races of a run that still goes on which will remain races, whatever follows.

    Left out are messages that nobody has received yet, as they may go to an earlier receive. Also left out are races
    after which the rank has not yet received again at the line, or made some more calls, as it may still answer the
    sender.
    """
    ranks, events = np.zeros(len(races), np.int64), np.zeros(len(races), np.uint32)
    for posts, mask in ((match.recvs, ~races.probe), (match.probes, races.probe)):
        ranks[mask], events[mask] = _ranks_and_events(posts, races.row[mask])
    calls = np.array([len(rank) for rank in match.trace.ranks], np.int64)
    over = calls[ranks] - events > MIN_LATER_CALLS
    for k in np.flatnonzero(~over).tolist():
        over[k] = _received_again(match, match.probes if races.probe[k] else match.recvs, int(races.row[k]))
    first = races.first.astype(np.int64)
    of_race = np.repeat(over, first[1:] - first[:-1])
    return _select_messages(races, of_race & (match.sends.partner[races.messages] != NONE))


def _received_again(match: Match, posts: Posts, row: int) -> bool:
    """Return whether the rank has received another message at the line of a receive since. `row`: the receive's row in
    `posts`.
    """
    rank = posts.rank_of(row)
    later = posts.event[row + 1 : posts.of_rank(rank).stop][posts.partner[row + 1 : posts.of_rank(rank).stop] != NONE]
    sites = match.trace.ranks[rank].events["site"]
    return bool((sites[later] == sites[posts.event[row]]).any())


def _find_candidates(match: Match, order: Order, max_messages: int) -> Races:
    """Return the races that the kernel in C finds. Some of their messages may be ordered by rules that it does not
    know.
    """
    recvs, probes, sends = match.recvs, match.probes, match.sends
    earlier, later = order.pairs
    reach = np.empty(len(recvs), np.uint32)
    decided.kernel().weft_find_decision_reach(
        len(recvs), recvs.partner, order.send_known, len(later), earlier, later, reach
    )
    to_first, to_rows = group_rows(sends.peer.view(np.uint32), len(match.trace.ranks))
    source = sends.ranks()
    given = RacesInput(
        ranks=len(match.trace.ranks), recv_first=recvs.first, recv_event=recvs.event, recv_decided=recvs.decided,
        recv_known=order.known, recv_partner=recvs.partner, recv_reach=reach, recv_comm=recvs.comm,
        recv_peer=recvs.peer, recv_tag=recvs.tag, recv_flags=recvs.flags, probe_first=probes.first,
        probe_event=probes.event, probe_partner=probes.partner, probe_comm=probes.comm, probe_peer=probes.peer,
        probe_tag=probes.tag, probe_flags=probes.flags, send_known=order.send_known, send_comm=sends.comm,
        send_tag=sends.tag, send_source=source, to_first=to_first, to_rows=to_rows, most=max_messages,
    )  # fmt: skip
    lib, counts = kernel(), (ctypes.c_uint64 * 2)()
    found = lib.weft_find_races(given, len(sends), counts)
    if not found:
        raise MemoryError("no memory to look for races")
    n = int(counts[0])
    row, total = np.empty(n, np.uint32), np.empty(n, np.uint32)
    probe, first = np.empty(n, np.bool_), np.empty(n + 1, np.uint64)
    messages = np.empty(int(counts[1]), np.uint32)
    lib.weft_take_races(found, row, probe, total, first, messages)
    return Races(row, probe, total, first, messages, np.zeros(n, np.bool_))


def _synchronous_exits(match: Match, order: Order) -> dict[int, list[int]]:
    """Return the synchronous sends by whose return another rank may learn that a receive from any source is decided:
    row of the receive → rows of the sends.
    """
    sends, recvs = match.sends, match.recvs
    sync = np.flatnonzero((sends.flags & Post.SYNCHRONOUS != 0) & (sends.completion != NONE) & (sends.partner != NONE))
    exits: dict[int, list[int]] = {int(sends.partner[s]): [int(s)] for s in sync}
    if not exits:
        return exits
    earlier, later = order.pairs
    for k in range(len(later) - 1, -1, -1):
        found = exits.get(int(later[k]))
        if found:
            exits.setdefault(int(earlier[k]), []).extend(found)
    wildcards = recvs.flags & Post.ANY_SOURCE != 0
    return {row: found for row, found in exits.items() if wildcards[row]}


def _remove_ordered(match: Match, order: Order, races: Races) -> Races:
    """Return the races without messages that are sent only after the receive is decided, by an order that the kernel
    does not follow.

    Such an order leads through the end of a synchronous send, or through one of several threads of the receiver.
    """
    exits = _synchronous_exits(match, order)
    threaded = order.processes.only == NONE
    rank_of_row = (match.recvs.ranks(), match.probes.ranks())
    ranks = np.where(races.probe, 0, 0).astype(np.int64)
    ranks[races.probe] = rank_of_row[1][races.row[races.probe]]
    ranks[~races.probe] = rank_of_row[0][races.row[~races.probe]]
    ask = threaded[ranks] if len(races) else np.zeros(0, np.bool_)
    if exits:
        ask |= ~races.probe & np.isin(races.row, np.fromiter(exits, np.uint32))
    if not ask.any():
        return races
    keep = np.ones(len(races.messages), np.bool_)
    for k in np.flatnonzero(ask).tolist():
        rank, row = int(ranks[k]), int(races.row[k])
        probe = bool(races.probe[k])
        points = [EventId(rank, int(match.probes.event[row] if probe else order.known[row]))]
        points += [EventId(s_rank, int(match.sends.completion[s])) for s in ([] if probe else exits.get(row, []))
                   for s_rank in [match.sends.rank_of(s)]]  # fmt: skip
        for i in range(int(races.first[k]), int(races.first[k + 1])):
            send = match.sends.id(int(races.messages[i]))
            keep[i] = not any(order.reaches(point, send, a_end=True, b_end=False) for point in points)
    return _select_messages(races, keep)


def _select_messages(races: Races, which: NDArray[np.bool_]) -> Races:
    """Return the races with only the messages in the mask `which`; a race without any message is left out."""
    sums = np.concatenate([[0], np.cumsum(which)])
    lengths = sums[races.first[1:].astype(np.int64)] - sums[races.first[:-1].astype(np.int64)]
    dropped = np.diff(races.first.astype(np.int64)) - lengths
    stay = lengths > 0
    return Races(
        races.row[stay], races.probe[stay], (races.total - dropped)[stay].astype(np.uint32),
        np.concatenate([[0], np.cumsum(lengths[stay])]).astype(np.uint64), races.messages[which],
        races.influenced[stay],
    )  # fmt: skip


def _ranks_and_events(posts: Posts, rows: U32) -> tuple[NDArray[np.int64], U32]:
    """Return rank and event of rows of posts."""
    ranks = np.searchsorted(posts.first, rows.astype(np.uint64), side="right") - 1
    return ranks, posts.event[rows]


def receives_and_taken_sends(match: Match, races: Races) -> tuple[NDArray[np.int64], U32, U32]:
    """Return three columns with an entry for each race: the rank and the event of the receive or probe, and the row of
    the send that it took.
    """
    rank, event, took = np.zeros(len(races), np.int64), np.zeros(len(races), np.uint32), races.row.copy()
    for posts, mask in ((match.recvs, ~races.probe), (match.probes, races.probe)):
        rows = races.row[mask]
        rank[mask], event[mask] = _ranks_and_events(posts, rows)
        took[mask] = posts.partner[rows]
    return rank, event, took


def _first_tainted_points(match: Match, order: Order, races: Races) -> U32:
    """Return by rank the first point that comes after the decision of a racing receive, in this part of the run or
    before it.

    A point is the begin or end of an event, 2 * index + 1 or + 2; NONE if there is none.
    """
    rank, event, _ = receives_and_taken_sends(match, races)
    end = event.copy()
    end[~races.probe] = order.known[races.row[~races.probe]]
    at_process = order.processes
    seeds: dict[int, int] = {}
    if (at_process.only != NONE).all():
        seeds = first_end_points(match, rank, end)
        if (look := lookahead_of(match.trace)) is not None:
            seeds |= dict.fromkeys(np.flatnonzero(look.behind).tolist(), 1)
    else:
        for r, e in zip(rank.tolist(), end.tolist(), strict=True):
            process = at_process.of(r, e)
            seeds[process] = min(seeds.get(process, NONE), 2 * e + 2)
    found = np.full(len(match.trace.ranks), NONE, np.uint32)
    if not seeds:
        return found
    future = order.future_points(seeds)
    # The future of a rank with threads: that of the first thread it reaches; a little too wide at worst.
    np.minimum.at(found, at_process.rank, future)
    return found


def first_end_points(match: Match, ranks: NDArray[np.int64], events: U32) -> dict[int, int]:
    """Return for each rank the end of the first of its `events`, as a point: 2 * index + 2. All ranks must have one
    thread. `ranks`: the rank of each event.
    """
    first = np.full(len(match.trace.ranks), NONE, np.uint32)
    np.minimum.at(first, ranks, 2 * events + 2)
    return {int(rank): int(first[rank]) for rank in np.flatnonzero(first != NONE)}


def follows_any(match: Match, races: Races, points: U32) -> NDArray[np.bool_]:
    """Return a mask of the races whose receive, message or one of the other messages comes after the point of its rank
    in `points`.

    If that point is the decision of another racing receive, that race may have decided whether this one occurs (Netzer,
    Brennan & Damodaran-Kamal 1996).
    """
    if not len(races):
        return np.zeros(0, np.bool_)
    rank, event, took = receives_and_taken_sends(match, races)
    found: NDArray[np.bool_] = 2 * event + 1 >= points[rank]
    s_rank, s_event = _ranks_and_events(match.sends, took)
    found |= 2 * s_event + 1 >= points[s_rank]
    o_rank, o_event = _ranks_and_events(match.sends, races.messages)
    others = 2 * o_event + 1 >= points[o_rank]
    found |= np.logical_or.reduceat(others, races.first[:-1].astype(np.int64))
    return found
