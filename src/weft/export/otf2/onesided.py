"""Make OTF2's records of one-sided communication: windows, transfers, their completion, fences and locks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import _otf2
import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints, encode_ids, make_function_table
from weft.export.otf2.definitions import NOTHING, Definitions
from weft.export.otf2.messages import EventRows
from weft.export.otf2.record_rows import BEGUN, DONE, DURING, Kind, Records
from weft.mpi.meaning import Access, Act, Sync, find_meaning, functions_with
from weft.terms import calls
from weft.terms.argument_columns import decode_columns
from weft.terms.calls import catalogue_of, masks_of
from weft.terms.run_extent import Extent
from weft.terms.windows import SHARED
from weft.trace import Function, FunctionTable, Rank

_TRANSFERS: Final = calls.RMA | calls.REQUEST_RMA
_TO_ONE: Final = calls.functions_with_sync(Sync.UNLOCK, Sync.FLUSH)
_TO_ALL: Final = calls.functions_with_sync(Sync.FENCE, Sync.UNLOCK_ALL, Sync.FLUSH_ALL, Sync.COMPLETE, Sync.FREE)
"""Calls after which transfers are complete at their targets."""

_FETCHING: Final = functions_with(Act.ACCESS, where=lambda m: Access.READ in m.access)
_OF_ONE_ELEMENT: Final = functions_with(Act.ACCESS, where=lambda m: Access.ONE_ELEMENT in m.access)
_PROCESS_AND_MEMORY: Final = 3


def _find_transfer_kind(function: Function) -> int:
    """Return the kind of OTF2's record for a one-sided transfer by a function: put, get or atomic."""
    found = find_meaning(function.name)
    if found is not None and Access.ATOMIC in found.access:
        return Kind.RMA_ATOMIC
    return Kind.RMA_GET if found is not None and found.access is Access.READ else Kind.RMA_PUT


def _find_atomic_type(function: Function) -> int:
    """Return OTF2's type of an atomic operation; 0 if the function is not atomic."""
    found = find_meaning(function.name)
    if found is None or Access.ATOMIC not in found.access:
        return 0
    if found.kin == "Compare_and_swap":
        return int(_otf2.RMA_ATOMIC_TYPE_COMPARE_AND_SWAP.value)
    fetches = Access.READ in found.access
    kind = _otf2.RMA_ATOMIC_TYPE_FETCH_AND_ACCUMULATE if fetches else _otf2.RMA_ATOMIC_TYPE_ACCUMULATE
    return int(kind.value)


@cache
def _transfer_tables(functions: FunctionTable) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return two arrays to look up by function id: the kind of OTF2's record for a one-sided transfer, and the type of
    an atomic operation. 0 means that the function is none.
    """
    return make_function_table(functions, _find_transfer_kind, np.uint8), make_function_table(
        functions, _find_atomic_type, np.uint8
    )


class OneSidedCalls:
    """The one-sided calls of a rank."""

    def __init__(self, rank: Rank, definitions: Definitions) -> None:
        self._rank, self._definitions = rank, definitions
        functions = rank.trace.functions
        self._masks = masks_of(functions)
        self._any = catalogue_of(rank).count(self._masks.table(_TRANSFERS | _WINDOWS)) > 0
        if not self._any:
            return
        self._kind, self._atomic = _transfer_tables(functions)
        self._done = self._match_completions()

    def _find_window_ids(self, block: Block, call_places: Ints) -> Ints:
        """Return the window of each call, as the id that the rank has for it. `call_places`: the calls' places in the
        block.
        """
        found = block.events["object"][call_places].astype(np.int64)
        requests = np.flatnonzero(self._masks.table(calls.REQUEST_RMA)[block.function[call_places]])
        which = block.index[call_places[requests]]
        for events, values in decode_columns(self._rank, which, frozenset(("win",))):
            window = values.get("win")
            if isinstance(window, np.ndarray):
                found[requests[np.searchsorted(which, events)]] = window
        return found

    def _window_numbers(self, windows: Ints) -> Ints:
        ids, codes = encode_ids(windows)
        return np.array([self._definitions.window_number(self._rank, i) for i in ids], np.int64)[codes]

    def _find_calls_with_window(self, block: Block, function_names: frozenset[str]) -> tuple[Ints, Ints]:
        """Return two columns for the calls of some functions in a block: the call's place in the block, and the
        archive's number of its window. Calls with an unknown window are left out.
        """
        place = np.flatnonzero(self._masks.table(function_names)[block.function])
        window = self._window_numbers(self._find_window_ids(block, place))
        return place[window != NOTHING], window[window != NOTHING]

    def _match_completions(self) -> EventRows:
        """Return pairs of one-sided transfers and the later calls, such as an unlock or a flush, that complete them at
        the target. Transfers without such a call are left out.
        """
        table = self._masks.table
        every = np.concatenate([catalogue_of(self._rank).where(table(n)) for n in (_TRANSFERS, _TO_ONE, _TO_ALL)])
        every.sort()
        block = Block(self._rank, every, Extent(0, 0))
        window = self._find_window_ids(block, np.arange(len(every)))
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
        return EventRows(event[order], rows[order])

    def block_records(self, block: Block) -> list[Records]:
        """Return the records of the one-sided calls in a block."""
        if not self._any:
            return []
        return [
            *self._window_records(block),
            self._transfer_records(block),
            *self._completion_records(block),
            *self._lock_records(block),
        ]

    def _window_records(self, block: Block) -> Iterator[Records]:
        """Yield the records of the collective calls on windows: their creation, their freeing, and fences."""
        for names, kind in (
            (calls.WINDOW_MAKERS, Kind.RMA_WIN_CREATE),
            (calls.functions_with_sync(Sync.FREE), Kind.RMA_WIN_DESTROY),
        ):
            place, window = self._find_calls_with_window(block, names)
            returned = ~block.open[place]
            yield Records(place[returned], DONE, kind, x=window[returned])
        place, window = self._find_calls_with_window(block, calls.functions_with_sync(Sync.FENCE))
        place, window = place[~block.open[place]], window[~block.open[place]]
        yield Records(place, BEGUN, Kind.RMA_COLLECTIVE_BEGIN)
        barrier = int(_otf2.COLLECTIVE_OP_BARRIER.value)
        yield Records(
            place, DONE, Kind.RMA_COLLECTIVE_END, small=barrier, z=_PROCESS_AND_MEMORY, x=window, y=NOTHING
        )  # fmt: skip

    def _transfer_records(self, block: Block) -> Records:
        """Return the records of puts, gets and atomic operations."""
        place, window = self._find_calls_with_window(block, _TRANSFERS)
        function, size = block.function[place], np.maximum(block.bytes[place], 0)
        single = self._masks.table(_OF_ONE_ELEMENT)[function]
        size = np.where(single, np.maximum(block.type_size[place], 0), size)
        fetched = np.where(self._masks.table(_FETCHING)[function], size, 0)
        return Records(
            place, BEGUN, self._kind[function], small=self._atomic[function], x=window,
            y=block.peer[place].astype(np.int64) & NOTHING, a=size, b=fetched, id=block.index[place],
        )  # fmt: skip

    def _completion_records(self, block: Block) -> Iterator[Records]:
        """Yield a record for each one-sided transfer that a call of the block completes at its target."""
        place, transfer = self._done.rows_in_block(block)
        if len(place):
            made = Block(self._rank, transfer, block.run)
            window = self._window_numbers(self._find_window_ids(made, np.arange(len(made))))
            known = window != NOTHING
            yield Records(place[known], DURING, Kind.RMA_COMPLETE, x=window[known], id=transfer[known])

    def _lock_records(self, block: Block) -> Iterator[Records]:
        """Yield the records of window locks: the request when the call begins, the acquisition when it returns, and the
        release.
        """
        place, window = self._find_calls_with_window(block, calls.functions_with_sync(Sync.LOCK))
        shared = self._find_lock_types(block, place) == SHARED
        kinds = _otf2.LOCK_SHARED.value, _otf2.LOCK_EXCLUSIVE.value
        given = {
            "x": window, "y": block.peer[place].astype(np.int64) & NOTHING, "id": block.peer[place].astype(np.int64),
            "small": np.where(shared, *kinds),
        }  # fmt: skip
        yield Records(place, BEGUN, Kind.RMA_REQUEST_LOCK, **given)
        got = ~block.open[place]
        yield Records(place[got], DONE, Kind.RMA_ACQUIRE_LOCK, **{name: values[got] for name, values in given.items()})
        place, window = self._find_calls_with_window(block, calls.functions_with_sync(Sync.UNLOCK))
        place, window = place[~block.open[place]], window[~block.open[place]]
        peer = block.peer[place].astype(np.int64)
        yield Records(place, DONE, Kind.RMA_RELEASE_LOCK, x=window, y=peer & NOTHING, id=peer)

    def _find_lock_types(self, block: Block, call_places: Ints) -> Ints:
        """Return the lock type (shared or exclusive) that each call asks for. `call_places`: the calls' places in the
        block.
        """
        found = np.zeros(len(call_places), np.int64)
        which = block.index[call_places]
        for events, values in decode_columns(self._rank, which, frozenset(("lock_type",))):
            kind = values.get("lock_type")
            if isinstance(kind, np.ndarray):
                found[np.searchsorted(which, events)] = kind
        return found


_WINDOWS: Final = calls.WINDOW_MAKERS | calls.functions_with_sync(Sync.FENCE, Sync.FREE, Sync.LOCK, Sync.UNLOCK)
