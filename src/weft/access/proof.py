"""Whether what a finding of this room says is so, from the record alone: the proof, replayed.

It asks the record's rows again, by other means than the analysis: the access must be there, between the calls that the
evidence names. A pending operation must have begun before and been completed after it. Of two that race, neither may
happen before the other: each is looked for in the other's whole causal past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.access.touches import Placed
from weft.order import Order
from weft.trace import Rank, Trace

Evidence = Mapping[str, Any]


def holds(trace: Trace, evidence: Evidence, order: Order | None = None) -> bool:
    """Whether a finding's evidence holds on the record. A race needs the order of the run."""
    if "started" in evidence:
        return _pending(trace, evidence)
    return order is not None and _unordered(trace, evidence, order)


def _pending(trace: Trace, evidence: Evidence) -> bool:
    """Whether the access lies in the time of its operation, and in the bytes that the operation has."""
    index, before = evidence["before"]
    rank = trace.ranks[index]
    started, completed = evidence["started"], evidence["completed"]
    if started[0] != index or not _touched(rank, before, evidence):
        return False
    if completed is None:
        return bool(started[1] < before)
    return bool(started[1] < before <= completed[1]) or _by_the_clock(rank, started[1], completed[1], evidence["ticks"])


def _touched(rank: Rank, before: int, evidence: Evidence) -> bool:
    """Whether the record has such an access, and the buffer."""
    placed = Placed(rank)
    touches, buffers = placed.touches(), placed.holds()
    low, high = evidence["bytes"]
    writes = evidence["access"] == "write"
    near = np.flatnonzero((touches.before == before) & (touches.low < high) & (touches.high > low))
    seen = any(touches.meets(row, low, high) == (low, high) and touches.writes[row] == writes for row in near.tolist())
    own = buffers.event == evidence["started"][1]
    if not writes:
        own &= buffers.written
    span = 2 * buffers.bytes
    held = bool((own & (buffers.address - span <= low) & (high <= buffers.address + span)).any())
    return seen and held


def _by_the_clock(rank: Rank, start: int, end: int, ticks: int) -> bool:
    """For an access of another thread: after the start was called, before the completion was."""
    several = len(rank.threads) > 1 or bool((rank.touches["thread"] == 0).any())
    enter = rank.events["enter"]
    return several and int(enter[start]) < ticks < int(enter[end])


def _unordered(trace: Trace, evidence: Evidence, order: Order) -> bool:
    """Whether the access is there and neither it nor what it races with comes before the other."""
    if not _written_down(trace, evidence["before"], evidence["ticks"]):
        return False
    if "other" in evidence:
        first, second = evidence["before"], evidence["other"]
        return not _knows(trace, order, second, first) and not _knows(trace, order, first, second)
    rank, before = evidence["before"]
    operation, over = evidence["operation"], evidence["over"]
    own = operation[0] == rank
    known = operation[1] >= before if own else _in_past(trace, order, operation, rank, before)
    complete = over is not None and (over[1] < before if own else _in_past(trace, order, [rank, before - 1], *over))
    return not known and not complete


def _written_down(trace: Trace, before: Sequence[int], ticks: int) -> bool:
    placed = Placed(trace.ranks[before[0]])
    touches = placed.touches()
    return bool(((touches.before == before[1]) & (touches.first == ticks)).any())


def _knows(trace: Trace, order: Order, later: Sequence[int], earlier: Sequence[int]) -> bool:
    """Whether an access comes behind another: the event before it has in its past the event behind the other."""
    return later[1] > 0 and _in_past(trace, order, [later[0], later[1] - 1], *earlier)


def _in_past(trace: Trace, order: Order, event: Sequence[int], rank: int, index: int) -> bool:
    """Whether the start of an event of a rank belongs to the causal past of another's end."""
    if event[1] < 0 or index >= len(trace.ranks[rank]):
        return False
    return bool(order.past((event[0], event[1])).started[rank] > index)
