"""Handles the values of probes for `weft run`: compares them with a reference, stores and reports them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _options
from weft.cli._said import say, shorten_path
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.compare.values import ValueComparison
    from weft.compare.values.live import LiveComparison
    from weft.launch.job import Job
    from weft.launch.plan import LaunchPlan
    from weft.launch.rundir import RunDirectory
    from weft.values.folder import RecordedValues

FAILED_STATUS = 4
DIFFERENT_STATUS = 1


def check_value_options(args: argparse.Namespace) -> None:
    """Raise UsageError for wrong options about values, before anything slow is done."""
    from weft.values import recording

    recording.check_configuration(args.probes)
    if args.watch:
        # Only where it is asked for.
        from weft.values import watching

        for text in args.watch:
            watching.parse_watch(text)
    if args.debug and args.against is None:
        raise UsageError(
            "--debug opens the debugger at the first value that differs: add --against REFERENCE, the run to compare "
            "with"
        )
    if args.debug and args.level == "outcomes":
        raise UsageError("--debug needs --level trace: level `outcomes` records no calls at which a replay could stop")
    if args.against is not None:
        from weft.values.trace import ValueTrace

        ValueTrace.open(args.against)  # whether it has values is said before anything is run


def add_tolerances(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say when two values are equal."""
    parser.add_argument("--exact", action="store_true", help="count values as equal only if every bit is equal")
    parser.add_argument(
        "--absolute",
        type=_options.parse_non_negative,
        metavar="X",
        help="count values as equal if they differ by at most X",
    )
    parser.add_argument(
        "--relative",
        type=_options.parse_non_negative,
        metavar="X",
        help="count values as equal if they differ by at most X times the larger one",
    )
    parser.add_argument(
        "--ulps",
        type=_options.parse_non_negative,
        metavar="N",
        help="count values as equal if they differ by at most N units in the last place",
    )
    parser.add_argument("--nan", choices=("equal", "different"), help="whether two NaNs count as equal")


def given_tolerances(args: argparse.Namespace) -> dict[str, Any]:
    """Return the tolerances on the command line by name: `absolute`, `relative`, `ulps`, `nan`, `exact`."""
    given = {name: getattr(args, name) for name in ("absolute", "relative", "ulps", "nan")}
    told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return told | ({"exact": True} if args.exact else {})


def make_live_comparison(directory: RunDirectory, args: argparse.Namespace) -> LiveComparison | None:
    """Return a comparison of the run's values with those of the reference that --against names, to be made while the
    run goes on. None without --against."""
    if args.against is None:
        return None
    from weft.compare.values.live import LiveComparison
    from weft.values.configuration import read_configuration

    known = args.probes is not None and args.probes.exists()
    return LiveComparison(args.against, directory.path, read_configuration(args.probes).judged if known else {})


def report_comparison(status: int, job: Job, against: LiveComparison | None, *, debug: bool = False) -> int:
    """Print how the values of a run differ from the reference, and return the exit status. This is DIFFERENT_STATUS if
    the values differ, and the run was stopped for that or succeeded otherwise; else `status`."""
    if against is None:
        return status
    from weft.compare.values.report import render_values
    from weft.report.text import printable

    try:
        made = against.compare_all()
    except WeftError as error:
        say(f"nothing was compared: {error}")
        return status or FAILED_STATUS
    for line in render_values(made):
        say(line if line.startswith("    |") else printable(line))
    if debug and not made.alike:
        debug_values(made, job.run.path)
    if against.differs:
        return DIFFERENT_STATUS
    return status or (0 if made.alike else DIFFERENT_STATUS)


@dataclass(frozen=True)
class WatchedStart:
    """How a program is started that has watched lines."""

    plan: LaunchPlan
    variables: dict[str, str]


def plan_line_watches(plan: LaunchPlan, run: RunDirectory, args: argparse.Namespace) -> WatchedStart:
    """Return the plan with the programs started so that the lines of --watch are watched, and the variables for the
    ranks. Also note the watches in run.json. UsageError if a watch is not possible."""
    if not args.watch:
        return WatchedStart(plan, {})
    from weft.launch.launcher_line import LauncherLine, LineContext
    from weft.values import watching

    watches = [watching.parse_watch(text) for text in args.watch]
    watching.check_watches(watches, plan.line.programs)
    run.facts["watch"] = list(args.watch)
    line = plan.line
    if any(not one.is_python for one in watches):
        contexts = tuple(LineContext(one.options, watching.wrap_with_gdb(one.program)) for one in line.contexts)
        line = LauncherLine(line.launcher, line.family, contexts)
    return WatchedStart(replace(plan, line=line), watching.write_watches(run.path, watches))


def finish_values(job: Job, probes: Path | None, watch: Sequence[str] = ()) -> RecordedValues:
    """Complete the folder of the values that were recorded by probes and watches. Return what it holds, with notes on
    watches that were never reached."""
    from weft.values import recording, watching

    kept = recording.finish_values(job.run.path, probes, watched=bool(watch))
    if watch:
        from weft.values.folder import FOLDER
        from weft.values.trace import ValueTrace

        held = kept.processes > 0 and (job.run.path / FOLDER).is_dir()
        processes = ValueTrace.open(job.run.path).processes if held else []
        places = {(place.name, place.file) for one in processes for place in one.places}
        kept.notes.extend(watching.find_unreached_watches([watching.parse_watch(text) for text in watch], places))
    return kept


def report_values(kept: RecordedValues) -> bool:
    """Print what probes recorded, and what they could not. Return whether the configuration names things that the
    program does not have."""
    for note in kept.notes:
        say(note)
    for line in kept.unknown:
        say(f"error: {line}")
    if kept.probes:
        say(f"recorded {kept.probes:,} values at probes: `weft compare` compares them with those of another run")
    return bool(kept.unknown)


def debug_values(made: ValueComparison, run: Path, *, trust: bool = False) -> None:
    """Open the debugger on a replay of a run, at the first value that differs."""
    from weft.compare.values.first_visit import find_first_visit

    where = find_first_visit(made)
    if where is None:
        say("Weft opens no debugger: the value that differs was not recorded at a line of a source file")
        return
    before = ["ignore 1 " + str(where.before)] if where.before else []
    debug_at(run, [f"break {where.rank}:{where.file}:{where.line}", *before, "continue"], trust=trust)


def debug_at(run: Path, commands: list[str], *, trust: bool) -> None:
    """Open the debugger on a replay of a run, and run some commands before those that a person types."""
    if not (run / "ranks").is_dir():
        say(f"Weft opens no debugger: {shorten_path(run)} has no MPI calls, so it cannot be replayed")
        return
    from weft.cli import _asked
    from weft.cli.debug import run_debugger
    from weft.launch.rundir import read_facts

    run_debugger(run, ["--agreed", _asked.require_consent(run, read_facts(run), trust=trust)], [], None, first=commands)
