"""`srun weft run -- prog` and `mpiexec weft run -- prog`: each task is a `weft run`, all together record one run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.cli import _hosts, _slow
from weft.cli._said import say
from weft.errors import UsageError
from weft.launch import job_step as steps
from weft.launch import recorder, rundir, shared_run
from weft.launch.job import run_job
from weft.values import recording

if TYPE_CHECKING:
    from pathlib import Path

    from weft.launch.job import Job
    from weft.launch.job_step import JobStep
    from weft.launch.plan import LaunchPlan
    from weft.launch.rundir import RunDirectory
    from weft.launch.shared_run import SharedRun
    from weft.watchdogs.silence import SilenceWatchdog

DEADLOCK_STATUS = 3
BESIDE: Final = 5.0
"""Seconds that a host without a common directory waits for the others to put their records in order: MPICH's mpiexec
kills all tasks once one fails."""
ALONE = (
    "probes",
    "watch",
    "against",
    "debug",
    "tasks",
    "watch_findings",
    "keep_around_findings",
    "call_limit",
)
"""Options whose work one `weft run` does for all ranks."""


def find_job_step(plan: LaunchPlan, args: argparse.Namespace) -> JobStep | None:
    """Return the job step that this process is a task of. None if `weft run` was given a launcher line, or is in no
    step. UsageError for options that need Weft to start the ranks itself."""
    if plan.line.launcher is not None:
        return None
    step = steps.find_own_step()
    given = [f"--{name.replace('_', '-')}" for name in ALONE if getattr(args, name)]
    if step is not None and given:
        raise UsageError(
            f"{given[0]} needs Weft to start the ranks itself: `weft run {given[0]} ... -- LAUNCHER ... PROGRAM`, not "
            "`LAUNCHER ... weft run -- PROGRAM`"
        )
    return step


def record_in_step(
    step: JobStep, plan: LaunchPlan, command: list[str], args: argparse.Namespace, *,
    conclude: Callable[[LaunchPlan, Job, argparse.Namespace], int], alarm: SilenceWatchdog | None,
) -> int:  # fmt: skip
    """Record this task's rank into the run that all tasks of the job step share, and return the exit status. If this
    task is the one that reports, it calls `conclude` for that."""
    shim = recorder.build_recorder(plan)

    def describe(run: RunDirectory) -> None:
        """Write the options of this command and the facts of the recorder into a new run."""
        run.facts["sources"] = not args.no_sources
        run.facts["hashes"] = args.hash_messages
        if args.keep is not None:
            run.facts["keep"] = args.keep
        if args.local is None:
            recording.prepare_values(run.path, None)
        recorder.write_recorder_facts(plan, shim, run)
        if args.local is None and not args.in_place:
            _slow.warn_if_slow(run.path)

    path = args.out or shared_run.choose_folder(step, rundir.derive_run_name(plan.line.programs[0]))
    joined = join_or_create_run(step, path, rundir.make_first_facts(command, args.level), describe, args.local)
    variables = recorder.make_recorder_variables(
        shim,
        joined.run,
        args.level,
        whole_buffers=args.whole_buffers,
        hash_messages=args.hash_messages,
        keep=args.keep,
        patient=args.in_place,
    )
    if args.local is None:
        started, variables = plan, variables | recording.prepare_values(joined.run.path, None)
    else:
        started, variables = joined.adapt_plan(plan, variables), {}
    job = run_job(
        started,
        joined.run,
        variables,
        args.hang_after,
        shared_run=joined,
        hosts=joined.hosts,
        conclude=lambda job: conclude(plan, job, args),
        alarm=alarm,
        report_news=_hosts.make_host_reporter(joined.hosts),
    )
    own = job.process.shell_status
    if not joined.announce_end(job.process, job.ended):
        return exit_status(job, joined, own)
    of_all = job.process.shell_status
    try:
        status = conclude(plan, job, args)
    finally:
        joined.remove_step_folder()
    if joined.absent_ranks and step.system == "mpiexec":
        time.sleep(BESIDE)
    return own if status == of_all else status


def join_or_create_run(
    step: JobStep, path: Path, facts: dict[str, Any], describe: Callable[[RunDirectory], None], local: Path | None
) -> SharedRun:
    """Return the run of the job step: join it, or create it if this task comes first. `local`: the folder of --local,
    None for a run that all hosts see."""
    if local is None:
        return shared_run.create_or_join_run(step, path, facts, describe)
    # Few runs are over hosts.
    from weft.launch.local import multi_host_run

    met = multi_host_run.create_or_join_run(step, path, local, facts, describe)
    met.say = say
    return met


def exit_status(job: Job, joined: SharedRun, own_status: int) -> int:
    """Return the exit status of a task whose run another task reports. If Weft ended the run and this task must not be
    the last, also leave a process behind, so that the launcher does not miss the task."""
    if job.ended is not None and not joined.is_last_to_end:
        joined.detach_from_launcher()
        return 0
    if job.ended == "deadlock":
        return DEADLOCK_STATUS
    return own_status if job.interrupting_signal is None else 128 + job.interrupting_signal
