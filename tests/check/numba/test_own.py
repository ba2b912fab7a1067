"""Which arrays a loop's own text shows to be used by one iteration an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, prange
from numba.parfors import parfor_lowering

from weft.check.numba.own import Index, Own, own


def simple(a, b):
    for i in prange(a.shape[0] - 1):
        a[i] = b[i + 1] * 2.0


def shifted(a, b):
    for i in prange(a.shape[0] - 1):
        a[i + 1] = a[i + 1] + b[i]


def neighbour(a, b):
    for i in prange(1, a.shape[0]):
        a[i] = a[i - 1] + b[i]


def always_first(a, b):
    for i in prange(a.shape[0]):
        a[0] = b[i]


def looked_up(a, b):
    for i in prange(a.shape[0]):
        a[int(b[i])] = 1.0


def sometimes(a, b):
    for i in prange(a.shape[0]):
        k = i - 1
        if b[i] > 0:
            k = i - 2
        a[k] = 1.0


def passed_on(a, b):
    for i in prange(a.shape[0]):
        a[i] = a.sum() + b[i]


def part(a, b):
    for i in prange(1, a.shape[0]):
        row = a[i - 1 : i + 1]
        row[0] = b[i]


def columns(c, b):
    for i in prange(c.shape[0]):
        c[i, 0] = b[i]
        c[i, 2] = c[i, 1]


def transposed(c, b):
    for i in prange(c.shape[0]):
        c[i, 0] = b[i]
        c[1, i] = b[i]


def found(function: Callable[..., None], name: str, monkeypatch: pytest.MonkeyPatch, array: Any) -> Own | None:
    """What is known of an array in the function's loop."""
    lower, seen = parfor_lowering._lower_parfor_parallel_std, []

    def noting(lowerer: Any, parfor: Any) -> Any:
        seen.append(own(parfor, lowerer.fndesc.typemap))
        return lower(lowerer, parfor)

    monkeypatch.setattr(parfor_lowering, "_lower_parfor_parallel_std", noting)
    njit(parallel=True)(function)(array, np.ones(8))
    return next((one[name] for one in reversed(seen) if name in one), None)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (simple, Own((Index(0, 0, 0),), read=False)),
        (shifted, Own((Index(0, 1, 1),), read=True)),
        (neighbour, None),
        (always_first, None),
        (looked_up, None),
        (sometimes, None),
        (passed_on, None),
        (part, None),
    ],
)
def test_an_array_is_an_iterations_own_only_where_the_text_shows_it(
    function: Callable[..., None], expected: Own | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(function, "a", monkeypatch, np.zeros(8)) == expected


def test_each_dimension_is_held_against_all_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    square = np.zeros((8, 8))
    assert found(columns, "c", monkeypatch, square) == Own((Index(0, 0, 0), Index(-1, 0, 2)), read=True)
    assert found(transposed, "c", monkeypatch, square) is None
