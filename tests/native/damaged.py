"""Damages runs at random and analyses what can still be read of each: `python damaged.py CASES SEED`.

Of every finding's text nothing is asked: the kernels must only keep to their memory (tools/sanitize.py).
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import weft
from weft.errors import WeftError

FUZZ = Path(__file__).parents[1] / "trace" / "fuzz.py"
NO_LIMIT = 1 << 45


def fuzz() -> Any:
    """The module that damages runs."""
    spec = spec_from_file_location("fuzz", FUZZ)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(cases: int, seed: int) -> int:
    """0 where nothing but errors that are told came of it."""
    damage = fuzz()
    damage.CASE_SECONDS = 60

    def analysed(run: Path, case: int) -> str:
        said = str(damage.read_all(run, case))
        try:
            trace = weft.open(run)
            from weft.report.analysis import analyse

            analyse(trace)
        except (WeftError, MemoryError):
            return "refused"
        return said

    return int(damage.main(cases, seed, analysed, NO_LIMIT))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
