"""Bad ends that the program makes itself: the run opens, and every rank's last call is the last that it logged."""

from __future__ import annotations

import pytest

import weft
from survival.conftest import Scene, Start
from survival.log import CALLS
from weft.trace import Rank


def ranks_of(scene: Scene) -> list[Rank]:
    trace = weft.open(scene.run)
    assert len(trace.ranks) == 3
    return trace.ranks


def last_logged(scene: Scene, rank: Rank) -> str:
    """The name of the last call that a rank began, by its own log."""
    assert rank.header is not None
    (log,) = (one for one in scene.written() if one.pid == rank.header.pid)
    return "MPI_" + CALLS[int(log.entries["call"][-1])]


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", ["abort", "segfault", "exit", "kill"])
def test_a_rank_that_ends_badly_leaves_all_calls_of_every_rank(job: Start, mix: list[str], how: str) -> None:
    scene = job(mix, "40", how)
    status, errors = scene.finish()
    assert status not in (0, 2, 4)
    assert "Traceback" not in errors
    assert scene.disagreements() == []
    for rank in ranks_of(scene):
        if rank.rank < 2:  # the others wait for it; they may be killed just before that call is recorded
            assert last_logged(scene, rank) in ("MPI_Recv", rank.event(-1 + len(rank)).function.name)
    bad = ranks_of(scene)[2]
    last = bad.event(len(bad) - 1)
    assert last.function.name == last_logged(scene, bad)
    assert how == "abort" or not last.open  # MPICH's MPI_Abort may return before the launcher has ended the process
    assert bad.state == {"abort": "aborted", "exit": "exited"}.get(how, "running")


def test_an_aborted_run_says_so_of_the_rank_that_aborted(job: Start, mix: list[str]) -> None:
    scene = job(mix, "40", "abort")
    scene.finish()
    assert [rank.state == "aborted" for rank in ranks_of(scene)] == [False, False, True]


def test_a_run_that_ends_well_is_recorded_to_its_last_call(job: Start, mix: list[str]) -> None:
    scene = job(mix, "40")
    status, errors = scene.finish()
    assert status == 0, errors
    assert scene.disagreements() == []
    for rank in ranks_of(scene):
        last = rank.event(len(rank) - 1)
        assert (last.function.name, last.open) == ("MPI_Finalize", False)
        assert last_logged(scene, rank) == "MPI_Finalize"


def test_a_deadlock_is_recorded_to_the_calls_that_never_return(job: Start, mix: list[str]) -> None:
    scene = job(mix, "40", "deadlock")
    status, errors = scene.finish()
    assert status == 3, errors
    assert scene.disagreements() == []
    for rank in ranks_of(scene):
        last = rank.event(len(rank) - 1)
        assert (last.function.name, last.open) == ("MPI_Recv", True)


def test_an_uncaught_python_exception_leaves_all_calls_of_every_rank(job: Start, mix_python: list[str]) -> None:
    scene = job(mix_python, "40", "raise")
    status, errors = scene.finish()
    assert status != 0
    assert "RuntimeError: an exception that nobody catches" in errors
    assert scene.disagreements() == []
    assert len(ranks_of(scene)) == 3
