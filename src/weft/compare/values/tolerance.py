"""Decide when two numbers count as alike: exactly, within a distance, or up to another order of sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass

ROUNDING: Final = 64
"""Units in the last place that another order of a few sums may come to, where the program does not name its terms."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The differences that are accepted. One limit is enough; without limits only equal numbers are alike.

    `rounding`: differences of at most ROUNDING ulps are reported, and are no errors.
    """

    absolute: float = 0.0
    relative: float = 0.0
    ulps: int = 0
    nan_equal: bool = True
    rounding: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Tolerance:
        """Return the tolerance that the entries of a configuration describe."""
        said = {key: settings[key] for key in ("absolute", "relative", "ulps") if key in settings}
        exact = bool(settings.get("exact", False))
        # Who names a tolerance means it: what is beyond it differs.
        return cls(**said, nan_equal=settings.get("nan") != "different", rounding=not (exact or said))

    def accepts(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the numbers that the tolerance accepts as alike. `first`, `second`: unequal numbers, of
        float64 or wider.
        """
        distance = _distances(first, second)
        magnitude = np.maximum(np.abs(first), np.abs(second))
        with np.errstate(invalid="ignore", over="ignore"):
            good = (distance <= self.absolute) | (distance <= self.relative * magnitude)
        good &= np.isfinite(first) & np.isfinite(second)
        return np.asarray(good | (compute_ulp_distances(first, second) <= self.ulps), bool)


def _distances(one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(one - two))


_INTEGERS: Final = {2: np.int16, 4: np.int32, 8: np.int64}


def compute_ulp_distances(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many steps of their floating-point type each two numbers are apart: 0 if they are equal, 1 for
    neighbours. Infinite if they differ and one of them is NaN or infinite.
    """
    size = first.dtype.itemsize
    if size not in _INTEGERS:
        with np.errstate(invalid="ignore", divide="ignore"):
            spacing = np.spacing(np.maximum(np.abs(first), np.abs(second)))
            return np.asarray(np.abs(first - second) / spacing, np.float64)
    steps = [_to_ordered_integers(side) for side in (first, second)]
    # Of 64 bits the difference may not fit: as floats it is exact as far as anybody looks.
    apart = np.abs(steps[0].astype(np.float64) - steps[1].astype(np.float64))
    near = np.abs(steps[0] - steps[1])
    apart = np.where(apart < 2**53, near, apart)
    same = (first == second) | (np.isfinite(first) & np.isfinite(second))
    return np.where(same, np.where(first == second, 0, apart), np.inf)


def _to_ordered_integers(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return integers that have the same order as the floating-point numbers (Dawson 2012). Neighbours differ by 1; the
    zeros of both signs are equal.
    """
    width = numbers.dtype.itemsize
    raw = np.ascontiguousarray(numbers).view(_INTEGERS[width]).astype(np.int64)
    least = np.int64(-(2 ** (8 * width - 1)))
    with np.errstate(over="ignore"):
        return np.asarray(np.where(raw < 0, least - raw, raw), np.int64)
