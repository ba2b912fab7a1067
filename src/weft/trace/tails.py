"""Tails: the arguments that do not fit an event's slot (see TAILS in native/format.h)."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from weft.base.lazy import dataclass
from weft.trace.functions import Function, Parameter
from weft.trace.layout import COUNT_IN_TAIL, Flag
from weft.trace.varint import Cursor, Damaged, encode_signed, encode_string, encode_unsigned, signed64

MAX_STRING: Final = 4096
_MOD: Final = 2**64 - 1
_WHOLE_TIME: Final = 3


@dataclass(frozen=True, slots=True)
class Status:
    """What an MPI_Status says. `count` is in bytes; `error` an error class."""

    source: int
    tag: int
    count: int
    cancelled: bool = False
    error: int = 0


@dataclass(slots=True)
class Tail:
    """A decoded tail. `decided` is the ticket of a probe's success.

    `out` holds what was written at exit; `damage` says why decoding ended early, else None.
    """

    ticket: int | None = None
    count: int | None = None
    received: int | None = None
    decided: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    out: dict[str, Any] = field(default_factory=dict)
    damage: str | None = None
    end: int = 0


def _read_scalar(cursor: Cursor, type: str, buffer: int) -> object:
    """Read one value of a type. `buffer`: the address of the call's buffer, from which addresses are counted."""
    if type == "int":
        return cursor.read_signed()
    if type == "address":
        return (cursor.read_signed() + buffer) & _MOD
    if type == "string":
        return cursor.read_string()
    if type == "status":
        return _read_status(cursor)
    if type == "double":
        return cursor.read_double()
    return cursor.read_unsigned()


def _read_status(cursor: Cursor) -> Status | None:
    """Read an MPI_Status; None if none was stored."""
    head = cursor.read_unsigned()
    if head == 0:
        return None
    source, tag, count, error = (
        cursor.read_signed(),
        cursor.read_signed(),
        cursor.read_unsigned(),
        cursor.read_unsigned(),
    )
    return Status(source, tag, count, bool((head - 1) & 1), error)


def _read_array(cursor: Cursor, type: str, buffer: int) -> list[Any]:
    """Read the elements of an array. Integers are stored as differences to the one before."""
    n = cursor.read_count(8 if type == "double" else 1)
    if type == "int":
        values, last = [], 0
        for _ in range(n):
            last = signed64(last + cursor.read_signed())
            values.append(last)
        return values
    return [_read_scalar(cursor, type, buffer) for _ in range(n)]


def _read_value(cursor: Cursor, parameter: Parameter, buffer: int) -> object:
    return (_read_array if parameter.array else _read_scalar)(cursor, parameter.type, buffer)


def has_exit_part(function: Function, flags: int, count: int) -> bool:
    """Return whether results were stored after the fixed part of a call's record. They are missing if the call has not
    returned, and for `count` polls that failed.
    """
    failed_polls = function.is_poll and not flags & Flag.TRUE and count > 0
    return bool(flags & Flag.CLOSED) and not failed_polls


def decode_tail(function: Function, flags: int, count: int, buffer: int, cursor: Cursor) -> Tail:
    """Decode the further arguments of a call (its tail), which begin at `cursor`. `flags`, `count`, `buffer`: the
    fields of the fixed part of the call's record.

    Never raises on damaged bytes: what could be read is returned, and its `damage` says where it ended.
    """
    tail = Tail()
    try:
        if flags & Flag.TICKET:
            tail.ticket = cursor.read_unsigned()
        if count == COUNT_IN_TAIL:
            tail.count = cursor.read_signed()
        for parameter in function.tail_in:
            tail.values[parameter.name] = _read_value(cursor, parameter, buffer)
        if has_exit_part(function, flags, count):
            for parameter in function.tail_out:
                tail.out[parameter.name] = _read_value(cursor, parameter, buffer)
            if "status" in function.slot:
                tail.received = cursor.read_unsigned()
            if flags & Flag.TICKET and function.probes:
                tail.decided = cursor.read_unsigned()
    except Damaged as error:
        tail.damage = str(error)
    tail.end = cursor.position
    return tail


def count_time_bytes(data: memoryview | bytes, start: int, calls: int) -> int:
    """Return how many bytes from `start` on hold the encoded times of `calls` calls of MPI_Wtime (recorder/times.h),
    with the unit before them. Fewer if the record ends before.
    """
    numbers = np.frombuffer(data, np.uint8)[start + 8 : start + 8 + 11 * calls]
    ends = np.flatnonzero(numbers < 0x80)
    is_alone = np.diff(ends, prepend=-1) == 1
    # A 3 says that the next number is the time itself.
    there = np.cumsum(~(is_alone & (numbers[ends] == _WHOLE_TIME)))
    last = int(np.searchsorted(there, calls))
    return 8 + (int(ends[last]) + 1 if last < len(ends) else len(numbers))


# The writer, for the builder and the tests.


def _encode_scalar(value: Any, type: str, buffer: int) -> bytes:
    """Return one value as bytes that `_read_scalar` can read."""
    if type == "int":
        return encode_signed(int(value))
    if type == "address":
        return encode_signed(int(value) - buffer)
    if type == "string":
        data = value.encode() if isinstance(value, str) else bytes(value)
        return encode_string(data[:MAX_STRING])
    if type == "status":
        return _encode_status(value)
    if type == "double":
        return struct.pack("<d", value)
    return encode_unsigned(int(value))


def _encode_status(status: Status | None) -> bytes:
    """Return a status as bytes that `_read_status` can read."""
    if status is None:
        return encode_unsigned(0)
    head = encode_unsigned(1 + status.cancelled)
    return (
        head
        + encode_signed(status.source)
        + encode_signed(status.tag)
        + encode_unsigned(status.count)
        + encode_unsigned(status.error)
    )


def _encode_value(value: Any, parameter: Parameter, buffer: int) -> bytes:
    """Return an argument as bytes that `_read_value` can read. None stands for the type's default."""
    if not parameter.array:
        return _encode_scalar(_default_of(parameter.type) if value is None else value, parameter.type, buffer)
    values = [] if value is None else list(value)
    parts = [encode_unsigned(len(values))]
    last = 0
    for item in values:
        if parameter.type == "int":
            parts.append(encode_signed(int(item) - last))
            last = int(item)
        else:
            parts.append(_encode_scalar(item, parameter.type, buffer))
    return b"".join(parts)


def _default_of(type: str) -> object:
    return {"string": "", "status": None, "double": 0.0}.get(type, 0)


def encode_tail(
    function: Function, flags: int, values: Mapping[str, object], *, buffer: int = 0, count: int | None = None,
    slot_count: int = 0, ticket: int = 0, received: int = 0, decided: int | None = None,
    outs: Mapping[str, object] | None = None,
) -> bytes:  # fmt: skip
    """Return the further arguments of a call (its tail) as bytes that decode_tail can read. `count`: given if it has no
    room in the fixed part of the record.
    """
    parts = []
    if flags & Flag.TICKET:
        parts.append(encode_unsigned(ticket))
    if count is not None:
        parts.append(encode_signed(count))
    parts += [_encode_value(values.get(p.name), p, buffer) for p in function.tail_in]
    if has_exit_part(function, flags, slot_count):
        outs = {**values, **(outs or {})}
        parts += [_encode_value(outs.get(p.name), p, buffer) for p in function.tail_out]
        if "status" in function.slot:
            parts.append(encode_unsigned(received))
        if flags & Flag.TICKET and function.probes:
            parts.append(encode_unsigned(ticket if decided is None else decided))
    return b"".join(parts)
