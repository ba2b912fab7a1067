"""Find the variables of a frame that have their bytes to themselves at a call: other variables prove nothing.

Compilers give the same bytes of a frame to variables, and to unnamed values, whose uses do not overlap (gcc's
-fstack-reuse, LLVM's stack colouring), while the debugging information names a variable at its location for all of its
scope. A variable owns its bytes from its first use on. So in optimised code only those variables are believed that the
source uses before the call or in it, and whose bytes no other one of these has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weft.sources import files, statement

if TYPE_CHECKING:
    from weft.debuginfo.addr2line import Found
    from weft.debuginfo.dwarf import DwarfVariable

_PLAIN_GNU: Final = re.compile(r"GNU (?!.*\s-O(?!0\b))")
"""What gcc says of a file that it compiled without optimising; others do not say it."""


def may_share_bytes(producer: str) -> bool:
    """Return whether a compiler may have given bytes of a frame to several variables, by its DW_AT_producer."""
    return _PLAIN_GNU.match(producer) is None


def select_unshared_variables(variables: Sequence[DwarfVariable], frames: Sequence[Found]) -> list[DwarfVariable]:
    """Return the variables of optimised code whose bytes no other used variable has at a call. `frames`: (file, line,
    function) of the call and of the functions into which its code was inlined, innermost first.
    """
    used = [v for v in variables if v.depth < len(frames) and _is_used_before(v, *frames[-1 - v.depth][:2])]
    return [v for v in used if not any(_share_bytes(v, other) for other in used)]


def _share_bytes(one: DwarfVariable, other: DwarfVariable) -> bool:
    """Return whether two variables have a byte in common and are not the same."""
    if (one.at, one.shape) == (other.at, other.shape):
        return False
    return one.at < other.at + other.shape.size and other.at < one.at + one.shape.size


def _is_used_before(variable: DwarfVariable, file: str | None, line: int) -> bool:
    """Return whether the source uses a variable between its declaration and the end of the statement at a line."""
    source = files.read_source(file) if file else None
    told = statement.find_statement(source.lines, 1, line, file or "") if source is not None else None
    if source is None or told is None or not 0 < variable.line <= line:
        return False
    lines = statement.without_comments(source.lines[variable.line - 1 : told.last], file or "")
    name = rf"\b{re.escape(variable.name)}\b"
    own = re.search(rf"{name}\s*(?:\[[^\]]*\]\s*)*[={{(]", lines[0])
    return variable.given or own is not None or re.search(name, "\n".join(lines[1:]), re.IGNORECASE) is not None
