"""Declare the scalars of Fortran units that only the implicit typing rules make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.dvm.fortran_calls import find_output_items
from weft.dvm.fortran_lines import FortranStatement
from weft.dvm.fortran_model import FortranSymbol, ProgramUnit
from weft.dvm.fortran_text import DO, NAME, split_assignment, split_condition
from weft.dvm.fortran_units import FortranProgram

STRING: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
OPERATOR: Final = re.compile(r"\.[a-z]+\.")
PLAIN: Final = re.compile(r"(?<![\w.%])[a-z]\w*(?![\w(%']|=(?!=))")
"""A name that is neither called nor indexed, no component, no keyword, no exponent or kind of a constant."""
TAKEN: Final = re.compile(r"(?:\w+:)?(?:associate\(|selecttype\(|block$|forall\(|do(?:\d+,?)?concurrent\()")
"""What has names of its own."""
CONDITION: Final = re.compile(r"(?:\w+:)?(?:(?:else)?if|selectcase|do(?:\d+,?)?while)(\(.*\))[\w,]*$")
INTRINSIC_MODULES: Final = ("iso_c_binding", "iso_fortran_env", "ieee_arithmetic", "ieee_exceptions", "ieee_features")
PASSED: Final = frozenset(
    """abs acos aimag aint alog alog10 amod anint asin atan atan2 cabs ccos cexp char clog conjg cos cosh csin csqrt
    dabs dacos dasin datan datan2 dcos dcosh ddim dexp dim dint dlog dlog10 dmod dnint dprod dsign dsin dsinh dsqrt dtan
    dtanh exp iabs ichar idim idnint index isign len mod nint sign sin sinh sqrt tan tanh""".split()
)
"""Functions of the language that may be handed on: such a name is a variable where it is set."""


def declare_implied_symbols(program: FortranProgram) -> None:
    """Add the scalars that only Fortran's implicit typing declares to the symbols of each program unit."""
    procedures = {unit.name for unit in program.units}
    for unit in program.units:
        if not has_implicit_typing(unit) or has_unknown_names(program, unit):
            continue
        of_hosts = {
            name for host in unit.hosts for one in executable_statements(host) for name in NAME.findall(one.code)
        }
        others = procedures | find_specified_names(unit) | of_hosts | (PASSED - set(find_assigned_names(unit)))
        for statement in executable_statements(unit):
            for name in find_plain_names(statement.code):
                if name not in others and program.owner(unit, name) is None:
                    unit.symbols[name] = FortranSymbol(name, statement.place, typed=True)


def has_implicit_typing(unit: ProgramUnit) -> bool:
    """Return whether a name that a unit does not declare is a variable of Fortran's default type. False if an IMPLICIT
    statement changes that.
    """
    if unit.kind not in ("program", "subroutine", "function"):
        return False
    for one in (unit, *unit.hosts):
        rules = [item.code for item in one.statements(0, len(one.items)) if item.code.startswith("implicit")]
        if rules:
            return not any(code.startswith(("implicitnone", "implicittype(", "implicitclass(")) for code in rules)
    return True


def has_unknown_names(program: FortranProgram, unit: ProgramUnit) -> bool:
    """Return whether a unit may get names from a module without source, or from a construct such as ASSOCIATE."""
    known = (*INTRINSIC_MODULES, *program.modules)
    waiting, seen = [name for one in (unit, *unit.hosts) for name in one.uses], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in known:
            return True
        if name in program.modules and name not in seen:
            seen.add(name)
            waiting.extend(program.modules[name].uses)
    return any(TAKEN.match(one.code) for one in executable_statements(unit))


def executable_statements(unit: ProgramUnit) -> Iterator[FortranStatement]:
    """Yield the executable statements of a unit."""
    if unit.executable is not None:
        yield from unit.statements(unit.executable, len(unit.items))


def find_specified_names(unit: ProgramUnit) -> frozenset[str]:
    """Return the names in a unit's specification, DATA and ENTRY statements. These statements may give a name its type
    or its value.
    """
    found: set[str] = set()
    for at, one in enumerate(unit.items):
        if not isinstance(one, FortranStatement) or one.code.startswith("implicit"):
            continue
        if at < (unit.executable or 0) or one.code.startswith(("data", "entry")):
            found.update(NAME.findall(re.sub("^(?:data|entry)", "", one.code)))
    return frozenset(found)


def find_assigned_names(unit: ProgramUnit) -> Iterator[str]:
    """Yield the names of whole variables that assignment statements of a unit assign."""
    for statement in executable_statements(unit):
        found = split_assignment(split_condition(statement.code)[1])
        if found and not found[1]:
            yield found[0]


def find_plain_names(code: str) -> Iterator[str]:
    """Yield the names without subscripts that a statement reads, assigns, passes to a procedure or writes to a file."""
    condition, action = split_condition(code)
    if condition:
        yield from plain_names(condition)
        yield from find_plain_names(action)
    elif matched := CONDITION.match(code):
        yield from plain_names(matched[1])
    elif begin := DO.match(code):
        yield from (name for name in (begin[2], begin[4]) if name)
        yield from plain_names(code.partition("=")[2])
    elif found := split_assignment(code):
        if not found[1]:
            yield found[0]
        yield from plain_names(found[1])
        yield from plain_names(code[found[2] + 1 :])
    elif code.startswith("call"):
        yield from plain_names(code[code.find("(") :] if "(" in code else "")
    elif code.startswith(("read(", "write(")):
        yield from plain_names(code[code.find("(") :])
    elif re.match(r"(?:read|print)(?:\*|\d+),", code):
        yield from plain_names(code.partition(",")[2])
    else:
        for part in find_output_items(code):
            yield from plain_names(part)


def plain_names(text: str) -> list[str]:
    """Return the names in an expression that are neither called nor indexed."""
    return PLAIN.findall(OPERATOR.sub(" ", STRING.sub("''", text)))
