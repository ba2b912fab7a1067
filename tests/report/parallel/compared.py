"""An MPI program: reports of many runs made by all its processes together, held against those of one process.

mpiexec -n 3 python compared.py FOLDER             each folder in FOLDER is a run; prints how many were the same
mpiexec -n 3 python compared.py FOLDER CALLS       the same in segments of at least so many calls; runs that stay whole
                                                   are left out
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mpi4py import MPI

import weft
from weft.native import threads
from weft.report import AnalysisContext, Report, run_analyses, to_json
from weft.report.parallel.report import examine_together, find_differences
from weft.report.parallel.team import SingleWorker, Team
from weft.report.segments import analyse_in_segments
from weft.report.tables import make_tables_of_context
from weft.segments import cut_points
from weft.trace import Level, RunError


def text(context: AnalysisContext, report: Report) -> str:
    """All that a report tells, and what could not be read; of an analysis that failed not where."""
    failures = [type(failure)(failure.analysis, failure.error) for failure in report.failures]
    made = make_tables_of_context(context) if context.trace.level != Level.OUTCOMES and not failures else None
    return json.dumps([to_json(context.trace, report.findings, failures, made), context.trace.problems], indent=1)


def serial(path: Path, least: int) -> str:
    """What one process finds."""
    context = AnalysisContext(weft.open(path))
    return text(
        context, examined(SingleWorker(), context, least) if least else run_analyses(context.trace, context=context)
    )


def examined(team: Team | SingleWorker, context: AnalysisContext, least: int) -> Report:
    """The report in segments."""
    found = analyse_in_segments(team, context, lambda share, now: None, least)
    if not team.first:
        return Report(())
    return Report(()) if found is None else run_analyses(context.trace, context=context, found=found)


def main(folder: Path, least: int = 0) -> int:
    """Compare all runs; the first worker prints."""
    team, same, wrong = Team(MPI), 0, 0
    cut_points.A_RANK = 1  # type: ignore[misc]
    threads.use_one_thread()
    for path in sorted(folder.iterdir()):
        try:
            context = AnalysisContext(weft.open(path))
        except RunError:
            continue
        try:
            assert not find_differences(team, context.trace)
            report = examined(team, context, least) if least else examine_together(team, context)
        except BaseException as error:  # the others wait
            team.end(error, 4)
        if team.first:
            if least and context.parts is None:
                continue
            one, other = text(context, report), serial(path, least)
            same += one == other
            if one != other:
                wrong += 1
                print(f"{path} differs")
                for name, content in (("together", one), ("serial", other)):
                    Path(f"{path}.{name}").write_text(content)
    if team.first:
        print(f"{same} the same, {wrong} not")
    team.wait()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
