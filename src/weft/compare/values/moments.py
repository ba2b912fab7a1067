"""Pair the values of the reference with those of the run: by program structure, never by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.native.headers.values import kernel
from weft.values.process import KeptValue
from weft.values.trace import ValueTrace

TOGETHER: Final = 256 << 20
"""Bytes of both files, about, that are in memory at a time."""

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


@dataclass(slots=True)
class RunValues:
    """The values of all processes of a run as columns: key, process and row of each."""

    trace: ValueTrace
    key: Keys
    process: Ints
    row: Ints

    @classmethod
    def from_trace(cls, trace: ValueTrace) -> RunValues:
        """Return all values of a run as columns: the key of the moment, the process, and the row of the value in the
        process.
        """
        counts = [len(one.rows) for one in trace.processes]
        key = np.concatenate([one.rows["key"] for one in trace.processes])
        process = np.repeat(np.arange(len(counts)), counts)
        return cls(trace, key, process, np.concatenate([np.arange(n) for n in counts]))

    def __len__(self) -> int:
        return len(self.key)

    def value_at(self, at: int) -> KeptValue:
        """Return the value at an index."""
        return self.trace.processes[int(self.process[at])].value_at(int(self.row[at]))


@dataclass(slots=True)
class Moments:
    """The moments of both runs in the order of the reference, with the values that each run has there.

    A moment is a probe in an iteration: its values are those of all ranks.
    """

    before: RunValues
    after: RunValues
    keys: Keys
    """Of both runs."""
    order: Ints
    """Of `keys`: those of the reference as they came there; those that only the run has, as they came in it."""
    same: NDArray[np.bool_]
    """By key: whether every value is the same, byte for byte, rank by rank."""
    counts: tuple[Ints, Ints]
    _sorted: tuple[Ints, Ints]
    _first: tuple[Ints, Ints]

    def values_at(self, run_side: int, moment_key: int) -> Iterator[KeptValue]:
        """Yield the values that a run has at a moment (a probe in an iteration), sorted by rank. `run_side`: 0 for the
        reference, 1 for the run; `moment_key`: index into `keys`.
        """
        rows = (self.before, self.after)[run_side]
        first = int(self._first[run_side][moment_key])
        for at in self._sorted[run_side][first : first + int(self.counts[run_side][moment_key])].tolist():
            yield rows.value_at(at)

    def find_value_positions(self, run_side: int) -> tuple[Ints, Ints]:
        """Return (positions, processes) of all values of a run: the position in `order` of the moment at which each
        value was kept, ascending, and the process that kept it. `run_side`: 0 for the reference, 1 for the run.
        """
        place = np.empty(len(self.keys), np.int64)
        place[self.order] = np.arange(len(self.order))
        places = np.repeat(place, self.counts[run_side])
        processes = (self.before, self.after)[run_side].process[self._sorted[run_side]]
        rising = np.argsort(places, kind="stable")
        return places[rising], processes[rising]


def align_moments(before: RunValues, after: RunValues) -> Moments:
    """Return the moments of two runs (a moment is a probe in an iteration), in the order of the reference, with the
    values that each run has there.
    """
    keys, inverse = np.unique(np.concatenate([before.key, after.key]), return_inverse=True)
    sides = inverse[: len(before)], inverse[len(before) :]
    counts = [np.bincount(side, minlength=len(keys)) for side in sides]
    sort = [np.lexsort((rows.process, side)) for rows, side in zip((before, after), sides, strict=True)]
    first = [np.cumsum(count) - count for count in counts]
    place = np.full((2, len(keys)), np.iinfo(np.int64).max)
    for k, (rows, side) in enumerate(zip((before, after), sides, strict=True)):
        np.minimum.at(place[k], side, rows.row)
    # Where the reference does not have a moment, that of the run tells its place.
    order = np.argsort(np.where(counts[0] > 0, place[0], place[1]), kind="stable")
    same = _find_equal_moments(before, after, sort, counts, first)
    return Moments(before, after, keys, order, same, (counts[0], counts[1]), (sort[0], sort[1]), (first[0], first[1]))


def _find_equal_moments(
    before: RunValues, after: RunValues, sorted_rows: list[Ints], counts: list[Ints], first_rows: list[Ints]
) -> NDArray[np.bool_]:
    """Return a mask of the moments at which both runs have the same values, rank by rank and byte for byte.

    Each list has an array for the reference and one for the run: `sorted_rows` (values sorted by moment), `counts`
    (number of values at each moment), `first_rows` (where its values begin in `sorted_rows`).
    """
    same = np.asarray((counts[0] == counts[1]) & (counts[0] > 0), bool)
    pairs = [np.repeat(side[same], counts[0][same]) for side in first_rows]
    begin = np.cumsum(counts[0][same]) - counts[0][same]
    within = np.arange(len(pairs[0])) - np.repeat(begin, counts[0][same])
    one, two = sorted_rows[0][pairs[0] + within], sorted_rows[1][pairs[1] + within]
    pair = np.stack([before.process[one], after.process[two]])
    equal = pair[0] == pair[1]
    if after.trace.has_processors:
        # One processor has what the program without directives has: which one does not matter.
        equal |= np.repeat(counts[0][same] == 1, counts[0][same])
    for p, q in np.unique(pair[:, equal], axis=1).T.tolist():
        mine = equal & (pair[0] == p) & (pair[1] == q)
        equal[mine] = _compare_rows(before, after, (p, q), before.row[one[mine]], after.row[two[mine]])
    same[same] = np.bitwise_and.reduceat(equal, begin) if len(equal) else True
    return same


def _compare_rows(
    before: RunValues, after: RunValues, processes: tuple[int, int], reference_rows: Ints, run_rows: Ints
) -> NDArray[np.bool_]:
    """Return a mask of the values that have the same bytes in both runs. `processes`: the indices of the process in the
    reference and of the process in the run; `reference_rows`, `run_rows`: rows of their values.
    """
    sides = [rows.trace.processes[process] for rows, process in zip((before, after), processes, strict=True)]
    at = [
        np.ascontiguousarray(side.rows["offset"][rows])
        for side, rows in zip(sides, (reference_rows, run_rows), strict=True)
    ]
    found = np.zeros(len(reference_rows), np.uint8)
    each = sum(len(side.records) // max(1, len(side.rows)) for side in sides)
    step = max(1, TOGETHER // max(1, each))
    for begin in range(0, len(reference_rows), step):
        part = slice(begin, begin + step)
        count = len(found[part])
        kernel().weft_compare_values(sides[0].records, at[0][part], sides[1].records, at[1][part], count, found[part])
        for side in sides:
            side.release_pages()
    return found.astype(bool)
