"""What a statement gives a function for its arguments, as text: `buf` of `MPI_Send(&buf[2], n, ...)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\s*\w+)?|&\s*([A-Za-z_]\w*)\s*\[[^\[\]]*\]")
"""A pointer or an array, what lies behind it, or the address of an element: no cast, no member, no call."""
_MOST: Final = 2000


def named(lines: Sequence[str], function: str, index: int) -> str | None:
    """The variable that argument `index` of the one call of a function is given; None where it is no plain one."""
    texts = given(lines, function) or []
    found = _NAME.fullmatch(texts[index].strip()) if index < len(texts) else None
    return found[1] or found[2] if found else None


def given(lines: Sequence[str], function: str) -> list[str] | None:
    """What the one call of a function is given; None where there is none, or more than one."""
    text = "\n".join(lines)[:_MOST]
    calls = list(re.finditer(rf"\b{re.escape(function)}\s*\(", text))
    return _arguments(text, calls[0].end()) if len(calls) == 1 else None


def _arguments(text: str, start: int) -> list[str]:
    """The arguments that begin at a place in a text; nothing where the bracket stays open."""
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
