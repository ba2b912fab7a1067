"""One finding as the runtime wrote it, with the texts of the program that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.dataparallel.texts import AccessPlace, Construct, Variable
from weft.sources import today


@dataclass(slots=True)
class Record:
    """What the runtime wrote of one finding, with its texts."""

    held: dict[str, Any]
    count: int
    place: AccessPlace
    construct: Construct
    variable: Variable | None
    others: tuple[tuple[AccessPlace, bool], ...] = ()
    """Places in the same construct that may have made the other access; whether they write."""

    @property
    def kind(self) -> str:
        """Kind of the finding."""
        return str(self.held["kind"])

    @property
    def why(self) -> str:
        """The case of its kind."""
        return str(self.held["why"])

    @property
    def element(self) -> str:
        """The element or variable as the program writes it: `a[3][4]`, `a(3, 4)`, `s`."""
        if self.variable is None:
            return str(self.held.get("symbol") or operand(self.place, bool(self.held.get("write"))))
        index = self.held.get("index")
        return element(self.variable.name, index, str(self.held.get("order", "c")))


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
    text = today.line(place.file, place.line)
    found = re.match(
        r"[\s{}]*(?:[\w]+[ \t*]+(?=\w+\s*=))?([^=;]*?[^=;!<>+\-*/%&|^\s])\s*[+\-*/%&|^]?=(?!=)([^;]*);", text
    )
    part = found[1 if write else 2].strip() if found else ""
    if part and len(part) < 40 and re.fullmatch(r"[*&(]*\w[\w.>\[\]()\-]*", part):
        return f"`{part}`"
    return "data without a name"
