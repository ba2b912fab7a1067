"""Read the little that a watcher needs from a rank file while its process still writes it.

The complete reader is weft.trace. This one polls: it reads the header and the newest event of each thread with pread
and keeps nothing open, so that a thousand ranks cost a thousand small reads and no file handle.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.launch.sleeping_threads import read_sleep
from weft.trace.definitions import Definitions, ThreadDefinition
from weft.trace.layout import (
    CHUNK,
    EVENT,
    FORMAT_MAJOR_KEPT,
    HEADER,
    MAGIC,
    NUMBER_SHIFT,
    NUMBERS,
    OTHER_TIDS,
    PAGE,
    Flag,
    Level,
    State,
    StreamKind,
)  # fmt: skip
from weft.trace.rings.chunks import RING_STREAMS


def header_offset(name: str) -> int:
    """Return the offset of a field of the header."""
    fields = HEADER.fields
    assert fields is not None
    return int(fields[name][1])


SLOT: Final = EVENT.itemsize
FLAGS_OFFSET: Final = 14
_POLLED: Final = tuple(slice(start, start + 4) for start in (8, 36))
"""Where an event has its duration and its count, which change with one more failed poll."""
CHUNK_TABLE: Final = header_offset("chunks")
CHUNK_FORMAT: Final = struct.Struct("<HHIQQ")
MULTIPLE: Final = 3
"""The header's thread level of MPI_THREAD_MULTIPLE."""
STATE: Final = struct.Struct("<IIiiI")
START_REALTIME: Final = header_offset("start") + 16

assert CHUNK_FORMAT.size == CHUNK.itemsize


@dataclass(frozen=True)
class Chunk:
    """One entry of the chunk table; `used` as stored (nibbles for OUTCOMES)."""

    kind: int
    thread: int
    pages: int
    offset: int
    used: int

    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
        return (self.used + 1) // 2 if self.kind == StreamKind.OUTCOMES else self.used

    @property
    def end(self) -> int:
        """Offset after the chunk's last page."""
        return self.offset + self.pages * PAGE


@dataclass(frozen=True)
class Header:
    """The header of a record: what it says about its process."""

    state: State
    stop_reason: int
    rank: int
    world_size: int
    pid: int
    level: int
    host: str
    started_ns: int
    """CLOCK_REALTIME when the record began."""
    other_threads: int
    """Threads of the program that have not called MPI and may: 0 unless the thread level is MPI_THREAD_MULTIPLE."""
    other_tids: tuple[int, ...]
    """The kernel's ids of the first of them."""

    @property
    def over(self) -> bool:
        """The process has left MPI for good."""
        return self.state in (State.FINALIZED, State.EXITED)


def read_header(page: bytes) -> Header | None:
    """Return the header of a record, decoded from its first page; None if the page is not (yet) one."""
    if len(page) < HEADER.itemsize or page[:8] != MAGIC:
        return None
    state, stop_reason, rank, world_size, pid = STATE.unpack_from(page, header_offset("state"))
    if state not in State.__members__.values():
        return None
    host = page[header_offset("host") : header_offset("host") + 64].split(b"\0")[0].decode(errors="replace")
    started = int.from_bytes(page[START_REALTIME : START_REALTIME + 8], "little")
    level = page[header_offset("level")]
    several = _read_number(page, "thread_level") == MULTIPLE
    tids = struct.unpack_from(f"<{OTHER_TIDS}I", page, header_offset("other_tids"))
    others = (_read_number(page, "other_threads"), tuple(tid for tid in tids if tid)) if several else (0, ())
    return Header(State(state), stop_reason, rank, world_size, pid, level, host, started, *others)


def _read_number(page: bytes, field: str) -> int:
    at = header_offset(field)
    return int.from_bytes(page[at : at + 2], "little")


def read_chunks(file: int, page: bytes) -> tuple[list[Chunk], list[tuple[int, int]]]:
    """Return the chunks of a rank file in order, and (offset, length) of the tables that continue its chunk table."""
    count = int.from_bytes(page[header_offset("chunk_count") : header_offset("chunk_count") + 4], "little")
    entries = unpack_chunks(page[CHUNK_TABLE : HEADER.itemsize], count)
    chunks, tables, seen = [], [], {0}
    while entries and entries[-1].kind == StreamKind.TABLE and entries[-1].offset not in seen:
        link = entries.pop()
        chunks += entries
        seen.add(link.offset)
        length = min(link.pages * PAGE, 1 << 24)
        tables.append((link.offset, length))
        entries = unpack_chunks(os.pread(file, length, link.offset), link.used)
    chunks += [entry for entry in entries if entry.kind != StreamKind.TABLE]
    kept = int.from_bytes(page[header_offset("major") : header_offset("major") + 2], "little") == FORMAT_MAJOR_KEPT
    return (order_ring_chunks(chunks) if kept else chunks), tables


def order_ring_chunks(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks of a record with rings (`weft run --keep`), those of a ring ordered by number, without unused
    ones.
    """
    rings = [chunk for chunk in chunks if chunk.kind in RING_STREAMS and chunk.used]
    numbers = [chunk.offset >> NUMBER_SHIFT for chunk in rings]
    around = max(numbers, default=0) - min(numbers, default=0) > NUMBERS // 2  # they began again at 0
    ahead = [number + NUMBERS * (around and number < NUMBERS // 2) for number in numbers]
    in_turn = [rings[i] for i in sorted(range(len(rings)), key=ahead.__getitem__)]
    place = (1 << NUMBER_SHIFT) - 1
    placed = [Chunk(one.kind, one.thread, one.pages, one.offset & place, one.used) for one in in_turn]
    return [chunk for chunk in chunks if chunk.kind not in RING_STREAMS] + placed


def unpack_chunks(table: bytes, count: int) -> list[Chunk]:
    """Decode the first `count` entries of a table."""
    count = min(count, len(table) // CHUNK_FORMAT.size)
    return [Chunk(*entry) for entry in CHUNK_FORMAT.iter_unpack(table[: count * CHUNK_FORMAT.size])]


def locate_newest_events(chunks: list[Chunk]) -> dict[int, list[tuple[int, int]]]:
    """Return by thread index where in the file the thread's newest event stands, as (offset, length) in bytes. These
    are two pieces if the event lies across two chunks, none if the thread has no event."""
    slots: dict[int, list[tuple[int, int]]] = {}
    for thread in {chunk.thread for chunk in chunks if chunk.kind == StreamKind.EVENTS}:
        stream = [chunk for chunk in chunks if (chunk.kind, chunk.thread) == (StreamKind.EVENTS, thread)]
        total = sum(chunk.used for chunk in stream)
        behind = total % SLOT  # part of an item that a full chunk could not hold and nobody went on with
        slots[thread] = find_slot_pieces(stream, total - behind - SLOT) if total >= SLOT else []
    return slots


def find_slot_pieces(stream: list[Chunk], start: int) -> list[tuple[int, int]]:
    """Return where in the file the event stands that begins `start` bytes into a thread's chunks, as (offset, length)
    in bytes. These are two pieces if the event lies across two chunks."""
    found, position, need = [], 0, SLOT
    for chunk in stream:
        if need and position <= start < position + chunk.used:
            length = min(need, position + chunk.used - start)
            found.append((chunk.offset + start - position, length))
            start, need = start + length, need - length
        position += chunk.used
    return found


class RankFileWatch:
    """Watches one rank file: remembers what it held at the last look, to notice whether the rank has moved since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: Header | None = None
        self._page = b""
        self._tables: list[tuple[int, int]] = []
        self._continued = b""
        self._slots: dict[int, list[tuple[int, int]]] | None = None
        self._newest: dict[int, bytes] = {}
        self._identities: dict[int, int] | None = None
        self._sleeps: dict[int, tuple[int, ...] | None] = {}
        self.has_only_polled = False
        """Whether what the last look saw move was nothing but polls that failed."""

    def has_moved(self) -> bool:
        """Read the file again, and return whether its record has changed since the last call; True also if the file
        cannot be read.
        """
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True  # renamed just now: it is found under its new name by the next look
        try:
            return self._compare_with_last(file)
        except OSError:
            return True
        finally:
            os.close(file)

    def _compare_with_last(self, file: int) -> bool:
        """Return whether the file has changed since the last look."""
        self.has_only_polled = False
        page = os.pread(file, PAGE, 0)
        continued = b"".join(os.pread(file, length, start) for start, length in self._tables)
        if page != self._page or continued != self._continued:
            # A rank that moves needs no closer look: its slots are found when its header first stays the same.
            self._page, self._continued, self._slots = page, continued, None
            self.header = read_header(page)
            return True
        if self._slots is None:
            chunks, tables = read_chunks(file, page)
            if tables != self._tables:
                self._tables = tables
                self._continued = b""
                return True
            self._slots = locate_newest_events(chunks)
            self._identities = None
            self._newest = self._read_newest_events(file, self._slots)
            return True
        newest = self._read_newest_events(file, self._slots)
        changed = newest != self._newest
        self.has_only_polled = changed and all(_is_polled_on(self._newest[thread], newest[thread]) for thread in newest)
        self._newest = newest
        return changed

    def _read_newest_events(self, file: int, slots: dict[int, list[tuple[int, int]]]) -> dict[int, bytes]:
        """Return the last event of each thread as bytes."""
        return {
            thread: b"".join(os.pread(file, length, start) for start, length in places)
            for thread, places in slots.items()
        }

    def is_asleep(self, tid: int) -> bool:
        """Return whether a thread of the process sleeps until another thread of it wakes it, and has done so since this
        was last asked. False at the first question.
        """
        pid = self.header.pid if self.header is not None else 0
        before, now = self._sleeps.get(tid), read_sleep(pid, tid)
        self._sleeps[tid] = now
        return now is not None and now == before

    def kernel_thread_id(self, thread: int) -> int | None:
        """Return the kernel's id of the thread in a thread slot, None if the record does not say it."""
        if self._identities is None:
            self._identities = {one.slot: one.tid for one in read_threads(self.path)}
        return self._identities.get(thread)

    @property
    def has_recorded_events(self) -> bool:
        """Whether this record holds events to judge by (level `outcomes` holds none)."""
        return self.header is not None and self.header.level == Level.TRACE

    def threads_outside_mpi(self) -> list[int]:
        """Return the indices of the threads that are not inside an MPI call: their newest call has returned. They
        compute, or have ended."""
        return [
            thread for thread, slot in self._newest.items() if len(slot) == SLOT and slot[FLAGS_OFFSET] & Flag.CLOSED
        ]

    def threads_inside_mpi(self) -> list[int]:
        """Return the indices of the threads that are inside an MPI call, as the record shows them."""
        return [
            thread
            for thread, slot in self._newest.items()
            if len(slot) == SLOT and not slot[FLAGS_OFFSET] & Flag.CLOSED
        ]


def _is_polled_on(before: bytes, now: bytes) -> bool:
    """Return whether the last event of a thread is as it was, or counts more failed polls only. `before`, `now`: the
    bytes of the event."""
    if before == now:
        return True
    flags = now[FLAGS_OFFSET] if len(now) == SLOT == len(before) else 0
    changed = [before[at] != now[at] for at in _POLLED]  # of other folded calls the event has the time of the first
    rest = [_without(slot, _POLLED) for slot in (before, now)]
    return flags & (Flag.CLOSED | Flag.TRUE) == Flag.CLOSED and all(changed) and rest[0] == rest[1]


def _without(data: bytes, parts: tuple[slice, ...]) -> bytes:
    cut = bytearray(data)
    for part in sorted(parts, key=lambda one: one.start, reverse=True):
        del cut[part]
    return bytes(cut)


def read_threads(path: Path) -> list[ThreadDefinition]:
    """Return the thread definitions of a record, in the order in which threads took the slots."""
    return read_definitions(path).threads


def read_definitions(path: Path) -> Definitions:
    """Return the definitions in a record so far (communicators, datatypes, call sites ...); empty if it cannot be
    read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Definitions(b"")
    try:
        chunks, _ = read_chunks(file, os.pread(file, PAGE, 0))
        parts = [
            os.pread(file, min(chunk.used, chunk.pages * PAGE), chunk.offset)
            for chunk in chunks
            if chunk.kind == StreamKind.DEFINITIONS
        ]
    finally:
        os.close(file)
    return Definitions(b"".join(parts))


def trim_rank_file(path: Path) -> int:
    """Cut the unused pages off the end of a rank file, as its writer does when it closes the file. Return how many
    bytes were cut.

    Only for a file whose process is gone.
    """
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        chunks, tables = read_chunks(file, os.pread(file, PAGE, 0))
        size = os.fstat(file).st_size
        if not chunks or any(start + length > chunks[-1].end for start, length in tables):
            return 0
        last = max(chunks, key=lambda chunk: chunk.offset)
        end = last.offset + max(1, -(-last.used_bytes // PAGE)) * PAGE  # a reader wants each chunk to begin in the file
        if last.end != size or end >= size or last.used_bytes > last.pages * PAGE:
            return 0
        os.ftruncate(file, end)
        return size - end
    finally:
        os.close(file)
