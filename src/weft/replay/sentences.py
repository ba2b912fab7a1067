"""The messages of a replay for people: where the ranks are, and where one left its record."""

from __future__ import annotations

import itertools
import os
from datetime import datetime
from pathlib import Path

import numpy as np

from weft import sources
from weft.base.event_id import Forced
from weft.base.words import listed, rank_words
from weft.errors import WeftError
from weft.launch.program_files import find_changed_files
from weft.replay.control import ControlPage, plan_file
from weft.replay.layout import Check, ControlState, Divergence
from weft.replay.plan import ThreadPlan
from weft.replay.running import Replay
from weft.terms.event_findings import call_at
from weft.trace import Event, Trace

_FIELDS = {
    Check.COMM: "communicator",
    Check.PEER: "peer or root",
    Check.TAG: "tag or operation",
    Check.COUNT: "count",
    Check.TYPE: "datatype",
    Check.OBJECT: "request, window or file",
}


def planned_event(trace: Trace, session: Replay, rank: int, slot: int, entry: int) -> Event | None:
    """Return the recorded call that stands at an index (`entry`) in a thread's plan; None if the plan has no such
    index.
    """
    thread = session.plans[rank].threads[slot]
    known = 0 <= entry < len(thread.entries)
    return _event_of_thread(trace, rank, thread, int(thread.entries["event"][entry]) if known else None)


def next_event(trace: Trace, session: Replay, control: ControlPage, slot: int) -> Event | None:
    """Return the recorded call before which a thread is stopped: the next call of its plan, or a failed poll that comes
    before that call. None at the end of the plan.
    """
    thread = session.plans[control.rank].threads[slot]
    return _event_of_thread(
        trace, control.rank, thread, thread.next_event(control.entries_passed(slot), control.goal_polls(slot))
    )


def _event_of_thread(trace: Trace, rank: int, thread: ThreadPlan, index: int | None) -> Event | None:
    """Return the event with an index among the events of a thread; None without an index, or beyond the record."""
    record = trace.ranks[rank]
    merged = np.flatnonzero(record.event_threads == thread.slot)
    return record.event(int(merged[index])) if index is not None and index < len(merged) else None


def describe_position(trace: Trace, session: Replay, control: ControlPage, slot: int) -> str:
    """Return where a thread is, as text without its rank: at the end, not spawned yet, outside of MPI, or before or in
    an event.
    """
    at = control.entries_passed(slot)
    if control.state is ControlState.ENDED:
        return "at the end" + (f", past {trace.system.last}" if trace.ranks[control.rank].state == "finalized" else "")
    if session.plans[control.rank].spawned and not control.pid:
        return "not spawned yet"
    last = planned_event(trace, session, control.rank, slot, at - 1)
    if (control.rank, slot) in session.outside:
        event = next_event(trace, session, control, slot)
        if event is None:
            return "at the end of its record"
        return f"outside of {trace.system.name}, next is event {event.index}: {call_at(event)}"
    if control.is_parked(slot) or last is None:
        event = next_event(trace, session, control, slot)
        return f"before event {event.index}: {call_at(event)}" if event is not None else "at the end of its record"
    return f"in event {last.index}: {call_at(last)}"


def describe_stop(trace: Trace, session: Replay) -> list[str]:
    """Return lines that say where all ranks stopped; ranks in the same state share a line."""
    where: dict[str, list[int]] = {}
    passed = total = 0
    for control in session.controls:
        for slot, thread in enumerate(session.plans[control.rank].threads):
            passed += control.entries_passed(slot)
            total += len(thread.entries)
            name = f"thread {slot} " if len(session.plans[control.rank].threads) > 1 else ""
            where.setdefault(name + describe_position(trace, session, control, slot), []).append(control.rank)
    asked = session.cut.asked
    ran_on = bool(asked) and all(_is_after_last_stop(trace, session, *event) for event in asked)
    how = "there was nothing to stop before" if ran_on else "stopped as asked"
    lines = [f"{how}: {passed} of {total} calls were run again"]
    lines += [f"  {rank_words(ranks)} {text}" for text, ranks in sorted(where.items(), key=lambda kv: kv[1])]
    return lines + [f"  {text}" for event in asked if (text := _explain_missing_stop(trace, session, *event))]


def _explain_missing_stop(trace: Trace, session: Replay, rank: int, index: int) -> str | None:
    """Return a sentence on why no rank stopped before a requested event; None if a rank did, or if there is no reason
    to give.
    """
    event = trace.event(rank, index)
    threads, slot = session.plans[rank].threads, event.thread.slot
    mine = next((i for i, thread in enumerate(threads) if thread.slot == slot), None)
    if mine is None:
        return None
    control, position = session.controls[rank], threads[mine].entries_before(event.position)
    if control.entries_passed(mine) < position:
        return f"event {index} of rank {rank}, {call_at(event)}, comes after another place at which the replay stops"
    if _is_after_last_stop(trace, session, rank, index):
        return (
            f"event {index} of rank {rank}, {call_at(event)}, comes after the last call before which the rank can stop"
        )
    here = next_event(trace, session, control, mine)
    no_stop = f"no replay can stop before event {index} of rank {rank}, {call_at(event)}"
    if control.entries_passed(mine) == position and here is not None and here.index > index:
        if control.is_parked(mine):
            return f"{no_stop}: the rank stopped before the next call at which a replay can stop"
        if (rank, mine) in session.outside:
            return f"{no_stop}: its thread waits for another thread on the way to the next call at which it can stop"
    return None


def _is_after_last_stop(trace: Trace, session: Replay, rank: int, index: int) -> bool:
    """Return whether an event comes after the last call of its thread before which a rank can stop."""
    event = trace.event(rank, index)
    thread = next((thread for thread in session.plans[rank].threads if thread.slot == event.thread.slot), None)
    return thread is not None and thread.entries_before(event.position) == len(thread.entries)


def describe_divergence(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return lines that say where ranks left their record: what was expected, what came, and the likely cause."""
    lines = []
    try:
        new: Trace | None = Trace.open(replayed)
    except WeftError:
        new = None
    for rank, why, fields in session.diverged_ranks():
        slot, at = fields["thread"], fields["at"]
        expected = planned_event(trace, session, rank, slot, at) if why is not Divergence.THREAD else None
        made = new.ranks[rank] if new is not None and rank < len(new.ranks) else None
        came = made.event(len(made) - 1) if made is not None and len(made) and why is not Divergence.OUTCOME else None
        lines.append(f"rank {rank} left its record" + (f" after event {expected.index - 1}" if expected else ""))
        if expected is not None:
            lines.append(f"  recorded: {call_at(expected)}")
        elif why is Divergence.END:
            lines.append("  recorded: nothing more, its record ends here")
        elif why is Divergence.THREAD:
            lines.append(
                f"  recorded: {fields['expected']} threads called {trace.system.name}; now a further thread does"
            )
        else:
            lines.append(f"  recorded: outcome number {at + 1} of this rank, which is of another kind")
        if came is not None:
            lines.append(f"  now:      {call_at(came)}")
        if why is Divergence.ARGUMENT and fields["expected"] != fields["got"]:
            what = _FIELDS.get(Check(fields["field"]), "argument")
            lines.append(f"  the {what} differs: {fields['expected']} was recorded, now it is {fields['got']}")
    return [*lines, likely_cause(trace)]


def likely_cause(trace: Trace) -> str:
    """Return a sentence on the likely cause of a divergence: files that have changed, or else other input or chance."""
    if changed := list_changed_files(trace):
        return f"likely cause: {', '.join(changed[:3])} changed since the run was recorded"
    there = find_files_written_by_run(trace)
    also = f" ({_are_there(there)})" if there else ""
    return (
        f"likely cause: another input or environment than recorded{also}, or something random outside of "
        f"{trace.system.name} (a seed, the time, a process id, an address, a thread)"
    )


def describe_left_files(trace: Trace) -> list[str]:
    """Return one line on files that the recorded run wrote and that are there again when a replay fails; an empty list
    if there are none.
    """
    if not (there := find_files_written_by_run(trace)):
        return []
    it, goes = ("it", "is") if len(there) == 1 else ("them", "are")
    return [
        f"{_are_there(there)}: if that {goes} why the program fails, remove {it}, or replay in a copy of the folder"
    ]


def _are_there(files: list[str]) -> str:
    return f"{listed(files[:3])}, which the recorded run wrote, {'is' if len(files) == 1 else 'are'} there now"


def find_files_written_by_run(trace: Trace) -> list[str]:
    """Return the names of the files in the run's working folder that were written while the run was recorded. [] if the
    folder or the times are unknown.
    """
    try:
        began, ended = (datetime.fromisoformat(str(trace.run.get(key))).timestamp() for key in ("started", "finished"))
        with os.scandir(str(trace.run.get("cwd"))) as entries:
            files = [one for one in itertools.islice(entries, 10_000) if one.is_file(follow_symlinks=False)]
            return sorted(one.name for one in files if began <= one.stat().st_mtime <= ended)
    except (OSError, ValueError):
        return []


def list_changed_files(trace: Trace) -> list[str]:
    """Return the names of files that have changed since the record: those that the command names, and sources of the
    program.
    """
    found = find_changed_files(trace.run)
    found += [one.file for one in sources.sources_of(trace).find_changes() if one.what in ("changed", "gone")]
    return list(dict.fromkeys(Path(path).name for path in found))


def describe_stall(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return lines that say which rank waits for what, if no rank makes progress."""
    del replayed
    lines = [
        "the replay cannot continue: no rank gets any further",
        *_describe_waiting_ranks(trace, session),
    ]
    return [*lines, likely_cause(trace)]


def describe_timeout(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return lines that say where the ranks were when the time limit was reached."""
    del replayed
    return [
        f"Weft ended the replay after {session.timeout:g} seconds (--timeout)",
        *_describe_waiting_ranks(trace, session),
    ]


def describe_interruption(trace: Trace, session: Replay) -> list[str]:
    """Return where the ranks were when a person ended the replay."""
    return ["the replay was interrupted", *_describe_waiting_ranks(trace, session)]


def describe_deadlock(trace: Trace, proof: list[str], *, forced: bool) -> list[str]:
    """Return lines that say why Weft ended the replay: none of its ranks could ever continue."""
    if forced:
        return ["the other outcome is a deadlock, so Weft stopped it:", *proof]
    if trace.run.get("ended") == "deadlock":
        return ["Weft stopped the replay: it is deadlocked, as the recorded run was", *proof]
    return ["Weft stopped the replay: it is deadlocked, though the recorded run was not", *proof, likely_cause(trace)]


def describe_stalled_outcome(trace: Trace, session: Replay, forced: Forced) -> list[str]:
    """Return lines that say where the ranks are if no rank makes progress after a forced outcome. Often the forced
    message did not come.
    """
    rank, event = forced.event
    call = call_at(trace.event(rank, event))
    wish = (
        f"take a message of rank {forced.source}" if forced.request < 0 else f"complete its request #{forced.request}"
    )
    first = f"event {event} of rank {rank}, {call}, was to {wish}, but no rank makes progress"
    return [first, *_describe_waiting_ranks(trace, session)]


def _describe_waiting_ranks(trace: Trace, session: Replay) -> list[str]:
    """Return a line for each rank that says where it is."""
    lines = []
    for control in session.controls:
        for slot in range(len(session.plans[control.rank].threads)):
            text = describe_position(trace, session, control, slot)
            if control.is_polling_after_end(slot):
                text = f"polls more often than its record says, without an answer ({text})"
            elif control.is_polling(slot):
                event = planned_event(trace, session, control.rank, slot, control.entries_passed(slot))
                expected = call_at(event) if event is not None else "the end"
                awaited = f"something outside of {trace.system.name}"
                text = f"polls for {awaited}, where its record continues with {expected}"
            lines.append(f"  rank {control.rank} {text}")
    return lines


def describe_refusal(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return lines that say which ranks could not read their plan, and the remedy."""
    del trace
    ranks = [control.rank for control in session.controls if control.state is ControlState.REFUSED]
    file = plan_file(replayed / "replay", ranks[0])
    return [
        f"{rank_words(ranks)} could not read the plan of the replay, {file}: replay where all hosts see that file and "
        "have the same Weft"
    ]
