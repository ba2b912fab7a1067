"""Define how sources are stored in a run: RUN/sources.json says what there is, RUN/sources.bin holds the text.

    sources.json    {"schema": "weft-sources/1", "files": [FILE, ...]}
    FILE            {"path": as the record names it, "found": where the file was, "size", "mtime_ns",
                     "sha256": of the file,
                     "spans": [[first line, number of lines], ...]: what is kept, in the order of the lines,
                     "at", "packed", "plain": offset and length of its text in sources.bin, and its length unpacked,
                     "own": whether it calls MPI itself,
                     "calls": {line: ["comm.recv", ...]}: what is called there (files in Python),
                     "doubt": "newer" than the program that was built from it, or "edited" while the program ran}
    sources.bin     one zlib stream a file: the lines of its spans, each ended by a line feed, as UTF-8

A run with `--no-sources` has no sources.bin and no spans: called names, and the files' marks, are kept all the same.
The number in the schema is raised when a reader of the old one would say something wrong.
"""

from __future__ import annotations

from typing import Final

from weft.base.lazy import dataclass

SCHEMA: Final = "weft-sources/1"
INDEX: Final = "sources.json"
TEXTS: Final = "sources.bin"

MAX_FILE: Final = 4 << 20
"""Bytes of a source file that is read; a longer one is left out."""
MAX_WHOLE: Final = 256 << 10
"""Bytes up to which a file is kept whole; of a longer one the lines around its sites are."""
MAX_PLAIN: Final = 12 << 20
"""Bytes of text that a run keeps, before they are packed."""
MAX_PACKED: Final = 3 << 20
"""Bytes of sources.bin."""
MAX_FILES: Final = 2000
AROUND: Final = 60
"""Lines kept before and after each site of a long file."""

Frame = tuple[str, int, str]
"""(file, line, function) of a place in the program, such as a frame of a traceback."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement that a call is part of."""

    first: int
    """The line of `lines[0]`."""
    line: int
    """The call's line."""
    last: int
    """Its last line, also where it is cut."""
    lines: tuple[str, ...]
    """Without common indentation; long ones and long statements are cut, which `...` shows."""

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file around a call's."""

    file: str
    line: int
    """The call's line."""
    first: int
    """The line of `lines[0]`."""
    lines: tuple[str, ...]
    kept: bool
    """Whether they are out of the run. If not, the run has no sources and the file is read as it is today."""
