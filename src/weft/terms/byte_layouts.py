"""Describe which bytes a buffer takes without listing them, and compare two buffers for common bytes.

What repeats is stored once: 20 million structures of a message are one part with a stride. Two layouts are compared by
arithmetic (native/kernel/layouts.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from weft.native.headers import layouts
from weft.terms.argument_columns import Ints
from weft.terms.strided_blocks import Strided, simplify_parts

Block = tuple[int, int]
"""Where bytes begin and how many there are."""
MOST: Final = 1 << 16
"""Blocks that are laid out one by one."""
MOST_PARTS: Final = 1 << 15
"""Parts of a layout that are kept."""
FAR: Final = 1 << 60
"""Bytes of a layout at most: a longer one is damage."""
STEPS: Final = 1 << 16
"""The most steps in which two layouts are compared: some milliseconds."""
_MOST_PAIRED: Final = 64
"""The most parts that are compared pair by pair."""
_MOST_JOINED: Final = 16
"""The most blocks in a row that are followed to find the end of a gapless range."""


class Layout:
    """The bytes of a buffer relative to its address: parts that repeat `times` times, each `stride` bytes after the
    last.

    `low` to `high`: the first byte, and the one after the last. `is_known` is False if the layout is too large to
    store.
    """

    __slots__ = ("_blocks", "_table", "high", "is_known", "low", "parts", "stride", "times")

    def __init__(self, parts: Sequence[Strided], stride: int = 0, times: int = 1, *, is_known: bool = True) -> None:
        if len(parts) == 1 and times > 1:
            parts, stride, times = (parts[0].repeat(stride, times),), 0, 1
        back = min(stride, 0) * (times - 1)
        self.parts = tuple(part._replace(offset=part.offset + back) for part in parts) if back else tuple(parts)
        self.stride, self.times = abs(stride), times if self.parts else 1
        self.low = min((part.offset for part in self.parts[:1]), default=0)
        self.high = max((part.end for part in self.parts), default=0) + self.stride * (self.times - 1)
        levels = max((len(part.levels) for part in self.parts), default=0)
        self.is_known = (
            is_known and max(-self.low, self.high, self.high - self.low) < FAR and levels <= layouts.MOST_LEVELS
        )
        if not self.is_known:
            self.parts, self.low, self.high, self.stride, self.times = (), -FAR, FAR, 0, 1
        self._table: layouts.Layout | None = None
        self._blocks: Blocks | None = None

    def __bool__(self) -> bool:
        return self.high > self.low

    @property
    def number(self) -> int:
        """Return the number of blocks."""
        return sum(part.block_count for part in self.parts) * self.times

    def whole(self) -> Iterator[Strided]:
        """Yield the parts with the outer repetition applied."""
        return (part.repeat(self.stride, self.times) for part in self.parts)

    def blocks(self, most: int = MOST) -> Blocks | None:
        """Return all blocks of the layout in the order of memory, with touching ones joined. None if they are unknown
        or more than `most`.
        """
        if not self.is_known or self.number > most:
            return None
        if self._blocks is None:
            self._blocks = self._join_blocks()
        return self._blocks

    def _join_blocks(self) -> Blocks:
        """Return the blocks in the order of memory. Blocks that touch or overlap are joined."""
        offset, length = self._offsets_and_lengths()
        end = np.maximum.accumulate(offset + length)
        first = np.flatnonzero(np.concatenate([[True], offset[1:] > end[:-1]])[: len(offset)])
        last = np.append(first[1:], len(offset)) - 1 if len(first) else first
        return Blocks(offset[first], end[last] - offset[first])

    def _offsets_and_lengths(self) -> tuple[Ints, Ints]:
        """Return offset and length of each block, in the order of memory."""
        nothing = np.zeros(0, np.int64)
        parts = [(part.offsets(), part.length) for part in self.whole()]
        offset = np.concatenate([nothing, *(offsets for offsets, _ in parts)])
        length = np.concatenate([nothing, *(np.full(len(offsets), n, np.int64) for offsets, n in parts)])
        order = np.lexsort((length, offset))
        return offset[order], length[order]

    def to_table(self) -> layouts.Layout:
        """Return the layout as a structure for the C kernels. Its offsets count from the layout's first byte."""
        if self._table is None:
            offset, length, end = (
                np.array(column, np.int64).reshape(-1)
                for column in (
                    [part.offset - self.low for part in self.parts], [part.length for part in self.parts],
                    [part.end - self.low for part in self.parts],
                )
            )  # fmt: skip
            level = np.cumsum([0, *(len(part.levels) for part in self.parts)], dtype=np.uint32)
            stride, times = np.array([level for part in self.parts for level in part.levels], np.int64).reshape(-1, 2).T
            self._table = layouts.Layout(
                count=len(self.parts), offset=offset, length=length, end=end, reach=np.maximum.accumulate(end),
                level=level, stride=np.ascontiguousarray(stride), times=np.ascontiguousarray(times),
                outer_stride=self.stride, outer_times=self.times, high=self.high - self.low,
            )  # fmt: skip
        return self._table

    def has_repeated_bytes(self) -> bool | None:
        """Return whether some byte occurs more than once in the layout; None if deciding that would take too long."""
        if not self.is_known:
            return None
        if self.number <= MOST // 16 or (len(self.parts) > _MOST_PAIRED and self.number <= MOST):
            offset, length = self._offsets_and_lengths()
            return bool((offset[1:] < np.maximum.accumulate(offset + length)[:-1]).any())
        if len(self.parts) > _MOST_PAIRED:
            return None
        parts = list(self.whole())
        known: bool | None = False
        for place, part in enumerate(parts):
            for found in (
                _has_overlapping_blocks(part),
                *(share_bytes(Layout([part]), Layout([other])) for other in parts[:place]),
            ):
                if found:
                    return True
                known = None if found is None else known
        return known


class Blocks(NamedTuple):
    """Where blocks begin, and how long each is."""

    offset: Ints
    length: Ints


def gapless_layout(length: int) -> Layout:
    """Return the layout of bytes without a gap."""
    return Layout([Strided(0, length)] if length > 0 else ())


def merge_layouts(placed: Sequence[tuple[int, Layout]]) -> Layout:
    """Return one layout made of several. `placed`: each layout with its offset in bytes."""
    if len(placed) == 1 and placed[0][0] == 0:
        return placed[0][1]
    if not all(layout.is_known for _, layout in placed) or sum(len(layout.parts) for _, layout in placed) > MOST_PARTS:
        return TOO_MUCH
    return Layout(simplify_parts(part._replace(offset=part.offset + at) for at, of in placed for part in of.whole()))


TOO_MUCH: Final = Layout((), is_known=False)


# Two layouts


def share_bytes(one: Layout, other: Layout, distance: int = 0) -> bool | None:
    """Return whether two layouts have a byte in common; None if deciding that would take too long or one is unknown.

    `distance`: how many bytes the address of `other` lies after that of `one`.
    """
    if not one or not other:
        return False
    distance += other.low - one.low
    if abs(distance) >= FAR:
        return False if one.is_known and other.is_known else None
    steps = np.array([STEPS], np.uint64)
    found = layouts.kernel().weft_do_layouts_meet(one.to_table(), other.to_table(), distance, steps)
    return None if found < 0 else bool(found)


def _has_overlapping_blocks(part: Strided) -> bool | None:
    """Return whether two blocks of a part share a byte; None if deciding that would take too long. A part is a pattern
    of equal blocks at equal strides.
    """
    known: bool | None = False
    for place, (stride, times) in enumerate(part.levels):
        # Of the levels in which two blocks differ this is the first: there the one is after the other.
        below = part.levels[place + 1 :]
        back = sum(step * (n - 1) for step, n in below)
        strides = np.array([stride, *(step for step, _ in below)], np.int64)
        many = np.array([times - 1, *(2 * n - 1 for _, n in below)], np.int64)
        low, high = back - stride - part.length + 1, back - stride + part.length - 1
        steps = np.array([STEPS], np.uint64)
        found = layouts.kernel().weft_can_strides_sum_into(len(strides), strides, many, low, high, steps)
        if found > 0:
            return True
        known = None if found < 0 else known
    return known


def first_shared_blocks(one: Layout, other: Layout, distance: int = 0) -> tuple[Block, Block] | None:
    """Return two blocks that share bytes, one of each layout: the first block of `other` that touches `one`, and the
    first block of `one` that it touches.

    Offsets are relative to each layout. None if they share nothing, as far as is known. `distance`: as in share_bytes.
    """
    if not share_bytes(one, other, distance):
        return None
    second = _first_shared_block(other, one, -distance)
    first = _first_shared_block(one, Layout([Strided(*second)]), distance)
    return _extend_block(one, first), _extend_block(other, second)


def _first_shared_block(one: Layout, other: Layout, distance: int) -> Block:
    """Return the first block of `one` that shares bytes with `other`. `distance`: how many bytes the address of `other`
    lies after that of `one`. They must share some.
    """
    at, length = np.zeros(1, np.int64), np.zeros(1, np.int64)
    distance += other.low - one.low
    layouts.kernel().weft_find_first_shared_block(one.to_table(), other.to_table(), distance, STEPS, at, length)
    return one.low + int(at[0]), int(length[0])


def _extend_block(layout: Layout, block: Block) -> Block:
    """Return a block with the neighbouring bytes of the layout up to the next gap on both sides. In a layout with very
    many blocks only a few steps are taken.
    """
    each = layout.blocks()
    if each is not None:
        at = int(np.searchsorted(each.offset, block[0], "right")) - 1
        return int(each.offset[at]), int(each.length[at])
    low, high = block[0], sum(block)
    for _ in range(_MOST_JOINED):
        before = Layout([Strided(low - 1, 1)])
        if not share_bytes(layout, before):
            break
        low = _first_shared_block(layout, before, 0)[0]
    return low, _find_gapless_end(layout, high) - low


def _find_gapless_end(layout: Layout, first_byte: int) -> int:
    """Return the end of the bytes without a gap that begin at `first_byte` of the layout. At most a few blocks are
    followed.
    """
    for _ in range(_MOST_JOINED):
        here = Layout([Strided(first_byte, 1)])
        if not share_bytes(layout, here):
            break
        first_byte = sum(_first_shared_block(layout, here, 0))
    return first_byte


def covers_range(of: Layout, low: int, high: int) -> bool:
    """Return whether a layout contains all bytes from `low` up to `high` (excluded)."""
    return share_bytes(of, Layout([Strided(low, 1)])) is True and _find_gapless_end(of, low) >= high
