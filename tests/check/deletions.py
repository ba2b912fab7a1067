"""Every clause of a C-DVMH program taken out in turn: the programs that a forgotten clause leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

CLAUSE = re.compile(r"\b(shadow_renew|across|reduction|private|remote_access)\s*\(")


@dataclass(frozen=True)
class Deletion:
    """A program without one clause; `line` is the directive's."""

    clause: str
    line: int
    text: str


def deletions(text: str) -> Iterator[Deletion]:
    """Every program that one deleted clause of a parallel loop makes; a directive of its own is deleted as a whole."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "#pragma dvm" not in line:
            continue
        for matched in CLAUSE.finditer(line):
            end = closing(line, matched.end() - 1) + 1
            alone = line[: matched.start()].strip() == "#pragma dvm"
            rest = "" if alone else (line[: matched.start()].rstrip(" ,") + ", " + line[end:].lstrip(" ,")).rstrip(" ,")
            without = [*lines[: number - 1], rest, *lines[number:]]
            yield Deletion(line[matched.start() : end], number, "\n".join(without))


def closing(line: str, at: int) -> int:
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for place in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[place], 0)
        if not depth:
            return place
    raise ValueError(f"a bracket does not close: {line}")
