"""Numba: every prange of the functions that a Python program compiles with parallel=True."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.dataparallel.front_end import CheckOutcome, CheckRequest, FrontEnd, Option
from weft.dataparallel.source_map import SourceMap


class NumbaPrange(FrontEnd):
    """Python programs, which run unchanged."""

    name = "Python (Numba)"
    suffixes = frozenset((".py",))
    options: frozenset[Option] = frozenset()
    remedy = "call the functions that have the prange loops"
    script = True

    def run(self, request: CheckRequest, folder: Path, findings_path: Path) -> CheckOutcome:
        """Run the program in a process of its own, with its Numba functions checked, and return the outcome."""
        # A front end is imported to ask for its suffixes; its engine is not.
        from weft import numba

        texts = folder / "texts.json"
        ended = numba.run_checked(request.sources[0], request.arguments, findings_path, texts, request.timeout)
        held = SourceMap.read(texts) if texts.exists() else SourceMap("python")
        told = numba.read_merged_output(findings_path, held)
        unchecked = tuple(numba.read_unchecked(folder))
        differences = tuple(numba.read_comparison_findings(folder))
        return CheckOutcome(ended, held, differences, unchecked, runtime_output=told)


FRONT_END: Final[FrontEnd] = NumbaPrange()
