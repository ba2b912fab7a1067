"""Subarrays, and columns of a large matrix."""

from __future__ import annotations

import pytest

from weft.terms.byte_layouts import Layout, share_bytes
from weft.terms.datatype_layouts import read_subarray
from weft.terms.strided_blocks import Strided


def test_two_columns_of_a_large_matrix_are_held_against_each_other() -> None:
    # each block against each would be 3.6 thousand million pairs: the limit of the test ends that
    left, right = (Layout([Strided(8 * column, 8)], 800_000, 60_000) for column in (0, 1))
    assert not share_bytes(left, right)
    assert share_bytes(left, right, -8)


def test_a_subarray_is_the_same_with_small_and_with_large_counts() -> None:
    for c, fortran in ((56, 57), (0, 1)):
        for order in (c, fortran):
            assert read_subarray((2, 6, 4, 1, 4, 0, 0, order)) == ([6, 4], [1, 4], [0, 0], order == fortran)
    for order in (56, 57):  # Open MPI has no large counts
        assert read_subarray((2, order, 6, 4, 1, 4, 5, 0)) == ([6, 4], [1, 4], [5, 0], order == 57)
        assert read_subarray((1, order, 9, 1, 0)) == ([9], [1], [0], order == 57)


def test_what_cannot_make_a_subarray_is_none() -> None:
    with pytest.raises(ValueError, match="are not the arguments of a subarray"):
        read_subarray((2, 6, 4, 7, 4, 0, 0, 56))
