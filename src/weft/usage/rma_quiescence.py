"""Decide whether all one-sided communication is complete at the end of a segment (weft.segments).

An epoch may stay open there only if it is a fence epoch or a lock in which nothing is pending: every operation is
complete at its target, every exposure has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.match import Match
from weft.order.edges import plain_fences
from weft.terms import calls
from weft.terms.calls import catalogue, masks
from weft.trace import Rank, Trace
from weft.usage.epoch_permissions import denies_what_follows
from weft.usage.epochs import FENCE, FREE, POST, START, Epochs
from weft.usage.exposure_epochs import Exposures, ends_of
from weft.usage.one_sided import LOOKED, look
from weft.usage.rma_completion import Completion
from weft.usage.window_accesses import LOCAL, Accesses
from weft.usage.window_stores import await_more

_ON_WINDOWS: Final = calls.ON_WINDOWS | calls.WINDOW_MAKERS


def settled(trace: Trace, match: Match) -> bool:
    """Return whether nothing is pending in any window. The analysis of the windows is kept with the match for
    `one_sided.find`.
    """
    table = masks(trace.functions).table(_ON_WINDOWS)
    if not any(catalogue(rank).count(table) for rank in trace.ranks):
        return True
    looked = look(trace)
    local = looked.accesses.pick(looked.accesses.origin == LOCAL)
    match.made[LOOKED] = looked
    return _met(looked.exposed) and all(
        _over(rank, of, looked.over[rank])
        and not any(_goes_on(rank, of, local, epoch) for epoch in _fenced(of))
        and not await_more(rank, looked.gatherings, looked.accesses)
        for rank, of in looked.known.items()
    )


def _met(exposed: Exposures) -> bool:
    """Return whether each access epoch of a start met an exposure."""
    pairs = exposed.posts.keys() | exposed.starts.keys()
    return all(len(exposed.posts.get(pair, ())) == len(exposed.starts.get(pair, ())) for pair in pairs)


def _over(rank: Rank, of: Epochs, over: Completion) -> bool:
    """Return whether a rank's operations are complete at their targets, its starts completed, and its posts waited
    for.
    """
    operations = of.call == 0
    if (over.remote[operations & (of.epoch >= 0)] < 0).any() or (of.window[operations] < 0).any():
        return False
    return not ((of.sort == START) & (of.end < 0)).any() and bool(
        (ends_of(rank, of, np.flatnonzero(of.call == POST)) >= 0).all()
    )


def _fenced(of: Epochs) -> Iterator[int]:
    """Yield the fence epochs that are open at the end."""
    freed = of.window[of.call == FREE]
    for epoch in np.flatnonzero((of.sort == FENCE) & (of.end < 0)).tolist():
        if _window(of, epoch) not in freed:
            yield epoch


def _window(of: Epochs, epoch: int) -> int:
    return int(of.window[np.searchsorted(of.event, of.begin[epoch])])


def _goes_on(rank: Rank, of: Epochs, local: Accesses, epoch: int) -> bool:
    """Return whether an open fence epoch can only be judged together with later calls.

    So it is if epochs of locks or starts follow the fence, which a second fence joins with the fence epoch, or if the
    rank itself accesses the window's memory, which operations of others in the same epoch may meet.
    """
    window, begin = _window(of, epoch), int(of.begin[epoch])
    comm, ordinal = of.windows[window]
    mine = (local.rank == rank.index) & (local.comm == comm) & (local.ordinal == ordinal) & (local.event > begin)
    if mine.any() and not denies_what_follows(rank, begin):
        return True
    later = (of.call == 0) & (of.epoch > epoch) & (of.window == window)
    return bool(later.any()) and bool(plain_fences(rank, of.begin[epoch : epoch + 1])[0])
