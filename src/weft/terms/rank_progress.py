"""Tell how far ranks came: to MPI_Finalize, to the end of their process, into a call that never returned."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.terms import calls
from weft.terms.calls import masks_of
from weft.trace import Flag, Rank
from weft.trace.layout import compute_return_ticks

LEFT: Final = "unmatched message"
"""What MPICH says where a communicator is freed, or MPI finalised, while messages that nobody received are there."""


def has_reached_finalize(rank: Rank) -> bool:
    """Return whether the rank came to MPI_Finalize, so that an operation it has not begun never comes. False if its
    record is missing or damaged.
    """
    if rank.state in ("missing", "damaged"):
        return False
    last = masks_of(rank.trace.functions).table(calls.ENDS)
    events = rank.events
    return rank.state == "finalized" or (len(events) > 0 and bool(last[events["function"][-1]]))


def called_finalize(rank: Rank) -> bool:
    """Return whether the process called MPI_Finalize or ended its MPI session, even if only while it was exiting. False
    if its record is missing or damaged.
    """
    if rank.missing or rank.state == "damaged":
        return False
    return rank.state == "finalized" or len(masks_of(rank.trace.functions).where(rank, calls.ENDS)) > 0


_ENDS: Final = {
    "missing": "left no record", "aborted": "called MPI_Abort",
    "stopped": "Weft stopped recording here, and the program went on",
    "damaged": "the record is damaged from here on",
}  # fmt: skip


def describe_end(rank: Rank) -> str:
    """Return words on how a rank ended that is in no call and never came to the last call of its system (such as
    MPI_Finalize).
    """
    system = rank.trace.system
    return _ENDS.get(rank.state, f"ended outside of {system.name}, before {system.last}")


def open_calls(rank: Rank) -> list[int]:
    """Return the event indices of a rank's calls that never returned."""
    tail = max(0, len(rank.events) - 64)
    closed = rank.events["flags"][tail:] & Flag.CLOSED
    return [tail + int(i) for i in np.flatnonzero(closed == 0)]


def calls_at(rank: Rank, ticks: int) -> list[int]:
    """Return the event indices of the calls in which a rank was at one moment, in order of entry. `ticks`: the moment
    on the rank's clock.
    """
    begun = rank.events[: int(np.searchsorted(rank.events["enter"], np.uint64(ticks), side="right"))]
    leave = compute_return_ticks(begun)
    return [int(i) for i in np.flatnonzero((leave > np.uint64(ticks)) | (begun["flags"] & Flag.CLOSED == 0))]


def has_ended(rank: Rank) -> bool:
    """Return whether the rank came to MPI_Finalize, or its process exited while it was in no MPI call."""
    if rank.missing:
        return False
    exited = rank.state == "exited" and len(rank) > 0 and not rank.event(len(rank) - 1).open
    return exited or has_reached_finalize(rank)
