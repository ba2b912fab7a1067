"""A run whose ranks still run, read up to one moment: a consistent cut, in which no message comes without its send.

Files are read one after the other while all of them grow. A receive that was seen in the file that was read last may
have its send behind what was read of the first. So two looks are taken. The newest tick of the first look lies before
all of the second; whatever caused a call up to that tick happened before it, and was written down when it began.
Ticks of one host are of one clock. Of several hosts there is no such moment: then there is no cut.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from weft.trace.layout import ANY_SOURCE, ANY_TAG, Events, Flag, State, decode_durations

if TYPE_CHECKING:
    from weft.trace.run import Rank, Trace

BETWEEN: Final = 0.001
"""Seconds between the looks: longer than what the record rounds off the end of a call (2^16 ticks)."""

_RETURNED: Final = Flag.CLOSED | Flag.TRUE | Flag.CANCELLED | Flag.BUFFER_CHANGED


def snapshot(path: Path) -> Trace | None:
    """The run as it is now, up to a moment that all of its ranks have passed.

    None where there is none yet, as a rank has not begun, or never, as one's record has ended early.
    """
    from weft.trace.run import Trace

    newest = _newest(Trace.open(path).ranks)
    if newest is None:
        return None
    time.sleep(BETWEEN)
    trace = Trace.open(path)
    trace.until = newest
    return trace


def of_one_clock(trace: Trace) -> bool:
    """Whether the ticks of all ranks are of one clock: of one host."""
    return len({(rank.header.host, rank.header.clock) for rank in trace.ranks if rank.header}) <= 1


def _newest(ranks: Sequence[Rank]) -> int | None:
    """The newest tick that any rank has written."""
    headers = [rank.header for rank in ranks]
    if not headers or any(header is None or header.state in (State.STARTING, State.STOPPED) for header in headers):
        return None
    ends = [_end(thread.events) for rank in ranks for thread in rank.threads if len(thread.events)]
    return max(ends, default=None)


def _end(events: Events) -> int:
    """When the last call returned, or began where it has not; never before it did."""
    last = events[-1:]
    enter = int(last["enter"][0])
    if not int(last["flags"][0]) & Flag.CLOSED:
        return enter
    encoded = int(last["duration"][0])
    rounded = (1 << 8 * (encoded >> 30)) - 1 if encoded >> 30 < 3 else 0
    return enter + int(decode_durations(last["duration"])[0]) + rounded


def cut(events: Events, until: int) -> Events:
    """The calls of a thread that began up to a tick; the last of them as one that waits, where it ended later.

    A copy: what the process writes meanwhile changes nothing in it.
    """
    events = events[: int(np.searchsorted(events["enter"], np.uint64(until), side="right"))].copy()
    last = events[-1:]
    if len(events) and last["flags"][0] & Flag.CLOSED and _end(events) <= until:
        return events
    last["flags"] &= ~int(_RETURNED) & 0xFF
    last["duration"] = 0
    last["error"] = 0
    last["peer"] = np.where(last["flags"] & Flag.ANY_SOURCE, ANY_SOURCE, last["peer"])
    last["tag"] = np.where(last["flags"] & Flag.ANY_TAG, ANY_TAG, last["tag"])
    return events
