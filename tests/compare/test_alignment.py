"""Alignment: stretchs are alike, go forward, and leave out as few calls as the difference needs."""

from __future__ import annotations

import numpy as np
import pytest

from weft.compare.calls import WINDOW, Keys, align_calls


def keys(*numbers: int) -> Keys:
    return np.array(numbers, np.uint64)


def stretchs(one: Keys, two: Keys) -> list[tuple[int, int, int]]:
    return [(s.before, s.after, s.count) for s in align_calls(one, two)]


def test_calls_that_one_side_has_more_are_left_out_alone() -> None:
    one = np.arange(100, dtype=np.uint64)
    assert stretchs(one, one) == [(0, 0, 100)]
    assert stretchs(one, np.insert(one, 40, [900, 901])) == [(0, 0, 40), (40, 42, 60)]
    assert stretchs(np.insert(one, 40, [900, 901]), one) == [(0, 0, 40), (42, 40, 60)]


def test_a_call_that_is_another_is_left_out_on_both_sides() -> None:
    one = np.arange(100, dtype=np.uint64)
    two = one.copy()
    two[40] = 900
    assert stretchs(one, two) == [(0, 0, 40), (41, 41, 59)]


def test_the_end_of_a_run_is_no_place_to_come_together() -> None:
    assert stretchs(keys(1, 2, 3), keys(1, 2, 3, 4, 5)) == [(0, 0, 3)]
    assert stretchs(keys(1, 2), keys(3, 4)) == [(0, 0, 0)]
    assert stretchs(keys(), keys(1)) == [(0, 0, 0)]


def test_what_differs_for_longer_than_the_window_stays_apart() -> None:
    one = np.arange(10_000, dtype=np.uint64)
    two = np.concatenate([one[:10], np.arange(50_000, 50_000 + 3 * WINDOW, dtype=np.uint64), one[10:]])
    assert stretchs(one, two) == [(0, 0, 10)]


@pytest.mark.parametrize("seed", range(30))
def test_stretchs_are_alike_and_go_forward(seed: int) -> None:
    draw = np.random.default_rng(seed)
    one = draw.integers(0, 6, 400).astype(np.uint64)
    two = one.copy()
    for _ in range(5):
        at = int(draw.integers(0, len(two)))
        two = np.delete(two, at) if draw.random() < 0.5 else np.insert(two, at, draw.integers(0, 6))
    i = j = 0
    for before, after, count in stretchs(one, two):
        assert before >= i
        assert after >= j
        assert (one[before : before + count] == two[after : after + count]).all()
        i, j = before + count, after + count
    assert i + 100 > len(one), "five calls that differ leave nearly all alike"
