"""Pending buffers that overlap, against the obvious definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.terms.spread import no_shapes
from weft.usage.overlaps import Accesses, overlaps

ROW = st.tuples(st.integers(0, 12), st.integers(0, 20), st.integers(1, 8), st.booleans(), st.integers(0, 3))
"""How long it is pending, its first byte, bytes, whether it writes, its line."""


def made(rows: list[tuple[int, int, int, bool, int]]) -> tuple[Accesses, np.ndarray]:
    begin = np.arange(len(rows), dtype=np.int64)
    span, low, size, writes, site = (np.array([r[i] for r in rows]) for i in range(5))
    low = low.astype(np.uint64)
    accesses = Accesses(
        begin, begin + span, begin, low, low + size.astype(np.uint64), writes.astype(np.bool_), no_shapes(len(rows))
    )
    return accesses, site.astype(np.uint32)


@settings(max_examples=300, deadline=None)
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
    found = overlaps(accesses, site, len(rows)).pairs
    assert set(found) <= meet
    assert len(found) == len({(site[a], site[b]) for a, b in found})
    assert {(site[a], site[b]) for a, b in found} == {(site[a], site[b]) for a, b in meet}


def test_a_hundred_thousand_pending_on_one_buffer_are_told_once() -> None:
    n = 100_000
    accesses, site = made([(n, 0, 8, True, 1)] * n)
    assert len(overlaps(accesses, site, n).pairs) == 1
