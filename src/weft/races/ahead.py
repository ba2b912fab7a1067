"""What a look ahead of a segment has to have seen so that the races of its calls are those of the run.

`common` is by rank the last point that all know by then who send it anything behind these calls. A wildcard receive
that is complete at such a point can take nothing that is sent behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match, Post, Posts
from weft.order import Order
from weft.races.search import Races, first_end_points, follows_any, receivers

Ints = NDArray[np.int64]


def last_common_points(match: Match, order: Order, later_senders: Mapping[int, Sequence[int]]) -> Ints:
    """By rank the last point that all of some ranks, those that send to it later, know of it when their calls end."""
    ranks = match.trace.ranks
    known = np.full(len(ranks), NONE, np.int64)
    for receiver, senders in later_senders.items():
        known[receiver] = min(int(order.past_points(one, 2 * len(ranks[one]))[receiver]) for one in senders)
    return known


def first_open_receive(match: Match, known: Ints) -> Ints:
    """By rank the post of its first wildcard receive or probe that is not known to be complete; else its end."""
    found = np.array([len(rank) for rank in match.trace.ranks], np.int64)
    for posts in (match.recvs, match.probes):
        rows = _open_rows(posts, known)
        np.minimum.at(found, posts.ranks()[rows], posts.event[rows].astype(np.int64))
    return found


def first_undecided_race(match: Match, order: Order, races: Races, known: Ints) -> Ints:
    """By rank the post of its first race of which it is open whether another one influences it; else its end.

    It comes after a receive that may still take what is sent behind these calls, which then races as well.
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
        rank, event, _ = receivers(match, races)
        np.minimum.at(found, rank[open_], event[open_].astype(np.int64))
    return found


def _open_rows(posts: Posts, known: Ints) -> Ints:
    """Wildcard rows that are complete behind what is known of their rank."""
    rows = np.flatnonzero(posts.flags & Post.ANY_SOURCE != 0)
    end = 2 * posts.completion[rows].astype(np.int64) + 2
    return rows[end > known[posts.ranks()[rows]]]
