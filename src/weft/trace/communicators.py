"""Communicators, unified over the ranks: every process's own ids lead to one object with one name.

Two processes mean the same communicator when parent, making function, members and key agree and this combination
occurs for the same number of times on each: MPI makes every member take part in the making of a communicator, in one
order
(MPI-4.1, 7.4.2). Intercommunicators are known by their two groups, as each side has its own parent for it.
"""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Protocol

from weft.trace.definitions import CommDefinition, Members
from weft.trace.functions import FunctionTable
from weft.trace.layout import ID_SELF, ID_WORLD
from weft.trace.worlds import World

MAX_MEMBERS: Final = 2**20
MEMBERS_BUDGET: Final = 2**24
"""Member lists of a run are kept up to this many entries together, as hostile definitions could ask for any number."""


class Communicator:
    """One communicator of the run.

    `members` are indices in trace.ranks, -1 for a process that has no record; `remote_members` the other group of an
    intercommunicator. Which group comes first is the same for all ranks: see `peers` for one rank's view.
    """

    __slots__ = ("_places", "function", "index", "inter", "key", "label", "local_ids", "members", "name", "ordinal",
                 "parent", "remote_members")  # fmt: skip

    def __init__(
        self, index: int, name: str, members: tuple[int, ...], *, remote_members: tuple[int, ...] | None = None,
        parent: Communicator | None = None, function: str = "", ordinal: int = 0, key: str = "",
    ) -> None:  # fmt: skip
        self.index = index
        self.name = name
        self.inter = remote_members is not None
        self.members = members
        self.remote_members: tuple[int, ...] = remote_members or ()
        self.parent = parent
        self.function = function
        self.ordinal = ordinal
        self.key = key
        self.label: str | None = None
        self.local_ids: dict[int, int] = {}
        self._places: dict[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Communicator {self.name}>"

    @property
    def size(self) -> int:
        """Return the number of processes in the (first) group."""
        return len(self.members)

    def group(self, rank: int) -> tuple[int, ...]:
        """Return the group of this communicator to which a process belongs. `rank`: its rank index."""
        return self.remote_members if self.inter and self._is_in_second_group(rank) else self.members

    def peers(self, rank: int) -> tuple[int, ...]:
        """Return the processes that ranks in calls on this communicator mean, as rank indices. In an intercommunicator
        these are the members of the other group. `rank`: rank index of the caller.
        """
        if not self.inter:
            return self.members
        return self.members if self._is_in_second_group(rank) else self.remote_members

    def peer(self, rank: int, peer: int) -> int:
        """Return the rank index of the process that a call means by the rank `peer` of this communicator. -1 for no
        process or an unknown one. `rank`: rank index of the caller.
        """
        group = self.peers(rank)
        return group[peer] if 0 <= peer < len(group) else -1

    def rank_of(self, rank: int) -> int:
        """Return the rank in this communicator of the process with index `rank`, -1 if it is not a member."""
        if self._places is None:
            self._places = {member: i for i, member in enumerate(self.remote_members) if member >= 0}
            self._places.update({member: i for i, member in enumerate(self.members) if member >= 0})
        return self._places.get(rank, -1)

    def _is_in_second_group(self, rank: int) -> bool:
        return rank in self.remote_members and rank not in self.members


class Process(Protocol):
    """What `Communicators` needs to know of a rank."""

    index: int
    world: int
    rank: int

    def communicator_definitions(self) -> Sequence[CommDefinition]:
        """Return the communicators that the process made, in order."""

    def other_worlds(self) -> dict[int, tuple[int, ...]]:
        """Return the rank indices of the processes of other worlds, by this process's own numbers for the worlds."""

    def given_name(self, cls: int, id: int) -> str | None:
        """Return the name that MPI_Comm_set_name gave an object."""


def format_members(members: Sequence[int], most_characters: int = 40) -> str:
    """Return indices as text with ranges, such as `0,2,4-7`; long lists are cut."""
    parts: list[str] = []
    i = 0
    while i < len(members) and sum(map(len, parts)) + len(parts) < most_characters:
        j = i
        while j + 1 < len(members) and members[j + 1] == members[j] + 1:
            j += 1
        parts.append("?" if members[i] < 0 else f"{members[i]}-{members[j]}" if j > i else str(members[i]))
        i = j + 1
    if i < len(members):
        parts.append(f"...{len(members)} ranks")
    return ",".join(parts)


def short_function_name(name: str) -> str:
    """Return a short word for a function that makes communicators:

    `split` for MPI_Comm_split, `cart` for MPI_Cart_create.
    """
    word = name.removeprefix("MPI_").removeprefix("Comm_").removesuffix("_c").lower()
    if word in ("create", "create_group"):
        return word
    for ending in ("_create", "_with_info", "_multiple"):
        word = word.removesuffix(ending)
    return word.replace("_create_", "_").removeprefix("intercomm_") if word != "intercomm" else word


def intercomm_maker(function: str, key: str) -> tuple[str, bool]:
    """Return the function after which an intercommunicator is named, and whether its two sides made it by different
    calls.

    The children of a spawn get theirs from MPI_Comm_get_parent; if one side calls MPI_Comm_accept, the other side calls
    MPI_Comm_connect.
    """
    if key == "parent" or "spawn" in function:
        return "MPI_Comm_spawn", True
    if function in ("MPI_Comm_accept", "MPI_Comm_connect"):
        return "MPI_Comm_accept", True
    return function, False


def _includes_rank(rank: int, members: Members) -> bool:
    """Return whether a rank of the process's own world is among the members."""
    for run in members:
        steps, rest = divmod(rank - run.first, run.stride or 1)
        if not run.world and not rest and 0 <= steps < run.count:
            return True
    return False


class Communicators:
    """Unifies the communicators of all ranks into one list, `all`. `problems` says what could not be unified."""

    def __init__(self, ranks: Sequence[Process], worlds: Sequence[World], functions: FunctionTable) -> None:
        self.all: list[Communicator] = []
        self.problems: list[str] = []
        self._worlds = worlds
        self._functions = functions
        self._budget = MEMBERS_BUDGET
        self._runs: dict[tuple[object, ...], tuple[int, ...] | None] = {}
        self._tuples: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._by_rank: list[dict[int, Communicator]] = [{} for _ in ranks]
        self._known: dict[tuple[object, ...], Communicator] = {}
        self._names: dict[str, int] = defaultdict(int)
        for world in worlds:
            self._add_communicator(f"world{world.index or ''}", world.ranks)
        for rank in ranks:
            self._by_rank[rank.index][ID_WORLD] = self.all[rank.world]
            self.all[rank.world].local_ids[rank.index] = ID_WORLD
        for rank in ranks:  # before what is made from it
            own = self._add_communicator(f"self[{rank.index}]", (rank.index,))
            self._by_rank[rank.index][ID_SELF] = own
            own.local_ids[rank.index] = ID_SELF
        for rank in ranks:
            self._unify_definitions(rank)

    def of(self, rank: int, id: int) -> Communicator | None:
        """Return the communicator that a rank knows by `id`; None if there is none. `rank`: rank index."""
        return self._by_rank[rank].get(id)

    def ids(self, rank: int) -> dict[int, Communicator]:
        """Return all communicators of a rank, by the ids that the rank has for them. `rank`: rank index."""
        return self._by_rank[rank]

    def _add_communicator(
        self, name: str, members: tuple[int, ...], remote: tuple[int, ...] | None = None
    ) -> Communicator:
        """Add a communicator to the list; a name that is taken gets a number."""
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}~{self._names[name]}"
        made = Communicator(len(self.all), name, members, remote_members=remote)
        self.all.append(made)
        return made

    def _unify_definitions(self, rank: Process) -> None:
        """Find, for each communicator that a rank defines, the object that all its members share, or make it."""
        seen: dict[tuple[object, ...], int] = defaultdict(int)
        own = self._by_rank[rank.index]
        for definition in rank.communicator_definitions():
            if definition.id in (ID_WORLD, ID_SELF):
                continue
            local = self._expand_members(rank, definition.local)
            remote = self._expand_members(rank, definition.remote) if definition.inter else ()
            if local is None or remote is None:
                continue
            if definition.local and not _includes_rank(rank.rank, definition.local):
                self._note_problem(f"rank {rank.index} defines a communicator that it is not in; Weft ignores it")
                continue
            parent = own.get(definition.parent)
            if not definition.inter and not definition.local and parent is not None:
                local = parent.members  # where a world grows, what is made of it has all its members
            function = self._functions[definition.function].base
            if definition.inter:
                groups = tuple(sorted((local, remote)))
                function, two_ways = intercomm_maker(function, definition.key)
                key: tuple[object, ...] = (function, *groups, "" if two_ways else definition.key)
            else:
                key = (function, parent.index if parent else -1, local, definition.key)
            seen[key] += 1
            key = (*key, seen[key])
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = self._make_communicator(definition, parent, function, local, remote)
            own[definition.id] = known
            known.local_ids.setdefault(rank.index, definition.id)
            known.label = known.label or rank.given_name(1, definition.id)

    def _make_communicator(
        self, d: CommDefinition, parent: Communicator | None, function: str, local: tuple[int, ...],
        remote: tuple[int, ...],
    ) -> Communicator:  # fmt: skip
        """Make a communicator from the definition of the first rank that has it. Its name comes from its parent and the
        function that made it.
        """
        word = short_function_name(function)
        origin = parent.name if parent else "unknown" if d.parent else "session"
        if d.inter:
            first, second = sorted((local, remote))
            made = self._add_communicator(
                f"{word}#{d.ordinal}[{format_members(first)}|{format_members(second)}]", first, second
            )
        else:
            place = "" if parent and local == parent.members else f"[{format_members(local)}]"
            grown = self._functions.system.grows
            made = self._add_communicator(f"context {d.key}" if grown else f"{origin}.{word}#{d.ordinal}{place}", local)
        made.parent, made.function, made.ordinal, made.key = parent, function, d.ordinal, d.key
        return made

    def _expand_members(self, rank: Process, members: Members) -> tuple[int, ...] | None:
        """Return the members of a group as rank indices. None if the list is impossible; a problem is noted then."""
        key = (rank.world, *members)
        others: dict[int, tuple[int, ...]] = {}
        if any(run.world for run in members):
            others = rank.other_worlds()
            key = (rank.index, *members)
        if key not in self._runs:
            self._runs[key] = self._expand_runs(rank, members, others)
        return self._runs[key]

    def _expand_runs(
        self, rank: Process, members: Members, others: dict[int, tuple[int, ...]]
    ) -> tuple[int, ...] | None:
        """Return the members of a group, stored as runs (first, stride, count), as rank indices; -1 for an unknown
        member.

        If there are more members than Weft believes, a problem is noted and the result is None.
        """
        total = sum(run.count for run in members)
        if total > min(MAX_MEMBERS, self._budget):
            self._note_problem(f"rank {rank.index} defines a communicator of {total} members; Weft ignores it")
            return None
        self._budget -= total
        found: list[int] = []
        for run in members:
            known = others.get(run.world, ()) if run.world else self._worlds[rank.world].ranks
            last = run.first + run.stride * (run.count - 1)
            if run.count and known and not (0 <= run.first < len(known) and 0 <= last < len(known)):
                self._note_problem(
                    f"rank {rank.index} defines a communicator with rank {max(run.first, last)} of a world of "
                    f"{len(known)}, so Weft does not know these members"
                )
            for i in range(run.count):
                member = run.first + i * run.stride
                found.append(known[member] if 0 <= member < len(known) else -1)
        return self._tuples.setdefault(tuple(found), tuple(found))

    def _note_problem(self, text: str) -> None:
        if len(self.problems) < 10:
            self.problems.append(text)
