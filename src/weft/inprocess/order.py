"""The file of an order of tasks, for the program and for Weft beside it."""

import json
from typing import IO, Any

SCHEMA = "weft-schedule/1"
LONGEST = 1 << 16
"""Characters of a line: of a file that is none of these one may have no end."""


def header(file: IO[Any]) -> dict[str, Any]:
    """What the first line of such a file says; nothing of a file of another kind."""
    try:
        first = json.loads(file.readline(LONGEST) or "null")
    except (ValueError, RecursionError):
        return {}
    return first if isinstance(first, dict) and first.get("schema") == SCHEMA else {}


def recorded(path: str) -> dict[int, list[str]]:
    """What each loop of asyncio let go on, in order. ValueError for what is no such file, or damaged."""
    ways: dict[int, list[str]] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 (it is imported by every program)
        if not header(file):
            raise ValueError(f"{path}: `weft tasks --record` did not write this file")
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), ""), 2):
            if not line.endswith("\n") and len(line) < LONGEST:
                break  # the program was killed as it wrote it
            loop, _, way = line.rstrip("\n").partition(" ")
            if not line.endswith("\n") or not (loop.isascii() and loop.isdigit()) or len(loop) > 9:
                raise ValueError(f"{path}: line {number} is damaged")
            ways.setdefault(int(loop), []).append(way)
    return ways
