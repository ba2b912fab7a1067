"""The error over an array, as cells of a picture: how far apart two runs are in each, and where there is nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.compare.values.boxes import common, size, within
from weft.compare.values.judgement import STRETCH
from weft.compare.values.tolerance import ulps
from weft.values.process import Box, Kept

Measure = Literal["distance", "ulps"]
Floats = NDArray[np.float64]
NOTHING: Final = -1.0
"""The error of a cell of which not both runs hold an element."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a rank of the run holds, beside what one of the reference does: the elements of `box` in both."""

    one: Kept
    two: Kept
    box: Box

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """The elements in both runs, None where one kept only hashes."""
        a, b = self.one.values(), self.two.values()
        if a is None or b is None:
            return None
        if not self.two.array:
            return a.reshape(b.shape), b
        return a[within(self.box, self.one.box)], b[within(self.box, self.two.box)]


@dataclass(frozen=True, slots=True)
class Layer:
    """An array of which there is a picture: that of all ranks, or what one rank has for itself."""

    name: str
    pairs: tuple[Pair, ...]
    whole: Box

    @property
    def exact(self) -> bool:
        """Whether elements were kept, and not hashes."""
        return any(pair.arrays() is not None for pair in self.pairs)


def layers(before: Sequence[Kept], after: Sequence[Kept]) -> list[Layer]:
    """The arrays of a moment: one where ranks hold parts of it, else one for each rank."""
    if not before or not after:
        return []
    if after[0].array or before[0].array:
        if len(before[0].shape) != len(after[0].shape):
            return []
        shared = ((one, two, common(one.box, two.box)) for two in after for one in before)
        pairs = tuple(Pair(one, two, box) for one, two, box in shared if box is not None)
        name = after[0].array or before[0].array
        return [Layer(name, pairs, _around([*before, *after]))]
    by_rank = {one.process.rank: one for one in before}
    both = [(by_rank[two.process.rank], two) for two in after if two.process.rank in by_rank]
    return [
        Layer(f"rank {two.process.rank}", (Pair(one, two, two.box),), two.box)
        for one, two in both if one.count == two.count
    ]  # fmt: skip


def _around(some: Sequence[Kept]) -> Box:
    sides = zip(*(one.box for one in some if one.count), strict=True)
    return tuple((min(first for first, _ in side), max(end for _, end in side)) for side in sides)


def error_cells(
    pairs: Sequence[Pair], window: Box, axes: Sequence[int], most: Sequence[int], measure: Measure = "distance"
) -> Floats:
    """The largest error in each cell of a window: over the dimensions `axes`, at most `most` cells in each.

    Cells of which not both runs have an element are NOTHING; infinite where only one of two numbers is finite. The
    window's other dimensions are looked through: a slice is a window of one element there.
    """
    shape = tuple(min(window[axis][1] - window[axis][0], n) for axis, n in zip(axes, most, strict=True))
    cells = np.full(shape, NOTHING)
    for pair in pairs:
        arrays = pair.arrays()
        inner = common(pair.box, window)
        if arrays is None or inner is None:
            continue
        for part in _stretchs(inner):
            a, b = (side[within(part, pair.box)] for side in arrays)
            _add(cells, apart(a, b, measure), part, window, axes)
    return cells


def _stretchs(box: Box) -> Iterator[Box]:
    """A box in parts of some STRETCH elements: memory does not grow with the arrays."""
    if size(box) <= STRETCH:
        yield box
        return
    widest = max(range(len(box)), key=lambda d: (box[d][1] - box[d][0] > 1) * (len(box) - d))
    first, end = box[widest]
    step = max(1, (end - first) * STRETCH // size(box))
    for begin in range(first, end, step):
        yield from _stretchs((*box[:widest], (begin, min(begin + step, end)), *box[widest + 1 :]))


def apart(one: NDArray[Any], two: NDArray[Any], measure: Measure = "distance") -> Floats:
    """How far apart elements are, 0 for equal ones and two that are no numbers; infinite if only one is finite."""
    if np.array_equal(one, two):
        return np.zeros(one.shape)
    if one.dtype.kind == "c" or two.dtype.kind == "c":
        if measure == "ulps":
            common_type = np.result_type(one, two)
            one, two = one.astype(common_type), two.astype(common_type)
            return np.maximum(apart(one.real, two.real, measure), apart(one.imag, two.imag, measure))
        a, b = one.astype(np.complex128), two.astype(np.complex128)
    elif measure == "ulps" and "f" in one.dtype.kind + two.dtype.kind:
        common_type = np.result_type(one, two)
        found = ulps(one.astype(common_type), two.astype(common_type))
        return np.where(np.isnan(one) & np.isnan(two), 0.0, np.where(np.isnan(found), np.inf, found))
    else:
        # Integers of 64 bits, and long double, need more than float64 has.
        small = all(side.dtype.itemsize <= (8 if side.dtype.kind == "f" else 4) for side in (one, two))
        wide = np.float64 if small else np.longdouble
        a, b = one.astype(wide), two.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.abs(a - b).astype(np.float64)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(alike, 0.0, np.where(np.isfinite(found), found, np.inf))


def _add(cells: Floats, error: Floats, part: Box, window: Box, axes: Sequence[int]) -> None:
    """Put the largest error of each cell that a part of the window lies in."""
    through = tuple(d for d in range(error.ndim) if d not in axes)
    error = np.moveaxis(error, axes, range(-len(axes), 0)).max(axis=tuple(range(len(through))), initial=NOTHING)
    places = []
    for d, axis in enumerate(axes):
        (first, end), (low, high) = part[axis], window[axis]
        at = (np.arange(first, end) - low) * cells.shape[d] // (high - low)
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        error = np.maximum.reduceat(error, starts, axis=d)
        places.append(at[starts])
    where = np.ix_(*places)
    cells[where] = np.maximum(cells[where], error)
