"""Reports calls that do not return for a long time, of a run that still goes on (`weft run --call-limit`), once each.

Time proves nothing, so this is no finding: it says which call has not returned for so long, and what the others did
meanwhile. Times are those between looks, and need no clocks of other hosts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from weft.base.lazy import dataclass
from weft.base.words import rank_words
from weft.terms.describe import call_words, site_suffix
from weft.trace import Event, Flag, Rank, Trace, site_lines

Place = tuple[int, int, int]
"""A rank, one of its threads, and which of its calls."""
STYLE = "yellow"


@dataclass
class OpenCall:
    """A call that has not returned: when it was first seen so, and how many calls each rank had made then."""

    seen: float
    made: Mapping[int, int]


class CallLimit:
    """Watches which calls of a run have not returned for `seconds`, and reports each of them once."""

    def __init__(self, run: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self.seconds = seconds
        self.over = False
        self._clock = clock
        self._since: dict[Place, OpenCall] = {}
        self._told: set[Place] = set()

    def find_news(self) -> Iterator[tuple[str, str]]:
        """Read the run once. Yield (line, style) for each call that has exceeded the limit since the last reading."""
        trace = Trace.open(self.run)
        now, found = self._clock(), dict(open_calls(trace))
        made = {rank.index: len(rank.events) for rank in trace.ranks}
        self._since = {place: self._since.get(place, OpenCall(now, made)) for place in found}
        late = [place for place in found if now - self._since[place].seen >= self.seconds and place not in self._told]
        if not late:
            return
        site_lines.resolve_sites(trace)
        for place in late:
            self._told.add(place)
            since = self._since[place]
            yield limit_sentence(found[place], now - since.seen, describe_others(trace, place[0], since.made)), STYLE


def open_calls(trace: Trace) -> Iterator[tuple[Place, Event]]:
    """Yield for each thread that is inside a call: a key (rank, thread, number of calls so far), and the call."""
    for rank in trace.ranks:
        for number, thread in enumerate(rank.threads):
            if len(thread.events) and not thread.events["flags"][-1] & Flag.CLOSED:
                yield (rank.index, number, len(thread.events)), last_call(rank, number)


def last_call(rank: Rank, thread: int) -> Event:
    """Return the last call of a thread. `thread`: its index among the rank's threads."""
    if len(rank.threads) == 1:
        return rank.event(len(rank.events) - 1)
    return rank.event(int(np.flatnonzero(rank.event_threads == thread)[-1]))


def limit_sentence(event: Event, seconds: float, others: str) -> str:
    """Return `rank 1 has been in recv(source=2, tag=5) at a.c:12 for 60 s; ranks 0 and 3 have made calls since`."""
    call = call_words(event) + site_suffix(event)
    return f"limit: rank {event.rank.index} has been in {call} for {seconds:.0f} s{others}"


def describe_others(trace: Trace, caller: int, made: Mapping[int, int]) -> str:
    """Return what the other ranks did since a call of rank `caller` began: made calls, were outside of MPI, or stayed
    in a call too.

    `made`: how many calls each rank had made when the call began.
    """
    others = [rank for rank in trace.ranks if rank.index != caller and not rank.missing]
    went_on = [rank.index for rank in others if len(rank.events) > made.get(rank.index, 0)]
    inside = {place[0] for place, _ in open_calls(trace)}
    outside = [rank.index for rank in others if rank.index not in {*went_on, *inside}]
    waiting = [rank.index for rank in others if rank.index in inside and rank.index not in went_on]
    parts = [
        (went_on, "has made calls since", "have made calls since"),
        (outside, "is outside of MPI", "are outside of MPI"),
        (waiting, "is still in a call, too", "are still in a call, too"),
    ]
    told = [f"{rank_words(ranks)} {one if len(ranks) == 1 else many}" for ranks, one, many in parts if ranks]
    return f"; {', '.join(told)}" if told else ""
