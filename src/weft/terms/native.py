"""The C side of columns: the structures that mirror native/kernel/columns.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from weft.match.native import address
from weft.native.kernel import library

__all__ = ["ColumnPlace", "ColumnsInput", "address", "decode"]

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
        ("entry_steps", ctypes.c_uint32), ("steps", ctypes.c_uint32),
    )  # fmt: skip


def decode(given: ColumnsInput, columns: Sequence[ColumnPlace], *, fill: bool) -> None:
    """Run weft_columns over the events of `given`; what it fills are the columns' arrays."""
    places = (ColumnPlace * len(columns))(*columns)
    library().weft_columns(ctypes.byref(given), places, ctypes.c_int(fill))
