"""Reads the file of a recorded order of task steps; used inside the program and by Weft."""

import json
from typing import IO, Any

FAMILY = "weft-schedule/"
VERSION = "1"
SCHEMA = FAMILY + VERSION
MOST_LINE_LENGTH = 1 << 16
"""Characters of a line: of a file that is none of these one may have no end."""


def read_schedule_header(file: IO[Any]) -> dict[str, Any]:
    """Return the JSON object in the first line of a file with a recorded order of steps. Empty if the line has none."""
    try:
        first = json.loads(file.readline(MOST_LINE_LENGTH) or "null")
    except (ValueError, RecursionError):
        return {}
    return first if isinstance(first, dict) else {}


def explain_refusal(header: dict[str, Any]) -> str:
    """Return why a recorded order of steps cannot be replayed, by the header of its file. Empty if it can."""
    schema = str(header.get("schema"))
    if not schema.startswith(FAMILY):
        return "`weft tasks --record` did not write this file"
    if schema == SCHEMA:
        return ""
    found = schema.removeprefix(FAMILY)[:40]
    return (
        f"it is of version {found}, and this Weft reads version {VERSION}: record the order again, or replay it "
        "with the Weft that wrote it"
    )


def read_schedule(path: str) -> dict[int, list[str]]:
    """Return the recorded steps: loop number -> names of the loop's steps, in order. ValueError if the file is damaged
    or of another kind.
    """
    ways: dict[int, list[str]] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 (it is imported by every program)
        if why := explain_refusal(read_schedule_header(file)):
            raise ValueError(f"{path}: {why}")
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE_LENGTH), ""), 2):
            if not line.endswith("\n") and len(line) < MOST_LINE_LENGTH:
                break  # the program was killed as it wrote it
            loop, _, way = line.rstrip("\n").partition(" ")
            if not line.endswith("\n") or not (loop.isascii() and loop.isdigit()) or len(loop) > 9:
                raise ValueError(f"{path}: line {number} is damaged")
            ways.setdefault(int(loop), []).append(way)
    return ways
