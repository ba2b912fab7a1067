"""A result that MPI writes more than once, as several operations put it there, is not the program's writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute

FOLDER = Path(__file__).parent
CHANGED = "changed the buffer of a pending operation"


@pytest.fixture(scope="module")
def built(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for options in (["-o", folder / "results", FOLDER / "results.c"],
                    ["-shared", "-fPIC", "-o", folder / "delays.so", FOLDER / "delays.c"]):  # fmt: skip
        done = execute([mpich.mpicc, "-g", *options])
        assert done.returncode == 0, done.stderr
    return folder


def said_of(mpi: Installed, built: Path, run: Path, *words: str) -> str:
    line = [*WEFT, "run", "--out", run, "--", *mpi.mpiexec, "-n", "2", built / "results", *words]
    done = execute(line, env={"LD_PRELOAD": str(built / "delays.so")}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("times", ["3", "100"])
def test_mpis_own_writes_are_not_the_programs(mpich: Installed, built: Path, tmp_path: Path, times: str) -> None:
    said = said_of(mpich, built, tmp_path / "run", times)
    assert CHANGED not in said and "receives into the same memory. [buffer-reuse]" in said


def test_the_programs_are_told(mpich: Installed, built: Path, tmp_path: Path) -> None:
    assert f"rank 0 {CHANGED} before win_flush(rank=1) at results.c:" in said_of(
        mpich, built, tmp_path / "run", "1", "writes"
    )
    assert CHANGED not in said_of(mpich, built, tmp_path / "right", "1")
