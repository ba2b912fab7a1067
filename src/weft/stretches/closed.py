"""Where a run of named receives may be cut though nothing brings its ranks together: at cuts closed under matching.

A cut is closed where every message that is sent before it is received before it and the other way round, every request
made before it is complete before it, and every collective lies on one side with all its members. Where no receive or
probe takes messages of any source, the i-th send of a channel goes to its i-th receive in every outcome; so the match
of each side alone is that of the run. What must be before what by a chain that begins and ends on one side stays on
that side, as no link of it leads back over the cut: so the order of a stretch is that of the run as well.

The greatest closed cut within a window is found downwards: what has a part behind the end of the window, or no other
part at all, goes out, and then what that leaves without its other parts, until nothing more does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match, Posts, instances, match
from weft.match.operations import Collectives
from weft.mpi.meaning import Act, Over, every, named
from weft.stretches.moments import Cuts, Seen, apart
from weft.stretches.stillness import gathered
from weft.terms import calls
from weft.terms.calls import masks, words
from weft.terms.columns import columns, ints
from weft.trace import Flag, Rank, Trace
from weft.trace.layout import ANY_SOURCE
from weft.trace.mapping import let_go
from weft.trace.stretch import STRETCH, Stretch

Ints = NDArray[np.int64]

LAST: Final = 64
"""Calls of each rank at its end that stay with its last one: how it ended is read out of them."""
WIDER: Final = 4
"""A window without a cut is looked at again with so many times as many calls."""
MOST_STEPS: Final = 20_000
"""Steps down to a closed cut; where more are needed there is a message under way at every one."""
MOST_OF_A_RANK: Final = 50
"""More of them for each rank."""
_PART: Final = 1 << 18
"""Calls that are looked at together."""
_UNDIVIDED: Final = (
    calls.WINDOW_MAKERS | calls.COLLECTIVE_INITS | calls.PARTITIONED | calls.CANCELS | named(Act.TRANSFER)
    | frozenset(row.name for row in every().values() if row.over is Over.GROUP)
    | words("Grequest_start File_open Comm_spawn Comm_spawn_multiple Comm_accept Comm_connect Comm_join Session_init")
)  # fmt: skip
"""Calls that a stretch does not see whole, or whose partners are not paired by `match`."""


def closable(trace: Trace, called: frozenset[int]) -> bool:
    """Whether closed cuts are safe, by the functions that are called; that nobody receives of any source is `wild`."""
    return not called.intersection(masks(trace.functions).ids(_UNDIVIDED))


def wild(rank: Rank) -> bool:
    """Whether a rank receives or probes of any source, as its calls say, a part at a time."""
    table, events = masks(rank.trace.functions).table(calls.SENDRECVS | calls.ISENDRECVS), rank.events
    for start in range(0, len(events), _PART):
        part = events[start : start + _PART]
        if (part["flags"] & Flag.ANY_SOURCE != 0).any():
            return True
        both = np.flatnonzero(table[part["function"]]) + start
        for _, values in columns(rank, both, frozenset(("source",))) if len(both) else ():
            if (ints(values, "source") == ANY_SOURCE).any():
                return True
        for thread in rank.threads if len(both) else ():
            let_go(thread.tails)
        let_go(part)
    return False


def uncut(trace: Trace, seen: Sequence[Seen]) -> Cuts:
    """The start and the end of a run alone."""
    ends = np.array([one.calls for one in seen], np.int64)
    called = frozenset[int]().union(*(one.called for one in seen))
    return Cuts(trace, np.stack([np.zeros_like(ends), ends]), [one.earlier for one in seen], called)


def sparse(of: Cuts, least: int = STRETCH) -> bool:
    """Whether some of the moments lie much farther apart than wanted."""
    return int(np.diff(of.at.sum(axis=1)).max()) > WIDER * apart(least, len(of.at[0]))


class Walk:
    """The stretches of a run between closed cuts, from `first` on, each with its match; `at` grows with them.

    The last one, which goes to the end of the run, is left out: at[-1] is where it begins.
    """

    def __init__(self, of: Cuts, first: Ints, least: int = STRETCH) -> None:
        self.of, self.ends = of, of.at[-1]
        self.size = apart(least, len(first))
        self.at = [first]

    def __iter__(self) -> Iterator[tuple[Stretch, Match]]:
        while (found := self._next(self.at[-1])) is not None:
            stretch, of = found
            self.at.append(np.array(stretch.last, np.int64))
            del found
            yield stretch, of

    def _next(self, first: Ints) -> tuple[Stretch, Match] | None:
        """The next stretch: windows of more and more calls, up to one that has a fair part before its cut."""
        rest = self.ends - first
        wanted = self.size
        while 2 * wanted <= int(rest.sum()):
            share = np.floor(rest * (wanted / int(rest.sum()))).astype(np.int64)
            window = self.of.between(first, first + np.minimum(share, np.maximum(rest - LAST, 0)))
            try:
                of = match(window)
            except Exception:  # the analyses of the last stretch, which then begins here, say why
                return None
            cut = closed_cut(window, of)
            ahead = np.array([rank.ahead for rank in window.ranks], np.int64)
            if int((cut - ahead).sum()) * WIDER >= wanted:
                stretch = self.of.between(first, first + cut - ahead)
                return stretch, before(of, stretch, cut)
            wanted *= WIDER
            window.let_go()
        return None


def closed_cut(window: Stretch, of: Match) -> Ints:
    """By rank the first call of a window that is not before its greatest closed cut, all before the window given."""
    return _Descent(window, of).cut()


class _Descent:
    """The way down from the end of a window to its greatest closed cut."""

    def __init__(self, window: Stretch, of: Match) -> None:
        self.of = of
        self.ends = np.array([len(rank) for rank in window.ranks], np.int64)
        self.least = np.array([rank.ahead for rank in window.ranks], np.int64)
        self.bound = self.ends.copy()
        """By rank the calls that may still be before the cut."""
        self.parts_rank = of.collectives.ranks()
        self._out_alone(window)
        self.between = [self._between(rank) for rank in range(len(self.ends))]
        self.seen = self._seen()

    def cut(self) -> Ints:
        """Step down rank by rank, over what the steps before have left without its other parts."""
        done = self.ends.copy()
        steps = 0
        while steps < MOST_STEPS + MOST_OF_A_RANK * len(done):
            down = np.flatnonzero(self.bound < done) if (self.bound < done).any() else self._unsettled()
            if not len(down):
                return np.maximum(self.bound, self.least)
            for rank in down.tolist():
                self.bound[rank] = self.between[rank][self.bound[rank]]
                self._out(rank, int(self.bound[rank]), int(done[rank]))
                done[rank] = self.bound[rank]
            steps += len(down)
        return self.least

    def _unsettled(self) -> Ints:
        """Ranks at whose bound a request is pending."""
        return np.array([r for r, one in enumerate(self.between) if one[self.bound[r]] != self.bound[r]], np.int64)

    def _lower(self, ranks: NDArray[Any], events: NDArray[Any]) -> None:
        np.minimum.at(self.bound, ranks, events.astype(np.int64))

    def _out_alone(self, window: Stretch) -> None:
        """What has no other part in the window, or is not complete in it, is not before the cut."""
        for posts in (self.of.sends, self.of.recvs):
            open_ = (posts.partner == NONE) | (posts.completion == NONE)
            self._lower(posts.ranks()[open_], posts.event[open_])
        probes = self.of.probes.partner == NONE
        self._lower(self.of.probes.ranks()[probes], self.of.probes.event[probes])
        parts, of = self.of.collectives, self.of.instances
        if len(of):
            whole = gathered(window, self.of)
            out = ~whole[parts.instance] | (parts.completion == NONE)
            out |= masks(window.functions).table(calls.ENDS)[parts.function]
            self._lower(self.parts_rank[out], parts.event[out])

    def _between(self, rank: int) -> NDArray[np.int32]:
        """By call of a rank the last one up to it before which no request is pending."""
        change = np.zeros(int(self.ends[rank]) + 2, np.int64)
        for rows in (self.of.sends, self.of.recvs, self.of.collectives):
            part = rows.of_rank(rank)
            made, done = rows.event[part], rows.completion[part]
            later = (done != NONE) & (done > made)
            for events, by in ((made[later], 1), (done[later], -1)):
                change += by * np.bincount(events.astype(np.int64) + 1, minlength=len(change))
        free = np.cumsum(change)[: int(self.ends[rank]) + 1] == 0
        last: NDArray[np.int32] = np.maximum.accumulate(np.where(free, np.arange(len(free), dtype=np.int32), 0))
        return last

    def _seen(self) -> tuple[Ints, Ints, Ints]:
        """Probes by the send that they saw: rows of sends in order, and rank and event of the probe."""
        probes = self.of.probes
        rows = np.flatnonzero(probes.partner != NONE)
        rows = rows[np.argsort(probes.partner[rows], kind="stable")]
        of, ranks, events = probes.partner[rows], probes.ranks()[rows], probes.event[rows]
        return of.astype(np.int64), ranks.astype(np.int64), events.astype(np.int64)

    def _out(self, rank: int, low: int, high: int) -> None:
        """Take the other parts of what calls `low` up to before `high` of a rank began."""
        sends, recvs, probes = self.of.sends, self.of.recvs, self.of.probes
        mine = _rows(sends, rank, low, high)
        self._lower_partners(sends.peer[mine], sends.partner[mine], recvs)
        rows, by, events = self.seen
        some = slice(int(np.searchsorted(rows, mine.start)), int(np.searchsorted(rows, mine.stop)))
        self._lower(by[some], events[some])
        for posts in (recvs, probes):
            mine = _rows(posts, rank, low, high)
            self._lower_partners(posts.peer[mine], posts.partner[mine], sends)
        parts, of = self.of.collectives, self.of.instances
        mine = _rows(parts, rank, low, high)
        if mine.start == mine.stop:
            return
        which = np.unique(parts.instance[mine])
        first, length = of.first[which].astype(np.int64), np.diff(of.first).astype(np.int64)[which]
        at = np.repeat(first - np.cumsum(length) + length, length) + np.arange(int(length.sum()))
        all_ = of.rows[at]
        self._lower(self.parts_rank[all_], parts.event[all_])

    def _lower_partners(self, ranks: NDArray[Any], partner: NDArray[Any], others: Posts) -> None:
        there = partner != NONE
        self._lower(ranks[there], others.event[partner[there]])


def _rows(rows: Posts | Collectives, rank: int, low: int, high: int) -> slice:
    """The rows that calls `low` up to before `high` of a rank posted."""
    part = rows.of_rank(rank)
    first, last = np.searchsorted(rows.event[part], (low, high))
    return slice(part.start + int(first), part.start + int(last))


def before(of: Match, stretch: Stretch, cut: Ints) -> Match:
    """The match of the stretch up to a closed cut of a window, out of that of the window."""
    sends, of_sends = _part(of.sends, cut)
    recvs, of_recvs = _part(of.recvs, cut)
    probes, _ = _part(of.probes, cut)
    colls, _ = _part(of.collectives, cut)
    for posts, to in ((sends, of_recvs), (recvs, of_sends), (probes, of_sends)):
        posts.partner = to[posts.partner]
    return Match(stretch, sends, recvs, probes, colls, instances(colls))


_Rows = TypeVar("_Rows", Posts, Collectives)


def _part(rows: _Rows, cut: Ints) -> tuple[_Rows, NDArray[np.uint32]]:
    """The rows of the calls before a cut, and by row of all which of them it is."""
    kept = rows.event < cut[rows.ranks()]
    number = np.cumsum(kept, dtype=np.int64)
    first = np.concatenate([[0], number])[rows.first.astype(np.int64)].astype(np.uint64)
    some = {one.name: getattr(rows, one.name)[kept] for one in fields(rows) if one.name != "first"}
    return replace(rows, first=first, **some), (number - 1).astype(np.uint32)
