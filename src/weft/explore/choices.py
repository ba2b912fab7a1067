"""The choices of a run: the sender of each wildcard receive's or probe's message, and the requests that each completing
call completed.

Two runs of a program with the same choices do the same, as far as messages decide it: a receive of a named source has
no choice (MPI-4.1, 3.5: messages cannot overtake each other).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post, Posts
from weft.replay.force import Forcing
from weft.replay.ready import find_completing_calls
from weft.trace import Trace

Place = tuple[int, int, int]
"""A wildcard of the program: (rank index, thread slot, how many wildcards the thread has posted before). The third is
-1, -2, ... for the thread's calls that completed one or some of several requests."""
Taken = int | tuple[int, ...]
"""The index of the sender, or those of the requests that were completed."""
Wanted = Mapping[Place, Taken]
"""What each place is to take."""
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """A wildcard receive or probe (the event that posts it), or a call that completes some of several requests."""

    event: int
    source: Taken
    """NOBODY where no message came."""
    receive: bool


def find_choices(trace: Trace, match: Match) -> dict[Place, Choice]:
    """Return place -> choice for all choices of a run. A place is (rank, thread, number of the wildcard); a choice is
    the call with what it took.
    """
    found: list[tuple[int, int, int, int, bool]] = []
    for posts in (match.recvs, match.probes):
        rows = np.flatnonzero(posts.flags & Post.ANY_SOURCE != 0)
        ranks = posts.ranks()[rows]
        sources, receives = _find_senders(match, posts, rows), [posts is match.recvs] * len(rows)
        found += zip(ranks.tolist(), posts.event[rows].tolist(), rows.tolist(), sources, receives, strict=True)
    counted: dict[tuple[int, int], int] = {}
    made: dict[Place, Choice] = {}
    for rank, event, _, source, receive in sorted(found):
        slot = int(trace.ranks[rank].event_threads[event])
        ordinal = counted.get((rank, slot), 0)
        counted[rank, slot] = ordinal + 1
        made[rank, slot, ordinal] = Choice(event, source, receive)
    return made | _find_completing_choices(trace)


def _find_completing_choices(trace: Trace) -> dict[Place, Choice]:
    """Return the choices of calls that complete some of several requests, by place."""
    counted: dict[tuple[int, int], int] = {}
    made: dict[Place, Choice] = {}
    for rank in trace.ranks:
        for call in find_completing_calls(rank):
            slot = int(rank.event_threads[call.event])
            ordinal = counted.get((rank.index, slot), -1)
            counted[rank.index, slot] = ordinal - 1
            made[rank.index, slot, ordinal] = Choice(call.event, call.taken, receive=False)
    return made


def _find_senders(match: Match, posts: Posts, rows: NDArray[np.int64]) -> list[int]:
    """Return for each receive or probe the rank that sent its message, NOBODY if none came."""
    partners = posts.partner[rows]
    return [match.sends.rank_of(int(row)) if row != NONE else NOBODY for row in partners.tolist()]


def expected_choices(forcing: Forcing, recorded: Mapping[Place, Choice]) -> dict[Place, Taken]:
    """Return what a replay with a forced outcome must choose, by place: the forced choice, and the recorded choices
    that do not depend on it.
    """
    kept: dict[Place, Taken] = {}
    for place, choice in recorded.items():
        if (place[0], choice.event) == forcing.event:
            kept[place] = (forcing.forced.request,) if forcing.forced.request >= 0 else forcing.sender
        elif forcing.keeps_outcome(place[0], choice.event, receive=choice.receive):
            kept[place] = choice.source
    return kept


def has_choices(made: Mapping[Place, Choice], expected: Wanted) -> bool:
    """Return whether a run made all the expected choices."""
    return all(place in made and made[place].source == source for place, source in expected.items())


def are_compatible(choices: Wanted, other_choices: Wanted) -> bool:
    """Return whether one run can make both sets of choices: no place has two of them."""
    return all(other_choices.get(place, taken) == taken for place, taken in choices.items())
