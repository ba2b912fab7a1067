"""The record's layout, as native/format.h draws it, and what else a reader needs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.native.headers import format as drawn
from weft.native.headers.format import (
    ACCESS,
    ANCHOR,
    BEFORE,
    CHUNK,
    CONTENT_MOST,
    DROPPED,
    DROPPED_MOST,
    DROPPED_RECEIVED,
    ENDING_FRAMES,
    ERROR_OTHER,
    EVENT,
    FORMAT_MAJOR,
    FORMAT_MAJOR_KEPT,
    FORMAT_MINOR,
    GUESSED,
    HASHED,
    HEADER,
    HEADER_CHUNKS,
    ID_DYNAMIC,
    ID_NONE,
    ID_NULL,
    ID_SELF,
    ID_WORLD,
    IN_PLACE,
    LEAVING,
    MADE_UNKNOWN,
    NUMBER_SHIFT,
    NUMBERS,
    OTHER_TIDS,
    PAGE,
    RANK_INVALID_BASE,
    RECEIVED,
    TAIL_ALIGN,
    TOUCH,
    WORLD_UNKNOWN,
    AccessKind,
    Change,
    Clock,
    Def,
    EndingKind,
    ExitKind,
    Flag,
    HashSide,
    Level,
    LogKind,
    ObjectClass,
    State,
    StopReason,
    StreamKind,
    TouchKind,
)  # fmt: skip
from weft.native.headers.format import TOUCH_NO_EVENTS as NO_EVENTS

__all__ = [
    "ACCESS",
    "ANCHOR",
    "ANY_SOURCE",
    "ANY_TAG",
    "BEFORE",
    "CHUNK",
    "CONTENT_MOST",
    "COUNT_IN_TAIL",
    "DROPPED",
    "DROPPED_MOST",
    "DROPPED_RECEIVED",
    "DURATION_MANTISSA",
    "ENDING_FRAMES",
    "ERROR_OTHER",
    "EVENT",
    "FORMAT_MAJOR",
    "FORMAT_MAJOR_KEPT",
    "FORMAT_MINOR",
    "GUESSED",
    "HASHED",
    "HEADER",
    "HEADER_CHUNKS",
    "ID_DYNAMIC",
    "ID_NONE",
    "ID_NULL",
    "ID_SELF",
    "ID_WORLD",
    "IN_PLACE",
    "LEAVING",
    "MADE_UNKNOWN",
    "MAGIC",
    "NO_EVENTS",
    "NUMBERS",
    "NUMBER_SHIFT",
    "OTHER_TIDS",
    "PAGE",
    "PROC_NULL",
    "RANK_INVALID_BASE",
    "RECEIVED",
    "ROOT",
    "TAIL_ALIGN",
    "TOUCH",
    "WORLD_UNKNOWN",
    "AccessKind",
    "Change",
    "Clock",
    "Def",
    "EndingKind",
    "Events",
    "ExitKind",
    "Flag",
    "HashSide",
    "Level",
    "LogKind",
    "ObjectClass",
    "State",
    "StopReason",
    "StreamKind",
    "TouchKind",
    "compute_return_ticks",
    "decode_duration",
    "decode_durations",
    "encode_duration",
    "raw_rank",
]  # fmt: skip

MAGIC: Final = drawn.MAGIC.encode()
COUNT_IN_TAIL: Final = 2**31 - 1

ANY_SOURCE: Final = drawn.RANK_ANY_SOURCE
PROC_NULL: Final = drawn.RANK_PROC_NULL
ROOT: Final = drawn.RANK_ROOT
ANY_TAG: Final = drawn.TAG_ANY

Events = NDArray[Any]
"""A structured array of dtype EVENT."""

DURATION_MANTISSA: Final = 0x3FFFFFFF


def decode_durations(encoded: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the ticks of encoded durations: 2 bits of exponent (times 1, 2^8, 2^16, 2^24) over 30 bits of mantissa."""
    wide = encoded.astype(np.uint64)
    shift = (wide >> np.uint64(30)) * np.uint64(8)
    ticks: NDArray[np.uint64] = np.left_shift(wide & np.uint64(DURATION_MANTISSA), shift)
    return ticks


def compute_return_ticks(events: Events) -> NDArray[np.uint64]:
    """Return the ticks at which calls returned; of a call that is open, those at which it began."""
    ticks: NDArray[np.uint64] = events["enter"] + decode_durations(events["duration"])
    return ticks


def decode_duration(encoded: int) -> int:
    """Return the ticks of one encoded duration."""
    return (encoded & DURATION_MANTISSA) << (8 * (encoded >> 30))


def encode_duration(ticks: int) -> int:
    """Encode a duration in ticks, as weft_duration_encode in format.h does."""
    exponent = 0
    while ticks >> 30 and exponent < 3:
        ticks >>= 8
        exponent += 1
    return exponent << 30 | min(ticks, DURATION_MANTISSA)


def raw_rank(peer: int) -> int:
    """Return the rank argument as the program gave it, from a slot's `peer`."""
    return peer - RANK_INVALID_BASE if peer < RANK_INVALID_BASE else peer
