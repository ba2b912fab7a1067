"""Closed cuts where messages are received of any source: a stretch looks further than it tells.

A wildcard receive that is complete knows whose message it took, so what is before a closed cut is matched as in the
run. But it may race with a message that is sent behind the cut. So of a greater closed cut D the greatest one C within
is taken before which no wildcard is open: every rank that sends anything behind D knows by then that each is complete,
so none of those messages can have come first. The stretch tells of the calls before C, and the next one begins there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.match import Match
from weft.mpi.meaning import Act, named
from weft.order import Order, order
from weft.plain import dataclass
from weft.races.ahead import common, first_open, first_unsure
from weft.races.search import MADE, looked, told
from weft.stretches.descent import Descent, Found, before
from weft.stretches.moments import Cuts
from weft.terms import calls
from weft.terms.calls import masks
from weft.terms.columns import Ints
from weft.trace import Rank
from weft.trace.mapping import let_go
from weft.trace.stretch import Look, Stretch

Mask = NDArray[np.bool_]

_SENDS: Final = named(Act.SEND, Act.SEND_RECEIVE) | calls.STARTS
_PART: Final = 1 << 14
"""Calls that are looked at together."""


def last_send(rank: Rank) -> int:
    """The last call of a rank that may send a message, -1 for none."""
    sends, events = masks(rank.trace.functions).table(_SENDS), rank.events
    for end in range(len(events), 0, -_PART):
        part = events[max(0, end - _PART) : end]
        found = np.flatnonzero(sends[part["function"]])
        let_go(part)
        if len(found):
            return end - len(part) + int(found[-1])
    return -1


@dataclass(frozen=True)
class Ahead:
    """The calls that a stretch looks at, with those behind it, their match, in which its races are kept, and order."""

    stretch: Stretch
    match: Match
    order: Order


class Looking:
    """Looks ahead from cut to cut. `behind`: by rank whether a race is before it, at the last cut that was found."""

    def __init__(self, of: Cuts, last_sends: Ints, behind: Mask) -> None:
        self.of, self.last_sends, self.behind = of, last_sends, behind

    def within(self, window: Stretch, of: Match, least: int) -> tuple[Ahead, Found] | None:
        """As far as a window can be looked at, and the cut in it before which nothing is open.

        None where fewer calls than `least` are before it.
        """
        ahead = np.array([rank.ahead for rank in window.ranks], np.int64)
        far = Descent(window, of).found()
        begin, end = np.array(window.first, np.int64), np.array(window.first, np.int64) + far.cut - ahead
        if int((far.cut - ahead).sum()) < least:
            return None
        stretch = self.of.between(begin, end)
        look = Look(far.cut, self.behind, self.last_sends >= end)
        stretch.look = look
        match = before(of, stretch, far)
        ordered = order(stretch, match)
        known = common(match, ordered, look.sends)
        most = first_open(match, known)
        found = Descent(stretch, match, most=most).found()
        if int((found.cut - ahead).sum()) < least:
            return None
        races, after = looked(match, ordered)
        most = np.minimum(most, first_unsure(match, ordered, races, known))
        if (most < found.cut).any():
            found = Descent(stretch, match, most=most).found()
            if int((found.cut - ahead).sum()) < least:
                return None
        stretch.look = replace(look, told=found.cut)
        match.made[MADE] = told(match, races, found.cut)
        self.behind = self.behind | (after <= 2 * found.cut)
        return Ahead(stretch, match, ordered), found
