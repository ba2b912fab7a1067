"""What is put at the start of a construct's body: that private variables have no value yet, and the address of what a
task shares, as the compiler would give it the value."""

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
    """The variables of some clauses."""
    found: list[str] = []
    for clause in one.clauses:
        if clause.word in words and clause.inside and ":" not in clause.inside:
            found += re.findall(r"[A-Za-z_]\w*", clause.inside)
    return found


def names(one: OpenMPDirective) -> list[str]:
    """The variables whose copies have no value yet."""
    first = clause_variables(one, "firstprivate", "linear", "reduction")
    return [name for name in clause_variables(one, "private", "lastprivate") if name not in first]


def call(names: Sequence[str], shared: Sequence[str], of: str) -> str:
    """What stands before the construct's body: it is always true."""
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


def watched(lines: list[str], at: int, one: OpenMPDirective, of: str) -> None:
    """Put the call into the lines behind the directive at a line; the variables of inner loops are left out."""
    loop = bool(_LOOPS & set(one.head))
    if not loop and one.head not in _BLOCKS:
        return
    behind = "\n".join(lines[at + 1 : at + 1 + MOST_LINES])
    shared = shared_by_task(lines, at, one)
    found = [name for name in names(one) if not re.search(rf"\bfor\s*\(\s*{name}\s*=", behind)]
    inscan = any(clause.word == "reduction" and (clause.inside or "").startswith("inscan") for clause in one.clauses)
    if not (found or shared) or inscan:
        return
    end = _body(lines, at + 1, _depth(one) if loop else 0)
    if end is not None:
        line, column = end
        lines[line] = lines[line][:column] + call(found, shared, of) + lines[line][column:]


def shared_by_task(lines: Sequence[str], at: int, one: OpenMPDirective) -> list[str]:
    """Scalars that a task shares with a region around it, as far as their declarations can be read."""
    if "task" not in one.head and "taskloop" not in one.head:
        return []
    first = next((k for k in range(at - 1, -1, -1) if lines[k].startswith("}")), -1) + 1
    region = next((k for k in range(at - 1, first - 1, -1) if _PARALLEL.match(lines[k])), None)
    known = "\n".join(lines[first:at])
    before = "\n".join(lines[first:region]) if region is not None else ""
    said = clause_variables(one, "shared")
    own = {*said, *clause_variables(one, "private", "firstprivate", "lastprivate", "linear")}
    used = dict.fromkeys(name for name in _NAME.findall(_statement(lines, at + 1)) if name not in own)
    return [name for name in said if _declared(name, known)] + [name for name in used if _declared(name, before)]


def _declared(name: str, text: str) -> bool:
    return bool(re.search(rf"{_SCALAR}{name}\s*[=;,)]", text))


def _statement(lines: Sequence[str], at: int) -> str:
    """The statement that begins at a line."""
    text = "\n".join("" if line.lstrip().startswith("#") else line for line in lines[at : at + MOST_LINES])
    depth = 0
    for k, one in enumerate(text):
        depth += (one in "({") - (one in ")}")
        if not depth and one in ";}":
            return text[:k]
    return text


def shared_by_task_fortran(lines: Sequence[str], at: int, one: OpenMPDirective) -> list[str]:
    """The same in free form."""
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


def watched_fortran(lines: list[str], at: int, one: OpenMPDirective) -> None:
    """The same in free form, behind a directive's last line: variables that are declared of a type of the language."""
    loop = "do" in one.head
    if not loop and one.head not in _BLOCKS:
        return
    behind = "\n".join(lines[at + 1 : at + 1 + MOST_LINES])
    text = "\n".join(lines)
    found = [
        name
        for name in names(one)
        if not re.search(rf"\bdo\s+(\d+\s+)?{name}\s*=", behind, re.I)
        and re.search(rf"^[ \t]*{_DECLARED}::.*\b{name}\b", text, re.I | re.M)
    ]
    shared = shared_by_task_fortran(lines, at, one)
    calls = "; ".join(
        [f"call weft_omp_private(%val(loc({name})), %val(0_8))" for name in shared]
        + [f"call weft_omp_private(%val(loc({name})), %val(sizeof({name})))" for name in found]
    )
    heads = _depth(one) if loop else 0
    line = at + 1
    for _ in range(heads):
        while line < len(lines) and _comment(lines[line]):
            line += 1
        if line >= len(lines) or not re.match(r"\s*do\s+[a-z]\w*\s*=[^&!;]*$", lines[line], re.I):
            return
        line += 1
    while not heads and line < len(lines) and _comment(lines[line]):
        line += 1
    if not calls or line >= len(lines) or (not heads and not re.match(r"\s*[a-z]", lines[line], re.I)):
        return
    if heads:
        lines[line - 1] += f"; {calls}"
    else:
        lines[line] = f"{calls}; {lines[line].lstrip()}"


def _comment(line: str) -> bool:
    stripped = line.lstrip()
    return not stripped or (stripped.startswith("!") and not stripped.lower().startswith("!$"))


def _depth(one: OpenMPDirective) -> int:
    """How many loops belong to the construct."""
    clauses = (one.clause("collapse"), one.clause("ordered"))
    numbers = [int(c.inside) for c in clauses if c and c.inside and c.inside.strip().isdigit()]
    return max([1, *numbers])


def _body(lines: Sequence[str], at: int, loops: int) -> tuple[int, int] | None:
    """Line and column behind the heads of so many loops; None where something else stands there."""
    column = 0
    for _ in range(loops):
        while at < len(lines) and _passes(lines[at][column:]):
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
        at, column = last, end + 1 - (text.rfind("\n", 0, end) + 1)
    if loops:
        return at, column
    while at < len(lines) and _passes(lines[at]):
        at += 1
    return None if at == len(lines) or lines[at].lstrip().startswith("#") else (at, 0)


def _passes(line: str) -> bool:
    """Whether nothing but the place of the next line stands there."""
    return not line.strip() or bool(re.match(r"#\s*(line\s+)?\d", line))
