"""What a program of the matrix wrote down about its own MPI calls (programs/log.h draws the lines)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Value:
    """An argument as the program saw it: a number or address, and what it points at where that was written down."""

    text: str
    number: int | None = None
    items: tuple[str, ...] | None = None
    string: str | None = None


@dataclass
class Call:
    """One call. `polls` counts failed polls with equal arguments in a row, which a record keeps as one event."""

    thread: int
    line: int
    name: str
    before: list[Value]
    after: list[Value]
    result: int
    polls: int = 0
    times: int = 1
    """Equal calls in a row of a function that waits for nobody and changes nothing: one event of a record."""


@dataclass
class Log:
    """The log of one process."""

    pid: int
    calls: list[Call] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    handles: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Raw value of a predefined handle -> its name, a class."""

    def families(self) -> Counter[str]:
        """How often each function was called."""
        return Counter(call.name for call in self.calls)


_VALUE = re.compile(r'(?P<number>-?\d+|0x[0-9a-fA-F]+)?(?:\{(?P<items>.*)\})?|"(?P<string>.*)"', re.DOTALL)


def value(text: str) -> Value:
    """Parse one argument."""
    match = _VALUE.fullmatch(text)
    if match is None:
        return Value(text)
    items = match["items"]
    number = int(match["number"], 0) if match["number"] else None
    return Value(text, number, tuple(items.split(",")) if items is not None else None, match["string"])


def read(path: Path) -> Log:
    """Read the log of one process."""
    log = Log(int(path.stem))
    for line in path.read_text(errors="replace").splitlines():
        fields = line.split("\t")
        if fields[0] == "constant":
            log.constants[fields[1]] = int(fields[2])
        elif fields[0] == "handle":
            log.handles[fields[1]].setdefault(fields[3], fields[2].strip())
        else:
            then, end = fields.index("=>"), len(fields) - 2
            before, after = fields[3:then], fields[then + 1 : end]
            log.calls.append(
                Call(
                    int(fields[0]),
                    int(fields[1]),
                    fields[2],
                    [*map(value, before)],
                    [*map(value, after)],
                    int(fields[-1]),
                )
            )
    return log


def read_all(folder: Path) -> dict[int, Log]:
    """Read the logs of all processes, by process id."""
    return {log.pid: log for log in map(read, sorted(folder.glob("*.log")))}
