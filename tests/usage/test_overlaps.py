"""Pending buffers that overlap, against the obvious definition."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.terms.buffer_blocks import empty_shapes
from weft.terms.byte_layouts import Layout
from weft.terms.strided_blocks import Strided
from weft.usage.pending_buffers import BufferAccesses, find_overlapping_rows

ROW = st.tuples(st.integers(0, 12), st.integers(0, 20), st.integers(1, 8), st.booleans(), st.integers(0, 3))
"""How long it is pending, its first byte, bytes, whether it writes, its line."""


def made(rows: list[tuple[int, int, int, bool, int]]) -> tuple[BufferAccesses, np.ndarray]:
    begin = np.arange(len(rows), dtype=np.int64)
    span, low, size, writes, site = (np.array([r[i] for r in rows]) for i in range(5))
    low = low.astype(np.uint64)
    accesses = BufferAccesses(
        begin, begin + span, begin, low, low + size.astype(np.uint64), writes.astype(np.bool_), empty_shapes(len(rows))
    )
    return accesses, site.astype(np.uint32)


@settings(max_examples=120, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=40))
def test_the_sweep_finds_the_lines_that_the_definition_finds(rows: list[tuple[int, int, int, bool, int]]) -> None:
    accesses, site = made(rows)
    meet = {
        (a, b)
        for b in range(len(rows))
        for a in range(b)
        if a + rows[a][0] > b
        and rows[a][1] < rows[b][1] + rows[b][2]
        and rows[b][1] < rows[a][1] + rows[a][2]
        and (rows[a][3] or rows[b][3])
    }
    found = find_overlapping_rows(accesses, site, len(rows)).pairs
    assert set(found) <= meet
    assert len(found) == len({(site[a], site[b]) for a, b in found})
    assert {(site[a], site[b]) for a, b in found} == {(site[a], site[b]) for a, b in meet}


def test_a_hundred_thousand_pending_on_one_buffer_are_told_once() -> None:
    n = 100_000
    accesses, site = made([(n, 0, 8, True, 1)] * n)
    assert len(find_overlapping_rows(accesses, site, n).pairs) == 1


SHAPES = [
    None, Layout([Strided(0, 2)], 5, 4), Layout([Strided(0, 1), Strided(3, 2)], 7, 3), Layout([Strided(0, 3)], 6, 3),
    Layout([Strided(0, 1, ((9, 2), (2, 3)))]),
]  # fmt: skip
"""All bytes, or those of a layout."""


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(ROW, st.integers(0, len(SHAPES) - 1)), min_size=1, max_size=20))
def test_rows_with_gaps_are_told_where_bytes_of_theirs_meet(
    rows: list[tuple[tuple[int, int, int, bool, int], int]],
) -> None:
    plain, site = made([row for row, _ in rows])
    shape = empty_shapes(len(rows))
    high = plain.high.copy()
    bytes_of = []
    for k, (row, number) in enumerate(rows):
        layout = SHAPES[number]
        shape[k] = layout
        if layout is None:
            bytes_of.append(set(range(row[1], row[1] + row[2])))
            continue
        high[k] = row[1] + layout.high
        each = layout.blocks()
        assert each is not None
        bytes_of.append({row[1] + int(at) + i for at, n in zip(*each, strict=True) for i in range(int(n))})
    accesses = BufferAccesses(plain.begin, plain.end, plain.args, plain.low, high, plain.writes, shape)
    meet = {
        (a, b)
        for b in range(len(rows))
        for a in range(b)
        if a + rows[a][0][0] > b and bytes_of[a] & bytes_of[b] and (rows[a][0][3] or rows[b][0][3])
    }
    found = find_overlapping_rows(accesses, site, len(rows))
    assert found.undecided is None
    assert set(found.pairs) <= meet
    assert {(site[a], site[b]) for a, b in found.pairs} == {(site[a], site[b]) for a, b in meet}


def test_many_pending_layouts_that_never_meet_end_in_their_budget() -> None:
    n = 3000
    accesses, site = made([(n, 16 * k, 8, k == 0, 1) for k in range(n)])
    shape, layout = empty_shapes(n), Layout([Strided(0, 8)], 16 * n, 1000)
    shape.fill(layout)
    accesses = BufferAccesses(
        accesses.begin, accesses.end, accesses.args, accesses.low, accesses.low + np.uint64(layout.high),
        np.ones(n, np.bool_), shape,
    )  # fmt: skip
    begun = time.process_time()
    found = find_overlapping_rows(accesses, site, n)
    assert found.pairs == []
    assert time.process_time() - begun < 5
