"""The rules that name the variable which iterations cannot share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

numba = pytest.importorskip("numba")
source = pytest.importorskip("weft.numba.source")
unset_reads = pytest.importorskip("weft.numba.unset_reads")

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


def other_condition(a: Any, use: Any) -> Any:
    for i in prange(a.size):
        if a[i] > 2:
            t = a[i]
        if use:
            a[i] = t


def same_condition(a: Any, use: Any) -> Any:
    for i in prange(a.size):
        if use:
            t = a[i]
        for _ in range(2):
            a[i] = t + 1 if use else 0


def implied_condition(a: Any, use: Any) -> Any:
    for i in prange(a.size):
        if a[i] > 1:
            t = a[i]
        if a[i] > 2:
            t += use
            a[i] = t


def set_before_by_another_condition(a: Any, use: Any) -> Any:
    if not use:
        t = 3
    for i in prange(a.size):
        if use:
            a[i] = t


def of_an_empty_loop(a: Any, use: Any) -> Any:
    for i in prange(a.size):
        for k in range(a[i]):
            t = k * use
        a[i] += t


def carried_on(a: Any, use: Any) -> Any:
    t = 0
    for i in prange(a.size):
        a[i] -= t * use
        t = a[i]


def kept_by_each(a: Any, use: Any) -> Any:
    t = 0
    for i in prange(a.size):
        if use:
            t = a[i]
            a[i] -= t
        else:
            a[i] = t


def count_early_reads(function: Callable[..., Any]) -> list[tuple[str, int, int]]:
    """Variable, reads without a value, and reads of what an earlier iteration left, in 4 iterations of a function."""
    import ctypes

    import numpy as np

    @ctypes.CFUNCTYPE(None, ctypes.c_int64)
    def count(address: int) -> None:
        ctypes.c_int64.from_address(address).value += 1

    reads = unset_reads.EarlyReads(ctypes.cast(count, ctypes.c_void_p).value)
    code, names = reads.rewrite(function)
    changed = type(function)(code, function.__globals__ | names, function.__name__)
    numba.njit(changed)(np.arange(4), 1)
    return [(one.name, one.unset, one.counts[1]) for one in reads.iterate() if any(one.counts)]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("function", "early"),
    [
        (other_condition, [("t", 3, 0)]),
        (same_condition, []),
        (implied_condition, []),
        (set_before_by_another_condition, [("t", 4, 0)]),
        (of_an_empty_loop, [("t", 1, 0)]),
        (carried_on, [("t", 0, 3)]),
        (kept_by_each, []),
    ],
)
def test_a_run_shows_which_reads_come_before_the_first_value(
    function: Callable[..., Any], early: list[tuple[str, int, int]]
) -> None:
    assert count_early_reads(function) == early
