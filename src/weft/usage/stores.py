"""Stores of a rank into its own window that meet operations of others in one fence epoch (MPI-4.1, 12.7).

The recorder says which bytes of the window changed (StoredDefinition). A byte that no operation writes to has been
changed by a store of the window's owner. One that a single operation writes to, and that had two new values, has been
too: an operation gives each byte its value once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.gatherings import Gatherings
from weft.mpi.meaning import Sync
from weft.terms import calls
from weft.terms.calls import masks
from weft.terms.columns import Ints
from weft.trace import Rank, Trace
from weft.trace.definitions import StoredDefinition
from weft.usage.epochs import Window
from weft.usage.rmaraces import READ, STORED, WRITE, Accesses

_FENCE: Final = calls.syncs(Sync.FENCE)
_MOST: Final = 1 << 16
"""Bytes from the start of a window that are looked at here; the recorder keeps fewer."""


def stores(trace: Trace, gatherings: Gatherings, accesses: Accesses, unplaced: set[Window]) -> Accesses | None:
    """The stores as accesses, where all operations on the window are in fence epochs and their bytes are known."""
    rows: list[tuple[int, ...]] = []
    for rank in trace.ranks:
        by_window: dict[int, list[StoredDefinition]] = {}
        seen = len(rank.touches) > 0  # each of its stores, by line (weft.access)
        for stored in rank.definitions.stored if rank.file is not None and not seen else ():
            by_window.setdefault(stored.window, []).append(stored)
        for id, several in by_window.items():
            window = gatherings.window(rank, id)
            if window is None or window in unplaced:
                continue
            mine = (accesses.comm == window[0]) & (accesses.ordinal == window[1]) & (accesses.target == rank.index)
            on = accesses.pick(np.flatnonzero(mine))
            if len(on) and (on.fence >= 0).all():
                rows += _of_window(rank, id, window, several, on)
    if not rows:
        return None
    columns = np.array(rows, np.int64).T
    return Accesses(*np.ascontiguousarray(columns))


def _of_window(
    rank: Rank, id_: int, window: Window, several: Sequence[StoredDefinition], on: Accesses
) -> Iterator[tuple[int, ...]]:
    events = rank.events
    fence = masks(rank.trace.functions).table(_FENCE)[events["function"]]
    fences = np.flatnonzero(fence & (events["object"] == id_))
    for number, stored in enumerate(several):
        if not 0 < stored.fences < len(fences):
            continue
        begin, end = int(fences[stored.fences - 1]), int(fences[stored.fences])
        for low, high in _ranges(stored, on):
            yield (
                rank.index, end, int(events["site"][end]), *window, rank.index, low, high, WRITE, 0, 0, 0, -1 - number,
                stored.fences, begin, end, -1, -1, 0, STORED,
            )  # fmt: skip


def _ranges(stored: StoredDefinition, on: Accesses) -> Iterator[tuple[int, int]]:
    """First byte and end of what was surely stored by the owner."""
    size = min(max((at + n for at, n, _ in stored.ranges), default=0), _MOST)
    changed, again = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    for at, n, twice in stored.ranges:
        changed[at : at + n] = True
        again[at : at + n] = twice
    now = _writers(on, stored.fences, size)
    later = _writers(on, stored.fences + 1, size)
    sure = changed & (later == 0) & ((now == 0) | (again & (now == 1)))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], sure.view(np.int8), [0]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _writers(on: Accesses, fence: int, size: int) -> NDArray[np.int32]:
    """How many operations of an epoch write to each byte."""
    rows = np.flatnonzero((on.fence == fence) & (on.sort != READ) & (on.low < size))
    steps = np.zeros(size + 1, np.int32)
    low: Ints = np.clip(on.low[rows], 0, size)
    np.add.at(steps, low, 1)
    np.add.at(steps, np.clip(on.high[rows], 0, size), -1)
    result: NDArray[np.int32] = np.cumsum(steps[:-1], dtype=np.int32)
    return result
