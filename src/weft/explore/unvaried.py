"""What an exploration does not vary: how often polls fail, and which sets of requests are completed together.

A poll can fail any number of times before it succeeds, and MPI_Waitsome can complete any set of complete requests: each
is reported with its place in the program, so that nobody takes what was explored for all that can happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.explore.outcomes import Outcome, describe_call_site
from weft.replay.plan import POLLS
from weft.replay.ready import SOME, find_completing_calls
from weft.trace import Trace
from weft.trace.layout import Flag

SHOWN: Final = 3
"""Places that are named."""


@dataclass(frozen=True, slots=True)
class Unvaried:
    """Places in the program, each with its rank: of failed polls, and of calls that complete some of
    several requests.
    """

    polls: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    def describe(self) -> list[str]:
        """Return lines that say what was not varied, and where; none if everything was varied."""
        lines = []
        if self.polls:
            lines.append(f"not varied: how many times polls fail, at {_join_places(self.polls)}")
        if self.sets:
            what = "which requests complete together (Weft tried each alone)"
            lines.append(f"not varied: {what}, at {_join_places(self.sets)}")
        return lines


def find_unvaried(outcomes: list[Outcome]) -> Unvaried:
    """Return the call sites of polls that failed, and of calls that completed several requests together. The
    exploration does not vary these.
    """
    polls = dict.fromkeys(place for one in outcomes for place in _sites_of_failed_polls(one.trace))
    sets = dict.fromkeys(place for one in outcomes for place in _sites_of_partial_completions(one.trace))
    return Unvaried(tuple(polls), tuple(sets))


def _sites_of_failed_polls(trace: Trace) -> Iterator[str]:
    """Yield the call sites where polls failed, each once."""
    for rank in trace.ranks:
        events = rank.events
        polls = trace.functions.mask(f"MPI_{name}" for name in POLLS)[events["function"]]
        mine = polls & (events["flags"] & (Flag.CLOSED | Flag.TRUE) == Flag.CLOSED)
        rows = np.flatnonzero(mine & (events["count"] > 0))
        yield from (
            describe_call_site(trace, EventId(rank.index, row))
            for row in _first_row_of_each_site(events["site"][rows], rows)
        )


def _sites_of_partial_completions(trace: Trace) -> Iterator[str]:
    """Yield the call sites where some of several requests were completed, each once."""
    for rank in trace.ranks:
        some = trace.functions.mask(f"MPI_{name}" for name in SOME)[rank.events["function"]]
        rows = np.array(
            [c.event for c in find_completing_calls(rank) if some[c.event] and len(c.requests) > 1], np.int64
        )
        yield from (
            describe_call_site(trace, EventId(rank.index, row))
            for row in _first_row_of_each_site(rank.events["site"][rows], rows)
        )


def _first_row_of_each_site(sites: NDArray[np.uint32], rows: NDArray[np.int64]) -> list[int]:
    """Return the first row of each call site."""
    return [int(row) for row in rows[np.sort(np.unique(sites, return_index=True)[1])]] if len(rows) else []


def _join_places(places: tuple[str, ...]) -> str:
    more = len(places) - SHOWN
    return "; ".join(places[:SHOWN]) + (f"; and {plural(more, 'more place')}" if more > 0 else "")
