"""OpenMP: C, C++ and Fortran with `#pragma omp` or `!$omp`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.check.front_end import COMPILED, FrontEnd, Outcome, Request
from weft.check.openmp.sources import DIRECTIVE, SUFFIXES


class OpenMP(FrontEnd):
    """Programs that gcc, g++ and gfortran compile, run by a simulated runtime."""

    name = "OpenMP"
    suffixes = SUFFIXES
    options = COMPILED
    remedy = "name the sources that hold `#pragma omp` or `!$omp` directives, and let the program reach them"

    def claims(self, sources: Sequence[Path]) -> bool:
        """Whether any of them holds a directive."""
        return any(
            DIRECTIVE.search(path.read_text(encoding="utf-8", errors="replace")) for path in sources if path.is_file()
        )

    def run(self, request: Request, folder: Path, found: Path) -> Outcome:
        """Compile with hooks, and run once."""
        # A front end is imported to ask for its suffixes; its engine is not.
        from weft.check.openmp import checking

        return checking.run(request, folder, found)


FRONT_END: Final[FrontEnd] = OpenMP()
