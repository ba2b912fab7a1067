"""Find the first place where the structures of two runs differ: a loop with more iterations, an additional probe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.base.lazy import dataclass
from weft.compare.values.moments import Moments, RunValues
from weft.native.headers.value_format import PlaceKind
from weft.safety.folders import read_regular
from weft.values.folder import FOLDER
from weft.values.process import KeptValue, ProcessValues
from weft.values.trace import ValueTrace

_KINDS: Final = (PlaceKind.PROBE, PlaceKind.LOOP, PlaceKind.REGION)


@dataclass(frozen=True, slots=True)
class StructureDifference:
    """Where structures differ: `only` is a value that the other run does not have, the first of `count` such values.

    `loop`: the loop around it with a different number of iterations: its place and both numbers. `whole`: whether all
    values of the other run could be read; else nothing is known of loops.
    """

    side: int
    """0: only the reference has it; 1: only the run."""
    only: KeptValue
    count: int
    loop: tuple[str, int, int] | None = None
    whole: bool = True


def have_no_common_probe(before: ValueTrace, after: ValueTrace) -> bool:
    """Return whether two runs have no probe in common."""
    names = [{p.name for one in trace.processes for p in one.places if p.kind == PlaceKind.PROBE}
             for trace in (before, after)]  # fmt: skip
    return not names[0] & names[1]


def are_configured_alike(before: ValueTrace, after: ValueTrace) -> bool:
    """Return whether both runs were configured to keep the same values: their configurations are equal byte
    for byte.
    """
    plans = []
    for trace in (before, after):
        try:
            plans.append(read_regular(trace.path / FOLDER / "plan", trace.path))
        except OSError:
            plans.append(b"")
    return plans[0] == plans[1]


def find_structure_difference(moments: Moments) -> StructureDifference | None:
    """Return the first value that only one of two runs has. None if there is none, or if the runs were configured to
    keep different values.
    """
    before, after = moments.before.trace, moments.after.trace
    if not are_configured_alike(before, after):
        return None
    whole = _is_complete(before) and _is_complete(after)
    alone = [(moments.counts[side] > 0) & (moments.counts[1 - side] == 0) for side in (0, 1)]
    for key in moments.order.tolist():
        for side in (0, 1):
            if alone[side][key]:
                only = next(iter(moments.values_at(side, key)))
                loop = _find_differing_loop(moments, side, only) if whole else None
                return StructureDifference(side, only, int(alone[0].sum() + alone[1].sum()), loop, whole)
    return None


def _is_complete(trace: ValueTrace) -> bool:
    """Tell whether all values of a run could be read."""
    return not any("ends early" in text or "cut off" in text or "damaged" in text for text in trace.problems)


def _find_differing_loop(moments: Moments, run_side: int, value: KeptValue) -> tuple[str, int, int] | None:
    """Return (place, iterations in the reference, iterations in the run) of the outermost loop around a value that had
    different numbers of iterations in the two runs. None if there is none. `run_side`: the run that has the value, 0
    for the reference.
    """
    sides: list[RunValues] = [moments.before, moments.after]
    for row in _find_surrounding_iterations(value.process, int(value.process.rows["parent"][value.row])):
        one = value.process.iterations[row]
        counts = [_count_iterations(rows.trace, int(one["loop"])) for rows in sides]
        if counts[0] != counts[1] and counts[1 - run_side]:
            place = value.process.place(int(one["place"]))
            return f"{place.name} ({place.where})" if place.where else place.name, counts[0], counts[1]
    return None


def _find_surrounding_iterations(process: ProcessValues, iteration_row: int) -> Iterator[int]:
    """Yield the rows of the iterations that contain an iteration, and last its own row; the outermost comes first. -1
    as `iteration_row` has none.
    """
    rows = []
    while iteration_row >= 0:
        rows.append(iteration_row)
        iteration_row = int(process.iterations["parent"][iteration_row])
    yield from reversed(rows)


def _count_iterations(trace: ValueTrace, loop: int) -> int:
    """Return how many iterations of a loop were entered, on the rank that entered most."""
    return max(int(np.count_nonzero(one.iterations["loop"] == np.uint64(loop))) for one in trace.processes)
