"""Verify findings of this room from the record alone, by other means than the analysis.

The access must be in the record, between the calls that the evidence names. A pending operation must have begun before
and completed after it. Of two racing accesses neither may be in the other's causal past, which is computed anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.access.recorded_accesses import PlacedRows
from weft.base.event_id import EventId
from weft.evidence import Met, MetOperation, MetPending, MetShared
from weft.order import Order
from weft.trace import Rank, Trace
from weft.trace.layout import TouchKind


def verify_evidence(trace: Trace, evidence: Met, order: Order | None = None) -> bool:
    """Return whether a finding's evidence agrees with the record. Evidence of a race needs `order`, the happens-before
    order of the run; without it the result is False.
    """
    if isinstance(evidence, MetPending):
        return _verify_pending(trace, evidence)
    return order is not None and _verify_unordered(trace, evidence, order)


def _verify_pending(trace: Trace, evidence: MetPending) -> bool:
    """Return whether the record confirms an access to a pending buffer: the access exists, lies between the operation's
    calls, and touches its bytes.
    """
    index, before = evidence.before
    rank = trace.ranks[index]
    started, completed = evidence.started, evidence.completed
    if started.rank != index or not _has_access_and_buffer(rank, before, evidence):
        return False
    if completed is None:
        return started.event < before
    return started.event < before <= completed.event or _is_between_by_clock(
        rank, started.event, completed.event, evidence.ticks
    )


def _has_access_and_buffer(rank: Rank, event_after: int, evidence: MetPending) -> bool:
    """Return whether the record has the access just before an event, and the buffer, both as the evidence says."""
    placed = PlacedRows(rank)
    touches, buffers = placed.read_accesses(), placed.read_buffers()
    low, high = evidence.bytes
    writes = evidence.access == "write"
    near = np.flatnonzero((touches.before == event_after) & (touches.low < high) & (touches.high > low))
    seen = any(
        touches.find_shared_bytes(row, low, high) == (low, high) and touches.writes[row] == writes
        for row in near.tolist()
    )
    own = buffers.event == evidence.started.event
    if not writes:
        own &= buffers.written
    span = 2 * buffers.bytes
    held = bool((own & (buffers.address - span <= low) & (high <= buffers.address + span)).any())
    return seen and held


def _is_between_by_clock(rank: Rank, start_event: int, end_event: int, ticks: int) -> bool:
    """Return whether an access of another thread lies between the calls that start and complete an operation, by the
    clock. `ticks`: the time of the access. False if the rank has only one thread.
    """
    several = len(rank.threads) > 1 or bool((rank.accesses_to_pending_buffers["thread"] == 0).any())
    enter = rank.events["enter"]
    return several and int(enter[start_event]) < ticks < int(enter[end_event])


def _verify_unordered(trace: Trace, evidence: Met, order: Order) -> bool:
    """Return whether the record confirms a race: the access exists, and neither it nor its counterpart happens before
    the other.
    """
    if not _has_access(trace, evidence.before, evidence.ticks):
        return False
    if isinstance(evidence, MetShared):
        first, second = evidence.before, evidence.other
        return not _is_after(trace, order, second, first) and not _is_after(trace, order, first, second)
    if not isinstance(evidence, MetOperation):
        return False
    rank, before = evidence.before
    operation, over = evidence.operation, evidence.over
    if operation.rank == rank and len(trace.ranks[rank].threads) > 1:
        return _may_threads_overlap(trace.ranks[rank], evidence)
    own = operation.rank == rank
    known = operation.event >= before if own else _is_in_past(trace, order, operation, rank, before)
    complete = over is not None and (
        over.event < before if own else _is_in_past(trace, order, EventId(rank, before - 1), *over)
    )
    return not known and not complete


def _may_threads_overlap(rank: Rank, evidence: MetOperation) -> bool:
    """Return whether a thread's access may overlap another thread's operation: whether the record has no release by the
    first of the two in between, with an acquisition by the other after it.
    """
    rows = rank.accesses_to_pending_buffers
    access = rows[(rows["first"] == evidence.ticks) & (rows["kind"] < TouchKind.SENT)]
    slot = rank.locate(evidence.operation.event)[0].slot
    tids = rows["tid"][rows["thread"] == slot + 1]
    if not len(access) or not len(tids) or access["tid"][0] in tids or (rows["kind"] == TouchKind.UNORDERED).any():
        return False
    begun = int(rank.events["enter"][evidence.operation.event])
    ended = int(rank.events["enter"][evidence.over.event]) if evidence.over else None

    def may_follow(from_tids: NDArray[Any], start: int, to_tids: NDArray[Any], end: int) -> bool:
        within = (start <= rows["first"]) & (rows["first"] <= end)
        released = rows["first"][within & np.isin(rows["tid"], from_tids) & (rows["kind"] == TouchKind.RELEASED)]
        acquired = rows["first"][within & np.isin(rows["tid"], to_tids) & (rows["kind"] == TouchKind.ACQUIRED)]
        return bool(len(released) and len(acquired) and released.min() <= acquired.max())

    first = access["tid"]
    return not may_follow(first, evidence.ticks, tids, begun) and not (
        ended is not None and may_follow(tids, ended, first, evidence.ticks)
    )


def _has_access(trace: Trace, before: EventId, ticks: int) -> bool:
    placed = PlacedRows(trace.ranks[before.rank])
    touches = placed.read_accesses()
    return bool(((touches.before == before.event) & (touches.first == ticks)).any())


def _is_after(trace: Trace, order: Order, later: EventId, earlier: EventId) -> bool:
    """Return whether one access surely comes after another. Each is given as the event that follows it."""
    return later.event > 0 and _is_in_past(trace, order, EventId(later.rank, later.event - 1), *earlier)


def _is_in_past(trace: Trace, order: Order, event: EventId, other_rank: int, other_event: int) -> bool:
    """Return whether another rank's event had begun, in the causal order, before the end of `event`."""
    if event.event < 0 or other_event >= len(trace.ranks[other_rank]):
        return False
    return bool(order.past(event).started[other_rank] > other_event)
