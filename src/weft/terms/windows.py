"""Name windows and groups in a way that all ranks share."""

from __future__ import annotations

from weft.trace import Rank
from weft.trace.layout import Def

Window = tuple[int, int]
"""(communicator index, ordinal of the window on it)."""


EXCLUSIVE, SHARED = 1, 2
"""Types of locks, as the recorder numbers MPI_LOCK_EXCLUSIVE and MPI_LOCK_SHARED for every library."""


def window_of(rank: Rank, local: int) -> Window | None:
    """Return the window that a rank knows by an id."""
    definition = rank.definitions.window(local)
    comm = rank.comm(definition.comm) if definition else None
    return (comm.index, definition.ordinal) if comm and definition else None


def group_members(of: Rank, group: int) -> tuple[int, ...]:
    """Return the members of a group as indices in trace.ranks, without those of other worlds."""
    runs = of.definitions.get(Def.GROUP, group) or ()
    world = of.trace.worlds[of.world].ranks
    places = [run.first + i * run.stride for run in runs if run.world == 0 for i in range(run.count)]
    return tuple(world[place] for place in places if 0 <= place < len(world) and world[place] >= 0)
