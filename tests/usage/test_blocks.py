"""Blocks of two buffers: whether they meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.terms.blocks import Block, meet, subarray

STEPS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=6)


def laid(steps: list[tuple[int, int]], at: int) -> list[Block]:
    """Blocks in the order of memory: gaps and lengths."""
    made = []
    for gap, length in steps:
        made.append((at + gap, length))
        at += gap + length
    return made


@given(STEPS, STEPS, st.integers(0, 8))
def test_blocks_meet_where_one_byte_is_in_both(
    one: list[tuple[int, int]], other: list[tuple[int, int]], at: int
) -> None:
    left, right = laid(one, 0), laid(other, at)
    bytes_of = [{a + k for a, n in side for k in range(n)} for side in (left, right)]
    assert meet(left, right) == bool(bytes_of[0] & bytes_of[1])


def test_two_columns_of_a_large_matrix_are_held_against_each_other() -> None:
    # each block against each would be 3.6 thousand million pairs: the limit of the test ends that
    left, right = ([(8 * (100_000 * row + column), 8) for row in range(60_000)] for column in (0, 1))
    assert not meet(left, right)


def test_a_subarray_is_the_same_with_small_and_with_large_counts() -> None:
    for c, fortran in ((56, 57), (0, 1)):
        for order in (c, fortran):
            assert subarray((2, 6, 4, 1, 4, 0, 0, order)) == ([6, 4], [1, 4], [0, 0], order == fortran)
    for order in (56, 57):  # Open MPI has no large counts
        assert subarray((2, order, 6, 4, 1, 4, 5, 0)) == ([6, 4], [1, 4], [5, 0], order == 57)
        assert subarray((1, order, 9, 1, 0)) == ([9], [1], [0], order == 57)


def test_what_cannot_make_a_subarray_is_none() -> None:
    with pytest.raises(ValueError, match="is not what makes a subarray"):
        subarray((2, 6, 4, 7, 4, 0, 0, 56))
