"""Worlds: the MPI_COMM_WORLDs of a run, and which of them spawned which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from weft.plain import dataclass
from weft.trace.definitions import CommDefinition, Definitions, Members
from weft.trace.layout import Def

MAX_GROUP: Final = 2**20
MAX_WORLDS: Final = 256
"""Other worlds of one process that are looked at (the recorder names 64)."""


@dataclass(frozen=True, slots=True)
class World:
    """One MPI_COMM_WORLD: `ranks` holds the index in trace.ranks of each of its ranks, -1 for one without a place."""

    index: int
    job: str
    started_ns: int
    ranks: tuple[int, ...]


class Process(Protocol):
    """What is asked of a rank here."""

    index: int
    world: int

    @property
    def definitions(self) -> Definitions:
        """Worlds and communicators that it knows."""
        ...


def kin(ranks: Sequence[Process], worlds: Sequence[World]) -> dict[int, dict[int, tuple[int, ...]]]:
    """For each rank index: the processes of the other worlds that it knows, by its own numbers for them.

    A process knows the other side of a spawn only by its size. The two are paired by both sizes, and among equals in
    the order of time: MPI_Comm_spawn returns when the children have started.
    """
    known: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
    made: dict[tuple[object, ...], tuple[int, ...] | None] = {}
    parents: dict[int, tuple[int, ...]] = {}
    for rank in ranks:
        seen: dict[tuple[int, ...], int] = defaultdict(int)
        for number, size, group in _spawns(rank, worlds):
            seen[group] += 1
            key = (group, seen[group])
            if key not in made:
                child = _child(ranks, worlds[rank.world + 1 :], size, len(group), parents)
                made[key] = child.ranks if child else None
                if child:
                    parents[child.index] = group
            brought = made[key]
            if brought is not None:
                known[rank.index][number] = brought
    for rank in ranks:
        for definition in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS):
            if definition.origin == "parent" and rank.world in parents:
                known[rank.index][definition.index] = parents[rank.world]
    return dict(known)


def _spawns(rank: Process, worlds: Sequence[World]) -> list[tuple[int, int, tuple[int, ...]]]:
    """(own number of the new world, its size, rank indices of the spawning group) of each spawn of a rank."""
    found = []
    made = [d for d in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS) if d.origin.startswith("spawn")]
    for definition, comm in zip(made, _over(rank, [d.index for d in made]), strict=True):
        if definition.size <= MAX_GROUP:
            group = _expand(worlds[rank.world].ranks, comm.local) if comm else ()
            found.append((definition.index, definition.size, group))
    return found


def _over(rank: Process, numbers: list[int]) -> list[CommDefinition | None]:
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


def _child(
    ranks: Sequence[Process], later: Sequence[World], size: int, group: int, taken: Mapping[int, tuple[int, ...]]
) -> World | None:
    """The first world that is still without a parent and fits."""
    for world in later:
        if world.index not in taken and len(world.ranks) == size and _parent_size(ranks, world) in (None, group):
            return world
    return None


def _parent_size(ranks: Sequence[Process], world: World) -> int | None:
    """What the first readable rank of a spawned world says of its parents' number."""
    for index in world.ranks:
        for definition in islice(ranks[index].definitions.all(Def.WORLD), MAX_WORLDS) if index >= 0 else ():
            if definition.origin == "parent":
                return int(definition.size)
    return None
