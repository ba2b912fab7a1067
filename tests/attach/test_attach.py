"""A job that hangs and was not started under Weft is looked into, and goes on as if nobody had looked."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attach.jobs import PROGRAMS, attached, compiled, needs_py_spy, once, running, where
from launch.slurm import Slurm, started
from tests_support import WEFT, Installed, execute
from weft.attach.guard import read_status

pytestmark = pytest.mark.needs("gdb")
ODD = "rank 1 is in {call} from 2 (tag 7) at {place}, not with the others"


def test_the_rank_that_is_not_with_the_others_is_named_with_its_peer(mpich: Installed, tmp_path: Path) -> None:
    with running(mpich, 5, [compiled(mpich, "hang.c", tmp_path), "recv", "go"], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 3, 4], "MPI_Recv": [1], "": [2]}, job.pid)
        assert ODD.format(call="MPI_Recv", place="hang.c:27 exchange") in told["told"]
        assert "rank 1 names rank 2, which is outside of MPI at hang.c:30 exchange" in told["told"]
        assert "all 5 are at the same place 1 s later" in told["told"]
        assert [group["odd"] for group in told["groups"]] == [False, True, True]
        assert told["missing"] == told["moved"] == []
        assert told["proof"] is False
        (tmp_path / "go").touch()
        assert "through" in job.communicate(timeout=60)[0]
        assert job.returncode == 0


@pytest.mark.matrix
def test_a_rank_that_computes_is_told_from_those_that_stand(mpich: Installed, tmp_path: Path) -> None:
    with running(mpich, 4, [compiled(mpich, "hang.c", tmp_path), "compute", "go"], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 3], "": [1, 2]}, job.pid)
        assert told["moved"] == [1]
        assert any(line.startswith("rank 1 moves: step is ") for line in told["told"])
        assert "ranks 0, 2 and 3 are at the same place 1 s later" in told["told"]


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["debian_openmpi", pytest.param("debian_mpich", marks=pytest.mark.matrix)])
def test_fortran(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    of: Installed = request.getfixturevalue(which)
    with running(of, 4, [compiled(of, "hang.f90", tmp_path, "-O0")], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 2, 3], "MPI_Recv": [1]}, job.pid)
        assert any(line.startswith("rank 1 is in MPI_Recv from 2 (tag 7) at hang.f90:15 ") for line in told["told"])
        assert told["told"][1].endswith(", not with the others")


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_python_and_native_frames_are_one_stack(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    needs_py_spy()
    of: Installed = request.getfixturevalue(which)
    with running(of, 4, [of.python or sys.executable, PROGRAMS / "hang.py"], tmp_path) as job:
        told = once(lambda told: where(told) == {"Barrier": [0, 2, 3], "recv": [1]}, job.pid)
        assert ODD.format(call="recv", place="hang.py:12 exchange") in told["told"]
        assert "rank 1 names rank 2, which is in Barrier at hang.py:13 exchange" in told["told"]
        stack = told["ranks"][1]["threads"][0]
        assert [frame["function"] for frame in stack["stack"]] == ["<module>", "exchange"]
        assert stack["call"]["name"] == "MPI_Mprobe"


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_a_thread_of_openmp_that_is_in_mpi_is_its_rank_s_call(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    of: Installed = request.getfixturevalue(which)
    with running(of, 3, [compiled(of, "hybrid.c", tmp_path, "-fopenmp")], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 2], "MPI_Recv": [1]}, job.pid)
        assert any(line.startswith("rank 1 is in MPI_Recv from 0 (tag 9) at hybrid.c:9") for line in told["told"])
        assert len(told["ranks"][1]["threads"]) == 2


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_optimised_code_is_told_by_its_own_lines_and_the_functions_that_it_calls(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """PyPI's MPICH jumps out of MPI_Waitall, which then has no frame; data() leaves its line to the call behind it."""
    of: Installed = request.getfixturevalue(which)
    with running(of, 8, [compiled(of, "halo.cpp", tmp_path, "-O2")], tmp_path) as job:
        told = once(lambda told: where(told).get("MPI_Waitall") == [4, 6] and "MPI_Ssend" in where(told), job.pid)
        assert where(told) == {"MPI_Allreduce": [0, 1, 2, 3, 7], "MPI_Waitall": [4, 6], "MPI_Ssend": [5]}
        assert "5 ranks (0-3 and 7) are in MPI_Allreduce at halo.cpp:35 main" in told["told"]
        [line] = [line for line in told["told"] if line.startswith("rank 5 is in MPI_Ssend")]
        assert line.endswith(" at halo.cpp:19 Field::exchange, not with the others")


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_a_python_rank_in_mpi_is_never_said_to_be_outside(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs_py_spy()
    of: Installed = request.getfixturevalue(which)
    with running(of, 5, [of.python or sys.executable, PROGRAMS / "waitall.py"], tmp_path) as job:
        told = once(lambda told: where(told) == {"barrier": [0, 1], "Waitall": [2, 4], "recv": [3]}, job.pid)
        assert "rank 3 names rank 2, which is in Waitall at waitall.py:17 exchange" in told["told"]


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["hang.c", "hang.py"])
def test_a_source_that_was_edited_since_gives_no_arguments(mpich: Installed, name: str, tmp_path: Path) -> None:
    source = tmp_path / name
    shutil.copy(PROGRAMS / name, source)
    if source.suffix == ".py":
        needs_py_spy()
        command, changed = [mpich.python or sys.executable, source], "tag=7"
    else:
        command, changed = [compiled(mpich, name, tmp_path, source=source), "recv", "go"], "TAG"
    with running(mpich, 4, command, tmp_path) as job:
        once(lambda told: any(line.startswith("rank 1 is in") and "tag 7" in line for line in told["told"]), job.pid)
        time.sleep(1.1)  # what a process's begin is known by
        source.write_text(source.read_text().replace(changed, changed.replace("TAG", "8").replace("7", "8")))
        told = attached(job.pid)
        [line] = [line for line in told["told"] if line.startswith("rank 1 is in")]
        assert f" at {name}:" in line
        assert "tag" not in line


@pytest.mark.matrix
def test_a_program_that_was_built_again_since_has_no_lines_and_that_is_said(mpich: Installed, tmp_path: Path) -> None:
    with running(mpich, 4, [compiled(mpich, "hang.c", tmp_path), "recv", "go"], tmp_path) as job:
        once(lambda told: where(told) == {"MPI_Barrier": [0, 3], "MPI_Recv": [1], "": [2]}, job.pid)
        compiled(mpich, "hang.c", tmp_path, "-O2")
        told = attached(job.pid)
        assert where(told) == {"MPI_Barrier": [0, 3], "MPI_Recv": [1], "": [2]}
        assert any(
            text.startswith("ranks 0-3: the file of the program was replaced while they ran") for text in told["told"]
        )
        assert not any("hang.c" in text for text in told["told"])


@pytest.mark.matrix
def test_open_mpi_with_optimised_code_says_what_it_cannot_read(openmpi: Installed, tmp_path: Path) -> None:
    with running(openmpi, 16, [compiled(openmpi, "hang.c", tmp_path, "-O2"), "recv", "go"], tmp_path) as job:
        told = once(lambda told: where(told).get("MPI_Barrier") == [0, *range(3, 16)], job.pid)
        assert any(line.startswith("rank 1 is in MPI_Recv") for line in told["told"])


def alive(pids: list[int]) -> bool:
    """Whether all run, and nobody debugs them."""
    return all(read_status(pid) in (("R", 0), ("S", 0), ("D", 0)) for pid in pids)


@pytest.mark.matrix
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=[pytest.mark.matrix, pytest.mark.timeout(600)])])
def test_the_job_goes_on_though_weft_is_killed_while_it_looks(mpich: Installed, rounds: int, tmp_path: Path) -> None:
    with running(mpich, 4, [compiled(mpich, "hang.c", tmp_path), "recv", "go"], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 3], "MPI_Recv": [1], "": [2]}, job.pid)
        pids = [rank["pid"] for rank in told["ranks"]]
        begun = time.monotonic()
        attached(job.pid)
        whole = time.monotonic() - begun
        for number in range(rounds):
            looking = subprocess.Popen([*WEFT, "attach", str(job.pid)], stdout=subprocess.DEVNULL)
            time.sleep(whole * (number + 1) / (rounds + 1))
            looking.send_signal(signal.SIGKILL if number % 3 != 2 else signal.SIGTERM)
            looking.wait()
            limit = time.monotonic() + 20
            while not alive(pids):
                assert time.monotonic() < limit, [read_status(pid) for pid in pids]
                time.sleep(0.05)
        (tmp_path / "go").touch()
        assert "through" in job.communicate(timeout=60)[0]
        assert job.returncode == 0


@pytest.mark.matrix
def test_ranks_that_are_stopped_or_not_named_are_told(mpich: Installed, tmp_path: Path) -> None:
    with running(mpich, 4, [compiled(mpich, "hang.c", tmp_path), "recv", "go"], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 3], "MPI_Recv": [1], "": [2]}, job.pid)
        pids = [str(rank["pid"]) for rank in told["ranks"]]
        os.kill(int(pids[3]), signal.SIGSTOP)
        try:
            done = execute([*WEFT, "attach", "--interval", "0", pids[1], pids[3]])
            assert read_status(int(pids[3]))[0] == "T"
        finally:
            os.kill(int(pids[3]), signal.SIGCONT)
        assert "weft: stacks of 1 of 4 ranks; they show where ranks are, and prove nothing" in done.stdout
        assert "weft: ranks 0 and 2 of 4 were not found here" in done.stdout
        assert "weft: rank 3 could not be inspected: it is stopped (kill -CONT lets it continue)" in done.stdout
        assert "  MPI_Recv(source=from: 2, tag=TAG: 7, comm=MPI_COMM_WORLD)" in done.stdout


def test_what_is_no_job_is_refused() -> None:
    for what, why in (("999999999", "there is no such process"), ("3.x", "neither a process"),
                      (str(os.getpid()), "is neither an MPI program")):  # fmt: skip
        done = execute([*WEFT, "attach", what])
        assert done.returncode == 2
        assert why in done.stderr


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm whose nodes are this machine."""
    yield from started(tmp_path_factory.mktemp("slurm"))


def test_a_job_of_slurm_is_seen_on_all_its_nodes(slurm: Slurm, mpich: Installed, tmp_path: Path) -> None:
    srun = replace(mpich, mpiexec=("srun", "-N2", "--overcommit", "--mpi=pmi2"), environment=slurm.environment)
    with running(srun, 4, [compiled(mpich, "hang.c", tmp_path), "recv", "go"], tmp_path) as job:
        while not (number := slurm.told("squeue", "-h", "--states=RUNNING", "--format=%A")):
            assert job.poll() is None
        told = once(
            lambda told: where(told) == {"MPI_Barrier": [0, 3], "MPI_Recv": [1], "": [2]},
            f"{number}.0", env=slurm.environment,
        )  # fmt: skip
        assert any(line.startswith("rank 1 is in MPI_Recv from 2 (tag 7)") for line in told["told"])
        assert sorted(rank["rank"] for rank in told["ranks"]) == [0, 1, 2, 3]
        (tmp_path / "go").touch()
        assert "through" in job.communicate(timeout=60)[0]
        assert job.returncode == 0
    assert slurm.quiet()


@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_spawned_ranks_are_shown_with_those_that_spawned_them(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    of: Installed = request.getfixturevalue(which)
    with running(of, 1, [compiled(of, "spawned.c", tmp_path)], tmp_path) as job:
        told = once(lambda told: where(told) == {"MPI_Recv": [0], "MPI_Ssend": [1, 3], "MPI_Barrier": [2, 4]}, job.pid)
        assert told["missing"] == []
        assert "ranks 1 and 2 were spawned: rank 1 is rank 0 of a world of its own" in told["told"]
        assert "ranks 3 and 4 were spawned: rank 3 is rank 0 of a world of its own" in told["told"]
