"""Numba: every prange of the functions that a Python program compiles with parallel=True."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.dataparallel.front_end import FrontEnd, Option, Outcome, Request
from weft.dataparallel.source_map import Texts


class NumbaPrange(FrontEnd):
    """Python programs, which run unchanged."""

    name = "Python (Numba)"
    suffixes = frozenset((".py",))
    options: frozenset[Option] = frozenset()
    remedy = "call the functions that hold the prange loops"
    script = True

    def run(self, request: Request, folder: Path, found: Path) -> Outcome:
        """Run the program in a process of its own."""
        # A front end is imported to ask for its suffixes; its engine is not.
        from weft import numba

        texts = folder / "texts.json"
        ended = numba.run(request.sources[0], request.arguments, found, texts, request.timeout)
        held = Texts.read(texts) if texts.exists() else Texts("python")
        told = numba.tidied(found, held)
        return Outcome(ended, held, tuple(numba.compared(folder)), tuple(numba.left(folder)), told=told)


FRONT_END: Final[FrontEnd] = NumbaPrange()
