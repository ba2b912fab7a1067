"""Calls that wait for nobody and come again from one place are one event; a replay gives the times that they gave."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from replay.campaign import HERE, compile_c, environment
from tests_support import Installed
from weft.trace import Rank, Trace

RANKS = 2


def folds(rank: Rank) -> list[tuple[str, int]]:
    """The calls of a rank by their names, and how many equal ones each event stands for."""
    return [(event.function.base.removeprefix("MPI_").removesuffix("_x"), event.calls) for event in rank]


def record_and_replay(command: str, program: list[str], folder: Path) -> Trace:
    """Record a program and replay it: its output must be the same. Returns the replay's trace beside the record's."""

    def run(*words: str) -> list[str]:
        done = subprocess.run(
            [command, *words], capture_output=True, text=True, timeout=60, cwd=folder, env=environment(),
            stdin=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        return sorted(done.stdout.splitlines())

    printed = run("run", "--out", "record", "-n", str(RANKS), "--", *program)
    assert len(printed) == RANKS
    assert run("replay", "record", "--out", "again") == printed
    record, again = weft.open(folder / "record"), weft.open(folder / "again")
    for one, two in zip(record.ranks, again.ranks, strict=True):
        assert folds(one) == folds(two)
    return record


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_equal_local_calls_in_a_row_are_one_event(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    venv = Path(request.getfixturevalue(name).mpicc).parents[1]
    trace = record_and_replay(str(venv / "bin/weft"), [compile_c(venv, "local.c", tmp_path)], tmp_path)
    for rank in trace.ranks:
        assert folds(rank)[4:] == [
            ("Wtime", 65536), ("Wtime", 4464),
            *[("Wtime", 1)] * 6,
            *[("Wtime", 1), ("Barrier", 1)] * 3,
            ("Type_size", 2), ("Type_size", 1),
            ("Get_count", 2), ("Get_count", 2),
            ("Get_address", 5), ("Initialized", 6),
            ("Comm_set_errhandler", 1), ("Cart_shift", 1), ("Cart_shift", 1),
            ("Finalize", 1),
        ]  # fmt: skip
        shift = [event.error for event in rank if event.function.name == "MPI_Cart_shift"]
        assert len(shift) == 2 and all(shift)
        assert sum(thread.tails.nbytes for thread in rank.threads) < 3 * 70_000


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_so_are_those_of_mpi4py(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    installed: Installed = request.getfixturevalue(name)
    if installed.python is None:
        pytest.skip("no mpi4py with this MPI")
    weft_command = str(Path(installed.mpicc).parent / "weft")
    trace = record_and_replay(weft_command, [installed.python, str(HERE / "local.py")], tmp_path)
    for rank in trace.ranks:
        assert {("Wtime", 1000), ("Comm_size", 7), ("Type_size", 8)} <= set(folds(rank))


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_so_are_those_of_fortran(name: str, tmp_path: Path) -> None:
    compiler = shutil.which(f"mpifort.{name}")
    if compiler is None:
        pytest.skip(f"there is no mpifort.{name}")
    program = tmp_path / "local"
    subprocess.run([compiler, HERE / "local.f90", "-o", program], check=True)
    trace = record_and_replay(str(Path(sys.executable).parent / "weft"), [str(program)], tmp_path)
    for rank in trace.ranks:
        assert {("Wtime", 1000), ("Comm_size", 7), ("Type_size", 8)} <= set(folds(rank))
