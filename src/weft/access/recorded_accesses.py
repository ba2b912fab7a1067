"""The recorded accesses, buffers and windows of one rank as columns, placed between the rank's events.

An access is between two calls of its thread: `before` is the second of them. If a thread makes no calls, or several
threads do, it is placed by the clock.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.terms.argument_columns import Ints
from weft.terms.byte_layouts import Layout, first_shared_blocks
from weft.terms.strided_blocks import Strided
from weft.trace import Rank
from weft.trace.layout import NO_EVENTS, TouchKind

_HOLDS_FROM: Final = int(TouchKind.SENT)


@dataclass(frozen=True)
class AccessTable:
    """Accesses sorted by `before`; one row stands for accesses of one line at equal steps.

    A row is `count` accesses of `size` bytes, the first at `low`, `stride` bytes apart; `high` is the end of all.
    `before`: the rank's next event, or its number of events. `slot`: the thread, -1 for one that makes no calls; `tid`:
    the system's number of it; `own_events`: how many calls it had made, NO_EVENTS as -1. `first`, `last`: ticks.
    `again`: accesses to what the row had already.
    """

    low: Ints
    high: Ints
    size: Ints
    stride: Ints
    count: Ints
    kind: Ints
    site: Ints
    before: Ints
    slot: Ints
    tid: Ints
    own_events: Ints
    first: Ints
    last: Ints
    again: Ints

    def __len__(self) -> int:
        return len(self.low)

    def pick(self, rows: Any) -> AccessTable:
        """Return a table of some of the rows."""
        return AccessTable(*(getattr(self, f.name)[rows] for f in fields(self)))

    @property
    def writes(self) -> NDArray[np.bool_]:
        """Return a mask of the rows with stores."""
        result: NDArray[np.bool_] = (self.kind & TouchKind.WRITE) != 0
        return result

    def find_shared_bytes(self, row: int, low_address: int, end_address: int) -> tuple[int, int] | None:
        """Return (first byte, byte after the last) that the accesses of a row share with an address range, for the
        first access that shares any. None if none does.
        """
        at, size, stride = int(self.low[row]), int(self.size[row]), max(int(self.stride[row]), 1)
        first = max(0, -(-(low_address - size + 1 - at) // stride))
        if first >= int(self.count[row]) or at + first * stride >= end_address:
            return None
        begin = at + first * stride
        return max(begin, low_address), min(begin + size, end_address)

    def layout(self, row: int) -> Layout:
        """Return the bytes of a row's accesses as a layout."""
        count = max(int(self.count[row]), 1)
        return Layout([Strided(int(self.low[row]), int(self.size[row])).repeat(int(self.stride[row]), count)])

    def find_overlap_with_layout(self, row: int, layout: Layout, address: int) -> tuple[int, int] | None:
        """Return (first byte, byte after the last) that the accesses of a row share with a datatype's layout placed at
        `address`. Only the first shared bytes are returned; None if there are none.
        """
        found = first_shared_blocks(layout, self.layout(row), -address)
        if found is None:
            return None
        (at, length), (low, size) = found
        return max(at + address, low), min(at + address + length, low + size)

    def find_overlap_with_ranges(self, row: int, ranges: ByteRanges) -> tuple[int, int] | None:
        """Return (first byte, byte after the last) that the accesses of a row share with some byte ranges. Only the
        first shared bytes are returned; None if there are none.
        """
        at, size, stride = int(self.low[row]), int(self.size[row]), max(int(self.stride[row]), 1)
        near = slice(np.searchsorted(ranges.high, at, "right"), np.searchsorted(ranges.low, self.high[row]))
        low, high = ranges.low[near], ranges.high[near]
        first = np.maximum(0, -((at + size - 1 - low) // stride))
        met = np.flatnonzero((first < self.count[row]) & (at + first * stride < high))
        return self.find_shared_bytes(row, int(low[met[0]]), int(high[met[0]])) if len(met) else None

    def select_rows_near(self, access_rows: Ints, ranges: ByteRanges) -> Ints:
        """Return the rows among `access_rows` whose accesses may share bytes with some byte ranges. All other rows
        surely share none.
        """
        if not len(ranges.low):
            return np.zeros(0, np.int64)
        low, stride, size = self.low[access_rows], np.maximum(self.stride[access_rows], 1), self.size[access_rows]
        among = np.searchsorted(ranges.high, low, "right") < np.searchsorted(ranges.low, self.high[access_rows])
        step = np.gcd(stride, ranges.step)
        behind = (low - ranges.low[0]) % np.maximum(step, 1)
        apart = (step > 0) & (self.count[access_rows] > 1) & (behind >= ranges.longest) & (behind + size <= step)
        left: Ints = access_rows[among & ~apart]
        return left


@dataclass(frozen=True)
class ByteRanges:
    """Byte ranges [low, high) of a buffer, in ascending order."""

    low: Ints
    high: Ints

    @property
    def step(self) -> int:
        """Return the greatest common divisor of the distances between the ranges; 0 for a single range."""
        return int(np.gcd.reduce(np.diff(self.low), initial=0))

    @property
    def longest(self) -> int:
        """Return the length of the longest range in bytes."""
        return int((self.high - self.low).max(initial=0))


@dataclass(frozen=True)
class BufferTable:
    """Buffers of operations. `event` made the call, `request` is its request or 0; `datatype` and `count` give the
    contents.
    """

    address: Ints
    count: Ints
    datatype: Ints
    bytes: Ints
    request: Ints
    event: Ints
    written: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class WindowMemoryTable:
    """Memory of windows from one event to another. `target`: the rank in the window's group that owns it."""

    window: Ints
    low: Ints
    high: Ints
    target: Ints
    unit: Ints
    begin: Ints
    end: Ints
    separate: NDArray[np.bool_]


class PlacedRows:
    """The recorded rows of a rank, each with its place among the rank's events."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        raw = rank.accesses_to_pending_buffers
        self.raw = raw[(raw["low"] != 0) & (raw["count"] < 1 << 62)]
        self.slot = self.raw["thread"].astype(np.int64) - 1
        self.before = self._find_next_events()

    def _find_next_events(self) -> Ints:
        """Return, for each recorded row, the index of the rank's first MPI call after it."""
        rows, enter = self.raw, self.rank.events["enter"]
        by_the_clock: Ints = np.searchsorted(enter, rows["first"]).astype(np.int64)
        if len(self.rank.threads) != 1:
            return by_the_clock
        own = np.minimum(rows["event"], len(enter)).astype(np.int64)
        return np.where(rows["event"] == NO_EVENTS, by_the_clock, own)

    def read_accesses(self) -> AccessTable:
        """Return the program's accesses to memory as a table, in the order of the MPI calls that follow them."""
        rows = np.flatnonzero(self.raw["kind"] < _HOLDS_FROM)
        rows = rows[np.argsort(self.before[rows], kind="stable")]
        raw = self.raw[rows]
        low, size, stride, count = (_int_column(raw, name) for name in ("low", "size", "stride", "count"))
        steps: Ints = np.maximum(count, 1) - 1
        high: Ints = low + steps * stride + size
        kind, site, first, last, again = (_int_column(raw, name) for name in ("kind", "site", "first", "last", "again"))
        before, slot, tid = self.before[rows], self.slot[rows], _int_column(raw, "tid")
        own_events = np.where(raw["event"] == NO_EVENTS, np.uint64(0), raw["event"]).astype(np.int64)
        own_events[raw["event"] == NO_EVENTS] = -1
        return AccessTable(
            low, high, size, stride, count, kind, site, before, slot, tid, own_events, first, last, again
        )

    def _find_recording_calls(self, rows: Ints) -> Ints:
        """Return, for each row, the index of the MPI call during which its thread recorded it; -1 if there is none."""
        own = np.full(len(rows), -1, np.int64)
        for number, thread in enumerate(self.rank.threads):
            places = np.flatnonzero(self.rank.event_threads == number)
            mine = self.slot[rows] == thread.slot
            at = self.raw["event"][rows[mine]].astype(np.int64) - 1
            own[mine] = places[np.clip(at, 0, len(places) - 1)] if len(places) else -1
        return own

    def read_buffers(self) -> BufferTable:
        """Return the buffers of the rank's MPI operations as a table."""
        kinds = self.raw["kind"]
        rows = np.flatnonzero((kinds == TouchKind.SENT) | (kinds == TouchKind.WRITTEN))
        raw = self.raw[rows]
        low, count, datatype, bytes_, request = (
            _int_column(raw, name) for name in ("low", "count", "size", "stride", "object")
        )
        return BufferTable(
            low, count, datatype, bytes_, request, self._find_recording_calls(rows), raw["kind"] == TouchKind.WRITTEN
        )

    def read_window_memory(self) -> WindowMemoryTable:
        """Return the memory of the rank's windows as a table. Each row is a piece of memory with the events (indices)
        from which to which it belongs to a window.
        """
        kinds = self.raw["kind"]
        rows = np.flatnonzero((kinds == TouchKind.UNIFIED) | (kinds == TouchKind.SEPARATE))
        gone = np.flatnonzero(kinds == TouchKind.GONE)
        begin, ended = self._find_recording_calls(rows), self._find_recording_calls(gone)
        raw = self.raw[rows]
        end = np.full(len(rows), len(self.rank), np.int64)
        for row, at in zip(gone.tolist(), ended.tolist(), strict=True):
            same = (raw["object"] == self.raw["object"][row]) & (raw["low"] == self.raw["low"][row]) & (begin < at)
            end[same & (end == len(self.rank))] = at
        window, low, bytes_, target, unit = (
            _int_column(raw, name) for name in ("object", "low", "stride", "count", "size")
        )
        separate = raw["kind"] == TouchKind.SEPARATE
        return WindowMemoryTable(window, low, low + bytes_, target, unit, begin, end, separate)


def _int_column(rows: NDArray[Any], name: str) -> Ints:
    column: Ints = rows[name].astype(np.int64)
    return column
