"""Which arguments of a call count: of several the standard says that they are not significant: nobody may judge them.

One table for all forms of a function. MPI_IN_PLACE makes one side's arguments void (MPI-4.1, 6.2.2), as does being no
root (6.5 to 6.9), a peer of MPI_PROC_NULL (3.10, and 12.3 for one-sided calls), and MPI_NO_OP for the origin (12.3.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.terms import calls
from weft.terms.calls import masks, words
from weft.terms.columns import Ints, columns, distinct, ints
from weft.trace import Rank
from weft.trace.layout import IN_PLACE, PROC_NULL, ROOT

Mask = NDArray[np.bool_]

NO_OP: Final = 15
"""MPI_NO_OP among the predefined operations, as the recorder numbers them."""


class Side(Enum):
    """What an argument is about."""

    SEND = auto()
    RECEIVE = auto()
    ORIGIN = auto()
    OTHER = auto()


_PREFIXES: Final = (
    ("send", Side.SEND), ("sdispl", Side.SEND), ("dest", Side.SEND), ("recv", Side.RECEIVE), ("rdispl", Side.RECEIVE),
    ("source", Side.RECEIVE), ("origin", Side.ORIGIN),
)  # fmt: skip
_GATHERS: Final = words("Gather Gatherv Reduce")
_SCATTERS: Final = words("Scatter Scatterv")
_IN_PLACE_SENDS: Final = words("Allgather Allgatherv Alltoall Alltoallv Alltoallw Gather Gatherv")
"""Those of which MPI_IN_PLACE as the send buffer makes the other arguments of the sending side void."""
_ONE_SIDED: Final = calls.RMA | calls.REQUEST_RMA
_TO_PEERS: Final = (
    calls.SENDS | calls.ISENDS | calls.SEND_INITS | calls.RECVS | calls.IRECVS | calls.RECV_INITS | _ONE_SIDED
    | words("Psend_init Precv_init")
)  # fmt: skip
_PAIRS: Final = calls.SENDRECVS | calls.ISENDRECVS


def side_of(parameter: str) -> Side:
    """The side that a parameter belongs to, by its name in the standard."""
    return next((side for prefix, side in _PREFIXES if parameter.startswith(prefix)), Side.OTHER)


@cache
def _blocking_names() -> dict[str, str]:
    names = calls.DATA_COLLECTIVES
    return {form: n for n in names for form in (n, "I" + n.lower(), n + "_init")}


def blocking(name: str) -> str:
    """The blocking collective of which a function is a form: Gather of Igather and Gather_init; else its own name."""
    return _blocking_names().get(name, name)


def significant(rank: Rank, events: Ints, parameter: str) -> Mask:
    """For calls of one function, in which of them the parameter counts.

    Of the neighbourhood collectives with an entry for each neighbour none: a neighbour may be MPI_PROC_NULL.
    """
    found = np.ones(len(events), np.bool_)
    if not len(events):
        return found
    own = masks(rank.trace.functions).name(int(rank.events["function"][events[0]]))
    name, side = blocking(own), side_of(parameter)
    peer = rank.events["peer"][events]
    if own in _TO_PEERS:
        found &= peer != PROC_NULL
    if own in _ONE_SIDED and side is Side.ORIGIN:
        found &= ~nothing_given(rank, events)
    elif own in _PAIRS:
        found &= _of_pair(rank, events, side)
    elif name in _IN_PLACE_SENDS and side is Side.SEND and parameter != "sendbuf":
        found &= rank.events["buffer"][events] != IN_PLACE
    if name in calls.NEIGHBOURS and name.endswith(("v", "w")) and parameter.endswith("s"):
        found[:] = False
    if name in _GATHERS | _SCATTERS | words("Bcast"):
        found &= _of_rooted(rank, events, name, side)
    if name in _SCATTERS and side is Side.RECEIVE and parameter != "recvbuf":
        found &= ~_received_in_place(rank, events)
    return found


def nothing_given(rank: Rank, events: Ints) -> Mask:
    """Which one-sided calls have the operation MPI_NO_OP: they read the target and use nothing of the origin."""
    found = np.zeros(len(events), np.bool_)
    function = rank.trace.functions[int(rank.events["function"][events[0]])] if len(events) else None
    if function is None or "op" not in function.by_name:
        return found
    if any(p.name == "op" for p in function.slot.values()):
        return np.asarray(rank.events["tag"][events] == NO_OP, np.bool_)
    for at, values in _rows(rank, events, "op"):
        found[at] = values == NO_OP
    return found


def _rows(rank: Rank, events: Ints, name: str) -> Iterator[tuple[Ints, Ints]]:
    """The places of events, which ascend, with the values of a scalar parameter in their tail."""
    for found, values in columns(rank, events, frozenset((name,))):
        if name in values:
            yield np.searchsorted(events, found), ints(values, name)


def _received_in_place(rank: Rank, events: Ints) -> Mask:
    found = np.zeros(len(events), np.bool_)
    for at, values in _rows(rank, events, "recvbuf"):
        found[at] = values.astype(np.uint64) == IN_PLACE
    return found


def _of_pair(rank: Rank, events: Ints, side: Side) -> Mask:
    """Of MPI_Sendrecv each half has a peer of its own; what both halves share counts where either has one."""
    sends = rank.events["peer"][events] != PROC_NULL
    receives = np.ones(len(events), np.bool_)
    for at, values in _rows(rank, events, "source"):
        receives[at] = values != PROC_NULL
    result: Mask = {Side.SEND: sends, Side.RECEIVE: receives}.get(side, sends | receives)
    return result


def _of_rooted(rank: Rank, events: Ints, name: str, side: Side) -> Mask:
    """Only the root uses what a gather receives and what a scatter sends; MPI_ROOT and MPI_PROC_NULL say the same."""
    peer, ids = rank.events["peer"][events], rank.events["comm"][events]
    is_root, inter = peer == ROOT, np.zeros(len(events), np.bool_)
    for id in distinct(ids).tolist():
        comm = rank.comm(id)
        mine = ids == id
        inter[mine] = comm is not None and comm.inter
        if comm is not None and not comm.inter:
            is_root[mine] = peer[mine] == comm.rank_of(rank.index)
    found: Mask = ~(inter & (peer == PROC_NULL))
    if (name in _GATHERS and side is Side.RECEIVE) or (name in _SCATTERS and side is Side.SEND):
        found &= is_root
    elif name != "Bcast" and side is not Side.OTHER:  # of two groups the root's own only gives, or only takes
        found &= ~(inter & is_root)
    return found
