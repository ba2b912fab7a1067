"""Read source files of this machine with care: a record names them, and a record may come from other people."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.sources.layout import MAX_FILE

_SUFFIXES: Final = frozenset(
    ".py .pyw .pyx .pxd .pxi .pyi .c .h .cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .inl .ipp .tpp .tcc .icc .f .for .ftn"
    " .fpp .f77 .f90 .f95 .f03 .f08 .f18 .inc .fh .cu .cuh .jl .rs .chpl .cilk .cdv .fdv".split()
)
_ENCODINGS: Final = frozenset(
    "latin-1 latin1 iso-8859-1 iso8859-1 iso-8859-15 cp1252 cp1251 koi8-r euc-jp shift_jis shift-jis gbk gb18030 big5"
    " euc-kr".split()
)
"""What a source file may say that it is written in, besides UTF-8."""
_COOKIE: Final = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file as it is now."""

    data: bytes
    mtime_ns: int

    @property
    def lines(self) -> list[str]:
        """Its lines, counted as compilers count them."""
        text = _decode_source(self.data).replace("\r\n", "\n").replace("\r", "\n")
        return text.removesuffix("\n").split("\n")


def is_source(path: str) -> bool:
    """Return whether a file with this name may hold source."""
    suffix = Path(path).suffix.lower()
    return not suffix or suffix in _SUFFIXES


def read_source(path: str | Path) -> SourceFile | None:
    """Read a regular file with a suffix of source files, or a Python script without one; None for any other file."""
    name = str(path)
    if "\0" in name or not is_source(name):
        return None
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
                return None
            data = file.read(MAX_FILE + 1)
    except (OSError, ValueError):
        return None
    script = data.startswith(b"#!") and b"python" in data[:200].partition(b"\n")[0]
    if len(data) > MAX_FILE or b"\0" in data or not (Path(name).suffix or script):
        return None
    return SourceFile(data, status.st_mtime_ns)


def _decode_source(data: bytes) -> str:
    """Return a file's text, decoded as UTF-8 or as the file itself declares in its first two lines (PEP 263)."""
    for line in data[:400].split(b"\n")[:2]:
        found = _COOKIE.match(line)
        name = found[1].decode("ascii", "replace").lower() if found else ""
        if name in _ENCODINGS:
            return data.decode(name, "replace")
    return data.decode("utf-8-sig", "replace")
