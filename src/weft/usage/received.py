"""Buffers of messages and collectives that stand behind the slot of their event: what they receive into."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.deadlock.traffic import Traffic
from weft.match import NONE
from weft.terms import calls
from weft.terms.regions import Region, regions
from weft.terms.sizes import solid
from weft.trace import Event
from weft.usage.overlaps import Accesses, first_done

MOST: Final = 5000
"""Calls of a rank that are looked at: their buffers are read one by one."""
_PAIRS: Final = calls.SENDRECVS | calls.ISENDRECVS
_COLLECTIVES: Final = calls.DATA_COLLECTIVES | calls.ICOLLECTIVES


def received(of: Traffic) -> Accesses:
    """Both buffers of MPI_Sendrecv and its kin, and the receive buffers of collectives, each until it is complete."""
    rank = of.rank
    rows: list[tuple[int, int, int, int, bool]] = []
    pending = of.masks.table(calls.ISENDRECVS | calls.ICOLLECTIVES)
    pairs = of.masks.table(_PAIRS)
    done = first_done(of).tolist()
    for index in of.masks.where(rank, _PAIRS | _COLLECTIVES)[:MOST].tolist():
        event = rank.event(index)
        function = int(rank.events["function"][index])
        if event.error:
            continue
        end = _end(event, done) if pending[function] else index
        for region in regions(event):
            if (pairs[function] or region.parameter == "recvbuf") and _whole(event, region):
                low = region.address + region.low
                rows.append((index, end, low, low + region.high - region.low, region.written))
    begin, ends, low_, high, written = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 5
    events = np.array(begin, np.int64)
    return Accesses(
        events, np.array(ends, np.int64), events, np.array(low_, np.uint64), np.array(high, np.uint64),
        np.array(written, np.bool_),
    )  # fmt: skip


def _end(event: Event, done: list[int]) -> int:
    """The call that completed a nonblocking one."""
    found = done[event.object] if event.object < len(done) else NONE
    return len(event.rank) if found == NONE else found


def _whole(event: Event, region: Region) -> bool:
    """Whether every byte of a buffer is touched."""
    return bool(solid(region.datatype)) and "recvcounts" not in event.args
