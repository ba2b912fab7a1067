"""The C side of waits: the structures that mirror native/kernel/waits.c."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.match.native import address
from weft.native.kernel import library
from weft.trace import Rank
from weft.trace.clock import MOST_NS

Ints = NDArray[np.int64]
Waits = tuple[Ints, Ints, Ints]
"""Places of the waiting calls, what each cost in ns, places of the calls that were late."""

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64


class Clocks(ctypes.Structure):
    """struct weft_clocks."""

    _fields_ = (("event_first", _P), ("events", _P), ("axes", _P))


class Span(ctypes.Structure):
    """struct weft_span."""

    _fields_ = (
        ("first_enter", ctypes.c_int64), ("last_exit", ctypes.c_int64), ("least_enter", ctypes.c_int64),
        ("most", ctypes.c_int64), ("inside", ctypes.c_int64), ("open", _U64),
    )  # fmt: skip


class LatePosts(ctypes.Structure):
    """struct weft_late_posts."""

    _fields_ = (
        ("rank", ctypes.c_uint32), ("ranks", ctypes.c_uint32), ("first", _P), ("completion", _P),
        ("partner", _P), ("their_event", _P), ("peer", _P), ("flags", _P), ("skip", ctypes.c_uint16),
        ("sends", ctypes.c_uint8),
    )  # fmt: skip


class LateMembers(ctypes.Structure):
    """struct weft_late_members."""

    _fields_ = (
        ("instances", _U64), ("first", _P), ("rows", _P), ("rank", _P), ("event", _P), ("completion", _P),
        ("function", _P), ("sort", _P), ("comm", _P), ("member_first", _P), ("members", _P),
    )  # fmt: skip


class Axis(ctypes.Structure):
    """struct weft_axis."""

    _fields_ = (("start", _U64), ("origin", ctypes.c_int64), ("length", ctypes.c_double), ("most", ctypes.c_double))


def fill_times(rank: Rank, enter: Ints, leave: Ints) -> None:
    """Write the times of a rank's events, ns, as Rank.enter_ns and exit_ns give them."""
    events = np.ascontiguousarray(rank.events)
    library().weft_times(
        _P(address(events)), _U64(len(events)), ctypes.byref(axis_of(rank)), _P(address(enter)), _P(address(leave))
    )


def axis_of(rank: Rank) -> Axis:
    """The rank's clock."""
    return Axis(rank.axis.start, rank.axis.origin, rank.axis.length, MOST_NS)


def span(rank: Rank) -> Span:
    """What is asked of all times of a rank together; `first_enter` and `last_exit` are its first and last event's."""
    events, found = np.ascontiguousarray(rank.events), Span()
    library().weft_span(_P(address(events)), _U64(len(events)), ctypes.byref(axis_of(rank)), ctypes.byref(found))
    return found


def late_posts(clocks: Clocks, given: LatePosts, room: int) -> Waits:
    """Run weft_late_posts for one rank."""
    columns = tuple(np.empty(room, np.int64) for _ in range(3))
    find = library().weft_late_posts
    find.restype = ctypes.c_int64
    found = find(ctypes.byref(clocks), ctypes.byref(given), *(_P(address(c)) for c in columns))
    if found < 0:
        raise MemoryError("no memory to look for late messages")
    return _cut(columns, found)


def late_members(clocks: Clocks, given: LateMembers, room: int) -> Waits:
    """Run weft_late_members."""
    columns = tuple(np.empty(room, np.int64) for _ in range(3))
    find = library().weft_late_members
    find.restype = _U64
    return _cut(columns, find(ctypes.byref(clocks), ctypes.byref(given), *(_P(address(c)) for c in columns)))


def _cut(columns: tuple[NDArray[Any], ...], length: int) -> Waits:
    one, two, three = (column[:length].copy() for column in columns)
    return one, two, three
