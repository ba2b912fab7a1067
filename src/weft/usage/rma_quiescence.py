"""Decide whether all one-sided communication is complete at the end of a segment (weft.segments).

An epoch may stay open there only if it is a fence epoch or a lock in which nothing is pending: every operation is
complete at its target, every exposure has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.match import Match
from weft.order.edges import select_plain_fences
from weft.terms import calls
from weft.terms.calls import catalogue_of, masks_of
from weft.trace import Rank, Trace
from weft.usage.epoch_permissions import denies_following_operations
from weft.usage.epochs import FENCE, FREE, POST, START, Epochs
from weft.usage.exposure_epochs import Exposures, find_exposure_ends
from weft.usage.one_sided import LOOKED, analyse_windows
from weft.usage.rma_completion import RmaCompletion
from weft.usage.window_accesses import LOCAL, RmaAccesses
from weft.usage.window_stores import needs_later_writes

_ON_WINDOWS: Final = calls.ON_WINDOWS | calls.WINDOW_MAKERS


def is_rma_quiescent(trace: Trace, match: Match) -> bool:
    """Return whether no one-sided operation or epoch is pending in any window at the end of this part of the run. Also
    keeps the analysis of the windows with the match, for `one_sided.find`.
    """
    table = masks_of(trace.functions).table(_ON_WINDOWS)
    if not any(catalogue_of(rank).count(table) for rank in trace.ranks):
        return True
    looked = analyse_windows(trace)
    local = looked.accesses.pick(looked.accesses.origin == LOCAL)
    match.made[LOOKED] = looked
    return _are_starts_matched(looked.exposed) and all(
        _is_rank_complete(rank, of, looked.over[rank])
        and not any(_needs_later_calls(rank, of, local, epoch) for epoch in _open_fence_epochs(of))
        and not needs_later_writes(rank, looked.gatherings, looked.accesses)
        for rank, of in looked.known.items()
    )


def _are_starts_matched(exposed: Exposures) -> bool:
    """Return whether each access epoch of a start met an exposure."""
    pairs = exposed.posts.keys() | exposed.starts.keys()
    return all(len(exposed.posts.get(pair, ())) == len(exposed.starts.get(pair, ())) for pair in pairs)


def _is_rank_complete(rank: Rank, epochs: Epochs, over: RmaCompletion) -> bool:
    """Return whether all operations of a rank are complete at their targets, each MPI_Win_start has its
    MPI_Win_complete, and each MPI_Win_post its wait.
    """
    operations = epochs.call == 0
    if (over.remote[operations & (epochs.epoch >= 0)] < 0).any() or (epochs.window[operations] < 0).any():
        return False
    return not ((epochs.sort == START) & (epochs.end < 0)).any() and bool(
        (find_exposure_ends(rank, epochs, np.flatnonzero(epochs.call == POST)) >= 0).all()
    )


def _open_fence_epochs(epochs: Epochs) -> Iterator[int]:
    """Yield the fence epochs that are open at the end and whose window is not freed."""
    freed = epochs.window[epochs.call == FREE]
    for epoch in np.flatnonzero((epochs.sort == FENCE) & (epochs.end < 0)).tolist():
        if _window_of_epoch(epochs, epoch) not in freed:
            yield epoch


def _window_of_epoch(of: Epochs, epoch: int) -> int:
    return int(of.window[np.searchsorted(of.event, of.begin[epoch])])


def _needs_later_calls(rank: Rank, epochs: Epochs, local: RmaAccesses, epoch: int) -> bool:
    """Return whether an open fence epoch can only be judged together with later calls, for one of two reasons.

    The rank itself accesses the window's memory in the epoch, and operations of other ranks in the same epoch may
    overlap this access. Or epochs of locks or starts follow the fence: a second fence would make them part of the fence
    epoch.
    """
    window, begin = _window_of_epoch(epochs, epoch), int(epochs.begin[epoch])
    comm, ordinal = epochs.windows[window]
    mine = (local.rank == rank.index) & (local.comm == comm) & (local.ordinal == ordinal) & (local.event > begin)
    if mine.any() and not denies_following_operations(rank, begin):
        return True
    later = (epochs.call == 0) & (epochs.epoch > epoch) & (epochs.window == window)
    return bool(later.any()) and bool(select_plain_fences(rank, epochs.begin[epoch : epoch + 1])[0])
