"""Read a C source with its own headers inlined and its directives removed, and write the marked copy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.dvm import c_old
from weft.dvm.directives import c as directives
from weft.dvm.syntax import Directive, DirectiveError, Position
from weft.errors import UsageError

PRAGMA: Final = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+dvm\b((?:\\\r?\n|[^\n])*)", re.MULTILINE)
INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"')
ONCE: Final = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b")
COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(slots=True)
class CSource:
    """The text of one translation unit, headers of the program inlined, directives blanked out.

    `origins` gives for each line the file and the line that it came from; columns are as they were.
    """

    path: Path
    text: str
    origins: list[tuple[str, int]]
    old: bool = False
    """Its directives are macros of C-DVM: arrays behind plain pointers and task arrays cannot be followed."""
    missing: list[str] = field(default_factory=list)
    """Headers in quotes that were not found: they may be the system's."""
    starts: list[int] = field(default_factory=list)
    directives: list[tuple[int, int, Directive, str]] = field(default_factory=list)
    """(begin, end, directive, its text): offsets in `text`."""

    def __post_init__(self) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def position_of(self, offset: int) -> Position:
        """Return the file, line and column (in bytes) from which a character of this text came. `offset`: the
        character's index.
        """
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle)
        file, line = self.origins[min(low, len(self.origins) - 1)]
        return Position(file, line, len(self.text[self.starts[low] : offset].encode("utf-8", "surrogateescape")) + 1)


def read_c_source(path: Path, include: Sequence[Path] = ()) -> CSource:
    """Return a C source with the program's own headers put in and its DVM directives taken out of the text. Raises
    UsageError if the file cannot be read, DirectiveError for a wrong directive.
    """
    lines = _Lines(include)
    lines.append_file(path, ())
    text = "".join(lines.texts)
    old = c_old.is_old_form(text)
    source = CSource(path, c_old.expand_loop_macros(text) if old else text, lines.origins, old, lines.missing)
    extract_directives(source)
    if old:
        extract_macro_directives(source)
    return source


class _Lines:
    """The lines of a translation unit; the program's own headers stand in place of their `#include`."""

    def __init__(self, include: Sequence[Path]) -> None:
        self.include = include
        self.texts: list[str] = []
        self.origins: list[tuple[str, int]] = []
        self.once: set[Path] = set()
        self.missing: list[str] = []

    def append_file(self, path: Path, including_files: tuple[Path, ...]) -> None:
        """Append the lines of a file. An `#include` of a header of the program is replaced by the header's lines.
        `including_files`: the files whose includes led to this one.
        """
        try:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; give a C source that can be read") from error
        for number, line in enumerate(text.split("\n") if not text.endswith("\n") else text[:-1].split("\n"), 1):
            found = INCLUDE.match(line)
            header = self.find_own_header(found.group(1), path) if found else None
            if found and header is None:
                self.missing.append(found.group(1))
            if header is not None and header not in including_files and header not in self.once:
                self.append_file(header, (*including_files, path))
            elif including_files and ONCE.match(line):
                self.once.add(path)
            elif header is None or header not in self.once:
                self.texts.append(line.rstrip("\r") + "\n")
                self.origins.append((str(path), number))

    def find_own_header(self, name: str, path: Path) -> Path | None:
        """Return the path of the header that `#include "name"` means, if it is one of the program's own; else None."""
        return next((h for folder in (path.parent, *self.include) if (h := folder / name).is_file()), None)


def extract_directives(source: CSource) -> None:
    """Take every `#pragma dvm` out of a source's text: it becomes one of the source's directives, and blanks replace
    it.
    """
    hidden = [match.span() for match in COMMENT.finditer(source.text)]
    parts: list[str] = []
    done = 0
    for match in PRAGMA.finditer(source.text):
        begin, end = match.span(1)
        if any(low < match.start() < high for low, high in hidden):
            continue
        pieces: list[tuple[Position, str]] = []
        at = begin
        for line in match.group(1).splitlines(keepends=True):
            stripped = re.sub(r"\\?\r?\n?$", "", line)
            pieces.append((source.position_of(at), stripped))
            at += len(line)
        directive = directives.read_c_directive(pieces)
        hash_at = source.text.index("#", match.start())
        source.directives.append((hash_at, end, directive, " ".join(source.text[hash_at:end].split())))
        parts.append(source.text[done:hash_at] + re.sub(r"[^\n]", " ", source.text[hash_at:end]))
        done = end
    source.text = "".join([*parts, source.text[done:]])


def extract_macro_directives(source: CSource) -> None:
    """Take every `DVM(…)` of the old C-DVM out of a source's text: it becomes one of the source's directives, and
    blanks replace it.
    """
    hidden = [match.span() for match in COMMENT.finditer(source.text)]
    text = source.text
    for begin, end, held in c_old.find_directives(text):
        if any(low <= begin < high for low, high in hidden):
            continue
        place = source.position_of(begin)
        form = c_old.modernize_directive(held, place)
        if form is not None:
            try:
                directive = directives.read_c_directive([(place, form)], old=True)
            except DirectiveError as error:
                raise DirectiveError(place, f"`DVM({' '.join(held.split())})` cannot be read: {error}") from error
            source.directives.append((begin, end, directive, " ".join(text[begin:end].split())))
        source.text = source.text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + source.text[end:]
    source.directives.sort(key=lambda one: one[0])


class CInsertions:
    """What is put into a source: text at offsets; `after` closes what stands before, `before` opens what follows."""

    def __init__(self, source: CSource) -> None:
        self.source = source
        self.found: list[tuple[int, int, int, str]] = []

    def before(self, offset: int, text: str) -> None:
        """Insert text before the statement that begins at an offset. Of several texts, the first one inserted comes
        first.
        """
        self.found.append((offset, 1, len(self.found), text))

    def after(self, offset: int, text: str) -> None:
        """Insert text after the statement that ends at an offset. Of several texts, the first one inserted
        comes last.
        """
        self.found.append((offset, 0, -len(self.found), text))

    def around(self, begin: int, end: int, opening: str, closing: str) -> None:
        """Put a statement into a block `{ … }`, with `opening` before it and `closing` after it."""
        self.before(begin, "{ " + opening)
        self.after(end, closing + " }")

    def marked_text(self, prologue: str) -> str:
        """Return the source with all insertions. `#line` markers make the compiler report the program's own lines and
        columns.
        """
        source = self.source
        jumps = [
            (source.starts[k], -1, 0, "")
            for k in range(1, len(source.origins))
            if source.origins[k] != (source.origins[k - 1][0], source.origins[k - 1][1] + 1)
        ]
        parts = [prologue, "\n", *line_directive(source.position_of(0))]
        done = 0
        for offset, kind, _, text in sorted(self.found + jumps):
            parts.append(source.text[done:offset])
            place = source.position_of(offset)
            # Its own `#line` names the line that the mark belongs to, so that a complaint of the compiler does too.
            parts += [text, "\n"] if kind >= 0 else []
            parts += line_directive(place)
            done = offset
        return "".join([*parts, source.text[done:]])


def line_directive(place: Position) -> list[str]:
    """Return a `#line` directive for a place, and spaces up to its column."""
    name = place.file.replace("\\", "\\\\").replace('"', '\\"')
    return [f'#line {place.line} "{name}"\n', " " * (place.column - 1)]
