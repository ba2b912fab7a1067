"""Finds functions and variables in the memory of a process, as its file on disk may be a newer version by now.

The layout is that of ELF for 64 bits (System V gABI, chapters 4 and 5), with the hash table of GNU. Nothing that is
read is trusted: a process may be anybody's.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from weft.base.lazy import dataclass

PT_LOAD, PT_DYNAMIC, PF_X = 1, 2, 1
DT_STRTAB, DT_SYMTAB, DT_GNU_HASH = 5, 6, 0x6FFFFEF5
HEADER: Final = 56
"""Bytes of a program header."""
SYMBOL: Final = 24
MOST_HEADERS: Final = 128
MOST_DYNAMIC: Final = 1 << 14
MOST_CHAIN: Final = 1 << 12
PAGE: Final = 4096


class ProcessMemory:
    """The memory of a process. OSError if it cannot be opened or nothing is mapped at an address."""

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)

    def read(self, address: int, length: int) -> bytes:
        """Return exactly `length` bytes of the process's memory from an address on."""
        held = os.pread(self._file, length, address)
        if len(held) != length:
            raise OSError(f"there is no memory at {address:#x}")
        return held

    def read_number(self, address: int, form: str = "<Q") -> int:
        """Return an integer in a format of `struct`."""
        return int(struct.unpack(form, self.read(address, struct.calcsize(form)))[0])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, even if the process itself may only read them."""
        if os.pwrite(self._file, data, address) != len(data):
            raise OSError(f"memory at {address:#x} cannot be written")

    def close(self) -> None:
        """Close the memory."""
        os.close(self._file)


@dataclass(frozen=True)
class ModuleSegment:
    """A segment of a module: kind, access rights, address, and length in the file and in memory."""

    kind: int
    flags: int
    at: int
    filed: int
    length: int


class LoadedModule:
    """A program or library in a process, by its base address. OSError or ValueError if there is none."""

    def __init__(self, memory: ProcessMemory, base: int) -> None:
        self._memory = memory
        head = memory.read(base, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("it is not a 64-bit module")
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if size != HEADER or count > MOST_HEADERS or table > PAGE:
            raise ValueError("its segments were not found")
        rows = list(struct.iter_unpack("<IIQQQQQQ", memory.read(base + table, HEADER * count)))
        first = next((row[3] for row in rows if row[0] == PT_LOAD), 0)
        self._moved = base - first // PAGE * PAGE
        self.segments = [ModuleSegment(row[0], row[1], row[3] + self._moved, row[5], row[6]) for row in rows]
        self._dynamic = self._read_dynamic()

    def _read_dynamic(self) -> dict[int, int]:
        part = next(one for one in self.segments if one.kind == PT_DYNAMIC)
        held = self._memory.read(part.at, min(part.length, MOST_DYNAMIC) // 16 * 16)
        return dict(struct.iter_unpack("<QQ", held))

    def code_padding(self) -> Iterator[tuple[int, int]]:
        """Yield (first address, address after the last) of the unused bytes at the end of the last page of each
        executable segment.
        """
        for one in self.segments:
            if one.kind == PT_LOAD and one.flags & PF_X and one.filed == one.length:
                end = one.at + one.length
                yield end, (end + PAGE - 1) // PAGE * PAGE

    def _table_address(self, tag: int) -> int:
        """Return the address in memory of a table of the dynamic section. `tag`: DT_…, the kind of table. glibc stores
        this address relocated, other C libraries store it as it is in the file.
        """
        at = self._dynamic[tag]
        return at if at >= self._moved else at + self._moved

    def find_symbol(self, name: str) -> tuple[int, int]:
        """Return (address, length in bytes) of a symbol in the process; (0, 0) if this module does not define it."""
        table, symbols, strings = map(self._table_address, (DT_GNU_HASH, DT_SYMTAB, DT_STRTAB))
        wanted = name.encode() + b"\0"
        key = gnu_hash(name)
        buckets, offset, bloom, _ = struct.unpack("<IIII", self._memory.read(table, 16))
        first = table + 16 + 8 * bloom
        at = self._memory.read_number(first + 4 * (key % buckets), "<I") if buckets else 0
        for number in range(at, at + MOST_CHAIN if at >= offset and at else at):
            entry = self._memory.read_number(first + 4 * buckets + 4 * (number - offset), "<I")
            if entry | 1 == key | 1:
                text, _, _, part, value, length = struct.unpack(
                    "<IBBHQQ", self._memory.read(symbols + SYMBOL * number, SYMBOL)
                )
                if part and self._memory.read(strings + text, len(wanted)) == wanted:
                    return int(value) + self._moved, int(length)
            if entry & 1:
                break
        return 0, 0


def gnu_hash(name: str) -> int:
    """Return the hash of a symbol's name, as GNU's hash table in an ELF file uses it."""
    found = 5381
    for letter in name.encode():
        found = (found * 33 + letter) & 0xFFFFFFFF
    return found


def read_modules(memory: ProcessMemory, maps: str) -> Iterator[LoadedModule]:
    """Yield the program and the libraries of a process. `maps`: the text of its /proc/PID/maps."""
    for line in maps.splitlines():
        row = line.split(maxsplit=5)
        if len(row) == 6 and row[2].strip("0") == "" and row[5].startswith("/"):
            with suppress(OSError, ValueError, KeyError, StopIteration, struct.error, OverflowError):
                yield LoadedModule(memory, int(row[0].partition("-")[0], 16))


def find_symbol(modules: list[LoadedModule], name: str) -> tuple[int, int]:
    """Return the address and length in bytes of a symbol in the first module that defines it; 0 and 0 if none does."""
    for module in modules:
        with suppress(OSError, KeyError, struct.error, OverflowError):
            if (found := module.find_symbol(name))[0]:
                return found
    return 0, 0


def find_symbol_address(modules: list[LoadedModule], name: str) -> int:
    """Return the address of a symbol; 0 if no module defines it."""
    return find_symbol(modules, name)[0]
