"""Colour lines of source in Python, C, C++ and Fortran, as pairs of a class and a text."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

CLASSES: Final = ("k", "f", "s", "n", "c", "p")
"""Keyword, name of a function or class or a builtin, string, number, comment, preprocessor line or decorator."""

MAX_TEXT: Final = 300_000
"""Characters that are coloured; a longer stretch stays plain."""

Line = list[tuple[str, str]]

_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("Token.Comment.Preproc", "p"), ("Token.Comment", "c"), ("Token.Keyword", "k"), ("Token.Operator.Word", "k"),
    ("Token.Name.Function", "f"), ("Token.Name.Class", "f"), ("Token.Name.Builtin", "f"),
    ("Token.Name.Decorator", "p"), ("Token.Literal.String", "s"), ("Token.Literal.Number", "n"),
)  # fmt: skip


def colour_lines(lines: Sequence[str], file: str) -> list[Line]:
    """Return each line as (class, text) pairs; the class is one of CLASSES or empty, and the texts make up the line."""
    text = "\n".join(lines)
    if len(text) > MAX_TEXT:
        return plain(lines)
    found: list[Line] = [[]]
    known: dict[Any, str] = {}
    for token, part in _find_lexer(file).get_tokens(text + "\n"):
        kind = known.get(token)
        if kind is None:
            kind = known[token] = next((kind for name, kind in _KINDS if str(token).startswith(name)), "")
        for number, piece in enumerate(part.split("\n")):
            if number:
                found.append([])
            if piece:
                _append_text(found[-1], kind, piece)
    found = found[: len(lines)]
    same = len(found) == len(lines) and all("".join(p for _, p in f) == t for f, t in zip(found, lines, strict=True))
    return found if same else plain(lines)


def plain(lines: Sequence[str]) -> list[Line]:
    """Return lines without colours, as (class, text) pairs."""
    return [[("", text)] if text else [] for text in lines]


def cut_line(line: Line, width: int) -> Line:
    """Return the first `width` characters of a coloured line, as (class, text) pairs."""
    found: Line = []
    for kind, text in line:
        if width <= 0:
            break
        found.append((kind, text[:width]))
        width -= len(text)
    return found


def render_html(line: Line) -> str:
    """Return a coloured line as HTML: spans of the classes `t-k`, `t-s` and so on. The source's own text is escaped."""
    return "".join(f'<span class="t-{kind}">{escape(text)}</span>' if kind else escape(text) for kind, text in line)


def _append_text(line: Line, kind: str, text: str) -> None:
    """Append text of a kind to a line, joined with the last part if it has the same kind."""
    if line and line[-1][0] == kind:
        line[-1] = kind, line[-1][1] + text
    else:
        line.append((kind, text))


_LEXERS: Final[dict[str, tuple[str, str]]] = {
    "": ("python", "PythonLexer"), ".py": ("python", "PythonLexer"), ".pyw": ("python", "PythonLexer"),
    ".pyi": ("python", "PythonLexer"), ".pyx": ("python", "CythonLexer"), ".pxd": ("python", "CythonLexer"),
    ".pxi": ("python", "CythonLexer"), ".c": ("c_cpp", "CLexer"), ".h": ("c_cpp", "CppLexer"),
    ".jl": ("julia", "JuliaLexer"), ".rs": ("rust", "RustLexer"), ".chpl": ("chapel", "ChapelLexer"),
}  # fmt: skip


def _find_lexer(file: str) -> Any:
    """Return the lexer of pygments for a file, by its suffix."""
    suffix = Path(file).suffix.lower()
    fixed = suffix in (".f", ".for", ".ftn", ".fpp", ".f77", ".fdv")
    fortran = fixed or suffix.startswith((".f9", ".f0", ".f1")) or suffix in (".inc", ".fh")
    named = ("fortran", "FortranFixedLexer" if fixed else "FortranLexer") if fortran else ("c_cpp", "CppLexer")
    module, name = _LEXERS.get(suffix, named)
    return getattr(importlib.import_module(f"pygments.lexers.{module}"), name)(stripnl=False, stripall=False)
