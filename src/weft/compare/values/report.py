"""Render a comparison of values: lines for people, and JSON for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from weft.base.words import listed, plural, rank_words
from weft.compare.values.error_growth import compute_relative_distance, find_jump, may_be_rounding, tolerance_option
from weft.compare.values.error_text import draw_error_text
from weft.compare.values.model import ValueComparison, ValueDifference
from weft.compare.values.structure import StructureDifference, are_configured_alike, have_no_common_probe
from weft.native.headers.value_format import PlaceKind
from weft.values.process import Box, KeptValue
from weft.values.trace import ValueTrace

SPREAD: Final = 8
"""Probes whose differences are reported."""
FAR: Final = 1 << 20
"""Units in the last place from which on their number says nothing."""
_PROCESSORS: Final = (
    (re.compile(r"\biteration (\d+) of loop (\S+:\d+)"), r"run \1 of the loop at \2"),
    (re.compile(r"\bof (\w+) \(\S+:\d+\)"), r"of \1"),
    (re.compile(r"\brank(s?)(?= \d)"), r"processor\1"),
    (re.compile(r"\bprobe (?=\w)"), ""),
    (re.compile(r"\bof probes\b"), "of loops"),
)
"""Of a run of `weft check --trace`: the words for processors, and of loops that have a name by their line."""


def render_values(made: ValueComparison, *, drawn: bool = True) -> Iterator[str]:
    """Return lines on what differs, the most important first; lines of a picture (only if `drawn`) begin with a bar."""
    told = _render_comparison(made, with_picture=drawn)
    return map(reword_for_processors, told) if made.after.has_processors else told


def reword_for_processors(line: str) -> str:
    """Return a report line in the words of `weft check --trace`, which simulates processors instead of ranks."""
    if line.startswith("    |"):
        return line
    for pattern, words in _PROCESSORS:
        line = pattern.sub(words, line)
    return line


def _render_comparison(comparison: ValueComparison, *, with_picture: bool) -> Iterator[str]:
    """Yield report lines on problems, on differing structure, on the first difference and how it spread, and on values
    that were not compared. `with_picture`: also draw an error as text.
    """
    yield from _problem_lines(comparison)
    if have_no_common_probe(comparison.before, comparison.after):
        yield _describe_missing_common_probe(comparison)
        return
    if not comparison.found and comparison.parting is None:
        yield f"all {comparison.compared:,} values of probes are alike"
    elif comparison.found and not _is_structure_first(comparison):
        yield from _render_first_difference(comparison.found[0], comparison)
        yield from _render_spread(comparison, with_picture)
        yield from _render_structure_difference(comparison, "later, and perhaps because of it: ")
    else:
        yield from _render_structure_difference(comparison, "")
        if comparison.found:
            yield from _render_first_difference(comparison.found[0], comparison)
            yield from _render_spread(comparison, with_picture)
        else:
            yield f"the {plural(comparison.compared, 'value')} that both have are alike"
    yield from _rounding_lines(comparison)
    yield from _render_not_compared(comparison)


def _describe_missing_common_probe(comparison: ValueComparison) -> str:
    """Return a sentence that says why two runs have no common probe: they are of different programs, or one has no
    values.
    """
    names = [_probe_names(side) for side in (comparison.before, comparison.after)]
    if all(names):
        return (
            "no probe is in both: these are runs of different programs "
            f"(the reference has {names[0]}, the run {names[1]})"
        )
    empty = "neither run" if not any(names) else "the run" if names[0] else "the reference"
    return f"nothing to compare: {empty} recorded {'no' if any(names) else 'a'} value at a probe"


def _probe_names(trace: ValueTrace) -> str:
    names = {p.name: None for one in trace.processes for p in one.places if p.kind == PlaceKind.PROBE}
    return listed(list(names)[:4]) + (" and more" if len(names) > 4 else "")


def _problem_lines(made: ValueComparison) -> Iterator[str]:
    for side, trace in (("the reference", made.before), ("the run", made.after)):
        yield from (f"{side}: {text}" for text in trace.problems[:4])


def _is_structure_first(comparison: ValueComparison) -> bool:
    """Return whether the structures of two runs (their loops and probes) differ before any value does."""
    if comparison.parting is None:
        return False
    only, first = comparison.parting.only, comparison.found[0][0]
    other = first.before if comparison.parting.side == 0 else first.after
    return only.row < other.row


def _render_structure_difference(comparison: ValueComparison, heading: str) -> Iterator[str]:
    """Yield a report line on the first place where the structures (loops and probes) of the runs differ: a value that
    only one run has. `heading`: the beginning of the line.
    """
    parting = comparison.parting
    if parting is None:
        return
    where = "the reference" if parting.side == 0 else "the run"
    more = f", the first of {parting.count:,} such values" if parting.count > 1 else ""
    only = f"{probe_text(parting.only)} on rank {parting.only.process.rank}{describe_iterations(parting.only)}"
    what = f"{only} is only in {where}{more}"
    if not parting.whole:
        yield f"{heading}{what}: the other's values end early, or its file is damaged (see above)"
    else:
        yield heading + (f"{_loop_text(parting)}: {what}" if parting.loop else f"the structures differ: {what}")


def _loop_text(parting: StructureDifference) -> str:
    name, before, after = parting.loop or ("", 0, 0)
    return f"the loop {name} ran {plural(after, 'time')}, in the reference {before}"


def probe_text(kept: KeptValue) -> str:
    """Return `probe A at heat.c:30`."""
    place = kept.place
    return f"probe {place.name}" + (f" at {place.where}" if place.where else "")


def describe_iterations(value: KeptValue) -> str:
    """Return the iterations in which a value was kept as text, the innermost loop first: `, in iteration 4 of sweep`.
    Without loops, it is the visit of the probe: `, at visit 2`.
    """
    around = value.process.scopes_around(int(value.process.rows["parent"][value.row]))
    words = [
        f"iteration {index} of {place.name}" if place.kind == PlaceKind.LOOP else place.name
        for place, index in reversed(around)
    ]
    if not words:
        return f", at visit {value.times + 1}" if value.times else ""
    return f", in {', '.join(words)}"


def render_element(value: KeptValue, index: tuple[int, ...]) -> str:
    """Return an element as the program would write it, such as `A[3, 4]`; `index` counts from 0."""
    name = value.array or value.place.name
    numbers = ", ".join(str(k + value.base) for k in index)
    pair = "()" if value.base else "[]"
    return f"{name}{pair[0]}{numbers}{pair[1]}" if index else name


def _render_first_difference(differences: list[ValueDifference], comparison: ValueComparison) -> Iterator[str]:
    """Yield report lines on the first moment at which values differ: the probe, the ranks and the elements."""
    one = differences[0]
    ranks = rank_words(sorted({unlike.after.process.rank for unlike in differences}))
    held = [two for two in differences if two.sort == one.sort]
    yield f"first difference: {probe_text(one.after)} on {ranks}{describe_iterations(one.after)}"
    said: dict[str, set[int]] = {}
    for unlike in held:
        said.setdefault(describe_difference(unlike), set()).add(unlike.after.process.rank)
    for text, of in list(said.items())[:3]:
        yield f"    {rank_words(sorted(of))}: {text}"
    yield from _render_growth(comparison)
    if len(said) > 3:
        yield f"    and {len(said) - 3} more of the kind"
    places = {one.before.place.where, one.after.place.where}
    if len(places) > 1 and one.before.place.where:
        yield f"    in the reference this probe is at {one.before.place.where}"


def _render_growth(comparison: ValueComparison) -> Iterator[str]:
    """Yield report lines if the differences may be rounding that grew; also where they grow faster than
    rounding does.
    """
    if not may_be_rounding(comparison):
        return
    near = tolerance_option(max(map(compute_relative_distance, comparison.found[0])))
    other = f"other values differ by rounding alone ({near} accepts it)"
    yield f"    it may be rounding that has grown: {other}"
    found = find_jump(comparison)
    if found is not None:
        one, times = found
        faster = (
            f"{times:.0e} times as far from the reference as one pass before"
            if np.isfinite(times)
            else "more than rounding"
        )
        where = f"{probe_text(one.after)} on rank {one.after.process.rank}{describe_iterations(one.after)}"
        yield f"it is more than rounding that grows step by step: {where} is {faster}"
        yield f"    {describe_difference(one)}"


def describe_difference(difference: ValueDifference) -> str:
    """Return a sentence on how a value differs from the reference."""
    if difference.sort == "shape":
        return (
            f"its shape is {difference.after.shape}, in the reference {difference.before.shape}: the runs differ in "
            f"input or decomposition"
        )
    if difference.sort == "missing":
        return f"no rank of the run has {_render_box(difference.before, difference.box)} of the reference"
    if difference.sort == "surplus":
        box = _render_box(difference.after, difference.box)
        return f"no rank of the reference has {box} of the run: the runs differ in input or decomposition"
    if difference.sort == "hash":
        what = (
            "its statistics differ"
            if difference.judged.differing
            else f"{_render_box(difference.after, difference.box)} differ"
        )
        return f"{what}; to see which element, record the probe at level modifications or full"
    count = (
        plural(difference.judged.differing, "element") + f" of {difference.judged.compared:,}"
        if difference.judged.compared > 1
        else ""
    )
    text = (
        f"{render_element(difference.after, difference.element or ())} is {render_number(difference.judged.two)}, "
        f"in the reference {render_number(difference.judged.one)}"
    )
    types = (
        ""
        if difference.before.dtype == difference.after.dtype
        else f"; it is of type {difference.after.dtype}, in the reference {difference.before.dtype}"
    )
    return text + types + (f"; {count} differ{'s' * (difference.judged.differing == 1)}" if count else "")


def render_number(value: Any) -> str:
    """Return a number as text, with all digits that distinguish it from its neighbours."""
    if isinstance(value, np.floating):
        return np.format_float_scientific(value) if value and not 1e-4 <= abs(value) < 1e16 else repr(value.item())
    return str(value)


def _render_box(value: KeptValue, box: Box) -> str:
    """Return a part of an array as the program would write it, such as `A[0:5, 3:4]`."""
    name = value.array or value.place.name
    if not box:
        return name
    if value.base:
        return f"{name}({', '.join(f'{first + 1}:{end}' for first, end in box)})"
    return f"{name}[{', '.join(f'{first}:{end}' for first, end in box)}]"


def _render_spread(comparison: ValueComparison, with_picture: bool) -> Iterator[str]:
    """Yield report lines that say for each probe how differences spread. `with_picture`: also draw the last error over
    an array as text.
    """
    by_probe: dict[str, list[list[ValueDifference]]] = {}
    for some in comparison.found:
        by_probe.setdefault(some[0].after.place.name, []).append(some)
    if len(comparison.found) > 1:
        yield "how it spread:"
        for some_of in list(by_probe.values())[:SPREAD]:
            yield f"    {_describe_extent(some_of)}"
        if len(by_probe) > SPREAD:
            yield f"    and {plural(len(by_probe) - SPREAD, 'more probe')}"
    if comparison.more:
        yield f"    {comparison.more:,} later values were not compared"
    last = next((some[-1] for some in by_probe.values() if some[-1][0].sort == "value" and len(some[-1][0].box)), None)
    if with_picture and last is not None and len(last[0].box) <= 2 and max(n for n in last[0].after.shape) > 4:
        yield from draw_error_text(last, f"{probe_text(last[0].after)}{describe_iterations(last[0].after)}")


def _describe_extent(moments: list[list[ValueDifference]]) -> str:
    """Return a sentence on the differences of one probe: how many times, from when on, on which ranks, and in how many
    elements. `moments`: its differences at each moment, in order.
    """
    first, last = moments[0][0], moments[-1]
    ranks = rank_words(sorted({one.after.process.rank for moment in moments for one in moment}))
    worst = max((one.judged.most for moment in moments for one in moment), default=0.0)
    since = describe_iterations(first.after)[4:] or " its first visit"
    told = f"{probe_text(first.after)}: {plural(len(moments), 'time')}, from{since} on, {ranks}"
    box = _find_differing_box(last)
    if box and last[0].sort == "value":
        count = sum(one.judged.differing for one in last)
        told += f"; at last {plural(count, 'element')} within {_render_box(last[0].after, box)}"
    return told + (f", at most {worst:.3g} apart" if worst else "")


def _find_differing_box(differences: list[ValueDifference]) -> Box:
    """Return the smallest box that contains all elements that differ at one moment. Empty if they are unknown."""
    found: list[tuple[int, int]] = []
    for one in differences:
        if one.judged.low:
            base = [first for first, _ in one.box]
            sides = list(zip(base, one.judged.low, one.judged.high, strict=False))
            mine = [(b + low, b + high + 1) for b, low, high in sides]
            found = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(found, mine, strict=False)] if found else mine
    return tuple(found)


def _rounding_lines(made: ValueComparison) -> Iterator[str]:
    for name, (count, most) in made.rounded.items():
        yield describe_rounding(f"{plural(count, 'element')} of probe {name}", most)


def describe_rounding(subject: str, ulps: float) -> str:
    """Return a sentence that says that only rounding separates some numbers. `subject`: these numbers, in words;
    `ulps`: their largest distance in units in the last place.
    """
    units = f"at most {ulps:,.0f} unit{'s' * (ulps != 1)} in the last place"
    # Where numbers cancel, or a sum's terms are named, the bound is of what was added, and not of the result.
    how = units if ulps < FAR else "differing by little compared with the numbers that were added or stand beside them"
    return (
        f"only rounding: {subject}, {how}, as after another order of summation; Weft does not count this as a "
        "difference (--exact counts it)"
    )


def _render_not_compared(comparison: ValueComparison) -> Iterator[str]:
    """Yield report lines on probes whose values could not be compared, with the reason."""
    for name in sorted(comparison.unplaced):
        yield (
            f"not compared: probe {name} has different values on each rank, and the runs have different numbers of "
            f"ranks "
            "(weft.part tells Weft where the values belong)"
        )
    for name in sorted(comparison.unjudged):
        yield f"not compared: probe {name} has different levels, types or blocks in the two runs"
    if not are_configured_alike(comparison.before, comparison.after):
        yield "the runs were configured to record different values: only what both have is compared"


def to_json(comparison: ValueComparison) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    parting = comparison.parting
    return {
        "alike": comparison.alike,
        "compared": comparison.compared,
        "first": [_difference_to_json(one) for one in comparison.found[0]] if comparison.found else [],
        "jump": _jump_to_json(comparison),
        "moments": len(comparison.found) + comparison.more,
        "rounded": {name: {"elements": count, "ulps": most} for name, (count, most) in comparison.rounded.items()},
        "structure": None if parting is None else {
            "only": ("reference", "run")[parting.side], "probe": parting.only.place.name, "values": parting.count,
            "loop": None if parting.loop is None else
            {"name": parting.loop[0], "reference": parting.loop[1], "run": parting.loop[2]},
        },
        "not_compared": sorted(comparison.unplaced | comparison.unjudged),
        "problems": [*comparison.before.problems, *comparison.after.problems],
    }  # fmt: skip


def _jump_to_json(made: ValueComparison) -> dict[str, Any] | None:
    found = find_jump(made) if may_be_rounding(made) else None
    return None if found is None else _difference_to_json(found[0])


def _difference_to_json(difference: ValueDifference) -> dict[str, Any]:
    """Return a value that differs as JSON values."""
    place, around = (
        difference.after.place,
        difference.after.process.scopes_around(int(difference.after.process.rows["parent"][difference.after.row])),
    )
    index = difference.element
    return {
        "sort": difference.sort, "rank": difference.after.process.rank, "probe": place.name,
        "file": place.file, "line": place.line,
        "iterations": [[scope.name, index] for scope, index in around],
        "array": difference.after.array, "element": None if index is None else list(index),
        "reference": None if difference.judged.one is None else render_number(difference.judged.one),
        "run": None if difference.judged.two is None else render_number(difference.judged.two),
        "elements": difference.judged.differing,
    }  # fmt: skip
