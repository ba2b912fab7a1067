"""Say what is wrong with a recorded run.

weft report RUN                      text for people, worst first
weft report RUN --times              and where the time went: by function, rank and call site
weft report RUN --matrix             and messages and bytes from rank to rank
weft report RUN --evidence           and why nothing orders what races: vector times
weft report RUN --format json        weft-report/1, for scripts
weft report RUN --format sarif       SARIF 2.1.0, for code hosts and editors
weft report RUN --format html        one file to pass on; -o FILE writes it

mpiexec -n 4 weft report RUN         by several processes, each with a part of the ranks (mpi4py)

RUN is the newest run where it is left out. Exits 0 with nothing found but warnings and notes, 1 with a finding of
error severity or where ranks left no record, 4 where an analysis of Weft failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.cli import _options
from weft.cli._said import say_failures
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.report import Ground, Report
    from weft.report.tables import Tables

FOUND_STATUS = 1
FAILED_STATUS = 4


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "report", help="say what is wrong with a run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (the newest one)")
    parser.add_argument("--format", choices=("text", "json", "sarif", "html"), default="text", help="text by default")
    parser.add_argument("--times", action="store_true", help="tables of time by function, rank and call site (text)")
    parser.add_argument("--matrix", action="store_true", help="messages and bytes from rank to rank (text)")
    parser.add_argument("--evidence", action="store_true", help="vector times that prove each race (every format)")
    _options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Report a run, by this process or by all of its job step."""
    from weft.launch.step import beneath_mpi, of_this_process

    step = of_this_process()
    if step is not None and not beneath_mpi(step):
        from weft.cli._together import run_together

        return run_together(args, step)
    import weft
    from weft.cli._progress import progress
    from weft.launch.rundir import newest
    from weft.report import Ground, examine

    ground = Ground(weft.open(args.run or newest()))
    with progress("analysing the run") as advance:
        report = examine(ground.trace, ground=ground, progress=advance)
    return told(ground, report, args)


def told(ground: Ground, report: Report, args: argparse.Namespace) -> int:
    """Write the report where it is wanted; the status that it ends with."""
    if args.evidence:
        from weft.report.proof import proved

        report = proved(ground, report)
    made, report = _tables(ground, report, args)
    if args.output is None:
        write(ground, report, made, args, sys.stdout)
    else:
        try:
            with args.output.open("w", encoding="utf-8", errors="backslashreplace") as file:
                write(ground, report, made, args, file)
        except OSError as error:
            raise WeftError(f"{args.output} cannot be written: {error.strerror}") from error
    if report.failures:
        if args.output is not None or args.format != "text":
            say_failures(ground.trace, report)
        return FAILED_STATUS
    from weft.report.text import without_record

    return FOUND_STATUS if any(f.severity == "error" for f in report.findings) or without_record(ground.trace) else 0


def write(ground: Ground, report: Report, made: Tables | None, args: argparse.Namespace, to: TextIO) -> None:
    """Write the report in one of its forms."""
    trace = ground.trace
    if args.format == "sarif":
        from weft.report.sarif import to_sarif

        print(json.dumps(to_sarif(trace, report.findings, report.failures), indent=1), file=to)
    elif args.format == "json":
        from weft.report import to_json

        print(json.dumps(to_json(trace, report.findings, report.failures, made), indent=1), file=to)
    elif args.format == "html":
        from weft.report.page import to_html

        to.write(to_html(trace, report, made))
    else:
        from weft.report import text

        text.write(trace, report, to, list(_lines(made, args)), ground)


def _tables(ground: Ground, report: Report, args: argparse.Namespace) -> tuple[Tables | None, Report]:
    """The tables, where they are asked for; and the report, which says so where they cannot be made."""
    if args.format == "sarif" or (args.format == "text" and not args.times and not args.matrix):
        return None, report
    from weft.report.failure import Failure
    from weft.report.tables import tables_of

    try:
        return tables_of(ground), report
    except Exception as error:
        failure = Failure.of("times and messages", error)
        return None, report if report.failures else replace(report, failures=(failure,))


def _lines(made: Tables | None, args: argparse.Namespace) -> Iterator[str]:
    """The tables that were asked for."""
    if made is None:
        return
    # Most reports have none.
    from weft.report import tables

    if args.times:
        yield from tables.times_lines(made)
    if args.matrix:
        yield from tables.matrix_lines(made, shutil.get_terminal_size().columns)
