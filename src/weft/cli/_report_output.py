"""Where and in which form `weft report` writes, by one process or by several, and the status that it ends with."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from weft.cli import _findings_output
from weft.cli._findings_output import FOUND_STATUS
from weft.cli._said import say_failures

if TYPE_CHECKING:
    from weft.report import Ground, Report
    from weft.report.tables import Tables

FAILED_STATUS = 4


def write_report(ground: Ground, report: Report, args: argparse.Namespace) -> int:
    """Write the report where it is wanted; the status that it ends with."""
    if args.evidence:
        from weft.report.proof import proved

        report = proved(ground, report)
    choice = _findings_output.read_selection(args)
    report = replace(report, findings=_findings_output.apply_selection(report.findings, choice))
    report = write_forms(ground, report, args)
    wanted = {form for form, _ in _findings_output.formats(args)}
    if report.failures:
        if args.output or wanted != {"text"}:
            say_failures(ground.trace, report)
        return FAILED_STATUS
    from weft.report.gaps import is_incomplete

    return FOUND_STATUS if is_incomplete(ground.trace) else _findings_output.find_status(report.findings, choice)


def write_forms(ground: Ground, report: Report, args: argparse.Namespace) -> Report:
    """Write the report in each form that is wanted; return it, with what failed meanwhile."""
    made, report = _tables(ground, report, args, {form for form, _ in _findings_output.formats(args)})
    _findings_output.write_all(args, lambda form, to: write(ground, report, made, args, form=form, to=to))
    return report


def write(
    ground: Ground, report: Report, made: Tables | None, args: argparse.Namespace, *, form: str, to: TextIO
) -> None:
    """Write the report in one of its forms."""
    trace = ground.trace
    if form == "sarif":
        from weft.report.sarif import to_sarif

        print(json.dumps(to_sarif(trace, report.findings, report.failures), indent=1), file=to)
    elif form == "json":
        from weft.report import to_json

        print(json.dumps(to_json(trace, report.findings, report.failures, made), indent=1), file=to)
    elif form == "html":
        from weft.report.page import to_html

        to.write(to_html(trace, report, made))
    else:
        from weft.report import text

        text.write(trace, report, to, list(_lines(made, args)), ground)


def _tables(ground: Ground, report: Report, args: argparse.Namespace, wanted: set[str]) -> tuple[Tables | None, Report]:
    """The tables, where they are asked for; and the report, which says so where they cannot be made."""
    if wanted <= {"sarif", "text"} and not ("text" in wanted and _wants_tables(args)):
        return None, report
    from weft.report.failure import Failure
    from weft.report.tables import tables_of

    try:
        return tables_of(ground), report
    except Exception as error:
        failure = Failure.of("times and messages", error)
        return None, report if report.failures else replace(report, failures=(failure,))


def _wants_tables(args: argparse.Namespace) -> bool:
    return bool(getattr(args, "times", False) or getattr(args, "matrix", False))


def _lines(made: Tables | None, args: argparse.Namespace) -> Iterator[str]:
    """The tables that were asked for."""
    if made is None or not _wants_tables(args):
        return
    # Most reports have none.
    from weft.report import tables

    if args.times:
        yield from tables.times_lines(made)
    if args.matrix:
        yield from tables.matrix_lines(made, shutil.get_terminal_size().columns)
