"""A long run cut into segments, between moments at which nothing is under way.

Such a moment is a collective of all ranks which none leaves before all have come, where every message has been taken
and no request and no one-sided operation is open (quiescence.py). All that is before it happens before all that is
behind it, on every rank and in every other outcome too: what is received before it can only be what was sent before
it. So the order, the races, the deadlocks that might be, and the waits of a segment are those of the whole run, and
memory is bounded by what is pending, not by the length of the run.

Where no such moment comes, a cut that is closed under matching does (closed_cuts.py); where messages are received of
any source, with a look at what lies behind it (lookahead.py).
"""

from __future__ import annotations

from weft.segments.closed_cuts import (
    SegmentWalk,
    allows_closed_cuts,
    cancels_requests,
    has_wide_gaps,
    make_cuts_of_whole_run,
    receives_from_any_source,
)
from weft.segments.cut_points import (
    Cuts,
    RankScan,
    calls_between_cuts,
    cut_between,
    find_cuts,
    is_worth_cutting,
    scan_rank,
)
from weft.segments.lookahead import LookAhead, Looking, Sends, last_sends
from weft.segments.quiescence import is_quiet
from weft.trace.segment import SEGMENT

__all__ = [
    "SEGMENT",
    "Cuts",
    "LookAhead",
    "Looking",
    "RankScan",
    "SegmentWalk",
    "Sends",
    "allows_closed_cuts",
    "calls_between_cuts",
    "cancels_requests",
    "cut_between",
    "find_cuts",
    "has_wide_gaps",
    "is_quiet",
    "is_worth_cutting",
    "last_sends",
    "make_cuts_of_whole_run",
    "receives_from_any_source",
    "scan_rank",
]  # fmt: skip
