"""Pixel columns: what they show is exactly what a slow scan of the calls gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.picture.classes import CLASSES, class_number_of
from weft.picture.pixel_columns import class_totals, column_edges, thread_columns
from weft.trace import Trace
from weft.trace.builder import Builder

NAMES = ["MPI_Barrier", "MPI_Comm_rank", "MPI_Win_create", "MPI_Send"]


def run_of(calls: list[tuple[int, int, int]], last_open: bool) -> Trace:
    """Calls as (gap before it, length, which function)."""
    b = Builder(ranks=1)
    at = 0
    for n, (gap, length, which) in enumerate(calls):
        opened = last_open and n == len(calls) - 1
        b.ranks[0].call(NAMES[which], enter=at + gap, exit=at + gap + length, open=opened)
        at += gap + length
    return b.open()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 70), st.integers(0, 3)), min_size=1, max_size=40),
    st.booleans(),
    st.integers(0, 400),
    st.integers(1, 2000),
    st.integers(1, 60),
)
def test_columns_equal_a_brute_force_scan(
    calls: list[tuple[int, int, int]], opened: bool, start: int, span: int, width: int
) -> None:
    trace = run_of(calls, opened)
    last = 5000
    borders = column_edges(start, start + span, width)
    found = class_totals(thread_columns(trace.ranks[0].threads[0], borders, last), borders)
    wanted = np.zeros((width, len(CLASSES)), np.int64)
    for event in trace.ranks[0]:
        leave = last if event.exit_ns is None else event.exit_ns
        for column in range(width):
            inside = min(leave, int(borders[column + 1])) - max(event.enter_ns, int(borders[column]))
            wanted[column, class_number_of(event.function.name)] += max(inside, 0)
    assert (found == wanted).all()


def test_what_is_narrower_than_a_pixel_is_no_box_and_what_is_open_always_is() -> None:
    trace = run_of([(0, 10, 0), (0, 200, 1), (5, 1, 2)], last_open=True)
    found = thread_columns(trace.ranks[0].threads[0], column_edges(0, 1000, 10), 216)
    assert found.boxes.position.tolist() == [1, 2] and found.boxes.open.tolist() == [False, True]
    assert found.short.sum() == 10


def test_columns_have_no_gap_and_none_is_empty() -> None:
    assert column_edges(0, 3, 10).tolist() == list(range(11))
    assert column_edges(7, 1007, 3).tolist() == [7, 340, 673, 1007]
    wide = column_edges(0, 2**62, 1000)
    assert (np.diff(wide) > 0).all() and wide[-1] == 2**62
