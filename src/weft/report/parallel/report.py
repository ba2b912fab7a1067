"""A report by several processes: `mpiexec -n 4 weft report RUN`. Its findings are those of one process, byte for byte.

Every worker reads the records of its own ranks, and has the match of these (weft.report.parallel). Analyses that go
rank by rank run on it; their findings come to the first worker in the order of the ranks. That one gets the whole
match, and then runs on it what looks at all ranks at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from weft.base.version import VERSION
from weft.findings import Finding
from weft.report.analysis import Report, run_analyses
from weft.report.attempt import Found, Progress, call_or_fail, may_find
from weft.report.context import AnalysisContext
from weft.report.failure import Failure
from weft.report.parallel import Team, divide_ranks, gather_match, match_shared
from weft.report.registry import ANALYSES, Analysis
from weft.report.segments import analyse_in_segments
from weft.systems import MPI
from weft.terms.analysis_sections import AnalysisSection, limit_groups
from weft.trace import Level, Trace

Groups = list[list[Finding]]
"""What a section found."""

WHOLE: Final = tuple(analysis.name for analysis in ANALYSES if not analysis.by_rank and analysis.parts is None)
"""The analyses that the first worker runs alone."""


def can_be_shared(trace: Trace) -> bool:
    """Return whether several workers can share the run; the first one analyses others alone."""
    return trace.level != Level.OUTCOMES and trace.system is MPI and trace.suffix is None and trace.until is None


def examine_together(team: Team, context: AnalysisContext, progress: Progress | None = None) -> Report:
    """Analyse a run with all workers. Return the report at the first worker, an empty report at the others. All workers
    call it together.
    """
    trace = context.trace
    if can_be_shared(trace):
        found: Mapping[str, Found] | None = analyse_in_segments(team, context, progress or (lambda share, now: None))
        if found is None:
            found = _SharedAnalyses(team, context).found
        return run_analyses(trace, context=context, progress=progress, found=found) if team.is_first else Report(())
    return run_analyses(trace, context=context, progress=progress) if team.is_first else Report(())


def find_differences(team: Team, trace: Trace) -> list[str]:
    """Return a sentence for each thing that another worker sees otherwise than the first (Weft's version, the run's
    files); empty if all see the same. All workers call it together.
    """
    names = hashlib.sha256(repr([(rank.file.name, rank.file.size) for rank in trace.ranks if rank.file]).encode())
    seen = {
        "Weft": VERSION, "ranks": str(len(trace.ranks)), "calls": f"{trace.event_count:,}",
        "files of ranks": names.hexdigest()[:12], "communicators": str(len(trace.communicators)),
    }  # fmt: skip
    of_all = team.all_gather(seen)
    return [
        f"worker {n} of {team.size} has {what} {theirs[what]}, and worker 0 has {value}"
        for n, theirs in enumerate(of_all)
        for what, value in of_all[0].items()
        if theirs[what] != value
    ]


class _SharedAnalyses:
    """What the workers found together, by analysis, at the first one."""

    def __init__(self, team: Team, context: AnalysisContext) -> None:
        trace = context.trace
        parts = divide_ranks(trace, team.size)
        trace.share = parts[team.rank]
        shared = match_shared(team, trace, parts)
        whole = gather_match(team, shared)
        own = AnalysisContext(trace, shared.match)
        own.prepare()
        mine = {analysis.name: _analyse_own_ranks(own, analysis) for analysis in ANALYSES if analysis.name not in WHOLE}
        told = team.gather_objects((mine, own.called, trace.problems))
        trace.share = range(len(trace.ranks))
        self.found: dict[str, list[Finding] | Failure] = {}
        if not team.is_first:
            return
        context.take(whole, frozenset(chain.from_iterable(called for _, called, _ in told)))
        for text in chain.from_iterable(problems for _, _, problems in told):
            trace.add_problem(text)
        for analysis in ANALYSES:
            if analysis.name not in WHOLE:
                of_all = [found[analysis.name] for found, _, _ in told]
                self.found[analysis.name] = _join_findings(_sections_of(context, analysis), of_all)


def _sections_of(context: AnalysisContext, analysis: Analysis) -> Sequence[AnalysisSection]:
    if analysis.parts is not None:
        return analysis.parts()
    return (AnalysisSection(lambda trace, match: [list(analysis.find(context))]),)


def _analyse_own_ranks(context: AnalysisContext, analysis: Analysis) -> list[Groups] | Failure:
    """Return what each section of an analysis finds in this worker's ranks, or the failure of the analysis."""
    if not may_find(context, analysis):
        return [[] for _ in _sections_of(context, analysis)]
    trace, match = context.trace, context.match
    return call_or_fail(
        analysis,
        lambda: [list(limit_groups(part.find(trace, match), part.most)) for part in _sections_of(context, analysis)],
    )


def _join_findings(parts: Sequence[AnalysisSection], told: Sequence[list[Groups] | Failure]) -> list[Finding] | Failure:
    """Return the findings of all workers in the order in which one process would report them; the Failure if a worker
    failed.

    `parts`: the sections of the analysis. `told`: by worker what each section found, in groups.
    """
    found: list[Finding] = []
    for nth, part in enumerate(parts):
        groups: list[Iterable[list[Finding]]] = []
        for one in told:
            if isinstance(one, Failure):
                return one
            groups.append(one[nth])
        found += chain.from_iterable(limit_groups(chain.from_iterable(groups), part.most))
    return found
