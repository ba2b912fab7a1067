"""Worlds: the MPI_COMM_WORLDs of a run, and which of them spawned which."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, islice, repeat
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

    def spawn_times(self) -> list[tuple[int, int]]:
        """When each call that made a world began and ended; nothing where calls are not recorded."""
        ...


@dataclass(frozen=True, slots=True)
class _Spawn:
    """A call that made a world, by the ranks of `group`: in the time from `began` to `ended`, 0 where not known."""

    group: tuple[int, ...]
    world: int
    size: int
    began: int
    ended: int
    numbers: tuple[tuple[int, int], ...]
    """Rank index, and that rank's own number of the new world."""


def kin(ranks: Sequence[Process], worlds: Sequence[World]) -> tuple[dict[int, dict[int, tuple[int, ...]]], int]:
    """For each rank index: the processes of the other worlds that it knows, by its own numbers for them.

    A process knows the other side of a spawn only by its size. The two are paired by both sizes, and among equals in
    the order of time: that of the calls, and that in which the launcher started the children. Calls of one size that
    went on at the same time are not paired: nothing tells whose request came first. Their number is returned, too.
    """
    known: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
    parents: dict[int, tuple[int, ...]] = {}
    unknown = 0
    for calls in _at_once(_calls(ranks, worlds)):
        children = []
        for call in calls:
            child = _child(ranks, worlds[call.world + 1 :], call.size, len(call.group), parents)
            if child:
                parents[child.index] = call.group
                children.append(child)
        if len(calls) == 1 and children:
            for index, number in calls[0].numbers:
                known[index][number] = children[0].ranks
        elif len(calls) > 1:
            unknown += len(calls)
            parents.update((child.index, ()) for child in children)
    for rank in ranks:
        for definition in islice(rank.definitions.all(Def.WORLD), MAX_WORLDS):
            if definition.origin == "parent" and parents.get(rank.world):
                known[rank.index][definition.index] = parents[rank.world]
    return dict(known), unknown


def _at_once(calls: list[_Spawn]) -> list[list[_Spawn]]:
    """The calls in order of time, those of one size that overlap together."""
    found: list[list[_Spawn]] = []
    open_of: dict[tuple[int, int], list[_Spawn]] = {}
    for call in sorted(calls, key=lambda c: c.began):
        before = open_of.get((call.size, len(call.group)))
        if before and call.began < max(c.ended for c in before):
            before.append(call)
        else:
            open_of[call.size, len(call.group)] = [call]
            found.append(open_of[call.size, len(call.group)])
    return found


def _calls(ranks: Sequence[Process], worlds: Sequence[World]) -> list[_Spawn]:
    """Each spawn once: the n-th ones of the members of one group are one call."""
    found: dict[tuple[tuple[int, ...], int], _Spawn] = {}
    for rank in ranks:
        seen: Counter[tuple[int, ...]] = Counter()
        spawns = _spawns(rank, worlds)
        times = chain(rank.spawn_times() if spawns else (), repeat((0, 0)))
        for (number, size, group), (began, ended) in zip(spawns, times, strict=False):
            seen[group] += 1
            other = found.get((group, seen[group]))
            found[group, seen[group]] = _Spawn(
                group, rank.world, size,
                min(began, other.began) if other else began,
                max(ended, other.ended) if other else ended,
                (*(other.numbers if other else ()), (rank.index, number)),
            )  # fmt: skip
    return list(found.values())


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
