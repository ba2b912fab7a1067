"""`--bisect`: where only hashes are known, a replay of both runs with more detail finds the element."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from replay.campaign import environment
from tests_support import WEFT, Installed, execute

PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI
import weft
comm = MPI.COMM_WORLD
x = np.arange(40.0) * (comm.rank + 1)
got = np.zeros(40)
for step in range(5):
    with weft.loop("sweep", step):
        # Whose message comes first is chance, and part of the value: a replay keeps it.
        first = comm.recv(source=MPI.ANY_SOURCE, tag=1) if comm.rank == 0 else comm.send(comm.rank, 0, tag=1)
        second = comm.recv(source=MPI.ANY_SOURCE, tag=1) if comm.rank == 0 else None
        x += comm.bcast(first) * 0 + step
        if sys.argv[1:] == ["bad"] and comm.rank == 1 and step == 2:
            x[33] += 1
        weft.probe('an "x"', x)
"""


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return execute([*WEFT, *words], cwd=folder, env=environment(), timeout=200)


@pytest.fixture(scope="module")
def folder(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    (made / "p.py").write_text(PROGRAM)
    (made / "minimal.toml").write_text('level = "minimal"\n')
    for name in ("right", "bad"):
        words = ["run", "--probes", "minimal.toml", "-n", "3", "--out", name, "--", sys.executable, "p.py", name]
        done = command(made, *words)
        assert done.returncode == 0, done.stderr
    return made


@pytest.mark.timeout(600)
def test_the_element_behind_a_hash_is_found_by_a_replay_of_both_runs(folder: Path) -> None:
    plain = command(folder, "compare", "right", "bad", "--values")
    assert "to see which element" in plain.stdout
    done = command(folder, "compare", "right", "bad", "--values", "--bisect")
    assert done.returncode == 1, done.stderr
    assert 'bisected: first difference: probe an "x" at p.py:17 on rank 1, in iteration 2 of sweep' in done.stdout
    assert "rank 1: x" not in done.stdout, "it is no part of an array with a name of its own"
    assert "[33] is 70.0, in the reference 69.0; 1 element of 40 differs" in done.stdout


def test_runs_that_are_alike_are_not_replayed(folder: Path) -> None:
    done = command(folder, "compare", "right", "right", "--values", "--bisect")
    assert done.returncode == 0, done.stderr
    assert "replaying" not in done.stderr


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_a_replay_hashes_the_messages_of_a_run_that_was_recorded_without(folder: Path) -> None:
    assert not any(len(rank.hashes) for rank in weft.open(folder / "right").ranks)
    done = command(folder, "replay", "right", "--hash-messages", "--out", "hashed")
    assert done.returncode == 0, done.stderr
    assert all(len(rank.hashes) for rank in weft.open(folder / "hashed").ranks)
    assert not (folder / "hashed" / "values").exists()
