"""Reports the outcome of a replay: lines for people, and the status that `weft replay` exits with."""

from __future__ import annotations

import argparse
from typing import Any, Final

import weft
from weft.cli._said import find_and_report_failures, say, shorten_path
from weft.cli._values import finish_values, report_values
from weft.cli.run import DEADLOCK_STATUS, LEFT_STATUS, ranks_text
from weft.launch import finish
from weft.launch.deadlock_check import find_certain_deadlocks
from weft.launch.job import Job
from weft.replay import Replay, Result
from weft.replay.force import parse_force
from weft.replay.sentences import (
    describe_deadlock,
    describe_divergence,
    describe_interruption,
    describe_left_files,
    describe_refusal,
    describe_stall,
    describe_stalled_outcome,
    describe_stop,
    describe_timeout,
)
from weft.trace import Trace

_DESCRIBE: Final = {
    Result.DIVERGED: describe_divergence,
    Result.STALLED: describe_stall,
    Result.REFUSED: describe_refusal,
    Result.TIMED_OUT: describe_timeout,
}

ReplayOutcome = tuple[list[str], int]
"""The lines, and the status."""


def conclude_replay(trace: Trace, session: Replay, job: Job, args: argparse.Namespace) -> int:
    """Put the new record of a replay in order, print the outcome, and return the exit status."""
    ending = finish.finish_run(job)
    if session.driver is not None:
        session.driver.remove_folder()
        return job.process.shell_status
    if session.result is Result.FINISHED:
        session.note_failure()
    report_values(finish_values(job, args.probes))
    if not ending.ranks:
        lines, status = _describe_empty_replay(trace, session, job, args)
        job.run.discard()
    else:
        job.run.facts["replayed"] = replay_facts(session)
        job.run.write()
        if (
            problem := finish.resolve_sites(job.run.path, with_source_texts=trace.run.get("sources") is not False)
        ) is not None:
            say(problem)
        lines, status = _describe_outcome(trace, session, job, args)
    for line in lines:
        say(line)
    return status


def replay_facts(session: Replay) -> dict[str, Any]:
    """Return the facts for run.json about how a replay ended, which `weft explore` reads: the exit status is the
    program's own. `held`: a thread still waits for an outcome. `polls`: a rank tests on after the end of its record."""
    polls = any(c.is_polling_after_end(t) for c in session.controls for t in range(len(session.plans[c.rank].threads)))
    facts: dict[str, Any] = {"result": session.result.value, "held": session.has_waiting_thread, "polls": polls}
    return facts | ({"holds": [list(one) for one in session.cut.holds]} if session.cut.holds else {})


def _describe_empty_replay(trace: Trace, session: Replay, job: Job, args: argparse.Namespace) -> ReplayOutcome:
    """Return the lines and the exit status for a replay in which no rank was recorded."""
    entered = trace.system.entered
    if session.result is Result.TIMED_OUT:
        text = f"Weft ended the replay after {args.timeout:g} seconds (--timeout), before any rank had {entered}"
        return [text], LEFT_STATUS
    status = job.process.shell_status
    said = f"nothing was replayed: the program ended with status {status} before it had {entered}"
    return [said, *describe_left_files(trace)], (status or LEFT_STATUS)


def _describe_outcome(trace: Trace, session: Replay, job: Job, args: argparse.Namespace) -> ReplayOutcome:
    """Return the lines and the exit status for a replay with records: it stopped where asked, in a deadlock, apart
    from the record, or at its end."""
    place = shorten_path(job.run.path)
    what = "the other outcome" if args.force else "the replay"
    up_to_there = f"{what} up to there is recorded in {place}"
    if session.result is Result.STOPPED or (session.has_passed_goals and job.ended is None):
        return describe_stop(trace, session), 0
    if job.ended == "deadlock":
        return [*_describe_deadlock(trace, job, args), f"it is recorded in {place}"], DEADLOCK_STATUS
    if session.result is Result.STALLED and args.force:
        return [*describe_stalled_outcome(trace, session, parse_force(args.force, trace)), up_to_there], LEFT_STATUS
    if job.ended == "interrupted" or job.interrupting_signal is not None:
        by_signal = None if job.interrupting_signal is None else 128 + job.interrupting_signal
        return [
            *describe_interruption(trace, session),
            up_to_there,
        ], by_signal or job.process.shell_status or LEFT_STATUS
    if tell := _DESCRIBE.get(session.result):
        return [*tell(trace, session, job.run.path), f"the replay up to there is recorded in {place}"], LEFT_STATUS
    if args.force:
        recorded = f"the other outcome is recorded in {place}: `weft report {place}` says what it led to"
        return [*_describe_changes(trace, job, args), recorded], job.process.shell_status
    return _describe_end(trace, session, job)


def _describe_deadlock(trace: Trace, job: Job, args: argparse.Namespace) -> list[str]:
    """Return the lines for a replay that was stopped because its ranks can never go on."""
    proof = [finding.message for finding in find_certain_deadlocks(job.run.path)] or job.proof
    lines = list(describe_deadlock(trace, proof, forced=bool(args.force)))
    return [*lines, *_describe_changes(trace, job, args)] if args.force else lines


def _describe_changes(trace: Trace, job: Job, args: argparse.Namespace) -> list[str]:
    """Return the lines that say what changed because the replay forced another outcome: receives and findings,
    compared with the record. [] with --uncompared."""
    if args.uncompared:
        return []
    # Most replays have nothing to compare, and a stop is waited for.
    from weft.compare.report import errors_and_warnings
    from weft.replay.outcome import describe_outcome
    from weft.report import AnalysisContext

    one, two = AnalysisContext(trace), AnalysisContext(weft.open(job.run.path))
    known, new = (errors_and_warnings(find_and_report_failures(context.trace, context)) for context in (one, two))
    return describe_outcome(one.match, two.match, two.order, parse_force(args.force, trace).event, (known, new))


def _describe_end(trace: Trace, session: Replay, job: Job) -> ReplayOutcome:
    """Return the lines and the exit status for a replay that came to the end of its record."""
    status = job.process.shell_status
    short = session.unfinished_threads()
    blind = [rank for rank, _, _ in short if not session.controls[rank].pid]
    hosts = "its host does" if len(blind) == 1 else "their hosts do"
    unseen = (
        f"{hosts} not see {job.run.path}. Replay on one host: "
        f"weft replay {shorten_path(trace.path)} -n {len(session.plans)} -- PROGRAM ARGS"
    )
    if blind and len(blind) < len(session.plans) and not status:
        return [f"{ranks_text(blind)} ran without the replay: {unseen}"], LEFT_STATUS
    # A launcher ends ranks that are about to start when another one fails.
    absent = [
        f"{ranks_text(blind)} took no part in the replay: the job ended with status {status} first, or {unseen}"
    ] if blind else []  # fmt: skip
    if short and trace.run.get("ended") == "finished":
        came = [row for row in short if row[0] not in blind]
        return [
            *absent,
            *(
                f"rank {rank} made {made} of its {recorded} recorded calls, then its process ended"
                for rank, made, recorded in came[:8]
            ),
            *(describe_left_files(trace) if status else ()),
        ], status or LEFT_STATUS
    free = session.ranks_without_plan
    held = [plan for plan in session.plans if plan.rank not in {*free, *blind}]
    calls, ranks = sum(thread.size for plan in held for thread in plan.threads), len(held)
    what = "outcomes" if not session.is_checked else "calls that communicate"
    where = (
        "" if not any(c.is_past_record() for c in session.controls) else ", then freely beyond the end of the record"
    )
    place = shorten_path(job.run.path)
    lines = [f"replayed {ranks} rank{'s' * (ranks != 1)}, {calls} {what}: as recorded{where}; recorded in {place}"]
    if free:
        lines.append(
            f"{ranks_text(free)} ran freely: Weft could not tell to which of the recorded spawned worlds they belong"
        )
    return [*lines, *absent], status
