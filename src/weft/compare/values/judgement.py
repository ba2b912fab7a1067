"""Compare two arrays of one shape, a part at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.compare.values.tolerance import ROUNDING, Tolerance, ulp_distances

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
        """Add the judgement of another part of the same array, which begins at `offset`."""
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


def judge_arrays(one: NDArray[Any], two: NDArray[Any], tolerance: Tolerance, bound: float = 0.0) -> Judgement:
    """Compare arrays of one shape. `bound`: how far sums in another order may be apart."""
    found = Judgement()
    if one.ndim == 0:
        found.merge_part(_judge_part(one.reshape(1), two.reshape(1), tolerance, bound), (0,))
        found.first = () if found.first is not None else None
        found.low = found.high = ()
        return found
    rows = max(1, MAX_ELEMENTS // max(1, one[:1].size))
    if rows == 1 and one.ndim > 1 and one[:1].size > MAX_ELEMENTS:
        for k in range(one.shape[0]):
            inner = judge_arrays(one[k], two[k], tolerance, bound)
            inner.first, inner.low, inner.high = (
                _prepend_axis(inner.first),
                _prepend_axis(inner.low),
                _prepend_axis(inner.high),
            )
            found.merge_part(inner, (k,) + (0,) * (one.ndim - 1))
        return found
    for begin in range(0, one.shape[0], rows):
        part = slice(begin, begin + rows)
        found.merge_part(_judge_part(one[part], two[part], tolerance, bound), (begin,) + (0,) * (one.ndim - 1))
    return found


def _prepend_axis(index: Any) -> Any:
    return (0, *index) if index or index == () else index


def _judge_part(one: NDArray[Any], two: NDArray[Any], tolerance: Tolerance, bound: float) -> Judgement:
    """Compare two parts that fit into memory."""
    found = Judgement(compared=one.size)
    unequal = one != two
    if tolerance.nan_equal and one.dtype.kind in "fc" and two.dtype.kind in "fc":
        unequal &= ~(np.isnan(one) & np.isnan(two))
    if not unequal.any():
        return found
    a, b = one[unequal], two[unequal]
    if one.dtype == two.dtype:  # a rank that computes in fewer bits is not taken for rounding
        bound = max(bound, _rounding_bound(two))
    differs, rounded, steps = _classify_unequal(a, b, tolerance, bound)
    found.rounded, found.differing = int(rounded.sum()), int(differs.sum())
    found.ulps = float(steps[rounded].max(initial=0.0))
    if found.differing:
        _locate_differences(found, one, two, unequal, differs)
    return found


def _rounding_bound(numbers: NDArray[Any]) -> float:
    """Return the rounding error relative to the largest of some numbers, which is many ulps of a result
    that cancels.
    """
    if numbers.dtype.kind not in "fc":
        return 0.0
    return ROUNDING * float(np.finfo(numbers.dtype).eps) * _largest_magnitude(numbers)


def _largest_magnitude(numbers: NDArray[Any]) -> float:
    """Return the largest finite magnitude."""
    magnitude = np.abs(numbers)
    return float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))


def _locate_differences(
    found: Judgement, one: NDArray[Any], two: NDArray[Any], unequal: NDArray[np.bool_], differs: NDArray[np.bool_]
) -> None:
    """Set where elements differ, and by how much, in a judgement."""
    places = np.argwhere(unequal)[differs]
    found.first = tuple(places[0].tolist())
    found.one, found.two = one[found.first], two[found.first]
    found.low, found.high = tuple(places.min(0).tolist()), tuple(places.max(0).tolist())
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(_widen(one[unequal][differs]) - _widen(two[unequal][differs])).astype(np.float64)
    found.most = float(np.max(np.where(np.isfinite(error), error, np.inf), initial=0.0))
    found.largest = max(_largest_magnitude(one), _largest_magnitude(two))


def _widen(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in a type in which they can be subtracted."""
    return numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.longdouble)


def _classify_unequal(
    a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance, bound: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Return of unequal numbers which differ, which only rounding separates, and by how many ulps."""
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        a, b = (side.astype(np.result_type(a, b)) for side in (a, b))
        parts = [_classify_unequal(x, y, tolerance, bound) for x, y in ((a.real, b.real), (a.imag, b.imag))]
        differs = parts[0][0] | parts[1][0]
        return differs, (parts[0][1] | parts[1][1]) & ~differs, np.maximum(parts[0][2], parts[1][2])
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        near = bool(tolerance.absolute or tolerance.relative)
        good = tolerance.accepts(a.astype(np.float64), b.astype(np.float64)) if near else np.zeros(len(a), bool)
        return ~good, np.zeros(len(a), bool), np.zeros(len(a))
    # Numbers of fewer bits are exact in more: a rank that computes in less is not taken for rounding.
    common = np.result_type(a, b)
    a, b = a.astype(common), b.astype(common)
    steps = ulp_distances(a, b)
    alike = tolerance.accepts(a, b) | (a == b)
    if tolerance.nan_equal:
        alike |= np.isnan(a) & np.isnan(b)
    with np.errstate(invalid="ignore"):
        rounded = ~alike & tolerance.rounding & ((steps <= ROUNDING) | (np.abs(a - b) <= bound))
        rounded &= np.isfinite(a) & np.isfinite(b)
    return ~alike & ~rounded, rounded, steps
