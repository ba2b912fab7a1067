"""Matches a worker's ranks: each gets the sends to its ranks from the others, and the receives that took its own.

The rows of other workers' ranks are where a whole match has them, between or beside the own ones: by rank, in posting
order. Besides the partners of own rows there are unmatched ones, among which near misses are searched.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post, Posts, group_collectives, pair_posts
from weft.match.operations import Operations, extract_operations
from weft.report.parallel.team import Team
from weft.trace import Trace

Rows = NDArray[Any]

COLUMNS: Final = tuple(column.name for column in fields(Posts) if column.name not in ("first", "partner"))
_KINDS: Final = {"comm": np.int32, "peer": np.int32, "tag": np.int32, "flags": np.uint16}
ROW: Final = np.dtype(
    [(name, np.uint32) for name in ("rank", "row", "theirs")]
    + [(name, _KINDS.get(name, np.uint32)) for name in COLUMNS]
)  # fmt: skip
"""A row of another worker: its rank, its number among that worker's own, and that of its partner among the reader's."""


@dataclass
class SharedMatch:
    """A worker's match, and what its rows are in the whole one.

    `sends` and `recvs` by row: the number among the rows of the worker whose rank it is.
    """

    match: Match
    shares: list[range]
    sends: NDArray[np.uint32]
    recvs: NDArray[np.uint32]


def match_shared(team: Team, trace: Trace, shares: list[range]) -> SharedMatch:
    """Match the messages and collectives of this worker's ranks, also with those of other workers' ranks. All workers
    call it together.
    """
    own = extract_operations(trace)
    coming = np.concatenate(team.exchange_rows(_sends_to_workers(own.sends, shares, team.rank)))
    sends = _JoinedRows(own.sends, coming, trace.share)
    pair_posts(trace.share, sends.posts, own.recvs, own.probes)
    taken = np.concatenate(team.exchange_rows(_receives_for_workers(own.recvs, sends, shares)))
    recvs = _JoinedRows(own.recvs, taken, trace.share)
    _link_partners(sends, recvs)
    sends, recvs = _add_unmatched(team, own, sends, recvs)
    colls = own.collectives
    match = Match(trace, sends.posts, recvs.posts, own.probes, colls, group_collectives(colls))
    return SharedMatch(match, shares, sends.numbers, recvs.numbers)


class _JoinedRows:
    """Own rows and some of others' ranks as one: own ones begin at `shift`, the k-th other one is at `places[k]`."""

    def __init__(self, own: Posts, others: Rows, share: range) -> None:
        others = others[np.lexsort((others["row"], others["rank"]))]
        low = int(np.searchsorted(others["rank"], share.start))
        self.own, self.others, self.shift, self.share = own, others, low, share
        self.places = np.arange(len(others)) + np.where(np.arange(len(others)) < low, 0, len(own))
        counts = np.diff(own.first) + np.bincount(others["rank"], minlength=len(own.first) - 1).astype(np.uint64)
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
        joined = (_insert_own(others[name], getattr(own, name), low) for name in COLUMNS)
        nobody = np.full(len(others), NONE, np.uint32)
        self.posts = Posts(first=first, **dict(zip(COLUMNS, joined, strict=True)),
                           partner=_insert_own(nobody, own.partner, low))  # fmt: skip
        self.numbers = _insert_own(others["row"], np.arange(len(own), dtype=np.uint32), low)

    @property
    def own_rows(self) -> slice:
        """Where the own rows are."""
        return slice(self.shift, self.shift + len(self.own))


def _insert_own(others: NDArray[Any], own: NDArray[Any], low: int) -> NDArray[Any]:
    if not len(others):
        return own
    return np.concatenate([others[:low], own, others[low:]])


def pack_rows(posts: Posts, which: NDArray[Any], theirs: NDArray[Any] | int = NONE) -> Rows:
    """Return sends or receives in the form in which they are sent to other workers.

    `which`: the rows to send. `theirs`: for each the row of its partner at the other worker.
    """
    rows = np.empty(len(which), ROW)
    rows["rank"] = np.searchsorted(posts.first, which.astype(np.uint64), side="right") - 1
    rows["row"], rows["theirs"] = which, theirs
    for name in COLUMNS:
        rows[name] = getattr(posts, name)[which]
    return rows


def worker_of_ranks(shares: list[range], ranks: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each rank the worker that analyses it; -1 for a negative rank."""
    starts = np.array([share.start for share in shares])
    found: NDArray[np.int64] = np.where(ranks < 0, -1, np.searchsorted(starts, ranks, side="right") - 1)
    return found


def _sends_to_workers(sends: Posts, shares: list[range], me: int) -> list[Rows]:
    """Return for each worker the sends to its ranks, none for this worker (`me`)."""
    to = worker_of_ranks(shares, sends.peer)
    return [pack_rows(sends, np.flatnonzero(to == other) if other != me else np.zeros(0, np.int64))
            for other in range(len(shares))]  # fmt: skip


def _receives_for_workers(recvs: Posts, sends: _JoinedRows, shares: list[range]) -> list[Rows]:
    """Return for each worker the receives of this worker that took one of its sends."""
    took = sends.posts.partner[sends.places]
    taken = np.flatnonzero(took != NONE)
    of = worker_of_ranks(shares, sends.others["rank"][taken].astype(np.int64))
    return [pack_rows(recvs, took[taken[of == other]].astype(np.int64), sends.others["row"][taken[of == other]])
            for other in range(len(shares))]  # fmt: skip


def _link_partners(sends: _JoinedRows, recvs: _JoinedRows) -> None:
    """Set the partners of sends and receives to rows of the joined columns (own rows and those of other workers).
    Before, the partners of sends are numbers among the own receives.
    """
    partner = sends.posts.partner
    partner[partner != NONE] += np.uint32(recvs.shift)
    answered = sends.shift + recvs.others["theirs"].astype(np.int64)
    partner[answered] = recvs.places
    recvs.posts.partner[recvs.places] = answered


def _add_unmatched(
    team: Team, own: Operations, sends: _JoinedRows, recvs: _JoinedRows
) -> tuple[_JoinedRows, _JoinedRows]:
    """Return sends and receives with the unmatched ones of other workers' ranks added, and renumber all partners
    accordingly. All workers call it together.

    `own`: what this worker's ranks sent and received.
    """
    told = [team.all_gather_rows(_unmatched_own(joined)) for joined in (sends, recvs)]
    left = [np.concatenate(parts[: team.rank] + parts[team.rank + 1 :]) for parts in told]
    share = sends.share
    left[0] = left[0][(left[0]["peer"] < share.start) | (left[0]["peer"] >= share.stop)]  # those to own ranks are here
    if not len(left[0]) and not len(left[1]):
        return sends, recvs
    before = (sends, recvs)
    wider = [_JoinedRows(joined.own, np.concatenate([joined.others, more]), joined.share)
             for joined, more in zip(before, left, strict=True)]  # fmt: skip
    moved = [_rows_in_wider(one, more) for one, more in zip(before, wider, strict=True)]
    for one, more, here, there in zip(before, wider, moved, reversed(moved), strict=True):
        partner = np.full(len(more.posts), NONE, np.uint32)
        partner[here] = _translate_rows(there, one.posts.partner)
        more.posts.partner = partner
    own.probes.partner = _translate_rows(moved[0], own.probes.partner)
    return wider[0], wider[1]


def _unmatched_own(joined: _JoinedRows) -> Rows:
    """Return this worker's rows that have no partner and were not cancelled, in the form in which they are sent to
    other workers.
    """
    posts, mine = joined.posts, joined.own_rows
    free = (posts.partner[mine] == NONE) & ((posts.flags[mine] & Post.CANCELLED) == 0)
    return pack_rows(joined.own, np.flatnonzero(free))


def _rows_in_wider(joined_rows: _JoinedRows, wider: _JoinedRows) -> NDArray[np.uint32]:
    """Return for each row of joined columns its row in `wider`, which has further rows."""
    to = np.empty(len(joined_rows.posts), np.uint32)
    to[joined_rows.own_rows] = np.arange(wider.own_rows.start, wider.own_rows.stop)
    keys = [joined.others["rank"].astype(np.uint64) << 32 | joined.others["row"] for joined in (joined_rows, wider)]
    to[joined_rows.places] = wider.places[np.searchsorted(keys[1], keys[0])]
    return to


def _translate_rows(places: NDArray[np.uint32], rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return `places[row]` for each of the rows; NONE stays NONE."""
    found = rows.copy()
    known = rows != NONE
    found[known] = places[rows[known]]
    return found
