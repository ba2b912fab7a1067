"""Writes the report of `weft report` in its form and place, and finds the status that it exits with."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from weft.cli._said import say_failures
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.report import AnalysisContext, Report
    from weft.report.tables import Tables

FOUND_STATUS = 1
FAILED_STATUS = 4


def write_report(ground: AnalysisContext, report: Report, args: argparse.Namespace) -> int:
    """Write the report to standard output or a file, and return the exit status."""
    if args.evidence:
        from weft.report.proof import add_proofs

        report = add_proofs(ground, report)
    made, report = _make_tables(ground, report, args)
    if args.output is None:
        write_form(ground, report, made, args, sys.stdout)
    else:
        try:
            with args.output.open("w", encoding="utf-8", errors="backslashreplace") as file:
                write_form(ground, report, made, args, file)
        except OSError as error:
            raise WeftError(f"{args.output} cannot be written: {error.strerror}") from error
    if report.failures:
        if args.output is not None or args.format != "text":
            say_failures(ground.trace, report)
        return FAILED_STATUS
    from weft.report.gaps import is_incomplete

    return FOUND_STATUS if any(f.severity == "error" for f in report.findings) or is_incomplete(ground.trace) else 0


def write_form(
    ground: AnalysisContext, report: Report, made: Tables | None, args: argparse.Namespace, to: TextIO
) -> None:
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

        text.print_report(trace, report, to, list(_table_lines(made, args)), ground)


def _make_tables(ground: AnalysisContext, report: Report, args: argparse.Namespace) -> tuple[Tables | None, Report]:
    """Return the tables, if they are asked for, and the report, which names the failure if they cannot be made."""
    if args.format == "sarif" or (args.format == "text" and not args.times and not args.matrix):
        return None, report
    from weft.report.failure import Failure
    from weft.report.tables import make_tables_of_context

    try:
        return make_tables_of_context(ground), report
    except Exception as error:
        failure = Failure.from_exception("times and messages", error)
        return None, report if report.failures else replace(report, failures=(failure,))


def _table_lines(made: Tables | None, args: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the tables that were asked for."""
    if made is None:
        return
    # Most reports have none.
    from weft.report import tables

    if args.times:
        yield from tables.times_lines(made)
    if args.matrix:
        yield from tables.matrix_lines(made, shutil.get_terminal_size().columns)
