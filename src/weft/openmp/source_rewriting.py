"""Rewrite OpenMP sources for the simulated runtime: the directives change, and every line keeps its number."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.openmp import private_variables
from weft.openmp.directives import (
    LANES_IN_ORDER,
    OpenMPDirective,
    parse_directive,
    rewrite_for_runtime,
    split_combined,
)

C_SUFFIXES: Final = frozenset((".c",))
CPLUSPLUS_SUFFIXES: Final = frozenset((".cpp", ".cc", ".cxx"))
FIXED_SUFFIXES: Final = frozenset((".f", ".for", ".ftn"))
FREE_SUFFIXES: Final = frozenset((".f90", ".f95", ".f03", ".f08"))
FORTRAN_SUFFIXES: Final = FIXED_SUFFIXES | FREE_SUFFIXES
SUFFIXES: Final = C_SUFFIXES | CPLUSPLUS_SUFFIXES | FORTRAN_SUFFIXES

COLUMNS: Final = 72
"""Of a line in fixed form."""
DIRECTIVE: Final = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+omp\b|_Pragma\s*\(\s*\"omp\b|^(?:[cC*!]|[ \t]*!)\$omp\b|\[\[\s*omp\s*::", re.I | re.M
)
_PRAGMA: Final = re.compile(r"^(?P<start>[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+)(?P<text>.*)$")
_LOOP: Final = re.compile(r"\s*for\s*\(\s*(?P<index>[A-Za-z_]\w*)\s*=(?!=)")
_MARKER: Final = re.compile(r'^#\s*(?:line\s+)?(?P<line>\d+)\s+"')
_SENTINEL: Final = re.compile(r"^(?P<start>\s*!\$omp)(?P<text>.*)$", re.I)
_FIXED: Final = re.compile(r"^(?P<start>[cC*!]\$omp)(?P<mark>.)(?P<text>.*)$", re.I)
_REQUIRES: Final = re.compile(r"^\s*requires\b", re.I)
_UNTAKEN: Final = re.compile(
    r"[,\s]*\b(?:unified_shared_memory|unified_address|reverse_offload|dynamic_allocators)\b", re.I
)
"""What gcc 12 does not take of a directive `requires`; the host, on which target regions run, has it."""
_ALL_MEMORY: Final = re.compile(r"\bomp_all_memory\b", re.I)
_ALL: Final = "weft_omp_all_memory_"
"""The runtime's variable that stands for all memory in a clause `depend`, which gcc 12 does not know."""
_ALL_FORTRAN: Final = "weft_allmemory"
_ALL_DECLARED: Final = {"c": f"extern char {_ALL};", "c++": f'extern "C" char {_ALL};'}
_TYPED: Final = re.compile(
    r"^\s*(?:integer|real|logical|complex|character|double\s+precision|type\s*\()[^!&]*::[^!&]*$", re.I
)
_READY: Final = frozenset(("extern template class basic_string<char>;",))
"""What libstdc++ has ready of its templates; without the line it is compiled with hooks."""
_DO: Final = re.compile(r"^\s*(?:\w+\s*:\s*)?do\s+(?:\d+\s*,?\s*)?(?P<index>[A-Za-z]\w*)\s*=", re.I)


def source_language(source: Path) -> str:
    """Return the language of a source by its suffix: `c`, `c++` or `fortran`."""
    suffix = source.suffix
    if suffix.lower() in FORTRAN_SUFFIXES:
        return "fortran"
    return "c" if suffix == ".c" else "c++"


def rewrite_c(preprocessed: str, language: str = "c", unchanged_lines: Container[int] = ()) -> str:
    """Return preprocessed C or C++ with its directives rewritten for the runtime, and `omp_get_thread_num` replaced.

    `language`: `c` or `c++`. `unchanged_lines`: lines of directives that must stay as they are.
    """
    lines = preprocessed.split("\n")
    number = 0
    for k, line in enumerate(lines):
        number += 1
        if marker := _MARKER.match(line):
            number = int(marker["line"]) - 1
        found = _PRAGMA.match(line)
        if line.strip() in _READY:
            lines[k] = ""
        if found is None:
            continue
        if _REQUIRES.match(found["text"]):
            lines[k] = _rewrite_requires(found["start"], found["text"])
        if number not in unchanged_lines and _ALL_MEMORY.search(found["text"]):
            lines[k] = found["start"] + _ALL_MEMORY.sub(_ALL, found["text"])
            found = _PRAGMA.match(lines[k]) or found
        one = parse_directive(found["text"])
        if one is not None and number not in unchanged_lines:
            lines[k] = found["start"] + str(rewrite_for_runtime(one, "for", number, _find_loop_variable_c(lines, k)))
            private_variables.insert_watch_call_c(lines, k, one, language)
    lines.insert(0, f"{private_variables.DECLARED[language]} {_ALL_DECLARED[language]}")
    return re.sub(r"\bomp_get_thread_num\b", "weft_omp_get_thread_num", "\n".join(lines))


def _rewrite_requires(start: str, text: str) -> str:
    """Return a directive `requires` with the clauses that the compiler accepts; "" if none is left."""
    left = _UNTAKEN.sub("", text)
    return start + left if re.search(r"requires\W*\w", left, re.I) else ""


def requires_shared_memory(source: Path) -> bool:
    """Return whether a source requires that host and device share memory (`requires unified_shared_memory`)."""
    text = source.read_text(encoding="utf-8", errors="replace")
    sentinel = r"!\$omp" if source_language(source) == "fortran" else r"#\s*pragma\s+omp"
    return bool(re.search(rf"^\s*{sentinel}\s+requires\b.*\bunified_shared_memory\b", text, re.I | re.M))


def _find_loop_variable_c(lines: Sequence[str], directive_line: int) -> str:
    """Return the variable of the loop after a directive; "" if the loop's head declares it."""
    for line in lines[directive_line + 1 : directive_line + 8]:
        if not line.strip() or _MARKER.match(line):
            continue
        found = _LOOP.match(line)
        return found["index"] if found else ""
    return ""


def rewrite_fortran(
    source_text: str, copy_path: Path, is_fixed_form: bool, unchanged_lines: Container[int] = ()
) -> str:
    """Return Fortran source with its directives rewritten for the runtime. A directive of several lines moves to the
    first of these lines.

    `copy_path`: the file to which the text will be written. `unchanged_lines`: lines of directives that must not be
    changed.
    """
    lines = source_text.split("\n")
    if not is_fixed_form:
        _declare_all_memory(lines)
    orders_lanes = False
    for first, last, start, words in _find_fortran_directives(lines, is_fixed_form):
        if _REQUIRES.match(words):
            lines[first] = _rewrite_requires(start, words)
            lines[first + 1 : last + 1] = ["!"] * (last - first)
        one = parse_directive(words, ignores_case=True)
        if one is None or first + 1 in unchanged_lines:
            continue
        if not is_fixed_form:
            private_variables.insert_watch_calls_fortran(lines, last, one, copy_path)
        made = rewrite_for_runtime(one, "do", first + 1, _find_loop_variable_fortran(lines, last))
        if one.head == ("end", "ordered") and orders_lanes:
            made = OpenMPDirective(("end", LANES_IN_ORDER), ())
        if "ordered" in one.head:
            orders_lanes = one.is_order_of_lanes
        parts = split_combined(made)
        if parts == (one,):
            continue
        lines[first] = "\n".join(f"{start} {part}" for part in parts)
        for k in range(first + 1, last + 1):
            lines[k] = "!" if not is_fixed_form else "C"
        if is_fixed_form and len(lines[first]) > COLUMNS:
            lines[first] = "\n".join(map(_wrap_fixed_form, lines[first].split("\n")))
        if "\n" in lines[first]:
            lines[first] += f'\n# {first + 2} "{copy_path}"'
    return "\n".join(lines)


def _wrap_fixed_form(directive_line: str) -> str:
    """Return a directive in fixed form, split into continuation lines if it is too long for one line."""
    start, rest = directive_line[:6], directive_line[6:]
    parts: list[str] = []
    while rest:
        at = rest.rfind(" ", 1, COLUMNS - 6) if len(rest) > COLUMNS - 6 else len(rest)
        at = at if at > 0 else COLUMNS - 6
        parts.append(rest[:at])
        rest = rest[at:]
    return "\n".join((start if not k else start[:5] + "&") + part for k, part in enumerate(parts))


def _find_fortran_directives(lines: Sequence[str], is_fixed_form: bool) -> Iterator[tuple[int, int, str, str]]:
    """Yield (first line index, last line index, sentinel, text) of each directive, its continuation lines joined."""
    k = 0
    while k < len(lines):
        found = _FIXED.match(lines[k]) if is_fixed_form else _SENTINEL.match(lines[k])
        if found is None:
            k += 1
            continue
        first, words = k, found["text"].partition("!")[0]
        k += 1
        while k < len(lines):
            more = _FIXED.match(lines[k]) if is_fixed_form else _SENTINEL.match(lines[k])
            if is_fixed_form:
                if more is None or more["mark"] in " 0":
                    break
                words += " " + more["text"].partition("!")[0]
            else:
                if not words.rstrip().endswith("&") or more is None:
                    break
                words = words.rstrip()[:-1] + " " + more["text"].partition("!")[0].strip().removeprefix("&")
            k += 1
        yield first, k - 1, found["start"], words


def _declare_all_memory(lines: list[str]) -> None:
    """Replace the word `omp_all_memory` by a variable of the runtime, and declare that variable in each program unit
    that uses the word.

    The variable has another name of equal length, because gfortran 13 and later know `omp_all_memory` themselves.
    """
    for k, line in enumerate(lines):
        if not _SENTINEL.match(line) or not _ALL_MEMORY.search(line):
            continue
        at = next((at for at in range(k - 1, -1, -1) if _TYPED.match(lines[at])), None)
        if at is None:
            continue
        lines[k] = _ALL_MEMORY.sub(_ALL_FORTRAN, line)
        if _ALL_FORTRAN not in lines[at]:
            lines[at] += f"; integer(1) :: {_ALL_FORTRAN}; common /weft_omp_all_memory/ {_ALL_FORTRAN}"


def _find_loop_variable_fortran(lines: Sequence[str], directive_line: int) -> str:
    """Return the variable of the DO loop after a directive; "" if no loop follows."""
    for line in lines[directive_line + 1 : directive_line + 8]:
        if not line.strip() or line.lstrip().startswith(("!", "#")):
            continue
        found = _DO.match(line)
        return found["index"] if found else ""
    return ""


def read_directives(source: Path) -> Iterator[tuple[int, OpenMPDirective]]:
    """Yield (line, directive) for each directive that a source file spells out; those made by macros are not seen."""
    text = source.read_text(encoding="utf-8", errors="replace")
    lines = text.split("\n")
    if source_language(source) == "fortran":
        for first, _, _, words in _find_fortran_directives(lines, source.suffix.lower() in FIXED_SUFFIXES):
            if (one := parse_directive(words, ignores_case=True)) is not None:
                yield first + 1, one
        return
    for k, line in enumerate(lines):
        found = _PRAGMA.match(line)
        if found is None:
            continue
        words, more = found["text"], k
        while words.rstrip().endswith("\\") and more + 1 < len(lines):
            more += 1
            words = words.rstrip()[:-1] + " " + lines[more]
        if (one := parse_directive(re.sub(r"/\*.*?\*/|//.*", " ", words))) is not None:
            yield k + 1, one
