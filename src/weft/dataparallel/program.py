"""Build a marked program with the compiler's hooks and the runtime, and run it once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.dataparallel import process
from weft.dataparallel.compilation import LANGUAGE, PLAIN, CompiledObjects, CompileOptions, compile_all, run_compiler
from weft.dataparallel.process import ProcessEnd
from weft.dataparallel.progress import Progress, Say, ignore
from weft.dataparallel.runtime import WRAPPED, build_runtime_object, find_compiler
from weft.dataparallel.source_map import MarkedSource

__all__ = ["PLAIN", "CompileOptions", "build_program", "link_program", "run_program"]


def build_program(
    marked: Sequence[MarkedSource], folder: Path, options: CompileOptions = PLAIN, say: Say = ignore
) -> Path:
    """Compile and link the sources in `folder`; return the program. UsageError with the compiler's first error."""
    return link_program(marked, compile_all(marked, folder, options, say), folder, options)


def link_program(
    sources: Sequence[MarkedSource], objects: CompiledObjects, folder: Path, options: CompileOptions
) -> Path:
    """Link compiled objects with the runtime, and return the path of the program in `folder`."""
    languages = {LANGUAGE[one.suffix] for one in sources}
    fortran = "fortran" in languages
    linker = find_compiler("fortran" if fortran else "c++" if "c++" in languages else "c").split()
    program = folder / sources[-1].original.stem
    command = [
        *linker,
        "-g",
        "-o",
        str(program),
        *map(str, objects.paths),
        str(build_runtime_object(fortran)),
        *(f"-Wl,--wrap={name}" for name in WRAPPED),
        *options.link,
        *(["-lstdc++"] if fortran and "c++" in languages else []),
        "-lm",
        "-lpthread",
        "-ldl",
    ]
    run_compiler(command, sources[-1].original, folder)
    return program


def run_program(
    program: Path,
    arguments: Sequence[str],
    findings_path: Path,
    grid: str = "",
    timeout: float | None = None,
    *,
    launcher: Sequence[str] = (),
    say: Say = ignore,
    look: Callable[[], object] = lambda: None,
) -> ProcessEnd:
    """Run a checked program to its end, and return how it ended. Its runtime writes its findings to `findings_path`.

    `grid`: the simulated processors, such as `2x2`. `timeout`: in seconds. `launcher`: words before the program's
    name. `say`: gets a sentence from time to time that says how long the program has run. `look`: is called meanwhile.
    """
    environment = {**os.environ, "WEFT_INTERNAL_CHECK_FINDINGS": str(findings_path)}
    if grid:
        environment["WEFT_INTERNAL_CHECK_GRID"] = grid
    if launcher:
        # Open MPI's helpers want to share memory at an address where here the shadow lies; its own way without.
        environment.setdefault("PMIX_MCA_gds", "hash")
    else:
        findings_path.touch()
    progress = Progress(say, "the program runs")

    def watch() -> bool:
        progress.report_if_due()
        look()
        return False

    command = [*launcher, str(program), *arguments]
    return process.run_process(command, environment, timeout, should_end=watch, launched=bool(launcher))
