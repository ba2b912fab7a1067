"""C-DVMH: C with `#pragma dvm`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.foreign_directives import describe_foreign_directives
from weft.dataparallel.front_end import FrontEnd, MarkedSources, MarkingFrontEnd
from weft.dataparallel.program import PLAIN, CompileOptions
from weft.dataparallel.source_map import CPLUSPLUS, SourceMap
from weft.errors import UsageError

_DIRECTIVE: Final = re.compile(r"#\s*pragma\s+dvm\b|\bDVM\s*\(")


class CDvmh(MarkingFrontEnd):
    """Programs in C and C++."""

    name = "C-DVMH"
    suffixes = frozenset((".cdv", ".c", ".cpp", ".cc", ".cxx", ".cdvh"))
    remedy = (
        "name the sources that have `#pragma dvm` directives (or `#pragma omp`), and choose input with which the "
        "program reaches its loops"
    )

    def claims(self, sources: Sequence[Path]) -> bool:
        """Return whether a source holds a DVM directive, in the current form or the old one."""
        return any(_DIRECTIVE.search(path.read_text("utf-8", "replace")) for path in sources if path.is_file())

    def mark(self, sources: Sequence[Path], options: CompileOptions = PLAIN) -> MarkedSources:
        """Return copies of the sources with the runtime's calls inserted. Raises UsageError if tree-sitter is not
        installed.
        """
        more = ["tree_sitter_cpp"] if any(path.suffix in CPLUSPLUS for path in sources) else []
        for name in ("tree_sitter", "tree_sitter_c", *more):
            if importlib.util.find_spec(name) is None:
                raise UsageError("checking C and C++ programs needs tree-sitter: pip install 'weft-debugger[check]'")
        # It imports tree-sitter, which may not be there.
        from weft.dvm import c

        texts = SourceMap("c", unchecked=list(describe_foreign_directives(sources, fortran=False)))
        return c.instrument_c_sources(sources, texts, options), texts


FRONT_END: Final[FrontEnd] = CDvmh()
