"""Compare two arrays of one shape, a part at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.compare.values.tolerance import ROUNDING, Tolerance, compute_ulp_distances

MAX_ELEMENTS: Final = 1 << 20
"""Elements that are looked at together: memory does not grow with the arrays."""


@dataclass(slots=True)
class Judgement:
    """The result of comparing two arrays. Counts are of elements.

    `first` is the index of the first that differs, `one` and `two` its values in reference and run; `low` and `high`
    are the corners of all that differ, `most` the largest distance, `largest` the largest magnitude of all. `ulps` is
    the largest distance of those that only rounding separates.
    """

    compared: int = 0
    differing: int = 0
    rounded: int = 0
    ulps: float = 0.0
    most: float = 0.0
    largest: float = 0.0
    first: tuple[int, ...] | None = None
    one: Any = None
    two: Any = None
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()

    def merge_part(self, other: Judgement, offset: tuple[int, ...]) -> None:
        """Add the judgement of another part of the same array. `offset`: the index of that part's first element."""
        self.compared += other.compared
        self.differing += other.differing
        self.rounded += other.rounded
        self.ulps, self.most = max(self.ulps, other.ulps), max(self.most, other.most)
        self.largest = max(self.largest, other.largest)
        if other.first is None:
            return
        first, low, high = (_offset_index(corner, offset) for corner in (other.first, other.low, other.high))
        if self.first is None or first < self.first:
            self.first, self.one, self.two = first, other.one, other.two
        self.low = low if not self.low else tuple(map(min, self.low, low))
        self.high = high if not self.high else tuple(map(max, self.high, high))


def _offset_index(index: tuple[int, ...], offset: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i + o for i, o in zip(index, offset, strict=True))


def judge_arrays(
    reference: NDArray[Any], run: NDArray[Any], tolerance: Tolerance, rounding_bound: float = 0.0
) -> Judgement:
    """Return how many elements of two arrays of one shape differ, which, and by how much. `rounding_bound`: how far two
    numbers may be apart if only the order of sums differs.
    """
    found = Judgement()
    if reference.ndim == 0:
        found.merge_part(_judge_part(reference.reshape(1), run.reshape(1), tolerance, rounding_bound), (0,))
        found.first = () if found.first is not None else None
        found.low = found.high = ()
        return found
    rows = max(1, MAX_ELEMENTS // max(1, reference[:1].size))
    if rows == 1 and reference.ndim > 1 and reference[:1].size > MAX_ELEMENTS:
        for k in range(reference.shape[0]):
            inner = judge_arrays(reference[k], run[k], tolerance, rounding_bound)
            inner.first, inner.low, inner.high = (
                _prepend_axis(inner.first),
                _prepend_axis(inner.low),
                _prepend_axis(inner.high),
            )
            found.merge_part(inner, (k,) + (0,) * (reference.ndim - 1))
        return found
    for begin in range(0, reference.shape[0], rows):
        part = slice(begin, begin + rows)
        found.merge_part(
            _judge_part(reference[part], run[part], tolerance, rounding_bound), (begin,) + (0,) * (reference.ndim - 1)
        )
    return found


def _prepend_axis(index: Any) -> Any:
    return (0, *index) if index or index == () else index


def _judge_part(reference: NDArray[Any], run: NDArray[Any], tolerance: Tolerance, rounding_bound: float) -> Judgement:
    """Return how two arrays of one shape differ, which are so small that temporary copies of them fit into memory.
    `rounding_bound`: how far two numbers may be apart if only the order of sums differs.
    """
    found = Judgement(compared=reference.size)
    unequal = reference != run
    if tolerance.nan_equal and reference.dtype.kind in "fc" and run.dtype.kind in "fc":
        unequal &= ~(np.isnan(reference) & np.isnan(run))
    if not unequal.any():
        return found
    a, b = reference[unequal], run[unequal]
    if reference.dtype == run.dtype:  # a rank that computes in fewer bits is not taken for rounding
        rounding_bound = max(rounding_bound, _compute_rounding_bound(run))
    differs, rounded, steps = _classify_unequal(a, b, tolerance, rounding_bound)
    found.rounded, found.differing = int(rounded.sum()), int(differs.sum())
    found.ulps = float(steps[rounded].max(initial=0.0))
    if found.differing:
        _locate_differences(found, reference, run, unequal, differs)
    return found


def _compute_rounding_bound(numbers: NDArray[Any]) -> float:
    """Return the largest difference that is taken for rounding: a fixed number of units in the last place of the
    largest number, as the terms of a sum may cancel. 0 for integers.
    """
    if numbers.dtype.kind not in "fc":
        return 0.0
    return ROUNDING * float(np.finfo(numbers.dtype).eps) * _largest_magnitude(numbers)


def _largest_magnitude(numbers: NDArray[Any]) -> float:
    """Return the largest finite magnitude."""
    magnitude = np.abs(numbers)
    return float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))


def _locate_differences(
    judgement: Judgement,
    reference: NDArray[Any],
    run: NDArray[Any],
    unequal: NDArray[np.bool_],
    is_difference: NDArray[np.bool_],
) -> None:
    """Store in a judgement which elements differ, and by how much. `unequal`: mask of the unequal elements;
    `is_difference`: mask, among these, of the elements that count as different.
    """
    places = np.argwhere(unequal)[is_difference]
    judgement.first = tuple(places[0].tolist())
    judgement.one, judgement.two = reference[judgement.first], run[judgement.first]
    judgement.low, judgement.high = tuple(places.min(0).tolist()), tuple(places.max(0).tolist())
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(_widen(reference[unequal][is_difference]) - _widen(run[unequal][is_difference])).astype(
            np.float64
        )
    judgement.most = float(np.max(np.where(np.isfinite(error), error, np.inf), initial=0.0))
    judgement.largest = max(_largest_magnitude(reference), _largest_magnitude(run))


def _widen(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in a type in which they can be subtracted."""
    return numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.longdouble)


def _classify_unequal(
    reference: NDArray[Any], run: NDArray[Any], tolerance: Tolerance, rounding_bound: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Return three arrays for numbers that are unequal: a mask of those that differ, a mask of those that only rounding
    separates, and their distances in units in the last place. Numbers that the tolerance accepts are in neither mask.
    """
    if reference.dtype.kind == "c" or run.dtype.kind == "c":
        reference, run = (side.astype(np.result_type(reference, run)) for side in (reference, run))
        parts = [
            _classify_unequal(x, y, tolerance, rounding_bound)
            for x, y in ((reference.real, run.real), (reference.imag, run.imag))
        ]
        differs = parts[0][0] | parts[1][0]
        return differs, (parts[0][1] | parts[1][1]) & ~differs, np.maximum(parts[0][2], parts[1][2])
    if reference.dtype.kind != "f" and run.dtype.kind != "f":
        near = bool(tolerance.absolute or tolerance.relative)
        good = (
            tolerance.accepts(reference.astype(np.float64), run.astype(np.float64))
            if near
            else np.zeros(len(reference), bool)
        )
        return ~good, np.zeros(len(reference), bool), np.zeros(len(reference))
    # Numbers of fewer bits are exact in more: a rank that computes in less is not taken for rounding.
    common = np.result_type(reference, run)
    reference, run = reference.astype(common), run.astype(common)
    steps = compute_ulp_distances(reference, run)
    alike = tolerance.accepts(reference, run) | (reference == run)
    if tolerance.nan_equal:
        alike |= np.isnan(reference) & np.isnan(run)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = ~alike & tolerance.rounding & ((steps <= ROUNDING) | (np.abs(reference - run) <= rounding_bound))
        rounded &= np.isfinite(reference) & np.isfinite(run)
    return ~alike & ~rounded, rounded, steps
