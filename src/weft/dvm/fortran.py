"""The Fortran front end: copies of Fortran-DVM(H) sources that call the runtime, line for line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel import runtime
from weft.dataparallel.program import PLAIN, CompileOptions
from weft.dataparallel.source_map import MarkedSource, SourceMap
from weft.dvm.fortran_directives import DirectiveCalls
from weft.dvm.fortran_implied import declare_implied_symbols
from weft.dvm.fortran_lines import FortranSource, SourceLine, read_source
from weft.dvm.fortran_marks import UnitMarks
from weft.dvm.fortran_model import ProgramUnit
from weft.dvm.fortran_names import ArrayMappings, InsertedText, Insertions, VariableNumbers
from weft.dvm.fortran_units import FortranProgram, find_program_units

INTERFACES: Final = runtime.runtime_sources() / "weft_check.f90"


def instrument_fortran_sources(
    paths: Sequence[Path], texts: SourceMap, options: CompileOptions = PLAIN
) -> list[MarkedSource]:
    """Return the marked copies of Fortran sources. First comes the module that all of them use, then sources whose
    modules others use.

    Raises UsageError for a file that cannot be read, DirectiveError for a directive that cannot be understood.
    """
    texts.language = "fortran"
    sources = [read_source(path, own.include, own.define) for path in paths for own in (options.for_source(path),)]
    units = _order_by_modules(
        [held for source in sources if (held := find_program_units(source))]
    )  # one may hold comments alone
    program = FortranProgram([unit for held in units for unit in held])
    declare_implied_symbols(program)
    texts.main = next((unit.name for unit in program.units if unit.kind == "program"), "")
    mappings = ArrayMappings(program, texts)
    numbers = VariableNumbers(texts)
    interfaces = MarkedSource(INTERFACES, INTERFACES.read_text(encoding="utf-8"), ".f90")
    return [interfaces, *(_instrument_file(held, program, numbers, mappings) for held in units)]


def _order_by_modules(files: Sequence[list[ProgramUnit]]) -> list[list[ProgramUnit]]:
    """Return the source files in an order for compiling: a file comes after the files whose modules it uses. Each file
    is a list of its program units.
    """
    defined = [{unit.name for unit in held if unit.kind == "module"} for held in files]
    needed = [{name for unit in held for name in unit.uses} for held in files]
    waiting, found = list(range(len(files))), []
    while waiting:
        ready = (at for at in waiting if not any(needed[at] & defined[other] for other in waiting if other != at))
        found.append(next(ready, waiting[0]))
        waiting.remove(found[-1])
    return [files[at] for at in found]


def _instrument_file(
    units: Sequence[ProgramUnit], program: FortranProgram, numbers: VariableNumbers, mappings: ArrayMappings
) -> MarkedSource:
    """Return a copy of one Fortran source file with the runtime's calls inserted into all of its program units."""
    source = units[0].source
    marks = Insertions()
    for unit in units:
        of_unit = UnitMarks(program, unit, numbers, marks, mappings)
        of_unit.instrument_entry()
        DirectiveCalls(of_unit).instrument_directives()
        of_unit.instrument_statements()
    return MarkedSource(source.path, "\n".join(_marked_lines(source, marks)) + "\n", ".f90" if source.free else ".f")


def _marked_lines(source: FortranSource, marks: Insertions) -> Iterator[str]:
    """Yield the lines of the marked copy, with `#line` markers: where the file or the count of lines jumps, a marker
    gives the compiler the original file and number.
    """
    file, number = "", 0
    for at, line in enumerate(source.lines):
        label = marks.relabelled.get(at, "")
        for text, place_file, place_line in _inserted_statements(marks, at, label):
            yield f'# {place_line} "{place_file}"'
            yield text
            file = ""
        if (file, number) != (line.file, line.number):
            yield f'# {line.number} "{line.file}"'
        yield _without_label(line, source.free) if label else line.text
        file, number = line.file, line.number + 1
        for one in marks.after.get(at, ()):
            yield f'# {one.place.line} "{one.place.file}"'
            yield _render_insertion(one)
            file = ""


def _inserted_statements(marks: Insertions, line_index: int, label: str) -> Iterator[tuple[str, str, int]]:
    """Yield (statement, file, line) for each statement to insert before a line. If the line has a label, a CONTINUE
    with the label comes first.
    """
    for one in marks.before.get(line_index, ()):
        if label:
            yield f"{label:<5} continue", one.place.file, one.place.line
            label = ""
        yield _render_insertion(one), one.place.file, one.place.line


def _render_insertion(one: InsertedText) -> str:
    return "      " + one.text


def _without_label(line: SourceLine, free: bool) -> str:
    """Return a line without its statement label."""
    if not free:
        return " " * 5 + line.text[5:]
    stripped = line.text.lstrip()
    return stripped.lstrip("0123456789")
