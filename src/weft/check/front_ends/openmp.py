"""OpenMP: C, C++ and Fortran with `#pragma omp` or `!$omp`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.front_end import COMPILED, CheckOutcome, CheckRequest, FrontEnd
from weft.openmp.source_rewriting import DIRECTIVE, SUFFIXES

LIBRARY: Final = re.compile(
    r"^\s*#\s*include\s*<omp\.h>|^\s*use\b(?:[^:\n]*::)?\s*omp_lib\b|^\s*include\s*['\"]omp_lib\.h", re.M | re.I
)
INCLUDE: Final = re.compile(r'^\s*#?\s*include\s*["\']([^"\'\n]+)["\']', re.M | re.I)


class OpenMP(FrontEnd):
    """Programs that gcc, g++ and gfortran compile, run by a simulated runtime."""

    name = "OpenMP"
    suffixes = SUFFIXES
    options = COMPILED
    launched = True
    remedy = (
        "name the sources that have `#pragma omp` or `!$omp` directives, and choose input with which the program "
        "reaches them; for a program without any, `weft run` checks MPI calls, and valgrind checks memory"
    )

    def claims(self, sources: Sequence[Path]) -> bool:
        """Return whether a source, or a file that it includes from its folder, holds a directive or uses the OpenMP
        library.
        """
        return any(DIRECTIVE.search(text) or LIBRARY.search(text) for text in _read_with_includes(sources, set()))

    def run(self, request: CheckRequest, folder: Path, findings_path: Path) -> CheckOutcome:
        """Compile the program with calls before its accesses to memory (hooks), run it once, and return the outcome."""
        # A front end is imported to ask for its suffixes; its engine is not.
        from weft.openmp import checking

        return checking.check_program(request, folder)


def _read_with_includes(paths: Iterable[Path], seen: set[Path]) -> Iterator[str]:
    """Yield the texts of files and of the files that they include from their own folders, each once."""
    for path in paths:
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield (text := path.read_text(encoding="utf-8", errors="replace"))
        yield from _read_with_includes((path.parent / name for name in INCLUDE.findall(text)), seen)


FRONT_END: Final[FrontEnd] = OpenMP()
