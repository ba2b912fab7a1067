"""Prints lines with styles: coloured and wrapped at a terminal, plain elsewhere."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from weft.base.words import visible

Block = tuple[str, str]
"""A line and its style: the name of a severity, `bold`, `dim`, `failure`, `code` (never wrapped) or nothing."""

PICTURE: Final = "picture"
"""In place of a style: a line of a picture, which is neither wrapped nor cut."""
INDENT: Final = 9
"""Columns by which the second line of a wrapped one is set in."""

# Written out here, as importing a library for it costs more than everything else that a report of a short run does.
_CODES: Final = {
    "error": "1;31", "failure": "1;31", "warning": "33", "note": "36", "bold": "1", "dim": "2",
}  # fmt: skip


def print_blocks(blocks: Iterable[Block], to: TextIO, tables: Sequence[str] = (), *, prefix: str = "") -> None:
    """Print lines, each after `prefix`, and then the lines `tables`. At a terminal the former are wrapped and coloured
    by their styles.
    """
    if to.isatty():
        width = max(40, min(terminal_columns(to), 120)) - len(prefix)
        coloured = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        for text, style in blocks:
            for line in _wrap_line(visible(text), style, width):
                print(prefix + _colour_line(line, style if coloured else ""), file=to)
    else:
        for text, _ in blocks:
            print(prefix + text, file=to)
    print(*tables, sep="\n", end="\n" if tables else "", file=to)
    to.flush()


def terminal_columns(to: TextIO) -> int:
    """Return the width in characters of the terminal that `to` writes to: COLUMNS if set, else what the system says,
    else 80.
    """
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(to.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _wrap_line(text: str, style: str, width: int) -> list[str]:
    """Break a line into lines of at most `width` characters. A line of source code is cut off instead, and a picture
    stays whole.
    """
    if style == PICTURE:
        return [text]
    if style == "code":
        return [text if len(text) <= width else text[: width - 3] + "..."]
    lead = " " * max(INDENT, len(text) - len(text.lstrip()))
    return textwrap.wrap(text, width, subsequent_indent=lead, break_on_hyphens=False) or [""]


def _colour_line(line: str, style: str) -> str:
    """Return a line with the escape codes that give it the colour of its style."""
    code = _CODES.get(style)
    if not code or not line.strip():
        return line
    text = line.lstrip()
    return f"{line[: len(line) - len(text)]}\x1b[{code}m{text}\x1b[0m"
