"""The texts of a checked program: names and lines of what the runtime knows by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, Self

SCHEMA: Final = "weft-check/1"

CPLUSPLUS: Final = (".cpp", ".cc", ".cxx", ".C")
"""Suffixes of sources in C++."""

Language = Literal["c", "c++", "fortran", "python"]


@dataclass(frozen=True, slots=True)
class Construct:
    """A directive or loop: `kind` is a word of its language (`parallel`, `region`, `prange`), `text` the directive."""

    kind: str
    file: str
    line: int
    column: int = 0
    text: str = ""
    indices: tuple[str, ...] = ()
    """Names of the loop's variables, outermost first."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, array or template as it was declared."""

    name: str
    file: str
    line: int
    what: Literal["variable", "array", "template", "tasks"] = "variable"


@dataclass(frozen=True, slots=True)
class AccessPlace:
    """A place of an access, where the program counter does not tell it."""

    file: str
    line: int
    column: int = 0
    function: str = ""
    text: str = ""


@dataclass(slots=True)
class Texts:
    """Constructs, variables and places by their ids, which begin at 1 and are unique in a program."""

    language: Language = "c"
    constructs: dict[int, Construct] = field(default_factory=dict)
    variables: dict[int, Variable] = field(default_factory=dict)
    places: dict[int, AccessPlace] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    """What the front end knows not to be looked at, a phrase each."""
    main: str = ""
    """What a program in Fortran calls its main program."""

    def construct(  # noqa: PLR0917 - the directive's place, in its usual order
        self, kind: str, file: str, line: int, column: int = 0, text: str = "", indices: Sequence[str] = ()
    ) -> int:
        """The id of a new construct."""
        self.constructs[id := len(self.constructs) + 1] = Construct(kind, file, line, column, text, tuple(indices))
        return id

    def variable(
        self,
        name: str,
        file: str,
        line: int,
        what: Literal["variable", "array", "template", "tasks"] = "variable",
    ) -> int:
        """The id of a new variable."""
        self.variables[id := len(self.variables) + 1] = Variable(name, file, line, what)
        return id

    def typed(self, number: int, numbers: str) -> None:
        """What numbers a variable holds (`float64`): only who traces values wants to know."""

    def add_place(self, file: str, line: int, column: int = 0, function: str = "", text: str = "") -> int:
        """A new place; its id."""
        self.places[id := len(self.places) + 1] = AccessPlace(file, line, column, function, text)
        return id

    @property
    def files(self) -> set[str]:
        """The files that are named here, as they are written."""
        named = {one.file for one in self.places.values()} | {one.file for one in self.constructs.values()}
        return (named | {one.file for one in self.variables.values()}) - {""}

    def write(self, path: Path) -> None:
        """Write the side file."""
        # It is written anew after each compilation of a program in Python: dataclasses.asdict takes five times as long.
        held = {"schema": SCHEMA, **{one.name: getattr(self, one.name) for one in fields(self)}}
        path.write_text(json.dumps(held, default=_fields), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a side file."""
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if held.get("schema") != SCHEMA:
            raise ValueError(f"{path} is not a side file of {SCHEMA}")
        return cls(
            language=held["language"],
            constructs={
                int(id): Construct(**{**one, "indices": tuple(one["indices"])})
                for id, one in held["constructs"].items()
            },
            variables={int(id): Variable(**one) for id, one in held["variables"].items()},
            places={int(id): AccessPlace(**one) for id, one in held["places"].items()},
            left=list(held.get("left", ())),
            main=held.get("main", ""),
        )


def _fields(one: Construct | Variable | AccessPlace) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__slots__}


@dataclass(frozen=True, slots=True)
class Marked:
    """A source file with the runtime's calls in it; lines are kept by #line directives (C) or by their place."""

    original: Path
    text: str
    suffix: str
    """What the compiler must see: `.c`, `.cpp`, `.f`, `.f90` (fixed and free form)."""


def loop_line(construct: Construct) -> str:
    """What the runtime is told of a loop."""
    where = f"{Path(construct.file).name}:{construct.line}"
    indices = [f"{name} ({where})" for name in construct.indices]
    return "\t".join([str(construct.line), construct.file, f"loop {where}", *indices])
