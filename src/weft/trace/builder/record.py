"""The files of a built run, through the C writer: one record for each rank, and what the ranks have in common."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.native.headers.record import kernel
from weft.native.headers.switches import SWITCH
from weft.trace import layout
from weft.trace.builder.handles import (
    EPOCH_NS,
    STEP_NS,
)
from weft.trace.functions import FunctionTable
from weft.trace.layout import (
    EVENT,
    ID_DYNAMIC,
    Def,
    EndingKind,
    Events,
    Level,
    State,
    StreamKind,
)
from weft.trace.tasks import FOLDER, NAMED, SUFFIX, TaskFile
from weft.trace.varint import encode_signed, encode_string, encode_unsigned


class RunInMaking:
    """What the ranks of a run have in common: its directory, its functions and a logical clock."""

    ranks: Sequence[RankRecord]

    def __init__(self, path: Path, level: Level, functions: FunctionTable) -> None:
        self.path = path
        self.level = level
        self.functions = functions
        self.clock = 0
        self.world_start: dict[int, int] = {}

    def call_times(self, enter: int | None, exit: int | None) -> tuple[int, int]:
        """Return the entry and exit of the next call in ns. What is None comes from a logical clock."""
        start = self.clock if enter is None else enter
        end = start + STEP_NS // 2 if exit is None else exit
        if end < start:
            raise ValueError(f"a call that enters at {start} ns cannot return at {end} ns")
        self.clock = max(self.clock, start) + STEP_NS
        return start, end

    def encode_members(self, writer: RankRecord, indices: Sequence[int]) -> bytes:
        """Return a group of rank indices as bytes, in the form in which process `writer` records the members of a
        communicator.
        """
        runs: list[list[int]] = []
        for index in indices:
            rank = self.ranks[index]
            place, number = 0, rank.rank
            if rank.world != writer.world:
                place, group = writer.worlds[rank.world]
                number = group.index(index)
            last = runs[-1] if runs else None
            if last and last[0] == place and (last[3] == 1 or number == last[1] + last[2] * last[3]):
                last[2] = number - last[1] if last[3] == 1 else last[2]
                last[3] += 1
            else:
                runs.append([place, number, 0, 1])
        return encode_unsigned(len(runs)) + b"".join(
            encode_unsigned(w) + encode_unsigned(f) + encode_signed(s) + encode_unsigned(n) for w, f, s, n in runs
        )


@dataclass
class PendingStream:
    """What a thread's events and tails hold that is not yet written to the file."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    tails: bytearray = field(default_factory=bytearray)
    tail_length: int = 0
    written: int = 0


class RecordFile:
    """A file written by native/record.c."""

    def __init__(self, path: Path, level: int, rank: int, size: int) -> None:
        self._library = kernel()
        self._record = self._library.weft_record_create(os.fsencode(path), level, rank, size)
        if not self._record:
            raise OSError(ctypes.get_errno(), f"{path} cannot be made: {os.strerror(ctypes.get_errno())}")

    def append(self, kind: int, thread: int, data: bytes | bytearray | Events) -> None:
        """Append bytes to a stream of the file."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, (bytes, bytearray)) else np.ascontiguousarray(data)
        if raw.nbytes and self._library.weft_record_append(self._record, kind, thread, raw, raw.nbytes):
            raise OSError("the record cannot grow")

    def close(self, state: int) -> None:
        """Write the final state and close the file."""
        if self._record:
            self._library.weft_record_close(self._record, state)
            self._library.weft_record_free(self._record)
            self._record = None

    def __del__(self) -> None:
        self.close(State.RUNNING)


class RankRecord:
    """The record of one rank in the making: definitions, events, tails and tasks, and the file that they go to."""

    def __init__(self, builder: RunInMaking, index: int, world: int, rank: int, size: int) -> None:
        self.builder = builder
        self.index = index
        self.world = world
        self.rank = rank
        self.size = size
        self.state: State | None = None
        self.host = "node0"
        self.path = builder.path / "ranks" / f"{world}-{rank:06d}.weft"
        self.last_ns = 0
        self._record: RecordFile | None = None
        self._missing = self._written = False
        self._streams: dict[int, PendingStream] = {}
        self._definitions = bytearray()
        self._sites: dict[tuple[str, int, str], int] = {}
        self._ids: dict[str, int] = {}
        self._children: dict[int, int] = {}
        self._any_open = False
        self._switches: dict[int, list[tuple[int, ...]]] = {}
        self._task_definitions = bytearray()
        self._task_names: list[str] = []
        self._outcomes: dict[int, list[int]] = {}
        self.worlds: dict[int, tuple[int, tuple[int, ...]]] = {}

    def add_ending(
        self, kind: EndingKind, *, code: int = 0, detail: int = 0, address: int = 0, name: str = "", text: str = "",
        traceback: str = "", who: str = "", python: Sequence[tuple[str, int, str]] = (),
        native: Sequence[tuple[int, int]] = (), thread: int | None = 0, at: int | None = None,
    ) -> None:  # fmt: skip
        """Define how the process ended, at `at` ns, by default after the calls so far.

        `python`: frames (file, line, function), innermost first; `native`: (module, offset) of defined modules.
        """
        ns, _ = self.builder.call_times(at, None)
        self.last_ns = max(self.last_ns, ns)
        slot, tid = (0, 99_000 + self.index) if thread is None else (thread + 1, self._thread_id(thread))
        payload = [encode_unsigned(v) for v in (kind, slot, tid, EPOCH_NS + ns)]
        payload += [
            encode_signed(code),
            encode_signed(detail),
            encode_unsigned(address),
            *map(encode_string, (name, text, traceback, who)),
        ]
        payload += [
            encode_unsigned(len(python)),
            *(encode_string(f) + encode_unsigned(line) + encode_string(g) for f, line, g in python),
        ]
        payload += [
            encode_unsigned(len(native)),
            *(encode_unsigned(module) + encode_unsigned(offset) for module, offset in native),
        ]
        self.define(Def.ENDING, b"".join(payload))

    def leave_no_record(self) -> None:
        """Make this rank leave no record, as a process that was killed at its start."""
        self._missing = True

    def define(self, kind: Def | int, payload: bytes) -> None:
        """Append a definition to the record. `payload`: its encoded contents."""
        self._definitions += encode_unsigned(int(kind)) + encode_unsigned(len(payload)) + payload

    def new_id(self, cls: str) -> int:
        """Return the next object id of a class."""
        self._ids[cls] = self._ids.get(cls, ID_DYNAMIC - 1) + 1
        return self._ids[cls]

    def append(self, events: Events, thread: int = 0) -> None:
        """Append ready-made events (dtype layout.EVENT) to a thread, after its calls so far."""
        self._flush(thread)
        self._streams[thread].written += len(events)
        self._open_record().append(StreamKind.EVENTS, thread, events)

    def append_tails(self, tails: bytes, thread: int = 0) -> int:
        """Append bytes to the thread's TAILS, and return the offset to put into a slot's `result`."""
        stream = self._streams.setdefault(thread, PendingStream())
        if stream.tail_length % 2:
            stream.tails += b"\0"
            stream.tail_length += 1
        at = stream.tail_length // layout.TAIL_ALIGN
        stream.tails += tails
        stream.tail_length += len(tails)
        return at

    def append_outcomes(self, nibbles: Iterable[int], thread: int = 0) -> None:
        """Append nibbles to the OUTCOMES stream of a run of level `outcomes`."""
        self._outcomes.setdefault(thread, []).extend(nibbles)

    def append_accesses(self, rows: NDArray[Any], thread: int = 0) -> None:
        """Append locks and atomic accesses of windows (dtype layout.ACCESS) to the thread's WINDOWS stream."""
        self._open_record().append(StreamKind.WINDOWS, thread, rows)

    def append_touches(self, rows: NDArray[Any], number: int = 0) -> None:
        """Append accesses to buffers of pending operations, and the buffers, to an ACCESSES stream (dtype
        layout.TOUCH).
        """
        self._open_record().append(StreamKind.ACCESSES, number, rows)

    def append_hashes(self, rows: NDArray[Any], thread: int = 0) -> None:
        """Append hashes of messages (dtype layout.HASHED) to the thread's HASHES stream."""
        self._open_record().append(StreamKind.HASHES, thread, rows)

    def append_contents(self, data: bytes, thread: int = 0) -> None:
        """Append the recorded bytes of a message. The messages come in the order of their rows among the hashes."""
        self._open_record().append(StreamKind.CONTENTS, thread, data + bytes(-len(data) % 8))

    def switch_task(
        self, task: int, *, thread: int = 0, parent: int = 0, name: str = "", kind: int = 3, site: int = 0,
        until: int = 0,
    ) -> None:  # fmt: skip
        """Record in RUN/tasks that the thread's next calls belong to a task (0: to none). The other parameters describe
        the task, as in `define_task`.
        """
        if name and name not in self._task_names:
            self._task_names.append(name)
            self.define_task(
                Def.NAME, encode_unsigned(NAMED) + encode_unsigned(len(self._task_names)) + encode_string(name)
            )
        stream = self._streams.setdefault(thread, PendingStream())
        number = self._task_names.index(name) + 1 if name else 0
        row = (stream.written + len(stream.rows), task, parent, site, number, kind, until)
        self._switches.setdefault(thread, []).append(row)

    def define_task(self, kind: Def, payload: bytes) -> None:
        """Append a definition to the rank's file of RUN/tasks."""
        self._task_definitions += encode_unsigned(int(kind)) + encode_unsigned(len(payload)) + payload

    def _write_tasks(self) -> None:
        """Write the rank's file of RUN/tasks, if any thread switched tasks."""
        if not self._switches:
            return
        path = self.builder.path / FOLDER / f"{self.world}-{self.rank:06d}{SUFFIX}"
        path.parent.mkdir(exist_ok=True)
        file = RecordFile(path, self.builder.level, self.rank, self.size)
        for slot, (thread, rows) in enumerate(self._switches.items()):
            file.append(StreamKind.EVENTS, slot, np.array(rows, SWITCH))
            tid = encode_unsigned(self._thread_id(thread))
            self.define_task(
                Def.THREAD,
                encode_unsigned(slot)
                + encode_unsigned(0)
                + tid
                + encode_unsigned(0)
                + encode_string("")
                + encode_unsigned(0),
            )
        file.append(StreamKind.DEFINITIONS, 0, self._task_definitions)
        file.close(State.EXITED)
        self._patch_header(path, TaskFile.MAGIC, SWITCH.itemsize)

    def _thread_id(self, thread: int) -> int:
        return 1000 + self.index + 100_000 * thread

    def _open_record(self) -> RecordFile:
        """Return the rank's record file, which is created at the first call."""
        if self._record is None:
            if self._written and self.path.exists():
                raise ValueError(f"{self.path} is written already")
            self._record = RecordFile(self.path, self.builder.level, self.rank, self.size)
        return self._record

    def _flush(self, thread: int) -> None:
        """Write the thread's pending events and tails to the file."""
        stream = self._streams.setdefault(thread, PendingStream())
        if stream.rows:
            stream.written += len(stream.rows)
            self._open_record().append(StreamKind.EVENTS, thread, np.array(stream.rows, EVENT))
            stream.rows.clear()
        if stream.tails:
            self._open_record().append(StreamKind.TAILS, thread, stream.tails)
            stream.tails.clear()

    def write(self) -> None:
        """Write everything to the file and close it; nothing can be added afterwards.

        A run of very many ranks writes them one by one.
        """
        if self._missing or self._written:
            return
        self._written = True
        for thread in sorted(self._streams):
            self._flush(thread)
        for thread, nibbles in self._outcomes.items():
            even = nibbles + [0] * (len(nibbles) % 2)
            packed = bytes(low | high << 4 for low, high in zip(even[::2], even[1::2], strict=True))
            self._open_record().append(StreamKind.OUTCOMES, thread, packed)
        for thread in sorted({*self._streams, *self._outcomes} or {0}):
            tid = encode_unsigned(self._thread_id(thread))
            self.define(
                Def.THREAD,
                encode_unsigned(thread)
                + encode_unsigned(0)
                + tid
                + encode_unsigned(thread == 0)
                + encode_string("prog")
                + encode_unsigned(0),
            )
        self._open_record().append(StreamKind.DEFINITIONS, 0, self._definitions)
        default = State.RUNNING if self._any_open else State.FINALIZED
        self._open_record().close(default if self.state is None else self.state)
        self._record = None
        self._patch_header(self.path, layout.MAGIC, EVENT.itemsize)
        self._write_tasks()

    def _patch_header(self, path: Path, magic: bytes, slot: int) -> None:
        """Write the synthetic run's clock, times, host and job into the header of a file. The chunks of OUTCOMES
        streams get their lengths in nibbles (half bytes).
        """
        with path.open("r+b") as file:
            header = np.frombuffer(file.read(layout.PAGE), layout.HEADER, count=1).copy()
            header["magic"], header["slot_size"] = magic, slot
            header["clock"] = layout.Clock.MONOTONIC_NS
            start = EPOCH_NS + self.builder.world_start.get(self.world, 0)
            header["start"] = (start, start, start + 10**18)
            end = max(EPOCH_NS + self.last_ns, start) + 1
            header["end"] = (end, end, end + 10**18)
            header["host"] = self.host.encode()
            header["job"] = b"weft-builder-%d" % self.world
            header["pid"] = 1000 + self.index
            header["thread_level"] = 3 if len(self._streams) > 1 else 0
            chunks = header["chunks"][0]
            for thread, nibbles in self._outcomes.items():
                left = len(nibbles)
                for chunk in chunks[: int(header["chunk_count"][0])]:
                    if chunk["kind"] == StreamKind.OUTCOMES and chunk["thread"] == thread:
                        chunk["used"] = min(left, int(chunk["pages"]) * layout.PAGE * 2)
                        left -= int(chunk["used"])
            file.seek(0)
            file.write(header.tobytes())
