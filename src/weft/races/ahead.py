"""Decides how far a segment must look ahead so that the races of its calls are those of the run.

`last_common_points` is by rank the last point that all later senders know by then. A wildcard receive that is complete
at such a point can take nothing that they send after the calls of the segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match, Post, Posts
from weft.order import Order
from weft.races.search import Races, first_end_points, follows_any, receives_and_taken_sends

Ints = NDArray[np.int64]


def last_common_points(match: Match, order: Order, later_senders: Mapping[int, Sequence[int]]) -> Ints:
    """Return by rank its last point that all ranks know of which send it something later. A point is the begin or end
    of an event, 2 * index + 1 or + 2; NONE if no rank does.

    `later_senders`: by receiver the ranks that send to it after these calls.
    """
    ranks = match.trace.ranks
    known = np.full(len(ranks), NONE, np.int64)
    for receiver, senders in later_senders.items():
        known[receiver] = min(int(order.past_points(one, 2 * len(ranks[one]))[receiver]) for one in senders)
    return known


def first_open_receive(match: Match, known: Ints) -> Ints:
    """Return by rank the event of its first receive (or probe) from any source that may still get a message of later
    calls; the number of its calls if there is none. `known`: as `last_common_points` returns it.
    """
    found = np.array([len(rank) for rank in match.trace.ranks], np.int64)
    for posts in (match.recvs, match.probes):
        rows = _open_rows(posts, known)
        np.minimum.at(found, posts.ranks()[rows], posts.event[rows].astype(np.int64))
    return found


def first_undecided_race(match: Match, order: Order, races: Races, known: Ints) -> Ints:
    """Return by rank the event of its first race that a race not yet known may influence; the number of its calls if
    there is none.

    Such a race comes after a receive that may still take a message of later calls, and then races as well. `known`: as
    `last_common_points` returns it.
    """
    found = np.array([len(rank) for rank in match.trace.ranks], np.int64)
    ranks, events = [], []
    for posts, racing in ((match.recvs, ~races.probe), (match.probes, races.probe)):
        rows = _open_rows(posts, known)
        rows = rows[~np.isin(rows, races.row[racing])]
        ranks.append(posts.ranks()[rows].astype(np.int64))
        events.append(order.known[rows] if posts is match.recvs else posts.event[rows])
    if sum(map(len, ranks)):
        after = order.future_points(first_end_points(match, np.concatenate(ranks), np.concatenate(events)))
        open_ = ~races.influenced & follows_any(match, races, after)
        rank, event, _ = receives_and_taken_sends(match, races)
        np.minimum.at(found, rank[open_], event[open_].astype(np.int64))
    return found


def _open_rows(posts: Posts, known: Ints) -> Ints:
    """Return the rows from any source that may still take a message of later calls: they complete after the point in
    `known`.
    """
    rows = np.flatnonzero(posts.flags & Post.ANY_SOURCE != 0)
    end = 2 * posts.completion[rows].astype(np.int64) + 2
    return rows[end > known[posts.ranks()[rows]]]
