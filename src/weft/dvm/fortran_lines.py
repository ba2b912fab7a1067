"""Read the lines of a Fortran source, in fixed or free form, as statements and directives with their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.dvm import fortran_macros
from weft.dvm.syntax import Directive, DirectiveError, Position
from weft.errors import UsageError

FREE_SUFFIXES: Final = (".f90", ".f95", ".f03", ".f08", ".fdv90")
FIXED_SUFFIXES: Final = (".f", ".for", ".ftn", ".f77")
SENTINEL: Final = re.compile(r"([cC*!])[dD][vV][mM][hH]?\$")
FREE_SENTINEL: Final = re.compile(r"\s*![dD][vV][mM][hH]?\$")
DEPTH: Final = 20
"""Includes in includes; more is taken for a circle."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line as the compiler sees it, and the file and line that it came from."""

    file: str
    number: int
    text: str


@dataclass(slots=True)
class FortranStatement:
    """One statement: its lines (indices, both included), its label, its text without blanks.

    `code` is in lower case with strings emptied: to tell statements apart; `text` has its strings.
    """

    first: int
    last: int
    label: str
    code: str
    text: str
    place: Position


@dataclass(slots=True)
class Sentinel:
    """One directive: its lines, and what it says (read later, so that its faults are reported in their order)."""

    first: int
    last: int
    pieces: list[tuple[Position, str]]
    directive: Directive | None = None

    @property
    def place(self) -> Position:
        """Return the position at which the directive begins."""
        return self.pieces[0][0]

    @property
    def said(self) -> str:
        """Return the directive as text, in one line."""
        return " ".join(" ".join(text for _, text in self.pieces).split())


Item = FortranStatement | Sentinel


@dataclass(slots=True)
class FortranSource:
    """A source file with its includes put in."""

    path: Path
    free: bool
    lines: list[SourceLine] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


def read_source(path: Path, include: Sequence[Path] = (), define: Sequence[str] = ()) -> FortranSource:
    """Return the statements and directives of a Fortran source, with INCLUDE files put in and macros expanded.

    Raises UsageError if the file cannot be read, DirectiveError for a malformed continuation.
    """
    texts = _read_text_lines(path)
    suffix = path.suffix.lower()
    source = FortranSource(path, suffix in FREE_SUFFIXES or (suffix not in FIXED_SUFFIXES and _is_free_form(texts)))
    folders = (path.parent, *include)
    if fortran_macros.needs_preprocessor(path, texts):
        for file, held in fortran_macros.expand_macros(path, source.free, include, define):
            _append_lines(source, file, held, folders, 0)
    else:
        _append_lines(source, path, list(enumerate(texts, 1)), folders, 0)
    source.lines = list(_split_at_semicolons(source.lines, source.free))
    source.items = list(_join_free_form(source.lines) if source.free else _join_fixed_form(source.lines))
    return source


def _read_text_lines(path: Path) -> list[str]:
    """Return the lines of a source file. UsageError if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as problem:
        raise UsageError(f"{path}: cannot be read: {problem.strerror}") from None
    # not splitlines(): to compilers only a line feed ends a line
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


COLUMN_ONE: Final = re.compile(r"call\s+\w+\s*\(|do\s+\w+\s*=|contains\s*$|(character|complex|dimension)\b.*::", re.I)
"""What begins in column 1 like a comment of fixed form, and is none."""


def _is_free_form(texts: Sequence[str]) -> bool:
    """Return whether the lines show that a source is in free form. Signs of it are letters before column 6 and an `&`
    at the end of a line.
    """
    for text in texts:
        if not text.strip() or text[0] in "cC*!#dD" or text.lstrip().startswith("!"):
            if COLUMN_ONE.match(text):
                return True
            continue
        head = text.split("\t")[0][:5]
        if re.search(r"[A-Za-z]", head):
            return True
        if _strip_comment(text).rstrip().endswith("&"):
            return True
    return False


def _strip_comment(line: str) -> str:
    """Return a line without its comment; a `!` within a string begins none."""
    quote = ""
    for at, sign in enumerate(line):
        if quote:
            if sign == quote:
                quote = ""
        elif sign in "'\"":
            quote = sign
        elif sign == "!":
            return line[:at]
    return line


INCLUDE: Final = re.compile(r"\s*include\s*(['\"])(.*?)\1\s*(!.*)?$", re.IGNORECASE)


def _append_lines(
    source: FortranSource, path: Path, texts: Sequence[tuple[int, str]], folders: Sequence[Path], depth: int
) -> None:
    """Append the numbered lines of a file to the source, with included files in place of their INCLUDE."""
    for number, text in texts:
        found = INCLUDE.match(text)
        if found and depth < DEPTH:
            inner = next((folder / found[2] for folder in folders if (folder / found[2]).is_file()), None)
            if inner is not None:
                _append_lines(source, inner, list(enumerate(_read_text_lines(inner), 1)), folders, depth + 1)
                continue
        source.lines.append(SourceLine(str(path), number, text if source.free else expand_fixed_line(text)))


def expand_fixed_line(line: str) -> str:
    """Return a fixed-form line as compilers see it: a leading tab means column 7, and columns after 72 are cut."""
    if line[:1] in ("c", "C", "*", "!", "#"):
        return line
    head, tab, rest = line.partition("\t")
    if tab and len(head) < 6:
        line = head.ljust(5) + rest if rest[:1].isdigit() and rest[0] != "0" else head.ljust(6) + rest
    if line.isascii():
        return line[:72]
    return line.encode("utf-8", "surrogateescape")[:72].decode("utf-8", "surrogateescape")  # columns are bytes


def _split_at_semicolons(lines: Sequence[SourceLine], free: bool) -> Iterator[SourceLine]:
    """Yield the lines with one statement each. A line with several statements becomes several, each with its statement
    in the same columns.
    """
    quote = ""
    for line in lines:
        text = line.text
        comment = not text.strip() or text.lstrip()[0] in "!#" or (not free and text[0] in "cC*dD")
        if comment and not (not free and _is_continued(text)):
            yield line
            continue
        starts, quote = _statement_starts(text, quote if free or _is_continued(text) else "")
        for start, end in zip(starts, [*starts[1:], len(text) + 1], strict=True):
            if start == 0 or text[start : end - 1].strip():
                yield SourceLine(line.file, line.number, " " * start + text[start : end - 1])
        if free and not text.rstrip().endswith("&"):
            quote = ""


def _statement_starts(line: str, open_quote: str) -> tuple[list[int], str]:
    """Return two things: the columns (from 0) at which statements begin in a line, and the quote of a string that is
    still open at its end ("" if none is). `open_quote`: the quote that was open before the line.
    """
    found = [0]
    for at, sign in enumerate(line):
        if open_quote:
            open_quote = "" if sign == open_quote else open_quote
        elif sign in "'\"":
            open_quote = sign
        elif sign == "!":
            break
        elif sign == ";":
            found.append(at + 1)
    return found, open_quote


def _is_continued(text: str) -> bool:
    """Return whether a fixed-form line continues the statement before it."""
    return len(text) > 5 and text[5] not in " 0" and not text[:5].strip()


# --- statements -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Piece:
    """The characters of one statement so far, each with its place."""

    first: int
    last: int
    text: list[str] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    quote: str = ""

    def add_line(self, line_text: str, line_index: int, start_column: int) -> str:
        """Add a line's characters from a column (from 0) up to its comment, and return them."""
        before = len(self.text)
        for at in range(start_column, len(line_text)):
            sign = line_text[at]
            if self.quote:
                if sign == self.quote:
                    self.quote = ""
            elif sign in "'\"":
                self.quote = sign
            elif sign == "!":
                break
            self.text.append(sign)
            self.places.append((line_index, at))
        self.last = line_index
        return "".join(self.text[before:])

    def drop_continuation(self) -> None:
        """Remove the `&` at the end of the text that was added last, and the blanks after it."""
        while self.text and self.text[-1].isspace():
            self.text.pop()
            self.places.pop()
        self.text.pop()
        self.places.pop()

    def make_statement(self, lines: Sequence[SourceLine], label: str) -> Iterator[FortranStatement]:
        """Yield the one statement that the added lines form; nothing if they are blank. The statement's `text` has no
        blanks outside of strings; its `code` is the same with empty strings.
        """
        if not "".join(self.text).strip():
            return
        code, text, at = _squeeze_blanks(self.text)
        line, column = self.places[at]
        place = Position(lines[line].file, lines[line].number, column + 1)
        if not label and (found := re.match(r"(\d{1,5})(?=[a-z])", code)):
            label = found[1]
            code, text = code[found.end() :], text[found.end() :]
        yield FortranStatement(self.first, self.last, label, code, text, place)


def _squeeze_blanks(characters: Sequence[str]) -> tuple[str, str, int]:
    """Return a statement in lower case without blanks, in three parts: the text with empty strings, the text with full
    strings, and the index of the statement's first character.
    """
    code: list[str] = []
    kept: list[str] = []
    quote, begin = "", 0
    for at, sign in enumerate(characters):
        if quote:
            kept.append(sign)
            if sign == quote:
                quote = ""
                code.append(sign)
            continue
        if sign.isspace():
            continue
        if not kept:
            begin = at
        if sign in "'\"":
            quote = sign
        code.append(sign.lower())
        kept.append(sign.lower())
    return "".join(code), "".join(kept), begin


def _join_fixed_form(lines: list[SourceLine]) -> Iterator[Item]:
    """Yield the statements and directives of fixed form."""
    piece: _Piece | None = None
    label = ""
    directive: Sentinel | None = None
    for at, line in enumerate(lines):
        text = line.text
        if found := SENTINEL.match(text):
            rest = text[found.end() :]
            start = Position(line.file, line.number, found.end() + 2)
            if rest[:1] not in ("", " ", "\t", "0"):
                if directive is None:
                    raise DirectiveError(
                        Position(line.file, line.number, 1), "this line continues no directive; put a blank in column 6"
                    )
                directive.pieces.append((start, _strip_comment(rest[1:])))
                directive.last = at
                continue
            if piece:
                yield from piece.make_statement(lines, label)
                piece = None
            if directive:
                yield directive
            directive = Sentinel(at, at, [(start, _strip_comment(rest[1:]))]) if rest.strip() else None
            continue
        comment = not text.strip() or text[0] in "cC*!dD#" or text.lstrip().startswith("!")
        if comment and not (text.lstrip().startswith("!") and len(text) - len(text.lstrip()) == 5):
            continue
        if _is_continued(text):
            if piece:
                if piece.quote:
                    pad = 72 - len(lines[piece.last].text)
                    piece.text.extend(" " * pad)
                    piece.places.extend([(piece.last, 72)] * pad)
                    held = lines[piece.last]
                    lines[piece.last] = SourceLine(held.file, held.number, held.text.ljust(72))
                piece.add_line(text, at, 6)
            continue
        if piece:
            yield from piece.make_statement(lines, label)
        if directive:
            yield directive
            directive = None
        label = text[:5].strip().lstrip("0")
        piece = _Piece(at, at)
        piece.add_line(text, at, 6)
    if piece:
        yield from piece.make_statement(lines, label)
    if directive:
        yield directive


def _join_free_form(lines: Sequence[SourceLine]) -> Iterator[Item]:
    """Yield the statements and directives of free form."""
    piece: _Piece | None = None
    directive: Sentinel | None = None
    for at, line in enumerate(lines):
        text = line.text
        if found := FREE_SENTINEL.match(text):
            rest = _strip_comment(text[found.end() :])
            if directive is None:
                directive = Sentinel(at, at, [])
            start = found.end()
            if rest.lstrip()[:1] in ("&", "*", ">") and directive.pieces:
                start += len(rest) - len(rest.lstrip()) + 1
                rest = rest.lstrip()[1:]
            goes_on = rest.rstrip().endswith("&") or _next_continues(lines, at)
            cut = rest.rstrip()[:-1] if rest.rstrip().endswith("&") else rest
            directive.pieces.append((Position(line.file, line.number, start + 1), cut))
            directive.last = at
            if not goes_on:
                if directive.said:
                    yield directive
                directive = None
            continue
        if not text.strip() or text.lstrip()[0] in "!#":
            continue
        start = 0
        if piece is None:
            piece = _Piece(at, at)
        elif text.lstrip().startswith("&"):
            start = text.index("&") + 1
        added = piece.add_line(text, at, start)
        if added.rstrip().endswith("&"):
            piece.drop_continuation()
            continue
        piece.quote = ""
        yield from piece.make_statement(lines, "")
        piece = None
    if piece:
        yield from piece.make_statement(lines, "")


def _next_continues(lines: Sequence[SourceLine], line_index: int) -> bool:
    """Return whether the next line is a directive line that continues the directive on line `line_index`."""
    if line_index + 1 >= len(lines):
        return False
    text = lines[line_index + 1].text
    found = FREE_SENTINEL.match(text)
    return bool(found) and text[found.end() :].lstrip()[:1] in ("&", "*", ">")  # type: ignore[union-attr]
