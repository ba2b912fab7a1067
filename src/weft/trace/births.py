"""Finds each spawn of a run among the events of its rank, and the ranks that it started."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.trace.layout import Def, Flag, Level
from weft.trace.run import Trace

NOT_RECORDED: Final = -1
"""Used as the event of a spawn in a record that has no events."""


def list_spawns(trace: Trace) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return each successful spawn of a run as (rank index of the caller, event index, rank indices of the started
    processes), in order for each rank. The event is NOT_RECORDED if the run has no events; the processes are () if they
    are unknown.
    """
    found = []
    if trace.system.grows:
        return _list_spawns_in_growing_world(trace)
    functions = trace.functions.mask(trace.system.spawns)
    for rank in trace.ranks if len(trace.worlds) > 1 else ():
        numbers = [d.index for d in rank.definitions.all(Def.WORLD) if d.origin.startswith("spawn")]
        made = functions[rank.events["function"]] & (rank.events["flags"] & Flag.CLOSED != 0)
        events = np.flatnonzero(made & (rank.events["error"] == 0)).tolist() or [NOT_RECORDED] * len(numbers)
        others = rank.other_worlds()
        found += [(rank.index, e, others.get(n, ())) for e, n in zip(events, numbers, strict=False)]
    return found


def _read_spawned_children(trace: Trace) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return (rank index, NOT_RECORDED, rank indices of its children) for each rank that started others. The source is
    the list `children` of run.json.
    """
    told = trace.run.get("children")
    found = []
    for rank, children in zip(trace.ranks, told if isinstance(told, list) else [], strict=False):
        if isinstance(children, list) and children and all(_is_rank(child, trace) for child in children):
            found.append((rank.index, NOT_RECORDED, tuple(children)))
    return found


def _is_rank(value: object, trace: Trace) -> bool:
    return type(value) is int and 0 <= value < len(trace.ranks)


def _list_spawns_in_growing_world(trace: Trace) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return the spawns of a run whose world grows, as (rank index, event index, rank indices of the started
    processes). The children are read from the arguments of the spawning call, or from run.json if the run has no
    events.
    """
    if trace.level is Level.OUTCOMES:
        return _read_spawned_children(trace)
    functions = trace.functions.mask(trace.system.spawns)
    found = []
    for rank in trace.ranks:
        made = functions[rank.events["function"]] & (rank.events["flags"] & Flag.CLOSED != 0)
        for event in np.flatnonzero(made & (rank.events["error"] == 0)).tolist():
            tids = rank.event(event).args.get("tids", [])
            children = tuple(tid for tid in tids if 0 <= tid < len(trace.ranks))
            if children:
                found.append((rank.index, event, children))
    return found
