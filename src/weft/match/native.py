"""The C side of matching: ctypes structures that mirror native/kernel/ops.h, extract.c and match.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.native.kernel import library

_U64 = ctypes.c_uint64
_POINTER = ctypes.c_void_p


class ExtractInput(ctypes.Structure):
    """struct weft_extract_input. Whoever fills it keeps the arrays alive."""

    _fields_ = (
        ("events", _POINTER),
        ("event_count", _U64),
        ("threads", _POINTER),
        ("tails", _POINTER),
        ("tail_bytes", _POINTER),
        ("specs", _POINTER),
        ("spec_count", ctypes.c_uint32),
        ("programs", _POINTER),
        ("comms", _POINTER),
        ("comm_count", ctypes.c_uint32),
        ("peers", _POINTER),
        ("world", ctypes.c_int32),
    )


class PostColumns(ctypes.Structure):
    """struct weft_post_columns."""

    _fields_ = tuple((n, _POINTER) for n in ("event", "args", "completion", "decided", "comm", "peer", "tag", "flags"))


class CollColumns(ctypes.Structure):
    """struct weft_coll_columns."""

    _fields_ = tuple((n, _POINTER) for n in ("event", "completion", "comm", "parent", "ordinal", "function", "flags"))


class PostsView(ctypes.Structure):
    """struct weft_posts."""

    _fields_ = tuple((n, _POINTER) for n in ("first", "event", "comm", "peer", "tag", "flags"))


def address(array: NDArray[Any] | None) -> int | None:
    """Where a contiguous array lies; the caller keeps it alive."""
    return None if array is None else array.ctypes.data


def addresses(arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Where several arrays lie, as C reads a pointer array."""
    return np.array([a.ctypes.data for a in arrays], np.uint64)


@cache
def kernel() -> ctypes.CDLL:
    """The kernels, with the types of the functions used here."""
    lib = library()
    lib.weft_extract.restype = _POINTER
    lib.weft_extract.argtypes = [ctypes.POINTER(ExtractInput), _POINTER, ctypes.POINTER(_U64 * 4)]
    lib.weft_extract_most.argtypes = [ctypes.POINTER(ExtractInput), ctypes.POINTER(_U64 * 4)]
    lib.weft_extract_most.restype = None
    lib.weft_ops_free.argtypes = [_POINTER]
    lib.weft_ops_free.restype = None
    lib.weft_ops_posts.argtypes = [_POINTER, ctypes.c_int, ctypes.POINTER(PostColumns), _U64]
    lib.weft_ops_posts.restype = None
    lib.weft_ops_colls.argtypes = [_POINTER, ctypes.POINTER(CollColumns), _U64]
    lib.weft_ops_colls.restype = None
    lib.weft_completions.restype = _POINTER
    lib.weft_completions.argtypes = [ctypes.POINTER(ExtractInput), ctypes.POINTER(_U64)]
    lib.weft_completions_take.argtypes = [_POINTER] * 3
    lib.weft_completions_take.restype = None
    view = ctypes.POINTER(PostsView)
    lib.weft_match.argtypes = [*[ctypes.c_uint32] * 3, view, view, view, *[_POINTER] * 4]
    lib.weft_match.restype = ctypes.c_int
    lib.weft_group.argtypes = [_U64, _POINTER, _U64, _POINTER, _POINTER]
    lib.weft_group.restype = None
    return lib


def group(key: NDArray[np.uint32], keys: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Counting sort: `rows[first[k]:first[k + 1]]` are the rows with key k in order. Keys beyond are left out."""
    key = np.ascontiguousarray(key, np.uint32)
    first = np.empty(keys + 1, np.uint64)
    rows = np.empty(len(key), np.uint32)
    kernel().weft_group(len(key), address(key), keys, address(first), address(rows))
    return first, rows[: int(first[-1])]
