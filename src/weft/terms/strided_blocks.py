"""Represent blocks of bytes that repeat at equal steps by one block and its strides: a datatype needs few of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from weft.terms.argument_columns import Ints

Level = tuple[int, int]
"""A stride in bytes, 0 or more, and how many times what is below it is there."""
_ALIKE: Final = 3
"""So many parts at equal steps become one."""


class Strided(NamedTuple):
    """`length` bytes at `offset`, repeated at each sum of multiples (from 0 on) of the levels' strides.

    Levels are sorted by stride, the greatest first.
    """

    offset: int
    length: int
    levels: tuple[Level, ...] = ()

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.offset + self.length + sum(stride * (times - 1) for stride, times in self.levels)

    @property
    def block_count(self) -> int:
        """Return the number of blocks in the pattern."""
        number = 1
        for _, times in self.levels:
            number *= times
        return number

    def repeat(self, stride: int, times: int) -> Strided:
        """Return the blocks repeated `times` times (one or more), each time `stride` bytes further on. A byte that
        several repetitions cover counts several times.
        """
        if times == 1:
            return self
        offset = self.offset + min(stride, 0) * (times - 1)
        return Strided(offset, *_merge_levels(self.length, [*self.levels, (abs(stride), times)]))

    def offsets(self) -> Ints:
        """Return the offset in bytes at which each block begins."""
        found = np.array([self.offset], np.int64)
        for stride, times in self.levels:
            found = (found[:, None] + stride * np.arange(times, dtype=np.int64)[None]).reshape(-1)
        return found


def _merge_levels(length: int, levels: list[Level]) -> tuple[int, tuple[Level, ...]]:
    """Simplify nested repetitions of a block, given as (stride, times): a repetition that continues exactly where the
    next smaller one ends becomes one with it, or a longer block. Return the block's length in bytes, and the remaining
    repetitions, largest stride first."""
    left: list[Level] = []
    for stride, times in sorted(levels):
        if stride == length and not left:
            length *= times
        elif left and left[-1][0] and stride == left[-1][0] * left[-1][1]:
            left[-1] = left[-1][0], left[-1][1] * times
        else:
            left.append((stride, times))
    return length, tuple(reversed(left))


def simplify_parts(parts: Iterable[Strided]) -> tuple[Strided, ...]:
    """Return the parts (patterns of blocks) in the order of memory, merged where that is simple. Each byte occurs as
    often as before.
    """
    return tuple(_merge_equal_steps(list(_merge_touching(sorted(parts)))))


def _merge_touching(parts: list[Strided]) -> Iterator[Strided]:
    """Yield the parts (patterns of blocks). A part that begins where the one before it ends is merged with that."""
    held: Strided | None = None
    for part in parts:
        if held is not None and held.levels == part.levels and held.offset + held.length == part.offset:
            held = Strided(held.offset, *_merge_levels(held.length + part.length, list(held.levels)))
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held


def _merge_equal_steps(parts: list[Strided]) -> Iterator[Strided]:
    """Yield the parts (patterns of blocks), with equal parts at equal distances merged into a repetition."""
    first = 0
    while first < len(parts):
        one, last = parts[first], first + 1
        step = parts[last].offset - one.offset if last < len(parts) else 0
        like, offset = one[1:], one.offset + step
        while last < len(parts) and parts[last].offset == offset and parts[last][1:] == like:
            last, offset = last + 1, offset + step
        if last - first < _ALIKE:
            yield one
            first += 1
        else:
            yield one.repeat(step, last - first)
            first = last
