"""Explain barriers of PVM's groups: which tasks came, and which of the group did not.

Tasks wait there for PVM's group server, and not for each other.
"""

from __future__ import annotations

import numpy as np

from weft.base.words import listed, rank_words
from weft.deadlock.blocked_ranks import Standstill
from weft.terms import describe
from weft.terms.rank_progress import open_calls
from weft.trace import Event, Rank, Trace

BARRIER = "pvm_barrier"


def explain_barrier(standstill: Standstill, part: frozenset[int]) -> str | None:
    """Return the words that say why blocked ranks wait for ever if all of them wait in one barrier of a PVM group: who
    came, and where the other members are. None for other ranks."""
    trace = standstill.trace
    if not trace.system.grows:
        return None
    waiting = {index: found for index in sorted(part) if (found := _barrier(trace.ranks[index])) is not None}
    if not waiting or not all(trace.ranks[index].serves for index in part - waiting.keys()):
        return None
    asked = {(str(event.args.get("group", "")), event.count) for event in waiting.values()}
    if len(asked) > 1:
        return None
    [(group, count)] = asked
    first = next(iter(waiting.values()))
    absent = [index for index in group_members(trace, group) if index not in waiting]
    wait = "waits" if len(waiting) == 1 else "wait"
    said = f"{rank_words(tuple(waiting))} {wait} in pvm_barrier({group!r}, {count}){describe.site_suffix(first)}"
    came = f"{len(waiting)} of {count} tasks came"
    who = listed([f"rank {index} {_describe_whereabouts(standstill, index)}" for index in absent[:8]])
    return f"{said}; {came}" + (f": {who}" if absent else ", and no other task joined the group")


def _barrier(rank: Rank) -> Event | None:
    """Return the barrier that a rank is in."""
    events = [rank.event(index) for index in open_calls(rank)]
    return next((event for event in events if event.function.name == BARRIER), None)


def group_members(trace: Trace, group: str) -> list[int]:
    """Return the ranks that joined a group and did not leave it."""
    found = []
    for rank in trace.ranks:
        rows = np.flatnonzero(trace.functions.mask(("pvm_joingroup", "pvm_lvgroup"))[rank.events["function"]])
        calls = (rank.event(int(row)) for row in rows)
        last = [event.function.name for event in calls if event.args.get("group") == group and not event.error]
        if last[-1:] == ["pvm_joingroup"]:
            found.append(rank.index)
    return found


def _describe_whereabouts(standstill: Standstill, index: int) -> str:
    """Return where a rank is that did not come to a barrier."""
    if index in standstill.gone:
        return "joined the group and has ended"
    rank = standstill.trace.ranks[index]
    inside = [rank.event(event) for event in open_calls(rank)[-1:]]
    return f"is in {describe.call_words(inside[0])}{describe.site_suffix(inside[0])}" if inside else "is elsewhere"
