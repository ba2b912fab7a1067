"""What the specifications of a Fortran unit say of its names."""

from __future__ import annotations

import re
from typing import Final

from weft.dvm import syntax
from weft.dvm.fortran_lines import FortranStatement, Sentinel
from weft.dvm.fortran_model import FortranSymbol, ProgramUnit
from weft.dvm.fortran_text import DO, NAME, is_assignment, split_assignment, split_top, top_level_indices
from weft.dvm.syntax import Position

TYPED: Final = re.compile(
    r"(integer|real|complex|logical|character|doubleprecision|doublecomplex|byte|type(?=\()|class(?=\())"
)
SPECIFIES: Final = re.compile(
    r"(?:use[a-z,:]|import|implicit|parameter\(|dimension|common|save|data(?=[a-z(])|external|intrinsic|equivalence\(|"
    r"allocatable|pointer|target|namelist/|intent\(|optional|public|private|protected|volatile|enum,|enumerator|"
    r"endenum|procedure\(|procedure::|contiguous|value::|asynchronous|codimension|bind\(|sequence$|format\(|entry|"
    r"include['\"]|type(?:::|,|[a-z])|interface|abstractinterface|contains$|moduleprocedure|generic)"
)


def is_specification(unit: ProgramUnit, statement: FortranStatement) -> bool:
    """Return whether a statement can belong to a unit's specification part, which precedes executable statements."""
    code = statement.code
    found = split_assignment(code)
    if found:
        name, rest, _ = found
        symbol = unit.symbols.get(name)
        known_array = symbol is not None and (symbol.array or symbol.pointer or symbol.allocatable)
        parameters = re.fullmatch(r"\(((?:[a-z]\w*(?:,[a-z]\w*)*)?)\)", rest)
        character = symbol is not None and symbol.typed and ":" in rest
        return bool(parameters) and not known_array and not character and not _is_visible_array(unit, name)
    if SPECIFIES.match(code):
        return True
    return bool(TYPED.match(code)) and not DO.match(code)


def _is_visible_array(unit: ProgramUnit, name: str) -> bool:
    """Return whether a name may be an array of a module or of the host."""
    return bool(unit.uses) or (unit.parent is not None and name in unit.parent.symbols)


def read_symbols(unit: ProgramUnit) -> None:
    """Fill a unit's symbols from its specification statements. Also sets the index of its first executable item."""
    for at, item in enumerate(unit.items):
        if isinstance(item, Sentinel):
            if unit.executable is None and not isinstance(item.directive, syntax.Declare | syntax.Note):
                unit.executable = at
            continue
        if unit.executable is None and not is_specification(unit, item):
            unit.executable = at
        if unit.executable is None or item.code.startswith("data"):
            _read_specification(unit, item)
    if unit.kind in ("module", "block data"):
        unit.executable = None
    if unit.kind == "module":
        for symbol in unit.symbols.values():
            symbol.module = True


def _find_or_add_symbol(unit: ProgramUnit, name: str, place: Position) -> FortranSymbol:
    return unit.symbols.setdefault(name, FortranSymbol(name, place))


ENTITY: Final = re.compile(r"([a-z]\w*)")


def _read_entity(unit: ProgramUnit, entity: str, position: Position) -> tuple[FortranSymbol, str] | None:
    """Return two things of a declared entity `name(sizes)*length=value`: its symbol (added to the unit if new), and the
    text after the sizes. None if the text begins with no name.
    """
    matched = ENTITY.match(entity)
    if not matched:
        return None
    symbol = _find_or_add_symbol(unit, matched[1], position)
    rest = entity[matched.end() :]
    length = re.match(r"\*(?:\d+|\(\*\))", rest)
    if length:
        rest = rest[length.end() :]
    if rest.startswith("("):
        depth = 0
        for at, sign in enumerate(rest):
            depth += (sign == "(") - (sign == ")")
            if depth == 0:
                symbol.sizes = tuple(split_top(rest[1:at]))
                return symbol, rest[at + 1 :]
    return symbol, rest


def _read_specification(unit: ProgramUnit, statement: FortranStatement) -> None:
    """Enter the types, attributes, constants and imported names of one specification statement into the unit."""
    code, place = statement.code, statement.place
    if code.startswith("use") and (matched := re.match(r"use(?:,[a-z]+::|::)?([a-z]\w*)", code)):
        unit.uses.append(matched[1])
        _read_use(unit, matched[1], code[matched.end() :].lstrip(","))
    elif TYPED.match(code) and not is_assignment(code):
        _read_type_declaration(unit, code, place)
    elif code.startswith("parameter("):
        for part in split_top(code[10:-1]):
            symbol = _find_or_add_symbol(unit, part.partition("=")[0], place)
            symbol.constant = True
    elif code.startswith("common"):
        for block in re.sub(r"/\w*/", ",", code[6:]).split(",,"):
            for part in split_top(block):
                if part and (found := _read_entity(unit, part, place)):
                    found[0].common = True
    elif matched := re.match(r"(dimension|allocatable|pointer|target|save|external|intrinsic|optional)(?:::)?", code):
        _read_attributes(unit, matched[1], code[matched.end() :], place)
    elif code.startswith("equivalence("):
        for name in NAME.findall(code[11:]):
            _find_or_add_symbol(unit, name, place).shared = True
    elif code.startswith("data"):
        for name in NAME.findall("".join(code[4:].split("/")[::2])):
            if name in unit.symbols or "(" not in code:
                _find_or_add_symbol(unit, name, place).initialised = True


def _read_use(unit: ProgramUnit, module: str, imports: str) -> None:
    """Enter the names that a USE statement renames, and the names of its ONLY list, into the unit. `imports`: the text
    after the module's name, such as `a => b, c` or `only: a => b, c`.
    """
    only = imports.startswith("only:")
    names = unit.only.setdefault(module, set()) if only else None
    for part in split_top(imports.removeprefix("only:")):
        here, renames, there = part.partition("=>")
        if renames:
            unit.renamed[here] = (module, there)
        if names is not None and here:
            names.add(here)


def _read_attributes(unit: ProgramUnit, keyword: str, names: str, position: Position) -> None:
    """Enter the attribute that a statement such as SAVE or DIMENSION gives to names into the unit."""
    if keyword == "save" and not names:
        unit.symbols.setdefault("*save", FortranSymbol("*save", position))
    for part in split_top(names):
        if part.startswith("/"):
            continue
        found = _read_entity(unit, part, position)
        if not found:
            continue
        symbol = found[0]
        if keyword == "save":
            symbol.saved = True
        elif keyword == "allocatable":
            symbol.allocatable = True
        elif keyword == "pointer":
            symbol.pointer = True
        elif keyword == "optional":
            symbol.optional = True
        elif keyword in ("external", "intrinsic"):
            symbol.procedure = True


def _read_type_declaration(unit: ProgramUnit, code: str, position: Position) -> None:
    """Enter the names of a type declaration, such as `real, save :: a(10)`, into the unit's symbols."""
    matched = TYPED.match(code)
    assert matched
    rest = code[matched.end() :]
    if length := re.match(r"\*(?:\d+|\(\*\))", rest):
        rest = rest[length.end() :]
    elif rest.startswith("("):
        depth = 0
        for at, sign in enumerate(rest):
            depth += (sign == "(") - (sign == ")")
            if depth == 0:
                rest = rest[at + 1 :]
                break
    attributes: list[str] = []
    colons = next((at for at in top_level_indices(rest, ":") if rest[at : at + 2] == "::"), None)
    if colons is not None:
        attributes = split_top(rest[:colons])
        rest = rest[colons + 2 :]
    sizes = next((tuple(split_top(a[10:-1])) for a in attributes if a.startswith("dimension(")), None)
    for part in split_top(rest.lstrip(",")):
        found = _read_entity(unit, part, position)
        if not found:
            continue
        symbol, behind = found
        symbol.typed = True
        symbol.place = position
        symbol.derived = matched[1] in ("type", "class")
        if named := re.match(r"type\(([a-z]\w*)\)", code):
            symbol.type = named[1]
        if symbol.sizes is None and sizes is not None:
            symbol.sizes = sizes
        symbol.allocatable |= "allocatable" in attributes
        symbol.pointer |= "pointer" in attributes
        symbol.optional |= "optional" in attributes
        symbol.saved |= "save" in attributes
        symbol.constant |= "parameter" in attributes
        symbol.procedure |= "external" in attributes or "intrinsic" in attributes
        if behind.startswith(("=", "/")) and not symbol.constant:
            symbol.initialised = True
