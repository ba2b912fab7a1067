"""Find where the values of two runs differ first, and how the difference spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from weft.compare.values.boxes import box_slices, find_uncovered_box, intersect_boxes, sum_hashes
from weft.compare.values.judgement import Judgement, judge_arrays
from weft.compare.values.model import ValueComparison, ValueDifference
from weft.compare.values.moments import TOGETHER, Moments, RunValues, align_moments
from weft.compare.values.structure import are_configured_alike, find_structure_difference
from weft.compare.values.tolerance import ROUNDING, Tolerance
from weft.native.headers.value_format import VALUES_BLOCK, PlaceKind, ValueForm
from weft.values.process import Box, KeptValue, ProcessValues
from weft.values.trace import ValueTrace

MOST: Final = 20_000
"""Moments that differ and are looked at; what comes after so many is counted only."""

LOOKED: Final = 20_000
"""Values of an array that are looked at for their magnitude."""


def compare_values(
    before: ValueTrace, after: ValueTrace, tolerances: Mapping[str, Mapping[str, Any]]
) -> ValueComparison:
    """Return how the values that a run kept at its probes differ from those of a reference.

    `tolerances`: the settings that say which differences are accepted, by the name of the probe; "" for all other
    probes.
    """
    aligned = align_moments(RunValues.from_trace(before), RunValues.from_trace(after))
    made = ValueComparison(before, after, aligned=aligned)
    made.parting = find_structure_difference(aligned)
    judging = _MomentJudge(made, tolerances)
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
        unlike = judging.judge_moment(aligned, key)
        if unlike:
            made.found.append(unlike)
            made.keys.append(key)
    return made


class _MomentJudge:
    """Judge one moment after the other, and collect what is rounding or cannot be compared."""

    def __init__(self, made: ValueComparison, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.made = made
        everywhere = dict(settings.get("", {}))
        self.everywhere = Tolerance.from_settings(everywhere)
        self.own = {name: Tolerance.from_settings(everywhere | dict(own)) for name, own in settings.items() if name}
        self.strict = not all(one.nan_equal for one in (self.everywhere, *self.own.values()))
        self.scales: dict[str, float] = {}
        self.ranks = len(made.before.processes) == len(made.after.processes)
        self.configured = are_configured_alike(made.before, made.after)
        self._read = 0
        """Bytes of the files since their pages were given back."""

    def judge_moment(self, aligned: Moments, moment_key: int) -> list[ValueDifference]:
        """Return the differences between the values that both runs have at one moment: at one probe, in one iteration
        of the loops around it. `moment_key`: the key of this place in the program's structure.
        """
        before, after = (list(aligned.values_at(side, moment_key)) for side in (0, 1))
        self._read += sum(one.count * one.dtype.itemsize for one in (*before, *after))
        if self._read > TOGETHER:
            for process in (*self.made.before.processes, *self.made.after.processes):
                process.release_pages()
            self._read = 0
        known = sum(count for count, _ in self.made.rounded.values())
        found = list(
            self._compare_array_parts(before, after)
            if after[0].array or before[0].array
            else self._compare_own_values(before, after)
        )
        if sum(count for count, _ in self.made.rounded.values()) > known:
            self.made.rounded_at.add(moment_key)
        return found

    def _probe_tolerance(self, kept: KeptValue) -> Tolerance:
        return self.own.get(kept.place.name, self.everywhere)

    def _compare_own_values(self, before: list[KeptValue], after: list[KeptValue]) -> Iterator[ValueDifference]:
        """Yield the differences of values that are not part of a global array.

        A rank's value is compared with that of the same rank. If the runs have different numbers of ranks, it may equal
        the value of any rank; a value that equals none of several is not reported, but its probe is added to
        `unplaced`.
        """
        by_rank = {one.process.rank: one for one in before}
        bound = min(_compute_sum_error_bound(before), _compute_sum_error_bound(after)) or 0.0
        for two in after:
            if self.ranks:
                one = by_rank.get(two.process.rank)
                found = self._compare_pair(one, two, bound) if one is not None else None
            else:
                tried = [self._compare_pair(one, two, bound) for one in _find_distinct_values(before)]
                found = next((None for one in tried if one is None), tried[0])
                if found is not None and len(tried) > 1:
                    self.made.unplaced.add(two.place.name)
                    found = None
            if found is not None:
                yield found

    def _compare_pair(
        self, reference_value: KeptValue, run_value: KeptValue, rounding_bound: float
    ) -> ValueDifference | None:
        """Return the difference of two values of any shape; None if there is none."""
        if _squeezed_shape(reference_value) != _squeezed_shape(run_value):
            return ValueDifference("shape", reference_value, run_value, run_value.box, Judgement())
        return self._compare_elements(reference_value, run_value, run_value.box, rounding_bound)

    def _compare_array_parts(self, before: list[KeptValue], after: list[KeptValue]) -> Iterator[ValueDifference]:
        """Yield the differences of a global array at one moment. The two runs may divide it differently among their
        ranks. `before`, `after`: the parts that the ranks have.
        """
        if len(before[0].shape) != len(after[0].shape):
            yield ValueDifference("shape", before[0], after[0], after[0].box, Judgement())
            return
        if any(one.form in (ValueForm.HASHES, ValueForm.STATISTICS) for one in (*before, *after)):
            yield from self._compare_hashes(before, after)
            return
        for two in after:
            for one in before:
                shared = intersect_boxes(one.box, two.box)
                found = self._compare_elements(one, two, shared) if shared is not None else None
                if found is not None:
                    yield found
        yield from _find_one_sided_elements(before, after, with_surplus=self.configured)

    def _compare_elements(
        self, reference_value: KeptValue, run_value: KeptValue, shared_box: Box, rounding_bound: float = 0.0
    ) -> ValueDifference | None:
        """Return the difference of two values inside `shared_box`, which both contain. None if there is none.
        `rounding_bound`: how far sums of the same terms in another order may be apart.
        """
        a, b = reference_value.values(), run_value.values()
        if a is None or b is None:
            return next(self._compare_hashes([reference_value], [run_value]), None)
        if not reference_value.array and a.shape != b.shape:
            a = a.reshape(b.shape)
        elif reference_value.array:
            a, b = a[box_slices(shared_box, reference_value.box)], b[box_slices(shared_box, run_value.box)]
        judged = judge_arrays(a, b, self._probe_tolerance(run_value), rounding_bound)
        if judged.differing and reference_value.array and self.made.after.has_processors:
            # An element alone does not say how large the numbers are that it was made of.
            judged = judge_arrays(
                a,
                b,
                self._probe_tolerance(run_value),
                ROUNDING * _epsilon(reference_value) * self._find_array_magnitude(reference_value.array),
            )
        self.made.elements += judged.compared
        if judged.rounded:
            count, most = self.made.rounded.get(run_value.place.name, (0, 0.0))
            self.made.rounded[run_value.place.name] = count + judged.rounded, max(most, judged.ulps)
        return ValueDifference("value", reference_value, run_value, shared_box, judged) if judged.differing else None

    def _find_array_magnitude(self, array_name: str) -> float:
        """Return the largest magnitude that the elements of an array have in the reference. Values that were kept after
        a loop are looked at; if there are none, the first values of the array.
        """
        if array_name not in self.scales:
            kept = [
                one.value_at(row) for one in self.made.before.processes for row in _find_array_rows(one, array_name)
            ]
            values = [one.values() for one in kept if one.array == array_name]
            finite = (v[np.isfinite(v)] for v in values if v is not None)
            self.scales[array_name] = max((float(np.abs(v).max()) for v in finite if v.size), default=0.0)
        return self.scales[array_name]

    def _compare_hashes(self, before: list[KeptValue], after: list[KeptValue]) -> Iterator[ValueDifference]:
        """Yield a difference if the hashes of an array's elements differ, as one of the runs kept nothing else. It may
        name the block of elements, but no element.
        """
        if any(one.form == ValueForm.STATISTICS for one in (*before, *after)):
            yield from self._compare_all_statistics(before, after)
            return
        sums = [[sum_hashes(one) for one in side] for side in (before, after)]
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
            yield ValueDifference("hash", one, two, _find_first_differing_block(one, two), Judgement())

    def _compare_all_statistics(self, before: list[KeptValue], after: list[KeptValue]) -> Iterator[ValueDifference]:
        """Yield the differences of statistics (least, greatest, sum …) of an array's parts. If the runs divide the
        array differently, nothing is compared, and the probe is added to `unjudged`.
        """
        for one, two in zip(before, after, strict=False):
            a, b = one.statistics, two.statistics
            if a is None or b is None or one.box != two.box or len(before) != len(after):
                self.made.unjudged.add(two.place.name)
                return
            yield from self._compare_statistics(one, two, a, b)

    def _compare_statistics(
        self, reference_value: KeptValue, run_value: KeptValue, reference_statistics: Any, run_statistics: Any
    ) -> Iterator[ValueDifference]:
        """Yield a difference if the statistics of one part of an array differ by more than rounding."""
        names = ("nans", "least", "greatest", "sum", "squares")
        sides = [np.array([float(side[name]) for name in names]) for side in (reference_statistics, run_statistics)]
        bound = (
            reference_value.count
            * np.finfo(np.float64).eps
            * float(max(reference_statistics["squares"], run_statistics["squares"], abs(reference_statistics["sum"])))
        )
        judged = judge_arrays(sides[0], sides[1], self._probe_tolerance(run_value), bound)
        if judged.differing:
            yield ValueDifference("hash", reference_value, run_value, run_value.box, judged)


def _find_array_rows(process: ProcessValues, array_name: str) -> list[int]:
    """Return the rows of a process's values that belong to an array, at most LOOKED. If values were kept after a loop,
    these; otherwise the array's other values.
    """
    whole = [p for p in process.places if p.name == f"{array_name} behind the loop" and p.kind == PlaceKind.PROBE]
    some = whole or [p for p in process.places if p.name == array_name and p.kind == PlaceKind.PROBE]
    return [int(row) for place in some for row in process.rows_of_place(place.number)][:LOOKED]


def _epsilon(kept: KeptValue) -> float:
    return float(np.finfo(kept.dtype).eps) if kept.dtype.kind in "fc" else 0.0


def _find_distinct_values(values_by_rank: list[KeptValue]) -> list[KeptValue]:
    """Return the values of all ranks, but only one of several that are equal."""
    found: dict[bytes, KeptValue] = {}
    for one in values_by_rank:
        values = one.values()
        found.setdefault(values.tobytes() if values is not None else one.sum.to_bytes(8, "little"), one)
    return list(found.values())


def _squeezed_shape(kept: KeptValue) -> tuple[int, ...]:
    return tuple(n for n in kept.shape if n != 1)


def _compute_sum_error_bound(values: list[KeptValue]) -> float:
    """Return how far a sum of terms may be off, whatever their order (Higham 2002, section 4.2). The number and the
    size of the terms are those that the values name; 0 if they name none.
    """
    terms = [one.terms for one in values]
    count, scale = sum(n for n, _ in terms), sum(one for _, one in terms)
    kind = values[0].dtype if values[0].dtype.kind in "fc" else np.dtype(np.float64)
    return 2 * count * float(np.finfo(kind).eps) * scale


def _find_first_differing_block(reference_value: KeptValue, run_value: KeptValue) -> Box:
    """Return the box of the first block of elements whose hash differs, in an array of one dimension. If blocks cannot
    be compared, return the box of the whole value.
    """
    a, b = reference_value.hashes, run_value.hashes
    if a is None or b is None or len(a) != len(b) or len(run_value.box) != 1 or reference_value.box != run_value.box:
        return run_value.box
    differing = np.flatnonzero(a != b)
    if not len(differing):
        return run_value.box
    first = run_value.box[0][0] + int(differing[0]) * VALUES_BLOCK
    return ((first, min(first + VALUES_BLOCK, run_value.box[0][1])),)


def _find_one_sided_elements(
    before: list[KeptValue], after: list[KeptValue], *, with_surplus: bool
) -> Iterator[ValueDifference]:
    """Yield one difference for elements that only the reference has. If there are none and `with_surplus` is set, yield
    one for elements that only the run has.
    """
    for one in before:
        hole = find_uncovered_box(one.box, [two.box for two in after])
        if hole is not None:
            yield ValueDifference("missing", one, after[0], hole, Judgement())
            return
    for two in after if with_surplus else ():
        more = find_uncovered_box(two.box, [one.box for one in before])
        if more is not None:
            yield ValueDifference("surplus", before[0], two, more, Judgement())
            return
