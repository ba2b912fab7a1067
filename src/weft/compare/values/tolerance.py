"""When two numbers count as alike: exactly, within a distance, or by what another order of sums does."""

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
    """What is let through. Any of them is enough; with none of them numbers are alike that are equal.

    `rounding`: differences of at most ROUNDING units in the last place are told, and are not errors.
    """

    absolute: float = 0.0
    relative: float = 0.0
    ulps: int = 0
    nan_equal: bool = True
    rounding: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Tolerance:
        """From the words of a configuration."""
        said = {key: settings[key] for key in ("absolute", "relative", "ulps") if key in settings}
        exact = bool(settings.get("exact", False))
        # Who names a tolerance means it: what is beyond it differs.
        return cls(**said, nan_equal=settings.get("nan") != "different", rounding=not (exact or said))

    def lets(self, one: NDArray[Any], two: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of two rows of numbers (of float64, or wider) that are not equal are let through."""
        distance = _apart(one, two)
        magnitude = np.maximum(np.abs(one), np.abs(two))
        with np.errstate(invalid="ignore", over="ignore"):
            good = (distance <= self.absolute) | (distance <= self.relative * magnitude)
        good &= np.isfinite(one) & np.isfinite(two)
        return np.asarray(good | (ulps(one, two) <= self.ulps), bool)


def _apart(one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(one - two))


_INTEGERS: Final = {2: np.int16, 4: np.int32, 8: np.int64}


def ulps(one: NDArray[Any], two: NDArray[Any]) -> NDArray[np.float64]:
    """How many numbers of their type lie between two of each; infinite where one is not a number or is infinite."""
    size = one.dtype.itemsize
    if size not in _INTEGERS:
        with np.errstate(invalid="ignore", divide="ignore"):
            spacing = np.spacing(np.maximum(np.abs(one), np.abs(two)))
            return np.asarray(np.abs(one - two) / spacing, np.float64)
    steps = [_steps(side) for side in (one, two)]
    # Of 64 bits the difference may not fit: as floats it is exact as far as anybody looks.
    apart = np.abs(steps[0].astype(np.float64) - steps[1].astype(np.float64))
    near = np.abs(steps[0] - steps[1])
    apart = np.where(apart < 2**53, near, apart)
    same = (one == two) | (np.isfinite(one) & np.isfinite(two))
    return np.where(same, np.where(one == two, 0, apart), np.inf)


def _steps(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Integers in the order of the numbers (Dawson 2012): neighbours differ by one, zeros of both signs are equal."""
    width = numbers.dtype.itemsize
    raw = np.ascontiguousarray(numbers).view(_INTEGERS[width]).astype(np.int64)
    least = np.int64(-(2 ** (8 * width - 1)))
    with np.errstate(over="ignore"):
        return np.asarray(np.where(raw < 0, least - raw, raw), np.int64)
