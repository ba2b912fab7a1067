"""A marked program: compiled with the compiler's hooks, linked with the runtime, and run once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from weft.dataparallel import process
from weft.dataparallel.compilation import LANGUAGE, PLAIN, Objects, Options, compile_all, compile_one
from weft.dataparallel.process import Ended
from weft.dataparallel.runtime import WRAPPED, compiler, objects
from weft.dataparallel.source_map import Marked

__all__ = ["PLAIN", "Options", "build", "execute", "link"]


def build(marked: Sequence[Marked], folder: Path, options: Options = PLAIN) -> Path:
    """Compile and link in `folder`; the program. UsageError with the compiler's first error where that fails."""
    return link(marked, compile_all(marked, folder, options), folder, options)


def link(marked: Sequence[Marked], made: Objects, folder: Path, options: Options) -> Path:
    """The program of objects that were compiled in `folder`."""
    languages = {LANGUAGE[one.suffix] for one in marked}
    fortran = "fortran" in languages
    linker = compiler("fortran" if fortran else "c++" if "c++" in languages else "c").split()
    program = folder / marked[-1].original.stem
    command = [
        *linker,
        "-g",
        "-o",
        str(program),
        *map(str, made.paths),
        str(objects(fortran)),
        *(f"-Wl,--wrap={name}" for name in WRAPPED),
        *options.link,
        *(["-lstdc++"] if fortran and "c++" in languages else []),
        "-lm",
        "-lpthread",
        "-ldl",
    ]
    compile_one(command, marked[-1].original, folder)
    return program


def execute(
    program: Path,
    arguments: Sequence[str],
    findings: Path,
    grid: str = "",
    timeout: float | None = None,
    *,
    launcher: Sequence[str] = (),
) -> Ended:
    """Run the program with its standard streams as they are."""
    environment = {**os.environ, "WEFT_INTERNAL_CHECK_FINDINGS": str(findings)}
    if grid:
        environment["WEFT_INTERNAL_CHECK_GRID"] = grid
    if launcher:
        # Open MPI's helpers want to share memory at an address where here the shadow lies; its own way without.
        environment.setdefault("PMIX_MCA_gds", "hash")
    else:
        findings.touch()
    return process.execute([*launcher, str(program), *arguments], environment, timeout, launched=bool(launcher))
