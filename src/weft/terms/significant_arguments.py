"""Decide which arguments of a call are significant: the standard says of several that they are not, so nobody may judge
them.

One table serves all forms of a function. MPI_IN_PLACE makes one side's arguments void (MPI-4.1, 6.2.2), as does not
being the root (6.5 to 6.9), a peer of MPI_PROC_NULL (3.10, and 12.3 for one-sided calls), and MPI_NO_OP for the origin
(12.3.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.mpi import meaning
from weft.mpi.meaning import Act, InPlace, Leaves, Meaning, Share, functions_with
from weft.terms.argument_columns import Ints, decode_columns, integer_column, sorted_distinct
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
_TO_PEERS: Final = functions_with(Act.SEND, Act.RECEIVE, Act.ACCESS)
"""Calls with one peer, of which MPI_PROC_NULL makes nothing happen."""


def side_of(parameter: str) -> Side:
    """Return whether a parameter belongs to sending, to receiving or to both, by its name in the standard."""
    return next((side for prefix, side in _PREFIXES if parameter.startswith(prefix)), Side.OTHER)


def is_significant(rank: Rank, events: Ints, parameter: str) -> Mask:
    """Return a mask of the calls in which MPI uses the argument `parameter`. The calls must be of one function.

    In neighbourhood collectives with an entry for each neighbour, no entry counts as used: a neighbour may be
    MPI_PROC_NULL.
    """
    found = np.ones(len(events), np.bool_)
    if not len(events):
        return found
    row = meaning.find_meaning(rank.trace.functions[int(rank.events["function"][events[0]])].name)
    if row is None:
        return found
    side = side_of(parameter)
    if row.name in _TO_PEERS:
        found &= rank.events["peer"][events] != PROC_NULL
    if row.act is Act.ACCESS and side is Side.ORIGIN:
        found &= ~uses_mpi_no_op(rank, events)
    elif row.act is Act.SEND_RECEIVE:
        found &= _is_significant_in_sendrecv(rank, events, side)
    elif row.moves:
        found &= _is_significant_in_collective(rank, events, row, side, parameter)
    return found


def _is_significant_in_collective(rank: Rank, events: Ints, row: Meaning, side: Side, parameter: str) -> Mask:
    """Return a mask of the calls of a collective in which MPI uses the argument `parameter`. `row`: the function's
    meaning; `side`: whether the argument belongs to sending or receiving.
    """
    found = np.ones(len(events), np.bool_)
    sending, receiving = _VOID_SENDING, InPlace.RECEIVING_AT_ROOT
    if row.in_place in sending and not row.is_reduction and side is Side.SEND and parameter != "sendbuf":
        found &= rank.events["buffer"][events] != IN_PLACE
    lists = (Share.LISTED, Share.TYPED)
    if row.is_neighbourhood and (row.sends in lists or row.receives in lists) and parameter.endswith("s"):
        found[:] = False
    if row.is_rooted:
        found &= _is_significant_in_rooted(rank, events, row, side)
    if row.in_place is receiving and side is Side.RECEIVE and parameter != "recvbuf":
        found &= ~_receives_in_place(rank, events)
    return found


_VOID_SENDING: Final = (InPlace.SENDING, InPlace.SENDING_AT_ROOT)


def uses_mpi_no_op(rank: Rank, events: Ints) -> Mask:
    """Return a mask of the one-sided calls with the operation MPI_NO_OP. They only read the target, and use nothing of
    the origin buffer.
    """
    found = np.zeros(len(events), np.bool_)
    function = rank.trace.functions[int(rank.events["function"][events[0]])] if len(events) else None
    if function is None or "op" not in function.parameters_by_name:
        return found
    if any(p.name == "op" for p in function.slot.values()):
        return np.asarray(rank.events["tag"][events] == NO_OP, np.bool_)
    for at, values in _tail_values(rank, events, "op"):
        found[at] = values == NO_OP
    return found


def _tail_values(rank: Rank, events: Ints, name: str) -> Iterator[tuple[Ints, Ints]]:
    """Yield (indices in `events`, values) of a scalar argument that has no room in the fixed part of the calls'
    records. `events` must ascend.
    """
    for found, values in decode_columns(rank, events, frozenset((name,))):
        if name in values:
            yield np.searchsorted(events, found), integer_column(values, name)


def _receives_in_place(rank: Rank, events: Ints) -> Mask:
    """Return a mask of the calls whose receive buffer is MPI_IN_PLACE."""
    found = np.zeros(len(events), np.bool_)
    for at, values in _tail_values(rank, events, "recvbuf"):
        found[at] = values.astype(np.uint64) == IN_PLACE
    return found


def _is_significant_in_sendrecv(rank: Rank, events: Ints, side: Side) -> Mask:
    """Return a mask of the calls of MPI_Sendrecv in which one half has a partner: the sending or the receiving one, as
    `side` says. For an argument of both halves, either may have one.
    """
    sends = rank.events["peer"][events] != PROC_NULL
    receives = np.ones(len(events), np.bool_)
    for at, values in _tail_values(rank, events, "source"):
        receives[at] = values != PROC_NULL
    result: Mask = {Side.SEND: sends, Side.RECEIVE: receives}.get(side, sends | receives)
    return result


def _is_significant_in_rooted(rank: Rank, events: Ints, row: Meaning, side: Side) -> Mask:
    """Return a mask of the calls of a rooted collective in which MPI uses the send or the receive side, as `side` says.

    In a gather, MPI uses the receive side only at the root; in a scatter, it uses the send side only there. On
    intercommunicators, MPI_ROOT and MPI_PROC_NULL tell who is the root.
    """
    peer, ids = rank.events["peer"][events], rank.events["comm"][events]
    is_root, inter = peer == ROOT, np.zeros(len(events), np.bool_)
    for id in sorted_distinct(ids).tolist():
        comm = rank.comm(id)
        mine = ids == id
        inter[mine] = comm is not None and comm.inter
        if comm is not None and not comm.inter:
            is_root[mine] = peer[mine] == comm.rank_of(rank.index)
    found: Mask = ~(inter & (peer == PROC_NULL))
    one_buffer = row.in_place is InPlace.NOWHERE  # a broadcast's, which its root sends and the others receive into
    roots = Side.SEND if row.leaves is Leaves.AFTER_ROOT else Side.RECEIVE
    if side is roots and not one_buffer:
        found &= is_root
    elif not one_buffer and side is not Side.OTHER:  # of two groups the root's own only gives, or only takes
        found &= ~(inter & is_root)
    return found
