"""Find scalars and arrays of a Fortran unit that may be read before they have a value; the runtime watches them."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from weft.dvm.fortran_lines import FortranStatement, Sentinel
from weft.dvm.fortran_model import FortranSymbol, ProgramUnit
from weft.dvm.fortran_text import DO, NAME, closes_block, opens_block, split_assignment

BRANCH: Final = re.compile(r"else\w*$|elseif\(.*|case(?:\(.*|default)|elsewhere.*|(?:type|class)(?:is\(.*|default)")

CALLED: Final = re.compile(r"([a-z]\w*)\(")
"""A function of the program's is typed like a scalar."""


def find_possibly_unset_variables(unit: ProgramUnit) -> list[FortranSymbol]:
    """Return the local variables that may be read before they are assigned, in the order of their declarations."""
    if unit.executable is None or not is_watchable(unit):
        return []
    blocks = find_skippable_blocks(unit)
    used: dict[str, list[int]] = {}
    for at in range(unit.executable, len(unit.items)):
        item = unit.items[at]
        if isinstance(item, FortranStatement):  # what a directive names is reported to the runtime anyway
            for name in set(NAME.findall(item.code)) | {do_variable(item)}:
                used.setdefault(name, []).append(at)
    wanted = (symbol for symbol in find_unset_locals(unit) if used.get(symbol.name))
    return [symbol for symbol in wanted if not is_surely_set_first(unit, symbol.name, used, blocks)]


def is_watchable(unit: ProgramUnit) -> bool:
    """Return whether the checks may change a unit. They insert calls before its first executable statement, and give
    attributes to its variables.
    """
    if unit.kind not in ("program", "subroutine", "function") or unit.pure:
        return False
    for item in unit.items[: unit.executable]:
        # Behind a statement function no attribute may be given.
        if isinstance(item, FortranStatement) and split_assignment(item.code):
            return False
    first = unit.items[unit.executable or 0]
    return not any(isinstance(one, FortranStatement) and one.code.startswith("entry") for one in unit.items) and not (
        isinstance(first, FortranStatement) and first.label
    )


def find_unset_locals(unit: ProgramUnit) -> list[FortranSymbol]:
    """Return the unit's own scalars and arrays that have no value when it is entered."""
    if unit.kind != "program" and "*save" in unit.symbols:
        return []
    called = {name for one in unit.statements(0, len(unit.items)) for name in CALLED.findall(one.code)}
    found = []
    for symbol in unit.symbols.values():
        given = symbol.dummy or symbol.common or symbol.initialised or symbol.constant or symbol.shared
        other = symbol.procedure or symbol.allocatable or symbol.pointer or symbol.derived or symbol.module
        kept = unit.kind != "program" and symbol.saved
        function = symbol.name in called and not symbol.array
        if (symbol.typed or symbol.array) and not (function or given or other or kept):
            found.append(symbol)
    return found


def do_variable(item: FortranStatement | Sentinel) -> str:
    """Return the variable that a DO statement sets; "" for another statement."""
    begin = DO.match(item.code) if isinstance(item, FortranStatement) else None
    return (begin[2] or begin[4] or "") if begin else ""


def find_skippable_blocks(unit: ProgramUnit) -> list[tuple[int, int]]:
    """Return the parts of a unit that may be skipped as a whole, such as bodies of loops and branches of conditions.
    Each is (index of its first item, index of its last item).
    """
    found = [(loop.first + 1, loop.last) for loop in unit.find_loops().values()]
    stack: list[int] = []
    for at, item in enumerate(unit.items):
        if not isinstance(item, FortranStatement):
            continue
        if stack and BRANCH.match(item.code) and not split_assignment(item.code):
            found.append((stack.pop(), at - 1))
            stack.append(at + 1)
        elif opens_block(item.code):
            stack.append(at + 1)
        elif closes_block(item.code) and stack:
            found.append((stack.pop(), at - 1))
    return found


def is_surely_set_first(
    unit: ProgramUnit, name: str, uses_by_name: dict[str, list[int]], blocks: list[tuple[int, int]]
) -> bool:
    """Return whether every use of a variable finds a value: an assignment comes before it, and cannot be skipped when
    the use runs. `uses_by_name`: for each name the indices of the items that use it; `blocks`: as from
    find_skippable_blocks.
    """
    left = uses_by_name[name]
    while left:
        at = left[0]
        item = unit.items[at]
        if not isinstance(item, FortranStatement) or not sets_variable(item, name):
            return False
        around = [(first, last) for first, last in blocks if first <= at <= last]
        if not around:
            return True
        _, last = min(around, key=lambda one: one[1] - one[0])
        left = left[bisect_left(left, last + 1) :]
    return True


def sets_variable(statement: FortranStatement, name: str) -> bool:
    """Return whether a statement assigns the whole of a variable and does not read it."""
    if do_variable(statement) == name:
        return len(re.findall(rf"\b{name}\b", statement.code.partition("=")[2])) == 0
    found = split_assignment(statement.code)
    if found is None or found[0] != name or found[1]:
        return False
    return name not in NAME.findall(statement.code[found[2] :])
