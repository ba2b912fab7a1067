"""Find reductions whose declared operation is not what the loop does, from the source alone.

The threads' partial results are combined by the declared operation. If each update in the loop's body is another
operation (products declared as a sum), no schedule gives the loop's result. A body that uses the variable in any other
way is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.openmp.directives import OpenMPDirective, find_closing_bracket, find_line_starts
from weft.openmp.source_rewriting import FIXED_SUFFIXES, read_directives, source_language

_LOOPS: Final = frozenset(("for", "simd", "taskloop", "distribute", "loop"))
_LOOPS_FORTRAN: Final = (_LOOPS - {"for"}) | {"do"}
_BLOCKS: Final = frozenset(("parallel", "task", "scope", "sections"))
"""What else has reductions, of the block after it."""
_CLAUSES: Final = frozenset(("reduction", "in_reduction"))
_DECLARED: Final = re.compile(
    r"\s*(?:default\s*,\s*)?(?P<operation>\+|-|\*|&&|\|\||&|\||\^|(?i:\.(?:and|or)\.)|[A-Za-z_]\w*)\s*:(?!:)(?P<names>.*)$",
    re.S,
)
_OWN: Final = re.compile(r"\bdeclare\s+reduction\s*(?=\()", re.I)
_OF_OWN: Final = re.compile(r"\(\s*(?P<name>\w+)\s*:(?!:)(?:::|[^:])*:(?!:)(?P<combiner>.*)\)$", re.S)
_PLAIN: Final = r"[^()<>=!&|?:;\[\]]*"
_VALUE: Final = rf"{_PLAIN}(?:(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\([^()]*\)){_PLAIN})*"
"""An expression, without comparisons but in its subscripts and calls. It matches in one way only, so that what does not
fit behind it is seen at once."""
_HEAD: Final = re.compile(r"\s*(?P<word>for|while|if)\s*(?=\()")
_NOISE: Final = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.S)
LARGEST: Final = "the largest value"
SMALLEST: Final = "the smallest value"
EXTREME: Final = "the largest or smallest value"
_NAMED: Final = {"max": LARGEST, "min": SMALLEST}
_NEVER: Final = {
    "+": ("*", LARGEST, SMALLEST, EXTREME),
    "-": ("*", LARGEST, SMALLEST, EXTREME),
    "*": ("+", LARGEST, SMALLEST, EXTREME),
    "max": (SMALLEST,),
    "min": (LARGEST,),
    "|": ("&", "&&"),
    "||": ("&", "&&"),
    "&": ("|", "||"),
    "&&": ("|", "||"),
}
"""What a loop never is to compute under each operation. Others may come to the same, of truth values or single bits: a
sum of different bits is their union."""
_NEVER_FORTRAN: Final = {
    **{by: _NEVER[by] for by in "+-*"},
    ".and.": (".or.",),
    ".or.": (".and.",),
    "iand": ("ior",),
    "ior": ("iand",),
    "max": ("+", "*", SMALLEST),
    "min": ("+", "*", LARGEST),
}
"""Threads begin with the smallest number for the largest value, below which is nothing; in C that may be an unsigned 0,
to which some add."""


@dataclass(frozen=True, slots=True)
class WrongReduction:
    """A variable of a reduction: the operation that was declared, and the one that its first update computes."""

    directive_line: int
    name: str
    declared: str
    computed: str
    update_line: int
    is_loop: bool = True
    """Whether the directive is a loop's."""


def find_misdeclared_reductions(source: Path) -> Iterator[WrongReduction]:
    """Yield the reductions of a source file that declare another operation than their loops or blocks compute."""
    text = source.read_text(encoding="utf-8", errors="replace")
    if source_language(source) == "fortran":
        if source.suffix.lower() not in FIXED_SUFFIXES:
            yield from _find_misdeclared_fortran(source, text.split("\n"))
        return
    text = blank_comments_and_texts(text)
    starts = find_line_starts(text)
    own = _find_user_defined_operations(text)
    for line, one in read_directives(source):
        loop, behind = bool(_LOOPS & set(one.head)), _find_directive_end(text, starts[line - 1])
        body = (
            find_loop_body_range(text, behind)
            if loop
            else find_block_range(text, behind)
            if _BLOCKS & set(one.head)
            else None
        )
        if body is None:
            continue
        for operation, name in _declared_reductions(one):
            found = _find_update_operation_c(text[body[0] : body[1]], name)
            if found and found[0] in _NEVER.get(own.get(operation, operation), ()):
                at = text.count("\n", 0, body[0] + found[1]) + 1
                said = f"{operation} ({own[operation]})" if operation in own else operation
                yield WrongReduction(line, name, said, found[0], at, loop)


def blank_comments_and_texts(source_text: str) -> str:
    """Return C or C++ with blanks in place of its comments and literals; each line keeps its place."""
    return _NOISE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source_text)


def _find_user_defined_operations(source_text: str) -> dict[str, str]:
    """Return the reductions that `declare reduction` defines in C or C++: name -> the operation of its combiner. A name
    that is defined with several operations, or with an unknown one, is left out.
    """
    found: dict[str, set[str]] = {}
    for one in _OWN.finditer(source_text):
        inside = _OF_OWN.match(
            source_text[one.end() : find_closing_bracket(source_text, one.end()) + 1].replace("\\\n", "  ")
        )
        if inside:
            does = _find_update_operation_c(inside["combiner"] + ";", "omp_out")
            found.setdefault(inside["name"], set()).add(does[0] if does else "")
    back = {does: name for name, does in _NAMED.items()}
    return {name: back.get(*does, *does) for name, does in found.items() if len(does) == 1 and does != {""}}


def _declared_reductions(directive: OpenMPDirective) -> Iterator[tuple[str, str]]:
    """Yield (operation, variable) for each variable in the reduction clauses of a directive."""
    for clause in directive.clauses:
        found = _DECLARED.match(clause.inside or "") if clause.word in _CLAUSES else None
        for name in found["names"].split(",") if found else ():
            if found and re.fullmatch(r"\s*[A-Za-z_]\w*\s*", name):
                yield found["operation"], name.strip()


def _find_directive_end(source_text: str, begin: int) -> int:
    """Return the index of the end of the directive that begins at an index, after its continuation lines."""
    end = source_text.find("\n", begin)
    while end > 0 and source_text[:end].rstrip(" \t").endswith("\\"):
        end = source_text.find("\n", end + 1)
    return len(source_text) if end < 0 else end


def find_loop_body_range(source_text: str, position: int) -> tuple[int, int] | None:
    """Return (begin, end) of the code that the loop or condition at a position of the text controls. Loops nested
    directly in it belong to the code, with their heads. None if there is no loop or condition, or if the end of the
    code is not found.
    """
    heads = 0
    start = position
    while head := _HEAD.match(source_text, position):
        end = find_closing_bracket(source_text, head.end())
        if end < 0:
            return None
        start = start if heads else end + 1
        position, heads = end + 1, heads + 1
    if not heads:
        return None
    last = _find_statement_end(source_text, position)
    return None if last is None else (start, last)


def find_block_range(text: str, at: int) -> tuple[int, int] | None:
    """Return (begin, end) of the statement after a directive that is no loop; None if another directive follows."""
    end = None if re.match(r"\s*#", text[at:]) else _find_statement_end(text, at)
    return None if end is None else (at, end)


def _find_statement_end(source_text: str, begin: int) -> int | None:
    """Return the index after a statement (a block, or up to a semicolon); None if an `else` follows."""
    if re.match(r"\s*\{", source_text[begin:]):
        depth, k = 0, begin
        while k < len(source_text):
            depth += (source_text[k] == "{") - (source_text[k] == "}")
            k += 1
            if source_text[k - 1] == "}" and not depth:
                break
    else:
        k = source_text.find(";", begin) + 1
    return None if k <= begin or re.match(r"\s*else\b", source_text[k:]) else k


def _find_update_operation_c(body: str, name: str) -> tuple[str, int] | None:
    """Return (operation, index of the first update) if all uses of a variable are updates by one operation; None
    otherwise.
    """
    word = rf"(?<![\w.>]){re.escape(name)}\b(?!\s*(?:\[|\.|->|\())"
    update = re.compile(
        rf"(?P<compound>{word}\s*(?P<by>\+|-|\*|&|\||\^)=)"
        rf"|(?P<step>(?:\+\+|--)\s*{word}|{word}\s*(?:\+\+|--))"
        rf"|if\s*\((?:(?P<one>{_VALUE})(?P<sign>[<>])=?\s*{word}|\s*{word}\s*(?P<back>[<>])=?(?P<two>{_VALUE}))\s*\)"
        rf"\s*\{{?\s*{word}\s*=(?!=)(?=(?P<taken>[^;]*);)"
        rf"|{word}\s*=(?!=)\s*(?:std::)?f?(?P<call>max|min|MAX|MIN)(?:[fl]|imum)?\s*\((?:\s*{word}\s*,|[^;]*,\s*{word}\s*\)\s*;)"
        rf"|{word}\s*=(?!=)\s*\(?(?P<left>{_VALUE})(?P<than>[<>])=?(?P<right>{_VALUE})\)?\s*\?(?P<yes>{_VALUE}):(?P<no>{_VALUE});"
        rf"|(?P<again>{word}\s*=(?!=)\s*{word}\s*(?P<with>&&|\|\||[-+*&|^])(?P<rest>[^;]*);)"
    )
    sorts: list[tuple[str, int]] = []
    left = body
    for found in update.finditer(body):
        left = left[: found.start()] + " " * (found.end() - found.start()) + left[found.end() :]
        if (
            found["again"]
            and found["with"] == "*"
            and re.search(r"[-+]", re.sub(r"\([^()]*\)|\[[^\]]*\]", "", found["rest"]))
        ):
            return None
        sort = "+" if found["step"] else found["by"] or found["with"] or _find_extreme_operation(found, name)
        if not sort:
            return None
        sorts.append(("+" if sort == "-" else sort, found.start() + len(found[0]) - len(found[0].lstrip())))
    if re.search(rf"\b{re.escape(name)}\b", left) or len({sort for sort, _ in sorts}) != 1:
        return None
    return sorts[0]


def _find_extreme_operation(update: re.Match[str], variable_name: str) -> str:
    """Return which value an update of a variable keeps: LARGEST, SMALLEST, or EXTREME if the source does not show
    which; "" if it keeps none of these. `update`: the match of the pattern for such updates.
    """
    if update["call"]:
        return _NAMED[update["call"].lower()]

    def plain(part: str) -> str:
        return re.sub(r"\s+", "", update[part] or "")

    if update["yes"]:
        left, right, yes, no = map(plain, ("left", "right", "yes", "no"))
        if variable_name not in (left, right) or {left, right} != {yes, no}:
            return ""
        return LARGEST if (update["than"] == ">") == (yes == left) else SMALLEST
    if plain("taken") != plain("one") + plain("two"):
        return EXTREME
    return LARGEST if update["sign"] == ">" or update["back"] == "<" else SMALLEST


_DO: Final = re.compile(r"(?:\w+\s*:\s*)?do\b(?!\s*\d)(?!\s*=)")
_END_DO: Final = re.compile(r"end\s*do\b")
_NOT_TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")


def _find_misdeclared_fortran(source: Path, lines: Sequence[str]) -> Iterator[WrongReduction]:
    """Yield the reductions of a free-form Fortran source that declare another operation than their loops compute."""
    for line, one in read_directives(source):
        if one.head[0] == "end" or not _LOOPS_FORTRAN & set(one.head):
            continue
        body = _read_loop_statements_fortran(lines, line)
        for operation, name in _declared_reductions(one):
            found = _find_update_operation_fortran(body, name.lower())
            if found and found[0] in _NEVER_FORTRAN.get(operation.lower(), ()):
                yield WrongReduction(line, name, operation.lower(), found[0], found[1])


def _read_loop_statements_fortran(lines: Sequence[str], directive_line: int) -> list[tuple[int, str]]:
    """Return (line, statement) for the loop after a directive, in lower case; empty if it is not a plain loop."""
    found: list[tuple[int, str]] = []
    depth, number = 0, directive_line
    while number < len(lines):
        first, text = number + 1, ""
        while number < len(lines):
            part = _NOT_TEXT.sub("''", lines[number]).partition("!")[0].strip().lower().removeprefix("&")
            number += 1
            text += part.removesuffix("&")
            if part and not part.endswith("&"):
                break
        if not text:
            continue
        depth += bool(_DO.match(text)) - bool(_END_DO.match(text))
        if ";" in text or (not found and not depth):
            return []
        found.append((first, text))
        if not depth:
            return found
    return []


def _find_update_operation_fortran(statements: Sequence[tuple[int, str]], name: str) -> tuple[str, int] | None:
    """Return (operation, line of the first update) if all uses of a variable are updates by one operation; None
    otherwise.
    """
    word = rf"(?<![\w%]){re.escape(name)}\b(?!\s*[(%])"
    used = re.compile(rf"\b{re.escape(name)}\b")
    update = re.compile(
        rf"(?:if\s*\((?P<when>.*)\)\s*)?{word}\s*=(?!=)\s*(?:{word}\s*(?P<by>\+|-|\*(?!\*)|\.and\.|\.or\.)(?P<rest>.*)"
        rf"|(?P<call>max|min|iand|ior)\s*\(\s*{word}\s*,(?P<others>.*)\))$"
    )
    largest = re.compile(
        rf"if\s*\((?P<one>[^<>]*)(?P<sign>[<>]=?|\.[gl][te]\.)\s*{word}\s*\)\s*{word}\s*=(?!=)(?P<rest>.*)$"
    )
    sorts: list[tuple[str, int]] = []
    for line, text in statements:
        if not used.search(text):
            continue
        if (found := largest.match(text)) and not used.search(found["rest"]):
            alike = re.sub(r"\s+", "", found["one"]) == re.sub(r"\s+", "", found["rest"])
            sorts.append(
                (EXTREME if not alike else LARGEST if found["sign"][0:2] in (">", ">=", ".g") else SMALLEST, line)
            )
            continue
        found = update.match(text)
        if found is None or any(used.search(found[part] or "") for part in ("when", "rest", "others")):
            return None
        by = found["by"] or found["call"]
        outer = re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", found["rest"] or ""))
        if (by == "*" and re.search(r"[-+(]", outer)) or (by == ".and." and ".or." in outer):
            return None
        sorts.append(({"-": "+", **_NAMED}.get(by, by), line))
    return sorts[0] if len({sort for sort, _ in sorts}) == 1 else None
