"""Cells of the error over an array, by their definition: the largest error of the elements that lie in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from compare.test_values import written
from weft.compare.values import error_map
from weft.compare.values.error_map import NOTHING, compute_element_distances, compute_error_cells, make_array_layers
from weft.values.process import Box


class Part:
    """What a probe kept of a global array: all that `compute_error_cells` asks for."""

    array = "A"

    def __init__(self, numbers: NDArray[Any], box: Box) -> None:
        self.numbers, self.box = numbers, box

    def values(self) -> NDArray[Any]:
        """The elements."""
        return self.numbers


@given(st.data())
def test_each_cell_has_the_largest_error_of_its_elements(data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, 9)) for _ in range(dims))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    one = rng.integers(0, 4, shape).astype(float)
    two = one + rng.integers(0, 2, shape) * rng.integers(0, 50, shape)
    cut = data.draw(st.integers(0, shape[0] - 1))
    pairs = [
        _pair(one, two, ((first, end), *((0, n) for n in shape[1:])), shape)
        for first, end in ((0, cut), (cut, shape[0] - 1)) if first < end
    ]  # fmt: skip  # nobody has the last row
    window = tuple(_side(data, n) for n in shape)
    axes = data.draw(st.permutations(range(dims)))[: data.draw(st.integers(1, min(2, dims)))]
    most = [data.draw(st.integers(1, 6)) for _ in axes]
    with patch.object(error_map, "MAX_ELEMENTS", data.draw(st.integers(1, 30))):
        found = compute_error_cells(pairs, window, axes, most)
    np.testing.assert_array_equal(found, _slow(np.abs(one - two), shape[0] - 1, window, axes, most))


def _pair(one: NDArray[Any], two: NDArray[Any], box: Box, shape: tuple[int, ...]) -> Any:
    whole = tuple((0, n) for n in shape)
    part = two[tuple(slice(first, end) for first, end in box)]
    return error_map.ElementPair(Part(one, whole), Part(part, box), box)  # type: ignore[arg-type]


def _side(data: st.DataObject, n: int) -> tuple[int, int]:
    first = data.draw(st.integers(0, n - 1))
    return first, data.draw(st.integers(first + 1, n))


def _slow(error: NDArray[Any], held: int, window: Box, axes: Any, most: list[int]) -> NDArray[Any]:
    cells = np.full([min(window[a][1] - window[a][0], n) for a, n in zip(axes, most, strict=True)], NOTHING)
    for index in np.ndindex(*error.shape):
        if index[0] < held and all(first <= k < end for k, (first, end) in zip(index, window, strict=True)):
            at = tuple(
                (index[a] - window[a][0]) * n // (window[a][1] - window[a][0])
                for a, n in zip(axes, cells.shape, strict=True)
            )
            cells[at] = max(cells[at], error[index])
    return cells


def test_errors_of_numbers_that_have_no_size_or_are_wide() -> None:
    nan, inf = float("nan"), float("inf")
    one, two = np.array([nan, nan, inf, inf, 1.0]), np.array([nan, 1.0, inf, -inf, 1.0])
    assert (
        compute_element_distances(one, two).tolist()
        == compute_element_distances(one, two, "ulps").tolist()
        == [0, inf, 0, inf, 0]
    )
    wide = np.array([2**62, 2**62]), np.array([2**62 + 1, 2**62])
    assert compute_element_distances(*wide).tolist() == [1, 0]
    assert compute_element_distances(np.array([1.0]), np.array([np.nextafter(1.0, 2)]), "ulps").tolist() == [1]
    assert compute_element_distances(np.array([3 + 4j]), np.array([0j])).tolist() == [5]
    assert compute_element_distances(np.array([1.0 + 0j]), np.array([np.nextafter(1.0, 2) + 0j]), "ulps").tolist() == [
        1
    ]
    assert compute_element_distances(np.array([True]), np.array([False])).tolist() == [1]


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", ["values", "changes"])
def test_an_array_in_other_pieces_is_one_layer(form: str, tmp_path: Path) -> None:
    before, after = (
        written(tmp_path / name, form, cuts, wrong)
        for name, cuts, wrong in (("one", "0,300", -1), ("two", "0,100,300", 123))
    )
    kept = [[process.value_at(row) for process in trace.processes for row in range(len(process.rows))]
            for trace in (before, after)]  # fmt: skip
    [layer] = make_array_layers(kept[0][1:2], kept[1][2:4])
    assert (layer.name, layer.whole, layer.exact, len(layer.pairs)) == ("A", ((0, 300), (0, 40)), True, 2)
    cells = compute_error_cells(layer.pairs, layer.whole, (0, 1), (300, 40))
    assert np.argwhere(cells > 0).tolist() == [[123, 7]]
    assert make_array_layers(kept[0][1:2], []) == []
