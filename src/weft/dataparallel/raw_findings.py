"""Findings as the runtime of `weft check` wrote them, with names and places of the program that they are about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.dataparallel.source_map import AccessPlace, DeclaredVariable, SourceConstruct
from weft.sources import current_files

NOBODY: Final = SourceConstruct("", "", 0)
NOWHERE: Final = AccessPlace("", 0)


@dataclass(slots=True)
class RawFinding:
    """One finding as the runtime wrote it; a field that is None or 0 was not given."""

    id: int
    kind: str
    why: str
    """The case of its kind."""
    construct_id: int
    count: int = 1
    site: int = 0
    """The number of its place, where no program counter tells it."""
    pc: int = 0
    place: AccessPlace = NOWHERE
    construct: SourceConstruct = NOBODY
    variable: DeclaredVariable | None = None
    others: Sequence[tuple[AccessPlace, bool]] = ()
    """Places in the same construct that may have made the other access; whether they write."""
    data: int = 0
    name: int = 0
    """The number of the name that an array was made with, where `data` is the newest one."""
    array: int = 0
    symbol: str = ""
    write: bool = False
    address: int = 0
    bytes: int | None = None
    offset: int | None = None
    index: list[int] | None = None
    iteration: list[int] | None = None
    other: list[int] | None = None
    """The other iteration."""
    task: int | None = None
    delta: list[int] | None = None
    order: str = "c"
    operation: int = 0
    expected: str | None = None
    got: str | None = None
    number: int | str = ""
    dimension: int = 0
    value: int | None = None
    low: int = 0
    high: int = 0
    type: str = ""

    @property
    def element(self) -> str:
        """Return the accessed element as the program writes it: `a[3][4]`, `a(3, 4)` or `s`. If the variable's name is
        unknown, the text is guessed from the source line.
        """
        if self.variable is None:
            return self.symbol or guess_operand(self.place, self.write)
        return format_element(self.variable.name, self.index, self.order)


def format_element(name: str, index: Sequence[int] | None, notation: str) -> str:
    """Return an element in its language's notation: `a[3][4]` in C, `a(3, 4)` in Fortran, `a[3, 4]` in Python."""
    if not index:
        return f"`{name}`"
    if notation == "c":
        return f"`{name}{''.join(f'[{i}]' for i in index)}`"
    listed = ", ".join(map(str, index))
    return f"`{name}({listed})`" if notation == "fortran" else f"`{name}[{listed}]`"


def guess_operand(place: AccessPlace, write: bool) -> str:
    """Guess from the source line what an access reads or writes whose variable is unknown: `*p` for the line `*p =
    3;`. `write`: whether it writes."""
    text = current_files.line(place.file, place.line)
    found = re.match(
        r"[\s{}]*(?:[\w]+[ \t*]+(?=\w+\s*=))?([^=;]*?[^=;!<>+\-*/%&|^\s])\s*[+\-*/%&|^]?=(?!=)([^;]*);", text
    )
    part = found[1 if write else 2].strip() if found else ""
    if part and len(part) < 40 and re.fullmatch(r"[*&(]*\w[\w.>\[\]()\-]*", part):
        return f"`{part}`"
    return "data without a name"
