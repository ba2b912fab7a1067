"""Which arrays a loop's own text shows to be used by one iteration an element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba import njit, prange
from numba.parfors import parfor_lowering

from weft.native.headers.numba import OF_EXTENT, OF_NEST, OF_VALUE
from weft.numba.own import OwnElements, find_own_elements
from weft.numba.spans import BoundSum, ValueRange


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


def rows(c, b):
    for i in prange(c.shape[0]):
        for j in range(1, b.shape[0] - 1):
            c[i, j + 1] = b[j]


def triangle(c, b):
    n = len(b)
    for i in prange(n):
        for j in range(i, n):
            c[i, j] = b[j]


def steps(c, b):
    n = b.size
    for i in prange(n):
        for j in range(0, n, 2):
            c[i, j] = b[j]


def inner(c, b):
    n = b.size
    for i in prange(n):
        for j in prange(n):
            c[j, i] = b[j]


def pairs(c, b):
    for i in prange(c.shape[0]):
        for j in range(i, i + 2):
            c[i, j - j] = b[0]


def downwards(c, b):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1] - 1, -1, -1):
            c[i, j] = b[0]


def changed(c, b):
    for i in prange(c.shape[0]):
        m = b.size
        if b[i] > 0:
            m = m + 1
        for j in range(m):
            c[i, j] = b[0]


def crossed(c, b):
    for i in prange(c.shape[0]):
        for j in range(c.shape[0]):
            c[i, j] = b[0]
            c[j, i] = b[0]


def index(added=0):
    """The loop's index."""
    return ValueRange(BoundSum(added, OF_NEST), BoundSum(added, OF_NEST))


def number(low, high=None):
    """A number, or those between two."""
    return ValueRange(BoundSum(low), BoundSum(low if high is None else high))


def found(function: Callable[..., None], name: str, monkeypatch: pytest.MonkeyPatch, array: Any) -> OwnElements | None:
    """What is known of an array in the function's loop."""
    lower, seen = parfor_lowering._lower_parfor_parallel_std, []

    def noting(lowerer: Any, parfor: Any) -> Any:
        seen.append(find_own_elements(parfor, lowerer.fndesc.typemap))
        return lower(lowerer, parfor)

    monkeypatch.setattr(parfor_lowering, "_lower_parfor_parallel_std", noting)
    njit(parallel=True)(function)(array, np.ones(8))
    return next((one[name] for one in reversed(seen) if name in one), None)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (simple, OwnElements(((0, index()),), read=False)),
        (shifted, OwnElements(((0, index(1)),), read=True)),
        (neighbour, None),
        (always_first, None),
        (looked_up, None),
        (sometimes, None),
        (passed_on, None),
        (part, None),
    ],
)
def test_an_array_is_an_iterations_own_only_where_the_text_shows_it(
    function: Callable[..., None], expected: OwnElements | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(function, "a", monkeypatch, np.zeros(8)) == expected


def test_each_dimension_is_held_against_all_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    square = np.zeros((8, 8))
    three = {(0, index()), (1, number(0)), (1, number(1)), (1, number(2))}
    columns_of = found(columns, "c", monkeypatch, square)
    assert columns_of is not None and set(columns_of.places) == three
    assert found(transposed, "c", monkeypatch, square) is None


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("function", "place"),
    [
        (rows, (1, ValueRange(BoundSum(2), BoundSum(-1, OF_EXTENT, 0, "b")))),
        (triangle, (1, ValueRange(BoundSum(0, OF_NEST), BoundSum(-1, OF_VALUE)))),
        (steps, (1, ValueRange(BoundSum(0), BoundSum(-1, OF_VALUE)))),
        (inner, (0, ValueRange(BoundSum(0), BoundSum(-1, OF_VALUE)))),
        (pairs, None),
        (downwards, None),
        (changed, None),
        (crossed, None),
    ],
)
def test_the_bounds_of_a_loop_within_bound_its_index(
    function: Callable[..., None], place: tuple[int, ValueRange] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = found(function, "c", monkeypatch, np.zeros((8, 8)))
    if place is None:
        assert known is None
        return
    assert known is not None
    got = {(d, _plain(span.low), _plain(span.high)) for d, span in known.places}
    assert got == {(1 - place[0], *_ends(index())), (place[0], place[1].low, place[1].high)}


def _ends(span: ValueRange) -> tuple[BoundSum, BoundSum]:
    return span.low, span.high


def _plain(end: BoundSum) -> BoundSum:
    """Without the names that Numba makes up."""
    return replace(end, name="") if end.term == OF_VALUE else end
