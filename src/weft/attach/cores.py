"""Read core files: which rank of which program left one, and the signal that ended it.

The layout is that of ELF (System V gABI, chapters 4 and 5) with the notes of Linux (fs/binfmt_elf.c). Only notes and
the strings at the end of the first stack are read, with bounds: a core may come from anybody.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from weft.base.lazy import dataclass
from weft.base.processes import PYTHON
from weft.debuginfo.elf import MAX_NOTES, find_build_id, parse_notes
from weft.errors import UsageError
from weft.launch import job_step

ET_CORE: Final = 4
PT_LOAD, PT_NOTE = 1, 4
NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE, NT_SIGINFO = 1, 3, 6, 0x46494C45, 0x53494749
PT_PHDR = 6
AT_PHDR, AT_PHENT, AT_PHNUM, AT_EXECFN = 3, 4, 5, 31
KINDS: Final = frozenset((NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE, NT_SIGINFO))
SIGNAL_OF_STATUS, THREAD_OF_STATUS, PID_OF_PROCESS, CODE_OF_SIGNAL = 12, 32, 24, 8
SI_USER: Final = 0
SEGMENT: Final = 56
"""Bytes of a program header."""
MOST_NOTES: Final = 1 << 26
"""Bytes of notes: those of a process of some thousand threads."""
MOST_SEGMENTS: Final = 1 << 16
MOST_STRINGS: Final = 1 << 21
"""Bytes of arguments and environment: no more than the system gives a program."""
PACKED: Final = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip", b"\xfd7zX": "xz", b"\x04\x22\x4d\x18": "lz4"}


@dataclass(frozen=True)
class Core:
    """A process that left a core file. `program`: its executable, empty if the file does not say it."""

    path: Path
    pid: int
    thread: int
    """The one that the signal came to."""
    program: str
    signal: str
    sent: bool
    """Whether another process sent it, so that it came to any thread."""
    python: bool
    rank: int | None
    size: int
    job: str
    maps: str
    """Where its files were mapped, as /proc has it."""
    build: str
    """The build id of its program, "" where it is not in the file."""
    cut: bool
    """Whether the file ends before what it says that it holds."""


@dataclass(frozen=True)
class _Segment:
    kind: int
    at: int
    address: int
    length: int


@dataclass(frozen=True)
class _Memory:
    """What the process's memory held, as far as it was written."""

    file: IO[bytes]
    segments: list[_Segment]

    def read(self, address: int, length: int) -> bytes:
        """Return bytes from an address on. They are fewer than `length`, or none, if the core file does not contain all
        of them.
        """
        for one in self.segments:
            if one.address <= address < one.address + one.length:
                self.file.seek(one.at + address - one.address)
                return self.file.read(min(length, one.address + one.length - address))
        return b""

    def begin(self, address: int) -> int:
        """Return where the segment that an address is in begins; the address itself where it is in none."""
        found = (one.address for one in self.segments if one.address <= address < one.address + one.length)
        return next(found, address)


def read_core(path: Path) -> Core:
    """Return what a core file says about its process: program, rank, signal and so on. UsageError if it is no core
    file.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file")
    try:
        with path.open("rb") as file:
            return _read_open_core(path, file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (struct.error, ValueError, KeyError, OverflowError, StopIteration) as error:
        raise UsageError(f"{path} is damaged, or is not a core file of Linux") from error


def _read_open_core(path: Path, file: IO[bytes]) -> Core:
    """Return what an open core file says about its process. UsageError if it is no core file."""
    head = file.read(64)
    for magic, name in PACKED.items():
        if head.startswith(magic):
            raise UsageError(
                f"{path} is compressed with {name}: decompress it first (core dumps that systemd "
                f"keeps: coredumpctl dump PID -o FILE)"
            )
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", head, 16)[0] != ET_CORE:
        raise UsageError(f"{path} is not a core file of a 64-bit program")
    segments = list(_read_segments(file, head))
    told: dict[int, bytes] = {}
    for kind, held in _read_notes(file, next(one for one in segments if one.kind == PT_NOTE)):
        if kind in KINDS:
            told.setdefault(kind, held)  # of the thread that the signal came to
    memory = _Memory(file, [one for one in segments if one.kind == PT_LOAD])
    vector = _parse_auxiliary_vector(told.get(NT_AUXV, b""))
    files = list(_parse_mapped_files(told.get(NT_FILE, b"")))
    (pid,) = struct.unpack_from("<i", told[NT_PRPSINFO], PID_OF_PROCESS)
    (number,) = struct.unpack_from("<H", told[NT_PRSTATUS], SIGNAL_OF_STATUS)
    (thread,) = struct.unpack_from("<i", told[NT_PRSTATUS], THREAD_OF_STATUS)
    signal_note = told.get(NT_SIGINFO, b"").ljust(16, b"\xff")
    (code,) = struct.unpack_from("<i", signal_note, CODE_OF_SIGNAL)
    said = job_step.step_from_variables(_read_environment(memory, vector.get(AT_EXECFN, 0)))
    return Core(
        path, pid, thread, next((name for begin, last, name in files if begin <= vector.get(AT_PHDR, 0) < last), ""),
        _signal_name(number), code == SI_USER, any(PYTHON.search(name) for _, _, name in files),
        said.rank if said else None, said.size if said else 0, said.name if said else "",
        "\n".join(f"{begin:x}-{last:x} ---p 0 0 0 {name}" for begin, last, name in files),
        _find_program_build_id(memory, vector), any(one.at + one.length > file.seek(0, 2) for one in memory.segments),
    )  # fmt: skip


def _read_segments(file: IO[bytes], head: bytes) -> Iterator[_Segment]:
    """Yield the segments of a core file, from its program headers. ValueError if the table of these is not found.
    `head`: the first 64 bytes of the file.
    """
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if size != SEGMENT:
        raise ValueError("its segments were not found")
    if count == 0xFFFF:  # PN_XNUM: the count is in the first section's header
        file.seek(struct.unpack_from("<Q", head, 40)[0])
        (count,) = struct.unpack_from("<I", file.read(64), 44)
    file.seek(table)
    held = file.read(size * min(count, MOST_SEGMENTS))
    for at in range(0, len(held) - SEGMENT + 1, SEGMENT):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", held, at)
        yield _Segment(kind, offset, address, length)


def _read_notes(file: IO[bytes], segment: _Segment) -> Iterator[tuple[int, bytes]]:
    """Return (kind, content) for each note of a core file."""
    file.seek(segment.at)
    return parse_notes(file.read(min(segment.length, MOST_NOTES)))


def _parse_mapped_files(note: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield (first address, address after the last, path) for each file that the process had mapped."""
    if len(note) < 16:
        return
    count = min(struct.unpack_from("<Q", note)[0], len(note) // 24)
    names = note[16 + 24 * count :].split(b"\0")
    for (begin, last, _), name in zip(struct.iter_unpack("<QQQ", note[16 : 16 + 24 * count]), names, strict=False):
        yield begin, last, name.decode(errors="surrogateescape")


def _parse_auxiliary_vector(note: bytes) -> dict[int, int]:
    """Return the values that the system passed to the program at its start, by their kinds (AT_…)."""
    return dict(struct.iter_unpack("<QQ", note[: len(note) // 16 * 16]))


def _read_environment(memory: _Memory, end_address: int) -> dict[str, str]:
    """Return the environment variables with which the process began. `end_address`: the address at which they end and
    the program's name begins.
    """
    found: dict[str, str] = {}
    begin = max(memory.begin(end_address), end_address - MOST_STRINGS)
    for text in reversed(memory.read(begin, end_address - begin).split(b"\0")[:-1]):
        name, equal, value = text.partition(b"=")
        if not equal or not name.isascii():
            break
        found[name.decode()] = value.decode(errors="surrogateescape")
    return found


def _find_program_build_id(memory: _Memory, vector: dict[int, int]) -> str:
    """Return the build id of the program, read from its headers in memory. Empty if the core file does not contain it.
    `vector`: the process's auxiliary vector (AT_…).
    """
    table, size, count = (vector.get(key, 0) for key in (AT_PHDR, AT_PHENT, AT_PHNUM))
    if size != SEGMENT:
        return ""
    held = memory.read(table, SEGMENT * min(count, MOST_SEGMENTS))
    rows = [struct.unpack_from("<IIQQQQ", held, at) for at in range(0, len(held) - SEGMENT + 1, SEGMENT)]
    moved = next((table - row[3] for row in rows if row[0] == PT_PHDR), 0)
    found = (find_build_id(memory.read(row[3] + moved, min(row[5], MAX_NOTES))) for row in rows if row[0] == PT_NOTE)
    return next(filter(None, found), "")


def _signal_name(number: int) -> str:
    """Return the name of a signal by its number; empty for 0."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}" if number else ""
