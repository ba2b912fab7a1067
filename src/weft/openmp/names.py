"""What the program calls the memory of a finding: by its debugging information, else by the lines that access it."""

from __future__ import annotations

import dataclasses
import linecache
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.texts import AccessPlace
from weft.debuginfo.dwarf import DwarfModule, DwarfVariable, Shape, Symbol
from weft.openmp.record import Access, Named, Record

_KEYWORDS: Final = frozenset(
    "if else for while do return int long double float char unsigned signed const static struct sizeof void auto bool"
    " switch case break continue size_t new delete then end call write print read real integer logical complex".split()
)
_NAME: Final = re.compile(r"(?<![\w.\"'])([A-Za-z_]\w*)\b(?!\s*\()")
_FORTRAN_NAME: Final = re.compile(r"(?<![\w.\"'])([A-Za-z]\w*)")
_ATOMIC: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|!\$omp)\s+atomic\b", re.I)
_SINGLE: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\b(?!\s*end\b).*\b(?:single|workshare)\b", re.I)
_PRAGMA: Final = re.compile(r"\s*(?:#\s*pragma|!\$)", re.I)
_ASSIGNED: Final = re.compile(
    r"(?:(?:\+\+|--)\s*)?(?P<name>[A-Za-z_]\w*)\s*(?P<index>(?:\[[^;=]*\]|\([^;=]*\)|->\w+|\.\w+)*)\s*"
    r"(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
)


MOST_LINES: Final = 60
"""Of a single block, before an access in it."""
MOST_SHIFTED: Final = 4
"""Columns that macros make of a difference."""


class Names:
    """The names in one program that runs at an address."""

    def __init__(self, program: Path, base: int) -> None:
        self.base = base
        try:
            self.module: DwarfModule | None = DwarfModule(program)
        except (OSError, ValueError):
            self.module = None
        self.symbols = self.module.symbols() if self.module else []
        self.starts = [one.at for one in self.symbols]

    def close(self) -> None:
        """Give the program's file back."""
        if self.module:
            self.module.close()

    def of(self, record: Record, places: Sequence[tuple[AccessPlace, bool]], fortran: bool) -> Named:
        """What a finding of the runtime is about; `places`: its accesses, and whether they write."""
        address, pc = record.address, record.one.pc - self.base
        found = self._static(address - self.base, pc, fortran) or self._local(record, fortran)
        if found is not None:
            return found
        name = said(places, fortran)
        if not name:
            return Named()
        shape = self._shape(pc, name)
        element = (shape.element or shape.size) if shape else 0
        if record.block is not None and element and _subscripts(places, name, fortran) == 1:
            return Named(name, ((address - record.block) // element + fortran,))
        scalar = record.block is None and not _subscripts(places, name, fortran)
        return Named(name, (), scalar)

    def one_variable(self, record: Record, near: int) -> bool:
        """Whether another address lies in the variable that a finding of the runtime is about."""
        address = record.address
        one = self._symbol(address - self.base)
        if one is not None:
            return one.at <= near - self.base < one.at + one.size
        return any(
            v.at <= address - cfa < v.at + v.shape.size and v.at <= near - cfa < v.at + v.shape.size
            for v, cfa in self._frame(record)
        )

    def _symbol(self, address: int) -> Symbol | None:
        before = bisect_right(self.starts, address)
        return next((s for s in self.symbols[max(0, before - 4) : before] if s.at <= address < s.at + s.size), None)

    def column(self, pc: int) -> int:
        """The column of an access, from its return address; 0 where it is not known."""
        try:
            return self.module.column(pc - self.base - 1) if self.module else 0
        except Exception:  # what a strange file makes of the reader's insides cannot be foreseen
            return 0

    def with_column(self, access: Access) -> AccessPlace:
        """The place of an access with its column."""
        return dataclasses.replace(access.place, column=self.column(access.pc))

    def _shape(self, pc: int, name: str) -> Shape | None:
        try:
            return self.module.named(pc - 1, name) if self.module else None
        except Exception:  # as above
            return None

    def _static(self, address: int, pc: int, fortran: bool) -> Named | None:
        symbol = self._symbol(address)
        if symbol is None or self.module is None:
            return None
        known = [v for v in (*self.module.globals(pc - 1), *self.module.statics(pc - 1)) if v.at == symbol.at]
        name = known[0].name if known else re.sub(r"\.\d+$", "", symbol.name)
        if known:
            return element(name, known[0].shape, address - symbol.at, fortran, known[0].line)
        return Named(name, (), symbol.size <= 8)

    def _local(self, record: Record, fortran: bool) -> Named | None:
        for one, cfa in self._frame(record):
            at = record.address - cfa
            if one.at <= at < one.at + max(one.shape.size, 1):
                return element(one.name, one.shape, at - one.at, fortran, one.line)
        return None

    def _frame(self, record: Record) -> Iterator[tuple[DwarfVariable, int]]:
        """The variables of the function whose frame holds the memory, and where these are counted from."""
        if record.frame is None or self.module is None:
            return
        pc, cfa = record.frame
        try:
            variables = self.module.locals(pc - self.base - 1)
        except Exception:  # as above
            return
        for one in variables:
            if not one.static:
                yield one, cfa


def element(name: str, shape: Shape, offset: int, fortran: bool, line: int) -> Named:
    """The element of a variable at an offset in bytes."""
    lengths = [int(n) for n in re.findall(r"\[(\d+)\]", shape.text)]
    size = shape.element or shape.size
    for one in lengths:
        if shape.element == 0:
            size //= max(one, 1)
    if not lengths or not size:
        return Named(name, (), not lengths and shape.size <= 16, line)
    number, index = offset // size, []
    for length in lengths if fortran else reversed(lengths):
        index.append(number % length)
        number //= length
    if fortran:  # the first index is the fastest; counted from 1, whatever the bounds are
        return Named(name, tuple(i + 1 for i in index), False, line)
    return Named(name, tuple(reversed(index)), False, line)


def is_fortran(place: AccessPlace) -> bool:
    """Whether a place is in a file of Fortran."""
    return Path(place.file).suffix.lower().startswith(".f")


def source(place: AccessPlace) -> str:
    """The text of a place's line."""
    return linecache.getline(place.file, place.line) if place.file and place.line else ""


def line_of(place: AccessPlace) -> str:
    """The text of a line as GCC's preprocessor leaves it, whose columns the program has; macros are not replaced."""
    text = source(place)
    if _PRAGMA.match(text):
        return ""
    text = re.sub(r"//.*|/\*.*?\*/", " ", text).rstrip()
    return re.sub(r"(?<=\S)\s+", " ", text)


def single_of(at: AccessPlace, access: AccessPlace) -> AccessPlace:
    """The directive of a single block: gfortran gives some another line; there the last one before counts."""
    if at.file != access.file or (at.line <= access.line and _SINGLE.match(source(at))):
        return at
    for line in range(access.line, max(0, access.line - MOST_LINES), -1):
        if _SINGLE.match(linecache.getline(at.file, line)):
            return dataclasses.replace(at, line=line)
    return at


def behind_atomic(file: str, line: int) -> int:
    """The line of the statement that a directive `atomic` belongs to: the compiler gives it the directive's."""
    if not _ATOMIC.match(linecache.getline(file, line) if file and line else ""):
        return line
    for k in range(line + 1, line + 4):
        text = linecache.getline(file, k).strip()
        if text and text != "{" and not text.startswith(("//", "/*", "!")):
            return k
    return line


def said(places: Sequence[tuple[AccessPlace, bool]], fortran: bool) -> str:
    """The name that the lines of two accesses have in common, what is written first."""
    texts = [line_of(place) for place, _ in places]
    sets = [set(_names(text, fortran)) for text in texts]
    common = set.intersection(*sets) if sets else set()
    for (place, write), text in zip(places, texts, strict=True):
        assigned = list(_ASSIGNED.finditer(text)) if write else []
        here = [found for found in assigned if found.start() < place.column <= _statement_end(text, found.end())]
        for found in here[-1:] or assigned:
            name = found["name"].lower() if fortran else found["name"]
            if name in common:
                return name
    for (place, write), text in zip(places, texts, strict=True):
        if not write and not fortran and (name := _subscripted(text, place.column)) in common:
            return name
    for text in texts:
        for name in _names(text, fortran):
            if name in common and re.search(rf"\b{re.escape(name)}\s*[\[(]", text, re.I if fortran else 0):
                return name
    return next((name for text in texts for name in _names(text, fortran) if name in common), "")


def _subscripted(text: str, column: int) -> str:
    """The name whose subscript begins at a column, which is that of a read of an element; of several the last one.

    Macros before it shift a column by a little.
    """
    begins = [k for k, one in enumerate(text, 1) if one == "[" and abs(k - column) <= MOST_SHIFTED]
    if not column or not begins:
        return ""
    before = text[: min(begins, key=lambda k: abs(k - column)) - 1].rstrip()
    while before.endswith("]"):
        depth, at = 1, len(before) - 1
        while at and depth:
            at -= 1
            depth += (before[at] == "]") - (before[at] == "[")
        before = before[:at].rstrip()
    found = re.search(r"[A-Za-z_]\w*$", before)
    return found[0] if found else ""


def _statement_end(text: str, at: int) -> int:
    """Where the statement with a place of a line ends."""
    return next((k for k in range(at, len(text)) if text[k] in ";{}"), len(text))


def _names(text: str, fortran: bool) -> Iterable[str]:
    pattern = _FORTRAN_NAME if fortran else _NAME
    for found in pattern.findall(re.sub(r'"[^"]*"', "", text)):
        name = found.lower() if fortran else found
        if name not in _KEYWORDS:
            yield name


def _subscripts(places: Sequence[tuple[AccessPlace, bool]], name: str, fortran: bool) -> int:
    """How many subscripts a name has in the first of the lines."""
    text = line_of(places[0][0])
    if fortran:
        found = re.search(rf"\b{re.escape(name)}\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text, re.I)
        return re.sub(r"\([^()]*\)", "", found[1]).count(",") + 1 if found else 0
    found = re.search(rf"\b{re.escape(name)}\s*((?:\[[^\]]*(?:\[[^\]]*\][^\]]*)*\]\s*)+)", text)
    if not found:
        return 0
    depth = count = 0
    for one in found[1]:
        count += one == "[" and not depth
        depth += (one == "[") - (one == "]")
    return count
