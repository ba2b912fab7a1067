"""Implements `weft check --trace`: compares the values of a program without directives with those on each processor."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.cli._findings_output import requested_formats, write_each_format
from weft.cli._said import say, shorten_path
from weft.cli._values import given_tolerances, report_values
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.check import CheckRequest
    from weft.check.value_traces import TracedRuns
    from weft.compare.values import ValueComparison
    from weft.dataparallel.process import ProcessEnd
    from weft.launch.rundir import RunDirectory

DIFFERENT_STATUS, NOTHING_STATUS, UNENDED_STATUS = 1, 2, 3
REFUSED = ("only", "skip", "baseline", "suppress", "fail_on", "directives")
"""Options about findings: no access is judged where values are traced."""


def refuse_trace_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that mean nothing with --trace, or without it."""
    if args.trace is None:
        for name in ("live", "out"):
            if getattr(args, name):
                raise UsageError(f"--{name} works only with --trace CONFIG: add that")
        return
    for name in REFUSED:
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} chooses findings, and --trace compares values: leave one out")
    for form, _ in requested_formats(args):
        if form not in ("text", "json"):
            raise UsageError(f"--format {form} is for findings: with --trace, use text or json")


def trace_and_compare(args: argparse.Namespace, request: CheckRequest, folder: Path) -> int:
    """Run a program twice, sequentially and with its directives in turns. Compare the values that both recorded,
    report the first difference, and return the exit status."""
    from weft.check.value_traces import TracePlan, trace_both_runs
    from weft.compare.values.live import LiveComparison
    from weft.values import recording
    from weft.values.configuration import read_configuration, read_tolerances

    recording.check_configuration(args.trace)
    runs = [_create_directory(args, request, what) for what in ("sequential", "turns")]
    paths = [run.path for run in runs]
    settings = read_tolerances(paths[0], given_tolerances(args), args.trace if args.trace.exists() else None)

    def differs() -> bool:
        found.append(found.pop() if found else LiveComparison(paths[0], paths[1], settings))
        return found[0].compare_if_due()

    found: list[LiveComparison] = []
    try:
        made = trace_both_runs(
            request, folder, TracePlan(paths[0], paths[1], args.trace, differs if args.live else None)
        )
    except WeftError:
        for run in runs:
            recording.remove_value_folder(run.open_folder())
            run.discard()
        raise
    for run, ended in zip(runs, made.ended, strict=True):
        _write_end(run, ended)
    notes = [note.replace("with --probes", "with --trace") for note in made.kept[0].notes]
    unknown = report_values(replace(made.kept[0], notes=notes))
    if unknown and len(made.kept[0].unknown) == read_configuration(args.trace).named_entries:
        say(f"no values are compared: the program has none of the names in {args.trace}; delete that file, and Weft "
            "writes a new one with the program's names")  # fmt: skip
        return NOTHING_STATUS
    if not all(one.probes for one in made.kept):
        return _report_no_values(request)
    stopped = bool(found) and found[0].differs
    return _report_comparison(args, made, paths, settings, stopped=stopped) or (NOTHING_STATUS if unknown else 0)


def _report_no_values(request: CheckRequest) -> int:
    """Say that no values were recorded, and return the status for that."""
    say(f"no values of {' '.join(map(str, request.sources))} were recorded: its parallel loops did not run "
        "(choose input that reaches them), or they write no plain numbers")  # fmt: skip
    return NOTHING_STATUS


def _create_directory(args: argparse.Namespace, request: CheckRequest, run_name: str) -> RunDirectory:
    """Create the run directory for the values of a run (`run_name`: sequential or turns)."""
    from weft.launch import rundir

    name = f"{request.sources[0].stem}-{run_name}"
    out = None if args.out is None else args.out / run_name
    run = rundir.create_run(out, [name], [*map(str, request.sources), *request.arguments], "trace")
    run.facts["mpi"] = {}
    return run


def _write_end(run: RunDirectory, ended: ProcessEnd) -> None:
    """Write into run.json when and how a program ended."""
    from weft.launch import rundir

    how = "killed" if ended.cut_off else "crashed" if ended.status < 0 else "finished"
    run.facts |= {"finished": rundir.current_time(), "ended": how, "exit_code": max(ended.status, 0)}
    run.facts |= {"signal": -ended.status if ended.status < 0 else None}
    run.write()


def _report_comparison(
    args: argparse.Namespace, made: TracedRuns, paths: list[Path], settings: dict[str, dict[str, Any]], *, stopped: bool
) -> int:
    """Print or write the comparison, and return the exit status."""
    from weft.compare.values import compare_values
    from weft.values.trace import ValueTrace

    compared = compare_values(ValueTrace.open(paths[0]), ValueTrace.open(paths[1]), settings)

    def write(form: str, out: TextIO) -> None:
        """Print the comparison as JSON or as text."""
        is_json = form == "json"
        text = (
            _comparison_json(compared, made, paths) if is_json else "\n".join(_comparison_lines(compared, made, paths))
        )
        print(text, file=out)

    write_each_format(args, write)
    if stopped:
        say("Weft stopped the run on simulated processors at the first value that differs")
    if stopped or compared.found or (compared.parting is not None and made.ended[1].status == 0):
        return DIFFERENT_STATUS
    for which, ended in zip(("without directives", "on processors"), made.ended, strict=True):
        if ended.status or ended.cut_off:
            say(f"the run {which} failed (status {ended.status}): values that it did not compute are not compared")
            return UNENDED_STATUS
    return 0 if compared.alike else DIFFERENT_STATUS


def _comparison_lines(compared: ValueComparison, made: TracedRuns, paths: list[Path]) -> list[str]:
    """Return the comparison as lines of text, with what was compared and where both runs are."""
    from weft.compare.values.report import render_values

    head = (
        f"compared the program without its directives with the program on each of {made.processors} simulated "
        f"processors"
    )
    again = (
        f"both runs are in {shorten_path(paths[0])} and {shorten_path(paths[1])}; `weft compare` compares them again"
    )
    return [head, *render_values(compared), again]


def _comparison_json(compared: ValueComparison, made: TracedRuns, paths: list[Path]) -> str:
    """Return the comparison as a JSON document."""
    from weft.compare.values.report import to_json

    document = {"schema": "weft-check-values/1", "processors": made.processors, "runs": [str(path) for path in paths]}
    return json.dumps(document | {"values": to_json(compared)}, indent=1)
