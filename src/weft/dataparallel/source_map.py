"""The source map of a checked program: names and lines of the constructs, variables and places that have numbers."""

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
class SourceConstruct:
    """A directive or loop: `kind` is a word of its language (`parallel`, `region`, `prange`), `text` the directive."""

    kind: str
    file: str
    line: int
    column: int = 0
    text: str = ""
    indices: tuple[str, ...] = ()
    """Names of the loop's variables, outermost first."""


@dataclass(frozen=True, slots=True)
class DeclaredVariable:
    """A variable, array or template, with the place of its declaration."""

    name: str
    file: str
    line: int
    what: Literal["variable", "array", "template", "tasks"] = "variable"


@dataclass(frozen=True, slots=True)
class AccessPlace:
    """The place of an access in the source, for accesses whose program counter does not tell it."""

    file: str
    line: int
    column: int = 0
    function: str = ""
    text: str = ""


@dataclass(slots=True)
class SourceMap:
    """Constructs, variables and places by their numbers, which begin at 1 and are unique in a program."""

    language: Language = "c"
    constructs: dict[int, SourceConstruct] = field(default_factory=dict)
    variables: dict[int, DeclaredVariable] = field(default_factory=dict)
    places: dict[int, AccessPlace] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    """What the front end knows not to be looked at, a phrase each."""
    main: str = ""
    """What a program in Fortran calls its main program."""

    def add_construct(  # noqa: PLR0917 - the directive's place, in its usual order
        self, kind: str, file: str, line: int, column: int = 0, text: str = "", indices: Sequence[str] = ()
    ) -> int:
        """Add a directive or loop with its place and index names, and return its id (from 1)."""
        self.constructs[id := len(self.constructs) + 1] = SourceConstruct(
            kind, file, line, column, text, tuple(indices)
        )
        return id

    def add_variable(
        self,
        name: str,
        file: str,
        line: int,
        kind: Literal["variable", "array", "template", "tasks"] = "variable",
    ) -> int:
        """Add a variable with the place of its declaration, and return its id (from 1)."""
        self.variables[id := len(self.variables) + 1] = DeclaredVariable(name, file, line, kind)
        return id

    def set_number_type(self, number: int, numbers: str) -> None:
        """Note the type of a variable's numbers (`float64`); only subclasses that trace values use it."""

    def add_place(self, file: str, line: int, column: int = 0, function: str = "", text: str = "") -> int:
        """Add a place and return its number."""
        self.places[id := len(self.places) + 1] = AccessPlace(file, line, column, function, text)
        return id

    @property
    def files(self) -> set[str]:
        """Return the files of all constructs, variables and places, as they are spelled."""
        named = {one.file for one in self.places.values()} | {one.file for one in self.constructs.values()}
        return (named | {one.file for one in self.variables.values()}) - {""}

    def write(self, path: Path) -> None:
        """Write the source map to a JSON file."""
        # It is written anew after each compilation of a program in Python: dataclasses.asdict takes five times as long.
        held = {"schema": SCHEMA, **{one.name: getattr(self, one.name) for one in fields(self)}}
        path.write_text(json.dumps(held, default=_to_dict), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the source map in a JSON file. Raises ValueError if it has another schema."""
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if held.get("schema") != SCHEMA:
            raise ValueError(f"{path} is not a side file of {SCHEMA}")
        return cls(
            language=held["language"],
            constructs={
                int(id): SourceConstruct(**{**one, "indices": tuple(one["indices"])})
                for id, one in held["constructs"].items()
            },
            variables={int(id): DeclaredVariable(**one) for id, one in held["variables"].items()},
            places={int(id): AccessPlace(**one) for id, one in held["places"].items()},
            unchecked=list(held.get("unchecked", ())),
            main=held.get("main", ""),
        )


def _to_dict(one: SourceConstruct | DeclaredVariable | AccessPlace) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__slots__}


@dataclass(frozen=True, slots=True)
class MarkedSource:
    """A source file with the runtime's calls in it; #line directives (C) or equal line numbers keep its lines."""

    original: Path
    text: str
    suffix: str
    """What the compiler must see: `.c`, `.cpp`, `.f`, `.f90` (fixed and free form)."""


def format_loop_line(construct: SourceConstruct) -> str:
    """Return the line by which the tracing runtime learns of a loop: its line, file and index variables, separated by
    tabs."""
    where = f"{Path(construct.file).name}:{construct.line}"
    indices = [f"{name} ({where})" for name in construct.indices]
    return "\t".join([str(construct.line), construct.file, f"loop {where}", *indices])
