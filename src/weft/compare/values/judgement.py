"""Two arrays of one shape held against each other, a stretch at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.compare.values.tolerance import ROUNDING, Tolerance, ulps

STRETCH: Final = 1 << 20
"""Elements that are looked at together: memory does not grow with the arrays."""


@dataclass(slots=True)
class Judged:
    """What two arrays have in common. Counts are of elements.

    `first` is the index of the first that differs, `one` and `two` what stands there in reference and run; `low` and
    `high` are the corners of all that differ, `most` how far apart they are at most, `largest` the largest magnitude
    of all. `ulps` is the most among those that only rounding keeps apart.
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

    def merge(self, other: Judged, offset: tuple[int, ...]) -> None:
        """Another stretch of the same array, which begins at `offset`."""
        self.compared += other.compared
        self.differing += other.differing
        self.rounded += other.rounded
        self.ulps, self.most = max(self.ulps, other.ulps), max(self.most, other.most)
        self.largest = max(self.largest, other.largest)
        if other.first is None:
            return
        first, low, high = (_moved(corner, offset) for corner in (other.first, other.low, other.high))
        if self.first is None or first < self.first:
            self.first, self.one, self.two = first, other.one, other.two
        self.low = low if not self.low else tuple(map(min, self.low, low))
        self.high = high if not self.high else tuple(map(max, self.high, high))


def _moved(index: tuple[int, ...], offset: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i + o for i, o in zip(index, offset, strict=True))


def judge(one: NDArray[Any], two: NDArray[Any], tolerance: Tolerance, bound: float = 0.0) -> Judged:
    """Hold arrays of one shape against each other. `bound`: how far sums in another order may lie apart."""
    found = Judged()
    if one.ndim == 0:
        found.merge(_stretch(one.reshape(1), two.reshape(1), tolerance, bound), (0,))
        found.first = () if found.first is not None else None
        found.low = found.high = ()
        return found
    rows = max(1, STRETCH // max(1, one[:1].size))
    if rows == 1 and one.ndim > 1 and one[:1].size > STRETCH:
        for k in range(one.shape[0]):
            inner = judge(one[k], two[k], tolerance, bound)
            inner.first, inner.low, inner.high = _deeper(inner.first), _deeper(inner.low), _deeper(inner.high)
            found.merge(inner, (k,) + (0,) * (one.ndim - 1))
        return found
    for begin in range(0, one.shape[0], rows):
        part = slice(begin, begin + rows)
        found.merge(_stretch(one[part], two[part], tolerance, bound), (begin,) + (0,) * (one.ndim - 1))
    return found


def _deeper(index: Any) -> Any:
    return (0, *index) if index or index == () else index


def _stretch(one: NDArray[Any], two: NDArray[Any], tolerance: Tolerance, bound: float) -> Judged:
    found = Judged(compared=one.size)
    unequal = one != two
    if tolerance.nan_equal and one.dtype.kind in "fc" and two.dtype.kind in "fc":
        unequal &= ~(np.isnan(one) & np.isnan(two))
    if not unequal.any():
        return found
    a, b = one[unequal], two[unequal]
    if one.dtype == two.dtype:  # a rank that computes in fewer bits is not taken for rounding
        bound = max(bound, _noise(two))
    differs, rounded, steps = _apart(a, b, tolerance, bound)
    found.rounded, found.differing = int(rounded.sum()), int(differs.sum())
    found.ulps = float(steps[rounded].max(initial=0.0))
    if found.differing:
        _located(found, one, two, unequal, differs)
    return found


def _noise(numbers: NDArray[Any]) -> float:
    """What rounding comes to beside the largest of some numbers: where they cancel, it is many units of the result."""
    if numbers.dtype.kind not in "fc":
        return 0.0
    return ROUNDING * float(np.finfo(numbers.dtype).eps) * _largest(numbers)


def _largest(numbers: NDArray[Any]) -> float:
    """The largest magnitude among those that are finite."""
    magnitude = np.abs(numbers)
    return float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))


def _located(
    found: Judged, one: NDArray[Any], two: NDArray[Any], unequal: NDArray[np.bool_], differs: NDArray[np.bool_]
) -> None:
    places = np.argwhere(unequal)[differs]
    found.first = tuple(places[0].tolist())
    found.one, found.two = one[found.first], two[found.first]
    found.low, found.high = tuple(places.min(0).tolist()), tuple(places.max(0).tolist())
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(_wide(one[unequal][differs]) - _wide(two[unequal][differs])).astype(np.float64)
    found.most = float(np.max(np.where(np.isfinite(error), error, np.inf), initial=0.0))
    found.largest = max(_largest(one), _largest(two))


def _wide(numbers: NDArray[Any]) -> NDArray[Any]:
    """As numbers that can be taken from each other."""
    return numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.longdouble)


def _apart(
    a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance, bound: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Of numbers that are not equal: which differ, which only rounding keeps apart, and by how many units."""
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        a, b = (side.astype(np.result_type(a, b)) for side in (a, b))
        parts = [_apart(x, y, tolerance, bound) for x, y in ((a.real, b.real), (a.imag, b.imag))]
        differs = parts[0][0] | parts[1][0]
        return differs, (parts[0][1] | parts[1][1]) & ~differs, np.maximum(parts[0][2], parts[1][2])
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        near = bool(tolerance.absolute or tolerance.relative)
        good = tolerance.lets(a.astype(np.float64), b.astype(np.float64)) if near else np.zeros(len(a), bool)
        return ~good, np.zeros(len(a), bool), np.zeros(len(a))
    # Numbers of fewer bits are exact in more: a rank that computes in less is not taken for rounding.
    common = np.result_type(a, b)
    a, b = a.astype(common), b.astype(common)
    steps = ulps(a, b)
    alike = tolerance.lets(a, b) | (a == b)
    if tolerance.nan_equal:
        alike |= np.isnan(a) & np.isnan(b)
    with np.errstate(invalid="ignore"):
        rounded = ~alike & tolerance.rounding & ((steps <= ROUNDING) | (np.abs(a - b) <= bound))
        rounded &= np.isfinite(a) & np.isfinite(b)
    return ~alike & ~rounded, rounded, steps
