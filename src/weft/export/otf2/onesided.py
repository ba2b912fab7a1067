"""One-sided communication as OTF2 has it: windows, transfers, their completion, fences and locks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import _otf2
import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints, coded, per_function
from weft.export.otf2.definitions import NOTHING, Definitions
from weft.export.otf2.rows import BEGUN, DONE, DURING, Kind, Rows
from weft.export.otf2.traffic import Sorted
from weft.terms import calls
from weft.terms.calls import catalogue, masks, words
from weft.terms.columns import columns
from weft.terms.extent import Extent
from weft.trace import Function, FunctionTable, Rank

_ATOMIC: Final = {
    "Accumulate": _otf2.RMA_ATOMIC_TYPE_ACCUMULATE,
    "Raccumulate": _otf2.RMA_ATOMIC_TYPE_ACCUMULATE,
    "Get_accumulate": _otf2.RMA_ATOMIC_TYPE_FETCH_AND_ACCUMULATE,
    "Rget_accumulate": _otf2.RMA_ATOMIC_TYPE_FETCH_AND_ACCUMULATE,
    "Fetch_and_op": _otf2.RMA_ATOMIC_TYPE_FETCH_AND_ACCUMULATE,
    "Compare_and_swap": _otf2.RMA_ATOMIC_TYPE_COMPARE_AND_SWAP,
}
_TRANSFERS: Final = calls.RMA | calls.REQUEST_RMA
_TO_ONE: Final = words("Win_unlock Win_flush")
_TO_ALL: Final = words("Win_fence Win_unlock_all Win_flush_all Win_complete Win_free")
"""Calls after which transfers are complete at their targets."""

_FETCHING: Final = _TRANSFERS - words("Put Rput Accumulate Raccumulate")
_PROCESS_AND_MEMORY: Final = 3
_SHARED: Final = 2  # as the recorder numbers MPI_LOCK_SHARED


def _kind(function: Function) -> int:
    base = calls.base(function.name)
    if base in _ATOMIC:
        return Kind.RMA_ATOMIC
    return Kind.RMA_GET if base in ("Get", "Rget") else Kind.RMA_PUT


@cache
def _kinds(functions: FunctionTable) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """By function id which record a transfer is, and of which type an atomic one."""
    atomic = {f.id: _ATOMIC[calls.base(f.name)].value for f in functions if calls.base(f.name) in _ATOMIC}
    return per_function(functions, _kind, np.uint8), per_function(functions, lambda f: atomic.get(f.id, 0), np.uint8)


class Calls:
    """The one-sided calls of a rank."""

    def __init__(self, rank: Rank, definitions: Definitions) -> None:
        self._rank, self._definitions = rank, definitions
        functions = rank.trace.functions
        self._masks = masks(functions)
        self._any = catalogue(rank).count(self._masks.table(_TRANSFERS | _WINDOWS)) > 0
        if not self._any:
            return
        self._kind, self._atomic = _kinds(functions)
        self._done = self._completions()

    def _windows(self, block: Block, place: Ints) -> Ints:
        """The rank's own ids of the windows that these calls are about."""
        found = block.events["object"][place].astype(np.int64)
        requests = np.flatnonzero(self._masks.table(calls.REQUEST_RMA)[block.function[place]])
        which = block.index[place[requests]]
        for events, values in columns(self._rank, which, frozenset(("win",))):
            window = values.get("win")
            if isinstance(window, np.ndarray):
                found[requests[np.searchsorted(which, events)]] = window
        return found

    def _numbers(self, windows: Ints) -> Ints:
        ids, codes = coded(windows)
        return np.array([self._definitions.window(self._rank, i) for i in ids], np.int64)[codes]

    def _where(self, block: Block, names: frozenset[str]) -> tuple[Ints, Ints]:
        """The calls of these functions that have a window: their places, and the numbers of the windows."""
        place = np.flatnonzero(self._masks.table(names)[block.function])
        window = self._numbers(self._windows(block, place))
        return place[window != NOTHING], window[window != NOTHING]

    def _completions(self) -> Sorted:
        """At which later call each transfer is complete at its target."""
        table = self._masks.table
        every = np.concatenate([catalogue(self._rank).where(table(n)) for n in (_TRANSFERS, _TO_ONE, _TO_ALL)])
        every.sort()
        block = Block(self._rank, every, Extent(0, 0))
        window = self._windows(block, np.arange(len(every)))
        transfer = table(_TRANSFERS)[block.function]
        to_one, target = table(_TO_ONE)[block.function], block.peer
        done, row = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for one in np.unique(window[transfer]).tolist():
            here = window == one
            for peer in np.unique(target[here & transfer]).tolist():
                mine = every[here & transfer & (target == peer)]
                ends = every[here & ~transfer & ~(to_one & (target != peer))]
                at = np.searchsorted(ends, mine)
                done.append(ends[at[at < len(ends)]])
                row.append(mine[at < len(ends)])
        event, rows = np.concatenate(done), np.concatenate(row)
        order = np.argsort(event, kind="stable")
        return Sorted(event[order], rows[order])

    def rows(self, block: Block) -> list[Rows]:
        """The records of one-sided calls in a block."""
        if not self._any:
            return []
        return [*self._made(block), self._transfers(block), *self._completed(block), *self._locks(block)]

    def _made(self, block: Block) -> Iterator[Rows]:
        """Windows that are made and freed, and fences, all of them collective."""
        for names, kind in ((calls.WINDOW_MAKERS, Kind.RMA_WIN_CREATE), (words("Win_free"), Kind.RMA_WIN_DESTROY)):
            place, window = self._where(block, names)
            returned = ~block.open[place]
            yield Rows(place[returned], DONE, kind, x=window[returned])
        place, window = self._where(block, words("Win_fence"))
        place, window = place[~block.open[place]], window[~block.open[place]]
        yield Rows(place, BEGUN, Kind.RMA_COLLECTIVE_BEGIN)
        barrier = int(_otf2.COLLECTIVE_OP_BARRIER.value)
        yield Rows(
            place, DONE, Kind.RMA_COLLECTIVE_END, small=barrier, z=_PROCESS_AND_MEMORY, x=window, y=NOTHING
        )  # fmt: skip

    def _transfers(self, block: Block) -> Rows:
        place, window = self._where(block, _TRANSFERS)
        function, size = block.function[place], np.maximum(block.bytes[place], 0)
        # Fetch_and_op and Compare_and_swap are of one element.
        single = self._masks.table(words("Fetch_and_op Compare_and_swap"))[function]
        size = np.where(single, np.maximum(block.type_size[place], 0), size)
        fetched = np.where(self._masks.table(_FETCHING)[function], size, 0)
        return Rows(
            place, BEGUN, self._kind[function], small=self._atomic[function], x=window,
            y=block.peer[place].astype(np.int64) & NOTHING, a=size, b=fetched, id=block.index[place],
        )  # fmt: skip

    def _completed(self, block: Block) -> Iterator[Rows]:
        place, transfer = self._done.of(block)
        if len(place):
            made = Block(self._rank, transfer, block.run)
            window = self._numbers(self._windows(made, np.arange(len(made))))
            known = window != NOTHING
            yield Rows(place[known], DURING, Kind.RMA_COMPLETE, x=window[known], id=transfer[known])

    def _locks(self, block: Block) -> Iterator[Rows]:
        place, window = self._where(block, words("Win_lock"))
        shared = self._lock_types(block, place) == _SHARED
        kinds = _otf2.LOCK_SHARED.value, _otf2.LOCK_EXCLUSIVE.value
        given = {
            "x": window, "y": block.peer[place].astype(np.int64) & NOTHING, "id": block.peer[place].astype(np.int64),
            "small": np.where(shared, *kinds),
        }  # fmt: skip
        yield Rows(place, BEGUN, Kind.RMA_REQUEST_LOCK, **given)
        got = ~block.open[place]
        yield Rows(place[got], DONE, Kind.RMA_ACQUIRE_LOCK, **{name: values[got] for name, values in given.items()})
        place, window = self._where(block, words("Win_unlock"))
        place, window = place[~block.open[place]], window[~block.open[place]]
        peer = block.peer[place].astype(np.int64)
        yield Rows(place, DONE, Kind.RMA_RELEASE_LOCK, x=window, y=peer & NOTHING, id=peer)

    def _lock_types(self, block: Block, place: Ints) -> Ints:
        found = np.zeros(len(place), np.int64)
        which = block.index[place]
        for events, values in columns(self._rank, which, frozenset(("lock_type",))):
            kind = values.get("lock_type")
            if isinstance(kind, np.ndarray):
                found[np.searchsorted(which, events)] = kind
        return found


_WINDOWS: Final = calls.WINDOW_MAKERS | words("Win_fence Win_free Win_lock Win_unlock")
