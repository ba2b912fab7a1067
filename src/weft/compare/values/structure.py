"""The first place where two runs are built otherwise: a loop that ran another number of times, a probe more or less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.base.lazy import dataclass
from weft.compare.values.moments import Moments, Rows
from weft.native.headers.value_format import PlaceKind
from weft.safety.folders import read_regular
from weft.values.folder import FOLDER
from weft.values.process import Kept, Process
from weft.values.trace import ValueTrace

_KINDS: Final = (PlaceKind.PROBE, PlaceKind.LOOP, PlaceKind.REGION)


@dataclass(frozen=True, slots=True)
class Parting:
    """Where structures differ: `only` has a value that the other run does not have, the first of `count` such.

    `loop`: the loop around it that ran another number of times, its place and both numbers. `whole`: whether all that
    the other run kept could be read; else its values end early, or its file is damaged, and nothing is known of loops.
    """

    side: int
    """0: only the reference has it; 1: only the run."""
    only: Kept
    count: int
    loop: tuple[str, int, int] | None = None
    whole: bool = True


def strangers(before: ValueTrace, after: ValueTrace) -> bool:
    """Whether two runs have no probe in common."""
    names = [{p.name for one in trace.processes for p in one.places if p.kind == PlaceKind.PROBE}
             for trace in (before, after)]  # fmt: skip
    return not names[0] & names[1]


def configured_alike(before: ValueTrace, after: ValueTrace) -> bool:
    """Whether both runs were told to keep the same."""
    plans = []
    for trace in (before, after):
        try:
            plans.append(read_regular(trace.path / FOLDER / "plan", trace.path))
        except OSError:
            plans.append(b"")
    return plans[0] == plans[1]


def parting(aligned: Moments) -> Parting | None:
    """The first value that only one run has; None where both have the same ones, or were told to keep others."""
    before, after = aligned.before.trace, aligned.after.trace
    if not configured_alike(before, after):
        return None
    whole = _whole(before) and _whole(after)
    alone = [(aligned.counts[side] > 0) & (aligned.counts[1 - side] == 0) for side in (0, 1)]
    for key in aligned.order.tolist():
        for side in (0, 1):
            if alone[side][key]:
                only = next(iter(aligned.values(side, key)))
                loop = _loop(aligned, side, only) if whole else None
                return Parting(side, only, int(alone[0].sum() + alone[1].sum()), loop, whole)
    return None


def _whole(trace: ValueTrace) -> bool:
    """Whether all values of a run are there: one that ends early has fewer, and says so."""
    return not any("ends early" in text or "cut off" in text or "damaged" in text for text in trace.problems)


def _loop(aligned: Moments, side: int, only: Kept) -> tuple[str, int, int] | None:
    """The outermost loop around a value that ran another number of times: where it is, and both numbers."""
    sides: list[Rows] = [aligned.before, aligned.after]
    for row in _around(only.process, int(only.process.rows["parent"][only.row])):
        one = only.process.iterations[row]
        counts = [_ran(rows.trace, int(one["loop"])) for rows in sides]
        if counts[0] != counts[1] and counts[1 - side]:
            place = only.process.place(int(one["place"]))
            return f"{place.name} ({place.where})" if place.where else place.name, counts[0], counts[1]
    return None


def _around(process: Process, parent: int) -> Iterator[int]:
    """Rows of the iterations around a value, the outermost first."""
    rows = []
    while parent >= 0:
        rows.append(parent)
        parent = int(process.iterations["parent"][parent])
    yield from reversed(rows)


def _ran(trace: ValueTrace, loop: int) -> int:
    """How many iterations of a loop were entered, on the rank that entered most."""
    return max(int(np.count_nonzero(one.iterations["loop"] == np.uint64(loop))) for one in trace.processes)
