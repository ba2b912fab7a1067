"""Render results that differ between runs with different numbers of ranks: lines for people, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.compare import content_report
from weft.compare.content_report import caller_lines, differing_text, numbered_call_text
from weft.compare.contents import ContentComparison, ExemptCalls, compare_contents
from weft.compare.differences import Comparison
from weft.compare.results import ResultComparison, ResultDifference, compare_results, differ_in_rank_count
from weft.compare.values.error_growth import GROWN, tolerance_option
from weft.compare.values.judgement import Judgement
from weft.compare.values.report import describe_rounding
from weft.compare.values.tolerance import Tolerance
from weft.order import Order


@dataclass(frozen=True, slots=True)
class ContentReport:
    """A comparison of what messages held, with its lines: by message in runs with as many ranks, else by result."""

    contents: ContentComparison | None
    results: ResultComparison | None
    lines: list[str]

    @property
    def alike(self) -> bool | None:
        """Return whether no content differs; None if nothing was compared."""
        if self.results is not None:
            return self.results.alike
        return None if self.contents is None else not self.contents.differing

    @property
    def first(self) -> tuple[int, int] | None:
        """Return (rank, event index) of the run's call at which contents differ first; None if they do not differ."""
        if self.results is not None:
            return self.results.first.after if self.results.first else None
        return self.contents.first[0].after if self.contents and self.contents.first else None


def compare_message_contents(
    comparison: Comparison, order: Order, tolerance: Tolerance, exempt: ExemptCalls | None = None
) -> ContentReport:
    """Return how the contents of messages differ between two runs. Runs with the same number of ranks are compared
    message by message; others by the results of collectives that all ranks share.

    `order`: the happens-before order of the run. `tolerance`: which differences of numbers in results are accepted.
    `exempt`: calls whose messages are not compared.
    """
    if differ_in_rank_count(comparison.before, comparison.after):
        results = compare_results(comparison.before, comparison.after, tolerance, exempt)
        lines = [*render_results(results, comparison), *_describe_exempt(results.left_out, exempt)]
        return ContentReport(None, results, lines)
    contents = compare_contents(comparison, order, exempt)
    lines = content_report.render_contents(contents, comparison)
    return ContentReport(contents, None, lines + _describe_exempt(contents.left_out if contents else 0, exempt))


def _describe_exempt(left_out: int, exempt: ExemptCalls | None) -> list[str]:
    """Return a line that says how many contents were not compared, and of which places; none if all were compared."""
    if exempt is None:
        return []
    return [f"--except left out {plural(left_out, 'content')} of the calls at {', '.join(exempt.places)}"]


def render_results(results: ResultComparison, comparison: Comparison) -> list[str]:
    """Return report lines on results: the first that differs, how many differ in all, and what is rounding."""
    sizes = [len(side.trace.ranks) for side in (comparison.before, comparison.after)]
    found = [
        f"the reference has {plural(sizes[0], 'rank')} and the run {sizes[1]}: Weft compares only the results of "
        f"reductions and broadcasts over all ranks, not what each rank does"
    ]
    if not results.compared:
        return [*found, "nothing was compared: the runs have no result of a reduction or broadcast in common"]
    if results.first is not None:
        found += _render_first_result(results, results.first, comparison)
        found.append(f"in all, {results.differing:,} of {plural(results.compared, 'result')} differ")
    else:
        which = "all " if results.alike else "those that both have: "
        found.append(f"{which}{plural(results.compared, 'result')} are alike")
    if results.rounded:
        found.append(describe_rounding(plural(results.rounded, "result"), results.ulps))
    for side, count in zip(("reference", "run"), results.alone, strict=True):
        if count:
            found.append(f"only the {side} has {plural(count, 'more result')}")
    return found


def _render_first_result(results: ResultComparison, first: ResultDifference, comparison: Comparison) -> Iterator[str]:
    """Yield report lines on the first result that differs."""
    match = comparison.after
    event = match.trace.event(*first.after)
    yield f"first result that differs: rank {first.after[0]}, {numbered_call_text(match, first.after)}"
    if first.before[1] != first.after[1]:
        call = numbered_call_text(comparison.before, first.before)
        yield f"    in the reference it is rank {first.before[0]}, {call}"
    judged = first.judged
    if judged is None:
        size = f"{plural(first.bytes_after, 'byte')}, in the reference {first.bytes_before:,}"
        yield f"    {size}: their numbers are not recorded, so Weft cannot tell rounding from an error"
    else:
        at = judged.first[0] if judged.first else 0
        some = f"{differing_text(judged.differing, judged.compared)}, at most {judged.most:.3g} apart"
        yield f"    element {at} is {judged.two}, in the reference {judged.one}; {some}"
        if near := _rounding_option(results, judged):
            because = "because other results differ by rounding alone"
            yield f"    it may be rounding that has grown, {because} ({near} accepts it)"
    yield from caller_lines(event)
    if results.known is not None:
        last = f"rank {results.known[0]}, {numbered_call_text(match, results.known)}"
        yield f"    the last result that is as in the reference: {last}"


def _rounding_option(results: ResultComparison, judged: Judgement) -> str:
    """Return the option that accepts a result that may be accumulated rounding; empty if it cannot be."""
    apart = judged.most / judged.largest if judged.largest else 1.0
    return tolerance_option(apart) if results.rounded and 0 < apart < GROWN else ""


def to_json(results: ResultComparison | None, comparison: Comparison) -> dict[str, Any] | None:
    """Return the comparison of results as JSON values; None if none was made."""
    if results is None:
        return None
    return {
        "compared": results.compared,
        "differing": results.differing,
        "rounded": results.rounded,
        "ulps": results.ulps,
        "alone": list(results.alone),
        "first": None if results.first is None else _result_to_json(results.first, comparison),
    }


def _result_to_json(first: ResultDifference, comparison: Comparison) -> dict[str, Any]:
    """Return the first result that differs as JSON values, with how far its numbers are apart."""
    event, judged = comparison.after.trace.event(*first.after), first.judged
    numbers = (
        {}
        if judged is None
        else {
            "element": judged.first[0] if judged.first else 0,
            "value": str(judged.two),
            "reference_value": str(judged.one),
            "elements": judged.differing,
            "apart": judged.most,
        }
    )
    return {
        "rank": first.after[0], "event": first.after[1], "reference": list(first.before), "call": event.function.name,
        "file": event.site.file or "", "line": event.site.line, "bytes": first.bytes_after,
        "reference_bytes": first.bytes_before, **numbers,
    }  # fmt: skip
