"""Where the values of two runs differ first, and how that spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from weft.compare.values.boxes import common, hash_of, missing, within
from weft.compare.values.judgement import Judged, judge
from weft.compare.values.model import Unlike, ValueComparison
from weft.compare.values.moments import TOGETHER, Moments, Rows, moments
from weft.compare.values.structure import configured_alike, parting
from weft.compare.values.tolerance import ROUNDING, Tolerance
from weft.native.headers.value_format import VALUES_BLOCK, PlaceKind, ValueForm
from weft.values.process import Box, Kept, Process
from weft.values.trace import ValueTrace

MOST: Final = 20_000
"""Moments that differ and are looked at; what comes behind so many is counted only."""

LOOKED: Final = 20_000
"""Values of an array that are looked at for their magnitude."""


def compare_values(before: ValueTrace, after: ValueTrace, settings: Mapping[str, Mapping[str, Any]]) -> ValueComparison:
    """Hold the values of a run against those of a reference. `settings`: tolerances by probe, "" for all."""
    aligned = moments(Rows.of(before), Rows.of(after))
    made = ValueComparison(before, after, aligned=aligned)
    made.parting = parting(aligned)
    judging = _Judging(made, settings)
    made.compared = int(aligned.counts[1][(aligned.counts[0] > 0)].sum())
    looked = 0
    for key in aligned.order.tolist():
        if not (aligned.counts[0][key] and aligned.counts[1][key]):
            continue
        if aligned.same[key] and not judging.strict:
            continue
        if looked >= MOST and len(made.found) >= MOST:
            made.more += 1
            continue
        looked += 1
        unlike = judging.moment(aligned, key)
        if unlike:
            made.found.append(unlike)
            made.keys.append(key)
    return made


class _Judging:
    """Judges one moment after the other."""

    def __init__(self, made: ValueComparison, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.made = made
        everywhere = dict(settings.get("", {}))
        self.everywhere = Tolerance.of(everywhere)
        self.own = {name: Tolerance.of(everywhere | dict(own)) for name, own in settings.items() if name}
        self.strict = not all(one.nan_equal for one in (self.everywhere, *self.own.values()))
        self.scales: dict[str, float] = {}
        self.ranks = len(made.before.processes) == len(made.after.processes)
        self.configured = configured_alike(made.before, made.after)
        self._read = 0
        """Bytes of the files since their pages were given back."""

    def moment(self, aligned: Moments, key: int) -> list[Unlike]:
        """What differs at a moment, by rank."""
        before, after = (list(aligned.values(side, key)) for side in (0, 1))
        self._read += sum(one.count * one.dtype.itemsize for one in (*before, *after))
        if self._read > TOGETHER:
            for process in (*self.made.before.processes, *self.made.after.processes):
                process.release()
            self._read = 0
        known = sum(count for count, _ in self.made.rounded.values())
        found = list(self._parts(before, after) if after[0].array or before[0].array else self._plain(before, after))
        if sum(count for count, _ in self.made.rounded.values()) > known:
            self.made.rounded_at.add(key)
        return found

    def _tolerance(self, kept: Kept) -> Tolerance:
        return self.own.get(kept.place.name, self.everywhere)

    def _plain(self, before: list[Kept], after: list[Kept]) -> Iterator[Unlike]:
        """Values that are no part of a global array: those of a rank against its own, or against what all have."""
        by_rank = {one.process.rank: one for one in before}
        bound = min(_bound(before), _bound(after)) or 0.0
        for two in after:
            if self.ranks:
                one = by_rank.get(two.process.rank)
                found = self._whole(one, two, bound) if one is not None else None
            else:
                tried = [self._whole(one, two, bound) for one in _different(before)]
                found = next((None for one in tried if one is None), tried[0])
                if found is not None and len(tried) > 1:
                    self.made.unplaced.add(two.place.name)
                    found = None
            if found is not None:
                yield found

    def _whole(self, one: Kept, two: Kept, bound: float) -> Unlike | None:
        if _squeezed(one) != _squeezed(two):
            return Unlike("shape", one, two, two.box, Judged())
        return self._values(one, two, two.box, bound)

    def _parts(self, before: list[Kept], after: list[Kept]) -> Iterator[Unlike]:
        """Parts of a global array, wherever they lie."""
        if len(before[0].shape) != len(after[0].shape):
            yield Unlike("shape", before[0], after[0], after[0].box, Judged())
            return
        if any(one.form in (ValueForm.HASHES, ValueForm.STATISTICS) for one in (*before, *after)):
            yield from self._hashed(before, after)
            return
        for two in after:
            for one in before:
                shared = common(one.box, two.box)
                found = self._values(one, two, shared) if shared is not None else None
                if found is not None:
                    yield found
        yield from _gaps(before, after, surplus=self.configured)

    def _values(self, one: Kept, two: Kept, shared: Box, bound: float = 0.0) -> Unlike | None:
        a, b = one.values(), two.values()
        if a is None or b is None:
            return next(self._hashed([one], [two]), None)
        if not one.array and a.shape != b.shape:
            a = a.reshape(b.shape)
        elif one.array:
            a, b = a[within(shared, one.box)], b[within(shared, two.box)]
        judged = judge(a, b, self._tolerance(two), bound)
        if judged.differing and one.array and self.made.after.of_processors:
            # An element alone does not say how large the numbers are that it was made of.
            judged = judge(a, b, self._tolerance(two), ROUNDING * _epsilon(one) * self._scale(one.array))
        self.made.elements += judged.compared
        if judged.rounded:
            count, most = self.made.rounded.get(two.place.name, (0, 0.0))
            self.made.rounded[two.place.name] = count + judged.rounded, max(most, judged.ulps)
        return Unlike("value", one, two, shared, judged) if judged.differing else None

    def _scale(self, array: str) -> float:
        """The largest magnitude that an array of the reference held behind a loop, or in the first accesses."""
        if array not in self.scales:
            kept = [one.kept(row) for one in self.made.before.processes for row in _rows_about(one, array)]
            values = [one.values() for one in kept if one.array == array]
            finite = (v[np.isfinite(v)] for v in values if v is not None)
            self.scales[array] = max((float(np.abs(v).max()) for v in finite if v.size), default=0.0)
        return self.scales[array]

    def _hashed(self, before: list[Kept], after: list[Kept]) -> Iterator[Unlike]:
        """Arrays of which one run kept hashes only: they are alike, or they are not."""
        if any(one.form == ValueForm.STATISTICS for one in (*before, *after)):
            yield from self._counted(before, after)
            return
        sums = [[hash_of(one) for one in side] for side in (before, after)]
        if any(one is None for side in sums for one in side) or before[0].dtype != after[0].dtype:
            self.made.unjudged.add(after[0].place.name)
            return
        totals = [sum(one or 0 for one in side) % 2**64 for side in sums]
        self.made.elements += sum(one.count for one in after)
        if totals[0] != totals[1]:
            pair = next(
                ((o, t) for o, t in zip(before, after, strict=False) if o.box == t.box and o.sum != t.sum), None
            )
            one, two = pair or (before[0], after[0])
            yield Unlike("hash", one, two, _block(one, two), Judged())

    def _counted(self, before: list[Kept], after: list[Kept]) -> Iterator[Unlike]:
        """Statistics, of arrays that are cut up alike."""
        for one, two in zip(before, after, strict=False):
            a, b = one.statistics, two.statistics
            if a is None or b is None or one.box != two.box or len(before) != len(after):
                self.made.unjudged.add(two.place.name)
                return
            yield from self._statistics(one, two, a, b)

    def _statistics(self, one: Kept, two: Kept, a: Any, b: Any) -> Iterator[Unlike]:
        names = ("nans", "least", "greatest", "sum", "squares")
        sides = [np.array([float(side[name]) for name in names]) for side in (a, b)]
        bound = one.count * np.finfo(np.float64).eps * float(max(a["squares"], b["squares"], abs(a["sum"])))
        judged = judge(sides[0], sides[1], self._tolerance(two), bound)
        if judged.differing:
            yield Unlike("hash", one, two, two.box, judged)


def _rows_about(process: Process, array: str) -> list[int]:
    """Rows of an array's values, those of whole parts first; LOOKED at most."""
    whole = [p for p in process.places if p.name == f"{array} behind the loop" and p.kind == PlaceKind.PROBE]
    some = whole or [p for p in process.places if p.name == array and p.kind == PlaceKind.PROBE]
    return [int(row) for place in some for row in process.rows_of(place.number)][:LOOKED]


def _epsilon(kept: Kept) -> float:
    return float(np.finfo(kept.dtype).eps) if kept.dtype.kind in "fc" else 0.0


def _different(some: list[Kept]) -> list[Kept]:
    """Values of several ranks, each value once."""
    found: dict[bytes, Kept] = {}
    for one in some:
        values = one.values()
        found.setdefault(values.tobytes() if values is not None else one.sum.to_bytes(8, "little"), one)
    return list(found.values())


def _squeezed(kept: Kept) -> tuple[int, ...]:
    return tuple(n for n in kept.shape if n != 1)


def _bound(some: list[Kept]) -> float:
    """How far a sum of the terms that the ranks named may be off, whatever the order (Higham 2002, section 4.2)."""
    terms = [one.terms for one in some]
    count, scale = sum(n for n, _ in terms), sum(one for _, one in terms)
    kind = some[0].dtype if some[0].dtype.kind in "fc" else np.dtype(np.float64)
    return 2 * count * float(np.finfo(kind).eps) * scale


def _block(one: Kept, two: Kept) -> Box:
    """The elements of the first block whose hash differs, where the array has one dimension; else all of it."""
    a, b = one.hashes, two.hashes
    if a is None or b is None or len(a) != len(b) or len(two.box) != 1 or one.box != two.box:
        return two.box
    differing = np.flatnonzero(a != b)
    if not len(differing):
        return two.box
    first = two.box[0][0] + int(differing[0]) * VALUES_BLOCK
    return ((first, min(first + VALUES_BLOCK, two.box[0][1])),)


def _gaps(before: list[Kept], after: list[Kept], *, surplus: bool) -> Iterator[Unlike]:
    """Elements that one run has and the other has not; of the run only where both were told to keep the same."""
    for one in before:
        hole = missing(one.box, [two.box for two in after])
        if hole is not None:
            yield Unlike("missing", one, after[0], hole, Judged())
            return
    for two in after if surplus else ():
        more = missing(two.box, [one.box for one in before])
        if more is not None:
            yield Unlike("surplus", before[0], two, more, Judged())
            return
