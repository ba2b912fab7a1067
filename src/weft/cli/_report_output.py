"""Writes the report of `weft report` in its form and place, and finds the status that it exits with."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from weft.cli import _findings_output
from weft.cli._findings_output import FOUND_STATUS
from weft.cli._said import print_failures, shorten_path

if TYPE_CHECKING:
    from weft.report import AnalysisContext, Report
    from weft.report.tables import Tables

FAILED_STATUS = 4


def write_report(context: AnalysisContext, report: Report, args: argparse.Namespace) -> int:
    """Write the report in the forms and to the files that the options ask for. Return the exit status, which depends
    on the findings that count."""
    if args.evidence:
        from weft.report.proof import add_proofs

        report = add_proofs(context, report)
    choice = _findings_output.read_selection(args)
    report = replace(report, findings=_findings_output.apply_selection(report.findings, choice))
    report = write_forms(context, report, args)
    wanted = {form for form, _ in _findings_output.requested_formats(args)}
    if report.failures:
        if args.output or wanted != {"text"}:
            print_failures(context.trace, report)
        return FAILED_STATUS
    from weft.report.gaps import is_incomplete

    return FOUND_STATUS if is_incomplete(context.trace) else _findings_output.find_status(report.findings, choice)


def write_forms(context: AnalysisContext, report: Report, args: argparse.Namespace) -> Report:
    """Write the report in each form that the options ask for. Return the report, to which failures to make its tables
    have been added."""
    made, report = _make_tables(context, report, args, {form for form, _ in _findings_output.requested_formats(args)})
    _findings_output.write_each_format(args, lambda form, to: write_form(context, report, made, args, form=form, to=to))
    return report


def write_form(
    context: AnalysisContext, report: Report, made: Tables | None, args: argparse.Namespace, *, form: str, to: TextIO
) -> None:
    """Write the report to a stream in one format: text, JSON, SARIF or HTML."""
    trace = context.trace
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

        lines = [*_table_lines(made, args), *([] if report.failures else _explore_lines(context))]
        text.print_report(trace, report, to, lines, context)


def _explore_lines(context: AnalysisContext) -> list[str]:
    """Return the lines that point to `weft explore` where a call could have completed another one of its requests and
    nobody has run that order yet; none for other runs.
    """
    from weft.mpi.meaning import Act, Many, functions_with
    from weft.systems import MPI
    from weft.trace import Level
    from weft.trace.explored import read_explored

    trace = context.trace
    is_explorable = trace.system is MPI and trace.level is Level.TRACE and not trace.may_lack_its_beginning
    # A run that is analysed in segments is never matched whole.
    choosing = functions_with(Act.COMPLETE, where=lambda m: m.many in (Many.ANY, Many.SOME))
    is_explorable = is_explorable and context.calls_any_of(choosing) and len(trace.own) == len(trace.ranks)
    if not is_explorable or context.parts is not None or read_explored(trace.path):
        return []
    from weft.explore.outcomes import describe_call_site, find_varying_completion

    event = find_varying_completion(trace, context.match, context.order)
    if event is None:
        return []
    name = trace.event(*event).function.name
    return ["", f"{name} of {describe_call_site(trace, event)} could have completed another request: "
            f"weft explore {shorten_path(trace.path)} runs these orders"]  # fmt: skip


def _make_tables(
    context: AnalysisContext, report: Report, args: argparse.Namespace, wanted: set[str]
) -> tuple[Tables | None, Report]:
    """Return (tables of times and messages, report). The tables are None if no option asks for them; a failure to make
    them is added to the report."""
    if wanted <= {"sarif", "text"} and not ("text" in wanted and _wants_tables(args)):
        return None, report
    from weft.report.failure import Failure
    from weft.report.tables import make_tables_of_context

    try:
        return make_tables_of_context(context), report
    except Exception as error:
        failure = Failure.from_exception("times and messages", error)
        return None, report if report.failures else replace(report, failures=(failure,))


def _wants_tables(args: argparse.Namespace) -> bool:
    return bool(getattr(args, "times", False) or getattr(args, "matrix", False))


def _table_lines(tables_of_run: Tables | None, args: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the tables that were asked for."""
    if tables_of_run is None or not _wants_tables(args):
        return
    # Most reports have none.
    from weft.report import tables

    if args.times:
        yield from tables.times_lines(tables_of_run)
    if args.matrix:
        yield from tables.matrix_lines(tables_of_run, shutil.get_terminal_size().columns)
