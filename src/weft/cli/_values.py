"""What `weft run` does with the values of probes: held against a reference while it runs, kept, told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _options
from weft.cli._said import say, shown_path
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.compare.values import ValueComparison
    from weft.compare.values.live import Against
    from weft.launch.job import Job
    from weft.launch.plan import LaunchPlan
    from weft.launch.rundir import RunDirectory
    from weft.values.folder import Recorded

FAILED_STATUS = 4
DIFFERENT_STATUS = 1


def check(args: argparse.Namespace) -> None:
    """UsageError where options about values are wrong, before anything slow is done."""
    from weft.values import recording

    recording.check(args.probes)
    if args.watch:
        # Only where it is asked for.
        from weft.values import watching

        for text in args.watch:
            watching.read(text)
    if args.debug and args.against is None:
        raise UsageError("--debug opens the debugger at the first value that differs: give --against REFERENCE, too")
    if args.debug and args.level == "outcomes":
        raise UsageError("--debug needs --level trace: level `outcomes` holds no calls to replay")
    if args.against is not None:
        from weft.values.trace import ValueTrace

        ValueTrace.open(args.against)  # whether it has values is said before anything is run


def add_tolerances(parser: argparse.ArgumentParser) -> None:
    """The options that say when two values are alike."""
    parser.add_argument("--exact", action="store_true", help="count values as equal only if every bit is equal")
    parser.add_argument(
        "--absolute", type=_options.from_0, metavar="X", help="count values as equal if they differ by at most X"
    )
    parser.add_argument("--relative", type=_options.from_0, metavar="X", help="... by at most X times the larger one")
    parser.add_argument("--ulps", type=_options.from_0, metavar="N", help="... by at most N units in the last place")
    parser.add_argument("--nan", choices=("equal", "different"), help="whether two NaNs count as equal")


def given_tolerances(args: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of tolerances."""
    given = {name: getattr(args, name) for name in ("absolute", "relative", "ulps", "nan")}
    told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return told | ({"exact": True} if args.exact else {})


def held_against(directory: RunDirectory, args: argparse.Namespace) -> Against | None:
    """What looks at the run's values while it goes on, where that was asked for."""
    if args.against is None:
        return None
    from weft.compare.values.live import Against
    from weft.values.configuration import read

    known = args.probes is not None and args.probes.exists()
    return Against(args.against, directory.path, read(args.probes).judged if known else {})


def compared(status: int, job: Job, against: Against | None, *, debug: bool = False) -> int:
    """Tell how the values are beside the reference; the status is DIFFERENT_STATUS where only they are at fault."""
    if against is None:
        return status
    from weft.compare.values.told import lines
    from weft.report.text import printable

    try:
        made = against.whole()
    except WeftError as error:
        say(f"nothing was compared: {error}")
        return status or FAILED_STATUS
    for line in lines(made):
        say(line if line.startswith("    |") else printable(line))
    if debug and not made.alike:
        debug_values(made, job.run.path)
    if against.differs:
        return DIFFERENT_STATUS
    return status or (0 if made.alike else DIFFERENT_STATUS)


@dataclass(frozen=True)
class Watched:
    """How a program is started that has watched lines."""

    plan: LaunchPlan
    variables: dict[str, str]


def watched(plan: LaunchPlan, run: RunDirectory, args: argparse.Namespace) -> Watched:
    """The plan with what watches its lines, and the ranks' variables. UsageError where that cannot be."""
    if not args.watch:
        return Watched(plan, {})
    from weft.launch.launcher_line import LauncherLine, LineContext
    from weft.values import watching

    watches = [watching.read(text) for text in args.watch]
    watching.verify(watches, plan.line.programs)
    run.facts["watch"] = list(args.watch)
    line = plan.line
    if any(not one.python for one in watches):
        contexts = tuple(LineContext(one.options, watching.wrapped(one.program)) for one in line.contexts)
        line = LauncherLine(line.launcher, line.family, contexts)
    return Watched(replace(plan, line=line), watching.begin(run.path, watches))


def keep_values(job: Job, probes: Path | None, watch: Sequence[str] = ()) -> Recorded:
    """Put in order what the program's probes kept, and what was watched."""
    from weft.values import recording, watching

    kept = recording.end(job.run.path, probes, watched=bool(watch))
    if watch:
        from weft.values.folder import FOLDER
        from weft.values.trace import ValueTrace

        held = kept.processes > 0 and (job.run.path / FOLDER).is_dir()
        processes = ValueTrace.open(job.run.path).processes if held else []
        places = {(place.name, place.file) for one in processes for place in one.places}
        kept.notes.extend(watching.unmet([watching.read(text) for text in watch], places))
    return kept


def tell_values(kept: Recorded) -> bool:
    """Say what probes kept, and what they could not; return whether the configuration names what is not there."""
    for note in kept.notes:
        say(note)
    for line in kept.unknown:
        say(f"error: {line}")
    if kept.probes:
        say(f"kept {kept.probes:,} values of probes: `weft compare` holds them against another run's")
    return bool(kept.unknown)


def debug_values(made: ValueComparison, run: Path, *, trust: bool = False) -> None:
    """Open the debugger on a replay of a run, at the first value that differs."""
    from weft.compare.values.place import visit

    where = visit(made)
    if where is None:
        say("no debugger: the difference is not at a line of the program with a source file")
        return
    before = ["ignore 1 " + str(where.before)] if where.before else []
    debug_at(run, [f"break {where.rank}:{where.file}:{where.line}", *before, "continue"], trust=trust)


def debug_at(run: Path, commands: list[str], *, trust: bool) -> None:
    """Open the debugger on a replay of a run, with some commands before those that a person types."""
    if not (run / "ranks").is_dir():
        say(f"no debugger: {shown_path(run)} has no calls of MPI, and is not replayed")
        return
    from weft.cli import _asked
    from weft.cli.debug import debug
    from weft.launch.rundir import read_facts

    debug(run, ["--agreed", _asked.agreed(run, read_facts(run), trust=trust)], [], None, first=commands)
