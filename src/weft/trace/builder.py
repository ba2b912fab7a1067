"""Builds real run directories for tests and benchmarks, through the C writer.

    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=7, site=("step.py", 9, "exchange"))
    r1.recv(ANY, got=0, tag=7)
    r2.open.recv(0)                      # never returned
    trace = b.open()

Every call takes `site=(file, line, function)`, `error=class`, `enter=ns, exit=ns` (else a logical clock that all ranks
share: a call a microsecond), `thread=slot`, `ticket=n`, `open=True`. Other keywords are arguments by their names in
the standard. Communicators, datatypes and requests are what the methods return, or ids, or (predefined) names.
"""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.plain import dataclass
from weft.trace import layout
from weft.trace.functions import Function, FunctionTable
from weft.trace.layout import (
    ANY_SOURCE,
    ANY_TAG,
    COUNT_IN_TAIL,
    EVENT,
    ID_DYNAMIC,
    Def,
    EndingKind,
    Events,
    Flag,
    Level,
    State,
    StreamKind,
)
from weft.trace.run import Trace
from weft.trace.tails import Status, encode_tail
from weft.trace.tasks import FOLDER, NAMED, SUFFIX, SWITCH, TaskFile
from weft.trace.varint import put_s, put_u, put_z

ANY: Final = ANY_SOURCE
WORLD: Final = layout.ID_WORLD
SELF: Final = layout.ID_SELF
PROC_NULL: Final = layout.PROC_NULL
NO_REQUEST: Final = 1
EPOCH_NS: Final = 1_000_000_000
STEP_NS: Final = 1000

# x86-64 Linux. Only what synthetic traces need to agree with.
SIZES: Final[dict[str, int]] = {
    "MPI_CHAR": 1, "MPI_SIGNED_CHAR": 1, "MPI_UNSIGNED_CHAR": 1, "MPI_BYTE": 1, "MPI_PACKED": 1, "MPI_C_BOOL": 1,
    "MPI_INT8_T": 1, "MPI_UINT8_T": 1, "MPI_SHORT": 2, "MPI_UNSIGNED_SHORT": 2, "MPI_INT16_T": 2, "MPI_UINT16_T": 2,
    "MPI_INT": 4, "MPI_UNSIGNED": 4, "MPI_FLOAT": 4, "MPI_INT32_T": 4, "MPI_UINT32_T": 4, "MPI_INTEGER": 4,
    "MPI_REAL": 4, "MPI_LOGICAL": 4, "MPI_WCHAR": 4, "MPI_CHARACTER": 1, "MPI_LONG": 8, "MPI_LONG_LONG": 8,
    "MPI_UNSIGNED_LONG": 8, "MPI_UNSIGNED_LONG_LONG": 8, "MPI_DOUBLE": 8, "MPI_INT64_T": 8, "MPI_UINT64_T": 8,
    "MPI_AINT": 8, "MPI_COUNT": 8, "MPI_OFFSET": 8, "MPI_DOUBLE_PRECISION": 8, "MPI_COMPLEX": 8, "MPI_C_COMPLEX": 8,
    "MPI_LONG_DOUBLE": 16, "MPI_C_DOUBLE_COMPLEX": 16, "MPI_DOUBLE_COMPLEX": 16, "MPI_FLOAT_INT": 8,
    "MPI_DOUBLE_INT": 12, "MPI_2INT": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Comm:
    """A communicator that the builder made: the id that each rank has for it. `members` are rank indices."""

    ids: Mapping[int, int]
    members: tuple[int, ...]
    remote: tuple[int, ...] = ()

    def rank_of(self, index: int) -> int:
        """The rank in it of the rank with this index."""
        return (self.members if index in self.members else self.remote).index(index)


@dataclass
class Request:
    """A request. `status` is what its completion will tell, None for a send."""

    id: int
    function: str
    status: Status | None = None
    persistent: bool = False


@dataclass(frozen=True)
class Type:
    """A derived datatype of one rank."""

    id: int
    size: int
    extent: int


Handle = Comm | Type | Request | int | str


@dataclass
class _Stream:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    tails: bytearray = field(default_factory=bytearray)
    tail_length: int = 0
    written: int = 0


class _Record:
    """A file written by native/record.c."""

    def __init__(self, path: Path, level: int, rank: int, size: int) -> None:
        from weft.native.kernel import library

        self._library = library()
        create = self._library.weft_record_create
        create.restype = ctypes.c_void_p
        create.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        self._library.weft_record_append.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64,
        ]  # fmt: skip
        self._library.weft_record_close.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._library.weft_record_free.argtypes = [ctypes.c_void_p]
        self._record = create(os.fsencode(path), level, rank, size)
        if not self._record:
            raise OSError(ctypes.get_errno(), f"{path} cannot be made: {os.strerror(ctypes.get_errno())}")

    def append(self, kind: int, thread: int, data: bytes | bytearray | Events) -> None:
        raw = np.frombuffer(data, np.uint8) if isinstance(data, (bytes, bytearray)) else np.ascontiguousarray(data)
        if raw.nbytes and self._library.weft_record_append(self._record, kind, thread, raw.ctypes.data, raw.nbytes):
            raise OSError("the record cannot grow")

    def close(self, state: int) -> None:
        if self._record:
            self._library.weft_record_close(self._record, state)
            self._library.weft_record_free(self._record)
            self._record = None

    def __del__(self) -> None:
        self.close(State.RUNNING)


class RankBuilder:
    """One rank of a Builder. Methods are calls of the program, in its order."""

    def __init__(self, builder: Builder, index: int, world: int, rank: int, size: int) -> None:
        self.builder = builder
        self.index = index
        self.world = world
        self.rank = rank
        self.size = size
        self.state: State | None = None
        self.host = "node0"
        self.path = builder.path / "ranks" / f"{world}-{rank:06d}.weft"
        self.last_ns = 0
        self._record: _Record | None = None
        self._missing = False
        self._streams: dict[int, _Stream] = {}
        self._definitions = bytearray()
        self._sites: dict[tuple[str, int, str], int] = {}
        self._ids: dict[str, int] = {}
        self._children: dict[int, int] = {}
        self._any_open = False
        self._switches: dict[int, list[tuple[int, ...]]] = {}
        self._task_definitions = bytearray()
        self._task_names: list[str] = []
        self._order: dict[int, list[int]] = {}
        self.worlds: dict[int, tuple[int, tuple[int, ...]]] = {}

    # The record

    def ends(
        self, kind: EndingKind, *, code: int = 0, detail: int = 0, address: int = 0, name: str = "", text: str = "",
        traceback: str = "", who: str = "", python: Sequence[tuple[str, int, str]] = (),
        native: Sequence[tuple[int, int]] = (), thread: int | None = 0, at: int | None = None,
    ) -> None:  # fmt: skip
        """What the process tells of its end, at `at` ns (else behind what was called so far).

        `python`: frames (file, line, function), innermost first; `native`: (module, offset) of defined modules.
        """
        ns, _ = self.builder.times(at, None)
        self.last_ns = max(self.last_ns, ns)
        slot, tid = (0, 99_000 + self.index) if thread is None else (thread + 1, self._tid(thread))
        payload = [put_u(v) for v in (kind, slot, tid, EPOCH_NS + ns)]
        payload += [put_z(code), put_z(detail), put_u(address), *map(put_s, (name, text, traceback, who))]
        payload += [put_u(len(python)), *(put_s(f) + put_u(line) + put_s(g) for f, line, g in python)]
        payload += [put_u(len(native)), *(put_u(module) + put_u(offset) for module, offset in native)]
        self.define(Def.ENDING, b"".join(payload))

    def missing(self) -> None:
        """This rank leaves no record."""
        self._missing = True

    def define(self, kind: Def | int, payload: bytes) -> None:
        """Append a definition as bytes."""
        self._definitions += put_u(int(kind)) + put_u(len(payload)) + payload

    def new_id(self, cls: str) -> int:
        """The next object id of a class."""
        self._ids[cls] = self._ids.get(cls, ID_DYNAMIC - 1) + 1
        return self._ids[cls]

    def append(self, events: Events, thread: int = 0) -> None:
        """Append slots (dtype layout.EVENT) as they are, behind what was called so far."""
        self._flush(thread)
        self._streams[thread].written += len(events)
        self._file().append(StreamKind.EVENTS, thread, events)

    def append_tails(self, tails: bytes, thread: int = 0) -> int:
        """Append bytes to the thread's TAILS; returns the offset to keep in a slot's `result`."""
        stream = self._streams.setdefault(thread, _Stream())
        if stream.tail_length % 2:
            stream.tails += b"\0"
            stream.tail_length += 1
        at = stream.tail_length // layout.TAIL_ALIGN
        stream.tails += tails
        stream.tail_length += len(tails)
        return at

    def outcomes(self, nibbles: Iterable[int], thread: int = 0) -> None:
        """Append nibbles to the OUTCOMES stream of a run of level `outcomes`."""
        self._order.setdefault(thread, []).extend(nibbles)

    def accesses(self, rows: NDArray[Any], thread: int = 0) -> None:
        """Append locks and atomic accesses of windows (dtype layout.ACCESS) to the thread's WINDOWS stream."""
        self._file().append(StreamKind.WINDOWS, thread, rows)

    def switch(
        self, task: int, *, thread: int = 0, parent: int = 0, name: str = "", kind: int = 3, site: int = 0,
        until: int = 0,
    ) -> None:  # fmt: skip
        """From here on the thread's calls are those of a task (0: of none), in RUN/tasks; see `define_task`."""
        if name and name not in self._task_names:
            self._task_names.append(name)
            self.define_task(Def.NAME, put_u(NAMED) + put_u(len(self._task_names)) + put_s(name))
        stream = self._streams.setdefault(thread, _Stream())
        number = self._task_names.index(name) + 1 if name else 0
        row = (stream.written + len(stream.rows), task, parent, site, number, kind, until)
        self._switches.setdefault(thread, []).append(row)

    def define_task(self, kind: Def, payload: bytes) -> None:
        """Append a definition to the rank's file of RUN/tasks."""
        self._task_definitions += put_u(int(kind)) + put_u(len(payload)) + payload

    def _write_tasks(self) -> None:
        if not self._switches:
            return
        path = self.builder.path / FOLDER / f"{self.world}-{self.rank:06d}{SUFFIX}"
        path.parent.mkdir(exist_ok=True)
        file = _Record(path, self.builder.level, self.rank, self.size)
        for slot, (thread, rows) in enumerate(self._switches.items()):
            file.append(StreamKind.EVENTS, slot, np.array(rows, SWITCH))
            self.define_task(Def.THREAD, put_u(slot) + put_u(0) + put_u(self._tid(thread)) + put_u(0) + put_s(""))
        file.append(StreamKind.DEFINITIONS, 0, self._task_definitions)
        file.close(State.EXITED)
        self._patch_header(path, TaskFile.MAGIC, SWITCH.itemsize)

    def _tid(self, thread: int) -> int:
        return 1000 + self.index + 100_000 * thread

    def _file(self) -> _Record:
        if self._record is None:
            self._record = _Record(self.path, self.builder.level, self.rank, self.size)
        return self._record

    def _flush(self, thread: int) -> None:
        stream = self._streams.setdefault(thread, _Stream())
        if stream.rows:
            stream.written += len(stream.rows)
            self._file().append(StreamKind.EVENTS, thread, np.array(stream.rows, EVENT))
            stream.rows.clear()
        if stream.tails:
            self._file().append(StreamKind.TAILS, thread, stream.tails)
            stream.tails.clear()

    def write(self) -> None:
        """Write all to the file and close it."""
        if self._missing:
            return
        for thread in sorted(self._streams):
            self._flush(thread)
        for thread, nibbles in self._order.items():
            even = nibbles + [0] * (len(nibbles) % 2)
            packed = bytes(low | high << 4 for low, high in zip(even[::2], even[1::2], strict=True))
            self._file().append(StreamKind.OUTCOMES, thread, packed)
        for thread in sorted({*self._streams, *self._order} or {0}):
            tid = put_u(self._tid(thread))
            self.define(Def.THREAD, put_u(thread) + put_u(0) + tid + put_u(thread == 0) + put_s("prog"))
        self._file().append(StreamKind.DEFINITIONS, 0, self._definitions)
        default = State.RUNNING if self._any_open else State.FINALIZED
        self._file().close(default if self.state is None else self.state)
        self._record = None
        self._patch_header(self.path, layout.MAGIC, EVENT.itemsize)
        self._write_tasks()

    def _patch_header(self, path: Path, magic: bytes, slot: int) -> None:
        """A synthetic run has its own clock, host and job, and its OUTCOMES streams count in nibbles."""
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
            for thread, nibbles in self._order.items():
                left = len(nibbles)
                for chunk in chunks[: int(header["chunk_count"][0])]:
                    if chunk["kind"] == StreamKind.OUTCOMES and chunk["thread"] == thread:
                        chunk["used"] = min(left, int(chunk["pages"]) * layout.PAGE * 2)
                        left -= int(chunk["used"])
            file.seek(0)
            file.write(header.tobytes())

    # Calls

    @property
    def open(self) -> Any:
        """`r.open.recv(0)`: the call never returned."""
        return _Open(self)

    def site(self, site: tuple[str, int, str] | int | None) -> int:
        """The id of a call site."""
        if site is None or isinstance(site, int):
            return site or 0
        if site not in self._sites:
            id = len(self._sites) + 1
            file, line, function = site
            table = bytes([0x80 | 13 << 3 | 7]) + put_u(0)
            self.define(Def.PYCODE, put_u(id) + put_s(file) + put_s(function) + put_u(line) + put_s(table))
            self.define(Def.SITE, put_u(id) + put_u(0) + put_u(0) + put_u(id) + put_u(0))
            self._sites[site] = id
        return self._sites[site]

    def call(
        self, name: str, *, site: tuple[str, int, str] | int | None = None, open: bool = False, error: int = 0,
        enter: int | None = None, exit: int | None = None, thread: int = 0, ticket: int | None = None,
        flags: int = 0, status: Status | None = None, polls: int = 0, result: int | None = None, **arguments: Any,
    ) -> int:  # fmt: skip
        """Record any call. Returns its index among the events of its thread.

        `status` is what the call's status says, `polls` how many equal failed polls the event stands for.
        """
        function = self.builder.functions[name]
        unknown = set(arguments) - set(function.by_name)
        if unknown:
            raise TypeError(
                f"{name} has no argument {', '.join(sorted(unknown))}; it has {', '.join(function.by_name)}"
            )
        values = {key: self._plain(function, key, value) for key, value in arguments.items()}
        place = function.by_name["status"].place if "status" in function.by_name else None
        if place == "tail":
            values["status"] = status
        start, end = self.builder.times(enter, exit)
        self.last_ns = max(self.last_ns, end)
        flags |= 0 if open else Flag.CLOSED
        slot = self._slot(function, values, flags, status, polls)
        self._tail(function, slot, values, status=status, ticket=ticket, thread=thread)
        if result is not None:
            slot["result"] = result
        duration = 0 if open else layout.encode_duration(end - start)
        stream = self._streams.setdefault(thread, _Stream())
        stream.rows.append(
            (
                EPOCH_NS + start,
                duration,
                function.id,
                slot["flags"],
                error,
                self.site(site),
                slot["comm"],
                slot["peer"],
                slot["tag"],
                slot["datatype"],
                slot["count"],
                slot["result"],
                slot["object"],
                slot["buffer"],
            )
        )
        self._any_open |= open
        return stream.written + len(stream.rows) - 1

    def _plain(self, function: Function, name: str, value: Any) -> Any:
        """Handles as ids."""
        parameter = function.by_name[name]
        if parameter.handle and parameter.array and value is not None:
            return [self._id(parameter.handle, item) for item in value]
        return self._id(parameter.handle, value) if parameter.handle else value

    def _id(self, cls: str, value: Any) -> int:
        if value is None:
            return 1
        if isinstance(value, Comm):
            return value.ids[self.index]
        if isinstance(value, (Type, Request)):
            return value.id
        if isinstance(value, str):
            return self.builder.functions.object_id(cls, value)
        return int(value)

    def _slot(
        self, function: Function, values: dict[str, Any], flags: int, status: Status | None, polls: int
    ) -> dict[str, int]:
        slot = dict.fromkeys(("comm", "peer", "tag", "datatype", "count", "result", "object", "buffer"), 0)
        for place, p in function.slot.items():
            value = values.get(p.name)
            if place == "flag":
                flags |= Flag.TRUE if value else 0
            elif place != "status" and value is not None:
                slot[place] = int(value)
        peer = function.slot.get("peer")
        if peer and peer.name == "source" and slot["peer"] == ANY_SOURCE:
            flags |= Flag.ANY_SOURCE
        tag = function.slot.get("tag")
        if tag and tag.handle is None and peer and peer.name == "source" and slot["tag"] == ANY_TAG:
            flags |= Flag.ANY_TAG
        if slot["peer"] < -3:
            slot["peer"] += layout.RANK_INVALID_BASE
        if status is not None and "status" in function.slot and flags & Flag.CLOSED:
            slot["peer"], slot["tag"], slot["result"] = status.source, status.tag, min(status.count, 2**32 - 1)
            flags |= Flag.CANCELLED if status.cancelled else 0
        elif status is None and "status" in function.slot and peer is None:
            slot["peer"] = slot["tag"] = -1  # the completion of a send, or of nothing
        if polls:
            slot["count"] = polls
        slot["flags"] = flags
        return slot

    def _tail(
        self, function: Function, slot: dict[str, int], values: dict[str, Any], *, status: Status | None,
        ticket: int | None, thread: int,
    ) -> None:  # fmt: skip
        count = None
        if not -(2**31) <= slot["count"] < COUNT_IN_TAIL:
            count, slot["count"] = slot["count"], COUNT_IN_TAIL
        received = status.count if status and "status" in function.slot else 0
        if not (function.tail_in or function.tail_out or count is not None or ticket is not None or received >> 32):
            return
        slot["flags"] |= Flag.HAS_TAIL | (Flag.TICKET if ticket is not None else 0)
        tail = encode_tail(
            function, slot["flags"], values, buffer=slot["buffer"], count=count, slot_count=slot["count"],
            ticket=ticket or 0, received=received,
        )  # fmt: skip
        slot["result"] = self.append_tails(tail, thread)

    # Point to point

    def _message(
        self, kw: dict[str, Any], comm: Handle, datatype: Handle, count: int, buffer: int | None
    ) -> dict[str, Any]:
        address = 0x10000 + 0x1000 * self.index if buffer is None else buffer
        return {"buf": address, "count": count, "datatype": datatype, "comm": comm, **kw}

    def bytes_of(self, datatype: Handle, count: int) -> int:
        """Bytes of `count` elements."""
        if isinstance(datatype, Type):
            return datatype.size * count
        name = (
            datatype
            if isinstance(datatype, str)
            else self.builder.functions.object_name("DATATYPE", self._id("DATATYPE", datatype))
        )
        return SIZES.get(name or "", 0) * count

    def _got(
        self, source: int, tag: int, *, got: int | None, got_tag: int | None, received: int | None,
        datatype: Handle = 0, count: int = 0, open: bool = False, cancelled: bool = False,
    ) -> Status | None:  # fmt: skip
        if source == layout.PROC_NULL:
            return Status(layout.PROC_NULL, ANY_TAG, 0)
        if (got is None and source == ANY_SOURCE) or (got_tag is None and tag == ANY_TAG):
            if open:
                return None
            if got is None and source == ANY_SOURCE:
                raise TypeError("a wildcard receive that returned needs got=source (and got_tag=)")
            got_tag = 0
        size = self.bytes_of(datatype, count) if received is None else received
        return Status(source if got is None else got, tag if got_tag is None else got_tag, size, cancelled)

    def send(
        self, dest: int, tag: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, function: str = "MPI_Send", **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Send."""
        return self.call(function, dest=dest, tag=tag, **self._message(kw, comm, datatype, count, buffer))

    def ssend(self, dest: int, tag: int = 0, **kw: Any) -> int:
        """MPI_Ssend."""
        return self.send(dest, tag, function="MPI_Ssend", **kw)

    def bsend(self, dest: int, tag: int = 0, **kw: Any) -> int:
        """MPI_Bsend."""
        return self.send(dest, tag, function="MPI_Bsend", **kw)

    def rsend(self, dest: int, tag: int = 0, **kw: Any) -> int:
        """MPI_Rsend."""
        return self.send(dest, tag, function="MPI_Rsend", **kw)

    def isend(
        self, dest: int, tag: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, function: str = "MPI_Isend", **kw: Any,
    ) -> Request:  # fmt: skip
        """MPI_Isend."""
        request = Request(self.new_id("REQUEST"), function, persistent=function.endswith("_init"))
        message = self._message(kw, comm, datatype, count, buffer)
        self.call(function, dest=dest, tag=tag, request=request, **message)
        return request

    def issend(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """MPI_Issend."""
        return self.isend(dest, tag, function="MPI_Issend", **kw)

    def ibsend(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """MPI_Ibsend."""
        return self.isend(dest, tag, function="MPI_Ibsend", **kw)

    def irsend(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """MPI_Irsend."""
        return self.isend(dest, tag, function="MPI_Irsend", **kw)

    def send_init(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """MPI_Send_init."""
        return self.isend(dest, tag, function="MPI_Send_init", **kw)

    def ssend_init(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """MPI_Ssend_init."""
        return self.isend(dest, tag, function="MPI_Ssend_init", **kw)

    def recv(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int | None = None, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Recv. `got` and `got_tag`: what a wildcard got; `received`: bytes, else the whole count."""
        status = self._got(
            source,
            tag,
            got=got,
            got_tag=got_tag,
            received=received,
            datatype=datatype,
            count=count,
            open=kw.get("open", False),
        )
        return self.call(
            "MPI_Recv", source=source, tag=tag, status=status, **self._message(kw, comm, datatype, count, buffer)
        )

    def irecv(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int | None = None, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, cancelled: bool = False, function: str = "MPI_Irecv", **kw: Any,
    ) -> Request:  # fmt: skip
        """MPI_Irecv. What its completion tells is given here and shown by the completing call."""
        request = Request(self.new_id("REQUEST"), function, persistent=function.endswith("_init"))
        request.status = self._got(
            source,
            tag,
            got=got,
            got_tag=got_tag,
            received=received,
            datatype=datatype,
            count=count,
            open=True,
            cancelled=cancelled,
        )
        message = self._message(kw, comm, datatype, count, buffer)
        self.call(function, source=source, tag=tag, request=request, **message)
        return request

    def recv_init(self, source: int = ANY, tag: int = 0, **kw: Any) -> Request:
        """MPI_Recv_init. Set request.status before a completion to say what a wildcard got."""
        return self.irecv(source, tag, function="MPI_Recv_init", **kw)

    def sendrecv(
        self, dest: int, source: int, *, sendtag: int = 0, recvtag: int = 0, got: int | None = None,
        got_tag: int | None = None, received: int | None = None, count: int = 1, datatype: Handle = "MPI_INT",
        recvcount: int | None = None, recvtype: Handle | None = None, comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Sendrecv."""
        many = count if recvcount is None else recvcount
        kind = datatype if recvtype is None else recvtype
        status = self._got(
            source,
            recvtag,
            got=got,
            got_tag=got_tag,
            received=received,
            datatype=kind,
            count=many,
            open=kw.get("open", False),
        )
        return self.call(
            "MPI_Sendrecv", status=status, sendbuf=0x1000, sendcount=count, sendtype=datatype, dest=dest,
            sendtag=sendtag,
            recvbuf=0x2000, recvcount=many, recvtype=kind, source=source, recvtag=recvtag, comm=comm, **kw,
        )  # fmt: skip

    def probe(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Probe."""
        status = self._got(source, tag, got=got, got_tag=got_tag, received=received, open=kw.get("open", False))
        return self.call("MPI_Probe", source=source, tag=tag, comm=comm, status=status, **kw)

    def iprobe(
        self, source: int = ANY, tag: int = 0, *, flag: bool = True, polls: int = 1, got: int | None = None,
        got_tag: int | None = None, received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Iprobe; with flag=False it stands for `polls` failed ones."""
        status = (
            self._got(source, tag, got=got, got_tag=got_tag, received=received, open=kw.get("open", False))
            if flag
            else None
        )
        return self.call(
            "MPI_Iprobe", source=source, tag=tag, comm=comm, status=status, flag=flag, polls=0 if flag else polls, **kw
        )

    def mprobe(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> Request:  # fmt: skip
        """MPI_Mprobe. Returns the message, for mrecv."""
        status = self._got(source, tag, got=got, got_tag=got_tag, received=received, open=kw.get("open", False))
        message = Request(self.new_id("MESSAGE"), "MPI_Mprobe", status)
        self.call("MPI_Mprobe", source=source, tag=tag, comm=comm, status=status, message=message, **kw)
        return message

    def improbe(
        self, source: int = ANY, tag: int = 0, *, flag: bool = True, polls: int = 1, got: int | None = None,
        got_tag: int | None = None, received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> Request | None:  # fmt: skip
        """MPI_Improbe. Returns the message, None with flag=False."""
        if not flag:
            self.call("MPI_Improbe", source=source, tag=tag, comm=comm, flag=False, polls=polls, **kw)
            return None
        status = self._got(source, tag, got=got, got_tag=got_tag, received=received)
        message = Request(self.new_id("MESSAGE"), "MPI_Improbe", status)
        self.call("MPI_Improbe", source=source, tag=tag, comm=comm, status=status, message=message, flag=True, **kw)
        return message

    def mrecv(self, message: Request, *, count: int = 1, datatype: Handle = "MPI_INT", **kw: Any) -> int:
        """MPI_Mrecv of a message of mprobe."""
        kw = {"buf": 0x1000, **kw}
        return self.call("MPI_Mrecv", count=count, datatype=datatype, message=message, status=message.status, **kw)

    def imrecv(self, message: Request, *, count: int = 1, datatype: Handle = "MPI_INT", **kw: Any) -> Request:
        """MPI_Imrecv of a message of mprobe."""
        request = Request(self.new_id("REQUEST"), "MPI_Imrecv", message.status)
        self.call(
            "MPI_Imrecv", count=count, datatype=datatype, message=message, request=request, **{"buf": 0x1000, **kw}
        )
        return request

    # Requests

    def start(self, request: Request, **kw: Any) -> int:
        """MPI_Start."""
        return self.call("MPI_Start", request=request, **kw)

    def startall(self, requests: Sequence[Request], **kw: Any) -> int:
        """MPI_Startall."""
        return self.call("MPI_Startall", count=len(requests), array_of_requests=requests, **kw)

    def wait(self, request: Request, **kw: Any) -> int:
        """MPI_Wait."""
        return self.call("MPI_Wait", request=request, status=request.status, **kw)

    def test(self, request: Request, flag: bool = True, polls: int = 1, **kw: Any) -> int:
        """MPI_Test; with flag=False it stands for `polls` failed ones."""
        status = request.status if flag else None
        return self.call("MPI_Test", request=request, flag=flag, status=status, polls=0 if flag else polls, **kw)

    def waitall(self, requests: Sequence[Request], **kw: Any) -> int:
        """MPI_Waitall."""
        return self.call(
            "MPI_Waitall", count=len(requests), array_of_requests=requests,
            array_of_statuses=[r.status for r in requests], **kw,
        )  # fmt: skip

    def testall(self, requests: Sequence[Request], flag: bool = True, polls: int = 1, **kw: Any) -> int:
        """MPI_Testall."""
        return self.call(
            "MPI_Testall", array_of_requests=requests, flag=flag, polls=0 if flag else polls,
            array_of_statuses=[r.status for r in requests] if flag else [], **kw,
        )  # fmt: skip

    def waitany(self, requests: Sequence[Request], index: int = 0, **kw: Any) -> int:
        """MPI_Waitany; `index` completed."""
        return self.call(
            "MPI_Waitany", count=len(requests), array_of_requests=requests, index=index,
            status=requests[index].status if 0 <= index < len(requests) else None, **kw,
        )  # fmt: skip

    def testany(self, requests: Sequence[Request], index: int | None = 0, polls: int = 1, **kw: Any) -> int:
        """MPI_Testany; index None: none had completed."""
        if index is None:
            return self.call("MPI_Testany", array_of_requests=requests, index=-32766, flag=False, polls=polls, **kw)
        status = requests[index].status
        return self.call("MPI_Testany", array_of_requests=requests, index=index, flag=True, status=status, **kw)

    def waitsome(self, requests: Sequence[Request], indices: Sequence[int], **kw: Any) -> int:
        """MPI_Waitsome; `indices` completed."""
        return self.call(
            "MPI_Waitsome", incount=len(requests), array_of_requests=requests, outcount=len(indices),
            array_of_indices=indices, array_of_statuses=[requests[i].status for i in indices], **kw,
        )  # fmt: skip

    def testsome(self, requests: Sequence[Request], indices: Sequence[int], polls: int = 1, **kw: Any) -> int:
        """MPI_Testsome; no indices: it stands for `polls` failed ones."""
        return self.call(
            "MPI_Testsome", array_of_requests=requests, outcount=len(indices), array_of_indices=indices,
            array_of_statuses=[requests[i].status for i in indices], polls=0 if indices else polls, **kw,
        )  # fmt: skip

    def cancel(self, request: Request, **kw: Any) -> int:
        """MPI_Cancel."""
        return self.call("MPI_Cancel", request=request, **kw)

    def request_free(self, request: Request, **kw: Any) -> int:
        """MPI_Request_free."""
        return self.call("MPI_Request_free", request=request, **kw)

    # Collectives

    def barrier(self, comm: Handle = WORLD, **kw: Any) -> int:
        """MPI_Barrier."""
        return self.call("MPI_Barrier", comm=comm, **kw)

    def ibarrier(self, comm: Handle = WORLD, **kw: Any) -> Request:
        """MPI_Ibarrier."""
        return self._nonblocking("MPI_Ibarrier", comm=comm, **kw)

    def bcast(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any
    ) -> int:
        """MPI_Bcast."""
        kw = {"buffer": 0x1000, **kw}
        return self.call("MPI_Bcast", count=count, datatype=datatype, root=root, comm=comm, **kw)

    def reduce(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", op: Handle = "MPI_SUM",
        comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Reduce."""
        kw = {"sendbuf": 0x1000, "recvbuf": 0x2000, **kw}
        return self.call("MPI_Reduce", count=count, datatype=datatype, op=op, root=root, comm=comm, **kw)

    def allreduce(
        self, *, count: int = 1, datatype: Handle = "MPI_INT", op: Handle = "MPI_SUM", comm: Handle = WORLD,
        function: str = "MPI_Allreduce", **kw: Any,
    ) -> int:  # fmt: skip
        """MPI_Allreduce."""
        kw = {"sendbuf": 0x1000, "recvbuf": 0x2000, **kw}
        return self.call(function, count=count, datatype=datatype, op=op, comm=comm, **kw)

    def scan(self, **kw: Any) -> int:
        """MPI_Scan."""
        return self.allreduce(function="MPI_Scan", **kw)

    def exscan(self, **kw: Any) -> int:
        """MPI_Exscan."""
        return self.allreduce(function="MPI_Exscan", **kw)

    def iallreduce(self, **kw: Any) -> Request:
        """MPI_Iallreduce."""
        arguments = {"count": 1, "datatype": "MPI_INT", "op": "MPI_SUM", "comm": WORLD, "sendbuf": 0x1000, **kw}
        return self._nonblocking("MPI_Iallreduce", **arguments)

    def ibcast(self, root: int = 0, **kw: Any) -> Request:
        """MPI_Ibcast."""
        arguments = {"count": 1, "datatype": "MPI_INT", "comm": WORLD, "buffer": 0x1000, **kw}
        return self._nonblocking("MPI_Ibcast", root=root, **arguments)

    def _nonblocking(self, name: str, **kw: Any) -> Request:
        request = Request(self.new_id("REQUEST"), name)
        self.call(name, request=request, **kw)
        return request

    def _exchange(
        self, name: str, root: int | None, kw: dict[str, Any], *, count: int, datatype: Handle, comm: Handle
    ) -> int:
        arguments: dict[str, Any] = {
            "sendbuf": 0x1000, "sendcount": count, "sendtype": datatype, "recvbuf": 0x2000, "recvcount": count,
            "recvtype": datatype, "comm": comm, **kw,
        }  # fmt: skip
        if root is not None:
            arguments["root"] = root
        return self.call(name, **arguments)

    def gather(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any
    ) -> int:
        """MPI_Gather."""
        return self._exchange("MPI_Gather", root, kw, count=count, datatype=datatype, comm=comm)

    def scatter(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any
    ) -> int:
        """MPI_Scatter."""
        return self._exchange("MPI_Scatter", root, kw, count=count, datatype=datatype, comm=comm)

    def allgather(self, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any) -> int:
        """MPI_Allgather."""
        return self._exchange("MPI_Allgather", None, kw, count=count, datatype=datatype, comm=comm)

    def alltoall(self, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any) -> int:
        """MPI_Alltoall."""
        return self._exchange("MPI_Alltoall", None, kw, count=count, datatype=datatype, comm=comm)

    def init(self, **kw: Any) -> int:
        """MPI_Init."""
        return self.call("MPI_Init", **kw)

    def finalize(self, *, leaving: bool = False, **kw: Any) -> int:
        """MPI_Finalize; `leaving`: called by the way out of the process, not by the program."""
        index = self.call("MPI_Finalize", **kw)
        rows = self._streams[kw.get("thread", 0)].rows
        rows[-1] = (*rows[-1][:-1], layout.LEAVING if leaving else 0)
        return index

    # Objects

    def make_comm(
        self, function: str, parent: Handle, members: Sequence[int], *, remote: Sequence[int] = (), key: str = "",
        name: str | None = None, inter: bool | None = None, **kw: Any,
    ) -> int:  # fmt: skip
        """This rank's part of making a communicator: the call and the definition. Returns the rank's id for it."""
        id = self.new_id("COMM")
        parent_id = self._id("COMM", parent)
        entry = self.builder.functions[function]
        names = {p.place: p.name for p in entry.parameters if p.handle == "COMM"}
        if "object" in names:
            self.call(function, **{names["comm"]: parent_id, names["object"]: id, **kw})
        self._children[parent_id] = self._children.get(parent_id, 0) + 1
        group = members if self.index in members else remote
        inter = bool(remote) if inter is None else inter
        payload = [put_u(v) for v in (id, parent_id, entry.id, self._children[parent_id] - 1, inter)]
        payload += [put_z(list(group).index(self.index)), put_s(key)]
        sides = (members, remote) if self.index in members else (remote, members)
        payload += [self.builder.members(self, side) for side in sides]
        self.define(Def.COMM, b"".join(payload))
        if name:
            self.define(Def.NAME, put_u(1) + put_u(id) + put_s(name))
        return id

    def comm_free(self, comm: Handle, **kw: Any) -> int:
        """MPI_Comm_free."""
        return self.call("MPI_Comm_free", comm=comm, **kw)

    def datatype(
        self, combiner: str, *, types: Sequence[Handle], integers: Sequence[int] = (), addresses: Sequence[int] = (),
        size: int, extent: int, lb: int = 0,
    ) -> Type:  # fmt: skip
        """Define a derived datatype, without a call."""
        id = self.new_id("DATATYPE")
        ids = [self._id("DATATYPE", t) for t in types]
        payload = [put_u(id), put_u(size), put_z(lb), put_z(extent)]
        payload += [put_u(self.builder.functions.combiners.index(combiner)), put_u(len(integers))]
        payload += [
            *map(put_z, integers),
            put_u(len(addresses)),
            *map(put_z, addresses),
            put_u(len(ids)),
            *map(put_u, ids),
        ]
        self.define(Def.DATATYPE, b"".join(payload))
        return Type(id, size, extent)

    def extent_of(self, datatype: Handle) -> int:
        """Extent in bytes."""
        return datatype.extent if isinstance(datatype, Type) else self.bytes_of(datatype, 1)

    def type_contiguous(self, count: int, oldtype: Handle, **kw: Any) -> Type:
        """MPI_Type_contiguous."""
        made = self.datatype(
            "CONTIGUOUS", types=[oldtype], integers=[count], size=self.bytes_of(oldtype, count),
            extent=count * self.extent_of(oldtype),
        )  # fmt: skip
        self.call("MPI_Type_contiguous", count=count, oldtype=oldtype, newtype=made, **kw)
        return made

    def type_vector(self, count: int, blocklength: int, stride: int, oldtype: Handle, **kw: Any) -> Type:
        """MPI_Type_vector."""
        made = self.datatype(
            "VECTOR", types=[oldtype], integers=[count, blocklength, stride],
            size=self.bytes_of(oldtype, count * blocklength),
            extent=((count - 1) * stride + blocklength) * self.extent_of(oldtype),
        )  # fmt: skip
        self.call(
            "MPI_Type_vector", count=count, blocklength=blocklength, stride=stride, oldtype=oldtype, newtype=made, **kw
        )
        return made

    def type_struct(
        self, blocklengths: Sequence[int], displacements: Sequence[int], types: Sequence[Handle], **kw: Any
    ) -> Type:
        """MPI_Type_create_struct."""
        blocks = list(zip(blocklengths, displacements, types, strict=True))
        made = self.datatype(
            "STRUCT", types=types, integers=[len(types), *blocklengths], addresses=displacements,
            size=sum(self.bytes_of(t, n) for n, _, t in blocks),
            extent=max((d + n * self.extent_of(t) for n, d, t in blocks), default=0),
        )  # fmt: skip
        self.call(
            "MPI_Type_create_struct", count=len(types), array_of_blocklengths=blocklengths,
            array_of_displacements=displacements, array_of_types=types, newtype=made, **kw,
        )  # fmt: skip
        return made

    def type_commit(self, datatype: Handle, **kw: Any) -> int:
        """MPI_Type_commit."""
        return self.call("MPI_Type_commit", datatype=datatype, **kw)

    def type_free(self, datatype: Handle, **kw: Any) -> int:
        """MPI_Type_free."""
        return self.call("MPI_Type_free", datatype=datatype, **kw)


class _Open:
    """The calls of a rank, none of which returns."""

    def __init__(self, rank: RankBuilder) -> None:
        self._rank = rank

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._rank, name)
        return lambda *args, **kw: method(*args, open=True, **kw)


class Builder:
    """A run being built. `path` is the run directory, a temporary one (that dies with the trace) where it is None."""

    def __init__(
        self, ranks: int, path: str | os.PathLike[str] | None = None, *, level: Level = Level.TRACE,
        ended: str = "finished", functions: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._temporary = tempfile.TemporaryDirectory(prefix="weft-builder-") if path is None else None
        self.path = Path(self._temporary.name if self._temporary else str(path))
        (self.path / "ranks").mkdir(parents=True, exist_ok=True)
        self.level = level
        self.ended = ended
        self.function_data = dict(functions or standard_functions())
        self.functions = _table(self.function_data)
        self.clock = 0
        self.world_start: dict[int, int] = {}
        self.ranks = [RankBuilder(self, i, 0, i, ranks) for i in range(ranks)]
        self.world = Comm(dict.fromkeys(range(ranks), WORLD), tuple(range(ranks)))

    def times(self, enter: int | None, exit: int | None) -> tuple[int, int]:
        """Enter and exit in ns; the logical clock goes on from the latest enter."""
        start = self.clock if enter is None else enter
        end = start + STEP_NS // 2 if exit is None else exit
        if end < start:
            raise ValueError(f"a call that enters at {start} ns cannot return at {end} ns")
        self.clock = max(self.clock, start) + STEP_NS
        return start, end

    def members(self, writer: RankBuilder, indices: Sequence[int]) -> bytes:
        """MEMBERS of rank indices, as the process `writer` writes them."""
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
        return put_u(len(runs)) + b"".join(put_u(w) + put_u(f) + put_z(s) + put_u(n) for w, f, s, n in runs)

    def comm(
        self, function: str, members: Sequence[int], parent: Comm | None = None, *, remote: Sequence[int] = (),
        key: str = "", name: str | None = None, **kw: Any,
    ) -> Comm:  # fmt: skip
        """Make a communicator on all its members. `parent` is the world by default."""
        parent = parent or self.world
        everyone = [*members, *(r for r in remote if r not in members)]
        ids = {
            i: self.ranks[i].make_comm(function, parent, members, remote=remote, key=key, name=name, **kw)
            for i in everyone
        }
        return Comm(ids, tuple(members), tuple(remote))

    def dup(self, parent: Comm | None = None, **kw: Any) -> Comm:
        """MPI_Comm_dup on all members."""
        parent = parent or self.world
        return self.comm("MPI_Comm_dup", parent.members, parent, **kw)

    def split(
        self, colors: Mapping[int, int] | Sequence[int], parent: Comm | None = None, **kw: Any
    ) -> dict[int, Comm]:
        """MPI_Comm_split on all members of `parent`. Returns the communicators by color."""
        parent = parent or self.world
        table = dict(colors if isinstance(colors, Mapping) else enumerate(colors))
        made: dict[int, Comm] = {}
        for color in sorted(set(table.values())):
            members = [i for i in parent.members if table[i] == color]
            made[color] = self.comm("MPI_Comm_split", members, parent, color=color, **kw)
        return made

    def window(
        self, comm: Comm | None = None, *, size: int = 4096, unit: int = 1, flavor: int = 0, **kw: Any
    ) -> dict[int, int]:
        """MPI_Win_create on all members: window ids by rank index."""
        comm = comm or self.world
        made = {}
        for i in comm.members:
            rank = self.ranks[i]
            made[i] = id = rank.new_id("WINDOW")
            base = 0x100000 * (i + 1)
            fields = (id, comm.ids[i], flavor, base, size, unit, rank._children.get(-comm.ids[i], 0))
            rank._children[-comm.ids[i]] = fields[-1] + 1
            rank.define(Def.WINDOW, b"".join(map(put_u, fields)))
            rank.call("MPI_Win_create", base=base, size=size, disp_unit=unit, info=1, comm=comm, win=id, **kw)
        return made

    def spawn(self, parents: Sequence[int], size: int, *, comm: Comm | None = None, **kw: Any) -> Comm:
        """MPI_Comm_spawn by the ranks `parents` (all members of `comm`): a new world of `size` ranks behind all others.

        Returns the intercommunicator; its `remote` are the new ranks.
        """
        world = 1 + max(rank.world for rank in self.ranks)
        first = len(self.ranks)
        children = tuple(range(first, first + size))
        self.ranks += [RankBuilder(self, first + i, world, i, size) for i in range(size)]
        self.world_start[world] = self.clock
        ids: dict[int, int] = {}
        for i in (*parents, *children):
            rank = self.ranks[i]
            others = children if i in parents else parents
            number = rank.new_id("WORLD") - ID_DYNAMIC + 1
            rank.define(Def.WORLD, put_u(number) + put_u(len(others)) + put_s("spawn" if i in parents else "parent"))
            rank.worlds[self.ranks[others[0]].world] = number, tuple(others)
            if i in parents:
                made = self.comm_of(rank, "MPI_Comm_spawn", parents, children, parent=comm or self.world, **kw)
            else:
                made = self.comm_of(rank, None, children, parents, parent=None, key="parent")
            ids[i] = made
        return Comm(ids, tuple(parents), children)

    def comm_of(
        self, rank: RankBuilder, function: str | None, local: Sequence[int], remote: Sequence[int], *,
        parent: Comm | None, key: str = "", **kw: Any,
    ) -> int:  # fmt: skip
        """One rank's part of an intercommunicator between worlds."""
        id = rank.new_id("COMM")
        parent_id = parent.ids[rank.index] if parent else 0
        number = self.functions[function].id if function else 0
        if function:
            rank.call(function, comm=parent_id, intercomm=id, **kw)
        payload = [put_u(v) for v in (id, parent_id, number, 0, 1)] + [put_z(list(local).index(rank.index)), put_s(key)]
        rank.define(Def.COMM, b"".join([*payload, self.members(rank, local), self.members(rank, remote)]))
        return id

    def write(self) -> Path:
        """Write the run; returns its directory."""
        for rank in self.ranks:
            rank.write()
        run = {
            "schema": "weft-run/1", "weft": "0", "command": ["prog"], "cwd": "/", "host": "node0",
            "started": "2001-09-09T01:46:40Z", "finished": None, "level": self.level.name.lower(),
            "mpi": {"library": "synthetic"}, "ranks": sum(r.world == 0 for r in self.ranks), "ended": self.ended,
            "exit_code": 0, "signal": None,
        }  # fmt: skip
        (self.path / "run.json").write_text(json.dumps(run))
        (self.path / "functions.json").write_text(json.dumps(self.function_data))
        return self.path

    def open(self) -> Trace:
        """Write the run and open it."""
        trace = Trace.open(self.write())
        trace.keep_alive = self._temporary
        return trace


_tables: dict[int, FunctionTable] = {}


def _table(data: dict[str, Any]) -> FunctionTable:
    key = id(data["functions"])
    if key not in _tables:
        _tables[key] = FunctionTable(data)
    return _tables[key]


_standard: dict[str, Any] = {}


def standard_functions() -> dict[str, Any]:
    """functions.json of a library that has every function of the standard."""
    if not _standard:
        from weft.mpi import table

        data = table.to_json()
        ids = {name: int(id) for id, name in data["objects"]["DATATYPE"].items()}
        data["datatype_sizes"] = {str(ids[name]): size for name, size in SIZES.items() if name in ids}
        _standard.update(data)
    return _standard
