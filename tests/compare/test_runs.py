"""`weft compare` on recorded runs of one program: a planted fault is the first difference, whatever it leads to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from replay.campaign import environment
from tests_support import WEFT, Installed, execute

RING = """
import sys
import numpy
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
fault = sys.argv[1]
held, total = numpy.zeros(100), numpy.zeros(1)
for step in range(12):
    to = (rank + (2 if fault == "neighbour" and rank == 1 and step == 7 else 1)) % size
    count = 99 if fault == "count" and rank == 2 and step == 5 else 100
    op = MPI.MIN if fault == "operation" and step == 3 else MPI.MAX
    request = comm.Irecv(held, source=MPI.ANY_SOURCE, tag=step)
    comm.Send(numpy.zeros(count), dest=to, tag=step)
    request.Wait()
    comm.Allreduce(numpy.ones(1), total, op=op)
"""


def recorded(folder: Path, fault: str) -> None:
    (folder / "ring.py").write_text(RING)
    command = [*WEFT, "run", "--out", fault, "-n", "3", "--", sys.executable, "ring.py", fault]
    execute(command, cwd=folder, env=environment())


def compared(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return execute([*WEFT, "compare", *words], cwd=folder, env=environment())


FAULTS = {
    "neighbour": ([1], 14, "send(dest=0, tag=7)"),
    "count": ([2], 14, "count 99, in the reference 100"),
    "operation": ([0, 1, 2], 16, "op MPI_MIN, in the reference MPI_MAX"),
}
"""By fault: the ranks that differ first, the line, and what is said."""


@pytest.mark.cases(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_the_first_difference(fault: str, mpich: Installed, tmp_path: Path) -> None:
    ranks, line, said = FAULTS[fault]
    for which in ("right", fault):
        recorded(tmp_path, which)
    done = compared(tmp_path, "right", fault)
    assert done.returncode == 1, done.stderr
    assert said in done.stdout
    told = json.loads(compared(tmp_path, "right", fault, "--format", "json").stdout)
    assert [one["rank"] for one in told["first"]] == ranks
    assert {one["run"]["line"] for one in told["first"]} == {line}


def test_two_runs_of_a_right_program_are_alike(mpich: Installed, tmp_path: Path) -> None:
    recorded(tmp_path, "right")
    recorded(tmp_path, "again")
    done = compared(tmp_path, "right", "again")
    assert done.returncode == 0, done.stdout
    assert "calls are alike, and every receive takes the same message" in done.stdout


@pytest.mark.matrix
def test_what_cannot_be_compared_is_said_with_the_remedy(mpich: Installed, tmp_path: Path) -> None:
    recorded(tmp_path, "right")
    (tmp_path / "ring.py").write_text(RING)
    execute(
        [*WEFT, "run", "--level", "outcomes", "--out", "bare", "-n", "3", "--", sys.executable, "ring.py", "right"],
        cwd=tmp_path, env=environment(),
    )  # fmt: skip
    done = compared(tmp_path, "right", "bare")
    assert done.returncode == 2
    assert "level `outcomes`, which has no events to compare: replay it (`weft replay bare`)" in done.stderr
    gone = compared(tmp_path, "right", "nosuch")
    assert (gone.returncode, "there is no such directory" in gone.stderr) == (4, True)
