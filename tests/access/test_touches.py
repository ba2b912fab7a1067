"""Which accesses meet the parts of a buffer, held against each byte of them."""

from __future__ import annotations

import numpy as np

from weft.access.recorded_accesses import AccessTable, ByteRanges
from weft.terms.argument_columns import Ints


def touches(low: Ints, size: Ints, stride: Ints, count: Ints) -> AccessTable:
    none = np.zeros(len(low), np.int64)
    return AccessTable(low, low + (count - 1) * stride + size, size, stride, count, *[none] * 9)


def brute(low: int, size: int, stride: int, count: int, parts: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The first of the parts that an access has bytes of, and the first access's bytes in it."""
    for begin, end in parts:
        for k in range(count):
            one, last = max(low + k * stride, begin), min(low + k * stride + size, end)
            if one < last:
                return one, last
    return None


def test_the_first_part_that_accesses_meet_is_that_of_a_search_byte_by_byte() -> None:
    made = np.random.default_rng(5)
    met = apart = 0
    for _ in range(1500):
        number = int(made.integers(1, 8))
        if made.random() < 0.5:  # a column of a matrix
            starts = made.integers(0, 40) + made.integers(9, 30) * np.arange(number)
        else:
            starts = 10 * np.cumsum(made.integers(1, 5, number))
        lengths = made.integers(1, 9, number)
        parts = ByteRanges(starts, starts + lengths)
        size = made.integers(1, 9, 12)
        stride = np.where(made.random(12) < 0.5, int(starts[-1] - starts[0]) // max(number - 1, 1) or 9, size)
        rows = touches(made.integers(0, 90, 12), size, np.maximum(stride, size), made.integers(1, 7, 12))
        near = rows.select_rows_near(np.arange(12), parts).tolist()
        pairs = list(zip(starts.tolist(), (starts + lengths).tolist(), strict=True))
        for row in range(12):
            said = brute(*(int(c[row]) for c in (rows.low, rows.size, rows.stride, rows.count)), pairs)
            assert rows.find_overlap_with_ranges(row, parts) == said
            assert said is None or row in near
            met += said is not None
            apart += said is None and row not in near
    assert met > 1000 and apart > 1000


def test_nothing_is_near_a_buffer_whose_parts_are_not_known() -> None:
    none = np.zeros(0, np.int64)
    rows = touches(*(np.array([n]) for n in (0, 8, 8, 4)))
    assert len(rows.select_rows_near(np.arange(1), ByteRanges(none, none))) == 0
