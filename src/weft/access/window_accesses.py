"""Collect the program's own accesses to window memory, by window and by the rank that owns the memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from weft.access.recorded_accesses import AccessTable, PlacedRows
from weft.base.lazy import dataclass
from weft.deadlock.collective_calls import CollectiveCalls
from weft.terms.argument_columns import Ints
from weft.terms.windows import SHARED
from weft.trace import Rank, Trace
from weft.trace.layout import TouchKind
from weft.usage.epochs import FENCE, LOCK, LOCK_ALL, Window, read_epochs

Key = tuple[int, int, int]
"""Index of the window's communicator, its ordinal there, index of the rank whose memory it is."""


@dataclass(frozen=True)
class WindowAccesses:
    """Accesses of one rank to one rank's memory of a window, with addresses relative to the start of that memory.

    For each access, `fence` is the number of fences of the window before it, and `lock` the type of the lock that the
    rank holds on that memory, 0 for none. `flagged`: some accesses are atomic or volatile.
    """

    rank: Rank
    touches: AccessTable
    fence: Ints
    lock: Ints
    separate: bool
    flagged: bool


def collect_window_accesses(trace: Trace, gatherings: CollectiveCalls) -> dict[Key, list[WindowAccesses]]:
    """Return the program's own accesses to window memory: for each window and rank that owns the memory, the accesses
    of each rank to it.
    """
    found: dict[Key, list[WindowAccesses]] = defaultdict(list)
    for rank in trace.ranks:
        if len(rank.accesses_to_pending_buffers) and len(rank):
            for key, one in _RankWindows(rank, gatherings).find():
                found[key].append(one)
    return found


class _RankWindows:
    """The accesses of one rank to the windows that it knows."""

    def __init__(self, rank: Rank, gatherings: CollectiveCalls) -> None:
        placed = PlacedRows(rank)
        self.rank, self.gatherings = rank, gatherings
        self.touches, self.memory = placed.read_accesses(), placed.read_window_memory()
        self.of = read_epochs(rank, gatherings) if len(self.memory.window) and len(self.touches) else None

    def find(self) -> Iterator[tuple[Key, WindowAccesses]]:
        """Yield (window and owner of its memory, the rank's accesses to this memory) for each window that the rank
        accessed by loads and stores.
        """
        for number in range(len(self.memory.window)) if len(self.touches) else ():
            window = self.gatherings.window(self.rank, int(self.memory.window[number]))
            owner = self._owner_rank(window, int(self.memory.target[number])) if window else -1
            rows = self._rows_inside(number)
            if window and owner >= 0 and len(rows):
                yield (*window, owner), self._make_accesses(number, window, rows)

    def _owner_rank(self, window: Window, target: int) -> int:
        """Return the rank index of a member of a window's group; -1 if it is unknown. `target`: its rank in the
        group.
        """
        members = self.rank.trace.communicators[window[0]].peers(self.rank.index)
        return int(members[target]) if 0 <= target < len(members) else -1

    def _rows_inside(self, number: int) -> Ints:
        t, m = self.touches, self.memory
        inside = (t.low >= m.low[number]) & (t.high <= m.high[number])
        return np.flatnonzero(inside & (t.before > m.begin[number]) & (t.before <= m.end[number]))

    def _make_accesses(self, memory_row: int, window: Window, access_rows: Ints) -> WindowAccesses:
        """Return a rank's accesses to one window's memory, with the lock that it held and the fences before each
        access. `memory_row`: the row of the memory; `access_rows`: the rows of the accesses.
        """
        memory, rank = self.memory, self.rank
        # A dynamic window has no start: displacements are addresses.
        mine = _rebase(self.touches.pick(access_rows), int(memory.low[memory_row]) if memory.unit[memory_row] else 0)
        lock = self._find_lock_types(window, int(memory.target[memory_row]), mine.before)
        flagged = bool((mine.kind & (TouchKind.ATOMIC | TouchKind.VOLATILE)).any())
        fence = self._count_fences_before(window, mine.before)
        return WindowAccesses(rank, mine, fence, lock, bool(memory.separate[memory_row]), flagged)

    def _count_fences_before(self, window: Window, before: Ints) -> Ints:
        """Return how many fences of a window came before each access; accesses with the same count are in the same
        epoch. `before`: the index of the event that follows each access.
        """
        of = self.of
        if of is None or window not in of.windows:
            return np.zeros(len(before), np.int64)
        fences = of.event[(of.call == FENCE) & (of.window == of.windows.index(window))]
        return np.searchsorted(fences, before).astype(np.int64)

    def _find_lock_types(self, window: Window, target: int, before: Ints) -> Ints:
        """Return the type of the lock (shared or exclusive) that the rank held on `target` at each access; 0 for none.
        `before`: the index of the event that follows each access.
        """
        found = np.zeros(len(before), np.int64)
        of = self.of
        if of is None or window not in of.windows:
            return found
        row = of.window[np.searchsorted(of.event, of.begin)]
        mine: NDArray[np.bool_] = (row == of.windows.index(window)) & ((of.sort == LOCK_ALL) | (of.sort == LOCK))
        mine &= (of.sort == LOCK_ALL) | (self.rank.events["peer"][of.begin] == target)
        for epoch in np.flatnonzero(mine).tolist():
            end = int(of.end[epoch]) if of.end[epoch] >= 0 else len(self.rank)
            held = (before > of.begin[epoch]) & (before <= end)
            found[held] = SHARED if of.sort[epoch] == LOCK_ALL else int(of.lock_type[epoch])
        return found


def _rebase(touches: AccessTable, base: int) -> AccessTable:
    columns = {f.name: getattr(touches, f.name) for f in fields(AccessTable)}
    return AccessTable(**(columns | {"low": touches.low - base, "high": touches.high - base}))
