"""DEFINITIONS of one process: communicators, datatypes, windows, threads, sites, ... decoded one by one on demand."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

from weft.base.lazy import dataclass
from weft.trace.layout import ENDING_FRAMES, Def, EndingKind
from weft.trace.varint import Cursor, Damaged

MAX_RECORDS: Final = 1_000_000
"""The most definitions of one process that are read: each costs a dictionary entry."""
MAX_ENDINGS: Final = 4096
"""The most endings of one process that are read: a thread leaves one or two."""


@dataclass(frozen=True, slots=True)
class Run:
    """`count` processes of a world: first, first + stride, ... World 0 is the process's own MPI_COMM_WORLD."""

    world: int
    first: int
    stride: int
    count: int


Members = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class CommDefinition:
    """A communicator as one process saw it made."""

    id: int
    parent: int
    function: int
    ordinal: int
    inter: bool
    rank: int
    key: str
    local: Members
    remote: Members


@dataclass(frozen=True, slots=True)
class DatatypeDefinition:
    """A datatype as MPI_Type_get_contents tells it. Sizes in bytes."""

    id: int
    size: int
    lb: int
    extent: int
    combiner: int
    integers: tuple[int, ...]
    addresses: tuple[int, ...]
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A window. `flavor`: 0 create, 1 allocate, 2 dynamic, 3 shared; `size` in bytes."""

    id: int
    comm: int
    flavor: int
    base: int
    size: int
    unit: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """Bytes of a window that changed between two fences, `fences` of its fences before the second one.

    `ranges`: (offset, bytes, whether they changed once more until that fence was over).
    """

    window: int
    fences: int
    ranges: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class CallPathDefinition:
    """One call path to a native site: an address below the frame of the calling function, and where frames end,
    outwards.
    """

    site: int
    low: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlocksDefinition:
    """Blocks of malloc that contain buffers of a call: of a thread's first one that begins at `ticks` or later.

    `blocks`: (address, first byte of its block, usable bytes: 0 for a block that is free).
    """

    slot: int
    ticks: int
    blocks: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class FreedWindowDefinition:
    """A window whose memory was freed before the MPI_Win_free that a thread calls at `ticks` or later."""

    window: int
    slot: int
    ticks: int


@dataclass(frozen=True, slots=True)
class FileDefinition:
    """A file opened by MPI_File_open."""

    id: int
    comm: int
    amode: int
    name: str


@dataclass(frozen=True, slots=True)
class ThreadDefinition:
    """A thread that used a thread slot, from the event with index `first_event` of that slot on.

    `made`: ordinal of its creation in its process, 0 for the main thread, MADE_UNKNOWN where MPI or the system made it.
    """

    slot: int
    first_event: int
    tid: int
    main: bool
    name: str
    made: int


@dataclass(frozen=True, slots=True)
class ModuleDefinition:
    """A program or shared library in the process's address space."""

    id: int
    base: int
    end: int
    build_id: str
    path: str


@dataclass(frozen=True, slots=True)
class SiteDefinition:
    """A call site: a return address in a module, and for Python the instruction's offset in a code object."""

    id: int
    module: int
    offset: int
    code: int
    instruction: int
    callers: tuple[tuple[int, int], ...] = ()
    """(module, offset) of the callers' return addresses, innermost first; in Python (code, instruction)."""


@dataclass(frozen=True, slots=True)
class CodeDefinition:
    """A Python code object."""

    id: int
    file: str
    name: str
    first_line: int
    locations: bytes


@dataclass(frozen=True, slots=True)
class WorldDefinition:
    """Another MPI_COMM_WORLD that this process met: its parent's, or one that it spawned."""

    index: int
    size: int
    origin: str
    name: str
    """Of the spawn, the same in its root and in all its children; empty where nobody named it."""


@dataclass(frozen=True, slots=True)
class EndingDefinition:
    """How the process ended, or where it was when asked: format.h says what each field means for each kind."""

    kind: EndingKind
    slot: int
    """Slot of the thread, -1 for one that never called MPI."""
    tid: int
    ticks: int
    code: int
    detail: int
    address: int
    name: str
    text: str
    traceback: str
    who: str
    python: tuple[tuple[str, int, str], ...] = ()
    """Python frames: (file, line, function), innermost first."""
    native: tuple[tuple[int, int], ...] = ()
    """(module, offset) of the return addresses."""


@dataclass(frozen=True, slots=True)
class CoresDefinition:
    """The cores that the process could run on, as `0-2,8`, and its control group's limit in thousandths, 0 for none."""

    cores: str
    thousandths: int


def _read_members(c: Cursor) -> Members:
    return tuple(
        Run(c.read_unsigned(), c.read_unsigned(), c.read_signed(), c.read_unsigned()) for _ in range(c.read_count(4))
    )


def _read_comm(c: Cursor, id: int) -> CommDefinition:
    """Return the communicator that a record defines."""
    return CommDefinition(
        id,
        c.read_unsigned(),
        c.read_unsigned(),
        c.read_unsigned(),
        bool(c.read_unsigned()),
        c.read_signed(),
        c.read_string(),
        _read_members(c),
        _read_members(c),
    )


def _read_datatype(c: Cursor, id: int) -> DatatypeDefinition:
    """Return the derived datatype that a record defines."""
    size, lb, extent, combiner = c.size(), c.distance(), c.distance(), c.read_unsigned()
    integers = tuple(c.read_signed() for _ in range(c.read_count()))
    addresses = tuple(c.read_signed() for _ in range(c.read_count()))
    types = tuple(c.read_unsigned() for _ in range(c.read_count()))
    return DatatypeDefinition(id, size, lb, extent, combiner, integers, addresses, types)


def _read_window(c: Cursor, id: int) -> WindowDefinition:
    return WindowDefinition(id, c.read_unsigned(), c.read_unsigned(), c.size(), c.size(), c.size(), c.read_unsigned())


def _read_code(c: Cursor, id: int) -> CodeDefinition:
    return CodeDefinition(id, c.read_string(), c.read_string(), c.read_unsigned(), c.read_bytes(c.read_unsigned()))


def _read_site(c: Cursor, id: int) -> SiteDefinition:
    module, offset, code, instruction = c.read_unsigned(), c.read_unsigned(), c.read_unsigned(), c.read_unsigned()
    callers = tuple((c.read_unsigned(), c.read_unsigned()) for _ in range(c.read_count(2)))
    return SiteDefinition(id, module, offset, code, instruction, callers)


def _read_stored(c: Cursor) -> StoredDefinition:
    """Read which bytes of a window changed between two fences by plain stores of the program."""
    return StoredDefinition(
        c.read_unsigned(),
        c.read_unsigned(),
        tuple((c.read_unsigned(), c.read_unsigned(), bool(c.read_unsigned())) for _ in range(c.read_count())),
    )


def _read_call_path(c: Cursor) -> CallPathDefinition:
    site, low = c.read_unsigned(), c.read_unsigned()
    return CallPathDefinition(site, low, tuple(low + c.read_unsigned() for _ in range(c.read_count())))


def _read_blocks(c: Cursor) -> BlocksDefinition:
    """Read the heap blocks that lie behind the buffers of a call."""
    return BlocksDefinition(
        c.read_unsigned(),
        c.read_unsigned(),
        tuple((c.read_unsigned(), c.read_unsigned(), c.read_unsigned()) for _ in range(c.read_count(3))),
    )


def _read_frame_range(c: Cursor, frame_bytes: int) -> range:
    """Read the number of stack frames that follow, each at least `frame_bytes` bytes long, and return it as a range.
    Damaged if there are more than a record may have.
    """
    n = c.read_count(frame_bytes)
    if n > ENDING_FRAMES:
        raise Damaged(f"it announces {n} frames, and at most {ENDING_FRAMES} are possible")
    return range(n)


def _read_ending(c: Cursor) -> EndingDefinition:
    """Read how a process ended: the kind, time, thread, text and stacks. Damaged for an unknown kind."""
    kind = c.read_unsigned()
    if kind not in EndingKind.__members__.values():
        raise Damaged(f"{kind} is not a kind of ending")
    slot, tid, ticks, code, detail, address = (
        c.read_unsigned() - 1,
        c.read_unsigned(),
        c.read_unsigned(),
        c.read_signed(),
        c.read_signed(),
        c.read_unsigned(),
    )
    name, text, traceback, who = c.read_string(), c.read_string(), c.read_string(), c.read_string()
    python = tuple((c.read_string(), c.read_unsigned(), c.read_string()) for _ in _read_frame_range(c, 3))
    native = tuple((c.read_unsigned(), c.read_unsigned()) for _ in _read_frame_range(c, 2))
    return EndingDefinition(
        EndingKind(kind), slot, tid, ticks, code, detail, address, name, text, traceback, who, python, native
    )


_DECODERS: Final[dict[int, Callable[[Cursor, int], object]]] = {
    Def.COMM: _read_comm,
    Def.GROUP: lambda c, i: _read_members(c),
    Def.DATATYPE: _read_datatype,
    Def.OP: lambda c, i: bool(c.read_unsigned()),
    Def.WINDOW: _read_window,
    Def.FILE: lambda c, i: FileDefinition(i, c.read_unsigned(), c.read_unsigned(), c.read_string()),
    Def.MODULE: lambda c, i: ModuleDefinition(
        i, c.read_unsigned(), c.read_unsigned(), c.read_string(), c.read_string()
    ),
    Def.SITE: _read_site,
    Def.PYCODE: _read_code,
    Def.WORLD: lambda c, i: WorldDefinition(i, c.read_unsigned(), c.read_string(), c.read_string()),
}
"""Records that begin with an id that is theirs alone."""


class Definitions:
    """The definitions of one process. A look-up gives None for what is not defined or damaged."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.problems: list[str] = []
        self._at: dict[int, dict[int, tuple[int, int]]] = {int(kind): {} for kind in _DECODERS}
        self._cache: dict[tuple[int, int], Any] = {}
        self.names: dict[tuple[int, int], str] = {}
        self.threads: list[ThreadDefinition] = []
        self.environment: dict[str, str] = {}
        self.argv: list[str] = []
        self.cwd: str | None = None
        self.library: tuple[str, str] | None = None
        self.notes: list[str] = []
        self.ended: str | None = None
        self.stored: list[StoredDefinition] = []
        self.ways: list[CallPathDefinition] = []
        self.blocks: list[BlocksDefinition] = []
        self.given_back: list[FreedWindowDefinition] = []
        self.endings: list[EndingDefinition] = []
        self.python: str | None = None
        self.cores: CoresDefinition | None = None
        self._index_records()

    def _index_records(self) -> None:
        """Note where each definition with an id lies in the stream, and read all definitions without an id. A problem
        is noted if the stream ends early.
        """
        cursor = Cursor(self._data)
        records = 0
        while cursor.left:
            start = cursor.position
            try:
                kind = cursor.read_unsigned()
                if kind == 0:
                    return  # zeros between the last record and a chunk that was just added
                n = cursor.read_unsigned()
                if n > cursor.left:
                    raise Damaged(f"a record of {n} bytes is cut off")
            except Damaged as error:
                self._note_problem(f"the definitions end early, at byte {start} of {len(self._data)}: {error}")
                return
            records += 1
            if records > MAX_RECORDS:
                self._note_problem(f"it has more than {MAX_RECORDS:,} definitions; Weft ignores the rest")
                return
            body = Cursor(self._data, cursor.position, cursor.position + n)
            cursor.position += n
            self._add_record(kind, body)

    @cached_property
    def changes_between_fences_by_window(self) -> dict[int, list[StoredDefinition]]:
        """Return the changes of window memory between fences, in order, by the id of the window."""
        found: dict[int, list[StoredDefinition]] = {}
        for stored in self.stored:
            found.setdefault(stored.window, []).append(stored)
        return found

    def _note_problem(self, text: str) -> None:
        if len(self.problems) < 10:
            self.problems.append(text)

    def _add_record(self, kind: int, body: Cursor) -> None:
        """Note where a definition lies if it has an id; otherwise, read it at once. A damaged one is left out, and a
        problem is noted.
        """
        start = body.position
        try:
            if kind in self._at:
                id = body.read_unsigned()
                self._at[kind].setdefault(id, (body.position, body.end))
            else:
                self._read_definition_without_id(kind, body)
        except Damaged as error:
            self._note_problem(f"the definition at byte {start} is damaged and was left out: {error}")

    def _read_definition_without_id(self, kind: int, c: Cursor) -> None:
        """Read a definition without an id, such as a name, a thread, the environment or an ending."""
        if kind == Def.NAME:
            key = c.read_unsigned(), c.read_unsigned()
            self.names[key] = c.read_string()
        elif kind == Def.THREAD:
            self.threads.append(
                ThreadDefinition(
                    c.read_unsigned(),
                    c.read_unsigned(),
                    c.read_unsigned(),
                    bool(c.read_unsigned()),
                    c.read_string(),
                    c.read_unsigned(),
                )
            )
        elif kind == Def.ENV:
            name, _, value = c.read_string().partition("=")
            self.environment[name] = value
        elif kind == Def.ARGV:
            self.argv = [c.read_string() for _ in range(c.read_count())]
        elif kind == Def.CWD:
            self.cwd = c.read_string()
        elif kind == Def.LIBRARY:
            self.library = c.read_string(), c.read_string()
        elif kind == Def.NOTE:
            self.notes.append(c.read_string())
        elif kind == Def.ENDED:
            self.ended = c.read_string()
        elif kind == Def.STORED:
            self.stored.append(_read_stored(c))
        elif kind == Def.WAY:
            self.ways.append(_read_call_path(c))
        elif kind == Def.BLOCKS:
            self.blocks.append(_read_blocks(c))
        elif kind == Def.GIVEN_BACK:
            self.given_back.append(FreedWindowDefinition(c.read_unsigned(), c.read_unsigned(), c.read_unsigned()))
        elif kind == Def.ENDING:
            self._add_ending(c)
        elif kind == Def.PYTHON:
            self.python = c.read_string()
        elif kind == Def.CORES:
            self.cores = CoresDefinition(c.read_string(), c.read_unsigned())
        else:
            raise Damaged(f"{kind} is not a kind of definition")

    def _add_ending(self, c: Cursor) -> None:
        """Read how the process ended. If there are too many such records, a problem is noted instead."""
        if len(self.endings) >= MAX_ENDINGS:
            self._note_problem(f"it has more than {MAX_ENDINGS:,} endings; Weft ignores the rest")
            return
        self.endings.append(_read_ending(c))

    def get(self, kind: Def, id: int) -> Any | None:
        """Return the definition of this kind and id, decoded at the first call; None if there is none."""
        key = int(kind), id
        if key not in self._cache:
            if id not in self._at[kind]:
                return None
            self._cache[key] = self._decode(kind, id)
        return self._cache[key]

    def _decode(self, kind: Def, id: int) -> Any | None:
        """Decode the definition of this kind and id. If it is damaged, a problem is noted and the result is None."""
        try:
            return _DECODERS[kind](Cursor(self._data, *self._at[kind][id]), id)
        except Damaged as error:
            self._note_problem(f"{kind.name.lower()} {id} is damaged and was left out: {error}")
            return None

    def ids(self, kind: Def) -> list[int]:
        """Return the ids of the definitions of a kind, in the order in which they were made."""
        return list(self._at[kind])

    def all(self, kind: Def) -> Iterator[Any]:
        """Yield the definitions of a kind that can be read, in the order in which they were made. They are not kept in
        memory.
        """
        return (value for value in (self._decode(kind, id) for id in self._at[kind]) if value is not None)

    def comm(self, id: int) -> CommDefinition | None:
        """Return the communicator with an id."""
        return self.get(Def.COMM, id)

    def window(self, id: int) -> WindowDefinition | None:
        """Return the window with an id."""
        return self.get(Def.WINDOW, id)

    def file(self, id: int) -> FileDefinition | None:
        """Return the file with an id."""
        return self.get(Def.FILE, id)

    def site(self, id: int) -> SiteDefinition | None:
        """Return the call site with an id."""
        return self.get(Def.SITE, id)

    def module(self, id: int) -> ModuleDefinition | None:
        """Return the module with an id."""
        return self.get(Def.MODULE, id)

    def code(self, id: int) -> CodeDefinition | None:
        """Return the Python code object with an id."""
        return self.get(Def.PYCODE, id)
