"""Find deadlocks: which ranks can never go on, proven from the record of a run that hangs or was killed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from weft.deadlock import pvm_barriers
from weft.deadlock.blocked_ranks import Standstill
from weft.deadlock.polling_ranks import PollingStandstill
from weft.deadlock.wait_for_graph import find_components
from weft.deadlock.wording import make_finding
from weft.findings import Finding
from weft.trace import Event, Level, Trace

__all__ = ["find"]

STOOD_NS = 1e9
"""A standard send that is open for this long at the end of a run that was killed waits for its receive."""


def find(trace: Trace, gone: Collection[int] = (), *, is_seen: bool = False) -> list[Finding]:
    """Return a finding for each set of ranks that are blocked for ever; [] if none is.

    The proof comes from the record, not from time: it holds for a live run as long as these calls do not return.
    `gone`: indices of ranks whose process is known to have ended though their record does not say so. `is_seen`:
    somebody saw that no thread outside MPI can go on by itself.
    """
    standstill = Standstill(trace, gone, is_seen=is_seen)
    proven = standstill.stuck
    if proven and not _sends_surely_wait(standstill):
        proven = Standstill(trace, gone, buffering=True, is_seen=is_seen).stuck
    proven -= standstill.ranks_with_other_threads
    found = [(part, _make_finding(standstill, part)) for part in find_components(standstill.stuck, standstill.needs)]
    result = [told if part <= proven else replace(told, certainty="possible") for part, told in found]
    return result + _find_polling(trace, gone, standstill.stuck)


def _find_polling(trace: Trace, gone: Collection[int], stuck: frozenset[int]) -> list[Finding]:
    """Return a finding for each set of ranks, without any of `stuck`, that could not go on when a signal from outside
    came, as some of them did nothing but poll. It is possible, not certain: a program may leave its loop by itself."""
    if trace.run.get("ended") not in ("interrupted", "killed") or trace.level == Level.OUTCOMES:
        return []
    standstill = PollingStandstill(trace, gone, buffering=True)
    if not standstill.polling:
        return []
    parts = find_components(standstill.stuck, standstill.needs)
    return [make_finding(standstill, part) for part in parts if part & standstill.polling.keys() and not part & stuck]


def _make_finding(standstill: Standstill, part: frozenset[int]) -> Finding:
    found, said = make_finding(standstill, part), pvm_barriers.explain_barrier(standstill, part)
    return replace(found, message=said) if said is not None else found


def _sends_surely_wait(standstill: Standstill) -> bool:
    """Return whether open standard sends certainly wait for their receives. That is so if the launcher saw the ranks
    stand still, or if every open call had lasted more than STOOD_NS when the run ended."""
    trace = standstill.trace
    ended = trace.run.get("ended")
    if ended in ("running", "deadlock", None):
        return True
    try:
        finished = datetime.fromisoformat(str(trace.run.get("finished"))).timestamp() * 1e9
    except ValueError:
        return False
    return all(
        finished - _wall_clock_entry_ns(event) > STOOD_NS
        for events in standstill.open_calls.values()
        for event in events
    )


def _wall_clock_entry_ns(event: Event) -> float:
    """Return the wall-clock time at which a call was entered, in ns since 1970."""
    header = event.rank.header
    if header is None:
        return 0.0
    return header.start.realtime_ns + event.enter_ns - event.rank.axis.ns(header.start.ticks)
