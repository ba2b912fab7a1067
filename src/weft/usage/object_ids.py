"""Bound tables by object ids, so that a damaged record cannot make them huge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from weft.terms.argument_columns import Ints
from weft.trace import Rank
from weft.trace.layout import EVENT, ID_DYNAMIC, StreamKind

MOST_IDS: Final = 1 << 28
"""An id beyond is damage: no rank makes 268 million objects of a class."""
MOST_TYPES: Final = 1 << 22
"""The same of datatypes, which programs make few of: a ring may say that it dropped any number of calls."""
SPARE_IDS: Final = 1 << 16
"""Ids that are believed beyond those that calls account for."""


def end_of_believable_ids(rank: Rank, more_objects: int = 0) -> int:
    """Return the end of the ids that a rank's objects can have, as a bound for the size of a table by id.

    Ids are consecutive, so an id that exceeds the number of calls that can make objects comes from a damaged record.
    `more_objects`: how many objects were made by other means than recorded calls.
    """
    return min(
        ID_DYNAMIC + SPARE_IDS + 2 * (_count_recorded_calls(rank) + more_objects + _count_dropped_calls(rank)), MOST_IDS
    )


def believable_ids(rank: Rank, ids_made: Callable[[], Ints]) -> range:
    """Return the range of ids that a rank's objects can have, no wider than the number of recorded calls allows.

    `ids_made`: returns the ids that the rank's calls made. If a ring dropped the beginning of the record (`--keep`),
    ids may begin anywhere: the range is around the middle of the ids that its calls made. Objects that were made before
    and are still used may be outside of the range.
    """
    end = end_of_believable_ids(rank)
    room = ID_DYNAMIC + SPARE_IDS + 2 * _count_recorded_calls(rank)
    if end <= room:
        return range(end)
    ids = ids_made()
    middle = int(np.partition(ids, len(ids) // 2)[len(ids) // 2]) if len(ids) else 0
    return range(max(0, min(middle, end) - room // 2), min(max(middle, 0) + room // 2, end))


def _count_recorded_calls(rank: Rank) -> int:
    """Return how many calls the rank's record holds; in a part of a run, also those of the parts before it."""
    held = len(rank)
    if (file := rank.trace.origin.ranks[rank.index].file) is not None:
        held += sum(file.stream_size(StreamKind.EVENTS, thread) for thread in file.threads()) // EVENT.itemsize
    return held


def _count_dropped_calls(rank: Rank) -> int:
    """Return how many calls the rank's rings have dropped."""
    file = rank.trace.origin.ranks[rank.index].file
    return 0 if file is None else sum(one.events for one in file.dropped.values())
