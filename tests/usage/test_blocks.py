"""Blocks of two buffers: whether they meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.terms.blocks import Block, meet

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
