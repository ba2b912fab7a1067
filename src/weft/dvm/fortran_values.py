"""Scalars and arrays of a Fortran unit that may be read before they have a value: those the runtime watches."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from weft.dvm.fortran_lines import Sentinel, Statement
from weft.dvm.fortran_model import Symbol, Unit
from weft.dvm.fortran_text import DO, NAME, assignment, closes, opens

BRANCH: Final = re.compile(r"else\w*$|elseif\(.*|case(?:\(.*|default)|elsewhere.*|(?:type|class)(?:is\(.*|default)")

CALLED: Final = re.compile(r"([a-z]\w*)\(")
"""A function of the program's is typed like a scalar."""


def loose(unit: Unit) -> list[Symbol]:
    """The variables that are not surely assigned before any other use, in the order of their declarations."""
    if unit.executable is None or not watchable(unit):
        return []
    blocks = segments(unit)
    used: dict[str, list[int]] = {}
    for at in range(unit.executable, len(unit.items)):
        item = unit.items[at]
        if isinstance(item, Statement):  # what a directive names is told to the runtime for its own sake
            for name in set(NAME.findall(item.code)) | {target(item)}:
                used.setdefault(name, []).append(at)
    wanted = (symbol for symbol in variables(unit) if used.get(symbol.name))
    return [symbol for symbol in wanted if not surely(unit, symbol.name, used, blocks)]


def watchable(unit: Unit) -> bool:
    """Whether calls and an attribute of a variable may stand before the unit's first statement."""
    if unit.kind not in ("program", "subroutine", "function") or unit.pure:
        return False
    for item in unit.items[: unit.executable]:
        # Behind a statement function no attribute may be given.
        if isinstance(item, Statement) and assignment(item.code):
            return False
    first = unit.items[unit.executable or 0]
    return not any(isinstance(one, Statement) and one.code.startswith("entry") for one in unit.items) and not (
        isinstance(first, Statement) and first.label
    )


def variables(unit: Unit) -> list[Symbol]:
    """The unit's own scalars and arrays that have no value when it is entered."""
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


def target(item: Statement | Sentinel) -> str:
    """The variable that a DO statement sets: it stands without a blank behind the word."""
    begin = DO.match(item.code) if isinstance(item, Statement) else None
    return (begin[2] or begin[4] or "") if begin else ""


def segments(unit: Unit) -> list[tuple[int, int]]:
    """What may be passed over as a whole: bodies of loops, branches of conditions (first and last item)."""
    found = [(loop.first + 1, loop.last) for loop in unit.loops().values()]
    stack: list[int] = []
    for at, item in enumerate(unit.items):
        if not isinstance(item, Statement):
            continue
        if stack and BRANCH.match(item.code) and not assignment(item.code):
            found.append((stack.pop(), at - 1))
            stack.append(at + 1)
        elif opens(item.code):
            stack.append(at + 1)
        elif closes(item.code) and stack:
            found.append((stack.pop(), at - 1))
    return found


def surely(unit: Unit, name: str, used: dict[str, list[int]], blocks: list[tuple[int, int]]) -> bool:
    """Whether each use of a variable stands behind an assignment that ran whenever the use does."""
    left = used[name]
    while left:
        at = left[0]
        item = unit.items[at]
        if not isinstance(item, Statement) or not sets(item, name):
            return False
        around = [(first, last) for first, last in blocks if first <= at <= last]
        if not around:
            return True
        _, last = min(around, key=lambda one: one[1] - one[0])
        left = left[bisect_left(left, last + 1) :]
    return True


def sets(statement: Statement, name: str) -> bool:
    """Whether a statement does nothing with a variable but give it, the whole of it, a value."""
    if target(statement) == name:
        return len(re.findall(rf"\b{name}\b", statement.code.partition("=")[2])) == 0
    found = assignment(statement.code)
    if found is None or found[0] != name or found[1]:
        return False
    return name not in NAME.findall(statement.code[found[2] :])
