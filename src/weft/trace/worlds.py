"""Worlds: the MPI_COMM_WORLDs of a run, and which of them spawned which."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from weft.plain import dataclass
from weft.trace.definitions import CommDefinition, Members
from weft.trace.layout import Def, Flag

if TYPE_CHECKING:
    from weft.trace.run import Rank, Trace

MAX_GROUP: Final = 2**20
NOT_RECORDED: Final = -1
"""Stands for the event of a spawn in a record that has no events."""
MAX_WORLDS: Final = 256
"""Other worlds of one process that are looked at (the recorder names 64)."""


@dataclass(frozen=True, slots=True)
class World:
    """One MPI_COMM_WORLD: `ranks` holds the index in trace.ranks of each of its ranks, -1 for one without a place."""

    index: int
    job: str
    started_ns: int
    ranks: tuple[int, ...]


def kin(trace: Trace) -> dict[int, dict[int, tuple[int, ...]]]:
    """For each rank index: the processes of the other worlds that it knows, by its own numbers for them.

    A process knows the other side of a spawn only by its size. The two are paired by both sizes, and among equals in
    the order of time: MPI_Comm_spawn returns when the children have started.
    """
    known: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
    made: dict[tuple[object, ...], tuple[int, ...] | None] = {}
    parents: dict[int, tuple[int, ...]] = {}
    for rank in trace.ranks:
        seen: dict[tuple[int, ...], int] = defaultdict(int)
        for number, size, group in _spawns(trace, rank):
            seen[group] += 1
            key = (group, seen[group])
            if key not in made:
                child = _child(trace, rank.world, size, len(group), parents)
                made[key] = child.ranks if child else None
                if child:
                    parents[child.index] = group
            ranks = made[key]
            if ranks is not None:
                known[rank.index][number] = ranks
    for rank in trace.ranks:
        for definition in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS):
            if definition.origin == "parent" and rank.world in parents:
                known[rank.index][definition.index] = parents[rank.world]
    return dict(known)


def _spawns(trace: Trace, rank: Rank) -> list[tuple[int, int, tuple[int, ...]]]:
    """(own number of the new world, its size, rank indices of the spawning group) of each spawn of a rank."""
    found = []
    worlds = [d for d in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS) if d.origin.startswith("spawn")]
    for definition, comm in zip(worlds, _over(rank, [d.index for d in worlds]), strict=True):
        if definition.size <= MAX_GROUP:
            group = _expand(trace.worlds[rank.world].ranks, comm.local) if comm else ()
            found.append((definition.index, definition.size, group))
    return found


def births(trace: Trace) -> list[tuple[int, int, tuple[int, ...]]]:
    """Each spawn of each rank: rank index, its event, and the rank indices of the new world where that is known.

    Those of a rank are in order; one that failed made no world and is left out.
    """
    found = []
    functions = trace.functions.mask(["MPI_Comm_spawn", "MPI_Comm_spawn_multiple"])
    for rank in trace.ranks if len(trace.worlds) > 1 else ():
        numbers = [d.index for d in rank.definitions.all(Def.WORLD) if d.origin.startswith("spawn")]
        made = functions[rank.events["function"]] & (rank.events["flags"] & Flag.CLOSED != 0)
        events = np.flatnonzero(made & (rank.events["error"] == 0)).tolist() or [NOT_RECORDED] * len(numbers)
        others = rank.other_worlds()
        found += [(rank.index, e, others.get(n, ())) for e, n in zip(events, numbers, strict=False)]
    return found


def _over(rank: Rank, numbers: list[int]) -> list[CommDefinition | None]:
    """The intercommunicators whose remote groups are the worlds that the process gave these numbers."""
    found: dict[int, CommDefinition] = {}
    for comm in rank.definitions.all(Def.COMM) if numbers else ():
        worlds = {run.world for run in comm.remote} if comm.inter else set()
        if len(worlds) == 1:
            found.setdefault(worlds.pop(), comm)
    return [found.get(number) for number in numbers]


def _expand(world: tuple[int, ...], members: Members) -> tuple[int, ...]:
    if sum(run.count for run in members) > min(len(world), MAX_GROUP):
        return ()
    ranks = [run.first + i * run.stride for run in members for i in range(run.count)]
    return tuple(world[r] if 0 <= r < len(world) else -1 for r in ranks)


def _child(trace: Trace, parent: int, size: int, group: int, taken: dict[int, tuple[int, ...]]) -> World | None:
    """The first world that is still without a parent and fits."""
    for world in trace.worlds[parent + 1 :]:
        if world.index not in taken and len(world.ranks) == size and _parent_size(trace, world) in (None, group):
            return world
    return None


def _parent_size(trace: Trace, world: World) -> int | None:
    """What the first readable rank of a spawned world says of its parents' number."""
    for index in world.ranks:
        for definition in islice(trace.ranks[index].definitions.all(Def.WORLD), MAX_WORLDS) if index >= 0 else ():
            if definition.origin == "parent":
                return int(definition.size)
    return None
