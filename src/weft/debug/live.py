"""Read the record of a replay that still runs: the call that a rank is parked in, before it counts as made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from weft.base.event_id import EventId
from weft.debug.record import Record
from weft.errors import DebuggerError
from weft.launch.rankfile import Chunk, read_chunks, read_header
from weft.trace import EVENT, Event, Rank, Trace
from weft.trace.layout import PAGE, StreamKind


def find_send_buffer(record: Record, run: Path, send: EventId, pid: int) -> int:
    """Return the address of the buffer of a send, in a replay whose rank is stopped before the send. DebuggerError if
    it is unknown.

    `run`: the folder of the replay. `pid`: the rank's process there.
    """
    event, args = record.trace.event(*send), record.arguments_of_send(send)
    if args == send:
        return int(read_pending_call(run / "ranks", event, pid)["buffer"])
    rank = next((r for r in Trace.open(run).ranks if r.header is not None and r.header.pid == pid), None)
    alike = [] if rank is None else _calls_like(rank, record.trace.event(*args))
    ordinal = _calls_like(event.rank, record.trace.event(*args)).index(args[1])
    if rank is None or ordinal >= len(alike):
        raise DebuggerError(
            "this message cannot be read here: the replay has no record of the call that started its send"
        )
    return int(rank.events["buffer"][alike[ordinal]])


def _calls_like(rank: Rank, event: Event) -> list[int]:
    """Return the event indices of a rank's calls of the same function as `event`, in order."""
    found: list[int] = np.flatnonzero(
        rank.trace.functions.mask([event.function.base])[rank.events["function"]]
    ).tolist()
    return found


def read_pending_call(ranks: Path, event: Event, pid: int) -> Any:
    """Return the arguments of a call before which a thread of the replay is stopped, as a row of dtype EVENT.
    DebuggerError if the thread is not before that call.

    The recorder has written this row already, but counts it only when the call begins (recorder/shim.h: weft_publish).
    `ranks`: the folder of the records; `pid`: the process of the rank.
    """
    for path in sorted(ranks.glob("*.weft")):
        with path.open("rb") as file:
            page = file.read(PAGE)
            header = read_header(page)
            if header is None or header.pid != pid:
                continue
            chunks, _ = read_chunks(file.fileno(), page)
            stream = [c for c in chunks if (c.kind, c.thread) == (StreamKind.EVENTS, event.thread.slot)]
            slot = np.frombuffer(_read_uncounted_slot(file.fileno(), stream), EVENT, count=1)
            if [int(slot[name][0]) for name in ("peer", "tag", "count")] == _expected(event):
                return slot[0]
    raise DebuggerError(f"the replay of rank {event.rank.index} is not stopped before that call")


def _expected(event: Event) -> list[int]:
    recorded = event.thread.events[event.position]
    return [int(recorded[name]) for name in ("peer", "tag", "count")]


def _read_uncounted_slot(file: int, stream: list[Chunk]) -> bytes:
    """Return the bytes of the event that a record's stream holds after its last counted event."""
    at, found = sum(chunk.used for chunk in stream), b""
    for chunk in stream:
        room = chunk.pages * PAGE
        if at < room:
            found += os.pread(file, min(EVENT.itemsize - len(found), room - at), chunk.offset + at)
        at = max(at - room, 0)
    return found.ljust(EVENT.itemsize, b"\0")
