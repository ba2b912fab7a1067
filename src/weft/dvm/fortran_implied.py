"""Scalars of Fortran units that no declaration names: those that the implicit typing rules make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.dvm.fortran_calls import printed
from weft.dvm.fortran_lines import Statement
from weft.dvm.fortran_model import Symbol, Unit
from weft.dvm.fortran_text import DO, NAME, assignment, inner
from weft.dvm.fortran_units import Program

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


def imply(program: Program) -> None:
    """Give each unit symbols for its scalars that no declaration names."""
    procedures = {unit.name for unit in program.units}
    for unit in program.units:
        if not typed_by_name(unit) or strange(program, unit):
            continue
        of_hosts = {name for host in unit.hosts for one in body(host) for name in NAME.findall(one.code)}
        others = procedures | specified(unit) | of_hosts | (PASSED - set(assigned(unit)))
        for statement in body(unit):
            for name in within(statement.code):
                if name not in others and program.owner(unit, name) is None:
                    unit.symbols[name] = Symbol(name, statement.place, typed=True)


def typed_by_name(unit: Unit) -> bool:
    """Whether names that nothing declares are variables here, of numbers or texts."""
    if unit.kind not in ("program", "subroutine", "function"):
        return False
    for one in (unit, *unit.hosts):
        rules = [item.code for item in one.statements(0, len(one.items)) if item.code.startswith("implicit")]
        if rules:
            return not any(code.startswith(("implicitnone", "implicittype(", "implicitclass(")) for code in rules)
    return True


def strange(program: Program, unit: Unit) -> bool:
    """Whether a name may be one that is not known here: of another module, or of a construct."""
    known = (*INTRINSIC_MODULES, *program.modules)
    waiting, seen = [name for one in (unit, *unit.hosts) for name in one.uses], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in known:
            return True
        if name in program.modules and name not in seen:
            seen.add(name)
            waiting.extend(program.modules[name].uses)
    return any(TAKEN.match(one.code) for one in body(unit))


def body(unit: Unit) -> Iterator[Statement]:
    """The executable statements."""
    if unit.executable is not None:
        yield from unit.statements(unit.executable, len(unit.items))


def specified(unit: Unit) -> frozenset[str]:
    """The names in statements that may give them a meaning or a value."""
    found: set[str] = set()
    for at, one in enumerate(unit.items):
        if not isinstance(one, Statement) or one.code.startswith("implicit"):
            continue
        if at < (unit.executable or 0) or one.code.startswith(("data", "entry")):
            found.update(NAME.findall(re.sub("^(?:data|entry)", "", one.code)))
    return frozenset(found)


def assigned(unit: Unit) -> Iterator[str]:
    """The names that statements set, the whole of them."""
    for statement in body(unit):
        found = assignment(inner(statement.code)[1])
        if found and not found[1]:
            yield found[0]


def within(code: str) -> Iterator[str]:
    """The plain names of what a statement reads, sets, hands on or puts out."""
    condition, action = inner(code)
    if condition:
        yield from plain(condition)
        yield from within(action)
    elif matched := CONDITION.match(code):
        yield from plain(matched[1])
    elif begin := DO.match(code):
        yield from (name for name in (begin[2], begin[4]) if name)
        yield from plain(code.partition("=")[2])
    elif found := assignment(code):
        if not found[1]:
            yield found[0]
        yield from plain(found[1])
        yield from plain(code[found[2] + 1 :])
    elif code.startswith("call"):
        yield from plain(code[code.find("(") :] if "(" in code else "")
    elif code.startswith(("read(", "write(")):
        yield from plain(code[code.find("(") :])
    elif re.match(r"(?:read|print)(?:\*|\d+),", code):
        yield from plain(code.partition(",")[2])
    else:
        for part in printed(code):
            yield from plain(part)


def plain(text: str) -> list[str]:
    """The names in an expression that stand alone."""
    return PLAIN.findall(OPERATOR.sub(" ", STRING.sub("''", text)))
