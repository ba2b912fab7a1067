"""Read the file in which a runtime of `weft check` writes what it found and what ran: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.debuginfo.addr2line import Found, run_addr2line


@dataclass(slots=True)
class RuntimeOutput:
    """What the runtime wrote in one process of the program."""

    raw_findings: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What was found, by its number; `count`: how often."""
    construct_runs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By a construct's number: how often it ran, with how many iterations."""
    constructs: list[dict[str, Any]] = field(default_factory=list)
    """The same of constructs that have no numbers but a program counter."""
    lines: dict[int, int] = field(default_factory=dict)
    """Lines of program counters that have none in the debugging information."""
    modules: list[dict[str, Any]] = field(default_factory=list)
    """The program and its libraries: where each lies, its bytes and its path."""
    rank: int = 0
    places: int = 0
    """So many had their accesses looked at."""
    stack: int = 0
    """The KiB of the stack that was full; 0: it was not."""
    slow: dict[str, Any] | None = None
    """That the program runs slower than promised: so many times, and the construct that costs."""
    usage: dict[str, Any] | None = None
    """Why it could not be checked."""

    @property
    def program_base(self) -> int:
        """Return the address at which the program was loaded."""
        return int(self.modules[0]["base"]) if self.modules else 0

    def resolve_frames(self, program_counters: Iterable[int]) -> dict[int, Sequence[Found]]:
        """Return for each program counter its source places as (file, line, function). There are several if functions
        were inlined, the innermost first."""
        wanted = set(program_counters)
        found: dict[int, Sequence[Found]] = {}
        for module in self.modules:
            base, size = module["base"], module["size"]
            offsets = sorted(pc - base for pc in wanted if base <= pc - 1 < base + size)
            if offsets:
                found |= {int(at) + base: frames for at, frames in run_addr2line(module["path"], offsets, []).items()}
        return found


def read_runtime_output(path: Path) -> RuntimeOutput:
    """Return what a runtime wrote to its file; empty if the file does not exist."""
    told = RuntimeOutput()
    for held in _read_json_lines(path) if path.exists() else ():
        if "kind" in held:
            told.raw_findings[held["id"]] = {"count": 1, **held}
        elif "count" in held:
            told.raw_findings.get(held["id"], {}).update(held)
        elif "modules" in held:
            told.modules, told.rank = held["modules"], held["rank"]
        elif "slow" in held:
            told.slow = held
        elif "usage" in held:
            told.usage = held
        elif "ran" in held:
            told.construct_runs[held["ran"]] = (held["times"], held["iterations"])
        elif "construct" in held:
            told.constructs.append(held)
        elif "places" in held:
            told.places = max(told.places, held["places"])
        elif "place" in held:
            told.lines[held["place"]] = held["line"]
        elif "stack" in held:
            told.stack = held["stack"]
    return told


def _read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line; a line that a killed program left incomplete is skipped."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
