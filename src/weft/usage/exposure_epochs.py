"""Match exposure epochs with access epochs: which MPI_Win_post belongs to which MPI_Win_start, and which wait ends it.

The k-th start of an origin whose group holds a target meets the k-th post of that target whose group holds the origin
(MPI-4.1, 12.5.2): the origin's operations there happen between that post and the wait that ends it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.terms.argument_columns import Ints, decode_columns, integer_column, sorted_distinct
from weft.terms.windows import group_members
from weft.trace import Flag, Rank
from weft.usage.epochs import POST, START, TEST, WAIT, Epochs, Window

Pair = tuple[Window, int, int]
"""A window, its target and an origin, as indices in trace.ranks."""


@dataclass
class Exposures:
    """The posts, the waits that end them (-1: none) and the matching starts, by window, target and origin."""

    posts: dict[Pair, Ints] = field(default_factory=dict)
    waits: dict[Pair, Ints] = field(default_factory=dict)
    starts: dict[Pair, Ints] = field(default_factory=dict)

    def find_exposures_of(self, rank: Rank, epochs: Epochs, rows: Ints, target: Ints) -> tuple[Ints, Ints]:
        """Return for each operation of a rank the exposure epoch of the target in which it happens. The two columns are
        event indices of the target: the MPI_Win_post, and the wait that ends the exposure; -1 if unknown.

        `rows`: the operations, as rows of `epochs`. `target`: the target rank of each.
        """
        opened, closed = (np.full(len(rows), -1, np.int64) for _ in range(2))
        epoch = epochs.epoch[rows]
        started = np.flatnonzero((epochs.sort[epoch] == START) & (target >= 0))
        keys = epochs.window[rows[started]].astype(np.int64) << 32 | target[started]
        for key in sorted_distinct(keys).tolist():
            mine = started[keys == key]
            pair = (epochs.windows[key >> 32], key & 0xFFFFFFFF, rank.index)
            begins, posts = self.starts.get(pair), self.posts.get(pair)
            if begins is None or posts is None:
                continue
            nth = np.searchsorted(begins, epochs.begin[epoch[mine]])
            known = nth < len(posts)
            opened[mine[known]] = posts[nth[known]]
            closed[mine[known]] = self.waits[pair][nth[known]]
        return opened, closed


def match_exposures(epochs_by_rank: Mapping[Rank, Epochs]) -> Exposures:
    """Return the exposure epochs (from MPI_Win_post) and the access epochs (from MPI_Win_start) of a run, side by side
    for each window and each pair of target and origin. `epochs_by_rank`: the epochs of each rank.
    """
    found = Exposures()
    for rank, of in epochs_by_rank.items():
        posts = of.call == POST
        if posts.any():
            rows, members = _rows_and_groups(rank, of, posts)
            ended = find_exposure_ends(rank, of, rows)
            for pair, mine in _rows_by_window_and_partner(rank, of, rows, members, as_target=True):
                found.posts[pair], found.waits[pair] = of.event[rows[mine]], ended[mine]
        starts = of.call == START
        if starts.any():
            rows, members = _rows_and_groups(rank, of, starts)
            for pair, mine in _rows_by_window_and_partner(rank, of, rows, members, as_target=False):
                found.starts[pair] = of.event[rows[mine]]
    return found


def _rows_and_groups(rank: Rank, epochs: Epochs, which: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return two columns: the rows of the calls in the mask `which` that name a known window, and the id of the group
    that each of the calls names.
    """
    rows = np.flatnonzero(which & (epochs.window >= 0))
    group = np.zeros(len(rows), np.int64)
    for events, found in decode_columns(rank, epochs.event[rows], frozenset(("group",))):
        group[np.searchsorted(epochs.event[rows], events)] = integer_column(found, "group")
    return rows, group


def _rows_by_window_and_partner(
    rank: Rank, epochs: Epochs, rows: Ints, group: Ints, *, as_target: bool
) -> list[tuple[Pair, Ints]]:
    """Return ((window, target, origin), rows of the posts or starts between the two) for each pair of target and
    origin.

    `group`: for each row the id of its group. `as_target`: the rank itself is the target (posts), else the origin
    (starts).
    """
    parts: dict[Pair, list[Any]] = defaultdict(list)
    keys = epochs.window[rows].astype(np.int64) << 32 | group
    for key in sorted_distinct(keys).tolist():
        mine = np.flatnonzero(keys == key)
        for member in group_members(rank, key & 0xFFFFFFFF):
            pair = (rank.index, member) if as_target else (member, rank.index)
            parts[(epochs.windows[key >> 32], *pair)].append(mine)
    return [(pair, np.sort(np.concatenate(several))) for pair, several in parts.items()]


def find_exposure_ends(rank: Rank, epochs: Epochs, rows: Ints) -> Ints:
    """Return for each MPI_Win_post the event index of the call that ended the exposure, -1 if none did. `rows`: the
    posts.
    """
    done = (rank.events["flags"][epochs.event] & Flag.CLOSED) != 0
    done &= (epochs.call == WAIT) | ((epochs.call == TEST) & ((rank.events["flags"][epochs.event] & Flag.TRUE) != 0))
    ended = np.full(len(rows), -1, np.int64)
    for window in sorted_distinct(epochs.window[rows]).tolist():
        ends = np.flatnonzero(done & (epochs.window == window))
        mine = np.flatnonzero(epochs.window[rows] == window)
        at = np.searchsorted(ends, rows[mine])
        hit = at < len(ends)
        ended[mine[hit]] = epochs.event[ends[at[hit]]]
    return ended
