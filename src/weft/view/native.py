"""The C side of the view: the structures that mirror native/kernel/view.c and levels.c."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

import numpy as np

from weft.native.kernel import library

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64
_I64 = ctypes.c_int64

STEP: Final = 4096
"""Units of a logical step on a Timeline, as in view.c."""

BOX: Final = np.dtype(
    [("start", "<i8"), ("end", "<i8"), ("index", "<u4"), ("function", "<u2"), ("class", "u1"), ("flags", "u1")]
)
"""struct weft_box."""


class Row(ctypes.Structure):
    """struct weft_row. Whoever fills it keeps the arrays alive."""

    _fields_ = (
        ("events", _P), ("count", _U64), ("axis", _P), ("ends", _P), ("last", _I64), ("block", _U64), ("starts", _P),
        ("sums", _P),
    )  # fmt: skip


class Lanes(ctypes.Structure):
    """struct weft_lanes."""

    _fields_ = (("rows", _P), ("count", _U64), ("first", _P), ("of", _P), ("edges", _P), ("columns", _U64))


class Steps(ctypes.Structure):
    """struct weft_steps."""

    _fields_ = (
        ("rows", _U64), ("first", _P), ("messages", _U64), ("message_to", _P), ("message_from", _P),
        ("arrivals", _U64), ("arrival", _P), ("arrival_of", _P), ("departures", _U64), ("departure", _P),
        ("departure_of", _P), ("gatherings", _U64), ("parts", _P),
    )  # fmt: skip


@cache
def kernel() -> ctypes.CDLL:
    """The kernels, with the types of the functions used here."""
    lib = library()
    row, lanes = ctypes.POINTER(Row), ctypes.POINTER(Lanes)
    lib.weft_view_index.argtypes = [row, _P, _P, _U64, _I64]
    lib.weft_view_columns.argtypes = [lanes, _P, _U64, _U64, _P, _P]
    lib.weft_view_range.argtypes = [_P, _U64, _I64, _I64, _P, _P]
    lib.weft_view_boxes.argtypes = [row, _P, _U64, _U64, _P]
    lib.weft_view_times.argtypes = [_P, _P, _P, _U64, _P, _P]
    lib.weft_levels.argtypes = [ctypes.POINTER(Steps), _P]
    lib.weft_levels.restype = ctypes.c_int
    for name in ("index", "columns", "range", "boxes", "times"):
        getattr(lib, f"weft_view_{name}").restype = None
    return lib
