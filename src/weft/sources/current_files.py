"""Read source files as they are today, for a program that was not recorded and ran just now."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from weft.sources import files
from weft.sources.layout import Excerpt

MOST: Final = 64
"""Files whose lines are held."""


@lru_cache(MOST)
def lines(file: str) -> tuple[str, ...]:
    """Return the lines of a file as it is today; none if it cannot be read or holds no source."""
    found = files.read_source(file)
    return tuple(found.lines) if found else ()


def line(file: str, number: int) -> str:
    """Return a line of a file by its number from 1; "" if there is none."""
    held = lines(file) if file else ()
    return held[number - 1] if 0 < number <= len(held) else ""


def excerpt(file: str, number: int, around: int) -> Excerpt | None:
    """Return the lines around line `number`; None if there is no such line."""
    held = lines(file) if file else ()
    if not 0 < number <= len(held):
        return None
    first = max(1, number - around)
    return Excerpt(file, number, first, held[first - 1 : number + around], kept=False)
