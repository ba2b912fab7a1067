"""Run every analysis on a trace, keep what each finds, and let no failure of one take the others down."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from weft.base.lazy import dataclass
from weft.endings import find_consequences
from weft.evidence import Met, Sampled
from weft.findings import Finding, worst_first
from weft.kinds import CERTAINTIES
from weft.native.threads import worker_count
from weft.races import name_earlier_races
from weft.report.attempt import Found, Progress, call_or_fail, may_find
from weft.report.causes import (
    attach_consequences_of_overlaps,
    attach_consequences_of_overruns,
    is_harmful_race,
    join_equal_overruns,
    put_ends_behind_causes,
    put_harmful_races_first,
    put_mismatches_before_deadlocks,
    remove_absences_of_deadlocks,
    remove_mismatches_of_deadlocks,
    remove_truncations_without_sizes,
)
from weft.report.context import AnalysisContext
from weft.report.explored import add_explored
from weft.report.failure import AnalysisWarning, Failure, describe_failures
from weft.report.registry import ANALYSES, Analysis
from weft.report.rings import add_snapshot_findings, suffix_scope
from weft.trace import Level, Trace
from weft.trace.segment import SEGMENT

MAX_MERGED: Final = 1000
"""The most sites and the most events of a merged finding."""


@dataclass(frozen=True)
class Report:
    """The findings of a run, worst first and merged by cause, and the analyses that failed."""

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...] = ()


def run_analyses(
    trace: Trace, analyses: Sequence[Analysis] = ANALYSES,
    context: AnalysisContext | None = None, progress: Progress | None = None, found: Mapping[str, Found] | None = None,
) -> Report:  # fmt: skip
    """Run analyses on a run, and return a report of their findings and of the analyses that failed. Empty for a run of
    level `outcomes`, whose record has no calls.

    `context`: the run's match and order, if they were computed before. `found`: what some analyses have found already,
    by name (weft.report.parallel).
    """
    if trace.level == Level.OUTCOMES:
        return Report(())
    whole = analyses is ANALYSES
    context = context or AnalysisContext(trace)
    if found is None and whole and trace.event_count >= 2 * SEGMENT:
        from weft.report.segments import analyse_in_segments_alone  # of no use to short runs, which do not wait for it

        found = analyse_in_segments_alone(context, progress)
    scope = suffix_scope(trace)
    analyses = [one for one in analyses if scope is None or scope.is_searched(one)]
    findings: list[Finding] = []
    failures: list[Failure] = []
    results: dict[str, Found] = dict(found or {})
    left = [analysis for analysis in analyses if analysis.name not in results]
    if left:
        results |= _run_in_threads(context, left, progress or (lambda share, now: None))
    for analysis in analyses:
        result = results.get(analysis.name, [])
        if isinstance(result, Failure):
            failures.append(result)
        else:
            findings += [one for one in result if scope is None or scope.is_true_of_run(analysis, one)]
    findings = name_earlier_races(findings)
    try:
        findings = add_explored(trace, attach_consequences(context, findings))
    except Exception as error:
        failures.append(Failure.from_exception("what follows from the ends of ranks", error))
    told = join_equal_overruns(merge_by_cause(remove_mismatches_of_deadlocks(remove_absences_of_deadlocks(findings))))
    if whole and scope is not None:
        told = add_snapshot_findings(trace, told, lambda snapshot, some: run_analyses(snapshot, some).findings)
    return Report(
        tuple(put_harmful_races_first(put_mismatches_before_deadlocks(put_ends_behind_causes(worst_first(told))))),
        tuple(failures),
    )


def attach_consequences(context: AnalysisContext, findings: list[Finding]) -> list[Finding]:
    """Return the findings without those that only follow from how a rank ended. Such a finding becomes a consequence of
    the finding on that end.
    """
    findings = remove_truncations_without_sizes(
        attach_consequences_of_overlaps(attach_consequences_of_overruns(remove_sampled(findings)))
    )
    trace, asked = context.locate_at_end(findings)
    following = find_consequences(trace, asked)
    return [
        replace(one, consequences=tuple(behind)) if (behind := following.describe_consequences(at_end)) else one
        for one, at_end in zip(findings, asked, strict=True)
        if not following.is_consequence(at_end)
    ]


def remove_sampled(findings: list[Finding]) -> list[Finding]:
    """Remove the findings of watched samples of a buffer whose every access was seen (weft.access)."""
    exact = {event for finding in findings if isinstance(finding.evidence, Met) for event in finding.events}
    return [f for f in findings if not (isinstance(f.evidence, Sampled) and exact.intersection(f.events))]


def _run_in_threads(context: AnalysisContext, analyses: Sequence[Analysis], progress: Progress) -> dict[str, Found]:
    """Run analyses, several at a time, and return by name what each finds, or its failure.

    They are independent, and most of their time goes into C and numpy, which let other threads run.
    """
    progress(0, "matching messages")
    with suppress(Exception):  # the analyses that need it will say why it fails
        context.prepare()
    analyses = [analysis for analysis in analyses if may_find(context, analysis)]
    count = worker_count(sum(len(rank) for rank in context.trace.ranks), 4)
    if count == 1:
        return {analysis.name: _try_analysis(context, analysis) for analysis in analyses}
    # Small runs have one thread.
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(count) as pool:
        if any("order" in analysis.needs for analysis in analyses):
            pool.submit(lambda: context.order)
        begun = {analysis.name: pool.submit(_try_analysis, context, analysis)
                 for analysis in sorted(analyses, key=lambda one: "order" in one.needs)}  # fmt: skip
        left = list(begun)
        for future in as_completed(begun.values()):
            left = [name for name in left if begun[name] is not future]
            progress(1 - len(left) / len(begun), left[0] if left else "")
        return {name: future.result() for name, future in begun.items()}


def _try_analysis(context: AnalysisContext, analysis: Analysis) -> Found:
    return call_or_fail(analysis, lambda: list(analysis.find(context)))


def analyse(trace: Trace) -> list[Finding]:
    """Return all findings of a run, worst first; findings with one cause are merged. For each analysis that fails an
    AnalysisWarning is given.
    """
    report = run_analyses(trace)
    for text in describe_failures(trace.path, report.failures):
        warnings.warn(text, AnalysisWarning, stacklevel=2)
    return list(report.findings)


def merge_by_cause(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings that have cause and severity in common, and return them in the order of their first ones."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, *finding.cause_key), []).append(finding)
    return [_merge_findings(found) if len(found) > 1 or found[0].beyond else found[0] for found in groups.values()]


def _merge_findings(findings: list[Finding]) -> Finding:
    """Return one finding for several with the same cause: the message of the surest one, and all ranks, sites and
    events.
    """
    first = min(findings, key=lambda f: (CERTAINTIES.index(f.certainty), not is_harmful_race(f)))
    sites = tuple(dict.fromkeys(site for f in (first, *findings) for site in f.sites))
    events = tuple(dict.fromkeys(event for f in (first, *findings) for event in f.events))
    count = sum(1 + f.beyond for f in findings)
    return replace(
        first,
        message=f"{first.message} (and {count - 1:,} more like it)",
        ranks=tuple(sorted({rank for f in findings for rank in f.ranks})),
        sites=sites[:MAX_MERGED],
        events=events[:MAX_MERGED],
        alike=count,
        beyond=0,
    )
