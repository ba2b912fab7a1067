"""Groups rows by a key, sorted in C (native/kernel/match.c)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.native.headers.match import kernel


def group_rows(key: NDArray[np.uint32], key_count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return (first, rows) that group rows by their key: `rows[first[k]:first[k + 1]]` are the rows with key k, in
    order.

    Rows with keys of `key_count` or more are left out.
    """
    key = np.ascontiguousarray(key, np.uint32)
    first = np.empty(key_count + 1, np.uint64)
    rows = np.empty(len(key), np.uint32)
    kernel().weft_group_rows(len(key), key, key_count, first, rows)
    return first, rows[: int(first[-1])]
