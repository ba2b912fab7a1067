"""Insert calls at the start of a construct's body that tell the runtime which private variables have no value yet.

For a task the call also takes the address of shared scalars, so that the compiler does not pass them by value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
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
UNIT: Final = re.compile(r"\s*(?:(?!end\b)[a-z ]*\b(?:program|subroutine|function|module)\s+\w|contains\b)", re.I)
MOST_LINES: Final = 60
"""Of a construct, in which its inner loops are looked for."""


def find_clause_variables(directive: OpenMPDirective, *clause_words: str) -> list[str]:
    """Return the variables that a directive's clauses with the given words list."""
    found: list[str] = []
    for clause in directive.clauses:
        if clause.word in clause_words and clause.inside and ":" not in clause.inside:
            found += re.findall(r"[A-Za-z_]\w*", clause.inside)
    return found


def variables_without_value(one: OpenMPDirective) -> list[str]:
    """Return the variables of a directive whose private copies begin without a value."""
    first = find_clause_variables(one, "firstprivate", "linear", "reduction")
    return [name for name in find_clause_variables(one, "private", "lastprivate") if name not in first]


def render_watch_call(private_variables: Sequence[str], shared_variables: Sequence[str], language: str) -> str:
    """Return C code to insert before a construct's body: an `if` that is always true and reports variables to the
    runtime.

    `private_variables`: they have no value yet; `shared_variables`: only their address is taken; `language`: `c` or
    `c++`.
    """
    address = "&" if language == "c" else "__builtin_addressof"
    calls = [f"({address}({name}), 1)" for name in shared_variables]
    calls += (
        f"weft_omp_private((void *)&({name}), sizeof({name}))"
        if language == "c"
        else f"weft_omp_private((void *)__builtin_addressof({name}), "
        f"__is_trivially_constructible(__typeof__({name})) ? sizeof({name}) : 0)"
        for name in private_variables
    )
    return f" if ({' && '.join(calls)}) "


def insert_watch_call_c(lines: list[str], directive_line: int, directive: OpenMPDirective, language: str) -> None:
    """Insert into the lines of a C source, after a directive, the call that reports its private variables to the
    runtime.

    Variables that count inner loops are left out, as they are always written first. `language`: `c` or `c++`.
    """
    loop = bool(_LOOPS & set(directive.head))
    if not loop and directive.head not in _BLOCKS:
        return
    behind = "\n".join(lines[directive_line + 1 : directive_line + 1 + MOST_LINES])
    shared = find_task_shared_scalars_c(lines, directive_line, directive)
    found = [name for name in variables_without_value(directive) if not re.search(rf"\bfor\s*\(\s*{name}\s*=", behind)]
    inscan = any(
        clause.word == "reduction" and (clause.inside or "").startswith("inscan") for clause in directive.clauses
    )
    end = _find_body_start(lines, directive_line + 1, _count_associated_loops(directive) if loop else 0)
    if inscan or end is None:
        return
    line, column, loop_heads = end
    found = [name for name in found if not any(_loop_sets_variable(head, name) for head in loop_heads)]
    shared = [name for name in shared if not any(_loop_sets_variable(head, name) for head in loop_heads)]
    if found or shared:
        lines[line] = lines[line][:column] + render_watch_call(found, shared, language) + lines[line][column:]


def _loop_sets_variable(loop_head: str, name: str) -> bool:
    """Return whether a loop's head sets or declares a variable: in its body the name means the loop's own variable."""
    return bool(re.search(rf"\b{name}\b", loop_head.partition(";")[0]))


def find_task_shared_scalars_c(lines: Sequence[str], directive_line: int, directive: OpenMPDirective) -> list[str]:
    """Return the scalar variables that a task shares with the region around it, as far as the lines before the task
    declare them. Empty for a directive that makes no tasks.
    """
    if "task" not in directive.head and "taskloop" not in directive.head:
        return []
    first = next((k for k in range(directive_line - 1, -1, -1) if lines[k].startswith("}")), -1) + 1
    region = next((k for k in range(directive_line - 1, first - 1, -1) if _PARALLEL.match(lines[k])), None)
    known = "\n".join(lines[first:directive_line])
    before = "\n".join(lines[first:region]) if region is not None else ""
    said = find_clause_variables(directive, "shared")
    own = {*said, *find_clause_variables(directive, "private", "firstprivate", "lastprivate", "linear")}
    used = dict.fromkeys(
        name for name in _NAME.findall(_find_statement_text(lines, directive_line + 1)) if name not in own
    )
    return [name for name in said if _is_declared_scalar(name, known)] + [
        name for name in used if _is_declared_scalar(name, before)
    ]


def _is_declared_scalar(name: str, text: str) -> bool:
    """Return whether a text declares a variable of a scalar type."""
    return bool(re.search(rf"{_SCALAR}{name}\s*[=;,)]", text))


def _find_statement_text(lines: Sequence[str], first_line: int) -> str:
    """Return the text of the statement or block that begins at a line, from at most MOST_LINES lines. Lines for the
    preprocessor are blank in it.
    """
    text = "\n".join(
        "" if line.lstrip().startswith("#") else line for line in lines[first_line : first_line + MOST_LINES]
    )
    depth = 0
    for k, one in enumerate(text):
        depth += (one in "({") - (one in ")}")
        if not depth and one in ";}":
            return text[:k]
    return text


def find_task_shared_variables_fortran(
    lines: Sequence[str], directive_line: int, directive: OpenMPDirective
) -> list[str]:
    """Return the variables that a task shares with the region around it, in the lines of a free-form Fortran source.
    Only variables that are declared with an intrinsic type before it are returned; none if the directive is no `task`.
    """
    if directive.head != ("task",):
        return []
    first = next((k for k in range(directive_line - 1, -1, -1) if UNIT.match(lines[k])), 0)
    region = any(_PARALLEL.match(line) and not _END.match(line) for line in lines[first:directive_line])
    end = next((k for k in range(directive_line + 1, len(lines)) if _END.match(lines[k])), directive_line + 1)
    said = [name.lower() for name in find_clause_variables(directive, "shared")]
    own = {*said, *(name.lower() for name in find_clause_variables(directive, "private", "firstprivate"))}
    body = "\n".join(line.partition("!")[0] for line in lines[directive_line + 1 : end]).lower()
    used = dict.fromkeys(name for name in _NAME.findall(body) if name not in own) if region else {}
    known = "\n".join(lines[first:directive_line])
    return [
        name
        for name in (*said, *used)
        if re.search(rf"^[ \t]*(?!.*\bparameter\b){_DECLARED}::.*\b{name}\b(?!\s*\()", known, re.I | re.M)
    ]


def insert_watch_calls_fortran(
    lines: list[str], directive_line: int, directive: OpenMPDirective, copy_path: Path
) -> None:
    """Insert into the lines of a free-form Fortran source, after a directive's last line, calls that report its private
    variables to the runtime. `copy_path`: the file to which the source will be written.

    Only variables that are declared with an intrinsic type are reported.
    """
    loop = "do" in directive.head
    if not loop and directive.head not in _BLOCKS:
        return
    behind = "\n".join(lines[directive_line + 1 : directive_line + 1 + MOST_LINES])
    text = "\n".join(lines)
    found = [
        name
        for name in variables_without_value(directive)
        if not re.search(rf"\bdo\s+(\d+\s+)?{name}\s*=", behind, re.I)
        and re.search(rf"^[ \t]*{_DECLARED}::.*\b{name}\b", text, re.I | re.M)
    ]
    shared = find_task_shared_variables_fortran(lines, directive_line, directive)
    calls = "; ".join(
        [f"call weft_omp_private(%val(loc({name})), %val(0_8))" for name in shared]
        + [f"call weft_omp_private(%val(loc({name})), %val(sizeof({name})))" for name in found]
    )
    heads = _count_associated_loops(directive) if loop else 0
    line = directive_line + 1
    for _ in range(heads):
        while line < len(lines) and _is_comment(lines[line]):
            line += 1
        if line >= len(lines) or not re.match(r"\s*do\s+[a-z]\w*\s*=[^&!;]*$", lines[line], re.I):
            return
        line += 1
    while not heads and line < len(lines) and _is_comment(lines[line]):
        line += 1
    if calls and directive.head == ("parallel",) and re.match(r"\s*!\$omp\b", "".join(lines[line : line + 1]), re.I):
        lines[directive_line] += f'\n{calls}\n# {directive_line + 2} "{copy_path}"'
        return
    if not calls or line >= len(lines) or (not heads and not re.match(r"\s*[a-z]", lines[line], re.I)):
        return
    if heads:
        lines[line - 1] += f"; {calls}"
    else:
        lines[line] = f"{calls}; {lines[line].lstrip()}"


def _is_comment(line: str) -> bool:
    stripped = line.lstrip()
    return not stripped or (stripped.startswith("!") and not stripped.lower().startswith("!$"))


def _count_associated_loops(directive: OpenMPDirective) -> int:
    """Return how many nested loops belong to the construct, by its `collapse` and `ordered` clauses."""
    clauses = (directive.find_clause("collapse"), directive.find_clause("ordered"))
    numbers = [int(c.inside) for c in clauses if c and c.inside and c.inside.strip().isdigit()]
    return max([1, *numbers])


def _find_body_start(lines: Sequence[str], first_line: int, loop_count: int) -> tuple[int, int, list[str]] | None:
    """Return (line index, column, loop heads) of the body of nested loops; None if the text there is anything else.
    With `loop_count` 0, this is the first line that is not blank.
    """
    column = 0
    loop_heads: list[str] = []
    for _ in range(loop_count):
        while first_line < len(lines) and _is_blank_or_line_marker(lines[first_line][column:]):
            first_line, column = first_line + 1, 0
        head = _FOR.match(lines[first_line], column) if first_line < len(lines) else None
        if head is None:
            return None
        text, last = lines[first_line], first_line
        while (end := find_closing_bracket(text, head.end())) < 0 and last + 1 < len(lines) and last < first_line + 8:
            last += 1
            text += "\n" + lines[last]
        if end < 0 or "#" in text[head.end() : end]:
            return None
        loop_heads.append(text[head.end() + 1 : end])
        first_line, column = last, end + 1 - (text.rfind("\n", 0, end) + 1)
    if loop_count:
        return first_line, column, loop_heads
    while first_line < len(lines) and _is_blank_or_line_marker(lines[first_line]):
        first_line += 1
    return None if first_line == len(lines) or lines[first_line].lstrip().startswith("#") else (first_line, 0, [])


def _is_blank_or_line_marker(line: str) -> bool:
    """Return whether a preprocessed line is empty or only a line marker (`# 12 "file"`)."""
    return not line.strip() or bool(re.match(r"#\s*(line\s+)?\d", line))
