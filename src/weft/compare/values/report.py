"""Render a comparison of values: lines for people, and JSON for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from weft.base.words import listed, plural, rank_words
from weft.compare.values.error_growth import find_jump, may_be_rounding, relative_distance, tolerance_option
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
    told = _comparison_lines(made, drawn=drawn)
    return map(reword_for_processors, told) if made.after.has_processors else told


def reword_for_processors(line: str) -> str:
    """Return a line about a run of `weft check --trace` in the words of that command."""
    if line.startswith("    |"):
        return line
    for pattern, words in _PROCESSORS:
        line = pattern.sub(words, line)
    return line


def _comparison_lines(made: ValueComparison, *, drawn: bool) -> Iterator[str]:
    """Yield lines on problems, structure, the first difference, its spread, and what was not compared."""
    yield from _problem_lines(made)
    if have_no_common_probe(made.before, made.after):
        yield _no_common_probe_text(made)
        return
    if not made.found and made.parting is None:
        yield f"all {made.compared:,} values of probes are alike"
    elif made.found and not _is_structure_first(made):
        yield from _first_difference_lines(made.found[0], made)
        yield from _spread_lines(made, drawn)
        yield from _structure_lines(made, "later, and perhaps because of it: ")
    else:
        yield from _structure_lines(made, "")
        if made.found:
            yield from _first_difference_lines(made.found[0], made)
            yield from _spread_lines(made, drawn)
        else:
            yield f"the {plural(made.compared, 'value')} that both have are alike"
    yield from _rounding_lines(made)
    yield from _not_compared_lines(made)


def _no_common_probe_text(made: ValueComparison) -> str:
    """Return a sentence on two runs without a common probe: of different programs, or without values."""
    names = [_probe_names(side) for side in (made.before, made.after)]
    if all(names):
        return (
            "no probe is in both: these are runs of different programs "
            f"(the reference has {names[0]}, the run {names[1]})"
        )
    empty = "neither run" if not any(names) else "the run" if names[0] else "the reference"
    return f"nothing to compare: {empty} kept {'no' if any(names) else 'a'} value of a probe"


def _probe_names(trace: ValueTrace) -> str:
    names = {p.name: None for one in trace.processes for p in one.places if p.kind == PlaceKind.PROBE}
    return listed(list(names)[:4]) + (" and more" if len(names) > 4 else "")


def _problem_lines(made: ValueComparison) -> Iterator[str]:
    for side, trace in (("the reference", made.before), ("the run", made.after)):
        yield from (f"{side}: {text}" for text in trace.problems[:4])


def _is_structure_first(made: ValueComparison) -> bool:
    """Tell whether the structures differ before the first value does."""
    if made.parting is None:
        return False
    only, first = made.parting.only, made.found[0][0]
    other = first.before if made.parting.side == 0 else first.after
    return only.row < other.row


def _structure_lines(made: ValueComparison, heading: str) -> Iterator[str]:
    """Yield a line on the first place where the structures differ."""
    parting = made.parting
    if parting is None:
        return
    where = "the reference" if parting.side == 0 else "the run"
    more = f", the first of {parting.count:,} such values" if parting.count > 1 else ""
    only = f"{probe_text(parting.only)} on rank {parting.only.process.rank}{iterations_text(parting.only)}"
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


def iterations_text(kept: KeptValue) -> str:
    """Return `, in iteration 4 of sweep`, the innermost loop first."""
    around = kept.process.scopes_around(int(kept.process.rows["parent"][kept.row]))
    words = [
        f"iteration {index} of {place.name}" if place.kind == PlaceKind.LOOP else place.name
        for place, index in reversed(around)
    ]
    if not words:
        return f", at visit {kept.times + 1}" if kept.times else ""
    return f", in {', '.join(words)}"


def element_text(kept: KeptValue, index: tuple[int, ...]) -> str:
    """Return `A[3, 4]`, counted as in the program's language."""
    name = kept.array or kept.place.name
    numbers = ", ".join(str(k + kept.base) for k in index)
    pair = "()" if kept.base else "[]"
    return f"{name}{pair[0]}{numbers}{pair[1]}" if index else name


def _first_difference_lines(some: list[ValueDifference], made: ValueComparison) -> Iterator[str]:
    """Yield lines on the first moment that differs: ranks and elements."""
    one = some[0]
    ranks = rank_words(sorted({unlike.after.process.rank for unlike in some}))
    held = [two for two in some if two.sort == one.sort]
    yield f"first difference: {probe_text(one.after)} on {ranks}{iterations_text(one.after)}"
    said: dict[str, set[int]] = {}
    for unlike in held:
        said.setdefault(unlike_text(unlike), set()).add(unlike.after.process.rank)
    for text, of in list(said.items())[:3]:
        yield f"    {rank_words(sorted(of))}: {text}"
    yield from _growth_lines(made)
    if len(said) > 3:
        yield f"    and {len(said) - 3} more of the kind"
    places = {one.before.place.where, one.after.place.where}
    if len(places) > 1 and one.before.place.where:
        yield f"    in the reference this probe is at {one.before.place.where}"


def _growth_lines(made: ValueComparison) -> Iterator[str]:
    """Yield whether the difference may be rounding that grew, and where it grows faster than rounding."""
    if not may_be_rounding(made):
        return
    near = tolerance_option(max(map(relative_distance, made.found[0])))
    other = f"other values are apart by that alone ({near} lets it through)"
    yield f"    it may be rounding that grew: {other}"
    found = find_jump(made)
    if found is not None:
        one, times = found
        faster = f"{times:.0e} times as far apart as the time before" if np.isfinite(times) else "no rounding any more"
        where = f"{probe_text(one.after)} on rank {one.after.process.rank}{iterations_text(one.after)}"
        yield f"it does not go on as rounding that grows: {where} is {faster}"
        yield f"    {unlike_text(one)}"


def unlike_text(one: ValueDifference) -> str:
    """Return how a value differs, for people."""
    if one.sort == "shape":
        return f"its shape is {one.after.shape}, in the reference {one.before.shape}: another input or cut"
    if one.sort == "missing":
        return f"{_box_text(one.before, one.box)} of the reference are on no rank of the run"
    if one.sort == "surplus":
        return f"{_box_text(one.after, one.box)} of the run are on no rank of the reference: another input or cut"
    if one.sort == "hash":
        what = "its statistics differ" if one.judged.differing else f"{_box_text(one.after, one.box)} differ"
        return f"{what}; which element is not known: keep it at level modifications or full"
    count = plural(one.judged.differing, "element") + f" of {one.judged.compared:,}" if one.judged.compared > 1 else ""
    text = (
        f"{element_text(one.after, one.element or ())} is {number_text(one.judged.two)}, in the reference "
        f"{number_text(one.judged.one)}"
    )
    types = "" if one.before.dtype == one.after.dtype else f"; it is {one.after.dtype}, there {one.before.dtype}"
    return text + types + (f"; {count} differ{'s' * (one.judged.differing == 1)}" if count else "")


def number_text(value: Any) -> str:
    """Return a number with all digits that distinguish it from its neighbours."""
    if isinstance(value, np.floating):
        return np.format_float_scientific(value) if value and not 1e-4 <= abs(value) < 1e16 else repr(value.item())
    return str(value)


def _box_text(kept: KeptValue, box: Box) -> str:
    """Return `A[0:5, 3:4]`, counted as in the program's language."""
    name = kept.array or kept.place.name
    if not box:
        return name
    if kept.base:
        return f"{name}({', '.join(f'{first + 1}:{end}' for first, end in box)})"
    return f"{name}[{', '.join(f'{first}:{end}' for first, end in box)}]"


def _spread_lines(made: ValueComparison, drawn: bool) -> Iterator[str]:
    """Yield how the difference spread, by probe, and a picture of the last error over an array."""
    by_probe: dict[str, list[list[ValueDifference]]] = {}
    for some in made.found:
        by_probe.setdefault(some[0].after.place.name, []).append(some)
    if len(made.found) > 1:
        yield "how it spread:"
        for some_of in list(by_probe.values())[:SPREAD]:
            yield f"    {_extent_text(some_of)}"
        if len(by_probe) > SPREAD:
            yield f"    and {plural(len(by_probe) - SPREAD, 'more probe')}"
    if made.more:
        yield f"    {made.more:,} later moments were not looked at"
    last = next((some[-1] for some in by_probe.values() if some[-1][0].sort == "value" and len(some[-1][0].box)), None)
    if drawn and last is not None and len(last[0].box) <= 2 and max(n for n in last[0].after.shape) > 4:
        yield from draw_error_text(last, f"{probe_text(last[0].after)}{iterations_text(last[0].after)}")


def _extent_text(some: list[list[ValueDifference]]) -> str:
    """Return when, on which ranks and in how many elements a probe differs."""
    first, last = some[0][0], some[-1]
    ranks = rank_words(sorted({one.after.process.rank for moment in some for one in moment}))
    worst = max((one.judged.most for moment in some for one in moment), default=0.0)
    since = iterations_text(first.after)[4:] or " its first visit"
    told = f"{probe_text(first.after)}: {plural(len(some), 'time')}, from{since} on, {ranks}"
    box = _differing_box(last)
    if box and last[0].sort == "value":
        count = sum(one.judged.differing for one in last)
        told += f"; at last {plural(count, 'element')} within {_box_text(last[0].after, box)}"
    return told + (f", at most {worst:.3g} apart" if worst else "")


def _differing_box(some: list[ValueDifference]) -> Box:
    """Return the box of all elements that differ at a moment."""
    found: list[tuple[int, int]] = []
    for one in some:
        if one.judged.low:
            base = [first for first, _ in one.box]
            sides = list(zip(base, one.judged.low, one.judged.high, strict=False))
            mine = [(b + low, b + high + 1) for b, low, high in sides]
            found = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(found, mine, strict=False)] if found else mine
    return tuple(found)


def _rounding_lines(made: ValueComparison) -> Iterator[str]:
    for name, (count, most) in made.rounded.items():
        yield rounding_text(f"{plural(count, 'element')} of probe {name}", most)


def rounding_text(what: str, most: float) -> str:
    """Return a sentence on numbers that only rounding separates, by `most` ulps."""
    units = f"at most {most:,.0f} unit{'s' * (most != 1)} in the last place"
    # Where numbers cancel, or a sum's terms are named, the bound is of what was added, and not of the result.
    how = units if most < FAR else "small beside the numbers that were added or stand with them"
    return (
        f"only rounding: {what}, {how}: what another order of sums comes to, not counted as a difference "
        "(--exact counts it)"
    )


def _not_compared_lines(made: ValueComparison) -> Iterator[str]:
    """Yield lines on probes that could not be compared."""
    for name in sorted(made.unplaced):
        yield (
            f"not compared: probe {name} holds other values on each rank, and the runs have other numbers of ranks "
            "(say with weft.part where they are)"
        )
    for name in sorted(made.unjudged):
        yield f"not compared: probe {name} was kept in other forms in the two runs"
    if not are_configured_alike(made.before, made.after):
        yield "the runs were configured to keep other values: what both have is compared"


def to_json(made: ValueComparison) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    parting = made.parting
    return {
        "alike": made.alike,
        "compared": made.compared,
        "first": [_difference_to_json(one) for one in made.found[0]] if made.found else [],
        "jump": _jump_to_json(made),
        "moments": len(made.found) + made.more,
        "rounded": {name: {"elements": count, "ulps": most} for name, (count, most) in made.rounded.items()},
        "structure": None if parting is None else {
            "only": ("reference", "run")[parting.side], "probe": parting.only.place.name, "values": parting.count,
            "loop": None if parting.loop is None else
            {"name": parting.loop[0], "reference": parting.loop[1], "run": parting.loop[2]},
        },
        "not_compared": sorted(made.unplaced | made.unjudged),
        "problems": [*made.before.problems, *made.after.problems],
    }  # fmt: skip


def _jump_to_json(made: ValueComparison) -> dict[str, Any] | None:
    found = find_jump(made) if may_be_rounding(made) else None
    return None if found is None else _difference_to_json(found[0])


def _difference_to_json(one: ValueDifference) -> dict[str, Any]:
    """Return a value that differs as JSON values."""
    place, around = (
        one.after.place,
        one.after.process.scopes_around(int(one.after.process.rows["parent"][one.after.row])),
    )
    index = one.element
    return {
        "sort": one.sort, "rank": one.after.process.rank, "probe": place.name, "file": place.file, "line": place.line,
        "iterations": [[scope.name, index] for scope, index in around],
        "array": one.after.array, "element": None if index is None else list(index),
        "reference": None if one.judged.one is None else number_text(one.judged.one),
        "run": None if one.judged.two is None else number_text(one.judged.two),
        "elements": one.judged.differing,
    }  # fmt: skip
