"""The messages of a replay for people: where the ranks are, and where one left its record."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np

from weft.base.event_id import Forced
from weft.base.words import rank_words
from weft.errors import WeftError
from weft.replay.control import Control, plan_file
from weft.replay.layout import Check, ControlState, Divergence
from weft.replay.plan import ThreadPlan
from weft.replay.running import Replay
from weft.terms.event_findings import call_at
from weft.trace import CallSite, Event, Rank, Trace

_FIELDS = {
    Check.COMM: "communicator",
    Check.PEER: "peer or root",
    Check.TAG: "tag or operation",
    Check.COUNT: "count",
    Check.TYPE: "datatype",
    Check.OBJECT: "request, window or file",
}


def event_of(trace: Trace, session: Replay, rank: int, slot: int, position: int) -> Event | None:
    """Return the recorded call of an entry of a thread's plan."""
    thread = session.plans[rank].threads[slot]
    known = 0 <= position < len(thread.entries)
    return _recorded(trace, rank, thread, int(thread.entries["event"][position]) if known else None)


def coming(trace: Trace, session: Replay, control: Control, slot: int) -> Event | None:
    """Return the recorded call that a parked thread is before: the next of its plan, or a failed poll before it."""
    thread = session.plans[control.rank].threads[slot]
    return _recorded(trace, control.rank, thread, thread.coming(control.at(slot), control.goal_polls(slot)))


def _recorded(trace: Trace, rank: int, thread: ThreadPlan, index: int | None) -> Event | None:
    """Return the event with this index among those of a thread."""
    record = trace.ranks[rank]
    merged = np.flatnonzero(record.event_threads == thread.slot)
    return record.event(int(merged[index])) if index is not None and index < len(merged) else None


def stands(trace: Trace, session: Replay, control: Control, slot: int) -> str:
    """Return where a thread is, as text without its rank."""
    at = control.at(slot)
    if control.state is ControlState.ENDED:
        return "at the end" + (f", past {trace.system.last}" if trace.ranks[control.rank].state == "finalized" else "")
    if session.plans[control.rank].spawned and not control.pid:
        return "not spawned yet"
    last = event_of(trace, session, control.rank, slot, at - 1)
    if (control.rank, slot) in session.outside:
        event = coming(trace, session, control, slot)
        if event is None:
            return "at the end of its record"
        return f"outside of {trace.system.name}, next is event {event.index}: {call_at(event)}"
    if control.parked(slot) or last is None:
        event = coming(trace, session, control, slot)
        return f"before event {event.index}: {call_at(event)}" if event is not None else "at the end of its record"
    return f"in event {last.index}: {call_at(last)}"


def stopped(trace: Trace, session: Replay) -> list[str]:
    """Return where all ranks are at their goals; ranks in the same state share a line."""
    where: dict[str, list[int]] = {}
    passed = total = 0
    for control in session.controls:
        for slot, thread in enumerate(session.plans[control.rank].threads):
            passed += control.at(slot)
            total += len(thread.entries)
            name = f"thread {slot} " if len(session.plans[control.rank].threads) > 1 else ""
            where.setdefault(name + stands(trace, session, control, slot), []).append(control.rank)
    asked = session.cut.asked
    ran_on = bool(asked) and all(_behind_all_stops(trace, session, *event) for event in asked)
    how = "there was nothing to stop before" if ran_on else "stopped as asked"
    lines = [f"{how}: {passed} of {total} calls were run again"]
    lines += [f"  {rank_words(ranks)} {text}" for text, ranks in sorted(where.items(), key=lambda kv: kv[1])]
    return lines + [f"  {text}" for event in asked if (text := _elsewhere(trace, session, *event))]


def _elsewhere(trace: Trace, session: Replay, rank: int, index: int) -> str | None:
    """Return why no stop is before a requested event; None if one is."""
    event = trace.event(rank, index)
    threads, slot = session.plans[rank].threads, event.thread.slot
    mine = next((i for i, thread in enumerate(threads) if thread.slot == slot), None)
    if mine is None:
        return None
    control, position = session.controls[rank], threads[mine].position(event.position)
    if control.at(mine) < position:
        return f"event {index} of rank {rank}, {call_at(event)}, lies behind another stop"
    if _behind_all_stops(trace, session, rank, index):
        return (
            f"event {index} of rank {rank}, {call_at(event)}, lies behind the last call that the rank can stop before"
        )
    here = coming(trace, session, control, mine)
    no_stop = f"event {index} of rank {rank}, {call_at(event)}, is not one that ranks stop at"
    if control.at(mine) == position and here is not None and here.index > index:
        if control.parked(mine):
            return f"{no_stop}: the stop is at the next one that is"
        if (rank, mine) in session.outside:
            return f"{no_stop}: its thread is on the way to the next one that is, and waits for another thread"
    return None


def _behind_all_stops(trace: Trace, session: Replay, rank: int, index: int) -> bool:
    """Tell whether an event comes after the last call of its thread before which ranks stop."""
    event = trace.event(rank, index)
    thread = next((thread for thread in session.plans[rank].threads if thread.slot == event.thread.slot), None)
    return thread is not None and thread.position(event.position) == len(thread.entries)


def diverged(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return where ranks left their record: what was expected, what came, and the likely cause."""
    lines = []
    try:
        new: Trace | None = Trace.open(replayed)
    except WeftError:
        new = None
    for rank, why, fields in session.diverged():
        slot, at = fields["thread"], fields["at"]
        expected = event_of(trace, session, rank, slot, at) if why is not Divergence.THREAD else None
        made = new.ranks[rank] if new is not None and rank < len(new.ranks) else None
        came = made.event(len(made) - 1) if made is not None and len(made) and why is not Divergence.OUTCOME else None
        lines.append(f"rank {rank} left its record" + (f" after event {expected.index - 1}" if expected else ""))
        if expected is not None:
            lines.append(f"  recorded: {call_at(expected)}")
        elif why is Divergence.END:
            lines.append("  recorded: nothing more, its record ends here")
        elif why is Divergence.THREAD:
            lines.append(f"  recorded: {fields['expected']} threads that call {trace.system.name}; another one came")
        else:
            lines.append(f"  recorded: an outcome of another kind, the {at + 1}th of this rank")
        if came is not None:
            lines.append(f"  now:      {call_at(came)}")
        if why is Divergence.ARGUMENT and fields["expected"] != fields["got"]:
            what = _FIELDS.get(Check(fields["field"]), "argument")
            lines.append(f"  the {what} differs: {fields['expected']} was recorded, {fields['got']} came")
    return [*lines, likely(trace)]


def likely(trace: Trace) -> str:
    """Return the likely cause of a divergence."""
    changed = changed_files(trace)
    if changed:
        return f"likely cause: {', '.join(changed[:3])} changed since the run was recorded"
    return (
        "likely cause: another input or environment than recorded, or a source of chance that is not a call of "
        f"{trace.system.name} (a random seed, the time, an address, a thread)"
    )


def changed_files(trace: Trace) -> list[str]:
    """Return files of the program that are newer than the record."""
    started = str(trace.run.get("started") or "")
    with suppress(ValueError):
        when = datetime.fromisoformat(started).timestamp()
        words = [Path(str(trace.run.get("cwd") or ".")) / str(word) for word in trace.run.get("command") or []]
        sources = {Path(site.file) for rank in trace.ranks[:1] for site in _sites(rank) if site.file}
        files = dict.fromkeys([*words, *sorted(sources)])
        return [path.name for path in files if path.is_file() and path.stat().st_mtime > when]
    return []


def _sites(rank: Rank) -> list[CallSite]:
    return [rank.site(int(i)) for i in np.unique(rank.events["site"])[:2000]]


def stalled(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return which rank waits for what, if no rank goes on."""
    del replayed
    lines = ["the replay cannot go on: no rank has made a call for some time", *_waits(trace, session)]
    return [*lines, likely(trace)]


def timed_out(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return where the ranks were when the time was up."""
    del replayed
    return [f"the replay was ended after {session.timeout:g} seconds, as --timeout says", *_waits(trace, session)]


def interrupted(trace: Trace, session: Replay) -> list[str]:
    """Return where the ranks were when a person ended the replay."""
    return ["the replay was interrupted", *_waits(trace, session)]


def deadlocked(trace: Trace, proof: list[str], *, forced: bool) -> list[str]:
    """Return why Weft ended the replay: none of its ranks could ever go on."""
    if forced:
        return ["the other outcome is a deadlock, and was stopped:", *proof]
    if trace.run.get("ended") == "deadlock":
        return ["the replay was stopped: as in the record, it is deadlocked", *proof]
    return ["the replay was stopped: it is deadlocked, which the record was not", *proof, likely(trace)]


def standing(trace: Trace, session: Replay, forced: Forced) -> list[str]:
    """Return what a forced outcome led to if no rank goes on any more: often the message did not come."""
    rank, event = forced.event
    call = call_at(trace.event(rank, event))
    wish = (
        f"take a message of rank {forced.source}" if forced.request < 0 else f"complete its request #{forced.request}"
    )
    first = f"event {event} of rank {rank}, {call}, was to {wish}: no rank goes on"
    return [first, *_waits(trace, session)]


def _waits(trace: Trace, session: Replay) -> list[str]:
    """Return where each rank is, a line each."""
    lines = []
    for control in session.controls:
        for slot in range(len(session.plans[control.rank].threads)):
            text = stands(trace, session, control, slot)
            if control.unanswered(slot):
                text = f"polls more often than its record says, without an answer ({text})"
            elif control.polling(slot):
                event = event_of(trace, session, control.rank, slot, control.at(slot))
                expected = call_at(event) if event is not None else "the end"
                awaited = f"something outside of {trace.system.name}"
                text = f"polls where its record goes on with {expected}: it awaits {awaited}"
            lines.append(f"  rank {control.rank} {text}")
    return lines


def refused(trace: Trace, session: Replay, replayed: Path) -> list[str]:
    """Return which ranks could not read their plan, and the remedy."""
    del trace
    ranks = [control.rank for control in session.controls if control.state is ControlState.REFUSED]
    file = plan_file(replayed / "replay", ranks[0])
    return [
        f"{rank_words(ranks)} could not read the plan of the replay, {file}: replay where all hosts see that file and "
        "have the same Weft"
    ]
