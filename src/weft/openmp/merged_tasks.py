"""Find variables whose value depends on whether a mergeable task is merged, from the source alone.

By OpenMP 5.2 a task with `mergeable` (12.2) may be a merged task if it is undeferred, as with `if(0)` (12.5), or an
included one, as each child of a final task is (12.3). A merged task has its generating task's data environment (1.2.5):
what would be the task's own variable is then the generator's. So the result is unspecified if the task changes a
variable that is private to it, by a clause or by the rules of 5.1.1, and its generator reads the variable behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.openmp.directives import OpenMPClause, OpenMPDirective, find_closing_bracket, find_line_starts
from weft.openmp.private_variables import UNIT, find_clause_variables
from weft.openmp.reductions import blank_comments_and_texts, find_block_range, find_loop_body_range
from weft.openmp.source_rewriting import FIXED_SUFFIXES, read_directives, source_language

_NOT_SHARED: Final = ("private", "firstprivate", "lastprivate", "reduction", "linear")
_NOT_A_TYPE: Final = frozenset(("return", "else", "do", "case", "goto", "throw", "delete", "new"))
_NOT_AUTOMATIC: Final = frozenset(("static", "extern", "thread_local", "_Thread_local"))
_LISTS: Final = ("shared", "in_reduction")
_PREPROCESSED: Final = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)
_ASSIGNED: Final = re.compile(r"\s*(?:(?P<plain>=(?!=))|(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_ASSIGNED_FORTRAN: Final = re.compile(r"\s*(?:if\s*\(.*\)\s*)?([a-z]\w*)\s*=(?![=>])")
_END_TASK: Final = re.compile(r"\s*!\$omp\s+end\s+task\b")
_END_UNIT: Final = re.compile(r"\s*end\s*(?:$|program|subroutine|function|module)|\s*contains\b")
_REGION: Final = re.compile(r"\s*!\$omp\s+(?:end\s+)?(?:.*\s)?(?:parallel|teams)\b")
_NOT_LOCAL: Final = r"\b(?:save|parameter|pointer|allocatable|dimension|target)\b"
_FORTRAN_TYPES: Final = r"(?:integer|real|logical|complex|double\s+precision|character)"


@dataclass(frozen=True, slots=True)
class MergedVariable:
    """A variable of a mergeable task that its generator reads after the task, and the lines of both."""

    directive_line: int
    name: str
    write_line: int
    read_line: int


def find_variables_of_merged_tasks(source: Path) -> Iterator[MergedVariable]:
    """Yield the variables of a source file that a mergeable task changes in a copy of its own and that are read after
    it.
    """
    text = source.read_text(encoding="utf-8", errors="replace")
    directives = list(read_directives(source))
    tasks = [
        (line, one) for line, one in directives if one.head == ("task",) and one.find_clause("mergeable") is not None
    ]
    if not tasks or source.suffix.lower() in FIXED_SUFFIXES:
        return
    if source_language(source) == "fortran":
        lines = [re.sub(r"'[^']*'|\"[^\"]*\"", "''", line).lower() for line in text.split("\n")]
        for line, one in tasks:
            yield from _find_in_fortran(lines, line, one)
        return
    text = blank_comments_and_texts(text)
    text = _PREPROCESSED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    starts = find_line_starts(text)
    regions = [(starts[line - 1], one) for line, one in directives if {"parallel", "teams"} & set(one.head)]
    for line, one in tasks:
        yield from _find_in_c(text, starts[line - 1], one, regions)


def _is_private(directive: OpenMPDirective, name: str, is_private_by_rule: bool) -> bool:
    """Return whether a variable is private to a task: by a clause, else by the rule for variables that none lists."""
    if name in find_clause_variables(directive, "private", "firstprivate"):
        return True
    default = directive.find_clause("default")
    if any(re.search(rf"\b{name}\b", one.inside or "") for one in directive.clauses if one.word in _LISTS):
        return False
    return is_private_by_rule and (default is None or (default.inside or "").strip() in ("private", "firstprivate"))


# --- C and C++


def _find_uses(text: str, name: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield (index, what) for each use of a scalar variable in a part of a text: `declares`, `writes`, `updates` or
    `reads`.
    """
    for found in re.compile(rf"\b{re.escape(name)}\b").finditer(text, begin, end):
        before, behind = text[max(0, found.start() - 80) : found.start()], text[found.end() : found.end() + 8]
        word = re.search(r"([A-Za-z_]\w*)\s+$", before)
        before = before.rstrip()
        if before.endswith((".", "->")):
            continue
        if word and word[1] not in _NOT_A_TYPE:
            yield found.start(), "declares"
        elif before.endswith(("++", "--")) and not re.match(r"\s*(?:\[|\.|->)", behind):
            yield found.start(), "updates"
        elif (assigned := _ASSIGNED.match(behind)) and not before.endswith("*"):
            yield found.start(), "writes" if assigned["plain"] else "updates"
        else:
            yield found.start(), "reads"


def _find_statement(text: str, at: int) -> tuple[int, int] | None:
    """Return (begin, end) of the statement after an index, or of what the head of a loop there controls; None if its
    end is not found.
    """
    return find_loop_body_range(text, at) or find_block_range(text, at)


def _enclosing_blocks(text: str, at: int) -> list[int]:
    """Return the indices of the braces that are open at an index, the outermost first."""
    found: list[int] = []
    for k, one in enumerate(text[:at]):
        if one == "{":
            found.append(k)
        elif one == "}" and found:
            found.pop()
    return found


def _find_block_end(text: str, opening: int) -> int:
    """Return the index of the brace that closes the one at an index; the text's length if none does."""
    closing = find_closing_bracket(text, opening, "{}")
    return len(text) if closing < 0 else closing


def _find_declaration(text: str, name: str, at: int) -> tuple[int, int] | None:
    """Return (index, end of scope) of the declaration of an automatic scalar that is visible at an index. None if there
    is none in its function, or if it is static, a reference, a pointer to what is shared or an array.
    """
    pattern = re.compile(
        rf"(?:^|[;{{}}(,)])\s*(?P<type>(?:[A-Za-z_][\w:]*\s+)+)(?P<more>[^;(){{}}]*,\s*)?{name}\s*[=;,)]"
    )
    for opening in reversed(_enclosing_blocks(text, at)):
        head = max(text.rfind(one, 0, opening) for one in ";}") + 1
        inside = text[opening:at]
        while (shorter := re.sub(r"\{[^{}]*\}", lambda m: " " * len(m[0]), inside[1:])) != inside[1:]:
            inside = inside[0] + shorter
        for part, begin in ((inside, opening), (text[head:opening], head)):
            all_found = [one for one in pattern.finditer(part) if not _NOT_A_TYPE & {*one["type"].split()}]
            if all_found:
                is_automatic = not _NOT_AUTOMATIC & {*all_found[-1]["type"].split()}
                return (begin + all_found[-1].start("type"), _find_block_end(text, opening)) if is_automatic else None
    return None


def _is_shared_around(
    text: str, name: str, declared: int, at: int, regions: Sequence[tuple[int, OpenMPDirective]]
) -> bool:
    """Return whether a variable is shared by the innermost parallel region or league around an index. `regions`: the
    index at which each directive of one begins, and the directive.
    """
    for start, one in reversed(regions):
        body = _find_statement(text, start) if start < at else None
        if body is None or not body[0] <= at < body[1]:
            continue
        return declared < start and not any(
            re.search(rf"\b{name}\b", clause.inside or "") for clause in one.clauses if clause.word in _NOT_SHARED
        )
    return False


def _find_in_c(
    text: str, start: int, task: OpenMPDirective, regions: Sequence[tuple[int, OpenMPDirective]]
) -> Iterator[MergedVariable]:
    """Yield the variables of a task of a C or C++ source, whose directive begins at the index `start`. `regions`: as
    for _is_shared_around().
    """
    line = text.count("\n", 0, start) + 1
    body = _find_statement(text, start)
    if body is None:
        return
    for name in dict.fromkeys(re.findall(r"(?<![\w.>])[A-Za-z_]\w*", text[body[0] : body[1]])):
        uses = list(_find_uses(text, name, *body))
        written = next((index for index, what in uses if what in ("writes", "updates")), None)
        if written is None or any(what == "declares" for _, what in uses):
            continue
        declared = _find_declaration(text, name, start)
        by_rule = declared is not None and not _is_shared_around(text, name, declared[0], start, regions)
        end = declared[1] if declared else _find_block_end(text, (_enclosing_blocks(text, start) or [start])[0])
        later = next(_find_uses(text, name, body[1], end), None)
        if later and later[1] in ("reads", "updates") and _is_private(task, name, by_rule):
            yield MergedVariable(line, name, text.count("\n", 0, written) + 1, text.count("\n", 0, later[0]) + 1)


# --- Fortran


def _find_line(code: Sequence[str], pattern: re.Pattern[str], lines: Iterable[int]) -> int | None:
    """Return the first of the given line indices whose text a pattern matches; None if there is none."""
    return next((k for k in lines if pattern.match(code[k])), None)


def _find_in_fortran(lines: Sequence[str], line: int, task: OpenMPDirective) -> Iterator[MergedVariable]:
    """Yield the variables of the task at a line of a free-form Fortran source, its text in lower case."""
    task = _in_lower_case(task)
    first = _find_line(lines, UNIT, range(line - 1, -1, -1)) or 0
    end = _find_line(lines, _END_TASK, range(line, len(lines)))
    last = _find_line(lines, _END_UNIT, range(line, len(lines)))
    if end is None:
        return
    around = _find_line(lines, _REGION, range(line - 1, first, -1))
    is_in_region = around is not None and not re.match(r"\s*!\$omp\s+end\b", lines[around])
    # The variables of a main program are saved, and so not private by rule.
    by_rule = not is_in_region and not re.match(r"\s*program\b", lines[first])
    code = ["" if one.lstrip().startswith("!") else one.partition("!")[0] for one in lines]
    written: dict[str, int] = {}
    for k in range(line, end):
        if found := _ASSIGNED_FORTRAN.match(code[k]):
            written.setdefault(found[1], k + 1)
    for name, write_line in written.items():
        later = _find_line(code, re.compile(rf".*(?<![\w%]){name}\b(?!\s*[(%])"), range(end, last or len(lines)))
        if later is None or not _is_private(task, name, by_rule) or not _is_local(code[first:line], name):
            continue
        assigned = re.match(rf"\s*{name}\s*=(?!=)(?P<value>.*)$", code[later])
        if not assigned or re.search(rf"\b{name}\b", assigned["value"]):
            yield MergedVariable(line, name, write_line, later + 1)


def _is_local(declarations: Sequence[str], name: str) -> bool:
    """Return whether lines declare a scalar of an intrinsic type that is not saved."""
    declaration = next(
        (one for one in declarations if re.match(rf"\s*{_FORTRAN_TYPES}\b[^:]*::.*\b{name}\b(?!\s*\()", one)), None
    )
    return declaration is not None and not re.search(rf"{_NOT_LOCAL}|\b{name}\s*=", declaration)


def _in_lower_case(directive: OpenMPDirective) -> OpenMPDirective:
    """Return a Fortran directive with the text of its clauses in lower case."""
    return OpenMPDirective(
        directive.head, tuple(OpenMPClause(one.word, one.inside and one.inside.lower()) for one in directive.clauses)
    )
