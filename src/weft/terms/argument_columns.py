"""Decode arguments of many events at once: the tails (native/format.h) column by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match.functions import CODE_ARRAY, CODES, Code
from weft.native.headers.columns import Column as InC
from weft.native.headers.columns import ColumnsInput
from weft.terms import kernels
from weft.trace import Function, Parameter, Rank
from weft.trace.layout import Flag

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
        """Return the number of values of each event."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """Return, for each value, the index of its event."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def offsets(self) -> Ints:
        """Return, for each value, its index in the array of its event."""
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


def sorted_distinct(values: NDArray[np.generic]) -> NDArray[Any]:
    """Return the different values of a column of ids, in ascending order.

    Small values are counted, as sorting costs ten times as much.
    """
    values = values.ravel()
    if not len(values):
        return values
    if np.can_cast(values.dtype, np.int64) and int(values.min()) >= 0 and int(values.max()) < 1 << 20:
        return np.flatnonzero(np.bincount(values)).astype(values.dtype)
    # numpy.unique would import numpy.ma to see that these are no masked arrays: 15 ms of every `weft run`.
    ordered = np.sort(values)
    different: NDArray[np.generic] = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return different


def indices_in(ids: NDArray[np.generic], values: NDArray[np.generic]) -> NDArray[np.uint32]:
    """Return, for each value, its index in `ids`, which must be sorted and contain all values."""
    if len(ids) and int(ids[0]) >= 0 and int(ids[-1]) < 1 << 20:
        table = np.zeros(int(ids[-1]) + 1, np.uint32)
        table[ids] = np.arange(len(ids))
        places: NDArray[np.uint32] = table[values]
        return places
    found: NDArray[np.uint32] = np.searchsorted(ids, values).astype(np.uint32)
    return found


def integer_column(found: dict[str, Column], name: str) -> Ints:
    """Return one scalar argument out of a result of decode_columns. Empty if it is not there."""
    values = found.get(name)
    return values if isinstance(values, np.ndarray) else np.zeros(0, np.int64)


def decode_columns(rank: Rank, which: Ints, names: frozenset[str]) -> Iterator[tuple[Ints, dict[str, Column]]]:
    """Decode arguments of some events that have no room in the fixed part of their records (their tails). Yields (event
    indices, {argument: values}) for each function and thread.

    `which`: event indices of the rank; `names`: the arguments. Results are decoded only if all events of a function
    returned. Arguments that a function has in the fixed part, or not at all, are left out.
    """
    which = np.ascontiguousarray(which, np.int64)
    functions = rank.events["function"][which]
    threads = rank.event_threads[which] if len(rank.threads) > 1 else None
    for id in np.flatnonzero(np.bincount(functions)).tolist():
        of_function = np.flatnonzero(functions == id)
        for slot, thread in enumerate(rank.threads):
            rows = of_function if threads is None else of_function[threads[of_function] == slot]
            if len(rows):
                yield which[rows], _decode_function(rank, rank.trace.functions[id], which[rows], thread.tails, names)


def decode_argument(rank: Rank, event: Ints, name: str) -> Ints:
    """Return one scalar argument of some calls of the same function, wherever the record stores it.

    `event`: the indices of the calls, ascending; `name`: the argument's name in the standard.
    """
    function = rank.trace.functions[int(rank.events["function"][event[0]])]
    for place, parameter in function.slot.items():
        if parameter.name == name:
            values = np.ascontiguousarray(rank.events[place][event])
            return values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
    found = np.zeros(len(event), np.int64)
    for some, decoded in decode_columns(rank, event, frozenset((name,))):
        found[np.searchsorted(event, some)] = integer_column(decoded, name)
    return found


def _decode_function(
    rank: Rank, function: Function, which: Ints, tails: NDArray[np.uint8], names: frozenset[str]
) -> dict[str, Column]:
    """Return the values of the arguments `names`, by name, for events of one function. They are decoded by
    native/kernel/columns.c from the records' variable parts (`tails`).
    """
    events = rank.events
    closed = bool(((events["flags"][which] & Flag.CLOSED) != 0).all())
    parameters = [*function.tail_in, *(function.tail_out if closed else ())]
    last = max((i for i, p in enumerate(parameters) if p.name in names), default=-1)
    if last < 0:
        return {}
    made = [_ColumnInDecoding(p, p.name in names and p.type != "string", len(which)) for p in parameters[: last + 1]]
    slots = np.ascontiguousarray(events)
    given = ColumnsInput(
        events=slots, which=which, count=len(which), tails=tails, tail_bytes=len(tails),
        entry_steps=len(function.tail_in), steps=len(made), poll=function.is_poll,
    )  # fmt: skip
    kernels.run_decode(given, [m.structure for m in made], fill=False)
    lengthened = [m.allocate_elements() for m in made]
    if any(lengthened):
        kernels.run_decode(given, [m.structure for m in made], fill=True)
    return {p.name: m.to_column() for p, m in zip(parameters, made, strict=False) if m.wanted}


class _ColumnInDecoding:
    """A column that is being decoded: the memory that C fills."""

    def __init__(self, parameter: Parameter, wanted: bool, count: int) -> None:
        self.wanted, self.array, self.status = wanted, parameter.array, parameter.type == "status"
        code = CODES.get(parameter.type, Code.HANDLE)
        self.structure = InC()
        self.structure.wanted, self.structure.code = wanted, code | (CODE_ARRAY if parameter.array else 0)
        self.starts = np.zeros(count + 1, np.int64)
        if wanted and self.array:
            self.structure.starts = self.starts
        elif wanted:
            self._allocate(count)

    def _allocate(self, count: int) -> None:
        """Allocate arrays for `count` decoded values, and let the kernel's structure point to them."""
        self.numbers = [np.zeros(count, np.int64) for _ in range(4 if self.status else 1)]
        self.flags = [np.zeros(count, np.bool_) for _ in range(2 if self.status else 0)]
        for name, values in zip(("values", "tag", "bytes", "error"), self.numbers, strict=False):
            setattr(self.structure, name, values)
        for name, flags in zip(("known", "cancelled"), self.flags, strict=False):
            setattr(self.structure, name, flags)

    def allocate_elements(self) -> bool:
        """Allocate memory for the elements of an array argument, after the kernel has counted them. Return whether
        there are any.
        """
        if self.wanted and self.array:
            np.cumsum(self.starts, out=self.starts)
            self._allocate(int(self.starts[-1]))
        return self.wanted and self.array and bool(self.starts[-1])

    def to_column(self) -> Column:
        """Return the decoded values: numbers or statuses. For an array argument, the index at which each call's
        elements begin is returned with them.
        """
        values = Statuses(self.flags[0], self.flags[1], *self.numbers) if self.status else self.numbers[0]
        if not self.array:
            return values
        return RaggedStatuses(self.starts, values) if isinstance(values, Statuses) else Ragged(self.starts, values)
