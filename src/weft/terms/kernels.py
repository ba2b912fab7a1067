"""Call the C kernels of this room (native/kernel/columns.c, scan.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.native.bridge import as_c_array
from weft.native.headers import scan
from weft.native.headers.columns import Column, ColumnsInput, kernel


def run_decode(given: ColumnsInput, columns: Sequence[Column], *, fill: bool) -> None:
    """Decode the arguments of the events in `given` in C, into the arrays of `columns`. With fill=False only lengths
    are counted.
    """
    kernel().weft_decode_columns(given, as_c_array(columns, Column), fill)


def fill_catalogue(
    events: NDArray[Any], function: NDArray[np.uint16], counts: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Fill `function` (the function of each event) and `counts` (calls by function) in C. Return how many events
    failed, how many are open, and how many saw a changed buffer.
    """
    found = np.zeros(1, scan.CATALOGUE)
    scan.kernel().weft_count_events(np.ascontiguousarray(events), len(events), function, counts, found)
    failed, unfinished, changed = (int(found[name][0]) for name in ("failed", "open", "changed"))
    return failed, unfinished, changed


def find_rows_where_true(function: NDArray[np.uint16], table: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Return the rows whose function id is True in `table`, computed in C. `count`: how many rows there are."""
    rows = np.empty(count + 1, np.int64)
    scan.kernel().weft_find_function_rows(function, len(function), table, rows)
    return rows[:count]
