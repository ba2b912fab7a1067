"""Ranks with threads: one that may still send keeps a run from being called a deadlock; one that sleeps does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute
from weft import deadlock
from weft.trace.builder import Builder
from weft.trace.layout import State

SOURCE = Path(__file__).with_name("threads.c")


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    mpi: Installed = request.getfixturevalue(request.param)
    program = tmp_path_factory.mktemp(f"threads-{request.param}") / "threads"
    line = [mpi.mpicc, "-g", "-O1", "-fopenmp", "-o", program, SOURCE]
    assert execute(line, env=mpi.environment, timeout=120).returncode == 0
    return mpi, program


def run(mpi: Installed, program: Path, folder: Path, mode: str) -> tuple[int, list[dict[str, object]]]:
    """The status of a run, and its errors and warnings."""
    command = [*WEFT, "run", "--out", folder / "run", "--report", folder / "report.json", "--"]
    done = execute([*command, *mpi.mpiexec, "-n", "2", program, mode], cwd=folder, env=mpi.environment, timeout=100)
    findings = json.loads((folder / "report.json").read_text())["findings"]
    return done.returncode, [one for one in findings if one["severity"] != "note"]


@pytest.mark.cases(2)
@pytest.mark.parametrize("mode", ["late-compute", "late-sleep", "late-pipe"])
def test_a_run_in_which_another_thread_sends_later_is_not_stopped(
    of_mpi: tuple[Installed, Path], tmp_path: Path, mode: str
) -> None:
    mpi, program = of_mpi
    assert run(mpi, program, tmp_path, mode) == (0, [])


@pytest.mark.cases(2)
@pytest.mark.parametrize("mode", ["barrier", "join", "condition"])
def test_a_thread_that_sleeps_until_a_waiting_one_wakes_it_is_proven_to_wait(
    of_mpi: tuple[Installed, Path], tmp_path: Path, mode: str
) -> None:
    mpi, program = of_mpi
    status, found = run(mpi, program, tmp_path, mode)
    assert status
    assert [(one["kind"], one["certainty"]) for one in found] == [("deadlock", "certain")]
    assert {site["function"] for site in found[0]["sites"][:2]} <= {"receive", "send"}


@pytest.mark.parametrize(("level", "others", "certainty"), [(3, 1, "possible"), (3, 0, "certain"), (2, 1, "certain")])
def test_a_deadlock_is_certain_only_if_no_thread_is_left_that_may_call_mpi(
    level: int, others: int, certainty: str
) -> None:
    b = Builder(ranks=2, ended="interrupted")
    for rank in b.ranks:
        rank.open.recv(1 - rank.index, tag=1, enter=1000)
        rank.state = State.RUNNING
    trace = b.open()
    for read in trace.ranks:
        assert read.header is not None
        read.header.thread_level, read.header.other_threads = level, others
    assert [(one.kind, one.certainty) for one in deadlock.find(trace)] == [("deadlock", certainty)]
