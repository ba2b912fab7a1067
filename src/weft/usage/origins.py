"""Origin buffers of one-sided operations: until they are complete at the origin, MPI owns them (MPI-4.1, 12.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.findings import Finding
from weft.terms.calls import masks, words
from weft.terms.columns import Ints
from weft.trace import Rank
from weft.usage.epochs import Epochs
from weft.usage.overlaps import Accesses, overlaps, spans, told

_READING: Final = words("Put Accumulate")
_WRITING: Final = words("Get")
_FLUSHES: Final = (11, 12, 13, 14)
"""Numbers of the calls of an Epochs that complete operations at their origin."""


def shared_origins(rank: Rank, of: Epochs) -> Iterator[Finding]:
    """Operations of one epoch whose origin buffers share bytes, at least one of which is received into."""
    accesses = _accesses(rank, of)
    if accesses is None:
        return
    for one, two in overlaps(accesses, rank.events["site"][accesses.begin], len(rank)):
        yield told(rank, accesses, one, two, "{} of that epoch")


def _accesses(rank: Rank, of: Epochs) -> Accesses | None:
    table = masks(rank.trace.functions).table
    function = rank.events["function"][of.event]
    writing = table(_WRITING)[function]
    rows = np.flatnonzero((of.call == 0) & (of.epoch >= 0) & (writing | table(_READING)[function]))
    if not writing[rows].any():
        return None
    event = of.event[rows].astype(np.int64)
    low, high, good = spans(rank, event)
    rows, event, low, high = rows[good], event[good], low[good], high[good]
    return Accesses(event, _ends(of, rows, event), event, low, high, writing[rows])


def _ends(of: Epochs, rows: Ints, event: Ints) -> Ints:
    """The event behind the last operation that each one is surely pending with: nothing completes any between them."""
    flushes = np.isin(of.call, _FLUSHES)
    done = np.zeros(len(of.event), np.int64)
    for window in np.unique(of.window).tolist():
        mine = of.window == window
        done[mine] = np.cumsum(flushes[mine])
    _, key = np.unique(np.stack([of.epoch[rows].astype(np.int64), done[rows]]), axis=1, return_inverse=True)
    key = key.reshape(-1)
    last = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, key, event)
    ends: Ints = last[key] + 1
    return ends
