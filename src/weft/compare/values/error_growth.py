"""Whether differences are rounding that grew from step to step, and where they grow faster than that."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.compare.values.model import Unlike, ValueComparison
from weft.compare.values.tolerance import ROUNDING

GROWN: Final = 1e-8
"""Relative differences below it may be rounding that grew."""
JUMP: Final = 1e5
"""From one time that a probe is reached to the next; conjugate gradients on a small problem amplify it 1,300 times."""


def relative(one: Unlike) -> float:
    """How far apart the values are at most, beside the largest of them; infinite where that says nothing."""
    if one.sort != "value" or one.before.dtype.kind not in "fc" or one.before.dtype != one.after.dtype:
        return float("inf")
    apart = one.judged.most / one.judged.largest if one.judged.largest else float("inf")
    return apart if np.isfinite(apart) else float("inf")


def tolerance(apart: float) -> str:
    """The option that lets a relative distance through."""
    return f"--relative {10.0 ** np.ceil(np.log10(apart) + 1):.0e}"


def may_be_rounding(made: ValueComparison) -> bool:
    """Whether the first difference may be rounding that grew: others are rounding, and it is small."""
    return bool(made.rounded and made.found) and all(relative(one) < GROWN for one in made.found[0])


def jump(made: ValueComparison) -> tuple[Unlike, float] | None:
    """Where the values of a probe are first JUMP times as far apart as the time before, or more; and how many times."""
    before: dict[str, float] = {}
    for some in made.found:
        name, apart = some[0].after.place.name, max(map(relative, some))
        known = before.get(name, ROUNDING * float(np.finfo(np.float64).eps))
        if apart > JUMP * known and apart > GROWN:
            return max(some, key=relative), apart / known
        before[name] = max(apart, known)
    return None
