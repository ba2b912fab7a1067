"""The C side of waits: the structures that mirror native/kernel/waits.c."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.match import Posts
from weft.match.native import address
from weft.native.kernel import library
from weft.trace import Rank
from weft.trace.clock import MOST_NS

Ints = NDArray[np.int64]

NO_ROW = 0xFFFFFFFF

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64
_I64 = ctypes.c_int64


class Clocks(ctypes.Structure):
    """struct weft_clocks."""

    _fields_ = (("event_first", _P), ("events", _P), ("axes", _P))


class Span(ctypes.Structure):
    """struct weft_span."""

    _fields_ = (
        ("first_enter", _I64), ("last_exit", _I64), ("least_enter", _I64), ("most", _I64), ("polling", _I64),
        ("open", _U64),
    )  # fmt: skip


class Axis(ctypes.Structure):
    """struct weft_axis."""

    _fields_ = (("start", _U64), ("origin", _I64), ("length", ctypes.c_double), ("most", ctypes.c_double))


class FoundView(ctypes.Structure):
    """struct weft_found."""

    _fields_ = (("best", _P), ("waiter", _P), ("cost", _P), ("culprit", _P), ("cause", _P), ("found", _U64))


class Messages(ctypes.Structure):
    """struct weft_messages."""

    _fields_ = (
        ("rank", ctypes.c_uint32), ("size_count", ctypes.c_uint32), ("first", _P), ("event", _P), ("args", _P),
        ("completion", _P), ("partner", _P), ("their_event", _P), ("their_args", _P), ("peer", _P), ("flags", _P),
        ("their_flags", _P), ("blocks", _P), ("host", _P), ("sizes", _P), ("rendezvous", _I64 * 2),
    )  # fmt: skip


class LateMembers(ctypes.Structure):
    """struct weft_late_members."""

    _fields_ = (
        ("instances", _U64), ("first", _P), ("rows", _P), ("rank", _P), ("event", _P), ("completion", _P),
        ("function", _P), ("sort", _P), ("comm", _P), ("member_first", _P), ("members", _P), ("blocks", _P),
        ("host", _P), ("place", _P),
    )  # fmt: skip


class Found:
    """The waits found so far, with room for `room`: struct weft_found and its columns."""

    def __init__(self, events: int, room: int) -> None:
        self._best = np.full(events, NO_ROW, np.uint32)
        self._columns = tuple(np.empty(room, np.int64) for _ in range(3))
        self._cause = np.empty(room, np.uint8)
        self.view = FoundView(address(self._best), *(address(c) for c in self._columns), address(self._cause), 0)

    def columns(self) -> tuple[Ints, Ints, Ints, NDArray[np.uint8]]:
        """Places that waited, ns, places that were late, causes; only what cost time."""
        found = int(self.view.found)
        kept = np.flatnonzero(self._columns[1][:found] > 0)
        waiter, cost, culprit = (column[kept] for column in self._columns)
        return waiter, cost, culprit, self._cause[kept]


def fill_times(rank: Rank, enter: Ints, leave: Ints) -> None:
    """Write the times of a rank's events, ns, as Rank.enter_ns and exit_ns give them."""
    events = np.ascontiguousarray(rank.events)
    library().weft_times(
        _P(address(events)), _U64(len(events)), ctypes.byref(axis_of(rank)), _P(address(enter)), _P(address(leave))
    )


def axis_of(rank: Rank) -> Axis:
    """The rank's clock."""
    return Axis(rank.axis.start, rank.axis.origin, rank.axis.length, MOST_NS)


def span(rank: Rank, blocks: NDArray[np.uint8], causes: NDArray[np.uint8], count: int) -> tuple[Span, Ints]:
    """What is asked of all times of a rank together, and the time inside its calls by one of `count` causes."""
    events, found, inside = np.ascontiguousarray(rank.events), Span(), np.zeros(count, np.int64)
    library().weft_span(
        _P(address(events)), _U64(len(events)), ctypes.byref(axis_of(rank)), _P(address(blocks)),
        _P(address(causes)), ctypes.byref(found), _P(address(inside)),
    )  # fmt: skip
    return found, inside


class Surroundings(NamedTuple):
    """What all ranks' messages are read with: causes.blocks, and the number of each rank's host."""

    blocks: NDArray[np.uint8]
    host: NDArray[np.int32]


def messages(mine: Posts, theirs: Posts, around: Surroundings, sizes: list[Ints]) -> list[Messages]:
    """The ranks' messages as C reads them; the caller keeps the arrays alive. No standard send waits as yet."""
    most = np.iinfo(np.int64).max
    at = address
    given = Messages(
        0, 0, at(mine.first), at(mine.event), at(mine.args), at(mine.completion), at(mine.partner),
        at(theirs.event), at(theirs.args), at(mine.peer), at(mine.flags), at(theirs.flags), at(around.blocks),
        at(around.host), None, (_I64 * 2)(most, most),
    )  # fmt: skip
    found = []
    for rank, table in enumerate(sizes):
        own = Messages.from_buffer_copy(given)
        own.rank, own.size_count, own.sizes = rank, len(table), at(table)
        found.append(own)
    return found


def late_senders(clocks: Clocks, given: Messages, found: Found) -> None:
    """Run weft_late_senders for one rank."""
    library().weft_late_senders(ctypes.byref(clocks), ctypes.byref(given), ctypes.byref(found.view))


def late_receivers(clocks: Clocks, given: Messages, found: Found) -> None:
    """Run weft_late_receivers for one rank."""
    library().weft_late_receivers(ctypes.byref(clocks), ctypes.byref(given), ctypes.byref(found.view))


def late_members(clocks: Clocks, given: LateMembers, found: Found) -> None:
    """Run weft_late_members."""
    library().weft_late_members(ctypes.byref(clocks), ctypes.byref(given), ctypes.byref(found.view))


def protocol(clocks: Clocks, sends: Messages, recvs: Messages, eager: Ints, room: int) -> Ints:
    """Run weft_protocol for one rank: raises `eager`, returns the sends that clearly blocked as bytes * 2 + far."""
    blocked = np.empty(room, np.int64)
    find = library().weft_protocol
    find.restype = _I64
    found = find(
        ctypes.byref(clocks), ctypes.byref(sends), ctypes.byref(recvs), _P(address(eager)), _P(address(blocked))
    )
    if found < 0:
        raise MemoryError("no memory to look for the protocol of messages")
    return blocked[:found].copy()
