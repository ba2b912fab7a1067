"""Each way of ending on real ranks: what `weft run` says first, its status, and that it tells no other error."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from running import BANNERS, Outcome, run
from ways import Way, ways

from machine import need
from tests_support import WEFT, Installed, execute

OPEN_MPI = frozenset(
    ("exception_one", "exception_mpi", "sys_exit", "abort_python", "segv_c", "exit_c", "after_c", "interrupt_python")
)  # fmt: skip
"""Run with Open MPI for every change; the others by `make test-endings`."""


def holds(way: Way, outcome: Outcome) -> None:
    assert re.search(way.said(), outcome.first), (way.said(), outcome.printed)
    assert outcome.kinds == way.kinds, outcome.printed
    if way.statuses is not None:
        assert outcome.status in way.statuses, outcome.printed
    if outcome.status == 3:  # Weft itself ended the job; what a launcher prints on a signal to it is its own
        assert not any(banner in outcome.printed for banner in BANNERS), outcome.printed


@pytest.mark.cases(1)
@pytest.mark.parametrize("way", [w for w in ways() if w.language != "fortran"], ids=lambda way: way.name)
def test_mpich(way: Way, mpich: Installed, tmp_path: Path) -> None:
    holds(way, run(way, mpich, tmp_path))


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(w, id=w.name, marks=() if w.name in OPEN_MPI else pytest.mark.matrix)
        for w in ways()
        if w.language != "fortran"
    ],
)
def test_open_mpi(way: Way, openmpi: Installed, tmp_path: Path) -> None:
    holds(way, run(way, openmpi, tmp_path))


@pytest.mark.matrix
@pytest.mark.parametrize("way", [w for w in ways() if w.language == "fortran"], ids=lambda way: way.name)
def test_fortran(way: Way, debian_mpich: Installed, tmp_path: Path) -> None:
    need("mpif90.mpich")
    holds(way, run(way, debian_mpich, tmp_path))


LEFT = """import sys
from mpi4py import MPI
try:
    sys.exit(3)
except SystemExit:
    pass
if MPI.COMM_WORLD.rank == 1 and sys.argv[1:]:
    raise SystemExit(4)
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.matrix
def test_sys_exit_of_a_module_is_told_and_one_that_was_caught_is_not(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "left.py").write_text(LEFT)
    python = [mpich.python or sys.executable, "-m", "left"]
    bad, good = (
        execute([*WEFT, "run", "--out", name, "-n", "2", "--", *python, *words], cwd=tmp_path)
        for name, words in (("bad", ["early"]), ("good", []))
    )
    assert "rank 1 ended by sys.exit(4) at left.py:8; rank 0 waits for it in barrier at left.py:9" in bad.stderr
    assert "sys.exit" not in good.stderr and good.returncode == 0
