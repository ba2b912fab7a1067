"""The program units of Fortran sources: what each declares, where its statements begin, how its loops nest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from weft.dvm.directives.fortran import read_fortran_directive
from weft.dvm.fortran_lines import FortranSource, FortranStatement, Sentinel
from weft.dvm.fortran_model import FortranSymbol, ProgramUnit, UnitKind
from weft.dvm.fortran_symbols import read_symbols
from weft.dvm.fortran_text import END, NOT_AN_END, is_assignment

_TYPES = r"(?:integer|real|complex|logical|character|doubleprecision|doublecomplex|byte|type\(\w+\))"
_LENGTH = r"(?:\*\d+|\([^()]*(?:\([^()]*\))?[^()]*\))?"
_PREFIX = rf"(?:(?:recursive|pure|elemental|impure|module)|{_TYPES}{_LENGTH})*"
HEADERS: Final[tuple[tuple[UnitKind, re.Pattern[str]], ...]] = (
    ("program", re.compile(r"program([a-z]\w*)$")),
    ("block data", re.compile(r"blockdata(\w*)$")),
    ("function", re.compile(_PREFIX + r"function([a-z]\w*)\(([\w,]*)\)(?:result\((\w+)\)|bind\(.*\))*$")),
    ("subroutine", re.compile(_PREFIX + r"subroutine([a-z]\w*)(?:\(([\w,*]*)\))?(?:bind\(.*\))?$")),
    ("subroutine", re.compile(r"moduleprocedure([a-z]\w*)()$")),
    ("module", re.compile(r"(?:sub)?module(?!procedure)(?:\([\w:]+\))?([a-z]\w*)$")),
)
SUBMODULE: Final = re.compile(r"submodule\((?:\w+:)?(\w+)\)")
"""A part of a module, with the module or the part that is above it."""
TYPE: Final = re.compile(r"type(?:(,.*)?::|(?!is))([a-z]\w*)$")


def find_program_units(source: FortranSource) -> list[ProgramUnit]:
    """Return the program units of a Fortran source, in the order of the source. Their symbols and directives have been
    read.
    """
    found: list[ProgramUnit] = []
    open_units: list[ProgramUnit] = []
    skipping = defined = ""
    for item in source.items:
        if isinstance(item, Sentinel):
            item.directive = read_fortran_directive(item.pieces)
            if not open_units:
                open_units.append(_begin_unit(ProgramUnit("program", "", source), found))
            open_units[-1].items.append(item)
            continue
        code = item.code
        if skipping:
            if defined and code == "contains":
                open_units[-1].plain[defined] = False
            if re.match(skipping, code):
                skipping = ""
            continue
        if re.match(r"(?:abstract)?interface(?:\w*|operator\(.*\)|assignment\(=\))$", code) and not is_assignment(code):
            skipping, defined = r"endinterface", ""
            continue
        if (type_ := TYPE.match(code)) and not is_assignment(code):
            skipping, defined = r"endtype", type_[2]
            if not open_units:
                open_units.append(_begin_unit(ProgramUnit("program", "", source), found))
            open_units[-1].plain[defined] = "extends(" not in (type_[1] or "")
            continue
        header = _match_header(code)
        if header:
            kind, matched = header
            parent = open_units[-1] if open_units else None
            unit = _begin_unit(ProgramUnit(kind, matched[1], source, parent, item), found)
            _add_procedure_symbols(unit, matched, item)
            if above := SUBMODULE.match(code):
                unit.uses.append(above[1])
            open_units.append(unit)
            continue
        if code == "contains":
            continue
        if not open_units:
            open_units.append(_begin_unit(ProgramUnit("program", "", source), found))
        unit = open_units[-1]
        unit.items.append(item)
        if END.match(code) and not NOT_AN_END.match(code) and not is_assignment(code):
            open_units.pop()
    for unit in found:
        read_symbols(unit)
    return found


def _begin_unit(unit: ProgramUnit, found: list[ProgramUnit]) -> ProgramUnit:
    found.append(unit)
    return unit


def _match_header(code: str) -> tuple[UnitKind, re.Match[str]] | None:
    """Return the kind of program unit that a statement begins, and the match of the statement's text. None if the
    statement begins no unit.
    """
    if code.startswith("end") or is_assignment(code):
        return None
    for kind, pattern in HEADERS:
        if matched := pattern.match(code):
            return kind, matched
    return None


def _add_procedure_symbols(unit: ProgramUnit, matched: re.Match[str], item: FortranStatement) -> None:
    """Add the dummy arguments and the result variable of a procedure to its unit's symbols."""
    if unit.kind not in ("function", "subroutine"):
        return
    for name in (matched[2] or "").split(","):
        if name and name != "*":
            unit.symbols[name] = FortranSymbol(name, item.place, dummy=True)
    if unit.kind == "function":
        unit.result = matched[3] or matched[1]
        unit.symbols[unit.result] = FortranSymbol(unit.result, item.place, procedure=True)


@dataclass(slots=True)
class FortranProgram:
    """All units of a program."""

    units: list[ProgramUnit]

    @property
    def modules(self) -> dict[str, ProgramUnit]:
        """Return the program's modules by name."""
        return {unit.name: unit for unit in self.units if unit.kind == "module"}

    def is_printable_type(self, type_name: str) -> bool:
        """Return whether a whole variable of a derived type can be passed to a check. The type must be known in full
        and have no procedures.
        """
        known = [unit.plain[type_name] for unit in self.units if type_name in unit.plain]
        return bool(known) and all(known)

    def find_name_in_unit(self, unit: ProgramUnit, module: ProgramUnit, name: str) -> str | None:
        """Return the name by which a unit knows a name of a module; None if it is not visible in the unit."""
        here = [local for local, (_, there) in unit.renamed.items() if there == name]
        for local in (name, *here):
            found = self.owner(unit, local)
            if found is not None and found[0] is module and found[1].name == name:
                return local
        return None

    def owner(self, unit: ProgramUnit, name: str) -> tuple[ProgramUnit, FortranSymbol] | None:
        """Return (the unit that declares a name visible here, the name's symbol); None if no unit declares it."""
        return self._find_owner(unit, name, frozenset())

    def _find_owner(
        self, unit: ProgramUnit, name: str, seen: frozenset[int]
    ) -> tuple[ProgramUnit, FortranSymbol] | None:
        """Return (the unit that declares a name, the name's symbol). The unit, its hosts and the modules that it uses
        are searched; None if none declares it. `seen`: ids of units already searched.
        """
        if id(unit) in seen:
            return None
        if name in unit.symbols:
            return unit, unit.symbols[name]
        seen |= {id(unit)}
        if name in unit.renamed:
            used, there = unit.renamed[name]
            module = self.modules.get(used)
            return self._find_owner(module, there, seen) if module else None
        for used in unit.uses:
            module = self.modules.get(used)
            hidden = (used in unit.only and name not in unit.only[used]) or (used, name) in unit.renamed.values()
            if module and not hidden and (found := self._find_owner(module, name, seen)):
                return found
        return self._find_owner(unit.parent, name, seen) if unit.parent else None
