"""Arguments of many events at once: tails (native/format.h) decoded column by column with numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.trace import Function, Parameter, Rank
from weft.trace.layout import COUNT_IN_TAIL, TAIL_ALIGN, Flag

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """An array argument of many events: the values of event i are `values[starts[i]:starts[i + 1]]`."""

    starts: Ints
    values: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Ints:
        return self.values[self.starts[index] : self.starts[index + 1]]

    @property
    def lengths(self) -> Ints:
        """Number of values of each event."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """For each value, which event it belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def offsets(self) -> Ints:
        """For each value, its index in its event's array."""
        return np.arange(len(self.values)) - np.repeat(self.starts[:-1], self.lengths)


@dataclass(frozen=True)
class Statuses:
    """Status arguments as columns. `known` is False for one that was not set; the other values are then 0."""

    known: NDArray[np.bool_]
    cancelled: NDArray[np.bool_]
    source: Ints
    tag: Ints
    bytes: Ints
    error: Ints


@dataclass(frozen=True)
class RaggedStatuses:
    """An array of statuses of many events; those of event i are rows `starts[i]` to `starts[i + 1]` of `rows`."""

    starts: Ints
    rows: Statuses


Column = Ints | Ragged | Statuses | RaggedStatuses


class _Bytes:
    """Cursors into one tails stream, one an event, that move together. Reads past the end give zeros."""

    def __init__(self, data: NDArray[np.uint8], at: Ints) -> None:
        self.data = data if len(data) else np.zeros(1, np.uint8)
        self.at = at

    def unsigned(self, which: Ints) -> NDArray[np.uint64]:
        """One varint for each event in `which`."""
        value = np.zeros(len(which), np.uint64)
        at = self.at[which]
        alive = np.arange(len(which))
        shift = 0
        while len(alive) and shift < 70:
            place = at[alive]
            byte = np.where(place < len(self.data), self.data[np.minimum(place, len(self.data) - 1)], 0)
            if shift < 64:
                value[alive] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[alive] += 1
            alive = alive[byte >= 0x80]
            shift += 7
        self.at[which] = at
        return value

    def signed(self, which: Ints) -> Ints:
        """One zigzag varint for each event in `which`."""
        raw = self.unsigned(which)
        return (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)


def columns(rank: Rank, which: Ints, names: frozenset[str]) -> Iterator[tuple[Ints, dict[str, Column]]]:
    """The tail parameters `names` of the events `which` of a rank, function by function and thread by thread.

    Yields (events, values): for exit parameters the events must be closed. Parameters that a function has in its
    slot, or not at all, are left out. A ticket and a large count are skipped.
    """
    events = rank.events[which]
    threads = rank.event_threads[which]
    key = events["function"].astype(np.int64) * 65536 + threads
    for one in np.unique(key):
        rows = np.flatnonzero(key == one)
        function = rank.trace.functions[int(one) // 65536]
        part = _decode(function, events[rows], rank.threads[int(one) % 65536].tails, names)
        yield which[rows], part


def _decode(
    function: Function, events: NDArray[Any], tails: NDArray[np.uint8], names: frozenset[str]
) -> dict[str, Column]:
    everyone = np.arange(len(events))
    flags = events["flags"]
    tailed = (flags & Flag.HAS_TAIL) != 0
    # An event without a tail reads zeros from behind the stream's end: empty arrays, no status.
    start = np.where(tailed, events["result"].astype(np.int64) * TAIL_ALIGN, len(tails))
    cursors = _Bytes(tails, start)
    cursors.unsigned(everyone[(flags & Flag.TICKET) != 0])
    cursors.signed(everyone[events["count"] == COUNT_IN_TAIL])
    found: dict[str, Column] = {}
    closed = everyone[(flags & Flag.CLOSED) != 0]
    parameters = [(p, everyone) for p in function.tail_in] + [(p, closed) for p in function.tail_out]
    left = {p.name for p, _ in parameters} & names
    for parameter, rows in parameters:
        if not left:
            break
        column = _column(cursors, parameter, rows, events["buffer"])
        if parameter.name in names:
            left.discard(parameter.name)
            if len(rows) == len(events) and column is not None:
                found[parameter.name] = column
    return found


def _column(cursors: _Bytes, parameter: Parameter, rows: Ints, buffers: NDArray[np.uint64]) -> Column | None:
    if parameter.array:
        return _arrays(cursors, parameter, rows, buffers)
    if parameter.type == "status":
        return _statuses(cursors, rows)
    if parameter.type == "string":
        cursors.at[rows] += cursors.unsigned(rows).astype(np.int64)
        return None
    return _scalars(cursors, parameter.type, rows, buffers)


def _scalars(cursors: _Bytes, code: str, rows: Ints, buffers: NDArray[np.uint64]) -> Ints:
    if code == "double":
        cursors.at[rows] += 8
        return np.zeros(len(rows), np.int64)
    if code == "address":
        return cursors.signed(rows) + buffers[rows].astype(np.int64)
    return cursors.signed(rows) if code == "int" else cursors.unsigned(rows).astype(np.int64)


def _arrays(
    cursors: _Bytes, parameter: Parameter, rows: Ints, buffers: NDArray[np.uint64]
) -> Ragged | RaggedStatuses | None:
    lengths = cursors.unsigned(rows).astype(np.int64)
    lengths = np.where(lengths > len(cursors.data), 0, lengths)  # more than bytes are there: damaged
    starts = np.concatenate([[0], np.cumsum(lengths)])
    # Longest first, so that the arrays that still have an element are a shrinking prefix.
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = -lengths[order]
    rounds = int(lengths.max(initial=0))
    if parameter.type == "status":
        rows_of = [np.zeros(int(starts[-1]), kind) for kind in (bool, bool, np.int64, np.int64, np.int64, np.int64)]
    values = np.zeros(int(starts[-1]), np.int64)
    last = np.zeros(len(rows), np.int64)
    for i in range(rounds):
        live = order[: np.searchsorted(sorted_lengths, -i, side="left")]
        if parameter.type == "status":
            one = _statuses(cursors, rows[live])
            parts = (one.known, one.cancelled, one.source, one.tag, one.bytes, one.error)
            for target, part in zip(rows_of, parts, strict=True):
                target[starts[live] + i] = part
        elif parameter.type == "string":
            cursors.at[rows[live]] += cursors.unsigned(rows[live]).astype(np.int64)
        else:
            value = _scalars(cursors, parameter.type, rows[live], buffers)
            if parameter.type == "int":
                value = last[live] = last[live] + value
            values[starts[live] + i] = value
    if parameter.type == "status":
        return RaggedStatuses(starts, Statuses(*rows_of))
    return None if parameter.type == "string" else Ragged(starts, values)


def _statuses(cursors: _Bytes, rows: Ints) -> Statuses:
    head = cursors.unsigned(rows)
    known = head != 0
    there = rows[known]
    full = [np.zeros(len(rows), np.int64) for _ in range(4)]
    full[0][known], full[1][known] = cursors.signed(there), cursors.signed(there)
    full[2][known], full[3][known] = cursors.unsigned(there).astype(np.int64), cursors.unsigned(there).astype(np.int64)
    cancelled = known & (((head - np.uint64(1)) & np.uint64(1)) != 0)
    return Statuses(known, cancelled, *full)
