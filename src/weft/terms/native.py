"""The C side of terms: the structures that mirror native/kernel/columns.c, scan.c and requests.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.match.native import address
from weft.native.kernel import library

__all__ = ["ColumnPlace", "ColumnsInput", "address", "catalogue", "decode", "where"]

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64


class ColumnPlace(ctypes.Structure):
    """struct weft_column. Whoever fills it keeps the arrays alive."""

    _fields_ = (
        ("wanted", ctypes.c_uint8), ("code", ctypes.c_uint8), ("starts", _P), ("values", _P), ("tag", _P),
        ("bytes", _P), ("error", _P), ("known", _P), ("cancelled", _P),
    )  # fmt: skip


class ColumnsInput(ctypes.Structure):
    """struct weft_columns_input."""

    _fields_ = (
        ("events", _P), ("which", _P), ("count", _U64), ("tails", _P), ("tail_bytes", _U64),
        ("entry_steps", ctypes.c_uint32), ("steps", ctypes.c_uint32), ("poll", ctypes.c_uint32),
    )  # fmt: skip


def decode(given: ColumnsInput, columns: Sequence[ColumnPlace], *, fill: bool) -> None:
    """Run weft_columns over the events of `given`; what it fills are the columns' arrays."""
    places = (ColumnPlace * len(columns))(*columns)
    library().weft_columns(ctypes.byref(given), places, ctypes.c_int(fill))


def catalogue(events: NDArray[Any], function: NDArray[np.uint16], counts: NDArray[np.int64]) -> tuple[int, int, int]:
    """Run weft_catalogue: fills both arrays, returns how many events failed, are open, saw a changed buffer."""
    slots = np.ascontiguousarray(events)
    found = (_U64 * 3)()
    library().weft_catalogue(_P(address(slots)), _U64(len(slots)), _P(address(function)), _P(address(counts)), found)
    return found[0], found[1], found[2]


def where(function: NDArray[np.uint16], table: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Run weft_where: the rows, `count` of them, whose function is True in the table."""
    rows = np.empty(count + 1, np.int64)
    library().weft_where(_P(address(function)), _U64(len(function)), _P(address(table)), _P(address(rows)))
    return rows[:count]
