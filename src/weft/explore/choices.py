"""What a run chose: for each wildcard receive and probe the sender it took its message from.

Two runs of a program in which these are the same do the same, as far as messages decide it: a receive of a named source
has no choice (MPI-4.1, 3.5: messages cannot overtake each other).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match, Post, Posts
from weft.plain import dataclass
from weft.replay.force import Forcing
from weft.trace import Trace

Place = tuple[int, int, int]
"""A wildcard of the program: (rank index, thread slot, how many wildcards the thread has posted before)."""
Wanted = Mapping[Place, int]
"""Senders, by the wildcard that is to take theirs."""
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """A wildcard receive or probe: the event that posts it, and the index of the sender whose message it got."""

    event: int
    source: int
    probe: bool


def choices(trace: Trace, match: Match) -> dict[Place, Choice]:
    """All choices of a run, by place. The source is NOBODY where no message came."""
    found: list[tuple[int, int, int, int, bool]] = []
    for posts in (match.recvs, match.probes):
        rows = np.flatnonzero(posts.flags & Post.ANY_SOURCE != 0)
        ranks = posts.ranks()[rows]
        sources, probes = _senders(match, posts, rows), [posts is match.probes] * len(rows)
        found += zip(ranks.tolist(), posts.event[rows].tolist(), rows.tolist(), sources, probes, strict=True)
    counted: dict[tuple[int, int], int] = {}
    made: dict[Place, Choice] = {}
    for rank, event, _, source, probe in sorted(found):
        slot = int(trace.ranks[rank].event_threads[event])
        ordinal = counted.get((rank, slot), 0)
        counted[rank, slot] = ordinal + 1
        made[rank, slot, ordinal] = Choice(event, source, probe)
    return made


def _senders(match: Match, posts: Posts, rows: NDArray[np.int64]) -> list[int]:
    partners = posts.partner[rows]
    return [match.sends.rank_of(int(row)) if row != NONE else NOBODY for row in partners.tolist()]


def wanted(forcing: Forcing, made: Mapping[Place, Choice]) -> dict[Place, int]:
    """What a run with the other outcome has in common with this one, and the other choice itself."""
    kept: dict[Place, int] = {}
    for place, choice in made.items():
        if (place[0], choice.event) == forcing.event:
            kept[place] = forcing.sender
        elif forcing.keeps(place[0], choice.event, probe=choice.probe):
            kept[place] = choice.source
    return kept


def agrees(made: Mapping[Place, Choice], with_: Wanted) -> bool:
    """Whether a run made these choices."""
    return all(place in made and made[place].source == source for place, source in with_.items())
