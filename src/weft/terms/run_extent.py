"""Compute from when to when a run lasted."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np

from weft.base.lazy import dataclass
from weft.trace import Flag, Trace

_PART: Final = 1 << 18
_LONGEST_NS: Final = 10**17
"""Three years: a clock that was set meanwhile, or a damaged run.json, says more."""


@dataclass(frozen=True)
class Extent:
    """The first and the last moment of a run, ns on its time axis. A call that never returned lasts to the last one."""

    first: int
    last: int


def run_extent(trace: Trace) -> Extent:
    """Return the first and the last moment of a run's calls, in ns. If some call never returned, the last moment is the
    end of the run.
    """
    first = last = 0
    waits = False
    for rank in trace.ranks:
        for start in range(0, len(rank.events), _PART):
            part = slice(start, start + _PART)
            enter, leave = rank.enter_ns(part), rank.exit_ns(part)
            first = min(first, int(enter.min()))
            last = max(last, int(enter.max()), int(leave.max()))
            waits |= bool(((rank.events["flags"][part] & Flag.CLOSED) == 0).any())
    return Extent(first, max(last, _finish_ns(trace)) if waits else last)


def start_realtime_ns(trace: Trace) -> int:
    """Return the wall-clock time (ns since 1970) at which the run's time axis has its 0. 0 if no rank recorded it."""
    for rank in trace.ranks:
        if rank.header:
            return rank.header.start.realtime_ns - rank.axis.ns(rank.header.start.ticks)
    return 0


def _finish_ns(trace: Trace) -> int:
    """Return the time at which the launcher saw the run end, in ns on the run's time axis. 0 if it is not known."""
    try:
        finished = datetime.fromisoformat(str(trace.run.get("finished"))).timestamp() * 1e9
    except (ValueError, OverflowError):
        return 0
    ns = finished - start_realtime_ns(trace)
    return int(ns) if 0 < ns < _LONGEST_NS and np.isfinite(ns) else 0
