"""Worlds: the MPI_COMM_WORLDs of a run, and which of them spawned which."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from weft.base.lazy import dataclass
from weft.trace.definitions import CommDefinition, Definitions, Members, WorldDefinition
from weft.trace.layout import Def

MAX_GROUP: Final = 2**20
MAX_WORLDS: Final = 256
"""The most other worlds of one process that are read (the recorder names 64)."""


@dataclass(frozen=True, slots=True)
class World:
    """One MPI_COMM_WORLD: `ranks` holds the index in trace.ranks of each of its ranks, -1 for one without a place."""

    index: int
    job: str
    started_ns: int
    ranks: tuple[int, ...]


class WorldMember(Protocol):
    """What `kin` needs to know of a rank."""

    index: int
    world: int

    @property
    def definitions(self) -> Definitions:
        """Return the worlds and communicators that it knows."""
        ...


@dataclass(frozen=True, slots=True)
class _Spawn:
    """A call that made a world, by the ranks of `group`."""

    world: int
    group: tuple[int, ...]
    size: int
    name: str
    numbers: dict[int, int]
    """By rank index: that rank's own number of the new world."""


def find_known_worlds(ranks: Sequence[WorldMember], worlds: Sequence[World]) -> dict[int, dict[int, tuple[int, ...]]]:
    """Return which processes of other worlds each rank knows: for each rank index, the rank indices of a world by the
    number that the process has for this world.

    The root of a spawn and its children have a name for it, which the recorder gave. Where a process has none, it knows
    the other side only by its size: the two are paired by both sizes, and among equals in the order of time, as
    MPI_Comm_spawn returns when the children have started.
    """
    known: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
    parents: dict[int, tuple[int, ...]] = {}
    made = {world.index: d for world in worlds[1:] if (d := _parent_definition(ranks, world))}
    named = {definition.name: worlds[index] for index, definition in made.items() if definition.name}
    for spawn in sorted(_list_spawn_calls(ranks, worlds), key=lambda s: not s.name):
        child = (
            named.get(spawn.name) if spawn.name else _find_child_world(made, worlds[spawn.world + 1 :], spawn, parents)
        )
        if child:
            parents[child.index] = spawn.group
            for index, number in spawn.numbers.items():
                known[index][number] = child.ranks
    for rank in ranks:
        for definition in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS):
            if definition.origin == "parent" and rank.world in parents:
                known[rank.index][definition.index] = parents[rank.world]
    return dict(known)


def _list_spawn_calls(ranks: Sequence[WorldMember], worlds: Sequence[World]) -> list[_Spawn]:
    """Return each spawn of the run once. The definitions of all ranks that took part are joined: the n-th spawns of the
    members of a group are the same call. Only the root's definition has the spawn's name.
    """
    found: dict[tuple[tuple[int, ...], int], _Spawn] = {}
    for rank in ranks:
        seen: Counter[tuple[int, ...]] = Counter()
        made = [d for d in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS) if d.origin.startswith("spawn")]
        for definition, comm in zip(made, _find_intercomms(rank, [d.index for d in made]), strict=True):
            if definition.size > MAX_GROUP:
                continue
            group = _expand_group(worlds[rank.world].ranks, comm.local) if comm else ()
            seen[group] += 1
            other = found.get((group, seen[group]))
            numbers = {**(other.numbers if other else {}), rank.index: definition.index}
            name = (other.name if other else "") or definition.name
            found[group, seen[group]] = _Spawn(rank.world, group, definition.size, name, numbers)
    return list(found.values())


def _find_intercomms(rank: WorldMember, numbers: list[int]) -> list[CommDefinition | None]:
    """Return the intercommunicator of a process to each of some other worlds: the one with its remote group in this
    world. None if there is none. `numbers`: the process's numbers for these worlds.
    """
    found: dict[int, CommDefinition] = {}
    for comm in rank.definitions.all(Def.COMM) if numbers else ():
        worlds = {run.world for run in comm.remote} if comm.inter else set()
        if len(worlds) == 1:
            found.setdefault(worlds.pop(), comm)
    return [found.get(number) for number in numbers]


def _expand_group(world: tuple[int, ...], members: Members) -> tuple[int, ...]:
    """Return the members of a group as rank indices; -1 for a member outside of the world. Empty for an impossible
    list.
    """
    if sum(run.count for run in members) > min(len(world), MAX_GROUP):
        return ()
    ranks = [run.first + i * run.stride for run in members for i in range(run.count)]
    return tuple(world[r] if 0 <= r < len(world) else -1 for r in ranks)


def _find_child_world(
    spawned: Mapping[int, WorldDefinition], later: Sequence[World], spawn: _Spawn, taken: Mapping[int, tuple[int, ...]]
) -> World | None:
    """Return the first world that a spawn can have started; None if there is none. Its size must fit, and it must not
    have a parent yet. `later`: the worlds to look at; `taken`: worlds that have a parent.
    """
    for world in later:
        parent = spawned.get(world.index)
        fits = not parent or (parent.size == len(spawn.group) and not parent.name)
        if world.index not in taken and len(world.ranks) == spawn.size and fits:
            return world
    return None


def _parent_definition(ranks: Sequence[WorldMember], world: World) -> WorldDefinition | None:
    """Return the definition of a spawned world's parents, from its first readable rank that has one; None if no rank
    has.
    """
    for index in world.ranks:
        known: Iterator[WorldDefinition] = ranks[index].definitions.all(Def.WORLD) if index >= 0 else iter(())
        for definition in islice(known, MAX_WORLDS):
            if definition.origin == "parent":
                return definition
    return None
