"""Results that differ between runs of other numbers of ranks, in lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.compare import content_report
from weft.compare.content_report import called, callers, differ
from weft.compare.contents import Contents, compare_contents
from weft.compare.differences import Comparison
from weft.compare.results import Result, Results, compare_results, other_ranks
from weft.compare.values.error_growth import GROWN, tolerance
from weft.compare.values.judgement import Judged
from weft.compare.values.report import rounding
from weft.compare.values.tolerance import Tolerance
from weft.order import Order


@dataclass(frozen=True, slots=True)
class Held:
    """What messages of two runs held: by message where they have as many ranks, else by result; and it in lines."""

    contents: Contents | None
    results: Results | None
    lines: list[str]

    @property
    def alike(self) -> bool | None:
        """Whether nothing of it differs; None where nothing was held against each other."""
        if self.results is not None:
            return self.results.alike
        return None if self.contents is None else not self.contents.differing

    @property
    def first(self) -> tuple[int, int] | None:
        """The call of the run at which it differs first."""
        if self.results is not None:
            return self.results.first.after if self.results.first else None
        return self.contents.first[0].after if self.contents and self.contents.first else None


def held(comparison: Comparison, order: Order, tolerance: Tolerance) -> Held:
    """Hold what messages held against each other; `order` is of the run, `tolerance` of results."""
    if other_ranks(comparison.before, comparison.after):
        results = compare_results(comparison.before, comparison.after, tolerance)
        return Held(None, results, lines(results, comparison))
    contents = compare_contents(comparison, order)
    return Held(contents, None, content_report.lines(contents, comparison))


def lines(results: Results, comparison: Comparison) -> list[str]:
    """What differs first, how much in all, and what is rounding."""
    sizes = [len(side.trace.ranks) for side in (comparison.before, comparison.after)]
    found = [
        f"the reference has {plural(sizes[0], 'rank')} and the run {sizes[1]}: what is compared are the results of "
        "reductions and broadcasts over all ranks, not what each rank does"
    ]
    if not results.compared:
        return [*found, "nothing was compared: the runs have no such result in common"]
    if results.first is not None:
        found += _first(results, results.first, comparison)
        found.append(f"in all, {results.differing:,} of {plural(results.compared, 'result')} differ")
    else:
        which = "all " if results.alike else "those that both have: "
        found.append(f"{which}{plural(results.compared, 'result')} are alike")
    if results.rounded:
        found.append(rounding(plural(results.rounded, "result"), results.ulps))
    for side, count in zip(("reference", "run"), results.alone, strict=True):
        if count:
            found.append(f"only the {side} has {plural(count, 'more result')}")
    return found


def _first(results: Results, first: Result, comparison: Comparison) -> Iterator[str]:
    match = comparison.after
    event = match.trace.event(*first.after)
    yield f"first result that differs: rank {first.after[0]}, {called(match, first.after)}"
    if first.before[1] != first.after[1]:
        yield f"    in the reference it is rank {first.before[0]}, {called(comparison.before, first.before)}"
    judged = first.judged
    if judged is None:
        size = f"{plural(first.bytes_after, 'byte')}, in the reference {first.bytes_before:,}"
        yield f"    {size}: their numbers are not kept, so that rounding cannot be told from an error"
    else:
        at = judged.first[0] if judged.first else 0
        some = f"{differ(judged.differing, judged.compared)}, at most {judged.most:.3g} apart"
        yield f"    element {at} is {judged.two}, in the reference {judged.one}; {some}"
        if near := _grown(results, judged):
            yield f"    it may be rounding that grew: other results are apart by that alone ({near} lets it through)"
    yield from callers(event)
    if results.known is not None:
        last = f"rank {results.known[0]}, {called(match, results.known)}"
        yield f"    the last result that is as in the reference: {last}"


def _grown(results: Results, judged: Judged) -> str:
    """The option that lets a result through that rounding may have come to; empty where it cannot have."""
    apart = judged.most / judged.largest if judged.largest else 1.0
    return tolerance(apart) if results.rounded and 0 < apart < GROWN else ""


def to_json(results: Results | None, comparison: Comparison) -> dict[str, Any] | None:
    """The same for scripts."""
    if results is None:
        return None
    return {
        "compared": results.compared, "differing": results.differing, "rounded": results.rounded, "ulps": results.ulps,
        "alone": list(results.alone), "first": None if results.first is None else _json(results.first, comparison),
    }  # fmt: skip


def _json(first: Result, comparison: Comparison) -> dict[str, Any]:
    event, judged = comparison.after.trace.event(*first.after), first.judged
    numbers = {} if judged is None else {
        "element": judged.first[0] if judged.first else 0, "value": str(judged.two), "reference_value": str(judged.one),
        "elements": judged.differing, "apart": judged.most,
    }  # fmt: skip
    return {
        "rank": first.after[0], "event": first.after[1], "reference": list(first.before), "call": event.function.name,
        "file": event.site.file or "", "line": event.site.line, "bytes": first.bytes_after,
        "reference_bytes": first.bytes_before, **numbers,
    }  # fmt: skip
