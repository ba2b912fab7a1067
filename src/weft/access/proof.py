"""Whether what a finding of this room says is so, from the record alone: the proof, replayed.

It asks the record's rows again, by other means than the analysis: the access must be there, between the calls that the
evidence names, and the operation must have begun before and have been completed after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.access.touches import Placed
from weft.trace import Rank, Trace


def holds(trace: Trace, evidence: Mapping[str, Any]) -> bool:
    """Whether the access of `evidence` lies in the time of its operation, and in the bytes that the operation has."""
    index, before = evidence["before"]
    rank = trace.ranks[index]
    started, completed = evidence["started"], evidence["completed"]
    if started[0] != index or not _touched(rank, before, evidence):
        return False
    if completed is None:
        return bool(started[1] < before)
    return bool(started[1] < before <= completed[1]) or _by_the_clock(rank, started[1], completed[1], evidence["ticks"])


def _touched(rank: Rank, before: int, evidence: Mapping[str, Any]) -> bool:
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
