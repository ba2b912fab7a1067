"""Say how many rounds of a loop a rank made where others made one more, and how many messages of a channel came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from weft.mpi.meaning import base_name
from weft.terms import calls
from weft.terms.describe import function_word
from weft.trace import Event, Rank
from weft.trace.layout import Def

_WITH_PEER: Final = (
    calls.SENDS | calls.RECVS | calls.SENDRECVS | calls.ISENDS | calls.IRECVS | calls.ISENDRECVS | calls.PROBES
)


def describe_missing_rounds(events: Sequence[Event], others: Sequence[int]) -> str:
    """Return `made 59 of the 60 rounds of sendrecv at jacobi.py:40` if all `others` made equally many rounds of that
    line, and fewer than the ranks of `events`, each of which is in its last; else an empty text.
    """
    first = events[0]
    trace = first.rank.trace.origin
    if not first.site.file or trace.may_lack_its_beginning or not others or min(others) < 0:
        return ""
    mine = {count_rounds(trace.ranks[event.rank.index], event) for event in events}
    theirs = {count_rounds(trace.ranks[other], first) for other in others}
    if len(mine) != 1 or len(theirs) != 1 or not 0 < min(theirs) < min(mine):
        return ""
    return f"made {theirs.pop():,} of the {mine.pop():,} rounds of {function_word(first)} at {_line(first)}"


def count_rounds(rank: Rank, like: Event) -> int:
    """Count a rank's calls at the line of a call: those with the peer that it had there most often, as a loop over
    neighbours may be in the round.
    """
    file, line = like.site.file, like.site.line
    ids = [id for id in rank.definitions.ids(Def.SITE) if (found := rank.site(id)).line == line and found.file == file]
    here = rank.events[np.isin(rank.events["site"], ids)]
    here = here[(here["function"] == like.function.id) & (here["error"] == 0)]
    if base_name(like.function.name) not in _WITH_PEER or not len(here):
        return len(here)
    return int(np.unique(here["peer"], return_counts=True)[1].max())


def describe_missing_messages(verb: str, come: int, wanted: int, tag: int, last: Event | None) -> str:
    """Return `sent 30 of the 31 messages with tag 4, at pipe.py:8` if some came, but fewer than were wanted."""
    if not 0 < come < wanted:
        return ""
    where = f", at {_line(last)}" if last is not None and last.site.file else ""
    return f"{verb} {come:,} of the {wanted:,} messages with tag {tag}{where}"


def _line(event: Event) -> str:
    return f"{Path(event.site.file or '').name}:{event.site.line}"
