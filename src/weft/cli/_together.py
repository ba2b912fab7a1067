"""`weft report` as an MPI program: one process prints, all analyse."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import weft
from weft.cli._progress import show_progress
from weft.cli._report_output import FAILED_STATUS, write_report
from weft.errors import WeftError
from weft.launch.job_step import JobStep
from weft.launch.rundir import find_newest_run
from weft.native import threads
from weft.report import AnalysisContext
from weft.report.parallel.report import examine_together, find_differences
from weft.report.parallel.team import Team, join_team
from weft.trace import Trace

_Made = TypeVar("_Made")


def run_together(args: argparse.Namespace, step: JobStep) -> int:
    """Analyse a run with all processes of a job step and report it from the first one. Return the exit status: that of
    the report for the first process, 0 for the others."""
    try:
        workers = join_team(step.size)
    except WeftError:
        if step.rank == 0:
            raise
        return FAILED_STATUS  # one line is enough
    threads.use_one_thread()
    try:
        trace = _open_together(workers, args.run)
        if isinstance(trace, Trace):
            context = AnalysisContext(trace)
            with show_progress("analysing the run") if workers.is_first else nullcontext() as advance:
                report = examine_together(workers, context, advance)
    except BaseException as error:
        workers.abort(error, FAILED_STATUS)
    if isinstance(trace, WeftError):  # all know it, and end in good order
        if workers.is_first:
            raise trace
        return FAILED_STATUS
    try:
        return write_report(context, report, args) if workers.is_first else 0
    finally:
        workers.wait()


def _open_together(workers: Team, given: Path | None) -> Trace | WeftError:
    """Open the run on every worker of the team, and return it. If a worker cannot open it, or sees another run than
    the first worker, all of them get the error instead."""
    path, failed = _catch_weft_error(lambda: given or find_newest_run()) if workers.is_first else (None, None)
    path = workers.all_gather(path)[0]
    trace, failed = (None, failed) if path is None else _catch_weft_error(lambda: weft.open(path))
    errors = workers.all_gather(None if failed is None else str(failed))
    if trace is not None and not any(errors):
        wrong = find_differences(workers, trace)
    else:
        wrong = [f"worker {n} of {workers.size} cannot open the run: {why}" for n, why in enumerate(errors) if why]
    if trace is not None and not wrong:
        return trace
    return failed or WeftError(
        f"the workers do not see the same run: {wrong[0]}. Give all of them the same files and the same Weft"
    )


def _catch_weft_error(call: Callable[[], _Made]) -> tuple[_Made | None, WeftError | None]:
    """Return (result, None) of a call, or (None, error) if it raises a WeftError."""
    try:
        return call(), None
    except WeftError as error:
        return None, error
