"""The rules that name the variable which iterations cannot share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

numba = pytest.importorskip("numba")
source = pytest.importorskip("weft.numba.source")

prange = numba.prange


def flagged(a: Any) -> Any:
    found = 0
    for i in prange(a.size):
        if a[i] > 0:
            found = i
    return found


def private(a: Any) -> Any:
    for i in prange(a.size):
        t = a[i] * 2
        a[i] = t + 1


def reset(a: Any) -> Any:
    t = 0
    for i in prange(a.size):
        t = a[i]
        a[i] = t
    t = 1
    return t


def largest(a: Any) -> Any:
    best = 0
    for i in prange(a.size):
        if a[i] > best:
            best = a[i]
    return best


def carried(a: Any) -> Any:
    before = 0
    for i in prange(a.size):
        a[i] -= before
        before = a[i]


def missing(a: Any) -> Any:
    for i in prange(a.size):
        if a[i] > 0:
            t = 1
        a[i] = t


def summed(a: Any) -> Any:
    total = 0
    for i in prange(a.size):
        total += a[i]
    return total


def peeked(a: Any) -> Any:
    total = 0
    for i in prange(a.size):
        total += a[i]
        a[i] = total
    return total


def around(a: Any) -> Any:
    again = True
    while again:
        again = False
        for i in prange(a.size):
            again = a[i] > 0


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (flagged, ["shared-write"]),
        (private, []),
        (reset, []),
        (largest, ["wrong-reduction"]),
        (carried, ["loop-dependence"]),
        (missing, ["uninitialised-read"]),
        (around, ["shared-write"]),
    ],
)
def test_the_variable_at_fault_is_named(function: Callable[..., Any], kinds: list[str]) -> None:
    assert [one.kind for one in source.find_suspect_variables(function, {})] == kinds


def test_a_reduction_may_be_summed_up_but_not_looked_at() -> None:
    loop = source.find_parallel_loops(summed)[0].lineno
    assert source.find_suspect_variables(summed, {loop: ["total"]}) == []
    loop = source.find_parallel_loops(peeked)[0].lineno
    found = source.find_suspect_variables(peeked, {loop: ["total"]})
    assert [(one.kind, one.line) for one in found] == [("early-reduction-use", loop + 2)]


def test_prange_is_known_by_any_name() -> None:
    assert source.calls_prange(flagged)
    assert not source.calls_prange(test_prange_is_known_by_any_name)
