"""The values of two runs, as the page draws them: by moment and rank, and the error over the array of one moment.

A moment is a probe in an iteration. Moments have the order of the reference run, whatever the clocks of both runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.words import rank_words
from weft.compare.values import ValueComparison, ValueDifference
from weft.compare.values.error_map import (
    ArrayLayer,
    ElementPair,
    Measure,
    compute_element_distances,
    compute_error_cells,
    make_array_layers,
)
from weft.compare.values.error_svg import RAMP
from weft.compare.values.report import (
    describe_difference,
    describe_iterations,
    probe_text,
    render_element,
    render_number,
    render_values,
)
from weft.errors import UsageError
from weft.native.headers.value_format import PlaceKind
from weft.values.process import Box, KeptValue
from weft.values.trace import ValueTrace
from weft.view.window import pack_arrays

Body = dict[str, Any]

NONE, ALIKE, ROUNDED, ALONE, UNSEEN, DIFFERS = range(6)
"""What a rank has at a moment: nothing; what the other run has, but for rounding, or not at all; a value that was not
looked at; one that differs. Of a column of several moments the last in this order is shown."""
MOST_COLUMNS: Final = 8192
MOST_CELLS: Final = 1024
"""Of a picture, in each direction."""
REACHED: Final = 400
"""The most moments at which a difference reaches a probe or a rank first that are listed."""
LISTED: Final = 16
"""The most elements of a value that are listed one by one."""
TICKS: Final = 8
FAR: Final = 1e9
"""Units in the last place from which on their power of ten is enough."""


class ValueView:
    """The values of two runs. Questions may come from several threads."""

    def __init__(self, made: ValueComparison, *, calls: bool) -> None:
        self.made = made
        self.calls = calls
        """Whether calls of both runs can be shown, too."""
        assert made.aligned is not None
        self._aligned = made.aligned
        self._lock = threading.Lock()
        self._place = np.empty(len(self._aligned.keys), np.int64)
        self._place[self._aligned.order] = np.arange(len(self._aligned.order))
        self._sides = [_RunStates(self, side) for side in (0, 1)]

    @property
    def moments(self) -> int:
        """Return the number of moments at which values of both runs are compared."""
        return len(self._aligned.order)

    def moment_position(self, key: int) -> int:
        """Return the position of a moment in time order, from 0 on. `key`: its number in the alignment."""
        return int(self._place[key])

    def to_json(self) -> Body:
        """Return the comparison of both runs for the page: the differences as texts, and the moments at which they
        first reached a probe on a rank, in order.
        """
        with self._lock:
            parting = self.made.parting
            return {
                "names": [trace.path.resolve().name for trace in (self.made.before, self.made.after)],
                "moments": self.moments, "ramp": RAMP, "calls": self.calls, "alike": self.made.alike,
                "ranks": [[_process_label(trace, n) for n in range(len(trace.processes))]
                          for trace in (self.made.before, self.made.after)],
                "texts": list(render_values(self.made, drawn=False)),
                "reached": list(self._first_differences_by_place()),
                "spread": self._first_differences_by_process(), "errors": self._error_range(),
                "parting": None if parting is None else self._moment_of_value(parting.only, parting.side),
            }  # fmt: skip

    def _first_differences_by_place(self) -> Iterator[Body]:
        """Yield the moments at which a difference reaches a rank at a probe (a place that records values) for the first
        time.
        """
        known: set[tuple[str, int]] = set()
        told = 0
        for key, some in zip(self.made.keys, self.made.found, strict=True):
            new = [one for one in some if (one.after.place.name, one.after.process.rank) not in known]
            if not new or told >= REACHED:
                continue
            known |= {(one.after.place.name, one.after.process.rank) for one in new}
            told += 1
            yield {
                "at": self.moment_position(key), "probe": probe_text(new[0].after), "first": told == 1,
                "iterations": describe_iterations(new[0].after).removeprefix(", "), "text": describe_difference(new[0]),
                "ranks": rank_words(sorted({one.after.process.rank for one in new})),
            }  # fmt: skip

    def _first_differences_by_process(self) -> list[list[int]]:
        """Return [index of the process, position of the first moment at which it differs] for each process that
        differs.
        """
        numbers = {id(process): n for n, process in enumerate(self.made.after.processes)}
        first: dict[int, int] = {}
        for key, some in zip(self.made.keys, self.made.found, strict=True):
            for one in some:
                first.setdefault(numbers[id(one.after.process)], self.moment_position(key))
        return [[process, at] for process, at in sorted(first.items())]

    def _error_range(self) -> list[float] | None:
        """Return the least and the largest error of all moments; None if no error has a size."""
        sizes = [one.judged.most for some in self.made.found for one in some if one.sort == "value"]
        known = [size for size in sizes if 0 < size < np.inf]
        return [min(known), max(known)] if known else None

    def _moment_of_value(self, value: KeptValue, side: int) -> int:
        """Return the position of the moment that has a value which only one run has. `side`: 0 for the reference, 1 for
        the run.
        """
        rows = (self._aligned.before, self._aligned.after)[side]
        process = next(n for n, one in enumerate(rows.trace.processes) if one is value.process)
        at = int(np.flatnonzero((rows.process == process) & (rows.row == value.row))[0])
        return self.moment_position(int(np.searchsorted(self._aligned.keys, rows.key[at])))

    # Both runs over their moments

    def pack_states(self, start: int, end: int, columns: int) -> bytes:
        """Return the states of all processes of both runs as bytes (alike, differs and so on), with the sizes of
        errors. The moments from `start` up to `end` are combined into `columns` columns.
        """
        start, end = max(0, start), min(end, self.moments)
        columns = min(max(1, columns), MOST_COLUMNS, max(end - start, 1))
        with self._lock:
            head = {"from": start, "to": end, "columns": columns, "ticks": list(self._axis_labels(start, end))}
            arrays: dict[str, NDArray[Any]] = {}
            for name, side in zip(("reference", "run"), self._sides, strict=True):
                arrays[name] = side.states_by_column(start, end, columns).ravel()
            arrays["error"] = self._sides[1].errors_by_column(start, end, columns).ravel()
            return pack_arrays(head, arrays)

    def _axis_labels(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        """Yield (position of a moment, label) for the axis. The label is the innermost loop with its iteration, or else
        the place.
        """
        step = max(1, -(-(end - start) // TICKS))
        for at in range(start, end, step):
            kept = self._any_value(at)
            around = kept.process.scopes_around(int(kept.process.rows["parent"][kept.row]))
            loop = next(((place, i) for place, i in around if place.kind == PlaceKind.LOOP), None)
            yield at, f"{loop[0].name} {loop[1]}" if loop is not None else kept.place.name

    def _any_value(self, at: int) -> KeptValue:
        key = int(self._aligned.order[at])
        side = 0 if self._aligned.counts[0][key] else 1
        return next(self._aligned.values_at(side, key))

    # One moment

    def moment_facts(self, moment: int) -> Body:
        """Return what the page shows about a moment: its place in both programs, its arrays, and its small values by
        rank.
        """
        with self._lock:
            before, after = self._values_at(moment)
            kept = (after or before)[0]
            made = self._array_layers(before, after)
            return {
                "at": moment,
                "title": f"{probe_text(kept)}{describe_iterations(kept)}",
                "reference": before[0].place.where if before and after else "",
                "texts": [describe_difference(one) for one in self._differences_at(moment)][:4]
                or [self._moment_text(moment, before, after)],
                "layers": [self._layer_to_json(n, layer, kept, moment) for n, layer in enumerate(made)],
                "numbers": _compare_small_values(before, after),
            }

    def _values_at(self, moment: int) -> tuple[list[KeptValue], list[KeptValue]]:
        """Return two lists of values at a moment: the reference's, and the run's. UsageError if there is no such
        moment.
        """
        if not 0 <= moment < self.moments:
            raise UsageError(f"there is no moment {moment}: the runs have {self.moments:,}")
        key = int(self._aligned.order[moment])
        before, after = (
            list(self._aligned.values_at(side, key)) if self._aligned.counts[side][key] else [] for side in (0, 1)
        )
        return before, after

    def _array_layers(self, before: Sequence[KeptValue], after: Sequence[KeptValue]) -> list[ArrayLayer]:
        """Return the arrays of a moment that can be drawn. They have more than one element, and their place in the
        whole array is known exactly.
        """
        return [
            one
            for one in make_array_layers(before, after)
            if any(end - first > 1 for first, end in one.whole) and one.exact
        ]

    def _differences_at(self, at: int) -> list[ValueDifference]:
        key = int(self._aligned.order[at])
        return next((some for k, some in zip(self.made.keys, self.made.found, strict=True) if k == key), [])

    def _moment_text(self, moment: int, before: Sequence[KeptValue], after: Sequence[KeptValue]) -> str:
        """Return a text about a moment at which no difference was found, such as "alike but for rounding"."""
        if not (before and after):
            return f"only in {'the reference' if before else 'the run'}"
        if int(self._aligned.order[moment]) in self.made.rounded_at:
            return "alike but for rounding"
        return "not compared" if self._sides[1].state_at(moment) == UNSEEN else "alike, or within the tolerance"

    def _layer_to_json(self, number: int, layer: ArrayLayer, kept: KeptValue, moment: int) -> Body:
        """Return an array of a moment as JSON values: its number, name, extents, and the first element that differs."""
        first = next(
            (one.element for one in self._differences_at(moment) if one.sort == "value" and _is_of_layer(one, layer)),
            None,
        )
        return {"number": number, "name": layer.name, "whole": [list(side) for side in layer.whole],
                "base": kept.base, "first": None if first is None else list(first)}  # fmt: skip

    def pack_error_field(
        self, where: tuple[int, int], window: Box, axes: Sequence[int], most_cells: Sequence[int], unit: str
    ) -> bytes:
        """Return the error between both runs over a part of an array, as bytes: one number for each cell of a picture.

        `where`: the moment, and the array's number in it; `window`: the part of the array; `axes`: the dimensions to
        draw, rows first, with at most `most_cells` cells each; `unit`: distance or ulps.
        """
        with self._lock:
            chosen = self._layer_at(*where)
            shape = [end - first for first, end in chosen.whole]
            inside = len(window) == len(shape) and all(
                low <= first < end <= high for (first, end), (low, high) in zip(window, chosen.whole, strict=True)
            )
            if not inside or len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
                raise UsageError(f"{list(window)} along {list(axes)} does not lie in an array of {shape}")
            if unit not in MEASURES or len(most_cells) != len(axes) or not axes:
                raise UsageError(
                    f"an error is given as {' or '.join(MEASURES)}, in cells of each dimension of a picture"
                )
            room = [min(max(1, n), MOST_CELLS) for n in most_cells]
            cells = compute_error_cells(chosen.pairs, window, axes, room, MEASURES[unit])
            return pack_arrays({"shape": list(cells.shape)}, {"cells": cells.ravel()})

    def _layer_at(self, moment: int, layer: int) -> ArrayLayer:
        """Return the array number `layer` of a moment. UsageError if the moment has no such array."""
        made = self._array_layers(*self._values_at(moment))
        if not 0 <= layer < len(made):
            raise UsageError(f"this moment has no array {layer}")
        return made[layer]

    def element_facts(self, moment: int, layer: int, index: tuple[int, ...]) -> Body:
        """Return the value of one element of an array in both runs, and the ranks that have it. If no rank has it in
        both runs, only a text says so.
        """
        with self._lock:
            for pair in self._layer_at(moment, layer).pairs:
                arrays = pair.arrays()
                inside = len(index) == len(pair.box) and all(
                    first <= k < end for k, (first, end) in zip(index, pair.box, strict=True)
                )
                if inside and arrays is not None:
                    return _element_facts(pair, arrays, index)
        return {"text": f"{list(index)}: not in both runs", "numbers": None, "ranks": None}


class _RunStates:
    """The states of one run's values by moment and process."""

    def __init__(self, of: ValueView, side: int) -> None:
        aligned, made = of._aligned, of.made
        self.places, self.processes = aligned.find_value_positions(side)
        self.count = len((made.before, made.after)[side].processes)
        states = np.full(of.moments, ALIKE, np.uint8)
        both = (aligned.counts[0] > 0) & (aligned.counts[1] > 0)
        states[of._place[~both]] = ALONE
        if side:
            states[of._place[list(made.rounded_at)]] = ROUNDED
            if made.more:
                after = np.arange(of.moments) > of.moment_position(made.keys[-1])
                states[after & ~aligned.same[aligned.order] & both[aligned.order]] = UNSEEN
        self.state = states[self.places]
        self.error = np.zeros(len(self.places))
        if side:
            self._mark_differences(of)

    def _mark_differences(self, view: ValueView) -> None:
        """Set the state of all values that differ, and store the size of their errors."""
        numbers = {id(process): n for n, process in enumerate(view.made.after.processes)}
        for key, some in zip(view.made.keys, view.made.found, strict=True):
            first, end = np.searchsorted(self.places, [view.moment_position(key), view.moment_position(key) + 1])
            for one in some:
                mine = first + np.flatnonzero(self.processes[first:end] == numbers[id(one.after.process)])
                self.state[mine] = DIFFERS
                self.error[mine] = np.maximum(self.error[mine], one.judged.most if one.sort == "value" else np.inf)

    def state_at(self, at: int) -> int:
        """Return the state of a moment on its first process."""
        return int(self.state[int(np.searchsorted(self.places, at))])

    def states_by_column(self, start: int, end: int, columns: int) -> NDArray[np.uint8]:
        """Return the worst state of each process in each column: uint8 of the shape (processes, columns)."""
        return self._column_maxima(self.state, start, end, columns)

    def errors_by_column(self, start: int, end: int, columns: int) -> NDArray[np.float64]:
        """Return the largest error of each process in each column: float64 of the shape (processes, columns)."""
        return self._column_maxima(self.error, start, end, columns)

    def _column_maxima(self, values: NDArray[Any], start: int, end: int, columns: int) -> NDArray[Any]:
        """Return the largest of `values` for each process and column, where the moments `start` to `end` form `columns`
        columns.
        """
        first, last = np.searchsorted(self.places, [start, end])
        cells = np.zeros((self.count, columns), values.dtype)
        column = (self.places[first:last] - start) * columns // max(end - start, 1)
        np.maximum.at(cells, (self.processes[first:last], column), values[first:last])
        return cells


def _process_label(trace: ValueTrace, process_index: int) -> str:
    """Return the label of the process with this index in the trace: `rank 3`, and its process id if the rank has
    several processes.
    """
    process = trace.processes[process_index]
    several = sum(one.rank == process.rank for one in trace.processes) > 1
    return f"rank {process.rank}" + (f", process {int(process.header['pid'])}" if several else "")


def _is_of_layer(one: ValueDifference, layer: ArrayLayer) -> bool:
    return any(pair.two.process is one.after.process for pair in layer.pairs)


def _compare_small_values(before: Sequence[KeptValue], after: Sequence[KeptValue]) -> list[list[str]]:
    """Return the values that have few elements and are no part of an array. Each element is a list of texts: rank,
    element, its number in both runs, distance, and distance in ulps.
    """
    by_rank = {one.process.rank: one for one in before}
    found: list[list[str]] = []
    for two in after:
        one = by_rank.get(two.process.rank, before[0] if len(before) == 1 else None)
        if one is None or two.array or one.count != two.count or not 0 < two.count <= LISTED:
            continue
        arrays = ElementPair(one, two, two.box).arrays()
        if arrays is not None:
            for index in np.ndindex(*arrays[1].shape):
                made = _element_facts(ElementPair(one, two, two.box), arrays, index, from_zero=True)
                found.append([f"rank {two.process.rank}", made["text"], *made["numbers"]])
    return found


def _element_facts(
    pair: ElementPair, arrays: tuple[NDArray[Any], NDArray[Any]], index: tuple[int, ...], *, from_zero: bool = False
) -> Body:
    """Return one element of a pair of arrays: its values in both runs, their distance, and the distance in ulps.
    `from_zero`: `index` counts from the begin of the arrays, not in the whole array.
    """
    at = index if from_zero else tuple(k - first for k, (first, _) in zip(index, pair.box, strict=True))
    one, two = (side[at] for side in arrays)
    sides = [np.asarray(side).reshape(1) for side in (one, two)]
    distance, units = (float(compute_element_distances(sides[0], sides[1], measure)[0]) for measure in _MEASURES)
    floats = any(side.dtype.kind in "fc" for side in sides)
    told = f"{units:,.0f}" if units < FAR else f"{units:.1e}"
    numbers = [render_number(one), render_number(two), f"{distance:.3g}", told if floats else ""]
    return {"text": render_element(pair.two, index), "numbers": numbers,
            "ranks": [pair.one.process.rank, pair.two.process.rank]}  # fmt: skip


_MEASURES: Final[tuple[Measure, Measure]] = ("distance", "ulps")
MEASURES: Final[Mapping[str, Measure]] = {measure: measure for measure in _MEASURES}
"""What an error is measured in, by the page's word."""
