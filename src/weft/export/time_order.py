"""Read the calls of a run in the order of time over all ranks, some hundred thousand at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.trace import Rank, Trace
from weft.trace.filter import Filter

AT_ONCE: Final = 1 << 17
"""Calls that are ordered at a time, about."""

LEAST: Final = 256
"""Of each rank at least this many."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RankCalls:
    """Calls of one rank: their indices, and their times in ns on the run's axis (-1 for a call that never returned)."""

    rank: Rank
    index: Ints
    enter: Ints
    leave: Ints


@dataclass(frozen=True)
class CallRows:
    """Calls of several ranks. `order` sorts the concatenated rows of `parts` by time."""

    parts: tuple[RankCalls, ...]
    order: Ints

    def __len__(self) -> int:
        return len(self.order)

    def first(self, count: int) -> CallRows:
        """Return the first `count` calls."""
        return CallRows(self.parts, self.order[:count])

    def last(self, count: int) -> CallRows:
        """Return the last `count` calls."""
        return CallRows(self.parts, self.order[max(0, len(self.order) - count) :])


@dataclass
class _Queue:
    """Calls of one rank that were read and not yet taken. `key`: the entry time, but never less than that of a call
    before.
    """

    rank: Rank
    wanted: Filter
    step: int
    read: int = 0
    blocks: list[tuple[Ints, Ints, Ints, Ints]] = field(default_factory=list)
    held: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Return whether all events of the rank were read."""
        return self.read >= len(self.rank.events)

    def read_ahead(self) -> None:
        """Read the rank's events until at least `step` fitting calls are in the queue, or none are left to read."""
        while self.held < self.step and not self.is_exhausted:
            part = slice(self.read, self.read + self.step)
            mask = self.wanted.mask(self.rank, part.start, part.stop)
            self.read = part.stop
            index = np.flatnonzero(mask)
            if not len(index):
                continue
            enter, leave = self.rank.enter_ns(part)[index], self.rank.exit_ns(part)[index]
            key = np.maximum.accumulate(enter)
            if self.blocks:
                key = np.maximum(key, self.blocks[-1][0][-1])
            self.blocks.append((key, index + part.start, enter, leave))
            self.held += len(index)

    @property
    def last_key(self) -> int:
        """Return the key of the last call that was read."""
        return int(self.blocks[-1][0][-1])

    def take_calls_before(self, end_time: int | None, with_equal: bool) -> tuple[Ints, RankCalls] | None:
        """Remove the calls before a time from the queue, and return (their sort keys, the calls); None if there are
        none.

        `end_time`: in ns, None removes all calls; `with_equal`: also remove calls at this very time.
        """
        columns = [np.concatenate(column) for column in zip(*self.blocks, strict=True)]
        side: str = "right" if with_equal else "left"
        end = len(columns[0]) if end_time is None else int(np.searchsorted(columns[0], end_time, side=side))  # type: ignore[call-overload]
        self.blocks = [tuple(column[end:] for column in columns)] if end < len(columns[0]) else []  # type: ignore[list-item]
        self.held = len(columns[0]) - end
        key, index, enter, leave = (column[:end] for column in columns)
        return (key, RankCalls(self.rank, index, enter, leave)) if end else None


def read_calls_in_time_order(trace: Trace, call_filter: Filter) -> Iterator[CallRows]:
    """Yield the calls of all ranks that fit a filter, in the order in which they began. Calls that began at the same
    time are in the order of their ranks.
    """
    ranks = call_filter.ranks(trace)
    step = max(LEAST, AT_ONCE // max(1, len(ranks)))
    queues = [_Queue(rank, call_filter, step) for rank in ranks]
    while True:
        for queue in queues:
            queue.read_ahead()
        queues = [queue for queue in queues if queue.held]
        if not queues:
            return
        # What is read of a rank later comes after what was read of it: up to there the order is known.
        bounds = [(queue.last_key, queue.rank.index) for queue in queues if not queue.is_exhausted]
        bound, last = min(bounds, default=(None, -1))
        taken = [queue.take_calls_before(bound, queue.rank.index <= last) for queue in queues]
        some = [found for found in taken if found is not None]
        order = np.argsort(np.concatenate([key for key, _ in some]), kind="stable")
        yield CallRows(tuple(part for _, part in some), order)


def limit_calls(calls: Iterable[CallRows], first_count: int | None, last_count: int | None) -> Iterator[CallRows]:
    """Yield the calls, but only the first `first_count` or the last `last_count` of them. None sets no limit."""
    if last_count is not None:
        yield from _take_last_calls(calls, last_count)
        return
    left = first_count
    for some in calls:
        if left is not None and len(some) >= left:
            yield some.first(left)
            return
        left = None if left is None else left - len(some)
        yield some


def _take_last_calls(calls: Iterable[CallRows], count: int) -> Iterator[CallRows]:
    """Yield the last `count` calls."""
    kept: deque[CallRows] = deque()
    held = 0
    for some in calls:
        kept.append(some)
        held += len(some)
        while kept and held - len(kept[0]) >= count:
            held -= len(kept.popleft())
    if kept:
        kept[0] = kept[0].last(count - (held - len(kept[0])))
    yield from kept


def iterate_call_ids(calls: CallRows) -> Iterator[tuple[int, int]]:
    """Return an iterator over the calls as (rank index, event index), in their order."""
    rank = np.repeat([part.rank.index for part in calls.parts], [len(part.index) for part in calls.parts])
    index = np.concatenate([part.index for part in calls.parts])
    return zip(rank[calls.order].tolist(), index[calls.order].tolist(), strict=True)
