"""Reads one rank's file: header, chunk table, streams. Nothing in it is believed before it was checked."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import OtherVersion, RunError
from weft.safety.folders import Unfit, open_regular
from weft.trace import layout
from weft.trace.layout import PAGE, Clock, Level, State, StopReason, StreamKind
from weft.trace.mapping import Extent, read_extents
from weft.trace.rings.chunks import (
    RING_STREAMS,
    DroppedCalls,
    order_chunks,
    read_dropped_calls,
    split_ring_chunk_numbers,
)

MAX_THREADS = 65536
_READS: Final = {major: f"{major}.{layout.FORMAT_MINOR}" for major in (layout.FORMAT_MAJOR, layout.FORMAT_MAJOR_KEPT)}
"""The versions that are read, by their major numbers."""


class Anchor:
    """Three clocks that were read together."""

    __slots__ = ("monotonic_ns", "realtime_ns", "ticks")

    def __init__(self, fields: Any) -> None:
        self.ticks = int(fields["ticks"])
        self.monotonic_ns = int(fields["monotonic_ns"])
        self.realtime_ns = int(fields["realtime_ns"])


def _decode_text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("utf-8", "backslashreplace")


class Header:
    """The header of a rank's file, decoded."""

    __slots__ = (
        "chunk_count", "clock", "end", "host", "job", "level", "major", "other_threads", "pid", "rank", "start",
        "state", "stop_reason", "thread_level", "threads", "world_size",
    )  # fmt: skip

    def __init__(self, raw: Any) -> None:
        self.major = int(raw["major"])
        self.clock = Clock(int(raw["clock"]))
        self.level = Level(int(raw["level"]))
        self.state = State(int(raw["state"]))
        self.stop_reason = StopReason(int(raw["stop_reason"]))
        self.rank, self.world_size = int(raw["rank"]), int(raw["world_size"])
        self.pid, self.thread_level = int(raw["pid"]), int(raw["thread_level"])
        self.chunk_count, self.threads = int(raw["chunk_count"]), int(raw["threads"])
        self.other_threads = int(raw["other_threads"])
        self.start, self.end = Anchor(raw["start"]), Anchor(raw["end"])
        self.host, self.job = _decode_text(bytes(raw["host"])), _decode_text(bytes(raw["job"]))


def open_record(path: Path, root: Path | None) -> int:
    """Open a record for reading and return its descriptor. RunError if it is not a regular file, or leads out of
    `root`.
    """
    try:
        return open_regular(path, root)
    except Unfit as error:
        raise RunError(f"{path} {error}") from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None


class RankFile:
    """Reads the streams of one file: the header and the chunk table at once, streams on demand."""

    MAGIC = layout.MAGIC
    SLOT = layout.EVENT.itemsize
    KINDS = tuple(kind for kind in StreamKind if kind != StreamKind.TABLE)
    WHAT = "record"

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path, self.name = path, path.name
        self.root = root
        self.problems: list[str] = []
        self._nibbles: dict[int, int] = defaultdict(int)
        self.dropped: dict[int, DroppedCalls] = {}
        """What the rings of each thread dropped; empty in a record without rings."""
        self.tables: list[tuple[int, int]] = []
        """Where the table of chunks continues: places in the file and bytes."""
        fd = open_record(path, root)
        try:
            status = os.fstat(fd)
            self.size = status.st_size
            self.identity = (status.st_dev, status.st_ino)
            self.header, raw = self._read_header(fd)
            self._extents = self._read_table(fd, raw)
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)

    def _note_problem(self, text: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{self.name}: {text}")

    def _read_header(self, fd: int) -> tuple[Header, object]:
        return self._decode_header(os.pread(fd, PAGE, 0))

    def _decode_header(self, page: bytes) -> tuple[Header, object]:
        """Return the header in the first page of a record, and the table of chunks after it. RunError for another file,
        OtherVersion for an unknown version of the format.
        """
        if page[:8] != self.MAGIC:
            if len(page) < 8 or not page[:8].strip(b"\0"):
                raise RunError(f"{self.path} is empty: the process ended before its first MPI call was recorded")
            raise RunError(f"{self.path} is not a {self.WHAT} of Weft (it does not begin with {self.MAGIC.decode()})")
        if len(page) < layout.HEADER.itemsize:
            raise RunError(
                f"{self.path} is cut off after {len(page)} bytes, inside its header: copy the run again, or record it "
                "again"
            )
        raw = np.frombuffer(page, layout.HEADER, count=1)[0]
        major, minor, slot = int(raw["major"]), int(raw["minor"]), int(raw["slot_size"])
        if major not in _READS or minor != layout.FORMAT_MINOR:
            raise OtherVersion(self.path, f"{major}.{minor}", " or ".join(_READS.values()))
        if slot != self.SLOT:
            raise RunError(
                f"{self.path} has events of {slot} bytes where version {_READS[major]} has {self.SLOT}, so it is "
                "damaged: copy the run again, or record it again"
            )
        try:
            return Header(raw), raw
        except ValueError as error:
            raise RunError(
                f"{self.path} has a damaged header ({error}): copy the run again, or record it again"
            ) from None

    def _read_table(self, fd: int, raw: Any) -> dict[tuple[int, int], list[Extent]]:
        """Return where each stream lies in the file, by (kind, number): its extents, from the table of chunks.
        Impossible chunks are left out, and problems are noted.
        """
        table = self._read_entries(fd, raw)
        numbers = np.zeros(len(table), np.int64)
        if self.header.major == layout.FORMAT_MAJOR_KEPT:
            table, numbers = split_ring_chunk_numbers(table)
            for thread in np.unique(table["thread"][table["kind"] == StreamKind.BEFORE]).tolist():
                ours = table[(table["kind"] == StreamKind.BEFORE) & (table["thread"] == thread)]
                self.dropped[thread] = read_dropped_calls(fd, ours)
        streams: dict[tuple[int, int], list[tuple[Any, Any]]] = defaultdict(list)
        claimed = np.sort(table, order="offset") if len(table) else table
        ends = claimed["offset"] + claimed["pages"].astype(np.uint64) * np.uint64(PAGE)
        overlapping = set(claimed["offset"][1:][ends[:-1] > claimed["offset"][1:]].tolist())
        ended: set[tuple[int, int]] = set()
        for row, entry in enumerate(table):
            kind, thread, pages, offset, used = entry.tolist()
            if kind not in self.KINDS:
                self._note_problem(f"Weft left out chunk {row} of the file, whose kind {kind} is unknown")
            elif (kind, thread) in ended or kind == StreamKind.BEFORE:
                continue  # after a gap calls would be matched with others' than their own
            elif used == 0 and offset == self.size:
                continue  # a chunk that was just added when the process was killed, cut off as it was empty
            elif offset % PAGE or offset < PAGE or offset >= self.size:
                self._note_problem(
                    f"chunk {row} lies at byte {offset} of a file of {self.size} bytes: what was recorded from "
                    f"there on is missing"
                )
                ended.add((kind, thread))
            elif offset in overlapping:
                self._note_problem(
                    f"chunk {row} at byte {offset} overlaps another chunk: what was recorded from there on is missing"
                )
                ended.add((kind, thread))
            else:
                streams[kind, thread].append((pages * PAGE, (row, offset, used)))
        if self.header.major == layout.FORMAT_MAJOR_KEPT:
            rings = {key: chunks for key, chunks in streams.items() if key[0] in RING_STREAMS}
            joined = {key: self._join_chunks(key, chunks) for key, chunks in streams.items() if key not in rings}
            return joined | {key: self._join_ring(key, chunks, numbers) for key, chunks in rings.items()}
        return {key: self._join_chunks(key, chunks) for key, chunks in streams.items()}

    def _join_ring(
        self, key: tuple[int, int], chunks: list[tuple[int, tuple[int, int, int]]], numbers: NDArray[np.int64]
    ) -> list[Extent]:
        """Return the extents of a stream that the recorder kept in a ring buffer, in the order in which they were
        written.

        The first extent is the oldest chunk that was not dropped. If a chunk does not follow the one before it, the
        rest is left out, and a problem is noted.
        """
        rows = [(int(numbers[row]), (row, offset, min(used, self.size - offset), room))
                for room, (row, offset, used) in chunks]  # fmt: skip
        first = self.dropped.get(key[1], DroppedCalls()).first_chunk(key[0])
        found, wrong = order_chunks(key[0], first, rows)
        if wrong:
            self._note_problem(f"stream {StreamKind(key[0]).name.lower()} of thread {key[1]}: {wrong}")
        return found

    def _read_entries(self, fd: int, raw: Any) -> NDArray[Any]:
        """Return all entries of the table of chunks, from the header and from the further pages that it leads to."""
        count = self.header.chunk_count
        if count > layout.HEADER_CHUNKS:
            self._note_problem(
                f"the file announces {count} chunks where {layout.HEADER_CHUNKS} fit; Weft reads the first ones"
            )
        parts = []
        part = raw["chunks"][:count]
        seen: set[int] = set()
        while len(part):
            link = part[-1] if part[-1]["kind"] == StreamKind.TABLE else None
            parts.append(part[part["kind"] != StreamKind.TABLE])
            if link is None:
                break
            offset, room, used = int(link["offset"]), int(link["pages"]) * PAGE, int(link["used"])
            if offset in seen or offset % PAGE or not PAGE <= offset < self.size:
                self._note_problem(
                    f"the chunk table goes on at byte {offset}, where none can be: what was recorded "
                    f"after that is missing"
                )
                break
            seen.add(offset)
            self.tables.append((offset, room))
            room = min(room, self.size - offset, 1 << 24) // layout.CHUNK.itemsize
            if used > room:
                self._note_problem(
                    f"the chunk table at byte {offset} is damaged ({used} entries, {room} fit): calls may be missing"
                )
            data = os.pread(fd, min(used, room) * layout.CHUNK.itemsize, offset)
            part = np.frombuffer(data, layout.CHUNK, count=len(data) // layout.CHUNK.itemsize)
        return np.concatenate(parts) if parts else np.empty(0, layout.CHUNK)

    def _join_chunks(self, key: tuple[int, int], chunks: list[tuple[int, tuple[int, int, int]]]) -> list[Extent]:
        """Return the extents of a stream: its full chunks, and the first that is not full. Later chunks are left out,
        and a problem is noted.
        """
        extents: list[Extent] = []
        name = f"stream {StreamKind(key[0]).name.lower()} of thread {key[1]}"
        full = True
        for room, (row, offset, counted) in chunks:
            if not full:
                if counted:
                    self._note_problem(f"{name}: Weft left out chunk {row}, because the chunk before it is not full")
                continue
            used = min(counted, room)
            if key[0] == StreamKind.OUTCOMES:
                self._nibbles[key[1]] += min(counted, 2 * room)
                used = min((counted + 1) // 2, room)
            if offset + used > self.size:
                lost = offset + used - self.size
                used = self.size - offset
                self._note_problem(f"{name}: the file is cut off, and {lost} bytes of chunk {row} are missing")
            full = used == room
            if used:
                extents.append(Extent(offset, used))
        return extents

    def streams(self) -> list[tuple[int, int]]:
        """Return (kind, number) of each stream in the file."""
        return list(self._extents)

    def threads(self) -> list[int]:
        """Return the thread slots that have a stream."""
        others = (StreamKind.DEFINITIONS, StreamKind.ACCESSES, StreamKind.HASHES, StreamKind.CONTENTS)
        return sorted({thread for kind, thread in self._extents if kind not in others})

    def numbers(self, kind: StreamKind) -> list[int]:
        """Return the numbers of the streams of a kind."""
        return sorted(thread for of, thread in self._extents if of == kind)

    def extents(self, kind: StreamKind, thread: int = 0) -> list[Extent]:
        """Return the pieces of the file that make up a stream."""
        return self._extents.get((kind, thread), [])

    def stream_size(self, kind: StreamKind, thread: int = 0) -> int:
        """Return the length of a stream in bytes."""
        return sum(e.used for e in self.extents(kind, thread))

    def nibbles(self, thread: int) -> int:
        """Return the length of an OUTCOMES stream, which counts in nibbles."""
        return self._nibbles[thread]

    def stream(self, kind: StreamKind, thread: int = 0) -> NDArray[np.uint8]:
        """Return the bytes of a stream, read-only, mapped from the file if possible."""
        extents = self.extents(kind, thread)
        if not extents:
            return np.empty(0, np.uint8)
        fd = open_record(self.path, self.root)
        try:
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != self.identity or status.st_size < max(
                e.offset + e.used for e in extents
            ):
                raise RunError(f"{self.path} changed since it was opened: open the run again")
            return read_extents(fd, extents)
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)

    def first_event(self, thread: int) -> Any | None:
        """Return the first event of a thread; None if it has none. The rest of the stream is not mapped."""
        extents = self.extents(StreamKind.EVENTS, thread)
        if not extents or extents[0].used < layout.EVENT.itemsize:
            return None
        fd = open_record(self.path, self.root)
        try:
            data = os.pread(fd, layout.EVENT.itemsize, extents[0].offset)
        finally:
            os.close(fd)
        return np.frombuffer(data, layout.EVENT, count=1)[0] if len(data) == layout.EVENT.itemsize else None
