"""Chunks of a record whose streams of calls are rings, and the account of the calls that these dropped.

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

RING_STREAMS: Final = (StreamKind.EVENTS, StreamKind.TAILS, StreamKind.RECEIVED)
_LEAST: Final = {StreamKind.EVENTS: EVENT.itemsize, StreamKind.TAILS: 1, StreamKind.RECEIVED: RECEIVED.itemsize}
"""Bytes that no full chunk has left."""
_PLACE: Final = (1 << layout.NUMBER_SHIFT) - 1
_HEAD: Final = ("events", "tails", "first_events", "first_tails", "first_received", "uncounted")

Chunk = tuple[int, int, int, int]
"""A chunk: its row of the table, its place in the file, bytes in use, and the size of its room."""


@dataclass(frozen=True)
class DroppedCalls:
    """The account of what the rings of a thread dropped: how many calls, bytes of tails, and the calls by their sorts.

    `sorts` (dtype DROPPED) counts the calls that are alike, `uncounted` are those for which it had no row.
    """

    events: int = 0
    tails: int = 0
    first_events: int = 0
    first_tails: int = 0
    first_received: int = 0
    uncounted: int = 0
    sorts: NDArray[Any] = field(default_factory=lambda: np.zeros(0, DROPPED))

    def first_chunk(self, kind: int) -> int:
        """Return the number of the first chunk that a ring still has. `kind`: the kind of stream."""
        numbers = {StreamKind.EVENTS: self.first_events, StreamKind.TAILS: self.first_tails}
        return numbers.get(StreamKind(kind), self.first_received)


def split_ring_chunk_numbers(table: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return a copy of a chunk table with plain offsets, and for each chunk its number in its ring (0 if it is in no
    ring).

    In the file, the offset of a ring's chunk also holds the number, in its upper bits.
    """
    of_ring = np.isin(table["kind"], RING_STREAMS)
    numbers = np.where(of_ring, table["offset"] >> np.uint64(layout.NUMBER_SHIFT), 0).astype(np.int64)
    places = table.copy()
    places["offset"] = np.where(of_ring, table["offset"] & np.uint64(_PLACE), table["offset"])
    return places, numbers


def read_dropped_calls(fd: int, entries: NDArray[Any]) -> DroppedCalls:
    """Return the account of the calls that a thread's ring dropped. The newer of the record's two accounts is taken; it
    is empty if neither is whole.
    """
    newest, found = 0, DroppedCalls()
    for entry in entries:
        size = min(int(entry["pages"]), 1 << 8) * PAGE
        turn, account = decode_dropped_calls(os.pread(fd, size, int(entry["offset"])))
        if turn > newest:
            newest, found = turn, account
    return found


def decode_dropped_calls(data: bytes) -> tuple[int, DroppedCalls]:
    """Return how many times an account of dropped calls had been written (to tell the newer of two), and the account. 0
    and an empty account if it is not whole.
    """
    if len(data) < BEFORE.itemsize:
        return 0, DroppedCalls()
    head = np.frombuffer(data, BEFORE, count=1)[0]
    turn, rows = int(head["turn"]), int(head["rows"])
    if turn != int(head["again"]) or rows > (len(data) - BEFORE.itemsize) // DROPPED.itemsize:
        return 0, DroppedCalls()
    numbers = {name: int(head[name]) for name in _HEAD}
    numbers["first_received"] %= layout.NUMBERS
    return turn, DroppedCalls(**numbers, sorts=np.frombuffer(data, DROPPED, count=rows, offset=BEFORE.itemsize))


def encode_dropped_calls(dropped: DroppedCalls) -> bytes:
    """Return an account of dropped calls as bytes, as `decode_dropped_calls` reads it."""
    head = np.zeros(1, BEFORE)
    head["turn"] = head["again"] = 1
    for name in _HEAD:
        head[name] = getattr(dropped, name)
    head["rows"] = len(dropped.sorts)
    return head.tobytes() + dropped.sorts.tobytes()


def order_chunks(kind: int, first_number: int, chunks: Sequence[tuple[int, Chunk]]) -> tuple[list[Extent], str]:
    """Return two things: the extents of a ring's chunks, in order from the number `first_number` on, and a description
    of what is wrong with them ("" if nothing is).

    Chunks before that number were dropped, and their bytes may already belong to something else.
    """
    distances = sorted(((number - first_number) % layout.NUMBERS, chunk) for number, chunk in chunks if chunk[2])
    extents: list[Extent] = []
    is_full = True
    for position, (distance, (row, offset, used, room)) in enumerate(distances):
        if distance >= layout.NUMBERS // 2:
            break
        if distance != position or not is_full:
            return (
                extents,
                f"chunk {row} does not follow the chunk before it; Weft left out this chunk and all after it",
            )
        extents.append(Extent(offset, min(used, room)))
        is_full = room - used < _LEAST[StreamKind(kind)]
    return extents, ""
