"""Cuts the calls of a thread at one moment, as its record was then."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.trace.layout import ANY_SOURCE, ANY_TAG, Events, Flag, decode_durations

_RETURNED: Final = Flag.CLOSED | Flag.TRUE | Flag.CANCELLED | Flag.BUFFER_CHANGED


def end_of_last_call(events: Events) -> int:
    """Return the clock tick at which the last call returned, rounded up. If it has not returned, the tick at which it
    began.
    """
    last = events[-1:]
    enter = int(last["enter"][0])
    if not int(last["flags"][0]) & Flag.CLOSED:
        return enter
    encoded = int(last["duration"][0])
    rounded = (1 << 8 * (encoded >> 30)) - 1 if encoded >> 30 < 3 else 0
    return enter + int(decode_durations(last["duration"])[0]) + rounded


def cut_events(events: Events, until_tick: int) -> Events:
    """Return a copy of the calls of a thread that began until a clock tick. If the last one returned later, it is
    changed to a call that has not returned.

    The process may write more meanwhile; the copy stays the same.
    """
    events = events[: int(np.searchsorted(events["enter"], np.uint64(until_tick), side="right"))].copy()
    last = events[-1:]
    if len(events) and last["flags"][0] & Flag.CLOSED and end_of_last_call(events) <= until_tick:
        return events
    last["flags"] &= ~int(_RETURNED) & 0xFF
    last["duration"] = 0
    last["error"] = 0
    last["peer"] = np.where(last["flags"] & Flag.ANY_SOURCE, ANY_SOURCE, last["peer"])
    last["tag"] = np.where(last["flags"] & Flag.ANY_TAG, ANY_TAG, last["tag"])
    return events
