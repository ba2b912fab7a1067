"""List the edges of topologies: which member sends to which neighbour (MPI-4.1, 8.5.1, 8.5.4 and 8.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from weft.mpi.meaning import base_name
from weft.terms.calls import masks_of, word_set
from weft.trace import Communicator, Event, Rank, Trace

_MAKERS: Final = word_set("Cart_create Dist_graph_create_adjacent")
MOST: Final = 4096
"""Members of a topology that is looked at."""


class Edge(NamedTuple):
    """An edge from `sender` to `receiver`: neighbour number `out` of the sender, number `into` of the receiver; -1
    unknown.
    """

    sender: int
    out: int
    receiver: int
    into: int


def topology_edges(trace: Trace, comm: Communicator) -> list[Edge]:
    """Return the edges of a communicator's topology between its ranks, from the calls that made the topology. A member
    that never returned from that call has no edges.
    """
    makers = {
        comm.rank_of(index): made for index in comm.members if (made := _find_creating_call(trace.ranks[index], comm))
    }
    names = {base_name(event.function.name) for event in makers.values()}
    if len(names) != 1 or len(comm.members) > MOST:
        return []
    if names == {"Cart_create"}:
        args = next(iter(makers.values())).args
        return list(_grid_edges(args["dims"], [bool(one) for one in args["periods"]]))
    return list(_graph_edges(makers))


def _find_creating_call(rank: Rank, comm: Communicator) -> Event | None:
    """Return the call by which a rank made a communicator with a topology; None if it is not in the record."""
    for index in masks_of(rank.trace.functions).where(rank, _MAKERS).tolist():
        event = rank.event(index)
        made = rank.comm(event.args.get("comm_cart", event.args.get("comm_dist_graph", 0)))
        if made is not None and made.index == comm.index:
            return event
    return None


def _grid_edges(dims: list[int], periods: list[bool]) -> Iterator[Edge]:
    """Yield the edges of a Cartesian grid. At each rank the neighbours are numbered by dimension, the lower one first;
    ranks count fastest in the last dimension.
    """
    size = 1
    for n in dims:
        size *= n
    for rank in range(size):
        step = size
        for d, n in enumerate(dims):
            step //= n
            at = rank // step % n
            for out, to in ((2 * d, at - 1), (2 * d + 1, at + 1)):
                if periods[d] or 0 <= to < n:
                    # Of the neighbour in one direction the member lies in the other. Where both are one rank,
                    # libraries pair them in two ways (MPI-4.1 says which, older texts do not).
                    other = rank + (to % n - at) * step
                    yield Edge(rank, out, other, out ^ 1) if n > 2 or not periods[d] else Edge(rank, -1, other, -1)


def _graph_edges(makers: dict[int, Event]) -> Iterator[Edge]:
    """Yield the edges of a distributed graph topology that both of their ranks declare. If there are several edges
    between the same two ranks, the n-th that the sender declares is the n-th that the receiver declares.

    `makers`: for each rank the call that made the topology.
    """
    sources = {rank: event.args["sources"] for rank, event in makers.items()}
    for sender, event in makers.items():
        seen: dict[int, int] = {}
        for out, receiver in enumerate(event.args["destinations"]):
            nth = seen[receiver] = seen.get(receiver, -1) + 1
            places = [place for place, rank in enumerate(sources.get(receiver, [])) if rank == sender]
            if nth < len(places):
                yield Edge(sender, out, receiver, places[nth])


def find_unequal_edge_counts(events: dict[int, Event]) -> tuple[Event, Event, int, int] | None:
    """Find the first two members that disagree on how many edges lead from one to the other; None if all agree.

    Return (call of the sender, call of the receiver, number of edges that the sender names, number that the receiver
    names).
    """
    for sender, event in events.items():
        for receiver, other in events.items():
            gives, takes = event.args["destinations"].count(receiver), other.args["sources"].count(sender)
            if gives != takes:
                return event, other, gives, takes
    return None
