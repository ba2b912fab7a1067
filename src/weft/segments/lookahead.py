"""Closed cuts where messages are received of any source: a segment looks further than it tells.

A wildcard receive that is complete knows whose message it took, so what is before a closed cut is matched as in the
run. But it may race with a message that is sent behind the cut. So of a greater closed cut D the greatest one C within
is taken before which no wildcard is open: every rank that sends anything behind D knows by then that each is complete,
so none of those messages can have come first. The segment tells of the calls before C, and the next one begins there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match import Match, Post
from weft.mpi.meaning import Act, functions_with
from weft.order import Order, order_events
from weft.races.ahead import first_open_receive, first_undecided_race, last_common_points
from weft.races.search import CACHE_NAME, detect_among_all, select_before
from weft.segments.cut_points import Cuts
from weft.segments.greatest_cut import ClosedCut, CutDescent, match_before, receives_that_may_be_pending
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of
from weft.trace import Rank
from weft.trace.mapping import release_pages
from weft.trace.segment import Lookahead, Segment

Mask = NDArray[np.bool_]

_SENDS: Final = functions_with(Act.SEND, Act.SEND_RECEIVE)
_PART: Final = 1 << 18
"""Calls that are looked at together."""

Sends = dict[int, int]
"""By rank that is sent to the last call that may do so."""


def last_sends(rank: Rank) -> Sends:
    """Return for each rank to which this one sends: rank → event index of the last call that may send there."""
    table, of = masks_of(rank.trace.functions).table, {id: rank.comm(id) for id in rank.comm_ids()}
    sending, starts, inits = table(_SENDS), table(calls.STARTS), table(calls.SEND_INITS)
    width = len(rank.trace.ranks) + 1
    last = {id: np.full(width, -1, np.int64) for id in of}
    started, asked = -1, {id: np.zeros(width, np.bool_) for id in of}
    for start in range(0, len(rank.events), _PART):
        part = rank.events[start : start + _PART]
        function, rows = part["function"], np.flatnonzero(sending[part["function"]])
        rows = rows[part["peer"][rows] >= 0]
        peer, comm = np.minimum(part["peer"][rows], width - 1), part["comm"][rows]
        for id in np.unique(comm).tolist():
            mine = np.flatnonzero(comm == id)
            # Of several values for one place numpy keeps the last one.
            last.setdefault(id, np.full(width, -1, np.int64))[peer[mine]] = rows[mine] + start
            asked.setdefault(id, np.zeros(width, np.bool_))[peer[mine][inits[function[rows[mine]]]]] = True
        if (begun := np.flatnonzero(starts[function])).size:
            started = start + int(begun[-1])
        release_pages(part)
    found: Sends = {}
    for id, calls_ in last.items():
        calls_[asked[id]] = max(started, int(calls_.max()))
        peers = comm_.peers(rank.index) if (comm_ := of.get(id)) is not None else ()
        for place in np.flatnonzero(calls_ >= 0).tolist():
            # Of a communicator that is not known anybody may be meant.
            for to in (peers[place],) if place < len(peers) else range(width - 1):
                found[to] = max(found.get(to, -1), int(calls_[place]))
    return found


@dataclass(frozen=True)
class LookAhead:
    """The calls that a segment looks at, with those after it, their match, in which its races are kept, and order."""

    segment: Segment
    match: Match
    order: Order


class Looking:
    """Looks ahead from cut to cut. `behind`: by rank whether a race is before it, at the last cut that was found.

    `wild`: by rank whether it receives of any source. On others receives that are pending go over a cut
    (closed_cuts.py).
    """

    def __init__(self, of: Cuts, wild: Mask, sends: Sequence[Sends], behind: Mask) -> None:
        self.of, self.wild, self.sends, self.behind = of, wild, sends, behind

    def pending_receives(self, of: Match) -> Mask:
        """Return a mask of the receives that may be pending over a cut. Left out are receives of ranks that receive
        from any source, and those whose send waits for the receive.
        """
        recvs, sends = of.recvs, of.sends
        waits = np.append(sends.flags & Post.SYNCHRONOUS != 0, [False])[np.minimum(recvs.partner, len(sends))]
        found: Mask = receives_that_may_be_pending(of) & ~self.wild[recvs.ranks()] & ~waits
        return found

    def _later_senders(self, end: Ints) -> dict[int, list[int]]:
        """Return for each rank which ranks may send it something after the cut. `end`: by rank the first call after the
        cut.
        """
        found: dict[int, list[int]] = {}
        for sender, (first, sends) in enumerate(zip(end.tolist(), self.sends, strict=True)):
            for receiver, last in sends.items():
                if last >= first:
                    found.setdefault(receiver, []).append(sender)
        return found

    def look_within(
        self, window: Segment, of: Match, least: int, carried_in: Sequence[Ints] = (), *, carries: bool = False
    ) -> tuple[LookAhead, ClosedCut, list[Ints]] | None:  # fmt: skip
        """Find in a window of calls the greatest cut before which no receive or race depends on later calls. Return the
        calls and their match that were looked at, the cut, and by rank the calls whose messages go over it. None if
        fewer than `least` calls are before the cut.

        `carried_in`: by rank the calls before the window whose messages belong into it. `carries`: messages may go over
        the cut.
        """
        ahead = np.array([rank.ahead for rank in window.ranks], np.int64)
        far = CutDescent(window, of, self.pending_receives(of) if carries else None).find_cut()
        begin, end = np.array(window.first, np.int64), np.array(window.first, np.int64) + far.cut - ahead
        if int((far.cut - ahead).sum()) < least:
            return None
        out = calls_carried_over(window, of, far)
        segment = self.of.segment_between(begin, end, carried_in, out)
        look = Lookahead(far.cut, self.behind, self._later_senders(end))
        segment.look = look
        match = match_before(of, segment, far)
        ordered = order_events(segment, match)
        known = last_common_points(match, ordered, look.sends)
        most, pending = first_open_receive(match, known), self.pending_receives(match) if carries else None
        found = CutDescent(segment, match, pending, most=most).find_cut()
        if int((found.cut - ahead).sum()) < least:
            return None
        races, after = detect_among_all(match, ordered)
        most = np.minimum(most, first_undecided_race(match, ordered, races, known))
        if (most < found.cut).any():
            found = CutDescent(segment, match, pending, most=most).find_cut()
            if int((found.cut - ahead).sum()) < least:
                return None
        segment.look = replace(look, told=found.cut)
        match.made[CACHE_NAME] = select_before(match, races, found.cut)
        self.behind = self.behind | (after <= 2 * found.cut)
        near = begin + found.cut - ahead
        both = [np.union1d(mine, far_[far_ < last]) for mine, far_, last in zip(
            calls_carried_over(segment, match, found), out, near.tolist(), strict=True)]  # fmt: skip
        return LookAhead(segment, match, ordered), found, both


def calls_carried_over(window: Segment, of: Match, found: ClosedCut) -> list[Ints]:
    """Return by rank the calls, as numbered in the whole run, whose messages go over the cut `found` of a window."""
    return [
        np.array([window.to_run_event(EventId(rank, event)).event for event in events.tolist()], np.int64)
        for rank, events in enumerate(found.carried_calls(of, len(window.ranks)))
    ]
