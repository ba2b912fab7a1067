"""Units of a Fortran program, with their symbols and loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from weft.dvm import syntax
from weft.dvm.fortran_lines import FortranSource, FortranStatement, Item, Sentinel
from weft.dvm.fortran_text import DO, END_DO, NAME
from weft.dvm.syntax import Position

UnitKind = Literal["program", "subroutine", "function", "module", "block data"]


@dataclass(slots=True)
class FortranSymbol:
    """What a unit knows of a name."""

    name: str
    place: Position
    sizes: tuple[str, ...] | None = None
    dummy: bool = False
    common: bool = False
    saved: bool = False
    initialised: bool = False
    constant: bool = False
    allocatable: bool = False
    pointer: bool = False
    shared: bool = False
    """In an EQUIVALENCE."""
    typed: bool = False
    derived: bool = False
    """Of a derived type: its parts may have values of their own."""
    type: str = ""
    """The derived type's name, unless it is polymorphic."""
    optional: bool = False
    """A dummy argument that a call may leave out."""
    procedure: bool = False
    module: bool = False

    @property
    def array(self) -> bool:
        """Return whether the symbol has dimensions."""
        return self.sizes is not None

    @property
    def rank(self) -> int:
        """Return the number of its dimensions."""
        return len(self.sizes or ())

    @property
    def static(self) -> bool:
        """Return whether the symbol keeps its memory from one entry of its unit to the next."""
        return self.common or self.saved or self.module or self.initialised


@dataclass(slots=True)
class DoLoop:
    """A DO construct: items from its DO statement to its last one (indices in the unit's items, both included)."""

    first: int
    last: int
    variable: str
    labelled: bool


@dataclass(slots=True)
class ProgramUnit:
    """A program unit with its own symbols; `items` are those of its source that belong to it."""

    kind: UnitKind
    name: str
    source: FortranSource
    parent: ProgramUnit | None = None
    header: FortranStatement | None = None
    items: list[Item] = field(default_factory=list)
    symbols: dict[str, FortranSymbol] = field(default_factory=dict)
    uses: list[str] = field(default_factory=list)
    only: dict[str, set[str]] = field(default_factory=dict)
    """By module: the names that its ONLY lists, as they are called here."""
    renamed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the name here: (module, name there)."""
    executable: int | None = None
    """Index in items of the first executable statement or directive."""
    result: str = ""
    plain: dict[str, bool] = field(default_factory=dict)
    """By derived type that it defines: whether that has no procedures of its own."""

    def is_private(self, name: str) -> bool:
        """Return whether PRIVATE and PUBLIC statements make a name of a module private."""
        private = public = False
        for statement in self.statements(0, len(self.items)):
            code = statement.code
            listed = re.match(r"(private|public)(?:::)?([a-z]\w*(?:,[a-z]\w*)*)?$", code)
            if listed:
                names = (listed[2] or "").split(",")
                if listed[2] is None and listed[1] == "private":
                    private = True
                elif name in names:
                    return listed[1] == "private"
            elif "::" in code and name in NAME.findall(code.partition("::")[2]):
                public |= ",public" in code.partition("::")[0]
                private |= ",private" in code.partition("::")[0]
        return private and not public

    @property
    def hosts(self) -> Iterator[ProgramUnit]:
        """Yield the units that contain this one, the nearest first."""
        unit = self.parent
        while unit is not None:
            yield unit
            unit = unit.parent

    def within(self, unit: ProgramUnit) -> bool:
        """Return whether this unit is contained in another one."""
        return any(host is unit for host in self.hosts)

    @property
    def pure(self) -> bool:
        """Return whether the unit is PURE or ELEMENTAL, so that calls with effects may not be inserted."""
        header = self.header.code if self.header is not None else ""
        return re.match(r".*?(pure|elemental)\w*(sub|func)", header) is not None

    def declaring_directives(self) -> Iterator[syntax.Declare]:
        """Yield the directives of the unit that declare arrays, templates or task arrays."""
        for item in self.items:
            if isinstance(item, Sentinel) and isinstance(item.directive, syntax.Declare):
                yield item.directive

    @property
    def directed(self) -> bool:
        """Return whether the unit contains a directive that matters for the data."""
        return any(isinstance(item, Sentinel) and not isinstance(item.directive, syntax.Note) for item in self.items)

    def statements(self, first_item: int, last_item: int) -> Iterator[FortranStatement]:
        """Yield the statements among the items `first_item` to `last_item` (indices, both included); directives are
        left out.
        """
        for item in self.items[first_item : last_item + 1]:
            if isinstance(item, FortranStatement):
                yield item

    def find_loops(self) -> dict[int, DoLoop]:
        """Return the unit's DO constructs: item index of the DO statement -> its loop."""
        found: dict[int, DoLoop] = {}
        stack: list[tuple[int, str, str]] = []
        for at, item in enumerate(self.items):
            if not isinstance(item, FortranStatement):
                continue
            if begin := DO.match(item.code):
                stack.append((at, begin[1] or "", begin[2] or begin[4] or ""))
                continue
            if item.label and any(label == item.label for _, label, _ in stack):
                while any(label == item.label for _, label, _ in stack):
                    start, label, variable = stack.pop()
                    found[start] = DoLoop(start, at, variable, bool(label))
            elif END_DO.match(item.code) and stack:
                start, label, variable = stack.pop()
                found[start] = DoLoop(start, at, variable, bool(label))
        return found
