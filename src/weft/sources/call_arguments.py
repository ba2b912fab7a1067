"""Read the texts of a call's arguments from a statement: `buf` from `MPI_Send(&buf[2], n, ...)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_PATH: Final = r"[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*"
_NAME: Final = re.compile(
    rf"(?P<array>{_PATH}?)(?:(?:\.|->)data\s*\(\s*\))?\s*(?:\+[^?:]*)?|&\s*(?P<element>{_PATH})\s*\[[^\[\]]*\]"
)
"""A pointer, an array or a container, what lies after its begin, or the address of an element; each may be a member.
It is not a cast, nor another call.
"""
_MOST: Final = 2000


def find_plain_argument(lines: Sequence[str], function: str, index: int) -> str | None:
    """Return the variable or member, such as `buf` or `grid->cells`, that is argument `index` (from 0) of a function's
    only call in some lines. None if the argument is no plain variable (`buf`, `buf + 2`, `&buf[2]` or `buf.data()`), or
    if there is not exactly one call.
    """
    texts = find_call_arguments(lines, function) or []
    found = _NAME.fullmatch(texts[index].strip()) if index < len(texts) else None
    return re.sub(r"\s", "", found["array"] or found["element"]) if found else None


def find_call_arguments(lines: Sequence[str], function: str) -> list[str] | None:
    """Return the texts of the arguments of a function's only call in some lines; None unless there is
    exactly one call.
    """
    text = "\n".join(lines)[:_MOST]
    calls = list(re.finditer(rf"\b{re.escape(function)}\s*\(", text))
    return _split_arguments(text, calls[0].end()) if len(calls) == 1 else None


def _split_arguments(text: str, start: int) -> list[str]:
    """Return the texts of the arguments that begin at offset `start` of a text, after the opening bracket. Empty if the
    bracket is not closed.
    """
    depth, begin = 0, start
    found: list[str] = []
    for at in range(start, len(text)):
        mark = text[at]
        if mark in "([{":
            depth += 1
        elif mark in ")]}" and depth:
            depth -= 1
        elif mark == ")":
            return [*found, text[begin:at]]
        elif mark == "," and not depth:
            found.append(text[begin:at])
            begin = at + 1
    return []


def split_at_commas(text: str) -> list[str]:
    """Return the parts of a text between its commas that are not inside of brackets."""
    return _split_arguments(f"{text})", 0)
