"""Which value of the reference belongs to which of the run: by structure, never by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.native.headers.values import kernel
from weft.values.process import Kept
from weft.values.trace import ValueTrace

TOGETHER: Final = 256 << 20
"""Bytes of both files, about, that are in memory at a time."""

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


@dataclass(slots=True)
class Rows:
    """The values of all processes of a run, one behind the other: key, process and row of each."""

    trace: ValueTrace
    key: Keys
    process: Ints
    row: Ints

    @classmethod
    def of(cls, trace: ValueTrace) -> Rows:
        """All values of a run."""
        counts = [len(one.rows) for one in trace.processes]
        key = np.concatenate([one.rows["key"] for one in trace.processes])
        process = np.repeat(np.arange(len(counts)), counts)
        return cls(trace, key, process, np.concatenate([np.arange(n) for n in counts]))

    def __len__(self) -> int:
        return len(self.key)

    def kept(self, at: int) -> Kept:
        """One of them."""
        return self.trace.processes[int(self.process[at])].kept(int(self.row[at]))


@dataclass(slots=True)
class Moments:
    """Keys of both runs in the order of the reference, with the values that each run has there.

    A moment is a probe in an iteration: its values are those of all ranks.
    """

    before: Rows
    after: Rows
    keys: Keys
    """Of both runs."""
    order: Ints
    """Of `keys`: those of the reference as they came there; those that only the run has, as they came in it."""
    same: NDArray[np.bool_]
    """By key: whether every value is the same, byte for byte, rank by rank."""
    counts: tuple[Ints, Ints]
    _sorted: tuple[Ints, Ints]
    _first: tuple[Ints, Ints]

    def values(self, side: int, key: int) -> Iterator[Kept]:
        """What a run (0: the reference) has at a moment, by rank."""
        rows = (self.before, self.after)[side]
        first = int(self._first[side][key])
        for at in self._sorted[side][first : first + int(self.counts[side][key])].tolist():
            yield rows.kept(at)

    def placed(self, side: int) -> tuple[Ints, Ints]:
        """Of all values of a run the place in `order`, rising, and the process."""
        place = np.empty(len(self.keys), np.int64)
        place[self.order] = np.arange(len(self.order))
        places = np.repeat(place, self.counts[side])
        processes = (self.before, self.after)[side].process[self._sorted[side]]
        rising = np.argsort(places, kind="stable")
        return places[rising], processes[rising]


def moments(before: Rows, after: Rows) -> Moments:
    """Align two runs."""
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
    same = _same(before, after, sort, counts, first)
    return Moments(before, after, keys, order, same, (counts[0], counts[1]), (sort[0], sort[1]), (first[0], first[1]))


def _same(before: Rows, after: Rows, sort: list[Ints], counts: list[Ints], first: list[Ints]) -> NDArray[np.bool_]:
    """By key: whether the n-th value of the one is the n-th of the other, for all n."""
    same = np.asarray((counts[0] == counts[1]) & (counts[0] > 0), bool)
    pairs = [np.repeat(side[same], counts[0][same]) for side in first]
    begin = np.cumsum(counts[0][same]) - counts[0][same]
    within = np.arange(len(pairs[0])) - np.repeat(begin, counts[0][same])
    one, two = sort[0][pairs[0] + within], sort[1][pairs[1] + within]
    pair = np.stack([before.process[one], after.process[two]])
    equal = pair[0] == pair[1]
    if after.trace.of_processors:
        # One processor has what the program without directives has: which one does not matter.
        equal |= np.repeat(counts[0][same] == 1, counts[0][same])
    for p, q in np.unique(pair[:, equal], axis=1).T.tolist():
        mine = equal & (pair[0] == p) & (pair[1] == q)
        equal[mine] = _equal(before, after, (p, q), before.row[one[mine]], after.row[two[mine]])
    same[same] = np.bitwise_and.reduceat(equal, begin) if len(equal) else True
    return same


def _equal(before: Rows, after: Rows, processes: tuple[int, int], one: Ints, two: Ints) -> NDArray[np.bool_]:
    """Whether rows of a process of the reference hold the same as those of one of the run."""
    sides = [rows.trace.processes[process] for rows, process in zip((before, after), processes, strict=True)]
    at = [np.ascontiguousarray(side.rows["offset"][rows]) for side, rows in zip(sides, (one, two), strict=True)]
    found = np.zeros(len(one), np.uint8)
    each = sum(len(side.records) // max(1, len(side.rows)) for side in sides)
    step = max(1, TOGETHER // max(1, each))
    for begin in range(0, len(one), step):
        part = slice(begin, begin + step)
        count = len(found[part])
        kernel().weft_values_same(sides[0].records, at[0][part], sides[1].records, at[1][part], count, found[part])
        for side in sides:
            side.release()
    return found.astype(bool)
