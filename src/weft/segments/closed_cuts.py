"""Where a run may be cut though nothing brings its ranks together: at cuts closed under matching.

A cut is closed where every message that is sent before it is received before it and the other way round, every request
made before it is complete before it, and every collective lies on one side with all its members. Where no receive or
probe takes messages of any source, the i-th send of a channel goes to its i-th receive in every outcome; so the match
of each side alone is that of the run. What must be before what by a chain that begins and ends on one side stays on
that side, as no link of it leads back over the cut: so the order of a segment is that of the run as well. Of wildcards
more has to be known: lookahead.py.

The greatest closed cut within a window is found downwards: what has a part after the end of the window, or no other
part at all, goes out, and then what that leaves without its other parts, until nothing more does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.match import Match, match_operations
from weft.mpi.meaning import Act, Mode, Over, all_meanings, functions_with
from weft.segments.cut_points import Cuts, RankScan, calls_between_cuts
from weft.segments.greatest_cut import ClosedCut, CutDescent, match_before, receives_that_may_be_pending
from weft.segments.lookahead import LookAhead, Looking, calls_carried_over
from weft.segments.untaken_messages import UntakenMessages
from weft.terms import calls
from weft.terms.argument_columns import decode_columns, integer_column
from weft.terms.calls import masks_of, word_set
from weft.trace import Flag, Rank, Trace
from weft.trace.layout import ANY_SOURCE
from weft.trace.mapping import release_pages
from weft.trace.segment import SEGMENT, Lookahead, Segment

Ints = NDArray[np.int64]

LAST: Final = 64
"""Calls of each rank at its end that stay with its last one: how it ended is read out of them."""
WIDER: Final = 4
"""A window without a cut is looked at again with so many times as many calls."""
FURTHEST: Final = 16
"""Where messages are received of any source, so many times the calls of a segment are looked at at most."""
_PART: Final = 1 << 18
"""Calls that are looked at together."""
_UNDIVIDED: Final = (
    calls.WINDOW_MAKERS
    | calls.COLLECTIVE_INITS
    | calls.PARTITIONED
    | functions_with(Act.TRANSFER)
    | frozenset(row.name for row in all_meanings().values() if row.over is Over.GROUP)
    | word_set(
        "Grequest_start File_open Comm_spawn Comm_spawn_multiple Comm_accept Comm_connect Comm_join Session_init"
    )
)
"""Calls that a segment does not see whole, or whose partners are not paired by `match`."""
_READY: Final = functions_with(Act.SEND, where=lambda row: row.mode is Mode.READY)


def allows_closed_cuts(trace: Trace, called: frozenset[int]) -> bool:
    """Return whether a run may be cut at closed cuts: no message, request or collective reaches over such a cut. False
    if the run calls functions that a part of a run cannot be analysed with.

    `called`: ids of the functions that the run calls. Receives from any source are not considered here.
    """
    ids = masks_of(trace.functions).ids
    restarted = cancels_requests(trace, called) and called.intersection(ids(calls.STARTS))
    return not restarted and not called.intersection(ids(_UNDIVIDED))


def cancels_requests(trace: Trace, called: frozenset[int]) -> bool:
    """Return whether requests are cancelled: with receives of any source, a look ahead may not see that they are."""
    return bool(called.intersection(masks_of(trace.functions).ids(calls.CANCELS)))


def receives_from_any_source(rank: Rank) -> bool:
    """Return whether a rank has a receive or probe with MPI_ANY_SOURCE. Its calls are read a part at a time."""
    table, events = masks_of(rank.trace.functions).table(calls.SENDRECVS | calls.ISENDRECVS), rank.events
    for start in range(0, len(events), _PART):
        part = events[start : start + _PART]
        if (part["flags"] & Flag.ANY_SOURCE != 0).any():
            return True
        both = np.flatnonzero(table[part["function"]]) + start
        for _, values in decode_columns(rank, both, frozenset(("source",))) if len(both) else ():
            if (integer_column(values, "source") == ANY_SOURCE).any():
                return True
        for thread in rank.threads if len(both) else ():
            release_pages(thread.tails)
        release_pages(part)
    return False


def make_cuts_of_whole_run(trace: Trace, seen: Sequence[RankScan]) -> Cuts:
    """Return the two moments between which a run lies that is not cut: its start and its end. `seen`: what was found in
    each rank.
    """
    ends = np.array([one.calls for one in seen], np.int64)
    called = frozenset[int]().union(*(one.called for one in seen))
    return Cuts(trace, np.stack([np.zeros_like(ends), ends]), seen, np.full((2, len(ends)), -1, np.int64), called)


def has_wide_gaps(cuts: Cuts, least: int = SEGMENT) -> bool:
    """Return whether some of the moments lie much farther apart than wanted."""
    return int(np.diff(cuts.at.sum(axis=1)).max()) > WIDER * calls_between_cuts(least, len(cuts.at[0]))


class SegmentWalk:
    """The segments of a run between closed cuts, from `first` on, each with its match; `at` grows with them.

    The last one, which goes to the end of the run, is left out: at[-1] is where it begins. `carried` holds by moment
    (of `at`) and by rank the calls before it whose messages belong behind it. `looking`: where messages are received of
    any source, what looks further than a segment (lookahead.py); `looks` holds by moment how far it did.
    """

    def __init__(self, of: Cuts, first: Ints, least: int = SEGMENT, looking: Looking | None = None) -> None:
        self.of, self.ends = of, of.at[-1]
        self.size = calls_between_cuts(least, len(first))
        self.at = [first]
        self.carried: dict[int, list[Ints]] = {}
        self.lost = UntakenMessages(of)
        self.looking = looking
        self.looks: dict[int, tuple[Ints, Lookahead, Sequence[Ints]]] = {}
        # Of calls that are carried, and of them alone, a segment does not know the whole order.
        self.carries = of.called.isdisjoint(masks_of(of.run.functions).ids(_READY))

    def __iter__(self) -> SegmentWalk:
        return self

    def __next__(self) -> tuple[Segment, Match, LookAhead | None]:
        # Nothing of a segment is held here while the next one is looked for.
        found = self._find_next_segment(self.at[-1])
        if found is None:
            self._add_last_look()
            raise StopIteration
        segment, _, ahead = found
        if any(map(len, segment.out)):
            self.carried[len(self.at)] = segment.out
        if ahead is not None and ahead.segment.look is not None:
            end = np.array(ahead.segment.last, np.int64)
            self.looks[len(self.at) - 1] = end, ahead.segment.look, ahead.segment.out
        self.at.append(np.array(segment.last, np.int64))
        return found

    def _add_last_look(self) -> None:
        """Store for the last segment that its analyses may look at all calls after its beginning."""
        if self.looking is not None:
            rest = self.of.segment_between(self.at[-1], self.ends, self.carried.get(len(self.at) - 1, ()))
            counts = np.array([len(rank) for rank in rest.ranks], np.int64)
            look = Lookahead(counts, self.looking.behind, {})
            self.looks[len(self.at) - 1] = self.ends, look, ()

    def _find_next_segment(self, first: Ints) -> tuple[Segment, Match, LookAhead | None] | None:
        """Return the next segment, its match, and the calls after it that its analyses look at (None if they need
        none). None if only the last segment is left.

        Ever larger windows of calls are tried until one has enough calls before its cut. `first`: by rank the first
        call.
        """
        rest, into = self.ends - first, self.carried.get(len(self.at) - 1, ())
        wanted = self.size
        most = int(rest.sum()) // 2 if self.looking is None else min(int(rest.sum()) // 2, FURTHEST * self.size)
        while wanted <= most:
            share = np.floor(rest * (wanted / int(rest.sum()))).astype(np.int64)
            if self.looking is not None:  # who does little is met by others early or late
                share = np.maximum(share, wanted // (WIDER * len(share)))
            window = self.of.segment_between(first, first + np.minimum(share, np.maximum(rest - LAST, 0)), into)
            try:
                of = match_operations(window)
            except Exception:  # the analyses of the last segment, which then begins here, say why
                return None
            found = (
                self._segment_with_lookahead(window, of, wanted, into)
                if self.looking
                else self._segment_without_wildcards(window, of, wanted, into)
            )
            if found is not None:
                return found
            wanted *= WIDER
            window.release()
        return None

    def _segment_with_lookahead(
        self, window: Segment, match: Match, wanted: int, carried_in: Sequence[Ints]
    ) -> tuple[Segment, Match, LookAhead] | None:
        """Return the segment before the cut of a window, its match, and the calls after it that its analyses have to
        look at. None if there is no such cut with enough calls before it.

        `wanted`: how many calls the segment should have. `carried_in`: by rank the calls before the window whose
        messages belong into it.
        """
        assert self.looking is not None
        least, found = -(-wanted // WIDER), None
        if not self.carried:
            found = self.looking.look_within(window, match, least)
        if found is None and self.carries:
            found = self.looking.look_within(window, match, least, carried_in, carries=True)
        if found is None:
            return None
        ahead, cut, out = found
        first = np.array(window.first, np.int64)
        segment = self.of.segment_between(first, first + cut.cut - _ahead(window), carried_in, out)
        return segment, match_before(ahead.match, segment, cut), ahead

    def _segment_without_wildcards(
        self, window: Segment, match: Match, wanted: int, carried_in: Sequence[Ints]
    ) -> tuple[Segment, Match, None] | None:
        """Return the segment before the cut of a window without receives from any source, and its match. None if too
        few calls are before the cut.

        `wanted`, `carried_in`: as in `_segment_with_lookahead`.
        """
        found, first = self._find_cut(window, match, wanted), np.array(window.first, np.int64)
        if not _has_enough_calls(found, window, wanted):
            return None
        segment = self.of.segment_between(
            first, first + found.cut - _ahead(window), carried_in, calls_carried_over(window, match, found)
        )
        return segment, match_before(match, segment, found), None

    def _find_cut(self, window: Segment, match: Match, wanted: int) -> ClosedCut:
        """Return the greatest closed cut of a window. Messages that go over it are allowed only if too few calls would
        be before it otherwise, or if messages went over an earlier cut.
        """
        if not self.carried:
            plain = CutDescent(window, match).find_cut()
            if not self.carries or _has_enough_calls(plain, window, wanted):
                return plain
        return CutDescent(
            window,
            match,
            receives_that_may_be_pending(match),
            self.lost.untaken_sends(match, np.array(window.last, np.int64)),
        ).find_cut()


def _ahead(window: Segment) -> Ints:
    return np.array([rank.ahead for rank in window.ranks], np.int64)


def _has_enough_calls(found: ClosedCut, window: Segment, wanted: int) -> bool:
    """Return whether enough calls are before a cut."""
    return int((found.cut - _ahead(window)).sum()) * WIDER >= wanted
