"""`--debug`: the debugger stands at the first difference of two runs, on its rank and in its iteration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from replay.campaign import environment
from tests_support import WEFT, Installed, execute

PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI
import weft
comm = MPI.COMM_WORLD
got = np.zeros(4)
for step in range(5):
    with weft.loop("sweep", step):
        x = np.full(4, comm.allreduce(step) + 0.5)
        if sys.argv[1:] == ["bad"] and comm.rank == 1 and step == 2:
            x[3] += 1
        comm.Sendrecv(x, 1 - comm.rank, step, got, 1 - comm.rank, step)
        weft.probe("x", x)
"""


@pytest.fixture(scope="module")
def folder(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    (made / "p.py").write_text(PROGRAM)
    for name in ("right", "bad"):
        words = ["run", "--hash-messages", "-n", "2", "--out", name, "--", sys.executable, "p.py", name]
        done = execute([*WEFT, *words], cwd=made, env=environment(), timeout=100)
        assert done.returncode == 0, done.stderr
    return made


def test_it_stops_at_the_probe_on_the_rank_and_in_the_iteration_of_the_first_value(folder: Path) -> None:
    words = [*WEFT, "compare", "right", "bad", "--values", "--debug"]
    done = execute(words, cwd=folder, env=environment(), stdin="print step\nprint x @1\n", timeout=100)
    assert done.returncode == 1, done.stderr
    shown = done.stdout.partition("(weft)")[0]
    assert "first difference: probe x at p.py:14 on rank 1, in iteration 2 of sweep" in shown
    assert "rank 1  at p.py:14 in <module>" in shown
    assert "rank 1  2" in done.stdout
    assert "array([4.5, 4.5, 4.5, 5.5])" in done.stdout


def test_it_stops_before_the_call_whose_message_differs_first(folder: Path) -> None:
    words = [*WEFT, "compare", "right", "bad", "--calls", "--debug"]
    done = execute(words, cwd=folder, env=environment(), stdin="print step @1\n", timeout=100)
    assert done.returncode == 1, done.stderr
    assert "first message whose content differs: rank 1 sends 32 bytes that differ" in done.stdout
    assert "sendrecv(dest=0, source=0, sendtag=2, recvtag=2) at p.py:13" in done.stdout
    assert done.stdout.rstrip().endswith("2")


@pytest.mark.matrix
def test_runs_that_are_alike_open_nothing(folder: Path) -> None:
    done = execute([*WEFT, "compare", "right", "right", "--debug"], cwd=folder, env=environment(), stdin="ranks\n")
    assert done.returncode == 0, done.stderr
    assert "(weft)" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--debug", "--", "true"], "add --against REFERENCE"),
        (["run", "--debug", "--against", "r", "--level", "outcomes", "--", "true"], "--debug needs --level trace"),
        (["compare", "a", "b", "--debug", "--format", "json"], "leave out --view and --format"),
    ],
)
def test_options_that_do_not_go_together_are_told(words: list[str], said: str, tmp_path: Path) -> None:
    done = execute([*WEFT, *words], cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
