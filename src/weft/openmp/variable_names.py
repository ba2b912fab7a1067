"""Name the memory of a finding by the program's debugging information, else by the source lines that access it."""

from __future__ import annotations

import dataclasses
import linecache
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.source_map import AccessPlace
from weft.debuginfo.dwarf import DwarfModule, DwarfVariable, Shape, Symbol
from weft.openmp.library_functions import called_function
from weft.openmp.raw_findings import Access, NamedElement, RawOpenMPFinding

_KEYWORDS: Final = frozenset(
    "if else for while do return int long double float char unsigned signed const static struct sizeof void auto bool"
    " switch case break continue size_t new delete then end call write print read real integer logical complex".split()
)
_NAME: Final = re.compile(r"(?<![\w.\"'])([A-Za-z_]\w*)\b(?!\s*\()")
_FORTRAN_NAME: Final = re.compile(r"(?<![\w.\"'])([A-Za-z]\w*)")
_ATOMIC: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|!\$omp)\s+atomic\b", re.I)
_ATOMIC_CALL: Final = re.compile(r"\b__(?:sync|atomic)_\w+\s*\(\s*(?:\([^()]*\)\s*)*&?\s*(?P<name>[A-Za-z_]\w*)")
_BY_POINTER: Final = re.compile(r"(?<![\w)\]])\s*\*\s*[A-Za-z_]\w*|\b__(?:sync|atomic)_\w+\s*\(")
_PASSED: Final = re.compile(r"[(,]\s*&\s*([A-Za-z_]\w*)\s*[\[,)]")
_ASSIGNMENT_OPERATOR: Final = re.compile(r"\boperator\s*(?:[-+*/%&|^]|<<|>>)?=(?:\(|$)")
_SINGLE: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\b(?!\s*end\b).*\b(?:single|workshare)\b", re.I)
_PRAGMA: Final = re.compile(r"\s*(?:#\s*pragma|[!c*]\$)", re.I)
_ASSIGNED: Final = re.compile(
    r"(?:(?:\+\+|--)\s*)?(?P<name>[A-Za-z_]\w*)\s*(?P<index>(?:\[[^;=]*\]|\([^;=]*\)|->\w+|\.\w+)*)\s*"
    r"(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
)

_OPERATOR: Final = re.compile(r"\+\+|--|(?:[-+*/%&|^]|<<|>>)=|(?P<assigned>(?P<declared>[A-Za-z_]\w*\s*)?=(?!=))|\[")
_OPERAND: Final = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\b(?!\s*(?:\[|\(|->|\.))")
_SIMD: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\s+simd\b", re.I)
_COUNTED: Final = re.compile(r"\s*(?:for\s*\(\s*(?P<name>\w+)\s*=|do\s+(?:\d+\s+)?(?P<index>\w+)\s*=)", re.I)
_LOOP_HEAD: Final = re.compile(
    r"\bfor\s*\(\s*\w+(?:\s+\w+)+\s*=[^;()]*;(?:[^;()]|\([^()]*\))*;[^;()]*\)(?=\s*[\w*(+-])"
)
_LOCAL_STATIC: Final = re.compile(r"\.\d+$|^_ZZ")
"""How the compiler names a static variable of a function."""

MOST_LINES: Final = 60
"""Of a single block, before an access in it."""
MOST_HEAD_LINES: Final = 8
"""Between a directive and the head of its loop."""
MOST_SHIFTED: Final = 4
"""Columns that macros make of a difference."""


class VariableNames:
    """Variables of one program, looked up by address; `base` is the address at which the program was loaded."""

    def __init__(self, program: Path, base: int) -> None:
        self.base = base
        try:
            self.module: DwarfModule | None = DwarfModule(program)
        except (OSError, ValueError):
            self.module = None
        self.symbols = self.module.data_symbols() if self.module else []
        self.starts = [one.at for one in self.symbols]

    def close(self) -> None:
        """Close the program's file."""
        if self.module:
            self.module.close()

    def name_memory(
        self,
        record: RawOpenMPFinding,
        accesses: Sequence[tuple[AccessPlace, bool]],
        fortran: bool,
        calls: Sequence[Sequence[AccessPlace]] = (),
    ) -> NamedElement:
        """Return the variable and element that a raw finding is about.

        `accesses`: the place of each access, and whether it writes; the source lines give the name if debugging
        information does not. `calls`: the calls that lead to each of them, in whose lines the name may stand instead.
        """
        address, pc = record.address, record.access.pc - self.base
        if (
            function := self._find_library_function(record, [get_preprocessed_line(place) for place, _ in accesses])
        ) is not None:
            return NamedElement(f"{function}()'s own data", library_function=function)
        found = self._name_static_variable(address - self.base, pc, fortran) or self._name_local_variable(
            record, fortran
        )
        if found is not None:
            return found
        if counter := next(filter(None, map(find_simd_counter, (record.access, record.other_access))), ""):
            return NamedElement(counter, (), True)
        name = guess_common_name(accesses, fortran, calls)
        if not name:
            return NamedElement()
        shape = self._find_shape(pc, name)
        element = (shape.element or shape.size) if shape else 0
        if record.block is not None and element and _count_subscripts(accesses, name, fortran) == 1:
            return NamedElement(name, ((address - record.block) // element + fortran,))
        scalar = record.block is None and not _count_subscripts(accesses, name, fortran)
        return NamedElement(name, (), scalar)

    def is_same_variable(self, record: RawOpenMPFinding, other_address: int) -> bool:
        """Return whether another address is in the variable that a raw finding is about."""
        address = record.address
        one = self._find_symbol(address - self.base)
        if one is not None:
            return one.at <= other_address - self.base < one.at + one.size
        return any(
            v.at <= address - cfa < v.at + v.shape.size and v.at <= other_address - cfa < v.at + v.shape.size
            for v, cfa in self._find_frame_variables(record)
        )

    def _find_library_function(self, record: RawOpenMPFinding, source_lines: Sequence[str]) -> str | None:
        """Return the function of the C library whose static data a raw finding is about; None if it is about other
        memory.
        """
        if record.block is not None or record.frame is not None:
            return None
        symbol = self._find_symbol(record.address - self.base)
        if symbol is not None and not symbol.name.startswith("weft_state_of_"):
            return None
        return called_function(source_lines) or None

    def _find_symbol(self, address: int) -> Symbol | None:
        """Return the symbol of the program file at an address of the file; None if there is none."""
        before = bisect_right(self.starts, address)
        return next((s for s in self.symbols[max(0, before - 4) : before] if s.at <= address < s.at + s.size), None)

    def find_access_column(self, access: Access) -> int:
        """Return the source column (from 1) of an access; 0 if it is unknown."""
        try:
            return self.module.find_column(access.pc - self.base - 1, access.place.line) if self.module else 0
        except Exception:  # what a strange file makes of the reader's insides cannot be foreseen
            return 0

    def place_with_column(self, access: Access) -> AccessPlace:
        """Return the place of an access, with its column."""
        return dataclasses.replace(access.place, column=self.find_access_column(access))

    def _find_shape(self, pc: int, name: str) -> Shape | None:
        """Return the layout of the variable with the given name at a program counter. None if debugging information
        lacks it.
        """
        try:
            return self.module.find_pointed_type(pc - 1, name) if self.module else None
        except Exception:  # as above
            return None

    def _name_static_variable(self, address: int, pc: int, fortran: bool) -> NamedElement | None:
        """Return the static or global variable at an address of the program file, with its element; None if there is
        none.
        """
        symbol = self._find_symbol(address)
        if symbol is None or self.module is None:
            return None
        known = [
            v
            for v in (*self.module.find_global_variables(pc - 1), *self.module.find_function_statics(pc - 1))
            if v.at == symbol.at
        ]
        name = known[0].name if known else re.sub(r"\.\d+$", "", symbol.name)
        element = NamedElement(name, (), symbol.size <= 8)
        if known:
            element = name_element(name, known[0].shape, address - symbol.at, fortran, known[0].line)
        return dataclasses.replace(
            element, is_static=True, is_local_static=bool(_LOCAL_STATIC.search(symbol.name)),
            is_common_block=fortran and not known and symbol.name.endswith("_"),
        )  # fmt: skip

    def _name_local_variable(self, record: RawOpenMPFinding, fortran: bool) -> NamedElement | None:
        """Return the local variable, with its element, that lies at the address of a raw finding; None if the address
        is in no local variable of the function's frame.
        """
        for one, cfa in self._find_frame_variables(record):
            at = record.address - cfa
            if one.at <= at < one.at + max(one.shape.size, 1):
                return name_element(one.name, one.shape, at - one.at, fortran, one.line)
        return None

    def _find_frame_variables(self, record: RawOpenMPFinding) -> Iterator[tuple[DwarfVariable, int]]:
        """Yield (variable, CFA) for the local variables of the function whose frame on the stack has a raw finding's
        memory; nothing if it is in no frame. The CFA is the address from which the variables' places count.
        """
        if record.frame is None or self.module is None:
            return
        pc, cfa = record.frame
        try:
            variables = self.module.find_local_variables(pc - self.base - 1)
        except Exception:  # as above
            return
        for one in variables:
            if not one.static:
                yield one, cfa


def name_element(name: str, shape: Shape, offset: int, fortran: bool, line: int) -> NamedElement:
    """Return the element at `offset` bytes from the start of a variable. In Fortran, indices begin at 1 and the last
    one varies slowest.
    """
    lengths = [int(n) for n in re.findall(r"\[(\d+)\]", shape.text)]
    size = shape.element or shape.size
    for one in lengths:
        if shape.element == 0:
            size //= max(one, 1)
    if not lengths or not size:
        return NamedElement(name, (), not lengths and shape.size <= 16, line)
    number, index = offset // size, []
    for length in lengths if fortran else reversed(lengths):
        index.append(number % length)
        number //= length
    if fortran:  # the first index is the fastest; counted from 1, whatever the bounds are
        return NamedElement(name, tuple(i + 1 for i in index), False, line)
    return NamedElement(name, tuple(reversed(index)), False, line)


def is_fortran_place(place: AccessPlace) -> bool:
    """Return whether a place is in a Fortran file."""
    return Path(place.file).suffix.lower().startswith(".f")


def source_line(place: AccessPlace) -> str:
    """Return the text of the source line of a place; "" if it cannot be read."""
    return linecache.getline(place.file, place.line) if place.file and place.line else ""


def is_simd_loop(place: AccessPlace) -> bool:
    """Return whether a simd directive, without another construct, stands at a place."""
    return bool(_SIMD.match(source_line(place)))


def find_simd_counter(access: Access) -> str:
    """Return the variable that counts a simd loop, if an access is what the loop itself does, beside its iterations:
    that gives the variable its last value. "" if it is another access.
    """
    at = access.strand.at
    if access.strand.what != "thread" or not is_simd_loop(at):
        return ""
    after = (linecache.getline(at.file, line) for line in range(at.line + 1, at.line + MOST_HEAD_LINES))
    found = next(filter(None, map(_COUNTED.match, after)), None)
    return str(found["name"] or found["index"]) if found else ""


def get_preprocessed_line(place: AccessPlace) -> str:
    """Return a source line with its spaces and comments as GCC's preprocessor leaves them, so that the compiler's
    columns fit the text. Macros are not expanded; for a pragma, return "".
    """
    text = source_line(place)
    if _PRAGMA.match(text):
        return ""
    text = re.sub(r"//.*|/\*.*?\*/", " ", text).rstrip()
    text = re.sub(r"(?<=\S)\s+", " ", text)
    if (head := _LOOP_HEAD.search(text)) and not head.start() < place.column <= head.end():
        text = text[: head.start()] + " " * len(head[0]) + text[head.end() :]  # it counts with a variable of its own
    return text


def find_single_directive(block_place: AccessPlace, access_place: AccessPlace) -> AccessPlace:
    """Return the place of the `single` directive whose block has the access.

    gfortran gives some of these blocks another line (`block_place`); then the last `single` directive before the access
    is returned.
    """
    if block_place.file != access_place.file or (
        block_place.line <= access_place.line and _SINGLE.match(source_line(block_place))
    ):
        return block_place
    for line in range(access_place.line, max(0, access_place.line - MOST_LINES), -1):
        if _SINGLE.match(linecache.getline(block_place.file, line)):
            return dataclasses.replace(block_place, line=line)
    return block_place


def is_directive(file: str | None, line: int) -> bool:
    """Return whether a directive stands in a line of a file."""
    return bool(file and line and _PRAGMA.match(linecache.getline(file, line)))


def find_atomic_statement_line(file_name: str, line: int) -> int:
    """Return the line of the statement that follows an `atomic` directive at the line; the line itself if no such
    directive is there. The compiler gives some statements the line of the directive.
    """
    if not _ATOMIC.match(linecache.getline(file_name, line) if file_name and line else ""):
        return line
    for k in range(line + 1, line + 4):
        text = linecache.getline(file_name, k).strip()
        if text and text != "{" and not text.startswith(("//", "/*", "!")):
            return k
    return line


def guess_common_name(
    accesses: Sequence[tuple[AccessPlace, bool]], fortran: bool, calls: Sequence[Sequence[AccessPlace]] = ()
) -> str:
    """Return the likely name of the variable that several accesses share: a name in all their source lines, preferably
    one that is written there; if they have none in common, one in the lines of the `calls` that lead to them, too. ""
    if these have no name in common either.
    """
    texts = [get_preprocessed_line(place) for place, _ in accesses]
    sets = [
        set(_find_identifiers(text or source_line(place), fortran))
        for text, (place, _) in zip(texts, accesses, strict=True)
    ]
    common = set.intersection(*sets) if sets else set()
    if not common and len(calls) == len(sets):
        outer = [
            [name for call in one for name in _find_identifiers(get_preprocessed_line(call), fortran)] for one in calls
        ]
        common = set.intersection(*(own.union(more) for own, more in zip(sets, outer, strict=True)))
    if name := _find_assigned_object(accesses, calls) or _find_passed_name(texts, calls):
        return name
    exact = (
        []
        if fortran
        else [
            _variable_at_operator(text, place.column, write)
            for (place, write), text in zip(accesses, texts, strict=True)
        ]
    )
    for name in exact:
        if name in common and all(other in ("", name) for other in exact):
            return name
    for name, (_, write) in zip(exact, accesses, strict=True) if exact else ():
        if name and write and all(re.search(rf"\b{re.escape(name)}\s*\(", text) for text in texts):
            return name  # an operator () of its class gives the element
    written = (
        [
            name
            for name, (_, write), text in zip(exact, accesses, texts, strict=True)
            if write and not re.search(rf"\]\s*\.\s*{name}\b", text)
        ]
        if exact and all(exact)
        else []
    )
    if written and len(set(exact)) > 1:  # each function has its own name for it
        return written[0]
    for (place, write), text in zip(accesses, texts, strict=True):
        assigned = list(_ASSIGNED.finditer(text)) if write else []
        here = [found for found in assigned if found.start() < place.column <= _statement_end(text, found.end())]
        for found in here[-1:] or assigned:
            name = found["name"].lower() if fortran else found["name"]
            if name in common:
                return name
    for (place, write), text in zip(accesses, texts, strict=True):
        if not write and not fortran and (name := _subscripted_name(text, place.column)) in common:
            return name
    for text in texts:
        for name in _find_identifiers(text, fortran):
            if name in common and re.search(rf"\b{re.escape(name)}\s*[\[(]", text, re.I if fortran else 0):
                return name
    for (_, write), text in zip(accesses, texts, strict=True):  # a common name that is only an index is not written
        assigned = list(_ASSIGNED.finditer(text)) if write else []
        if assigned and all(found["index"] for found in assigned):
            return assigned[0]["name"].lower() if fortran else assigned[0]["name"]
    return next((name for text in texts for name in _find_identifiers(text, fortran) if name in common), "")


def _find_assigned_object(accesses: Sequence[tuple[AccessPlace, bool]], calls: Sequence[Sequence[AccessPlace]]) -> str:
    """Return the variable that a statement assigns to by an operator of its class, if that makes one of the accesses
    and the calls of the others have its name, too; "" otherwise.
    """
    if not (calls and all(calls)):
        return ""
    lines = [" ".join(map(get_preprocessed_line, one)) for one in calls]
    for (place, write), one in zip(accesses, calls, strict=True):
        if not (write and _ASSIGNMENT_OPERATOR.search(place.function)):
            continue
        assigned = [found["name"] for found in _ASSIGNED.finditer(get_preprocessed_line(one[0]))]
        common = (name for name in assigned if all(name in _find_identifiers(line, False) for line in lines))
        if name := next(common, ""):
            return name
    return ""


def _find_passed_name(texts: Sequence[str], calls: Sequence[Sequence[AccessPlace]]) -> str:
    """Return the only variable whose address, or an element's, the calls of all accesses pass on, if the accesses are
    made by a pointer (`*a`) or by an atomic function of the compiler; "" otherwise.
    """
    if not (calls and all(calls) and all(map(_BY_POINTER.search, texts))):
        return ""
    passed = [{name for call in one for name in _PASSED.findall(get_preprocessed_line(call))} for one in calls]
    common = set.intersection(*passed)
    return common.pop() if len(common) == 1 else ""


def _variable_at_operator(line_text: str, column: int, write: bool) -> str:
    """Return the variable of the access whose operator (`=`, `++`, `[`) is at a column of a line; "" if no operator is
    there.
    """
    operator = _OPERATOR.match(line_text, column - 1) if column else None
    if operator is None:
        return ""
    if operator["assigned"] and not write:  # a read for `x = a[i]`
        read = re.match(r"\s*\**\s*([A-Za-z_]\w*)\s*[\[;,]", line_text[operator.end() :])
        return read[1] if read else ""
    if operator["assigned"] and operator["declared"]:
        return ""
    after = _OPERAND.match(line_text, operator.end()) if operator[0] in ("++", "--") else None
    return after["name"] if after else _variable_before(line_text, column - 1)


def _variable_before(line_text: str, end: int) -> str:
    """Return the variable of the operand that ends before an index, without its subscripts."""
    before = line_text[:end].rstrip()
    while before.endswith(("]", ")")):
        depth, end = 1, len(before) - 1
        while end and depth:
            end -= 1
            depth += (before[end] in "])") - (before[end] in "[(")
        is_call = before[end] == "("
        before = before[:end].rstrip()
        if is_call:  # of a function of an object, the object counts
            before = re.sub(r"\s*(?:\.|->)\s*\w+$", "", before)
    found = re.search(r"[A-Za-z_]\w*$", before)
    return found[0] if found else ""


def _subscripted_name(line_text: str, column: int) -> str:
    """Return the name whose subscript begins near a column of a line; "" if there is none. The compiler's column for
    the read of an element is that of its last bracket.

    Macros earlier in the line shift columns a little.
    """
    begins = [k for k, one in enumerate(line_text, 1) if one == "[" and abs(k - column) <= MOST_SHIFTED]
    if not column or not begins:
        return ""
    return _variable_before(line_text, min(begins, key=lambda k: abs(k - column)) - 1)


def _statement_end(text: str, at: int) -> int:
    """Return the index of the end of the statement that holds index `at`."""
    return next((k for k in range(at, len(text)) if text[k] in ";{}"), len(text))


def _find_identifiers(line_text: str, fortran: bool) -> Iterable[str]:
    """Yield the identifiers of a line that are no keywords and not in strings. If an atomic function of the compiler is
    called there, only what it accesses.
    """
    if atomic := _ATOMIC_CALL.search(line_text):
        line_text = atomic["name"]
    pattern = _FORTRAN_NAME if fortran else _NAME
    for found in pattern.findall(re.sub(r'"[^"]*"', "", line_text)):
        name = found.lower() if fortran else found
        if name not in _KEYWORDS:
            yield name


def _count_subscripts(accesses: Sequence[tuple[AccessPlace, bool]], name: str, fortran: bool) -> int:
    """Return how many subscripts a name has where it first has some in the source line of the first access; 0 if it has
    none there.
    """
    text = get_preprocessed_line(accesses[0][0])
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
