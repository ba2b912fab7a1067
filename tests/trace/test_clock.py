"""Ticks of every rank come to lie on one axis."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.trace.clock import Axis, align_clocks
from weft.trace.layout import Clock

REAL = 1_700_000_000_000_000_000


def header(host: str, start: tuple[int, int], end: tuple[int, int], real: int, clock: Clock = Clock.TSC) -> Any:
    """Anchors (ticks, monotonic ns), and what the wall clock is ahead of the monotonic one."""
    a, b = (SimpleNamespace(ticks=t, monotonic_ns=m, realtime_ns=m + real) for t, m in (start, end))
    return SimpleNamespace(host=host, start=a, end=b, clock=clock)


def test_two_anchors_give_the_length_of_a_tick() -> None:
    (axis,) = align_clocks([header("a", (1000, 10**9), (1000 + 26 * 10**8, 2 * 10**9), REAL)])
    assert axis.ns(1000 + 13 * 10**8) == 10**9 + 5 * 10**8


def test_a_short_run_takes_the_tick_of_the_longest_on_its_host() -> None:
    long = header("a", (0, 0), (26 * 10**9, 10**10), REAL)
    short = header("a", (26 * 10**8, 10**9), (26 * 10**8, 10**9), REAL)
    first, second = align_clocks([long, short])
    assert second.ns(26 * 10**8 + 2600) == first.ns(26 * 10**8 + 2600) == 10**9 + 1000


def test_hosts_are_laid_side_by_side_by_the_wall_clock() -> None:
    one = header("a", (0, 5 * 10**9), (10**9, 6 * 10**9), REAL, Clock.MONOTONIC_NS)
    two = header("b", (0, 9 * 10**9), (10**9, 10 * 10**9), REAL - 4 * 10**9, Clock.MONOTONIC_NS)
    first, second = align_clocks([one, two])
    assert first.ns(0) == second.ns(0)


def test_ranks_of_a_host_do_not_trust_the_wall_clock() -> None:
    one = header("a", (0, 10**9), (10**9, 2 * 10**9), REAL, Clock.MONOTONIC_NS)
    two = header("a", (0, 10**9), (10**9, 2 * 10**9), REAL + 10**8, Clock.MONOTONIC_NS)  # the clock was set
    first, second = align_clocks([one, two])
    assert first.ns(0) == second.ns(0)


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=5), st.floats(1e-3, 1e3))
def test_columns_are_mapped_as_single_ticks(start: int, ticks: list[int], length: float) -> None:
    axis = Axis(start, 12345, length)
    column = axis.ns_array(np.array(ticks, np.uint64))
    for t, ns in zip(ticks, column.tolist(), strict=True):
        assert abs(ns - axis.ns(t)) <= 1 + abs(ns) * 1e-12


@given(*[st.integers(0, 2**64 - 1)] * 4, st.sampled_from(list(Clock)))
def test_any_anchors_give_an_axis(a: int, b: int, c: int, d: int, clock: Clock) -> None:
    axes = align_clocks([header("a", (a, b), (c, d), 0, clock), header("b", (d, c), (b, a), 0, clock)])
    for axis in axes:
        axis.ns_array(np.array([0, 2**63, 2**64 - 1], np.uint64))
