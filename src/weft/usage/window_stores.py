"""Find stores of a rank into its own window that meet operations of others in one fence epoch (MPI-4.1, 12.7).

The recorder says which bytes of the window changed (StoredDefinition). A byte that no operation writes was changed by a
store of the window's owner. A byte that a single operation writes, and that had two new values, was too: an operation
gives each byte its value once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.collective_calls import CollectiveCalls
from weft.mpi.meaning import Sync
from weft.terms import calls
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.buffer_blocks import empty_shapes
from weft.terms.calls import masks_of
from weft.trace import Rank, Trace
from weft.trace.definitions import StoredDefinition
from weft.usage.epochs import Window
from weft.usage.window_accesses import READ, STORED, WRITE, RmaAccesses

_FENCE: Final = calls.functions_with_sync(Sync.FENCE)
_MOST: Final = 1 << 16
"""Bytes from the start of a window that are looked at here; the recorder keeps fewer."""


def find_window_stores(
    trace: Trace, gatherings: CollectiveCalls, accesses: RmaAccesses, unplaced: set[Window]
) -> RmaAccesses | None:
    """Return the program's own stores to its windows as accesses; None if there are none. Only windows are taken whose
    operations are all in fence epochs.

    `unplaced`: windows with operations whose bytes are not known; they are left out too.
    """
    rows: list[tuple[int, ...]] = []
    for rank in trace.ranks:
        for id, of in _changed_ranges_by_window(rank):
            window = gatherings.window(rank, id)
            if window is None or window in unplaced:
                continue
            on = _accesses_of_target(accesses, window, rank.index)
            if len(on) and (on.fence >= 0).all():
                rows += _store_rows_of_window(rank, window, of, on)
    if not rows:
        return None
    columns: list[Any] = [*np.ascontiguousarray(np.array(rows, np.int64).T), empty_shapes(len(rows))]
    return RmaAccesses(*columns)


def needs_later_writes(rank: Rank, gatherings: CollectiveCalls, accesses: RmaAccesses) -> bool:
    """Return whether later calls are needed to tell which bytes a rank itself stored before its last fence. That is so
    if operations of other ranks access these bytes in the epoch of that fence.
    """
    for id, of in _changed_ranges_by_window(rank):
        window = gatherings.window(rank, id)
        last = of.before + len(of.fences) - 1
        late = [stored for stored in of.stored if stored.fences == last]
        if not late or window is None:
            continue
        on = _accesses_of_target(accesses, window, rank.index)
        on = on.pick(on.fence == last)
        for low, high in chain.from_iterable(_surely_stored_ranges(stored, on) for stored in late):
            if ((on.low < high) & (on.high > low)).any():
                return True
    return False


class _ChangedRanges(NamedTuple):
    """What changed in a window between its fences; `before`: how many fences came before the first of them."""

    stored: Sequence[StoredDefinition]
    fences: Ints
    before: int


def _changed_ranges_by_window(rank: Rank) -> Iterator[tuple[int, _ChangedRanges]]:
    """Yield (window id, the ranges of bytes that changed between its fences) for each window in which the rank's own
    stores may have changed something.
    """
    if rank.file is None or len(rank.accesses_to_pending_buffers) or not rank.definitions.stored:
        return  # what is touched is each of its stores, by line (weft.access)
    which = masks_of(rank.trace.functions).where(rank, _FENCE)
    of, before = rank.events["object"][which], rank.fenced
    for id in sorted_distinct(of).tolist():
        fences, low = which[of == id], before.get(id, 0)
        several = rank.definitions.changes_between_fences_by_window.get(id, [])
        first, last = (bisect_left(several, n, key=lambda one: one.fences) for n in (low + 1, low + len(fences)))
        if first < last:
            yield id, _ChangedRanges(several[first:last], fences, low)


def _accesses_of_target(accesses: RmaAccesses, window: Window, target: int) -> RmaAccesses:
    """Return the accesses of a rank's part of a window."""
    mine = (accesses.comm == window[0]) & (accesses.ordinal == window[1]) & (accesses.target == target)
    return accesses.pick(np.flatnonzero(mine))


def _store_rows_of_window(
    rank: Rank, window: Window, changed: _ChangedRanges, operations: RmaAccesses
) -> Iterator[tuple[int, ...]]:
    """Yield the rank's own stores to one window as rows of RmaAccesses. `operations`: the accesses of operations to the
    window.
    """
    for number, stored in enumerate(changed.stored):
        nth = stored.fences - changed.before
        begin, end = int(changed.fences[nth - 1]), int(changed.fences[nth])
        for low, high in _surely_stored_ranges(stored, operations):
            yield (
                rank.index, end, int(rank.events["site"][end]), *window, rank.index, low, high, WRITE, 0, 0, 0,
                -1 - number, stored.fences, begin, end, -1, -1, 0, STORED,
            )  # fmt: skip


def _surely_stored_ranges(stored: StoredDefinition, operations: RmaAccesses) -> Iterator[tuple[int, int]]:
    """Yield first byte and end of the ranges that the window's owner must have stored, as no operation explains their
    change. `operations`: the accesses of operations to the window.
    """
    size = min(max((at + n for at, n, _ in stored.ranges), default=0), _MOST)
    changed, again = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    for at, n, twice in stored.ranges:
        changed[at : at + n] = True
        again[at : at + n] = twice
    now = _count_writers(operations, stored.fences, size)
    later = _count_writers(operations, stored.fences + 1, size)
    sure = changed & (later == 0) & ((now == 0) | (again & (now == 1)))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], sure.view(np.int8), [0]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _count_writers(operations: RmaAccesses, fence: int, size: int) -> NDArray[np.int32]:
    """Return for each of the first `size` bytes of a window how many operations of the fence epoch `fence` write it."""
    rows = np.flatnonzero((operations.fence == fence) & (operations.sort != READ) & (operations.low < size))
    steps = np.zeros(size + 1, np.int32)
    low: Ints = np.clip(operations.low[rows], 0, size)
    np.add.at(steps, low, 1)
    np.add.at(steps, np.clip(operations.high[rows], 0, size), -1)
    result: NDArray[np.int32] = np.cumsum(steps[:-1], dtype=np.int32)
    return result
