"""Follow the state of a rank's windows and files from call to call, which every later segment of the run needs.

For each window that exists this is the call that made it and its last fence, the locks that are held, and the memory
that is attached; for each open file the call that opened it, its view, its atomicity, and the last seek. One pass over
the calls finds it for every moment at which the run may be cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.mpi.meaning import Sync
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of, word_set
from weft.trace import Rank
from weft.trace.functions import FunctionTable
from weft.trace.layout import ID_DYNAMIC

_MADE, _GONE, _FENCED, _LOCKED, _LOCKED_ALL, _ATTACHED, _OPENED, _CLOSED, _VIEWED, _ATOMIC, _SOUGHT = range(1, 12)
"""What a call on a window, or from _OPENED on on a file, is about."""
_OF_FILES: Final = 1 << 40
"""Beside the id of a file: windows have the same ones."""
_NONE: Final = frozenset[str]()
_SORTS: Final = (
    (_MADE, calls.WINDOW_MAKERS, _NONE),
    (_GONE, _NONE, calls.functions_with_sync(Sync.FREE)),
    (_FENCED, calls.functions_with_sync(Sync.FENCE), _NONE),
    (_LOCKED, calls.functions_with_sync(Sync.LOCK), calls.functions_with_sync(Sync.UNLOCK)),
    (_LOCKED_ALL, calls.functions_with_sync(Sync.LOCK_ALL), calls.functions_with_sync(Sync.UNLOCK_ALL)),
    (_ATTACHED, word_set("Win_attach"), word_set("Win_detach")),
    (_OPENED, word_set("File_open"), _NONE),
    (_CLOSED, _NONE, word_set("File_close")),
    (_VIEWED, word_set("File_set_view"), _NONE),
    (_ATOMIC, word_set("File_set_atomicity"), _NONE),
    (_SOUGHT, word_set("File_seek"), _NONE),
)
"""With the functions that begin it, and those that end it: of both the last one decides."""


@dataclass(frozen=True)
class Carried:
    """The calls that make up the state of windows and files at each moment, in order.

    Those of moment k are rows `starts[n]` to `starts[n + 1]`, where n is `state[k]`: several moments may share them.
    `fences`: how many fences of a call's window came before the last one.
    """

    state: NDArray[np.int32]
    starts: Ints
    calls: Ints
    fences: Ints

    def state_at(self, moment: int) -> tuple[Ints, Ints]:
        """Return two columns: the calls that make up the state of windows and files at a moment, and how many fences of
        a call's window came before.
        """
        state = self.state[moment]
        part = slice(int(self.starts[state]), int(self.starts[state + 1]))
        return self.calls[part], self.fences[part]


Now = tuple[tuple[int, int], ...]
"""The calls that go on, each with its fences."""


@cache
def _state_tables(functions: FunctionTable) -> tuple[NDArray[np.uint8], NDArray[np.bool_], Ints]:
    """Return tables by function id: which state of a window or file a call changes (0: none), and whether it begins it.
    The third part are the ids of all functions that change some state.
    """
    table = masks_of(functions).table
    of, begin = np.zeros(65536, np.uint8), np.zeros(65536, np.bool_)
    for sort, begins, ends in _SORTS:
        of[table(begins | ends)] = sort
        begin |= table(begins)
    return of, begin, np.flatnonzero(of)


class StateFollower:
    """Follows the calls of a rank on windows and files, a part of them at a time."""

    def __init__(self, rank: Rank) -> None:
        self._sort, self._begins, self.ids = _state_tables(rank.trace.functions)
        self.any = False
        """Whether any of them was called."""
        self._open: dict[int, dict[tuple[int, int], int]] = {}
        """By window or file what goes on there, and since which call."""
        self._fences: dict[int, int] = {}
        self._now: Now | None = ()

    def follow_part(self, part: NDArray[Any], function: NDArray[np.uint16], start: int, moments: Ints) -> list[Now]:
        """Follow the rank's next calls, `part`, which begin at call `start`. Return the state of windows and files
        after each of the calls `moments`.
        """
        rows = np.flatnonzero(self._sort[function])
        of, sort = part["object"][rows].astype(np.int64), self._sort[function[rows]]
        peer = part["peer"][rows].astype(np.int64)
        known = (of >= ID_DYNAMIC) & ((sort != _LOCKED) | (peer >= 0))
        known &= (sort < _OPENED) | (part["error"][rows] == 0)
        rows, of, sort, peer = rows[known], of[known], sort[known], peer[known]
        of += np.where(sort >= _OPENED, _OF_FILES, 0)
        if not len(rows):
            return [self._current_state()] * len(moments)
        address = part["buffer"][rows].view(np.int64)
        about = np.where(sort == _LOCKED, peer, np.where(sort == _ATTACHED, address, 0))
        until = np.searchsorted(moments, rows + start)
        last, many = _last_rows_before(until, of, sort, about)
        found: list[Now] = []
        for row, fences in zip(last.tolist(), many.tolist(), strict=True):
            while len(found) < until[row]:
                found.append(self._current_state())
            call, what = int(rows[row]), (int(sort[row]), int(about[row]))
            begins = bool(self._begins[function[call]])
            self._apply_call(int(of[row]), what, call + start, fences if sort[row] == _FENCED else 0, begins=begins)
        return found + [self._current_state()] * (len(moments) - len(found))

    def _apply_call(self, object_key: int, kind: tuple[int, int], call: int, fences: int, *, begins: bool) -> None:
        """Change the state of a window or file as a call does. `kind`: what the call is about. `fences`: how many
        fences it stands for. `begins`: it begins something, such as a lock, else it ends it.
        """
        self._now = None
        if kind[0] in (_GONE, _CLOSED):
            self._open.pop(object_key, None)
            self._fences.pop(object_key, None)
            return
        mine = self._open.setdefault(object_key, {})
        if begins:
            mine[kind] = call
        else:
            mine.pop(kind, None)
        if fences:
            self._fences[object_key] = self._fences.get(object_key, 0) + fences

    def _current_state(self) -> Now:
        """Return the calls that brought windows and files into their present state, as sorted pairs (call, fences): how
        many fences the call's window had so far, without the last.
        """
        if self._now is None:
            self._now = tuple(sorted(
                (call, max(self._fences.get(of, 0) - 1, 0))
                for of, mine in self._open.items() for call in mine.values()
            ))  # fmt: skip
        return self._now


def _last_rows_before(moments: Ints, *key: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return the last row of each key up to each moment, in order of rows, and how many rows with the same key and
    moment it stands for.

    `moments`: by row the number of the next moment. `key`: columns by row.
    """
    by = np.lexsort((*key, moments))
    differs = np.zeros(max(len(by) - 1, 0), np.bool_)
    for column in (moments, *key):
        differs |= np.diff(column[by]) != 0
    ends = np.append(np.flatnonzero(differs), len(by) - 1)
    last, many = by[ends], np.diff(ends, prepend=-1)
    order = np.argsort(last)
    return last[order], many[order]


def _differs_from_previous(moments: Sequence[Now]) -> list[bool]:
    """Return for each moment whether its state differs from that of the moment before."""
    return [k == 0 or now is not moments[k - 1] for k, now in enumerate(moments)]


def count_stored_calls(moments: Sequence[Now]) -> int:
    """Return how many calls are stored for some moments."""
    return sum(len(now) for now, new in zip(moments, _differs_from_previous(moments), strict=True) if new)


def make_carried(moments: Sequence[Now]) -> Carried:
    """Put the states of windows and files at all moments into columns; moments with the same state share rows."""
    new = _differs_from_previous(moments)
    states = [now for now, first in zip(moments, new, strict=True) if first]
    starts = np.concatenate([[0], np.cumsum([len(now) for now in states])]).astype(np.int64)
    rows = np.array([row for now in states for row in now], np.int64).reshape(-1, 2)
    return Carried(np.cumsum(new, dtype=np.int32) - 1, starts, rows[:, 0].copy(), rows[:, 1].copy())
