"""Reads a run whose ranks still run, up to one moment: a consistent cut, in which each message has its send.

Files are read one after the other while all of them grow. A receive that was seen in the file that was read last may
have its send after what was read of the first. So all files are read twice. The newest tick of the first reading is
before all of the second; whatever caused a call up to that tick happened before it, and was written down when it began.
The ticks of one host are of one clock. For several hosts there is no such moment, and so no cut.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.trace.cut import end_of_last_call
from weft.trace.layout import State
from weft.trace.rank import Rank
from weft.trace.run import Trace

BETWEEN: Final = 0.001
"""Seconds between the two readings: longer than what the record rounds off the end of a call (2^16 ticks)."""


def open_growing(path: Path) -> Trace | None:
    """Open a run that still goes on, up to a moment that all of its ranks have passed.

    None if there is no such moment because a rank has not begun yet, or its record ended early.
    """
    newest = _newest_tick(Trace.open(path).ranks)
    if newest is None:
        return None
    time.sleep(BETWEEN)
    trace = Trace.open(path)
    trace.until = newest
    return trace


def _newest_tick(ranks: Sequence[Rank]) -> int | None:
    """Return the newest clock tick that any rank has written. None if a rank has not begun yet or has stopped
    recording, or if there are no calls.
    """
    headers = [rank.header for rank in ranks]
    if not headers or any(header is None or header.state in (State.STARTING, State.STOPPED) for header in headers):
        return None
    ends = [end_of_last_call(thread.events) for rank in ranks for thread in rank.threads if len(thread.events)]
    return max(ends, default=None)
