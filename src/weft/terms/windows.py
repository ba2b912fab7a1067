"""Name windows and groups in a way that all ranks share."""

from __future__ import annotations

from weft.trace import Rank
from weft.trace.layout import Def

Window = tuple[int, int]
"""(communicator index, ordinal of the window on it)."""


EXCLUSIVE, SHARED = 1, 2
"""Types of locks, as the recorder numbers MPI_LOCK_EXCLUSIVE and MPI_LOCK_SHARED for every library."""


def window_of(rank: Rank, window_id: int) -> Window | None:
    """Return a window's name that is the same on all ranks: the index of its communicator, and its number there.
    `window_id`: the rank's own id for it. None if it is unknown.
    """
    definition = rank.definitions.window(window_id)
    comm = rank.comm(definition.comm) if definition else None
    return (comm.index, definition.ordinal) if comm and definition else None


def group_members(rank: Rank, group_id: int) -> tuple[int, ...]:
    """Return the members of a group as rank indices. Members of other worlds are left out. `group_id`: the rank's own
    id for the group.
    """
    runs = rank.definitions.get(Def.GROUP, group_id) or ()
    world = rank.trace.worlds[rank.world].ranks
    places = [run.first + i * run.stride for run in runs if run.world == 0 for i in range(run.count)]
    return tuple(world[place] for place in places if 0 <= place < len(world) and world[place] >= 0)
