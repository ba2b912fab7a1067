"""Print what is wrong with a recorded run.

weft report                          the newest run (`weft run` records one): text, worst findings first
weft report RUN --times              also where the time went: by function, rank and call site
weft report RUN --matrix             also messages and bytes from rank to rank
weft report RUN --evidence           also the proof of each race: the vector times of its calls
weft report RUN --format json        weft-report/1, for scripts
weft report RUN --format sarif       SARIF 2.1.0, for code hosts and editors
weft report RUN --format html        one file to pass on
weft report RUN -o r.sarif -o r.html writes both files; the suffix gives the format
weft report RUN --fail-on warning --baseline old.json --suppress rules.txt
                                     for CI: fail at warnings that neither old.json nor rules.txt has

mpiexec -n 4 weft report RUN         four processes analyse a large run together (needs mpi4py)

Without RUN, the newest run is taken. Exits 1 if there is a finding of error severity (or of those that
--fail-on names) or a part of the record is missing or damaged, 4 if an analysis of Weft failed, else 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from weft.cli import _findings_output


def register(subparsers: Any) -> None:
    """Declare `weft report` and its options to argparse."""
    parser = subparsers.add_parser(
        "report", help="print what is wrong with a run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    _findings_output.add_format(parser)
    parser.add_argument(
        "--times", action="store_true", help="also print time by function, rank and call site (text only)"
    )
    parser.add_argument(
        "--matrix", action="store_true", help="also print messages and bytes from rank to rank (text only)"
    )
    parser.add_argument(
        "--evidence", action="store_true", help="also give the vector times that prove each race (all formats)"
    )
    _findings_output.add_output_files(parser)
    _findings_output.add_selection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run `weft report`: print the findings of a run, by this process or by all of its job step."""
    from weft.launch.job_step import find_own_step, is_below_mpi_process

    step = find_own_step()
    if step is not None and not is_below_mpi_process(step):
        from weft.cli._together import run_together

        return run_together(args, step)
    import weft
    from weft.cli._progress import show_progress
    from weft.cli._report_output import write_report
    from weft.launch.rundir import find_newest_run
    from weft.report import AnalysisContext, run_analyses

    context = AnalysisContext(weft.open(args.run or find_newest_run()))
    with show_progress("analysing the run") as advance:
        report = run_analyses(context.trace, context=context, progress=advance)
    return write_report(context, report, args)
