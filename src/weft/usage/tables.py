"""How large tables by the ids of a rank's objects are: where a record is damaged they stay small."""

from __future__ import annotations

from typing import Final

from weft.trace import Rank
from weft.trace.layout import EVENT, ID_DYNAMIC, StreamKind

MOST_IDS: Final = 1 << 28
"""An id beyond is damage: no rank makes 268 million objects of a class."""
SPARE_IDS: Final = 1 << 16
"""Ids that are believed beyond those that calls account for."""


def end_of_ids(rank: Rank, more: int = 0) -> int:
    """The end of the ids of a rank's objects that are believed, so that there can be a place for each.

    Ids come one by one: a larger one than there were calls to make it is of a damaged record. `more`: those that are
    known to have been made otherwise.
    """
    made = len(rank) + more
    if (file := rank.trace.origin.ranks[rank.index].file) is not None:  # of a part, those before it count too
        made += sum(file.bytes_of(StreamKind.EVENTS, thread) for thread in file.threads()) // EVENT.itemsize
        made += sum(before.events for before in file.before.values())
    return min(ID_DYNAMIC + SPARE_IDS + 2 * made, MOST_IDS)
