"""Tell whether differences are rounding that grew from step to step, and where they grow faster than that."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.compare.values.model import ValueComparison, ValueDifference
from weft.compare.values.tolerance import ROUNDING

GROWN: Final = 1e-8
"""Relative differences below it may be rounding that grew."""
JUMP: Final = 1e5
"""From one time that a probe is reached to the next; conjugate gradients on a small problem amplify it 1,300 times."""


def compute_relative_distance(difference: ValueDifference) -> float:
    """Return the largest distance between numbers of the two runs, divided by the largest magnitude of the numbers.
    Infinite if the values are not floating-point numbers of one type.
    """
    if (
        difference.sort != "value"
        or difference.before.dtype.kind not in "fc"
        or difference.before.dtype != difference.after.dtype
    ):
        return float("inf")
    apart = difference.judged.most / difference.judged.largest if difference.judged.largest else float("inf")
    return apart if np.isfinite(apart) else float("inf")


def tolerance_option(apart: float) -> str:
    """Return the option that accepts a relative distance."""
    return f"--relative {10.0 ** np.ceil(np.log10(apart) + 1):.0e}"


def may_be_rounding(made: ValueComparison) -> bool:
    """Tell whether the first difference may be rounding that grew: other values are rounded, and it is small."""
    return bool(made.rounded and made.found) and all(compute_relative_distance(one) < GROWN for one in made.found[0])


def find_jump(comparison: ValueComparison) -> tuple[ValueDifference, float] | None:
    """Return (difference, factor) for the first time that the values of a probe are suddenly more than JUMP times as
    far apart as before. None if this never happens. The factor is how many times.
    """
    before: dict[str, float] = {}
    for some in comparison.found:
        name, apart = some[0].after.place.name, max(map(compute_relative_distance, some))
        known = before.get(name, ROUNDING * float(np.finfo(np.float64).eps))
        if apart > JUMP * known and apart > GROWN:
            return max(some, key=compute_relative_distance), apart / known
        before[name] = max(apart, known)
    return None
