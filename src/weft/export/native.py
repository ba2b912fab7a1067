"""The C side of export/lines.py: the structures that mirror native/kernel/rows.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.native.kernel import library

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64
_U32 = ctypes.c_uint32

PART: Final = np.dtype(
    [("place", "u1"), ("code", "u1"), ("handle", "u1"), ("bits", "u1"), ("in", "<i2"), ("out", "<i2"),
     ("label", "<u4"), ("label_out", "<u4")]
)  # fmt: skip
"""struct weft_part."""

FUNCTION: Final = np.dtype(
    [("name", "<u4"), ("bits", "u1"), ("entry_steps", "u1"), ("steps", "u1"), ("parts", "u1"), ("first_step", "<u4"),
     ("first_part", "<u4")]
)  # fmt: skip
"""struct weft_row_function."""


class Texts(ctypes.Structure):
    """struct weft_texts."""

    _fields_ = (("bytes", _P), ("at", _P))


class Names(ctypes.Structure):
    """struct weft_names."""

    _fields_ = (("ids", _P), ("count", _U64), ("own", Texts), ("prefix", _U32))


class RankOfRows(ctypes.Structure):
    """struct weft_row_rank. Whoever fills it keeps the arrays alive."""

    _fields_ = (
        ("events", _P), ("threads", _P), ("slots", _P), ("tails", _P), ("tail_bytes", _P), ("names", _P),
        ("index", _U64),
    )  # fmt: skip


class RowsInput(ctypes.Structure):
    """struct weft_rows_input. Whoever fills it keeps the arrays alive."""

    _fields_ = (
        ("ranks", _P), ("function_of", _P), ("functions", _P), ("step_codes", _P), ("parts", _P),
        ("words", Texts), ("sites", Texts), ("tasks", Texts), ("comms", Texts),
        ("rank", _P), ("index", _P), ("enter", _P), ("leave", _P), ("site", _P), ("task", _P), ("comm", _P),
        *((name, _U32) for name in ("json", "with_tasks", "threaded")),
        *((f"{name}_width", _U32) for name in ("time", "rank", "event", "took")),
    )  # fmt: skip


class TextTable:
    """Texts that C copies. `structure` is what it gets; the table must outlive it."""

    def __init__(self, texts: Sequence[str]) -> None:
        # A record may hold what UTF-8 cannot say.
        encoded = [text.encode("utf-8", "backslashreplace") for text in texts]
        self._bytes = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        self._at = np.concatenate([[0], np.cumsum([len(text) for text in encoded], dtype=np.uint64)]).astype(np.uint64)
        self.structure = Texts(self._bytes.ctypes.data, self._at.ctypes.data)


def rows(given: RowsInput, start: int, stop: int, buffer: NDArray[Any]) -> tuple[int, int]:
    """Run weft_rows: the first row that it did not write, and how many bytes of the buffer it used."""
    used = _U64()
    call = library().weft_rows
    call.restype = _U64
    done = call(
        ctypes.byref(given), _U64(start), _U64(stop), _P(buffer.ctypes.data), _U64(len(buffer)), ctypes.byref(used)
    )
    return int(done), int(used.value)
