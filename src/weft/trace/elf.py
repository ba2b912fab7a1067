"""The build id of an ELF file: what tells one build of a program from the next."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NT_GNU_BUILD_ID: Final = 3
PT_NOTE: Final = 4
MAX_NOTES: Final = 1 << 20


def build_id_of(path: Path) -> str:
    """The build id in hex, "" for none. ValueError where the file is no 64-bit little-endian ELF file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("the file is not a 64-bit ELF file")
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(min(table, 2**62))
        segments = file.read(size * count)
        for at in range(0, len(segments) - 55, max(size, 56)):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", segments, at)
            if kind == PT_NOTE and length <= MAX_NOTES:
                file.seek(min(offset, 2**62))
                found = build_id(file.read(length))
                if found:
                    return found
    return ""


def build_id(held: bytes) -> str:
    """The build id among the notes of a program, "" for none."""
    return next((content.hex() for kind, content in notes(held) if kind == NT_GNU_BUILD_ID), "")


def notes(held: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each note that is whole."""
    at = 0
    while at + 12 <= len(held):
        name, length, kind = struct.unpack_from("<III", held, at)
        start = at + 12 + (name + 3 & ~3)
        if start + length <= len(held):
            yield kind, held[start : start + length]
        at = start + (length + 3 & ~3)
