"""The file of an order of tasks, for the program and for Weft beside it."""

import json
from typing import IO, Any

FAMILY = "weft-schedule/"
VERSION = "1"
SCHEMA = FAMILY + VERSION
LONGEST = 1 << 16
"""Characters of a line: of a file that is none of these one may have no end."""


def header(file: IO[Any]) -> dict[str, Any]:
    """What the first line of a file says; nothing where that is no JSON object."""
    try:
        first = json.loads(file.readline(LONGEST) or "null")
    except (ValueError, RecursionError):
        return {}
    return first if isinstance(first, dict) else {}


def refusal(first: dict[str, Any]) -> str:
    """Why a file whose first line says `first` is not replayed; empty where it is."""
    schema = str(first.get("schema"))
    if not schema.startswith(FAMILY):
        return "`weft tasks --record` did not write this file"
    if schema == SCHEMA:
        return ""
    found = schema.removeprefix(FAMILY)[:40]
    return (
        f"it is of version {found}, and this Weft reads version {VERSION}: record the order again, or replay it "
        "with the Weft that wrote it"
    )


def recorded(path: str) -> dict[int, list[str]]:
    """What each loop of asyncio let go on, in order. ValueError for what is no such file, or damaged."""
    ways: dict[int, list[str]] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 (it is imported by every program)
        if why := refusal(header(file)):
            raise ValueError(f"{path}: {why}")
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), ""), 2):
            if not line.endswith("\n") and len(line) < LONGEST:
                break  # the program was killed as it wrote it
            loop, _, way = line.rstrip("\n").partition(" ")
            if not line.endswith("\n") or not (loop.isascii() and loop.isdigit()) or len(loop) > 9:
                raise ValueError(f"{path}: line {number} is damaged")
            ways.setdefault(int(loop), []).append(way)
    return ways
