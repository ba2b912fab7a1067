"""Partitions of a partitioned send that are not ready (MPI-4.1, 4.2): until each is, neither side is complete."""

from __future__ import annotations

from collections.abc import Iterable

from weft.terms import calls
from weft.terms.calls import masks_of
from weft.trace import Event, Rank


def find_missing_partitions(rank: Rank, init: Event, start: int) -> list[int]:
    """Return the partitions of a partitioned send that no call after the event index `start` has marked as ready.
    `init`: the call that made the send."""
    ready: set[int] = set()
    rows = masks_of(rank.trace.functions).where(rank, calls.READIES)
    for index in rows[(rows > start) & (rank.events["object"][rows] == init.object)].tolist():
        event = rank.event(int(index))
        if not event.error:
            ready.update(partitions_made_ready(event))
    partitions = int(init.args.get("partitions", 0))
    return [p for p in range(min(partitions, 1 << 20)) if p not in ready]


def partitions_made_ready(event: Event) -> Iterable[int]:
    """Return the partitions that a call marks as ready."""
    args = event.args
    if "partition_low" in args:
        return range(args["partition_low"], min(args["partition_high"], 1 << 20) + 1)
    found: Iterable[int] = args.get("array_of_partitions") or [args.get("partition", -1)]
    return found


def has_unready_send(rank: Rank, receive: Event) -> bool:
    """Return whether `rank` has started a partitioned send to the caller of `receive`, but not marked all of its
    partitions as ready."""
    comm = receive.comm
    inits = masks_of(rank.trace.functions).where(rank, frozenset(("Psend_init",)))
    starts = masks_of(rank.trace.functions).where(rank, calls.STARTS)
    for index in inits.tolist():
        init = rank.event(int(index))
        if init.comm is not comm or comm is None or comm.peer(rank.index, init.peer) != receive.rank.index:
            continue
        mine = [int(s) for s in starts if init.object in _started(rank.event(int(s)))]
        if init.tag == receive.tag and mine and find_missing_partitions(rank, init, mine[-1]):
            return True
    return False


def _started(event: Event) -> set[int]:
    """Return the requests that a call started."""
    return {event.object, *event.args.get("array_of_requests", [])} if not event.error else set()


def describe_partitions(partitions: list[int]) -> str:
    """Return `partition 1` or `partitions 1, 2 and 4 more`."""
    shown = ", ".join(map(str, partitions[:4]))
    more = f" and {len(partitions) - 4} more" if len(partitions) > 4 else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{more}"
