"""The byte layout of native/format.h as numpy dtypes and constants.

A test compiles format.h and holds every sizeof, offsetof and constant against this file.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAGIC: Final = b"WEFTRANK"
FORMAT_MAJOR: Final = 1
FORMAT_MINOR: Final = 4
PAGE: Final = 4096
HEADER_CHUNKS: Final = 156
TAIL_ALIGN: Final = 2
IN_PLACE: Final = 2**64 - 1
GUESSED: Final = 1
LEAVING: Final = 1
ENDING_FRAMES: Final = 128
COUNT_IN_TAIL: Final = 2**31 - 1
ERROR_OTHER: Final = 255

ANY_SOURCE: Final = -1
PROC_NULL: Final = -2
ROOT: Final = -3
RANK_INVALID_BASE: Final = -1000
ANY_TAG: Final = -1

ID_NONE: Final = 0
ID_NULL: Final = 1
ID_WORLD: Final = 2
ID_SELF: Final = 3
ID_DYNAMIC: Final = 256
WORLD_UNKNOWN: Final = 0xFFFF
MADE_UNKNOWN: Final = 0xFFFFFFFF


class StreamKind(IntEnum):
    """What a chunk holds."""

    EVENTS = 1
    TAILS = 2
    DEFINITIONS = 3
    OUTCOMES = 4
    TABLE = 5
    WINDOWS = 6
    ACCESSES = 7


class State(IntEnum):
    """How far the process came."""

    STARTING = 0
    RUNNING = 1
    FINALIZED = 2
    EXITED = 3
    ABORTED = 4
    STOPPED = 5


class StopReason(IntEnum):
    """Why Weft gave up recording."""

    NONE = 0
    DISK_FULL = 1
    NO_ADDRESS_SPACE = 2
    IO_ERROR = 3
    OVERFLOW = 4


class Clock(IntEnum):
    """What an event's ticks count."""

    MONOTONIC_NS = 0
    TSC = 1
    CNTVCT = 2


class Level(IntEnum):
    """How much was recorded."""

    OUTCOMES = 1
    TRACE = 2


class Flag(IntFlag):
    """Bits of an event's `flags`."""

    CLOSED = 0x01
    ANY_SOURCE = 0x02
    ANY_TAG = 0x04
    TRUE = 0x08
    CANCELLED = 0x10
    HAS_TAIL = 0x20
    BUFFER_CHANGED = 0x40
    TICKET = 0x80


class Def(IntEnum):
    """Types of DEFINITIONS records."""

    COMM = 1
    GROUP = 2
    DATATYPE = 3
    OP = 4
    WINDOW = 5
    FILE = 6
    NAME = 7
    THREAD = 8
    MODULE = 9
    SITE = 10
    PYCODE = 11
    WORLD = 12
    ENV = 13
    ARGV = 14
    CWD = 15
    LIBRARY = 16
    NOTE = 17
    PYTHON = 18
    ENDED = 19
    STORED = 20
    ENDING = 21
    CORES = 22
    WAY = 23
    BLOCKS = 24
    GIVEN_BACK = 25


class EndingKind(IntEnum):
    """What an ENDING definition tells."""

    EXCEPTION = 1
    EXIT = 2
    SIGNAL = 3
    ABORT = 4
    WHERE = 5
    RETURNED = 6
    NOT_INITIALISED = 7
    FINALISED = 8
    WARNED = 9


class ExitKind(IntEnum):
    """How a process came to its exit status: `detail` of an ENDING of kind EXIT."""

    UNKNOWN = 0
    EXIT = 1
    AT_ONCE = 2
    RETURN = 3
    PYTHON = 4
    FORTRAN = 5
    RUNTIME = 6


class ObjectClass(IntEnum):
    """Classes of handles; each has its own number space of object ids."""

    COMM = 1
    DATATYPE = 2
    GROUP = 3
    OP = 4
    REQUEST = 5
    WINDOW = 6
    FILE = 7
    INFO = 8
    ERRHANDLER = 9
    MESSAGE = 10
    SESSION = 11


class LogKind(IntEnum):
    """Kinds of outcomes in an OUTCOMES stream."""

    SOURCE = 0
    LATE = 1
    POLLS = 2
    INDEX = 3
    COUNT = 4
    CANCELLED = 5
    VALUE = 6
    THREAD = 7
    PROBED = 8
    DONE = 9
    TIME = 10


class AccessKind(IntEnum):
    """What a row of a WINDOWS stream is."""

    SHARED = 1
    EXCLUSIVE = 2
    FETCH = 3
    UPDATE = 4


class TouchKind(IntEnum):
    """What a row of an ACCESSES stream is: the sum of some up to VOLATILE for an access, else one for a hold."""

    READ = 1
    WRITE = 2
    ATOMIC = 4
    VOLATILE = 8
    SENT = 16
    WRITTEN = 17
    UNIFIED = 32
    SEPARATE = 33
    GONE = 34


class Change(IntEnum):
    """What an atomic access does to its place."""

    UNKNOWN = 0
    NONE = 1
    REPLACE = 2
    SUM = 3
    SWAP = 4


CHUNK: Final = np.dtype([("kind", "<u2"), ("thread", "<u2"), ("pages", "<u4"), ("offset", "<u8"), ("used", "<u8")])

ANCHOR: Final = np.dtype([("ticks", "<u8"), ("monotonic_ns", "<u8"), ("realtime_ns", "<u8")])

HEADER: Final = np.dtype(
    [
        ("magic", "S8"),
        ("major", "<u2"),
        ("minor", "<u2"),
        ("slot_size", "<u2"),
        ("clock", "u1"),
        ("level", "u1"),
        ("state", "<u4"),
        ("stop_reason", "<u4"),
        ("rank", "<i4"),
        ("world_size", "<i4"),
        ("pid", "<u4"),
        ("thread_level", "<u4"),
        ("chunk_count", "<u4"),
        ("threads", "<u4"),
        ("start", ANCHOR),
        ("end", ANCHOR),
        ("host", "S64"),
        ("job", "S128"),
        ("chunks", CHUNK, (HEADER_CHUNKS,)),
    ]
)

EVENT: Final = np.dtype(
    [
        ("enter", "<u8"),
        ("duration", "<u4"),
        ("function", "<u2"),
        ("flags", "u1"),
        ("error", "u1"),
        ("site", "<u4"),
        ("comm", "<u4"),
        ("peer", "<i4"),
        ("tag", "<i4"),
        ("datatype", "<u4"),
        ("count", "<i4"),
        ("result", "<u4"),
        ("object", "<u4"),
        ("buffer", "<u8"),
    ]
)

ACCESS: Final = np.dtype(
    [
        ("window", "<u8"), ("begin", "<u8"), ("held", "<u8"), ("end", "<u8"), ("place", "<i8"), ("operand", "<u8"),
        ("compare", "<u8"), ("result", "<u8"), ("ordinal", "<u4"), ("target", "<i4"), ("made", "<u4"), ("kind", "u1"),
        ("bytes", "u1"), ("change", "<u2"),
    ]
)  # fmt: skip

TOUCH: Final = np.dtype(
    [
        ("low", "<u8"), ("first", "<u8"), ("last", "<u8"), ("event", "<u8"), ("count", "<u8"), ("stride", "<u8"),
        ("site", "<u4"), ("size", "<u4"), ("object", "<u4"), ("again", "<u4"), ("thread", "<u2"), ("kind", "u1"),
        ("dropped", "u1"), ("tid", "<u4"),
    ]
)  # fmt: skip
NO_EVENTS: Final = 2**64 - 1
"""The `event` of a TOUCH of a thread that makes no calls."""

Events = NDArray[Any]
"""A structured array of dtype EVENT."""

DURATION_MANTISSA: Final = 0x3FFFFFFF


def decode_durations(encoded: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Ticks of encoded durations: 2 bits of exponent (times 1, 2^8, 2^16, 2^24) over 30 bits of mantissa."""
    wide = encoded.astype(np.uint64)
    shift = (wide >> np.uint64(30)) * np.uint64(8)
    ticks: NDArray[np.uint64] = np.left_shift(wide & np.uint64(DURATION_MANTISSA), shift)
    return ticks


def decode_duration(encoded: int) -> int:
    """Ticks of one encoded duration."""
    return (encoded & DURATION_MANTISSA) << (8 * (encoded >> 30))


def encode_duration(ticks: int) -> int:
    """The mirror of weft_duration_encode in format.h."""
    exponent = 0
    while ticks >> 30 and exponent < 3:
        ticks >>= 8
        exponent += 1
    return exponent << 30 | min(ticks, DURATION_MANTISSA)


def raw_rank(peer: int) -> int:
    """The rank argument as the program gave it, out of a slot's `peer`."""
    return peer - RANK_INVALID_BASE if peer < RANK_INVALID_BASE else peer
