"""Read from an ELF file its build id, which tells builds of a program apart, and its soname."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

NT_GNU_BUILD_ID: Final = 3
PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_NOTE: Final = 4
DT_STRTAB: Final = 5
DT_SONAME: Final = 14
MAX_NOTES: Final = 1 << 20
MAX_NAME: Final = 4096

Segment = tuple[int, int, int, int]
"""Kind, offset in the file, address, bytes in the file."""


def read_build_id(path: Path) -> str:
    """Return the build id in hex, empty for none. Raises ValueError if the file is no 64-bit little-endian ELF file."""
    with open_file(path) as file:
        for kind, offset, _, length in _read_segments(file):
            if kind == PT_NOTE and length <= MAX_NOTES:
                file.seek(min(offset, 2**62))
                found = find_build_id(file.read(length))
                if found:
                    return found
    return ""


def read_soname(path: Path) -> str:
    """Return the soname of a library, empty for none. Raises ValueError if the file is no 64-bit little-endian ELF
    file.
    """
    with open_file(path) as file:
        segments = list(_read_segments(file))
        tags = dict(_read_dynamic(file, segments))
        if DT_SONAME not in tags or DT_STRTAB not in tags:
            return ""
        strings = tags[DT_STRTAB]
        for kind, offset, address, length in segments:
            if kind == PT_LOAD and address <= strings < address + length:
                file.seek(min(offset + strings - address + tags[DT_SONAME], 2**62))
                return file.read(MAX_NAME).partition(b"\0")[0].decode(errors="replace")
    return ""


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading without waiting, should it be a pipe."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")


def read_file_header(file: BinaryIO) -> bytes:
    """Return the 64 bytes of an ELF file's header. ValueError if it is not a 64-bit little-endian ELF file."""
    head = file.read(64)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        raise ValueError("the file is not a 64-bit ELF file")
    return head


def _read_segments(file: BinaryIO) -> Iterator[Segment]:
    """Yield the program headers of an ELF file: kind, offset, address, length. ValueError if it is not a 64-bit ELF
    file."""
    head = read_file_header(file)
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    file.seek(min(table, 2**62))
    segments = file.read(size * count)
    for at in range(0, len(segments) - 55, max(size, 56)):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", segments, at)
        yield kind, offset, address, length


def _read_dynamic(file: BinaryIO, segments: list[Segment]) -> Iterator[tuple[int, int]]:
    """Yield the entries (tag, value) of the dynamic section of an ELF file."""
    for kind, offset, _, length in segments:
        if kind == PT_DYNAMIC and length <= MAX_NOTES:
            file.seek(min(offset, 2**62))
            held = file.read(length)
            yield from struct.iter_unpack("<qQ", held[: len(held) // 16 * 16])


def find_build_id(held: bytes) -> str:
    """Return the build id among the notes of a program, "" for none."""
    return next((content.hex() for kind, content in parse_notes(held) if kind == NT_GNU_BUILD_ID), "")


def parse_notes(notes: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (kind, content) of each complete note. `notes`: the bytes of a note section of an ELF file."""
    at = 0
    while at + 12 <= len(notes):
        name, length, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + (name + 3 & ~3)
        if start + length <= len(notes):
            yield kind, notes[start : start + length]
        at = start + (length + 3 & ~3)
