"""Find local buffers inside the caller's own exposed window: MPI's access there meets those of other ranks (MPI-4.1,
12.7).
"""

from __future__ import annotations

import numpy as np

from weft.deadlock.collective_calls import CollectiveCalls
from weft.mpi.meaning import Sync
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of
from weft.terms.windows import SHARED
from weft.trace import Rank
from weft.trace.layout import Def
from weft.usage import pending_buffers
from weft.usage.epochs import FENCE, LOCK, LOCK_ALL, Epochs
from weft.usage.window_accesses import LOCAL, READ, WRITE, RmaAccesses

_DYNAMIC = 2


def accesses_to_own_windows(
    rank: Rank, epochs: Epochs, local: pending_buffers.BufferAccesses, gatherings: CollectiveCalls
) -> list[RmaAccesses]:
    """Return the accesses of local buffers to the rank's own windows, one table for each window, while the window
    exists.

    `local`: the local buffers of the rank's operations and messages.
    """
    found: list[RmaAccesses] = []
    for id in rank.definitions.ids(Def.WINDOW) if len(local) else ():
        definition, window = rank.definitions.window(id), gatherings.window(rank, id)
        if definition is None or window is None or definition.flavor == _DYNAMIC or not definition.base:
            continue
        low, high = np.uint64(definition.base), np.uint64(definition.base + definition.size)
        begin, end = _window_lifetime(rank, id)
        inside = (local.low >= low) & (local.high <= high) & (local.begin > begin) & (local.begin < end)
        rows = np.flatnonzero(inside)
        if len(rows) and window in epochs.windows:
            found.append(_make_window_accesses(rank, epochs, local, rows, (*window, definition.base)))
    return found


def _window_lifetime(rank: Rank, window: int) -> tuple[int, int]:
    """Return the event indices of the calls that made and freed a window; -1, or the number of events, if there is no
    such call. Before and after these the window's bytes are plain memory.
    """
    table, ids = masks_of(rank.trace.functions), rank.events["object"]
    made = table.where(rank, calls.WINDOW_MAKERS)
    freed = table.where(rank, calls.functions_with_sync(Sync.FREE))
    made, freed = made[ids[made] == window], freed[ids[freed] == window]
    return int(made[0]) if len(made) else -1, int(freed[0]) if len(freed) else len(rank)


def _make_window_accesses(
    rank: Rank, epochs: Epochs, local: pending_buffers.BufferAccesses, rows: Ints, window_place: tuple[int, int, int]
) -> RmaAccesses:
    """Return the local buffers in `rows` as accesses to a window.

    `window_place`: communicator, number on it and first address of the window.
    """
    comm, ordinal, base = window_place
    event, n = local.begin[rows], len(rows)
    number = epochs.windows.index((comm, ordinal))
    end = np.where(local.end[rows] < len(rank), local.end[rows], -1)

    low, high = ((column[rows] - np.uint64(base)).astype(np.int64) for column in (local.low, local.high))
    sort = np.where(local.writes[rows], WRITE, READ).astype(np.int64)

    def each(value: int) -> Ints:
        return np.full(n, value, np.int64)

    return RmaAccesses(
        each(rank.index), event, rank.events["site"][event].astype(np.int64), each(comm), each(ordinal),
        each(rank.index), low, high, sort,
        each(0), each(0), each(0), -(1 << 40) - np.arange(n, dtype=np.int64), _fence_epoch_numbers(epochs, number,
        event), event, end, each(-1), each(-1), _own_lock_types(rank, epochs, number, event), each(LOCAL),
        local.shape[rows], )  # fmt: skip


def _fence_epoch_numbers(epochs: Epochs, window: int, event: Ints) -> Ints:
    """Return for each event the number of the fence epoch on a window that it is in (how many fences came before), -1
    if in none. `window`: its index in `epochs.windows`.
    """
    fences = epochs.event[(epochs.call == FENCE) & (epochs.window == window)]
    count = np.searchsorted(fences, event)
    return np.where((count > 0) & (count < len(fences)), count + epochs.fenced[window], -1).astype(np.int64)


def _own_lock_types(rank: Rank, epochs: Epochs, window: int, event: Ints) -> Ints:
    """Return for each event the type of the lock that the rank then holds on its own part of a window, 0 for none.
    `window`: its index in `epochs.windows`.
    """
    comm = rank.trace.communicators[epochs.windows[window][0]]
    row_window = epochs.window[np.searchsorted(epochs.event, epochs.begin)]
    mine = (row_window == window) & ((epochs.sort == LOCK_ALL) | (epochs.sort == LOCK))
    peer = rank.events["peer"][epochs.begin]
    mine &= (epochs.sort == LOCK_ALL) | (peer == comm.rank_of(rank.index))
    found = np.zeros(len(event), np.int64)
    for epoch in np.flatnonzero(mine).tolist():
        end = int(epochs.end[epoch]) if epochs.end[epoch] >= 0 else len(rank)
        held = (event > epochs.begin[epoch]) & (event < end)
        found[held] = SHARED if epochs.sort[epoch] == LOCK_ALL else int(epochs.lock_type[epoch])
    return found
