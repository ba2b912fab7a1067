"""Fortran-DVM and Fortran-DVMH: Fortran with `!DVM$` or `CDVM$`, in fixed or free form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.foreign_directives import describe_foreign_directives
from weft.dataparallel.front_end import FrontEnd, MarkedSources, MarkingFrontEnd
from weft.dataparallel.program import PLAIN, CompileOptions
from weft.dataparallel.source_map import SourceMap

_DIRECTIVE: Final = re.compile(r"^(?:[cC*!]|[ \t]*!)DVM\$", re.I | re.M)


class FortranDvm(MarkingFrontEnd):
    """Programs in Fortran."""

    name = "Fortran-DVM"
    suffixes = frozenset((".fdv", ".f", ".for", ".f90", ".f95", ".f03", ".f08", ".ftn"))
    remedy = (
        "name the sources that have `!DVM$` directives (or `!$omp`), and choose input with which the program "
        "reaches its loops"
    )

    def claims(self, sources: Sequence[Path]) -> bool:
        """Return whether a source holds a DVM directive."""
        return any(_DIRECTIVE.search(path.read_text("utf-8", "replace")) for path in sources if path.is_file())

    def mark(self, sources: Sequence[Path], options: CompileOptions = PLAIN) -> MarkedSources:
        """Return copies of the sources with the runtime's calls inserted, after the module that all of them use."""
        # A front end is imported to ask for its suffixes; its engine is not.
        from weft.dvm import fortran

        texts = SourceMap("fortran", unchecked=list(describe_foreign_directives(sources, fortran=True)))
        return fortran.instrument_fortran_sources(sources, texts, options), texts


FRONT_END: Final[FrontEnd] = FortranDvm()
