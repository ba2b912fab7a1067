"""Copies of arguments, and results that are equal but for rounding."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")
compare = pytest.importorskip("weft.numba.compare")


def test_copies_share_memory_as_the_arguments_do() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    view, turned = compare.Copies().copy((whole[1:, ::2], whole.T))
    assert np.array_equal(view, whole[1:, ::2])
    assert view.strides == whole[1:, ::2].strides
    view[0, 0] = -1
    assert turned[0, 1] == -1
    assert whole[1, 0] == 6


def test_a_copy_of_a_read_only_array_is_read_only() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    assert not compare.Copies().copy(array).flags.writeable


def test_what_cannot_be_copied_faithfully_is_refused() -> None:
    with pytest.raises(compare.NotCopyableError):
        compare.Copies().copy([np.zeros(2), object()])


def test_rounding_is_no_difference_and_another_value_is() -> None:
    assert compare.find_difference("x", 1.0, 1.0 + 1e-12, 0.0) is None
    assert compare.find_difference("x", 1.0, 1.1, 0.0) is not None
    assert compare.find_difference("x", 1e-9, -1e-9, 1e6) is None
    assert compare.find_difference("x", float("nan"), float("nan"), 0.0) is None
    assert compare.find_difference("x", float("-inf"), 0.5, 1.0) is not None
    assert compare.find_difference("x", 3, 4, 1e9) is not None


def test_the_first_element_that_differs_is_told() -> None:
    got, expected = np.zeros((2, 3)), np.zeros((2, 3))
    got[1, 2] = 1
    found = compare.find_difference("b", got, expected, 0.0)
    assert (found.where, found.index) == ("b", (1, 2))


def test_memory_that_nobody_wrote_is_not_compared() -> None:
    got = np.frombuffer(bytes([compare.POISON] * 16), np.float64)
    assert compare.find_difference("b", got, np.zeros(2), 0.0) is None
