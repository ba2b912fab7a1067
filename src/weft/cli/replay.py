"""Run a recorded program again with the same outcome of every receive, probe and test.

Use it to see a failure again, to stop before it, or to try another order of messages (--force). To look around at a
prompt, use `weft debug`.

weft replay RUN                                the whole run, compared with its record call by call
weft replay RUN --until 2:57                   stop rank 2 before its event 57, and the others as early as possible
weft replay RUN --until solver.py:40#3         before the 3rd call at line 40
weft replay RUN --break solver.py:40           stop there; the others go on until they need a rank that has stopped
weft replay RUN --until 2:57 --sequential      one rank at a time, always in the same order
weft replay RUN --force 0:12=3                 event 12 of rank 0 takes the message of rank 3; later outcomes are free
weft replay RUN --debug                        at a prompt, like `weft debug RUN`
weft replay RUN -n 4 -- ./prog-openmpi         another build of the program (another MPI), with the recorded arguments

WHERE is RANK:EVENT (`weft report` and `weft dump` print these numbers), FILE:LINE[#N], FUNCTION[#N], t=SECONDS or
finding:N. Without RUN, the newest run is taken. After a stop, the replay prints where each rank is, and ends; --hold
keeps the ranks alive, --debug opens a prompt. The replay is recorded like any run. Exits with the program's
own status; 0 if the ranks stopped where you asked, 3 if the replay ran into a proven deadlock, 5 if a rank made another
call than the recorded one, or could not continue.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _asked, _options
from weft.cli._said import find_and_report_failures, say
from weft.cli.run import ranks_text
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.base.event_id import EventId
    from weft.launch.job import Job
    from weft.launch.plan import LaunchPlan
    from weft.launch.rundir import RunDirectory
    from weft.mpi.prebuilt import BuiltRecorder
    from weft.replay import Conductor, Cut, RankPlan, Replay
    from weft.trace import Trace

TAKES_PROGRAM = True
"""What follows `--` is a program, not ours to parse: it comes as args.rest."""


def register(subparsers: Any) -> None:
    """Declare `weft replay` and its options to argparse."""
    parser = subparsers.add_parser(
        "replay", help="run a recorded program again with the same outcome", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft replay [RUN] [--until WHERE]... [--break WHERE]... [--sequential] [--force R:E=S] [-n N] "
              "[-- PROGRAM ARGS]",
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    parser.add_argument(
        "--until",
        action="append",
        default=[],
        metavar="WHERE",
        help="stop before WHERE; other ranks run only as far as is needed for that; repeatable",
    )
    parser.add_argument(
        "--latest",
        action="store_true",
        help="with --until: let other ranks go on until they need a stopped rank, as with --break",
    )
    parser.add_argument(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="WHERE",
        help="stop before WHERE; other ranks go on until they need a stopped rank; repeatable",
    )
    parser.add_argument(
        "--sequential", action="store_true",
        help="run one rank at a time, so that calls are always made in the same order",
    )  # fmt: skip
    parser.add_argument(
        "--force",
        metavar="RANK:EVENT=SOURCE",
        help="let event EVENT of RANK receive from SOURCE instead; RANK:EVENT=#INDEX: let a waitany complete "
        "request INDEX instead",
    )
    parser.add_argument(
        "--hold", action="store_true", help="keep stopped ranks until Ctrl-C, so that a debugger can attach"
    )
    parser.add_argument("--debug", action="store_true", help="stop before the first event and open the prompt")
    parser.add_argument("--driven", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)  # by `weft debug`
    parser.add_argument("--uncompared", action="store_true", help=argparse.SUPPRESS)  # by `weft explore`, which does it
    _options.add_timeout(parser, "end the replay after SECONDS")
    parser.add_argument("--stdin", type=Path, metavar="FILE", help="give FILE to the program as its standard input")
    _options.add_out(parser, "record the replay in DIR (default: weft-runs/replay-of-<run>-<n>)")
    parser.add_argument(
        "--probes",
        type=Path,
        metavar="CONFIG",
        help="record the values at the probes (see `weft probes`) that CONFIG names",
    )
    parser.add_argument("--hash-messages", action="store_true", help="record a hash of the contents of each message")
    _options.add_ranks(parser)
    _asked.add_trust_option(parser)
    parser.add_argument("--agreed", metavar="WORD", help=argparse.SUPPRESS)  # by commands that have asked


def run(args: argparse.Namespace) -> int:
    """Run `weft replay`: check the options, then replay the run or debug it; return the exit status."""
    command = args.rest
    if args.force and (args.until or args.breaks):
        raise UsageError(
            "--force cannot be combined with --until or --break: after the forced outcome the program runs on freely"
        )
    if args.sequential and (args.force or args.debug):
        raise UsageError("--sequential follows the record to its end, so it cannot be combined with --force or --debug")
    if args.debug and (args.probes or args.hash_messages):
        raise UsageError("--debug records nothing, so it cannot be combined with --probes or --hash-messages")
    if args.stdin is not None and not args.debug:
        feed_stdin(args.stdin)
    if args.debug:
        from weft.cli.debug import debug_replay

        return debug_replay(args)
    return run_replay(args, command)


def feed_stdin(file: Path) -> None:
    """Make a file the standard input of the program. UsageError if it cannot be read."""
    try:
        with file.open("rb") as opened:
            os.dup2(opened.fileno(), 0)
    except OSError as error:
        raise UsageError(f"--stdin {file}: {error.strerror}") from error


def run_replay(args: argparse.Namespace, other_program: list[str]) -> int:
    """Plan, start and watch the replay, and report its outcome; return the exit status. `other_program`: its words, []
    for the recorded one."""
    import weft
    from weft.cli._replayed import conclude_replay
    from weft.launch import plan as plans
    from weft.launch import recorder, rundir
    from weft.replay import Cut, Driver, Replay
    from weft.safety.runs import add_signature
    from weft.values import recording

    recording.check_configuration(args.probes)
    trace = weft.open(args.run or rundir.find_newest_run())
    if not other_program:
        _asked.require_consent(trace.path, trace.run, trust=args.trust, earlier_consent=args.agreed)
    command, n = choose_command(trace, other_program, args.n)
    for problem in trace.problems[:3]:
        say(f"damaged: {problem}")
    if trace.problems:
        say("the replay follows the rest of the record, then the program runs on freely")
    steps, cut = make_plans(trace, args)
    conductor = make_conductor(trace, steps, cut) if args.sequential else None
    driver = Driver.from_folder(args.driven) if args.driven else None
    if driver is not None:
        cut = Cut(driver.goals)
    folder = choose_start_folder(trace, other_program)
    out = args.out.absolute() if args.out else None
    with working_in(folder):
        start = plans.plan_run(command, n)
        start.environment.update(plans.choose_polling_variables(start.line.family, len(trace.ranks)))
        rundir.refuse_used_folder(out)
        shim = recorder.build_recorder(start)
    directory = rundir.create_run(out, ["replay-of-" + trace.path.name], command, "trace")
    session = Replay(
        steps, cut, hold=args.hold, timeout=args.timeout, driver=driver, conductor=conductor
    )  # fmt: skip
    try:
        directory.facts |= {"n": n, "replay_of": str(trace.path), "cwd": str(folder)}
        directory.facts |= add_signature(directory.facts)
        directory.facts["hashes"] = args.hash_messages
        recorder.write_recorder_facts(start, shim, directory)
        more = recording.prepare_values(directory.path, args.probes) if args.probes is not None else {}
        more |= {"WEFT_INTERNAL_HASH": "1"} if args.hash_messages else {}
        job = run_replayed_program(trace, session, start, (shim, directory), more)
    except WeftError:
        recording.remove_value_folder(directory.open_folder())
        directory.discard()
        raise
    return conclude_replay(trace, session, job, args)


def make_conductor(trace: Trace, plans: list[RankPlan], cut: Cut) -> Conductor:
    """Return the conductor for --sequential, which lets one rank at a time make its next step. UsageError for a run of
    level `outcomes`, which has no calls to take in turn."""
    from weft.match import match_operations
    from weft.order import order_events
    from weft.replay import Conductor, Cuts, plan_steps
    from weft.trace import Level

    if trace.level is Level.OUTCOMES:
        raise UsageError("--sequential needs a run of level trace: this one has no calls; replay it once without "
                         "--sequential, and use the record of that replay")  # fmt: skip
    return Conductor(plan_steps(Cuts(trace, order_events(trace, match_operations(trace)), plans), plans, cut), cut)


def choose_start_folder(trace: Trace, other_program: list[str]) -> Path:
    """Return the folder in which the replay is started: that of the recorded command, or the current one for another
    program. WeftError if the folder does not exist."""
    here = Path.cwd()
    folder = here if other_program else Path(str(trace.run.get("cwd") or here))
    if not folder.is_dir():
        raise WeftError(
            f"the run was started in {folder}, which this host does not have: change to your copy of that folder and "
            "name the program after --"
        )
    return folder


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make a folder the current one in a `with` block."""
    before = Path.cwd()
    try:
        os.chdir(folder)
        yield
    finally:
        os.chdir(before)


def run_replayed_program(
    trace: Trace,
    session: Replay,
    launch_plan: LaunchPlan,
    made: tuple[BuiltRecorder, RunDirectory],
    rank_variables: dict[str, str],
) -> Job:
    """Write the plans of a replay into its folder, and run the program to its end; return the job. `made`: recorder
    and run directory; `rank_variables`: further variables of the ranks."""
    from weft.launch import recorder
    from weft.launch.job import run_job
    from weft.trace.functions import FunctionTable

    shim, directory = made
    laid_out = directory.path / "replay"
    table = FunctionTable(json.loads(Path(shim.functions_json_path).read_text()))
    session.write_plans(laid_out, table, bounded=session.conductor is not None)
    if trace.system.grows:
        from weft.pvm import tasks

        tasks.copy_to_replay(trace.path, laid_out)
    variables = (
        recorder.make_recorder_variables(shim, directory, "trace")
        | rank_variables
        | {"WEFT_INTERNAL_REPLAY": str(laid_out)}
    )
    if session.driver is not None:
        variables["WEFT_INTERNAL_AGENT"] = str(session.driver.folder)
    if session.driver is not None or trace.run.get("tasks"):
        from weft.tasks.runtime import replay_environment

        variables |= replay_environment(launch_plan.line.programs)  # a runtime makes threads in an order of its own
    try:
        with working_in(Path(str(directory.facts["cwd"]))):
            return run_job(launch_plan, directory, variables, observer=session.check_end)
    finally:
        if session.conductor is not None:
            session.conductor.end()


def choose_command(trace: Trace, other_program: list[str], n: int | None) -> tuple[list[str], int | None]:
    """Return (command to start, number of ranks for Weft's own mpiexec). The number is None if the command has its own
    launcher."""
    from weft.safety.runs import read_command  # with hashlib and json, which other commands' starts go without

    command = other_program or replace_missing_programs(trace, read_command(trace.run))
    if not command:
        raise WeftError(f"{trace.path}: run.json does not say which command was recorded: give the command after --")
    try:
        held = b"\0" in b"".join(map(os.fsencode, command))
    except UnicodeEncodeError:
        held = True
    if held:
        raise WeftError(f"{trace.path}: the command in run.json contains invalid characters: give the command after --")
    size = sum(rank.world == 0 for rank in trace.ranks)
    recorded = trace.run.get("n")
    if trace.run.get("local") and not other_program:
        command, recorded = make_single_host_command(trace, command), size
    if n is None and isinstance(recorded, int) and not (other_program and other_program[0].endswith("mpiexec")):
        n = recorded
    if n is not None and n != size:
        raise UsageError(f"-n {n}: the record has {size} ranks, and a replay needs as many")
    missing = sorted({rank.rank for rank in trace.ranks if rank.missing} - find_ranks_without_record(trace))
    if missing:
        raise WeftError(
            f"{trace.path / 'ranks'}: the record of {ranks_text(missing)} is missing, so the run cannot be replayed; "
            "copy the whole directory of the run, or record it again"
        )
    return command, n


def replace_missing_programs(trace: Trace, command: list[str]) -> list[str]:
    """Return the recorded command, whose programs have full paths. If one of them is gone, return the command as the
    user typed it, so that PATH decides, and print a note."""
    typed = trace.run.get("command")
    words = [str(word) for word in typed] if isinstance(typed, list) else command
    gone = [path for path, word in zip(command, words, strict=False) if path != word and not os.access(path, os.X_OK)]
    if gone:
        say(f"note: {gone[0]}, which was recorded, no longer exists; the replay starts the one on the PATH")
    return words if gone else command


def make_single_host_command(trace: Trace, command: list[str]) -> list[str]:
    """Return the program alone of a recorded launcher line, so that a run of --local over hosts is replayed on this
    host: on the other hosts the ranks would not find the replay's files. WeftError for a line of several programs."""
    from weft.launch.launcher_line import parse_launcher_line

    programs = dict.fromkeys(program for program in parse_launcher_line(command).programs if program)
    if len(programs) != 1:
        raise WeftError(
            f"{trace.path} was recorded with --local on several hosts, and its command line starts several "
            f"programs. The replay runs on this host only: give that command line after --, without the options "
            f"that name hosts"
        )
    hosts = sorted(str(one["host"]) for one in gathered_hosts(trace))
    say(
        f"note: the run was recorded with --local{' on ' + ', '.join(hosts) if hosts else ''}. The replay runs all "
        "ranks on this host, without the launcher's options. To replay on several hosts, which must all see this "
        "folder, give the launcher's command line after --"
    )
    return list(next(iter(programs)))


def gathered_hosts(trace: Trace) -> list[dict[str, Any]]:
    """Return the hosts whose records were gathered."""
    found = trace.run.get("hosts")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def find_ranks_without_record(trace: Trace) -> set[int]:
    """Return the ranks of PVM tasks that were ended before their first call. They have no record, and a replay needs
    none. Empty for MPI."""
    if trace.system.name != "PVM":
        return set()
    from weft.pvm import tasks

    return {task.rank for task in tasks.read_tasks(trace.path) if not task.pid}


def make_plans(trace: Trace, args: argparse.Namespace) -> tuple[list[RankPlan], Cut]:
    """Return the plan of each rank (its outcomes in order), and the cut at which the ranks stop."""
    from weft.match import match_operations
    from weft.order import order_events
    from weft.replay import Cut, Cuts, events_to_stop_before, make_plans, resolve_location
    from weft.replay.force import Forcing, parse_force
    from weft.replay.holds import read_holds
    from weft.trace import Level

    trace.require_beginning("a replay")
    wanted = args.until + args.breaks
    if trace.level is Level.OUTCOMES:
        if wanted or args.force:
            raise UsageError("this run was recorded at level `outcomes`, which has no events to stop at: replay it "
                             "once without a stop, then stop in the record of that replay")  # fmt: skip
        return make_plans(trace, None), Cut()
    matched = match_operations(trace)
    steps = make_plans(trace, matched)
    holds = read_holds(trace.run, steps)
    if not wanted and not args.force:
        return steps, Cut(holds=holds)
    ordered = order_events(trace, matched)
    if args.force:
        forcing = Forcing(trace, matched, ordered, parse_force(args.force, trace))
        return forcing.apply_to_plans(steps), Cut(holds=[*holds, *forcing.find_sends_to_hold(steps)])

    def findings() -> Any:
        return find_and_report_failures(trace)

    def events(texts: list[str]) -> list[EventId]:
        return [event for text in texts for event in resolve_location(trace, text, findings)]

    cuts = Cuts(trace, ordered, steps, holds)
    if args.until and not args.latest:
        cut = cuts.least_cut_reaching(
            event for text in args.until for event in events_to_stop_before(trace, text, findings)
        )
        cut = cut.meet(cuts.greatest_cut_without(events(args.breaks))) if args.breaks else cut
    else:
        cut = cuts.greatest_cut_without(events(wanted))
    cut.holds = holds
    return steps, cut
