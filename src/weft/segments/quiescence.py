"""Decide from a segment's match whether nothing is pending at its end.

Its beginning is the end of the segment before, and is taken to be quiet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match, Post, Posts
from weft.mpi.meaning import base_name
from weft.native.headers.order import CollKind as Kind
from weft.order.edges import SOURCE, TARGET, collective_edges
from weft.trace.segment import Segment
from weft.usage import file_races, rma_quiescence


def is_quiet(segment: Segment, match: Match) -> bool:
    """Return whether nothing is pending at the end of a segment. All messages are received, all requests complete, and
    all collectives have all their members.

    One-sided operations must be complete at their targets, their epochs closed, and what was written to files visible
    to all that read them. The last call of all ranks is one collective that no rank left before all had come.
    """
    return (
        _all_taken(match.sends) and _all_taken(match.recvs) and _all_collectives_complete(segment, match)
        and rma_quiescence.is_rma_quiescent(segment, match) and file_races.are_files_quiescent(segment, match)
    )  # fmt: skip


def _all_taken(posts: Posts) -> bool:
    cancelled = posts.flags & Post.CANCELLED != 0
    return bool(((posts.partner != NONE) | cancelled).all() and (posts.completion != NONE).all())


def _all_collectives_complete(segment: Segment, match: Match) -> bool:
    """Return whether all collectives are complete and have all their members, and the last call of all ranks is one of
    them.
    """
    parts, of = match.collectives, match.instances
    if not len(of) or (parts.completion == NONE).any():
        return False
    return bool(collectives_with_all_members(segment, match).all()) and _end_in_one_collective(segment, match)


def collectives_with_all_members(segment: Segment, match: Match) -> NDArray[np.bool_]:
    """Return a mask of the collectives in which all members take part and call the same function."""
    parts, of = match.collectives, match.instances
    members = np.array([len({*c.members, *c.remote_members} - {-1}) for c in segment.communicators], np.int64)
    sizes, starts = np.diff(of.first).astype(np.int64), of.first[:-1].astype(np.int64)
    of_function = {int(f): base_name(segment.functions[int(f)].name) for f in np.unique(parts.function)}
    numbers = {name: k for k, name in enumerate(sorted(set(of_function.values())))}
    table = np.zeros(65536, np.int64)
    for function, name in of_function.items():
        table[function] = numbers[name]
    sorts = table[parts.function[of.rows]]
    unlike = np.add.reduceat(sorts != np.repeat(sorts[starts], sizes), starts) if len(of) else np.zeros(0, np.int64)
    found: NDArray[np.bool_] = (sizes == members[of.comm]) & (unlike == 0)
    return found


def _end_in_one_collective(segment: Segment, match: Match) -> bool:
    """Return whether the last call of all ranks is one collective that no rank leaves before all have come."""
    parts = match.collectives
    if (np.diff(parts.first) == 0).any():
        return False
    last = parts.first[1:].astype(np.int64) - 1
    ends = np.array([len(rank) - 1 for rank in segment.ranks])
    one = parts.instance[last]
    if (parts.event[last] != ends).any() or (one != one[0]).any():
        return False
    edges = collective_edges(segment, match)
    return edges.kind[one[0]] == Kind.GENERAL and bool((edges.role[last] == SOURCE | TARGET).all())
