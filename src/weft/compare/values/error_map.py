"""Compute the error over an array as cells of a picture: how far apart two runs are in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.compare.values.boxes import box_size, box_slices, intersect_boxes
from weft.compare.values.judgement import MAX_ELEMENTS
from weft.compare.values.tolerance import compute_ulp_distances
from weft.values.process import Box, KeptValue

Measure = Literal["distance", "ulps"]
Floats = NDArray[np.float64]
NOTHING: Final = -1.0
"""The error of a cell of which not both runs hold an element."""


@dataclass(frozen=True, slots=True)
class ElementPair:
    """The elements in `box` that a rank of the reference and a rank of the run both hold."""

    one: KeptValue
    two: KeptValue
    box: Box

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the elements as two arrays, of the reference and of the run; None if one kept only hashes."""
        a, b = self.one.values(), self.two.values()
        if a is None or b is None:
            return None
        if not self.two.array:
            return a.reshape(b.shape), b
        return a[box_slices(self.box, self.one.box)], b[box_slices(self.box, self.two.box)]


@dataclass(frozen=True, slots=True)
class ArrayLayer:
    """An array that can be drawn: that of all ranks, or one rank's own."""

    name: str
    pairs: tuple[ElementPair, ...]
    whole: Box

    @property
    def exact(self) -> bool:
        """Return whether elements were kept, and not hashes."""
        return any(pair.arrays() is not None for pair in self.pairs)


def make_array_layers(before: Sequence[KeptValue], after: Sequence[KeptValue]) -> list[ArrayLayer]:
    """Return the arrays at one moment (a probe in an iteration) that can be drawn. If the ranks have parts of a global
    array, it is that one array; otherwise each rank's own array. Empty if they cannot be compared element by element.
    """
    if not before or not after:
        return []
    if after[0].array or before[0].array:
        if len(before[0].shape) != len(after[0].shape):
            return []
        shared = ((one, two, intersect_boxes(one.box, two.box)) for two in after for one in before)
        pairs = tuple(ElementPair(one, two, box) for one, two, box in shared if box is not None)
        name = after[0].array or before[0].array
        return [ArrayLayer(name, pairs, _bounding_box([*before, *after]))]
    by_rank = {one.process.rank: one for one in before}
    both = [(by_rank[two.process.rank], two) for two in after if two.process.rank in by_rank]
    return [
        ArrayLayer(f"rank {two.process.rank}", (ElementPair(one, two, two.box),), two.box)
        for one, two in both if one.count == two.count
    ]  # fmt: skip


def _bounding_box(some: Sequence[KeptValue]) -> Box:
    sides = zip(*(one.box for one in some if one.count), strict=True)
    return tuple((min(first for first, _ in side), max(end for _, end in side)) for side in sides)


def compute_error_cells(
    pairs: Sequence[ElementPair],
    window: Box,
    axes: Sequence[int],
    cell_limits: Sequence[int],
    measure: Measure = "distance",
) -> Floats:
    """Return the error over a window of an array: divide the dimensions `axes` into at most `cell_limits` cells each,
    and return the largest error in each cell.

    A cell is NOTHING if it has no element of both runs, and infinite if only one of two numbers is finite. Over all
    other dimensions of the window the largest error is taken; for a slice, the window has one element there.
    """
    shape = tuple(min(window[axis][1] - window[axis][0], n) for axis, n in zip(axes, cell_limits, strict=True))
    cells = np.full(shape, NOTHING)
    for pair in pairs:
        arrays = pair.arrays()
        inner = intersect_boxes(pair.box, window)
        if arrays is None or inner is None:
            continue
        for part in _split_into_chunks(inner):
            a, b = (side[box_slices(part, pair.box)] for side in arrays)
            _merge_errors_into_cells(cells, compute_element_distances(a, b, measure), part, window, axes)
    return cells


def _split_into_chunks(box: Box) -> Iterator[Box]:
    """Yield the parts of a box, of at most MAX_ELEMENTS elements each. They are compared one after the other, so that
    memory does not grow with the arrays.
    """
    if box_size(box) <= MAX_ELEMENTS:
        yield box
        return
    widest = max(range(len(box)), key=lambda d: (box[d][1] - box[d][0] > 1) * (len(box) - d))
    first, end = box[widest]
    step = max(1, (end - first) * MAX_ELEMENTS // box_size(box))
    for begin in range(first, end, step):
        yield from _split_into_chunks((*box[:widest], (begin, min(begin + step, end)), *box[widest + 1 :]))


def compute_element_distances(reference: NDArray[Any], run: NDArray[Any], measure: Measure = "distance") -> Floats:
    """Return how far apart each two elements of two arrays are: 0 for equal numbers and for two NaNs, infinite if only
    one is finite. `measure`: `distance` for the absolute difference, `ulps` for units in the last place.
    """
    if np.array_equal(reference, run):
        return np.zeros(reference.shape)
    if reference.dtype.kind == "c" or run.dtype.kind == "c":
        if measure == "ulps":
            common_type = np.result_type(reference, run)
            reference, run = reference.astype(common_type), run.astype(common_type)
            return np.maximum(
                compute_element_distances(reference.real, run.real, measure),
                compute_element_distances(reference.imag, run.imag, measure),
            )
        a, b = reference.astype(np.complex128), run.astype(np.complex128)
    elif measure == "ulps" and "f" in reference.dtype.kind + run.dtype.kind:
        common_type = np.result_type(reference, run)
        found = compute_ulp_distances(reference.astype(common_type), run.astype(common_type))
        return np.where(np.isnan(reference) & np.isnan(run), 0.0, np.where(np.isnan(found), np.inf, found))
    else:
        # Integers of 64 bits, and long double, need more than float64 has.
        small = all(side.dtype.itemsize <= (8 if side.dtype.kind == "f" else 4) for side in (reference, run))
        wide = np.float64 if small else np.longdouble
        a, b = reference.astype(wide), run.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.abs(a - b).astype(np.float64)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(alike, 0.0, np.where(np.isfinite(found), found, np.inf))


def _merge_errors_into_cells(cells: Floats, distances: Floats, part: Box, window: Box, axes: Sequence[int]) -> None:
    """Raise each cell of the error map to the largest of `distances` among its elements. `distances` are those of one
    part of the window; `axes`: the dimensions that the map shows.
    """
    through = tuple(d for d in range(distances.ndim) if d not in axes)
    distances = np.moveaxis(distances, axes, range(-len(axes), 0)).max(axis=tuple(range(len(through))), initial=NOTHING)
    places = []
    for d, axis in enumerate(axes):
        (first, end), (low, high) = part[axis], window[axis]
        at = (np.arange(first, end) - low) * cells.shape[d] // (high - low)
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        distances = np.maximum.reduceat(distances, starts, axis=d)
        places.append(at[starts])
    where = np.ix_(*places)
    cells[where] = np.maximum(cells[where], distances)
