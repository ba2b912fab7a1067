"""C-DVMH programs of the tests: their variants, and what their comments promise of them.

A line that ends in `/* wrong */` is left out of the corrected twin, one that ends in `/* right */` out of the faulty
program; the lines of both stay where they are. A faulty line ends in `/* found KIND loop=L at=I,J of=a[1] */`: KIND
is the file's own where it is left out, L the directive's line (counted from the faulty one: -3; 0: no loop, or the
line itself; else the line's own number, found by its text), I,J the iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.findings import Finding

PROGRAMS = Path(__file__).parent / "dvm" / "c"
FOUND = re.compile(
    r"/\* found (?:(?P<kind>[a-z-]+) )?loop=(?P<loop>[-+]?\d+)(?: at=(?P<at>[-\d,]+))? of=(?P<of>\S+) \*/"
)
DEPENDS = re.compile(r"/\* (wrong|right) \*/")


@dataclass(frozen=True)
class Fault:
    """What a program's comment promises of one line; `loop` is 0 where the access is in no loop."""

    kind: str
    line: int
    loop: int
    iteration: tuple[int, ...] | None
    element: str


def variant(text: str, right: bool) -> str:
    """The faulty program or its twin; a line that is not part of it is left empty."""
    leave_out = "wrong" if right else "right"
    return "".join("\n" if leave_out in DEPENDS.findall(line) else line for line in text.splitlines(keepends=True))


def faults(name: str, folder: Path = PROGRAMS) -> list[Fault]:
    """The faults that a program's comments promise, in the order of its lines."""
    found = []
    for number, line in enumerate((folder / f"{name}.cdv").read_text().splitlines(), 1):
        for matched in FOUND.finditer(line):
            kind = matched["kind"] or name.replace("_", "-")
            distance = int(matched["loop"])
            loop = number + distance if distance or "#pragma" in line else 0
            at = tuple(int(part) for part in matched["at"].split(",")) if matched["at"] else None
            found.append(Fault(kind, number, loop, at, matched["of"]))
    return found


def fault(finding: Finding) -> Fault:
    """A finding in the terms of the comments."""
    held = finding.facts()
    loop = held.get("loop", {})
    iteration = held.get("iteration")
    index = "".join(f"[{i}]" for i in held.get("index") or ())
    if finding.kind == "out-of-bounds" and "value" in held:
        index = f"[{held['value']}]"
    return Fault(
        finding.kind,
        finding.sites[0].line,
        loop.get("line", 0) if loop.get("kind") == "parallel" else 0,
        tuple(iteration) if iteration is not None else None,
        f"{held['variable'] or named(finding) or 'memory'}{index}",
    )


def named(finding: Finding) -> str:
    """The array that a finding's message names."""
    found = re.search(r"`(\w+)", finding.message)
    return found[1] if found else ""


def shown(found: list[Fault] | tuple[Fault, ...]) -> str:
    """Faults for a failed test's message."""
    return "\n".join(map(str, found))
