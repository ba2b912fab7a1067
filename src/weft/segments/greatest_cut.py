"""Find the greatest closed cut in a window of calls, stepping down from its end (closed_cuts.py)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post, Posts, group_collectives
from weft.match.operations import Collectives
from weft.segments.quiescence import collectives_with_all_members
from weft.terms import calls
from weft.terms.calls import masks_of
from weft.trace.segment import Segment
from weft.usage.long_ranks import find_cancelled_requests

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_STEPS: Final = 20_000
"""Steps down to a closed cut; where more are needed there is a message under way at every one."""
MOST_OF_A_RANK: Final = 50
"""More of them for each rank."""
_HEAVY: Final = (
    Post.PERSISTENT | Post.MATCHED_PROBE | Post.HALF | Post.UNDECIDED | Post.PARTITIONED | Post.INIT | Post.FREED
    | Post.RECALLED
)  # fmt: skip
"""What is not carried over a cut: not of one call of its own, of a message that is not known as yet, or given up."""


@dataclass(frozen=True)
class ClosedCut:
    """A closed cut of a window: by rank the first call that is not before it, and the rows that are carried over it."""

    cut: Ints
    sends: Mask
    recvs: Mask

    def carried_calls(self, of: Match, ranks: int) -> list[Ints]:
        """Return for each rank the calls before the cut whose messages count to what comes after it. `of`: the match of
        the window, `ranks`: the number of ranks.
        """
        found = []
        for rank in range(ranks):
            events = [posts.event[part][rows[part]] for posts, rows in ((of.sends, self.sends), (of.recvs, self.recvs))
                      for part in (posts.of_rank(rank),)]  # fmt: skip
            found.append(np.unique(np.concatenate(events)).astype(np.int64))
        return found


def receives_that_may_be_pending(of: Match) -> Mask:
    """Return a mask of the receives that may still be pending at a cut, so that their messages count to what comes
    after it.
    """
    flags = of.recvs.flags
    found: Mask = (flags & Post.NONBLOCKING != 0) & (flags & _HEAVY == 0)
    return found


class CutDescent:
    """Steps down over what has a part after the cut, or no other part.

    `light`: rows of receives that may be pending over the cut, `lost`: rows of sends that are never received. `most`:
    by rank the calls that may be before the cut.
    """

    def __init__(
        self, window: Segment, of: Match, light: Mask | None = None, lost: Mask | None = None, most: Ints | None = None
    ) -> None:  # fmt: skip
        self.of = of
        sends, recvs = of.sends, of.recvs
        self.light = np.zeros(len(recvs), np.bool_) if light is None else light
        self.lost = np.zeros(len(sends), np.bool_) if lost is None else lost
        self.ends = np.array([len(rank) for rank in window.ranks], np.int64)
        self.least = np.array([rank.ahead for rank in window.ranks], np.int64)
        self.bound = self.ends.copy() if most is None else np.minimum(self.ends, most)
        """By rank the calls that may still be before the cut."""
        self.taken = np.where(self.light, recvs.completion, recvs.event) if self.light.any() else recvs.event
        """By receive the call that is after the cut where its message is: its post, or what completes a light one."""
        self.sent = np.where(self.lost, np.uint32(NONE), sends.event) if self.lost.any() else sends.event
        """The same of a send, whose post it is; none of a lost one."""
        self.parts_rank = of.collectives.ranks()
        self._exclude_incomplete(window)
        self.between = [
            self._last_settled_calls(number, *find_cancelled_requests(rank)) for number, rank in enumerate(window.ranks)
        ]
        self._ends: dict[int, Ints] = {}
        self.seen = self._probes_by_send()

    def find_cut(self) -> ClosedCut:
        """Return the greatest closed cut: no message, request or collective lies partly before and partly after it. If
        the search takes too many steps, return the cut before all calls.
        """
        cut = self._step_down()
        recvs = self.light & (self.of.recvs.event < cut[self.of.recvs.ranks()])
        recvs &= self.of.recvs.completion >= cut[self.of.recvs.ranks()]
        return ClosedCut(cut, self.lost & (self.of.sends.event < cut[self.of.sends.ranks()]), recvs)

    def _step_down(self) -> Ints:
        """Lower the cut rank by rank until no call before it has its partner after it, and return it: by rank the
        number of calls before it.
        """
        done = self.ends.copy()
        steps = 0
        while steps < MOST_STEPS + MOST_OF_A_RANK * len(done):
            down = (
                np.flatnonzero(self.bound < done) if (self.bound < done).any() else self._ranks_with_pending_requests()
            )
            if not len(down):
                # What was carried into the window and cannot go on is of all that follows.
                return self.bound if (self.bound >= self.least).all() else self.least
            for rank in down.tolist():
                low = self.bound[rank] = int(self.between[rank][self.bound[rank]])
                self._exclude_partners(
                    rank, low, int(done[rank])
                )  # which may lower the rank itself, that sends to itself
                done[rank] = low
            steps += len(down)
        return self.least

    def _ranks_with_pending_requests(self) -> Ints:
        """Return ranks at whose bound a request is pending."""
        return np.array([r for r, one in enumerate(self.between) if one[self.bound[r]] != self.bound[r]], np.int64)

    def _lower(self, ranks: NDArray[Any], events: NDArray[Any]) -> None:
        np.minimum.at(self.bound, ranks, events.astype(np.int64))

    def _exclude_incomplete(self, window: Segment) -> None:
        """Lower the cut so that all calls are after it which have no partner in the window or are not complete in
        it.
        """
        sends, recvs = self.of.sends, self.of.recvs
        open_ = ((sends.partner == NONE) | (sends.completion == NONE)) & ~self.lost
        self._lower(sends.ranks()[open_], sends.event[open_])
        # What a receive got that was sent after the window lies after the cut: so does the receive, or its end.
        open_ = (recvs.partner == NONE) | (~self.light & (recvs.completion == NONE))
        self._lower(recvs.ranks()[open_], self.taken[open_])
        pending = self.light & (recvs.completion == NONE)
        self._lower_partners(recvs.peer[pending], recvs.partner[pending], self.sent)
        seen = self.of.probes.partner
        out = np.append(self.lost, [True])[np.minimum(seen, len(sends))]  # of what is carried a probe is not
        self._lower(self.of.probes.ranks()[out], self.of.probes.event[out])
        parts, of = self.of.collectives, self.of.instances
        if len(of):
            whole = collectives_with_all_members(window, self.of)
            out = ~whole[parts.instance] | (parts.completion == NONE)
            out |= masks_of(window.functions).table(calls.ENDS)[parts.function]
            self._lower(self.parts_rank[out], parts.event[out])

    def _last_settled_calls(self, rank: int, begun: Ints, ended: Ints) -> NDArray[np.int32]:
        """Return for each call of a rank the last call, itself or earlier, before which no request is pending.

        `begun`, `ended`: the calls that made requests which are cancelled, and those that ended them.
        """
        change = np.zeros(int(self.ends[rank]) + 2, np.int64)
        none = np.zeros(len(self.of.collectives), np.bool_)
        carried = (self.lost, self.light, none)
        for rows, over in zip((self.of.sends, self.of.recvs, self.of.collectives), carried, strict=True):
            part = rows.of_rank(rank)
            made, done = rows.event[part], rows.completion[part]
            later = (done != NONE) & (done > made) & ~over[part]
            for events, by in ((made[later], 1), (done[later], -1)):
                change += by * np.bincount(events.astype(np.int64) + 1, minlength=len(change))
        for events, by in ((begun, 1), (ended, -1)):
            change += by * np.bincount(events + 1, minlength=len(change))
        free = np.cumsum(change)[: int(self.ends[rank]) + 1] == 0
        last: NDArray[np.int32] = np.maximum.accumulate(np.where(free, np.arange(len(free), dtype=np.int32), 0))
        return last

    def _light_receives_by_end(self, rank: int) -> Ints:
        """Return the rows of a rank's receives that may be pending over the cut, in the order in which they are
        completed.
        """
        if rank not in self._ends:
            part = self.of.recvs.of_rank(rank)
            rows = part.start + np.flatnonzero(self.light[part])
            self._ends[rank] = rows[np.argsort(self.taken[rows], kind="stable")]
        return self._ends[rank]

    def _probes_by_send(self) -> tuple[Ints, Ints, Ints]:
        """Return three columns on what probes saw, sorted by send: the row of the send, the rank of the probe, and the
        probe's event.
        """
        probes = self.of.probes
        rows = np.flatnonzero(probes.partner != NONE)
        rows = rows[np.argsort(probes.partner[rows], kind="stable")]
        of, ranks, events = probes.partner[rows], probes.ranks()[rows], probes.event[rows]
        return of.astype(np.int64), ranks.astype(np.int64), events.astype(np.int64)

    def _exclude_partners(self, rank: int, low: int, high: int) -> None:
        """Lower the cuts of other ranks so that the partners of a rank's calls from `low` up to `high` (excluded) are
        after the cut. Partners are the sends, receives and parts of collectives with which these calls are matched.
        """
        sends, recvs, probes = self.of.sends, self.of.recvs, self.of.probes
        mine = _rows_posted_by(sends, rank, low, high)
        self._lower_partners(sends.peer[mine], sends.partner[mine], self.taken)
        rows, by, events = self.seen
        some = slice(int(np.searchsorted(rows, mine.start)), int(np.searchsorted(rows, mine.stop)))
        self._lower(by[some], events[some])
        for posts in (recvs, probes):
            mine = _rows_posted_by(posts, rank, low, high)
            self._lower_partners(posts.peer[mine], posts.partner[mine], self.sent)
        by_end = self._light_receives_by_end(rank)
        ended = by_end[slice(*np.searchsorted(self.taken[by_end], (low, high)).tolist())]
        self._lower_partners(recvs.peer[ended], recvs.partner[ended], self.sent)
        parts, of = self.of.collectives, self.of.instances
        mine = _rows_posted_by(parts, rank, low, high)
        if mine.start == mine.stop:
            return
        which = np.unique(parts.instance[mine])
        first, length = of.first[which].astype(np.int64), np.diff(of.first).astype(np.int64)[which]
        at = np.repeat(first - np.cumsum(length) + length, length) + np.arange(int(length.sum()))
        all_ = of.rows[at]
        self._lower(self.parts_rank[all_], parts.event[all_])

    def _lower_partners(self, ranks: NDArray[Any], partner: NDArray[Any], others: NDArray[Any]) -> None:
        there = partner != NONE
        self._lower(ranks[there], others[partner[there]])


def _rows_posted_by(rows: Posts | Collectives, rank: int, low: int, high: int) -> slice:
    """Return the rows of a rank that its calls from `low` up to `high` (excluded) posted."""
    part = rows.of_rank(rank)
    first, last = np.searchsorted(rows.event[part], (low, high))
    return slice(part.start + int(first), part.start + int(last))


def match_before(of: Match, segment: Segment, found: ClosedCut) -> Match:
    """Return the match of a segment: the part of the window's match `of` that is before the closed cut `found`.
    Messages that are carried over the cut are left out.
    """
    cut, colls = found.cut, of.collectives
    sends, recvs, probes = (rows.event < cut[rows.ranks()] for rows in (of.sends, of.recvs, of.probes))
    return _select_rows(
        of, segment, _Kept(sends & ~found.sends, recvs & ~found.recvs, probes, colls.event < cut[colls.ranks()])
    )


def match_without_carried(of: Match, segment: Segment) -> Match:
    """Return the match of a segment without the messages of its calls that count to later segments."""
    kept = []
    for posts in (of.sends, of.recvs):
        out = [
            np.isin(posts.event[posts.of_rank(rank)], segment.outgoing_events(rank))
            for rank in range(len(segment.ranks))
        ]
        kept.append(~np.concatenate([np.zeros(0, np.bool_), *out]))
    return _select_rows(
        of, segment, _Kept(*kept, *(np.ones(len(rows), np.bool_) for rows in (of.probes, of.collectives)))
    )


class _Kept(NamedTuple):
    """Rows of a match."""

    sends: Mask
    recvs: Mask
    probes: Mask
    collectives: Mask


def _select_rows(of: Match, segment: Segment, kept: _Kept) -> Match:
    """Return a match with only the rows in `kept`, renumbered. The partner of each row that is kept must be kept
    too.
    """
    sends, of_sends = _select_part(of.sends, kept.sends)
    recvs, of_recvs = _select_part(of.recvs, kept.recvs)
    probes, _ = _select_part(of.probes, kept.probes)
    colls, _ = _select_part(of.collectives, kept.collectives)
    for posts, to in ((sends, of_recvs), (recvs, of_sends), (probes, of_sends)):
        there = posts.partner != NONE
        posts.partner[there] = to[posts.partner[there]]
    return Match(segment, sends, recvs, probes, colls, group_collectives(colls))


_Rows = TypeVar("_Rows", Posts, Collectives)


def _select_part(rows: _Rows, kept: Mask) -> tuple[_Rows, NDArray[np.uint32]]:
    """Return the rows in the mask `kept`, and a column with the new number of each old row; NONE for rows that are left
    out.
    """
    number = np.cumsum(kept, dtype=np.int64)
    first = np.concatenate([[0], number])[rows.first.astype(np.int64)].astype(np.uint64)
    some = {one.name: getattr(rows, one.name)[kept] for one in fields(rows) if one.name != "first"}
    return replace(rows, first=first, **some), np.where(kept, number - 1, NONE).astype(np.uint32)
