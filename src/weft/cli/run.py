"""Record a run of a parallel program (MPI, PVM) and print what is wrong with it.

weft run -n 4 -- python prog.py          starts mpiexec itself
weft run -- mpiexec -n 4 ./prog          wraps your own launcher line (mpiexec, mpirun, srun, MPMD lines too)
weft run -- ./prog                       a single process
srun weft run -- ./prog                  all tasks of a job step record one run (mpiexec, flux run, jsrun too)

Exits with the program's own status; 1 if there is a finding that --fail-on names, 2 for a usage error, 3 if Weft ended
a program in a proven deadlock, 4 if the program succeeded but Weft itself failed. Next: `weft explain KIND` says what a
finding means, `weft view` shows the run, `weft debug` replays it at a prompt.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base.words import rank_names, rank_words
from weft.cli import _findings_output, _hosts, _options
from weft.cli import _values as values
from weft.cli._said import print_own_blocks, say, shorten_path
from weft.cli._values import FAILED_STATUS
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.compare.values.live import LiveComparison
    from weft.launch.finish import Ending
    from weft.launch.growth import GrowthWatch
    from weft.launch.job import Job
    from weft.launch.live_findings import LiveFindings
    from weft.launch.local.hosts import Hosts
    from weft.launch.plan import LaunchPlan
    from weft.launch.rundir import RunDirectory
    from weft.launch.shared_run import SharedRun
    from weft.launch.watch import RankWatch
    from weft.mpi.prebuilt import BuiltRecorder
    from weft.report import AnalysisContext, Report
    from weft.report.document import Subject
    from weft.values.folder import RecordedValues
    from weft.watchdogs.silence import SilenceWatchdog

DEADLOCK_STATUS = 3
LEFT_STATUS = 5
LONGEST_KEPT = 365 * 86400.0
"""The longest duration of --keep in seconds."""


def register(subparsers: Any) -> None:
    """Declare `weft run` and its options to argparse."""
    parser = subparsers.add_parser(
        "run", help="record a run and print what is wrong with it", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft run [-n N] [OPTION ...] -- PROGRAM ARGS",
    )  # fmt: skip
    _options.add_ranks(parser, "start N ranks with mpiexec")
    parser.add_argument("--pvm-join", action="store_true", help="for a PVM program: use your running virtual machine")
    add_recording_options(parser.add_argument_group("what to record"))
    add_stop_options(parser.add_argument_group("when to stop"))
    add_report_options(parser.add_argument_group("what to print"))
    add_location_options(parser.add_argument_group("where to keep it"))
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS", help=argparse.SUPPRESS)


def add_recording_options(group: _options.OptionDeclarer) -> None:
    """Declare the options that say what of the program is kept."""
    group.add_argument(
        "--level", choices=("outcomes", "trace"), default="trace",
        help="record every call with time and source line (trace, the default), or only what a whole replay needs, "
        "without findings (outcomes)",
    )  # fmt: skip
    group.add_argument(
        "--keep", type=parse_keep_duration, metavar="last:DURATION",
        help="for long runs: keep only the last calls, such as last:10s or last:10min",
    )  # fmt: skip
    group.add_argument(
        "--keep-around-findings", action="store_true",
        help="with --keep: also keep the calls around each finding that is proven during the run",
    )  # fmt: skip
    group.add_argument("--tasks", action="store_true", help="also record which OpenMP or asyncio task made each call")
    group.add_argument(
        "--hash-messages", action="store_true",
        help="record a hash of the contents of each message, so that `weft compare` finds the first that differs",
    )  # fmt: skip
    group.add_argument(
        "--whole-buffers", action="store_true",
        help="check the whole buffer of every pending operation for changes; by default Weft does so only for the "
        "first sends of each source line",
    )  # fmt: skip
    group.add_argument(
        "--probes", type=Path, metavar="CONFIG",
        help="record only the probes (see `weft probes`) that CONFIG names (default: all); if CONFIG "
        "does not exist, Weft writes it with all probes",
    )  # fmt: skip
    group.add_argument(
        "--watch", action="append", default=[], metavar="FILE:LINE:EXPR",
        help="record the value of EXPR each time the line runs, without a probe in the source; if EXPR is "
        "this rank's part of a global array, write `EXPR as NAME[LOWER, ...]` with its first global index LOWER",
    )  # fmt: skip
    group.add_argument(
        "--no-sources", action="store_true",
        help="keep no source lines in the run; reports then name lines without showing them",
    )  # fmt: skip


def add_stop_options(group: _options.OptionDeclarer) -> None:
    """Declare the options that end the run before the program does."""
    group.add_argument(
        "--hang-after", type=_options.parse_seconds, metavar="SECONDS",
        help="end the run if all ranks wait in MPI for SECONDS, even without proof of a deadlock",
    )  # fmt: skip
    group.add_argument("--end-at-limit", action="store_true", help="with --call-limit: also end the run at that limit")
    group.add_argument(
        "--against", type=Path, metavar="REFERENCE",
        help="compare the values of probes with those of an earlier run, and stop at the first that differs",
    )  # fmt: skip
    group.add_argument(
        "--debug", action="store_true",
        help="with --against: open the debugger at the first value that differs, in a replay",
    )  # fmt: skip


def add_report_options(group: _options.OptionDeclarer) -> None:
    """Declare the options that say what Weft reports of the run, and when."""
    group.add_argument(
        "--call-limit", type=_options.parse_seconds, metavar="SECONDS",
        help="during the run, name each call that has not returned after SECONDS, and what the other ranks did",
    )  # fmt: skip
    group.add_argument(
        "--watch-findings", action="store_true",
        help="also print findings during the run, as soon as they are proven",
    )  # fmt: skip
    group.add_argument(
        "--report", type=Path, metavar="FILE", help="also write the findings to FILE as JSON; the same as -o FILE.json"
    )
    group.add_argument("--no-report", action="store_true", help="do not analyse the run at its end")
    _findings_output.add_output_files(group)
    _findings_output.add_selection_options(group, "never")


def add_location_options(group: _options.OptionDeclarer) -> None:
    """Declare the options that say where the run is written."""
    _options.add_out(group, "directory of the run, new or empty (default: weft-runs/<program>-<n>)")
    group.add_argument(
        "--local", type=Path, metavar="DIR",
        help="let each host record below DIR on its own disk or in memory, and collect the records at the end",
    )  # fmt: skip
    group.add_argument(
        "--in-place", action="store_true",
        help="record straight into the run's directory even if its file system is slow and holds the program up",
    )  # fmt: skip


_UNITS = {"s": 1, "min": 60, "h": 3600}


def parse_keep_duration(text: str) -> float:
    """Return the seconds of a value such as `last:10min` of --keep. ArgumentTypeError for anything else."""
    kind, _, duration = text.partition(":")
    number = duration.rstrip("hinms")
    try:
        value = float(number) * _UNITS[duration[len(number) :]] if kind == "last" else 0.0
    except (KeyError, ValueError):
        value = 0.0
    if not 0 < value <= LONGEST_KEPT:
        raise argparse.ArgumentTypeError(f"{text!r} is not last:DURATION; write last:10s, last:10min or last:2h")
    return value


def refuse_options_with_keep(args: argparse.Namespace) -> None:
    """Raise UsageError for options that --keep excludes."""
    if args.keep is None:
        if args.keep_around_findings:
            raise UsageError("--keep-around-findings needs --keep last:DURATION: without it all of the run is kept")
        return
    beside = {
        "--tasks": args.tasks, "--hash-messages": args.hash_messages, "--whole-buffers": args.whole_buffers,
        "--watch-findings": args.watch_findings, "--call-limit": args.call_limit is not None,
    }  # fmt: skip
    for option, given in beside.items():
        if given:
            raise UsageError(f"{option} needs the whole run, and --keep drops its beginning: leave one of them out")
    if args.level == "outcomes":
        raise UsageError("--keep drops old calls, and level `outcomes` records no calls: leave --keep out")


def refuse_options_with_local(args: argparse.Namespace) -> None:
    """Raise UsageError for options that need all records in one place while the program runs."""
    if args.in_place and args.local is not None:
        raise UsageError("--in-place records in RUN itself, and --local elsewhere: leave one of them out")
    beside = {
        "--tasks": args.tasks, "--watch-findings": args.watch_findings, "--call-limit": args.call_limit is not None,
        "--probes": args.probes, "--watch": args.watch, "--against": args.against,
        "--keep-around-findings": args.keep_around_findings,
    }  # fmt: skip
    for option, given in beside.items():
        if given and args.local is not None:
            raise UsageError(
                f"{option} reads the records of all hosts during the run, which --local keeps apart: leave one of "
                "them out"
            )


def run(args: argparse.Namespace) -> int:
    """Run `weft run`: check the options, then record the program; return the exit status."""
    command = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not command:
        raise UsageError("nothing to run: give a program after `--`, for example `weft run -n 4 -- python prog.py`")
    if args.level == "outcomes" and args.hang_after is not None:
        raise UsageError("--hang-after needs --level trace: level `outcomes` does not record where a rank is")
    if args.level == "outcomes" and args.call_limit is not None:
        raise UsageError("--call-limit needs --level trace: level `outcomes` does not record where a rank is")
    if args.end_at_limit and args.call_limit is None:
        raise UsageError("--end-at-limit needs --call-limit SECONDS")
    if args.level == "outcomes" and args.tasks:
        raise UsageError("--tasks needs --level trace: level `outcomes` holds no calls that a task could have made")
    if args.level == "outcomes" and args.watch_findings:
        raise UsageError("--watch-findings needs --level trace: level `outcomes` holds no calls to find anything in")
    if args.level == "outcomes" and args.whole_buffers:
        raise UsageError("--whole-buffers needs --level trace: level `outcomes` holds no calls with buffers")
    if args.level == "outcomes" and args.hash_messages:
        raise UsageError("--hash-messages needs --level trace: level `outcomes` holds no calls with messages")
    if args.level == "outcomes" and (args.fail_on or args.baseline or args.suppress):
        raise UsageError("--fail-on, --baseline and --suppress need --level trace: level `outcomes` holds no calls")
    if args.report is not None and not os.access(args.report.absolute().parent, os.W_OK):
        raise UsageError(f"--report {args.report}: its folder cannot be written")
    for file in args.output:
        if not os.access(file.absolute().parent, os.W_OK):
            raise UsageError(f"-o {file}: its folder cannot be written")
    if args.fail_on or args.baseline or args.suppress:
        _findings_output.read_selection(args, "never")
    if args.no_report and (args.report or args.output or args.fail_on):
        raise UsageError(
            "--no-report leaves out the analysis that --report, -o and --fail-on need: leave --no-report out"
        )
    refuse_options_with_keep(args)
    refuse_options_with_local(args)
    values.check_value_options(args)
    return record_program(command, args)


def record_program(command: list[str], args: argparse.Namespace) -> int:
    """Plan the run of a command, and record it in its own folder, a faster one, or with the other tasks of a job step.
    Return the exit status."""
    from weft.native.threads import import_numpy_single_threaded

    import_numpy_single_threaded()
    from weft.cli import _joined, _slow
    from weft.launch import plan as plans
    from weft.launch import recorder, rundir

    plan = plans.plan_run(command, args.n)
    if plan.pvm is not None:
        refuse_mpi_options(args)
    if args.pvm_join:
        join_pvm(plan)
    alarm = make_watchdog(args)
    step = _joined.find_job_step(plan, args)
    if step is not None:
        return _joined.record_in_step(step, plan, command, args, conclude=conclude_run, alarm=alarm)
    rundir.refuse_used_folder(args.out)
    shim = recorder.build_recorder(plan)
    there = _slow.choose_staging(plan, args)
    try:
        directory = rundir.create_run(
            args.out,
            plan.line.programs[0] or [command[0]],
            command,
            args.level,
            there.make_linked_folder if there else Path.mkdir,
        )
    except WeftError:
        if there is not None:
            there.restore_place()
        raise
    try:
        status = record_plan(plan, shim, directory, args, alarm)
    finally:
        whole = _slow.move_to_place(there, directory)
    return status or (0 if whole else FAILED_STATUS)


def record_plan(
    plan: LaunchPlan,
    shim: BuiltRecorder,
    directory: RunDirectory,
    args: argparse.Namespace,
    alarm: SilenceWatchdog | None,
) -> int:
    """Start the program, record it, and report on it; return the exit status."""
    from weft.launch import recorder
    from weft.launch.job import run_job
    from weft.values import recording

    try:
        directory.facts["n"] = args.n
        directory.facts["sources"] = not args.no_sources
        directory.facts["hashes"] = args.hash_messages
        if args.keep is not None:
            directory.facts["keep"] = args.keep
        variables = recorder.make_recorder_variables(
            shim, directory, args.level, whole_buffers=args.whole_buffers, hash_messages=args.hash_messages,
            keep=args.keep, patient=args.in_place,
        )  # fmt: skip
        if args.tasks:
            from weft.tasks import call_recording

            variables |= call_recording.prepare_recording(plan.line.programs, directory)
        variables |= recording.prepare_values(directory.path, args.probes) if args.local is None else {}
        watched = values.plan_line_watches(plan, directory, args)
        variables |= watched.variables
        recorder.write_recorder_facts(plan, shim, directory)
        against = values.make_live_comparison(directory, args)
        started, hosts = watched.plan, None
        if args.local is not None:
            from weft.launch.local.plan_hosts import listen_and_plan

            hosts, started = listen_and_plan(watched.plan, directory, args.local, variables)
            variables = {}
        with reporting_live(directory, args) as witness:
            job = run_job(
                started, directory, variables, args.hang_after,
                report_news=witness.report_new if witness is not None else _hosts.make_host_reporter(hosts),
                observer=make_early_end_test(against, witness if args.end_at_limit else None), alarm=alarm,
                growth=make_growth_watch(directory, args),
                hosts=hosts,
            )  # fmt: skip
    except WeftError:
        finish_task_recording(args, directory)
        recording.remove_value_folder(directory.open_folder())
        directory.discard()
        raise
    finish_task_recording(args, directory)
    return values.report_comparison(conclude_run(plan, job, args, against), job, against, debug=args.debug)


def make_growth_watch(directory: RunDirectory, args: argparse.Namespace) -> GrowthWatch | None:
    """Return the watch that warns when a record grows fast. None with --keep or --level outcomes, which keep records
    small."""
    if args.keep is not None or args.level == "outcomes":
        return None
    from weft.launch.growth import GrowthWatch

    return GrowthWatch(directory.path, say)


def make_watchdog(args: argparse.Namespace) -> SilenceWatchdog | None:
    """Return the watchdog that the environment asks for, or None; ranks do not see its variables."""
    if not any(name.startswith("WEFT_WATCHDOG") for name in os.environ):
        return None  # without the modules
    from weft.watchdogs.settings import ACTION, FILE, SECONDS, read_settings
    from weft.watchdogs.silence import SilenceWatchdog

    asked = read_settings()
    for name in (SECONDS, ACTION, FILE):
        os.environ.pop(name, None)
    if asked is not None and args.level == "outcomes":
        raise UsageError(f"{SECONDS} needs --level trace: level `outcomes` does not record where a rank is")
    return SilenceWatchdog(asked) if asked is not None else None


def make_early_end_test(
    against: LiveComparison | None, witness: LiveFindings | None
) -> Callable[[RankWatch], bool] | None:
    """Return a function that says whether to end the job early: because a value differs from the reference, or a call
    lasts over the limit. None if neither was asked for."""
    if against is None and witness is None:
        return None
    return lambda _: (against is not None and against.compare_if_due()) or (witness is not None and witness.over_limit)


def join_pvm(plan: LaunchPlan) -> None:
    """Let the run take part in the user's own virtual machine. UsageError for a program that does not use PVM."""
    if plan.pvm is None:
        raise UsageError(
            "--pvm-join is for PVM programs, and this one is not linked with the shared library of PVM: leave "
            "--pvm-join out"
        )
    plan.environment["WEFT_INTERNAL_PVM_JOIN"] = "1"


def refuse_mpi_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options for MPI programs only: a PVM program would run on without them."""
    asked = {
        "--tasks": args.tasks, "--hash-messages": args.hash_messages,
        "--whole-buffers": args.whole_buffers, "--probes": args.probes, "--watch": args.watch,
        "--against": args.against, "--keep": args.keep, "--local": args.local,
    }  # fmt: skip
    for option, given in asked.items():
        if given:
            raise UsageError(f"{option} is for programs of MPI, and this one uses PVM: leave it out")


@contextlib.contextmanager
def reporting_live(directory: RunDirectory, args: argparse.Namespace) -> Iterator[LiveFindings | None]:
    """Report findings while the job runs, if the options ask for it; yield what reports them, or None."""
    asked = ["--findings"] if args.watch_findings else []
    asked += ["--around"] if args.keep_around_findings else []
    asked += ["--call-limit", str(args.call_limit)] if args.call_limit is not None else []
    if not asked:
        yield None
        return
    from weft.launch.live_findings import LiveFindings
    from weft.trace.rings import snapshots

    witness = LiveFindings(directory.path, lambda news: print_own_blocks(news, sys.stderr), asked)
    try:
        yield witness
    finally:
        witness.close()
        if args.keep_around_findings:
            snapshots.delete_unfinished_copies(directory.path)


def finish_task_recording(args: argparse.Namespace, directory: RunDirectory) -> None:
    """With --tasks, cut the files that recorded the ranks' tasks to their contents; an empty folder of them is
    removed."""
    if args.tasks:
        from weft.tasks import call_recording

        call_recording.finish_recording(directory)


def conclude_run(plan: LaunchPlan, job: Job, args: argparse.Namespace, against: LiveComparison | None = None) -> int:
    """Put the record in order and report what happened; return the exit status."""
    from weft.launch import finish, missing_ranks, separate_worlds

    ending = finish.finish_run(job)
    of_pvm = plan.pvm is not None  # its machines grow: nobody knows how many tasks there must be
    missing = [] if of_pvm else missing_ranks.describe_missing_ranks(ending.headers, job.run.facts.get("lost") or ())
    if job.shared_run is not None and job.shared_run.absent_ranks:
        return report_part(job, job.shared_run, args)
    for line in missing:
        say(line)
    failed = bool(missing)
    alone = separate_worlds.describe_separate_worlds(
        plan, job.run.ranks, ending.headers, job.shared_run.step if job.shared_run else None
    )
    for note in [*plan.notes, *([alone] if alone else [])]:
        say(f"note: {note}")
    kept = values.finish_values(job, args.probes, args.watch or ())
    if not ending.ranks and kept.processes:
        return report_values_only(job, kept, args)
    if not ending.ranks:
        why = explain_nothing_recorded(plan, job)
        say(why)
        write_report(args, UnanalysedRun(job.run.facts, (why,)))
        if not keep_empty_run(plan, job):
            job.run.discard()
        return job.process.shell_status or FAILED_STATUS
    try:
        job.run.write()
    except WeftError as error:
        say(str(error))
        failed = True
    if (problem := resolve_call_sites(job, args)) is not None:
        say(problem)
    for reason, ranks in ending.stopped.items():
        failed = True
        why = finish.REASONS.get(reason, "for an unknown reason")
        say(f"recording stopped early on {ranks_text(ranks)}: {why}; the program ran on without being recorded")
    for line in describe_end(ending, job, against):
        say(line)
    failed |= values.report_values(kept)
    told, counted = print_findings(job, args)
    failed |= not told
    if (problem := finish.pack_small_records(job.run.path)) is not None:
        say(problem)
    if job.ended == "deadlock":
        return DEADLOCK_STATUS
    if job.interrupting_signal is not None:
        return 128 + job.interrupting_signal
    return job.process.shell_status or (FAILED_STATUS if failed else counted)


def report_part(job: Job, shared_run: SharedRun, args: argparse.Namespace) -> int:
    """Print where this host's part of the run is and how the parts are put together; return the exit status."""
    from weft.launch import finish

    host, place = os.uname().nodename, job.run.path
    ranks = rank_words(sorted({*range(shared_run.step.size)} - {*shared_run.absent_ranks}))
    why = (
        f"the records of {ranks} (of {shared_run.step.size} ranks) are in {place} on host {host}, which the other "
        f"hosts do "
        "not see; Weft does not analyse a part of a run"
    )
    problem = resolve_call_sites(job, args)
    job.run.write()
    say(why)
    say(f"to analyse it, copy each host's folder to one place (this one with `scp -r {host}:{place} {host}`) and "
        f"run there: "
        f"`weft gather {place.name}-whole {host} ...` with all of them. {shared_run.remedy}")  # fmt: skip
    if problem is not None:
        say(problem)
    write_report(args, UnanalysedRun(job.run.facts, (why,)))
    finish.pack_small_records(job.run.path)
    return job.process.shell_status or FAILED_STATUS


def keep_empty_run(plan: LaunchPlan, job: Job) -> bool:
    """Keep a run without records if other hosts may have some; return whether it was kept."""
    from weft.launch import remote_hosts

    place = shorten_path(job.run.path)
    if job.hosts is not None:
        finish_hosts(job, job.hosts)
        say(
            f"the hosts may still have their records, in {job.run.facts['local']}; to collect them: weft gather {place}"
        )
    elif remote_hosts.may_use_other_hosts(plan.line):
        say(f"{place} has no records yet; if other hosts have some, add their folders: weft gather {place} FOLDER...")
    else:
        return False
    job.run.write()
    return True


def resolve_call_sites(job: Job, args: argparse.Namespace) -> str | None:
    """Look up the source lines of the recorded calls, and return what went wrong, or None.

    With --local, each host has looked up the lines of its own ranks already; their results are merged.
    """
    from weft.launch import finish

    problem = finish.resolve_sites(job.run.path, with_source_texts=not args.no_sources)
    if job.hosts is None:
        return problem
    from weft.launch.local import merge_records

    problem = merge_records.merge_locations(job.run.path, job.hosts.folders(), problem)
    finish_hosts(job, job.hosts)
    return "; ".join([*job.hosts.problems, *([problem] if problem else [])]) or None


def finish_hosts(job: Job, hosts: Hosts) -> None:
    """Remove the files that the hosts sent, as the run has all of them now. Close the connections, too, unless tasks
    of a job step still wait for the report."""
    hosts.remove_incoming()
    if job.shared_run is None:
        hosts.close()


def report_values_only(job: Job, kept: RecordedValues, args: argparse.Namespace) -> int:
    """Report on a program without MPI that has probes: the run then consists of their values. Return the exit
    status."""
    say(f"recorded the values of {kept.processes} process{'es' * (kept.processes != 1)} in "
        f"{shorten_path(job.run.path)}; the program never initialised MPI")  # fmt: skip
    failed = values.report_values(kept)
    try:
        job.run.write()
    except WeftError as error:
        say(str(error))
        failed = True
    why = "the program never initialised MPI: values are recorded, but no calls"
    failed |= not write_report(args, UnanalysedRun(job.run.facts, (why,)))
    return job.process.shell_status or (FAILED_STATUS if failed else 0)


def ranks_text(ranks: list[int]) -> str:
    """Return the words for some ranks."""
    shown = ", ".join(str(rank) for rank in sorted(ranks)[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def describe_end(ending: Ending, job: Job, against: LiveComparison | None = None) -> list[str]:
    """Return how the run ended, if that needs saying, and where its record is."""
    from weft.launch import finish

    place = shorten_path(job.run.path)
    count = f"{ending.ranks} rank" + "s" * (ending.ranks != 1)
    lines = []
    if job.ended == "deadlock":
        lines.append("Weft ended the run: the ranks named below wait and can never continue")
    elif against is not None and against.differs:
        lines.append(f"Weft ended the run: a value differs from {shorten_path(against.reference.path)}")
    elif job.lost_host:
        lines += _hosts.describe_lost_host(job)
    elif job.fallen_ranks:
        them = "it" if len(job.fallen_ranks) == 1 else "them"
        lines.append(
            f"Weft ended the run: {ranks_text(job.fallen_ranks)} had ended early, and the launcher let other ranks "
            f"wait for {them} in MPI for ever"
        )
    elif job.ended == "killed" and not job.hung_for:
        lines.append("--end-at-limit ended the run: a call had not returned. That does not prove a deadlock")
    elif job.ended == "killed":
        lines.append(
            f"--hang-after ended the run: it made no progress in MPI for {job.hung_for:.0f} s. That does not prove a "
            "deadlock: a message may have been under way, or a rank slow outside MPI"
        )
    elif ending.ended == "interrupted":
        lines.append(f"the run was {describe_interruption(job)}; the record is complete up to each rank's last call")
    elif ending.ended == "crashed" and not finish.is_hydra_race(job, ending.headers.values()):
        lines.append(f"the program crashed ({status_text(job)}); the record is complete up to each rank's last call")
    elif ending.ended == "killed":
        lines.append(f"the run was killed ({status_text(job)}); the record is complete up to each rank's last call")
    lines += describe_memory_kills(job)
    if ending.ended == "crashed":
        lines += describe_shared_memory(job)
    if finish.is_hydra_race(job, ending.headers.values()):
        lines.append(
            f"the launcher exited with status {job.process.shell_status} although every rank had finalised MPI: "
            "MPICH's launcher sometimes kills ranks that are about to exit. It is not the program's fault"
        )
    names = rank_names(job.run.facts.get("names") or [])
    return [
        *lines,
        f"recorded {count} in {place}{f' ({names})' if names else ''}",
        *_hosts.suggest_remedies(job, place),
    ]


def describe_interruption(job: Job) -> str:
    """Return words for the signal that ended the run from outside, as `interrupted by SIGINT (Ctrl-C)`."""
    name = str(job.run.facts.get("interrupted_by", "a signal"))
    return {
        "SIGINT": "interrupted by SIGINT (Ctrl-C)",
        "SIGTERM": "ended by SIGTERM, as a time limit or a batch system sends it",
        "SIGHUP": "ended by SIGHUP, as a closed terminal sends it",
    }.get(name, f"ended by {name}")  # fmt: skip


def describe_memory_kills(job: Job) -> list[str]:
    """Return a line if the kernel killed processes of this machine or container because memory ran out meanwhile."""
    evidence = job.run.facts.get("evidence")
    kills = evidence.get("memory_kills") if isinstance(evidence, dict) else None
    if not isinstance(kills, int) or kills < 1:
        return []
    times = "once" if kills == 1 else f"{kills} times"
    return [
        f"while the program ran, the kernel was out of memory and killed processes {times}: probably a rank below "
        "that left no record of its end"
    ]


def describe_shared_memory(job: Job) -> list[str]:
    """Return a line if the run may have crashed for lack of shared memory, which no MPI reports; else []."""
    import signal

    from weft.base import abilities

    if job.hosts is not None:
        return []
    ends = {job.process.signal, *job.process.signals, (job.process.exit_code or 0) & 0x7F}
    told = abilities.explain_shared_memory_crash(signal.SIGBUS in ends)
    return [f"the cause may be too little shared memory: {told}"] if told else []


def status_text(job: Job) -> str:
    """Return the exit status in words."""
    import signal

    number = job.process.signal
    if number is None and job.process.signals:
        number = job.process.signals[0]
    if number is None:
        return f"status {job.process.exit_code}"
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def read_other_mpi_note(run: Path) -> tuple[str, str] | None:
    """Return the note of a recorder that found itself in a process of another MPI: (the library of that process, the
    soname for which the recorder was built). None if there is no such note."""
    for note in sorted((run / "ranks").glob("other-mpi-*.txt"))[:1]:
        lines = note.read_text(errors="replace")[:4096].splitlines()
        if len(lines) == 2 and lines[0]:
            return lines[0], lines[1]
    return None


def read_unseen_mpi_note(run: Path) -> str | None:
    """Return the MPI library that a process initialised without its recorder seeing any of it, None if no process
    did."""
    for note in sorted((run / "ranks").glob("unseen-mpi-*.txt"))[:1]:
        return note.read_text(errors="replace")[:4096].partition("\n")[0]
    return None


def explain_nothing_recorded(plan: LaunchPlan, job: Job) -> str:
    """Return why there is no record, as far as it can be known."""
    import shutil

    from weft.launch import remote_hosts

    for program in plan.line.programs:
        if program and shutil.which(program[0]) is None:
            return f"nothing was recorded: there is no program {program[0]!r}"
    if job.process.shell_status != 0:
        first = "called PVM" if plan.pvm is not None else "initialised MPI"
        return f"nothing was recorded: the program ended ({status_text(job)}) before it {first}"
    other = read_other_mpi_note(job.run.path)
    if other:
        return (
            f"nothing was recorded: the program loads {other[0]}, and the recorder was built for {other[1]} "
            f"({plan.library.path}); put the mpicc of the program's MPI first on the PATH "
            "(`weft doctor` shows what fits)"
        )
    unseen = read_unseen_mpi_note(job.run.path)
    if unseen:
        return (
            f"nothing was recorded: the program initialised {unseen} by functions that the recorder does not see: it "
            "looks them up itself (dlsym), or opens a part that uses MPI with RTLD_DEEPBIND; link that part with MPI "
            "and open it without RTLD_DEEPBIND"
        )
    if job.hosts is None and remote_hosts.may_use_other_hosts(plan.line):
        return (
            f"nothing was recorded here: the ranks may have run on other hosts, which do not see {job.run.path} "
            "(record with --local DIR, or --out on a directory that they see), or the program never initialised MPI"
        )
    if job.hosts is not None and (strangers := sum(job.hosts.strangers.values())):
        return (
            f"nothing was recorded: no host connected with the secret of the run, and {strangers} other connections "
            f"came (most from {job.hosts.strangers.most_common(1)[0][0]}); whether MPI was initialised is unknown"
        )
    if not plan.recognised:
        return (
            "nothing was recorded: the program never initialised MPI. Likely it is not an MPI program, is linked "
            f"statically, or uses another MPI than {plan.library.path} (`weft doctor` shows what fits)"
        )
    return (
        f"nothing was recorded: the program loads {plan.library.path} but never initialised MPI, "
        "or it takes LD_PRELOAD out of the ranks' environment"
    )


@dataclass(frozen=True)
class UnanalysedRun:
    """The subject of a report without analyses: the run, and why nothing was analysed."""

    run: Mapping[str, object]
    problems: Sequence[str]
    ranks: Sequence[Any] = ()


def write_report(args: argparse.Namespace, subject: Subject, report: Report | None = None) -> bool:
    """Write the JSON report that the options ask for, also if nothing could be analysed. Return False, after a
    message, if a file cannot be written."""
    files = [args.report] if args.report is not None else []
    if report is None:  # nothing was analysed, which a document says best
        files += [
            path for form, path in _findings_output.requested_formats(args) if path is not None and form == "json"
        ]
    if not files:
        return True
    from weft.report import to_json

    document = to_json(subject, report.findings if report else (), report.failures if report else ())
    try:
        for file in files:
            file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        say(f"the report could not be written: {error}")
        return False
    return True


def write_output_files(args: argparse.Namespace, context: AnalysisContext, report: Report) -> None:
    """Write the files that -o names, as `weft report` does."""
    if args.output:
        from weft.cli._report_output import write_forms

        write_forms(context, report, args)


def print_findings(job: Job, args: argparse.Namespace) -> tuple[bool, int]:
    """Print a line for each finding, worst first, and write the reports that the options ask for.

    Returns whether the analysis and all files succeeded, and 1 if a finding counts as a failure, else 0.
    """
    if args.no_report:
        say(f"not analysed (--no-report); to analyse it: weft report {shorten_path(job.run.path)}")
        return True, 0
    import weft
    from weft.cli._progress import show_progress
    from weft.report import AnalysisContext, run_analyses
    from weft.report.text import summary_blocks

    try:
        trace = weft.open(shorten_path(job.run.path))
        context = AnalysisContext(trace)
        with show_progress("analysing the run") as advance:
            report = run_analyses(trace, context=context, progress=advance)
        counted = 0
        if args.fail_on or args.baseline or args.suppress:
            choice = _findings_output.read_selection(args, "never")
            report = replace(report, findings=_findings_output.apply_selection(report.findings, choice))
            counted = _findings_output.find_status(report.findings, choice)
        print_own_blocks(summary_blocks(trace, report), sys.stderr)
        with contextlib.suppress(OSError):
            draw_worst_finding(context, report)
        write_output_files(args, context, report)
    except KeyboardInterrupt:
        say(
            "the analysis was interrupted, but the record is complete: analyse it with weft report "
            f"{shorten_path(job.run.path)}"
        )
        raise
    except WeftError as error:
        why = f"the run could not be analysed: {error}"
        say(why)
        write_report(args, UnanalysedRun(job.run.facts, (why,)))
        return False, 0
    return write_report(args, trace, report) and not report.failures, counted


def draw_worst_finding(context: AnalysisContext, report: Report) -> None:
    """Draw the worst finding that can be drawn: the messages that led to it, and which rank waits where."""
    if not report.findings:
        return
    from weft.report.pictures import draw_pictures

    for lines in draw_pictures(context.trace, report.findings, sys.stderr, 1, context).values():
        print("", *lines, "", sep="\n", file=sys.stderr, flush=True)
