"""One finding as the runtime wrote it, with the texts of the program that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.dataparallel.texts import AccessPlace, Construct, Variable
from weft.sources import current_files

NOBODY: Final = Construct("", "", 0)
NOWHERE: Final = AccessPlace("", 0)


@dataclass(slots=True)
class Record:
    """What the runtime tells of one finding; None and 0: it does not say."""

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
    construct: Construct = NOBODY
    variable: Variable | None = None
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
        """The element or variable as the program writes it: `a[3][4]`, `a(3, 4)`, `s`."""
        if self.variable is None:
            return self.symbol or operand(self.place, self.write)
        return element(self.variable.name, self.index, self.order)


def element(name: str, index: Sequence[int] | None, order: str) -> str:
    """`a[3][4]`; `a(3, 4)` in Fortran, `a[3, 4]` in Python."""
    if not index:
        return f"`{name}`"
    if order == "c":
        return f"`{name}{''.join(f'[{i}]' for i in index)}`"
    listed = ", ".join(map(str, index))
    return f"`{name}({listed})`" if order == "fortran" else f"`{name}[{listed}]`"


def operand(place: AccessPlace, write: bool) -> str:
    """What a line accesses where no name is known for the address: `*p` of `*p = 3`, as far as the line shows it."""
    text = current_files.line(place.file, place.line)
    found = re.match(
        r"[\s{}]*(?:[\w]+[ \t*]+(?=\w+\s*=))?([^=;]*?[^=;!<>+\-*/%&|^\s])\s*[+\-*/%&|^]?=(?!=)([^;]*);", text
    )
    part = found[1 if write else 2].strip() if found else ""
    if part and len(part) < 40 and re.fullmatch(r"[*&(]*\w[\w.>\[\]()\-]*", part):
        return f"`{part}`"
    return "data without a name"
