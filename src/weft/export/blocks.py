"""Read the events of a run block by block, with derived columns that the formats share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.terms.argument_columns import indices_in, sorted_distinct
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.run_extent import Extent
from weft.trace import Event, Flag, Function, FunctionTable, Rank
from weft.trace.conditions import comm_ids
from weft.trace.functions import MAX_ID
from weft.trace.layout import COUNT_IN_TAIL, RANK_INVALID_BASE, Events, compute_return_ticks

BLOCK: Final = 1 << 14
"""Events that are held in memory at a time."""

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def encode_ids(values: NDArray[Any]) -> tuple[list[int], Ints]:
    """Return the different values of a column of ids, and for each row the index of its value among them."""
    ids = sorted_distinct(values)
    return ids.tolist(), indices_in(ids, values).astype(np.int64)


def make_function_table(
    functions: FunctionTable, compute_value: Callable[[Function], object], dtype: Any
) -> NDArray[Any]:
    """Return an array to look up a value by function id: `compute_value(function)` at the index of the id, 0 for
    unknown ids.
    """
    table = np.zeros(MAX_ID + 1, dtype)
    for function in functions:
        table[function.id] = compute_value(function)
    return table


class SlotTables:
    """Tell which functions have which arguments in an event's slot, as tables over function ids."""

    def __init__(self, functions: FunctionTable) -> None:
        def having(fits: Callable[[Function], bool]) -> Mask:
            return make_function_table(functions, fits, np.bool_)

        self.comm = having(lambda f: "comm" in f.slot)
        self.peer = having(lambda f: "peer" in f.slot)
        self.status = having(lambda f: "status" in f.slot)
        self.tag = having(lambda f: "tag" in f.slot and f.slot["tag"].handle is None)
        self.datatype = having(lambda f: "datatype" in f.slot)
        self.count = having(lambda f: "count" in f.slot)
        self.object = having(lambda f: "object" in f.slot)
        self.flag = having(lambda f: "flag" in f.slot)
        self.poll = having(lambda f: f.is_poll)
        self.folded = having(lambda f: f.is_folded)


@cache
def slot_tables(functions: FunctionTable) -> SlotTables:
    """Return tables that say which fields of a call's record each function uses. They are made once for a run."""
    return SlotTables(functions)


class Block:
    """Some events of a rank: their indices, and their fields as columns."""

    def __init__(self, rank: Rank, index: Ints, run: Extent) -> None:
        self.rank, self.index, self.run = rank, index, run
        whole = len(index) and int(index[-1]) - int(index[0]) == len(index) - 1
        # A part without gaps is looked at where it lies in the file.
        self.events: Events = rank.events[int(index[0]) : int(index[-1]) + 1] if whole else rank.events[index]

    def __len__(self) -> int:
        return len(self.events)

    @cached_property
    def function(self) -> NDArray[np.uint16]:
        """Return the function ids."""
        return np.ascontiguousarray(self.events["function"])

    @cached_property
    def open(self) -> Mask:
        """Return a mask of the calls that never returned."""
        never: Mask = (self.events["flags"] & Flag.CLOSED) == 0
        return never

    @cached_property
    def thread(self) -> NDArray[np.int32]:
        """Return, for each call of the block, which thread made it, as an index in rank.threads."""
        if len(self.rank.threads) < 2:
            return np.zeros(len(self), np.int32)
        return self.rank.event_threads[self.index]

    @cached_property
    def enter(self) -> Ints:
        """Return the entry times in ns since the run's first moment."""
        return self.rank.axis.ns_array(self.events["enter"]) - self.run.first

    @cached_property
    def leave(self) -> Ints:
        """Return the time in ns at which each call returned. A call that never returned is taken to last until the
        thread's next call, or else until the end of the run.
        """
        leave = self.rank.axis.ns_array(compute_return_ticks(self.events))
        for place in np.flatnonzero(self.open).tolist():
            thread, position = self.rank.locate(int(self.index[place]))
            following = thread.events["enter"][position + 1 : position + 2]
            leave[place] = self.rank.axis.ns(int(following[0])) if len(following) else self.run.last
        # A damaged record may hold returns before entries.
        times: Ints = np.maximum(leave - self.run.first, self.enter)
        return times

    @cached_property
    def count(self) -> Ints:
        """Return the count argument of each call; -1 if a large count is damaged."""
        count = self.events["count"].astype(np.int64)
        for index in np.flatnonzero(count == COUNT_IN_TAIL).tolist():
            event = Event(self.rank, int(self.index[index]))
            count[index] = event.count if event.damage is None and event.tail is not None else -1
        return count

    @cached_property
    def peer(self) -> NDArray[np.int32]:
        """Return the peer that each call names: a rank of its communicator, or a negative number for a special value
        such as ANY_SOURCE.
        """
        peer: NDArray[np.int32] = self.events["peer"].copy()
        peer[peer < RANK_INVALID_BASE] -= RANK_INVALID_BASE
        return peer

    @cached_property
    def failed_polls(self) -> Mask:
        """Return a mask of the events that stand for failed polls, such as calls of MPI_Test without a result. Their
        count is the number of polls.
        """
        polls = slot_tables(self.rank.trace.functions).poll[self.function]
        failed: Mask = polls & ~self.open & ((self.events["flags"] & Flag.TRUE) == 0) & (self.count > 0)
        return failed

    @cached_property
    def calls(self) -> Ints:
        """Return how many calls each event stands for: failed polls, or equal local calls in a row. For all others it
        is 1.
        """
        folds = self.failed_polls | slot_tables(self.rank.trace.functions).folded[self.function]
        return np.where(folds, np.maximum(self.count, 1), 1)

    def encode_column(self, column: str) -> tuple[list[int], Ints]:
        """Return the different ids in a column, and for each event the index of its id among them."""
        return encode_ids(np.ascontiguousarray(self.events[column]))

    @cached_property
    def comm(self) -> NDArray[np.uint32]:
        """Return the communicator of each call, or of its window or file, as the rank's own id; 0 if it has none."""
        return comm_ids(self.rank, self.events)

    @cached_property
    def peer_rank(self) -> NDArray[np.int32]:
        """Return the peer of each call as a rank index of the run; -1 if the call has none or its communicator does not
        show it.
        """
        found = np.full(len(self), -1, np.int32)
        for id in sorted_distinct(self.comm).tolist():
            comm = self.rank.comm(id) if id else None
            if comm is not None:
                rows = np.flatnonzero((self.comm == id) & (self.peer >= 0))
                group = np.array([*comm.peers(self.rank.index), -1], np.int32)
                found[rows] = group[np.minimum(self.peer[rows], len(group) - 1)]
        return found

    @cached_property
    def type_size(self) -> Ints:
        """Return the size in bytes of each call's datatype; -1 if unknown."""

        def size(id: int) -> int:  # noqa: A002 - the domain's word
            found = size_in_bytes(self.rank.datatype(id)) if id else None
            return -1 if found is None or found >= 1 << 62 else found

        ids, codes = self.encode_column("datatype")
        return np.array([size(i) for i in ids], np.int64)[codes]

    @cached_property
    def bytes(self) -> Ints:
        """Return the size in bytes of each call's buffer, by count and datatype; -1 if unknown."""
        known = (self.count >= 0) & (self.type_size >= 0)
        size = self.count.astype(np.float64) * self.type_size
        # A count out of a hostile record times a size is not a number of bytes.
        known &= size < 2.0**62
        return np.where(known, self.count * self.type_size, -1)


progress_callback: Final[ContextVar[Callable[[int], None] | None]] = ContextVar("watched", default=None)
"""Told how many events of each block were dealt with: formats do not pass it on."""


def read_blocks(rank: Rank, run: Extent) -> Iterator[Block]:
    """Yield the events of a rank in blocks of at most BLOCK events. After each block, the number of its events is
    reported as progress.
    """
    tell = progress_callback.get()
    for start in range(0, len(rank.events), BLOCK):
        block = Block(rank, np.arange(start, min(start + BLOCK, len(rank.events))), run)
        yield block
        if tell is not None:
            tell(len(block))
