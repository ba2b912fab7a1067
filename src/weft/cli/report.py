"""Say what is wrong with a recorded run.

weft report RUN                      text for people, worst first
weft report RUN --format json        weft-report/1, for scripts
weft report RUN --format sarif       SARIF 2.1.0, for code hosts and editors
weft report RUN --format html        one file to pass on; -o FILE writes it

RUN is the newest run where it is left out. Exits 0 with nothing found but warnings and notes, 1 with a finding of
error severity, 4 where an analysis of Weft failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.report import Report
    from weft.trace import Trace

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
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE, not to standard output")


def run(args: argparse.Namespace) -> int:
    """Report a run."""
    import weft
    from weft.launch.rundir import newest
    from weft.report import examine

    trace = weft.open(args.run or newest())
    report = examine(trace)
    if args.output is None:
        write(trace, report, args.format, sys.stdout)
    else:
        try:
            with args.output.open("w", encoding="utf-8") as file:
                write(trace, report, args.format, file)
        except OSError as error:
            raise WeftError(f"{args.output} cannot be written: {error.strerror}") from error
    for failure in report.failures:
        print(f"weft: the analysis of {failure.analysis} failed: {failure.error}", file=sys.stderr)
    if report.failures:
        return FAILED_STATUS
    return FOUND_STATUS if any(f.severity == "error" for f in report.findings) else 0


def write(trace: Trace, report: Report, form: str, to: TextIO) -> None:
    """Write the report in one of its forms."""
    if form == "text":
        from weft.report import text

        text.write(trace, report, to)
    elif form == "html":
        from weft.report.page import to_html

        to.write(to_html(trace, report))
    else:
        from weft.report import to_json
        from weft.report.sarif import to_sarif

        make = to_json if form == "json" else to_sarif
        print(json.dumps(make(trace, report.findings, report.failures), indent=1), file=to)
