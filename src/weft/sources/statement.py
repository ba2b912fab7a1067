"""Find statements in lines of Python, C, C++ and Fortran: where the one with a call begins and ends, and what it calls.

Only some lines around the call are looked at, by their brackets and how they end: a report needs what a person would
point at, not a parser, and a file that was cut or does not compile has lines all the same.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from weft.sources.layout import Statement

Language = Literal["python", "c", "fortran", "fixed"]

BEFORE: Final = 4
"""Lines above the call's at most, if the statement begins there."""
MAX_LINES: Final = 6
MAX_WIDTH: Final = 160
MAX_CALLS: Final = 16
_LONGEST: Final = 2000
"""Characters of a line that are looked at."""

_STRINGS: Final = r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?"
_HIDDEN: Final[dict[Language, re.Pattern[str]]] = {
    "python": re.compile(r'#[^\n]*|"""(?:\\.|[^\\])*?(?:"""|\Z)|' r"'''(?:\\.|[^\\])*?(?:'''|\Z)|" + _STRINGS, re.S),
    "c": re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|" + _STRINGS, re.S),
    "fortran": re.compile(r"![^\n]*|\"[^\"\n]*\"?|'[^'\n]*'?"),
    "fixed": re.compile(r"(?m:^[cC*dD][^\n]*)|![^\n]*|\"[^\"\n]*\"?|'[^'\n]*'?"),
}
"""Comments and strings."""
_BRACKETS: Final[dict[Language, tuple[str, str]]] = {
    "python": ("([{", ")]}"), "c": ("([", ")]"), "fortran": ("(", ")"), "fixed": ("(", ")"),
}  # fmt: skip
_CALLED: Final = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*|\.[A-Za-z_][\w.]*)\s*\(|\)\s*(\.[A-Za-z_][\w.]*)\s*\(")
_NO_CALLS: Final = frozenset("if elif while for return and or not in is with assert lambda print await yield".split())
_OPEN_END: Final = re.compile(r"(?:[=,(?|&+*/<]|\\|-(?<!--))$")
_FIXED_MORE: Final = re.compile(r" {5}[^ 0\n]")


def find_language(file: str) -> Language:
    """Return the language of a file, by its name; files without a suffix are Python scripts."""
    suffix = Path(file).suffix.lower()
    if suffix in ("", ".py", ".pyw", ".pyx", ".pxd", ".pxi", ".pyi"):
        return "python"
    if suffix in (".f", ".for", ".ftn", ".fpp", ".f77", ".fdv"):
        return "fixed"
    return "fortran" if suffix.startswith(".f") else "c"


def find_statement(lines: Sequence[str], first: int, line: int, file: str) -> Statement | None:
    """Return the statement that contains a call in line `line` of a file. None if that line is blank or not among
    `lines`, which begin at line `first` of the file.
    """
    at = line - first
    if not 0 <= at < len(lines) or not lines[at].strip():
        return None
    kind = find_language(file)
    start = max(0, at - BEFORE)
    part = [text[:_LONGEST] for text in lines[start : at + MAX_LINES + 3]]
    begin = start + _find_begin(_strip_comments(part, kind), at - start, kind)
    end = begin + _count_lines(_strip_comments(part[begin - start :], kind), at - begin, kind)
    shown = [text.expandtabs(8).rstrip() for text in lines[begin:end]]
    return Statement(first + begin, line, first + end - 1, tuple(_fit_lines(shown)))


def find_called_names(lines: Sequence[str], index: int, file: str) -> tuple[str, ...]:
    """Return the names that the line `lines[at]` calls, such as `comm.recv`. If the line calls nothing, return the
    names that the statement beginning there calls.
    """
    part = [text[:_LONGEST] for text in lines[index : index + MAX_LINES + 3]]
    if not part:
        return ()
    kind = find_language(file)
    bare = _strip_comments(part, kind)
    return _find_names(bare[0]) or _find_names("\n".join(bare[: _count_lines(bare, 0, kind)]))


def without_comments(lines: Sequence[str], file: str) -> list[str]:
    """Return the lines of a file without comments, and with `""` in place of each string."""
    return _strip_comments(lines, find_language(file))


def is_fortran(file: str) -> bool:
    """Return whether a file is of Fortran, by its name."""
    return find_language(file) in ("fortran", "fixed")


def normalize_fortran(lines: Sequence[str], file: str) -> list[str]:
    """Return lines of Fortran in lower case, without comments and without the marks at the ends of continued lines."""
    return [line.rstrip().removesuffix("&").lower() for line in without_comments(lines, file)]


def join_fortran(lines: Sequence[str], file: str) -> list[str]:
    """Return the statements of lines of Fortran, each on one line, in lower case and without comments."""
    fixed, statements, goes_on = find_language(file) == "fixed", [""], False
    for line in without_comments(lines, file):
        text = line.strip().lower()
        if goes_on or (fixed and _FIXED_MORE.match(line)):
            statements[-1] += " " + (line[6:].strip().lower() if fixed else text.lstrip("&").strip())
        elif text:
            statements.append(text)
        goes_on = text.endswith("&") if text else goes_on
        statements[-1] = statements[-1].removesuffix("&").rstrip()
    return statements[1:]


def _find_names(text: str) -> tuple[str, ...]:
    found = [first or second for first, second in _CALLED.findall(text)]
    return tuple(dict.fromkeys(name[:100] for name in found if name not in _NO_CALLS))[:MAX_CALLS]


def _strip_comments(lines: Sequence[str], kind: Language) -> list[str]:
    """Return the lines without their comments, and with `""` in place of each string."""

    def blank_out(found: re.Match[str]) -> str:
        """Return what replaces a comment or string: as many line ends, and for a string `""` before them."""
        text = found[0]
        quoted = '""' if text[0] in "\"'" else ""
        return quoted + "\n" * text.count("\n")

    return _HIDDEN[kind].sub(blank_out, "\n".join(lines)).split("\n")


def _depth(text: str, kind: Language) -> int:
    opening, closing = _BRACKETS[kind]
    return sum(text.count(mark) for mark in opening) - sum(text.count(mark) for mark in closing)


def _find_begin(stripped_lines: Sequence[str], index: int, kind: Language) -> int:
    """Return the index of the first line of the statement that line `index` belongs to."""
    if not stripped_lines[index].strip():
        return index  # what stands above seemed to hide the call: it was cut in a string or a comment
    for begin in range(index):
        depth = 0
        for line in range(begin, index):
            depth += _depth(stripped_lines[line], kind)
            if not _statement_continues(stripped_lines, line, depth, kind):
                break
        else:
            return begin if stripped_lines[begin].strip() else index
    return index


def _count_lines(stripped_lines: Sequence[str], index: int, kind: Language) -> int:
    """Return the number of lines of the statement that begins in the first line. It has at least the lines up to index
    `index`.
    """
    depth = 0
    for line, text in enumerate(stripped_lines):
        depth += _depth(text, kind)
        if line >= index and not _statement_continues(stripped_lines, line, depth, kind):
            return line + 1
    return len(stripped_lines)


def _statement_continues(stripped_lines: Sequence[str], line: int, depth: int, kind: Language) -> bool:
    """Return whether a statement continues after a line. `depth`: how many brackets are open at the line's end."""
    text = stripped_lines[line].rstrip()
    if kind == "python":
        return depth > 0 or text.endswith("\\")
    if kind == "fortran":
        return text.endswith("&")
    if kind == "fixed":
        return line + 1 < len(stripped_lines) and _FIXED_MORE.match(stripped_lines[line + 1]) is not None
    return depth > 0 or (_OPEN_END.search(text) is not None and not text.lstrip().startswith("#"))


def _fit_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines without common indentation, at most MAX_LINES of them and cut to MAX_WIDTH characters. `...`
    shows what was cut.
    """
    plain = textwrap.dedent("\n".join(lines)).split("\n")
    shown = [text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 3] + "..." for text in plain[:MAX_LINES]]
    return shown if len(plain) <= MAX_LINES else [*shown[:-1], "..."]
