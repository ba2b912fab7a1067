"""List where the buffers of a rank are: block by block, or as one layout if the blocks are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.byte_layouts import TOO_MUCH, Blocks, Layout
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.datatype_sizes import gapless_size
from weft.trace import Rank

Shapes = Any
"""A column of Layout or None."""


class BufferBlocks(NamedTuple):
    """Blocks of several buffers as columns: whose block it is, how far from the buffer's start, and how long.

    A row whose `shape` is not None is a whole buffer: the bytes of this layout between its first and last byte.
    """

    buffer: Ints
    offset: Ints
    length: Ints
    shape: Shapes


MOST_SPREAD: Final = 1 << 19
"""Blocks, and parts, of buffers with gaps that are kept for one rank; of a buffer all are kept, or none."""
MOST_APART: Final = 1024
"""Blocks of a buffer that each have a row."""
MOST_COUNTS: Final = 10_000
"""Counts of datatypes with gaps that are looked at for one rank."""


def empty_shapes(count: int) -> Shapes:
    """Return a column of None."""
    return np.full(count, None, object)


def number_shapes(column: Shapes) -> NDArray[np.uint32]:
    """Return a number for each row of a column of layouts: equal for the same layout, from 1 on in the order in which
    they first come; 0 for None.
    """
    numbers = np.zeros(len(column), np.uint32)
    known: dict[int, int] = {}
    for row in np.flatnonzero(column != np.array(None)).tolist():
        numbers[row] = known.setdefault(id(column[row]), len(known) + 1)
    return numbers


def list_buffer_blocks(rank: Rank, datatype: Ints, count: Ints) -> BufferBlocks:
    """Return the blocks of memory that some buffers cover, in the order of the buffers. `datatype`, `count`: the
    datatype id and the number of elements of each buffer.

    A buffer with too many blocks has one row whose shape is unknown. A buffer of an unknown datatype has no row.
    """
    parts = list(_list_by_datatype(rank, datatype, count))
    none = np.zeros(0, np.int64)
    nothing = BufferBlocks(none, none, none, empty_shapes(0))
    buffer, offset, length, shape = (np.concatenate(column) for column in zip(nothing, *parts, strict=True))
    order = np.argsort(buffer, kind="stable")
    return BufferBlocks(buffer[order], offset[order], length[order], shape[order])


def _list_by_datatype(rank: Rank, datatype: Ints, count: Ints) -> Iterator[BufferBlocks]:
    """Yield the blocks of memory of all buffers, one datatype after the other."""
    room = _BlockBudget()
    for id in sorted_distinct(datatype).tolist():
        rows, of = np.flatnonzero(datatype == id), rank.datatype(id)
        if size := gapless_size(of):
            yield BufferBlocks(rows, np.zeros(len(rows), np.int64), count[rows] * size, empty_shapes(len(rows)))
            continue
        order = np.argsort(count[rows], kind="stable")
        rows = rows[order]
        for mine in np.split(rows, np.flatnonzero(np.diff(count[rows])) + 1):
            room.counts -= 1
            layout = layout_of_elements(of, int(count[mine[0]])) if room.counts >= 0 else TOO_MUCH
            if layout is not None:
                yield room.take_blocks(mine, layout)


class _BlockBudget:
    """The budget of blocks and parts that may still be stored for one rank."""

    def __init__(self) -> None:
        self.blocks = self.parts = MOST_SPREAD
        self.counts = MOST_COUNTS

    def take_blocks(self, rows: Ints, layout: Layout) -> BufferBlocks:
        """Return the blocks of memory of some buffers that all have the same layout, and subtract them from the budget.
        If this does not suffice, each buffer has a single row with its whole layout.
        """
        n = len(rows)
        found = layout.blocks(MOST_APART) or _NO_BLOCK
        if layout.is_known and (not layout or (len(found.offset) and len(found.offset) * n <= self.blocks)):
            found = found if layout else _EMPTY
            self.blocks -= len(found.offset) * n
            buffer, (offset, length) = np.repeat(rows, len(found.offset)), (np.tile(column, n) for column in found)
            return BufferBlocks(buffer, offset, length, empty_shapes(len(buffer)))
        if self.parts < len(layout.parts):
            layout = TOO_MUCH
        self.parts -= len(layout.parts)
        shape = empty_shapes(n)
        shape.fill(layout)
        low, length = np.full(n, layout.low, np.int64), np.full(n, layout.high - layout.low, np.int64)
        return BufferBlocks(rows, low, length, shape)


_NO_BLOCK: Final = Blocks(np.zeros(0, np.int64), np.zeros(0, np.int64))
_EMPTY: Final = Blocks(np.zeros(1, np.int64), np.zeros(1, np.int64))
