"""The axes of the picture: time, time with its idle spans folded away, and logical time.

The page knows the axis of the screen only; a `Scale` converts its positions to the times of a Timeline and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.view.timeline import MARKS, Timeline, end_margin

LEAST_FOLD: Final = 0.02
"""Idle time is folded where it is this share of the run ..."""

FOLDED: Final = 0.01
"""... and then takes this share of what is left of it."""

Numbers = NDArray[np.float64]

Spot = tuple[int, float, float]
"""Row, start and end of an event on an axis."""


@dataclass(frozen=True)
class Fold:
    """A span of time in which no call begins or ends, and where it is drawn on the screen's axis (`at`, `width`)."""

    start: int
    end: int
    at: float
    width: float


class Scale:
    """One axis of the screen, from 0 to `end`."""

    def __init__(
        self, name: str, timeline: Timeline, measured: int, folds: tuple[Fold, ...] = (), unit: int = 1
    ) -> None:  # fmt: skip
        self.name = name
        self.unit = unit
        self.timeline = timeline
        self.folds = folds
        times, places = [0.0], [0.0]
        for fold in folds:
            times += [float(fold.start), float(fold.end)]
            places += [fold.at, fold.at + fold.width]
        self.measured = (places[-1] + measured - times[-1]) / unit
        """Where the last event is; after it open calls go on to the end."""
        times += [float(measured), float(timeline.last)]
        places += [
            self.measured,
            self.measured + (end_margin(self.measured) if folds else (timeline.last - measured) / unit),
        ]
        self._times, self._places = np.array(times), np.array(places)
        self.end = places[-1]

    def positions(self, times: Any) -> Numbers:
        """Return where on the axis some times (ns) are drawn."""
        wide = np.asarray(times, np.float64)
        if not self.folds:
            return wide / self.unit
        inside: Numbers = np.interp(wide, self._times, self._places)
        return inside

    def event_positions(self, events: Sequence[tuple[int, int]]) -> list[Spot]:
        """Return (row of the picture, start, end) on the axis for each event, which is given as (rank, index)."""
        named = np.array(events, np.int64).reshape(-1, 2)
        rows, starts, ends = self.timeline.rank_event_times(named[:, 0], named[:, 1])
        return list(zip(rows.tolist(), self.positions(starts).tolist(), self.positions(ends).tolist(), strict=True))

    def times_at(self, places: Any) -> Numbers:
        """Return the times (ns) that are drawn at some positions of the axis."""
        wide = np.asarray(places, np.float64)
        if not self.folds:
            return wide * self.unit
        inside: Numbers = np.interp(wide, self._places, self._times)
        return inside + np.minimum(wide, 0) + np.maximum(wide - self.end, 0)

    def column_edges(self, start: float, end: float, columns: int) -> NDArray[np.int64]:
        """Return the times (ns) at the edges of `columns` equal columns, which divide an interval of the axis."""
        found: NDArray[np.int64] = np.rint(self.times_at(np.linspace(start, end, columns + 1))).astype(np.int64)
        return found


def clock_scale(timeline: Timeline, measured: int) -> Scale:
    """Return the axis of time as it was measured."""
    return Scale("time", timeline, measured)


def folded_scale(timeline: Timeline, measured: int) -> Scale:
    """Return the axis of time with long spans cut short in which no call begins or ends. `measured`: the end of the
    measured time in ns.
    """
    gaps = find_idle_spans(timeline.marks, timeline.last)
    left = measured - sum(end - start for start, end in gaps)
    width = max(1.0, left * FOLDED)
    folds, at, before = [], 0.0, 0
    for start, end in gaps:
        at += start - before
        folds.append(Fold(start, end, at, width))
        at, before = at + width, end
    return Scale("folded", timeline, measured, tuple(folds))


def find_idle_spans(marks: NDArray[np.uint8], last: int) -> list[tuple[int, int]]:
    """Return the spans (start, end in ns) in which no call begins or ends, if they are long enough to be folded.

    `marks`: for each of MARKS equal parts of the run's time whether a call begins or ends in it; `last`: the run's end.
    """
    marked = np.flatnonzero(marks)
    if not len(marked):
        return []
    # What lies behind the last mark is the open end of the run: it stays.
    starts, ends = marked[:-1] + 1, marked[1:]
    long = np.flatnonzero(ends - starts >= MARKS * LEAST_FOLD)
    part = last / MARKS
    return [(int(np.ceil(starts[i] * part)) + 1, int(ends[i] * part) - 1) for i in long]
