"""Insert calls at the start of a construct's body that tell the runtime which private variables have no value yet.

For a task the call also takes the address of shared scalars, so that the compiler does not pass them by value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from weft.openmp.directives import OpenMPDirective, find_closing_bracket

DECLARED: Final = {
    "c": "extern int weft_omp_private(void *, unsigned long);",
    "c++": 'extern "C" int weft_omp_private(void *, unsigned long);',
}
_LOOPS: Final = frozenset(("for", "taskloop", "distribute", "simd", "loop"))
_BLOCKS: Final = frozenset((("parallel",), ("task",), ("single",)))
_FOR: Final = re.compile(r"\s*for\s*(?=\()")
_DECLARED: Final = (
    r"(?:integer|real|logical|complex|double precision|character)\b(?:(?!allocatable|pointer|function).)*"
)
_SCALAR: Final = (
    r"\b(?:(?:un)?signed|int|long|short|char|float|double|bool|_Bool|size_t|u?int\d+_t)\b(?:[^;(){}]*[\s*,])?"
)
_NAME: Final = re.compile(r"(?<![\w.>])[A-Za-z_]\w*\b(?!\s*\()")
_PARALLEL: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|!\$omp)\b.*\bparallel\b", re.I)
_END: Final = re.compile(r"\s*!\$omp\s+end\b", re.I)
_UNIT: Final = re.compile(r"\s*(?:(?!end\b)[a-z ]*\b(?:program|subroutine|function|module)\s+\w|contains\b)", re.I)
MOST_LINES: Final = 60
"""Of a construct, in which its inner loops are looked for."""


def clause_variables(one: OpenMPDirective, *words: str) -> list[str]:
    """Return the variables that the clauses with the given words list."""
    found: list[str] = []
    for clause in one.clauses:
        if clause.word in words and clause.inside and ":" not in clause.inside:
            found += re.findall(r"[A-Za-z_]\w*", clause.inside)
    return found


def variables_without_value(one: OpenMPDirective) -> list[str]:
    """Return the variables of a directive whose private copies begin without a value."""
    first = clause_variables(one, "firstprivate", "linear", "reduction")
    return [name for name in clause_variables(one, "private", "lastprivate") if name not in first]


def render_watch_call(names: Sequence[str], shared: Sequence[str], of: str) -> str:
    """Return the text to insert before a construct's body: an `if` that is always true and calls the runtime.

    `names`: private variables without a value; `shared`: variables whose address is taken; `of`: `c` or `c++`.
    """
    address = "&" if of == "c" else "__builtin_addressof"
    calls = [f"({address}({name}), 1)" for name in shared]
    calls += (
        f"weft_omp_private((void *)&({name}), sizeof({name}))"
        if of == "c"
        else f"weft_omp_private((void *)__builtin_addressof({name}), "
        f"__is_trivially_constructible(__typeof__({name})) ? sizeof({name}) : 0)"
        for name in names
    )
    return f" if ({' && '.join(calls)}) "


def insert_watch_call_c(lines: list[str], at: int, one: OpenMPDirective, of: str) -> None:
    """Insert the runtime's call into `lines` after the directive at line `at`, in place.

    Variables that count inner loops are left out, as they are always written first. `of`: `c` or `c++`.
    """
    loop = bool(_LOOPS & set(one.head))
    if not loop and one.head not in _BLOCKS:
        return
    behind = "\n".join(lines[at + 1 : at + 1 + MOST_LINES])
    shared = task_shared_scalars_c(lines, at, one)
    found = [name for name in variables_without_value(one) if not re.search(rf"\bfor\s*\(\s*{name}\s*=", behind)]
    inscan = any(clause.word == "reduction" and (clause.inside or "").startswith("inscan") for clause in one.clauses)
    end = _find_body_start(lines, at + 1, _loop_depth(one) if loop else 0)
    if inscan or end is None:
        return
    line, column, loop_heads = end
    found = [name for name in found if not any(_begins_with(head, name) for head in loop_heads)]
    shared = [name for name in shared if not any(_begins_with(head, name) for head in loop_heads)]
    if found or shared:
        lines[line] = lines[line][:column] + render_watch_call(found, shared, of) + lines[line][column:]


def _begins_with(loop_head: str, name: str) -> bool:
    """Return whether a loop's head sets or declares a variable: in its body the name means the loop's own variable."""
    return bool(re.search(rf"\b{name}\b", loop_head.partition(";")[0]))


def task_shared_scalars_c(lines: Sequence[str], at: int, one: OpenMPDirective) -> list[str]:
    """Return the scalars that a task shares with the region around it, if their declarations are found in the lines
    before.
    """
    if "task" not in one.head and "taskloop" not in one.head:
        return []
    first = next((k for k in range(at - 1, -1, -1) if lines[k].startswith("}")), -1) + 1
    region = next((k for k in range(at - 1, first - 1, -1) if _PARALLEL.match(lines[k])), None)
    known = "\n".join(lines[first:at])
    before = "\n".join(lines[first:region]) if region is not None else ""
    said = clause_variables(one, "shared")
    own = {*said, *clause_variables(one, "private", "firstprivate", "lastprivate", "linear")}
    used = dict.fromkeys(name for name in _NAME.findall(_statement_text(lines, at + 1)) if name not in own)
    return [name for name in said if _is_declared_scalar(name, known)] + [
        name for name in used if _is_declared_scalar(name, before)
    ]


def _is_declared_scalar(name: str, text: str) -> bool:
    """Return whether a text declares a variable of a scalar type."""
    return bool(re.search(rf"{_SCALAR}{name}\s*[=;,)]", text))


def _statement_text(lines: Sequence[str], at: int) -> str:
    """Return the text of the statement or block that begins at a line."""
    text = "\n".join("" if line.lstrip().startswith("#") else line for line in lines[at : at + MOST_LINES])
    depth = 0
    for k, one in enumerate(text):
        depth += (one in "({") - (one in ")}")
        if not depth and one in ";}":
            return text[:k]
    return text


def task_shared_variables_fortran(lines: Sequence[str], at: int, one: OpenMPDirective) -> list[str]:
    """Return the variables that a task of a Fortran program in free form shares with the region around it."""
    if one.head != ("task",):
        return []
    first = next((k for k in range(at - 1, -1, -1) if _UNIT.match(lines[k])), 0)
    region = any(_PARALLEL.match(line) and not _END.match(line) for line in lines[first:at])
    end = next((k for k in range(at + 1, len(lines)) if _END.match(lines[k])), at + 1)
    said = [name.lower() for name in clause_variables(one, "shared")]
    own = {*said, *(name.lower() for name in clause_variables(one, "private", "firstprivate"))}
    body = "\n".join(line.partition("!")[0] for line in lines[at + 1 : end]).lower()
    used = dict.fromkeys(name for name in _NAME.findall(body) if name not in own) if region else {}
    known = "\n".join(lines[first:at])
    return [
        name
        for name in (*said, *used)
        if re.search(rf"^[ \t]*(?!.*\bparameter\b){_DECLARED}::.*\b{name}\b(?!\s*\()", known, re.I | re.M)
    ]


def insert_watch_calls_fortran(lines: list[str], at: int, one: OpenMPDirective) -> None:
    """Insert the runtime's calls into Fortran lines in free form, after a directive's last line `at`, in place.

    Only variables that are declared with an intrinsic type are watched.
    """
    loop = "do" in one.head
    if not loop and one.head not in _BLOCKS:
        return
    behind = "\n".join(lines[at + 1 : at + 1 + MOST_LINES])
    text = "\n".join(lines)
    found = [
        name
        for name in variables_without_value(one)
        if not re.search(rf"\bdo\s+(\d+\s+)?{name}\s*=", behind, re.I)
        and re.search(rf"^[ \t]*{_DECLARED}::.*\b{name}\b", text, re.I | re.M)
    ]
    shared = task_shared_variables_fortran(lines, at, one)
    calls = "; ".join(
        [f"call weft_omp_private(%val(loc({name})), %val(0_8))" for name in shared]
        + [f"call weft_omp_private(%val(loc({name})), %val(sizeof({name})))" for name in found]
    )
    heads = _loop_depth(one) if loop else 0
    line = at + 1
    for _ in range(heads):
        while line < len(lines) and _is_comment(lines[line]):
            line += 1
        if line >= len(lines) or not re.match(r"\s*do\s+[a-z]\w*\s*=[^&!;]*$", lines[line], re.I):
            return
        line += 1
    while not heads and line < len(lines) and _is_comment(lines[line]):
        line += 1
    if not calls or line >= len(lines) or (not heads and not re.match(r"\s*[a-z]", lines[line], re.I)):
        return
    if heads:
        lines[line - 1] += f"; {calls}"
    else:
        lines[line] = f"{calls}; {lines[line].lstrip()}"


def _is_comment(line: str) -> bool:
    stripped = line.lstrip()
    return not stripped or (stripped.startswith("!") and not stripped.lower().startswith("!$"))


def _loop_depth(one: OpenMPDirective) -> int:
    """Return how many nested loops belong to the construct, by its `collapse` and `ordered` clauses."""
    clauses = (one.find_clause("collapse"), one.find_clause("ordered"))
    numbers = [int(c.inside) for c in clauses if c and c.inside and c.inside.strip().isdigit()]
    return max([1, *numbers])


def _find_body_start(lines: Sequence[str], at: int, loops: int) -> tuple[int, int, list[str]] | None:
    """Return line and column after the heads of `loops` nested loops, and these heads; None if the text there is
    anything else.
    """
    column = 0
    loop_heads: list[str] = []
    for _ in range(loops):
        while at < len(lines) and _is_blank_or_line_marker(lines[at][column:]):
            at, column = at + 1, 0
        head = _FOR.match(lines[at], column) if at < len(lines) else None
        if head is None:
            return None
        text, last = lines[at], at
        while (end := find_closing_bracket(text, head.end())) < 0 and last + 1 < len(lines) and last < at + 8:
            last += 1
            text += "\n" + lines[last]
        if end < 0 or "#" in text[head.end() : end]:
            return None
        loop_heads.append(text[head.end() + 1 : end])
        at, column = last, end + 1 - (text.rfind("\n", 0, end) + 1)
    if loops:
        return at, column, loop_heads
    while at < len(lines) and _is_blank_or_line_marker(lines[at]):
        at += 1
    return None if at == len(lines) or lines[at].lstrip().startswith("#") else (at, 0, [])


def _is_blank_or_line_marker(line: str) -> bool:
    """Return whether a preprocessed line is empty or only a line marker (`# 12 "file"`)."""
    return not line.strip() or bool(re.match(r"#\s*(line\s+)?\d", line))
