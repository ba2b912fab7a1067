"""The Fortran front end: Fortran-DVM(H) sources become copies that call the runtime, line for line where they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel import runtime
from weft.dataparallel.program import PLAIN, CompileOptions
from weft.dataparallel.source_map import MarkedSource, SourceMap
from weft.dvm.fortran_directives import Directives
from weft.dvm.fortran_implied import imply
from weft.dvm.fortran_lines import Line, Source, read_source
from weft.dvm.fortran_marks import UnitMarks
from weft.dvm.fortran_model import Unit
from weft.dvm.fortran_names import Mappings, Mark, Marks, Numbers
from weft.dvm.fortran_units import Program, units_of

INTERFACES: Final = runtime.runtime_sources() / "weft_check.f90"


def mark(paths: Sequence[Path], texts: SourceMap, options: CompileOptions = PLAIN) -> list[MarkedSource]:
    """The marked copies of Fortran sources, behind the module that all of them use; what defines a module comes early.

    Raises UsageError for a file that cannot be read, DirectiveError for a directive that cannot be understood.
    """
    texts.language = "fortran"
    sources = [read_source(path, own.include, own.define) for path in paths for own in (options.for_source(path),)]
    units = _ordered([held for source in sources if (held := units_of(source))])  # one may hold comments alone
    program = Program([unit for held in units for unit in held])
    imply(program)
    texts.main = next((unit.name for unit in program.units if unit.kind == "program"), "")
    mappings = Mappings(program, texts)
    numbers = Numbers(texts)
    interfaces = MarkedSource(INTERFACES, INTERFACES.read_text(encoding="utf-8"), ".f90")
    return [interfaces, *(_marked(held, program, numbers, mappings) for held in units)]


def _ordered(files: Sequence[list[Unit]]) -> list[list[Unit]]:
    """The units of each file; a file whose modules others use stands before them, else the order is that given."""
    defined = [{unit.name for unit in held if unit.kind == "module"} for held in files]
    needed = [{name for unit in held for name in unit.uses} for held in files]
    waiting, found = list(range(len(files))), []
    while waiting:
        ready = (at for at in waiting if not any(needed[at] & defined[other] for other in waiting if other != at))
        found.append(next(ready, waiting[0]))
        waiting.remove(found[-1])
    return [files[at] for at in found]


def _marked(units: Sequence[Unit], program: Program, numbers: Numbers, mappings: Mappings) -> MarkedSource:
    source = units[0].source
    marks = Marks()
    for unit in units:
        of_unit = UnitMarks(program, unit, numbers, marks, mappings)
        of_unit.enter()
        Directives(of_unit).mark()
        of_unit.plain()
    return MarkedSource(source.path, "\n".join(_written(source, marks)) + "\n", ".f90" if source.free else ".f")


def _written(source: Source, marks: Marks) -> Iterator[str]:
    """The lines of the copy; a line marker stands wherever the place does not follow from the line before."""
    file, number = "", 0
    for at, line in enumerate(source.lines):
        label = marks.relabelled.get(at, "")
        for text, place_file, place_line in _inserted(marks, at, label):
            yield f'# {place_line} "{place_file}"'
            yield text
            file = ""
        if (file, number) != (line.file, line.number):
            yield f'# {line.number} "{line.file}"'
        yield _unlabelled(line, source.free) if label else line.text
        file, number = line.file, line.number + 1
        for one in marks.after.get(at, ()):
            yield f'# {one.place.line} "{one.place.file}"'
            yield _statement(one)
            file = ""


def _inserted(marks: Marks, at: int, label: str) -> Iterator[tuple[str, str, int]]:
    """What stands before a line, the label of that line first."""
    for one in marks.before.get(at, ()):
        if label:
            yield f"{label:<5} continue", one.place.file, one.place.line
            label = ""
        yield _statement(one), one.place.file, one.place.line


def _statement(one: Mark) -> str:
    return "      " + one.text


def _unlabelled(line: Line, free: bool) -> str:
    """The line without its label."""
    if not free:
        return " " * 5 + line.text[5:]
    stripped = line.text.lstrip()
    return stripped.lstrip("0123456789")
