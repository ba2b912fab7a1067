"""Record the values of a program with directives twice: without them, and with each processor of a grid in turn.

Both runs are of one build. The runtime (`native/turns.h`) hands each processor's values to a library of its own
(`weft.values`), so that they are recorded like those of a rank, and compared as such.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from weft.check.front_ends import find_front_end
from weft.dataparallel.front_end import CheckRequest, MarkingFrontEnd
from weft.dataparallel.process import ProcessEnd, run_process
from weft.dataparallel.program import build_program
from weft.dataparallel.source_map import MarkedSource, SourceMap, format_loop_line
from weft.errors import UsageError
from weft.native.headers.rules import ValuesLevel
from weft.safety.started import own_python
from weft.values import recording
from weft.values.configuration import Configuration, read_configuration
from weft.values.folder import FOLDER, PROCESSORS, RecordedValues

GRID: Final = "2x2"
"""The processors where nobody said how many."""
MOST: Final = 256

_STEP: Final = re.compile(r"(?<!void )weft_check_iteration(\d?)\(([^;\n]*)\);")
_FORTRAN_STEP: Final = re.compile(r"^(\s*)call weft_check_iteration(\d?)\((.*)\)\s*$", re.M)
_ARRAY: Final = re.compile(r"weft_check_(?:array|argument)\((\d+), [^;\n]*?, sizeof\(([^;\n]*?)\), \d+, WEFT_LONGS\(")
_DATA: Final = re.compile(r"(?<!void )weft_check_data\((\d+), \(void \*\)&\((\w+)\), ")


@dataclass(frozen=True, slots=True)
class TracedRuns:
    """How both runs ended and what was recorded; `notes` are for the user."""

    ended: tuple[ProcessEnd, ...]
    kept: tuple[RecordedValues, ...]
    processors: int
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TracePlan:
    """Where the values of both runs are recorded, which of them, and a function that watches the second run."""

    sequential: Path
    turns: Path
    configuration: Path | None = None
    watch: Callable[[], bool] | None = None


def count_processors(grid: str) -> int:
    """Return how many processors a grid such as `2x3` has. Raises UsageError if there are more than MOST."""
    count = 1
    for word in grid.split("x"):
        count *= int(word)
    if count > MOST:
        raise UsageError(f"-p {grid} has {count} processors; Weft simulates at most {MOST}: choose a smaller grid")
    return count


def trace_both_runs(request: CheckRequest, folder: Path, plan: TracePlan) -> TracedRuns:
    """Build a program in `folder` and run it twice, recording values: once without directives, and once with each
    processor of a grid in turn. Raises UsageError if that is impossible.
    """
    front_end = find_front_end(request.sources)
    for source in request.sources:
        if not source.is_file():
            raise UsageError(f"{source} is not a file; name the program's sources")
    marking = isinstance(front_end, MarkingFrontEnd)
    # Threads are a grid, too.
    front_end.refuse_unsupported_options(request if marking else dataclasses.replace(request, grid=""))
    grid = request.grid or (GRID if isinstance(front_end, MarkingFrontEnd) else "4")
    count = count_processors(grid)
    command = (
        build_marked_program(front_end, request, folder)
        if isinstance(front_end, MarkingFrontEnd)
        else python_command(request, folder)
    )
    copy_values_library(folder, count)
    known = plan.configuration if plan.configuration is not None and plan.configuration.exists() else None
    accesses = find_most_detailed_level(read_configuration(known)) if known is not None else 2
    variables = {
        "WEFT_INTERNAL_CHECK_TRACE": str(folder), "WEFT_INTERNAL_CHECK_GRID": grid,
        "WEFT_INTERNAL_CHECK_ACCESSES": str(accesses),
    }  # fmt: skip
    if not isinstance(front_end, MarkingFrontEnd):
        variables["NUMBA_NUM_THREADS"] = str(count)
    ended, kept = [], []
    for run, turns in ((plan.sequential, 0), (plan.turns, count)):
        variables["WEFT_INTERNAL_CHECK_TURNS"] = str(turns)
        variables["WEFT_INTERNAL_CHECK_FINDINGS"] = str(folder / f"findings-{turns}.jsonl")
        ended.append(
            run_traced_program(command, variables | recording.prepare_values(run, known), request, plan, turns > 0)
        )
        if (run / FOLDER).is_dir():
            (run / FOLDER / PROCESSORS).write_text(f"{grid if turns else 1}\n")
        kept.append(recording.finish_values(run, plan.configuration if not turns else None))
    return TracedRuns(tuple(ended), tuple(kept), count)


def build_marked_program(front_end: MarkingFrontEnd, request: CheckRequest, folder: Path) -> list[str]:
    """Build a program of marked sources and return the command that runs it."""
    marked, texts = front_end.mark(request.sources, request.options)
    program = build_program([make_traceable(one) for one in marked], folder, request.options)
    (folder / "names").write_text("".join(render_name_lines(texts)), encoding="utf-8", errors="surrogateescape")
    return [str(program), *request.arguments]


def python_command(request: CheckRequest, folder: Path) -> list[str]:
    """Return the command that runs a Python program so that the values of its loops are recorded."""
    # A front end is imported to ask for its suffixes; its engine is not.
    from weft.numba.program import require_numba
    from weft.numba.runtime import build_numba_library

    require_numba()
    (folder / "names").write_text("")
    texts = folder / "texts.json"
    inside = own_python("-m", "weft.numba.inside", str(texts), str(build_numba_library()))
    return [*inside, str(request.sources[0]), *request.arguments]


def run_traced_program(
    command: Sequence[str], variables: dict[str, str], request: CheckRequest, plan: TracePlan, is_second_run: bool
) -> ProcessEnd:
    """Run the program once, recording values, and return how it ended. In the second run the program reads its input
    from the beginning again, and its output is discarded.
    """
    Path(variables["WEFT_INTERNAL_CHECK_FINDINGS"]).touch()
    environment = {**os.environ, **variables}
    if not is_second_run:
        return run_process(command, environment, request.timeout)
    with reopen_standard_input() as given:
        return run_process(
            command, environment, request.timeout, stdin=given, stdout=subprocess.DEVNULL, should_end=plan.watch
        )


def reopen_standard_input() -> IO[bytes]:
    """Return standard input, opened again from its beginning, if it is a file; otherwise an empty file."""
    try:
        regular = stat.S_ISREG(os.fstat(0).st_mode)
        return Path("/dev/fd/0" if regular else os.devnull).open("rb")
    except OSError:
        return Path(os.devnull).open("rb")


def find_most_detailed_level(configuration: Configuration) -> int:
    """Return which accesses the most detailed rule of a configuration records: 2 for reads and writes, 1 for writes
    only, 0 for none.
    """
    levels = [rule.level for rule in configuration.rules]
    general = next((rule.level for rule in configuration.rules if rule.scope == "program"), -1)
    most = max([*levels, int(ValuesLevel.FULL) if general < 0 else general])
    return 2 if most >= ValuesLevel.FULL else 1 if most >= ValuesLevel.CHANGES else 0


def copy_values_library(folder: Path, count: int) -> None:
    """Copy the library that records values into `folder`, once for each processor. Each processor needs a file of its
    own, as the same file loaded twice is only one library.
    """
    source = recording.library()
    if source is None:
        raise UsageError(recording.NOT_BUILT)
    for processor in range(count):
        shutil.copyfile(source, folder / f"{processor}.so")


def make_traceable(marked: MarkedSource) -> MarkedSource:
    """Return a marked source with two changes: a processor skips the iterations of other processors, and the number
    types of arrays are reported.
    """
    text = marked.text
    if marked.suffix.startswith(".f"):
        text = _FORTRAN_STEP.sub(r"\1if (weft_check_skips\2(\3) /= 0) cycle", text)
    else:
        text = _STEP.sub(r"if (weft_check_skips\1(\2)) continue;", text)
        text = _ARRAY.sub(r"weft_check_type(\1, WEFT_TYPE(\2)); \g<0>", text)
        text = _DATA.sub(r"weft_check_type(\1, WEFT_TYPE(\2)); \g<0>", text)
    return dataclasses.replace(marked, text=text)


def render_name_lines(source_map: SourceMap) -> Iterator[str]:
    """Yield a line for each variable and construct that tells the runtime what its id means (native/trace.c)."""
    for number, variable in source_map.variables.items():
        yield f"v\t{number}\t{variable.name}\n"
    for number, construct in source_map.constructs.items():
        yield f"l\t{number}\t{format_loop_line(construct)}\n"
