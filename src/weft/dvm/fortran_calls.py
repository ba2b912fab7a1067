"""Render arguments of the runtime's calls in Fortran, and find names in statements and directives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from weft.dvm import syntax
from weft.dvm.fortran_lines import FortranStatement, Item
from weft.dvm.fortran_model import DoLoop, ProgramUnit
from weft.dvm.fortran_text import DO, NAME, closes_block, opens_block, split_assignment, split_condition, split_top
from weft.dvm.syntax import DirectiveError, Reference
from weft.native.headers import check
from weft.native.headers.check import ALL, CONSTANT

KINDS: Final = {
    "*": check.WHOLE,
    "block": check.BLOCK,
    "wgtblock": check.WGTBLOCK,
    "genblock": check.GENBLOCK,
    "multblock": check.MULTBLOCK,
    "indirect": check.INDIRECT,
    "derived": check.DERIVED,
}
LATER: Final = check.LATER
"""Left to a REDISTRIBUTE."""
_REDUCTIONS: Final = "sum product max min and or xor eqv neqv maxloc minloc"
OPERATIONS: Final[dict[str, int]] = {name: getattr(check, name.upper()) for name in _REDUCTIONS.split()}
DIRECTIONS: Final = {
    "in": check.IN,
    "out": check.OUT,
    "inout": check.INOUT,
    "local": check.LOCAL,
    "inlocal": check.INLOCAL,
}
ON, REMOTE, TIE, BEFORE_STATEMENT, CONSISTENT = range(5)
ACROSS, RENEW, COMPUTE, GROUP = range(4)
ACTUAL, GET_ACTUAL, REGION_DATA = 0, 1, 10
LOCAL, STATIC, ARGUMENT = range(3)


def long_array(values: Sequence[str]) -> str:
    """Return Fortran text of an array of 8-byte integers with these values."""
    return f"[integer(8) :: {', '.join(f'int({value}, 8)' for value in values)}]"


def int_array(values: Sequence[int]) -> str:
    """Return Fortran text of an array of 4-byte integers with these values."""
    return f"[integer(4) :: {', '.join(map(str, values))}]"


# --- small things -----------------------------------------------------------------------------------------------------


def guard_by_presence(name: str, calls: Iterator[str], pointer: bool = False) -> Iterator[str]:
    """Yield the calls, changed so that each is made only if the array is allocated (for a pointer: associated)."""
    test = "associated" if pointer else "allocated"
    for call in calls:
        yield call if call.startswith("if ") else f"if ({test}({name})) {call}"


def render_only_subscript(reference: Reference, index: str = "0") -> str:
    """Return Fortran text of the only subscript of a reference such as `mb(2*i+1)`. `index` takes the place of the
    dummy `i`. Raises DirectiveError if there is no single subscript.
    """
    subscript = reference.subscripts[0] if reference.subscripts else None
    if isinstance(subscript, syntax.Constant):
        return subscript.value.text
    if isinstance(subscript, syntax.Affine):
        return f"({subscript.coefficient.text}) * ({index}) + ({subscript.offset.text})"
    raise DirectiveError(reference.place, f"`{reference.name}` needs one index, the number of the task")


def mapping_arrays(subscripts: Sequence[syntax.Subscript]) -> tuple[list[int], list[str], list[str]]:
    """Return how the subscripts of an ALIGN or ON target depend on the directive's index names, as three parallel
    lists: the number of the index name (or a mark for a constant or a whole dimension), its coefficient, and the
    offset.
    """
    axis: list[int] = []
    coefficient: list[str] = []
    offset: list[str] = []
    for subscript in subscripts:
        if isinstance(subscript, syntax.Affine):
            axis.append(subscript.dummy)
            coefficient.append(subscript.coefficient.text)
            offset.append(subscript.offset.text)
        elif isinstance(subscript, syntax.Constant):
            axis.append(CONSTANT)
            coefficient.append("0")
            offset.append(subscript.value.text)
        else:
            axis.append(ALL)
            coefficient.append("0")
            offset.append("0")
    return axis, coefficient, offset


def find_clause_references(clauses: Sequence[syntax.Clause]) -> Iterator[Reference]:
    """Yield the variables and arrays that private and reduction clauses name."""
    for clause in clauses:
        if isinstance(clause, syntax.Private):
            yield from clause.names
        elif isinstance(clause, syntax.Reductions):
            for one in clause.items:
                yield one.variable
                if one.location:
                    yield one.location


def find_possibly_assigned_names(statement: FortranStatement) -> Iterator[str]:
    """Yield the names that a statement assigns or may assign: the left side of an assignment, items of READ, and plain
    names passed to a subroutine.
    """
    _, action = split_condition(statement.code)
    if DO.match(action):
        return
    found = split_assignment(action)
    if found:
        yield found[0]
    elif action.startswith("call"):
        start = action.find("(")
        for part in split_top(action[start + 1 : -1]) if start >= 0 else ():
            if NAME.fullmatch(part):
                yield part
    elif action.startswith("read"):
        parts = split_top(action)
        for part in [re.sub(r"^read(\(.*?\)|\*|\d+)", "", parts[0]), *parts[1:]]:
            if matched := NAME.match(part):
                yield matched[0]


def find_output_items(action: str) -> list[str]:
    """Return the items of the output list of a PRINT or WRITE statement, as text; none for another statement."""
    if re.match(r"print(\*|\d+|['\"].*?['\"]|[a-z]\w*),", action):
        return split_top(action)[1:]
    if not action.startswith("write("):
        return []
    depth = 0
    for at, sign in enumerate(action):
        depth += (sign == "(") - (sign == ")")
        if sign == ")" and depth == 0:
            return [part for part in split_top(action[at + 1 :]) if part]
    return []


def named_group(action: str) -> str:
    """Return the NAMELIST group that a WRITE or PRINT statement may name; "" otherwise."""
    found = re.match(r"write\((?:.*,)?nml=(\w+)[,)]|write\([^=,]+,([a-z]\w*)\)$|print([a-z]\w*)$", action)
    return (found[1] or found[2] or found[3]) if found else ""


def collect_namelist_groups(unit: ProgramUnit) -> dict[str, list[str]]:
    """Return the NAMELIST groups of a unit and of the units that contain it: the names of the variables by the name of
    the group.
    """
    held: dict[str, list[str]] = collect_namelist_groups(unit.parent) if unit.parent else {}
    for one in unit.statements(0, len(unit.items)):
        if one.code.startswith("namelist/"):
            for name, listed in re.findall(r"/(\w+)/([^/]*)", one.code):
                held.setdefault(name, []).extend(part for part in listed.split(",") if part)
    return held


def find_mentioned_names(unit: ProgramUnit) -> frozenset[str]:
    """Return all names in the statements and directives of a unit."""
    found: set[str] = set()
    for item in unit.items:
        found.update(NAME.findall(item.code if isinstance(item, FortranStatement) else item.said.lower()))
    return frozenset(found)


def find_block_end(unit: ProgramUnit, loops: dict[int, DoLoop], item_index: int) -> int:
    """Return the index of the last item of the statement that begins at an item. For a DO, an IF or another block, this
    is the index of its END.
    """
    if item_index in loops:
        return loops[item_index].last
    item: Item = unit.items[item_index]
    if isinstance(item, FortranStatement) and opens_block(item.code):
        depth = 0
        for later in range(item_index, len(unit.items)):
            other = unit.items[later]
            if isinstance(other, FortranStatement):
                depth += opens_block(other.code) - closes_block(other.code)
                if depth == 0:
                    return later
    return item_index
