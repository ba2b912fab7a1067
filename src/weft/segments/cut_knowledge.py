"""What each rank knows of the others at a closed cut: not all that is before it, as at a quiet moment.

A point is one of weft.order, counted over the whole run: 2e + 1 for the start of call e, 2e + 2 for its end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.match import match_operations
from weft.order import Cut, order_events
from weft.segments.cut_points import Cuts
from weft.segments.greatest_cut import match_without_carried
from weft.trace.segment import Segment

Points = NDArray[np.int64]


class CutKnowledge:
    """By moment, of those behind which segments look ahead, and by rank, the last point of each rank that it knows."""

    def __init__(self, of: Cuts) -> None:
        self.of = of
        first = min(of.looks)
        # At a quiet moment each rank has entered its last call when another leaves its own.
        known: Points = np.maximum(np.tile(2 * of.at[first] - 1, (of.at.shape[1], 1)), 0)
        np.fill_diagonal(known, 2 * of.at[first])
        self._at: dict[int, Points] = {first: known}

    def points_at(self, moment: int) -> Points:
        """Return a matrix: in row r, column s is the last point of rank s that rank r knows of at a moment. A point is
        the begin or end of a call. The result is kept, and later moments are computed from it.
        """
        if moment not in self._at:
            place = max(one for one in self._at if one < moment)
            known = self._at[place]
            for low in range(place, moment):
                known = self._points_after(low, known)
            self._at[moment] = known
        return self._at[moment]

    def _points_after(self, low: int, known: Points) -> Points:
        """Return what each rank knows of the others after the segment that begins at moment `low`. `known`: the same at
        its beginning, as a matrix of points (begins and ends of calls).
        """
        segment = self.of.segment(low, low + 1)
        matched = match_operations(segment)
        of = order_events(segment, match_without_carried(matched, segment) if any(map(len, segment.out)) else matched)
        found = known.copy()
        for rank in segment.ranks:
            if len(rank) > rank.ahead:
                found[rank.index] = points_in_run(segment, of.past(EventId(rank.index, len(rank) - 1)), known)
        segment.release()
        return found


def points_in_run(segment: Segment, past: Cut, known: Points) -> Points:
    """Return for each rank its last point (begin or end of a call, counted in the whole run) that happens before an
    event of a segment.

    `past`: what happens before the event within the segment. `known`: what each rank knew at the segment's beginning.
    """
    ahead = np.array([rank.ahead for rank in segment.ranks], np.int64)
    here = past.points.astype(np.int64)
    met = here > 2 * ahead
    own = np.where(met, here + 2 * (np.array(segment.first, np.int64) - ahead), 0)
    found: Points = np.maximum(own, known[met].max(axis=0, initial=0))
    return found
