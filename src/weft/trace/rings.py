"""Chunks of a record whose streams of calls are rings (`weft run --keep`), and what it says of those it dropped.

Which chunk is where, and what may be believed at any moment, is drawn in native/format.h (RINGS).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.trace import layout
from weft.trace.layout import BEFORE, DROPPED, EVENT, PAGE, RECEIVED, StreamKind
from weft.trace.mapping import Extent

RINGS: Final = (StreamKind.EVENTS, StreamKind.TAILS, StreamKind.RECEIVED)
_LEAST: Final = {StreamKind.EVENTS: EVENT.itemsize, StreamKind.TAILS: 1, StreamKind.RECEIVED: RECEIVED.itemsize}
"""Bytes that no full chunk has left."""
_PLACE: Final = (1 << layout.NUMBER_SHIFT) - 1

Row = tuple[int, int, int, int]
"""A chunk: its row of the table, its place in the file, bytes in use, and the size of its room."""


@dataclass(frozen=True)
class Before:
    """What a thread's rings no longer have: calls, bytes of tails, and the calls by their sorts (dtype DROPPED)."""

    events: int = 0
    tails: int = 0
    first_events: int = 0
    first_tails: int = 0
    first_received: int = 0
    uncounted: int = 0
    rows: NDArray[Any] = field(default_factory=lambda: np.zeros(0, DROPPED))

    def first(self, kind: int) -> int:
        """The number of the first chunk that is there."""
        of = {StreamKind.EVENTS: self.first_events, StreamKind.TAILS: self.first_tails}
        return of.get(StreamKind(kind), self.first_received)


def apart(table: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The table with places in the file alone, and the number of each chunk of a ring."""
    of_ring = np.isin(table["kind"], RINGS)
    numbers = np.where(of_ring, table["offset"] >> np.uint64(layout.NUMBER_SHIFT), 0).astype(np.int64)
    places = table.copy()
    places["offset"] = np.where(of_ring, table["offset"] & np.uint64(_PLACE), table["offset"])
    return places, numbers


def read_before(fd: int, entries: NDArray[Any]) -> Before:
    """The newer one of a thread's accounts of what was dropped; an empty one where none is whole."""
    newest, found = 0, Before()
    for entry in entries:
        size = min(int(entry["pages"]), 1 << 8) * PAGE
        turn, account = account_of(os.pread(fd, size, int(entry["offset"])))
        if turn > newest:
            newest, found = turn, account
    return found


def account_of(data: bytes) -> tuple[int, Before]:
    """An account, and how many were written before it; 0 for one that is not whole."""
    if len(data) < BEFORE.itemsize:
        return 0, Before()
    head = np.frombuffer(data, BEFORE, count=1)[0]
    turn, rows = int(head["turn"]), int(head["rows"])
    if turn != int(head["again"]) or rows > (len(data) - BEFORE.itemsize) // DROPPED.itemsize:
        return 0, Before()
    return turn, Before(
        events=int(head["events"]), tails=int(head["tails"]), first_events=int(head["first_events"]),
        first_tails=int(head["first_tails"]), first_received=int(head["first_received"]) % layout.NUMBERS,
        uncounted=int(head["uncounted"]), rows=np.frombuffer(data, DROPPED, count=rows, offset=BEFORE.itemsize),
    )  # fmt: skip


def written(before: Before) -> bytes:
    """An account as `account_of` reads it."""
    head = np.zeros(1, BEFORE)
    head["turn"] = head["again"] = 1
    for name in ("events", "tails", "first_events", "first_tails", "first_received", "uncounted"):
        head[name] = getattr(before, name)
    head["rows"] = len(before.rows)
    return head.tobytes() + before.rows.tobytes()


def in_turn(kind: int, first: int, chunks: Sequence[tuple[int, Row]]) -> tuple[list[Extent], str]:
    """The parts of a ring in order, from the chunk with the number `first` on, and what is wrong with it.

    Chunks before that one were dropped, and what they hold may already be something else.
    """
    ahead = sorted(
        ((number - first) % layout.NUMBERS, row) for number, row in chunks if row[2]
    )  # fmt: skip
    extents: list[Extent] = []
    full = True
    for at, (distance, (row, offset, used, room)) in enumerate(ahead):
        if distance >= layout.NUMBERS // 2:
            break
        if distance != at or not full:
            return extents, f"chunk {row} does not follow the one before it; it was left out, and what comes behind it"
        extents.append(Extent(offset, min(used, room)))
        full = room - used < _LEAST[StreamKind(kind)]
    return extents, ""
