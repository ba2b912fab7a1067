"""Real programs under both MPIs: each second has one cause, and the protocol that the library used decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute
from weft import open as open_run
from weft.match import match_operations
from weft.waits.causes import COLLECTIVE, Cause
from weft.waits.ledger import Ledger, ledger_of
from weft.waits.shared_cores import count_usable_cores
from weft.waits.wait_states import waits_of_run

PROGRAMS = Path(__file__).parent / "programs"
MS = 1_000_000
LATE_NS = 60 * MS
TIMES = 6

Recorded = Callable[..., Path]


@pytest.fixture(scope="session", params=["mpich", "openmpi"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Run one of the programs under one of the MPIs, once; returns the run."""
    mpi: Installed = request.getfixturevalue(request.param)
    folder = tmp_path_factory.mktemp(f"waits-{request.param}")
    binary = folder / "protocol"
    done = execute([mpi.mpicc, "-g", "-O1", "-o", binary, PROGRAMS / "protocol.c"])
    assert done.returncode == 0, done.stderr

    def run(mode: str) -> Path:
        out = folder / mode
        if not out.exists():
            program = [mpi.python, PROGRAMS / "kinds.py"] if mode == "kinds" else [binary, mode]
            ranks = "4" if mode == "kinds" else "2"
            command = [*WEFT, "run", "--out", out, "--", *mpi.mpiexec, "-n", ranks, *program]
            done = execute([str(word) for word in command], env=dict(mpi.environment), timeout=100)
            assert done.returncode == 0, done.stdout + done.stderr
        return out

    return run


def waits_of(path: Path) -> Ledger:
    """The ledger of a run, whose causes add up to the time in MPI of each rank, exactly and within its time."""
    trace = open_run(path)
    found = ledger_of(trace, match_operations(trace))
    for rank, row in zip(trace.ranks, found.by_rank, strict=True):
        spent = int((rank.exit_ns() - rank.enter_ns()).sum())
        assert (row >= 0).all() and int(row.sum()) == spent <= found.wall_ns[rank.index]
    return found


@pytest.mark.cases(1)
def test_a_program_of_buffered_messages_has_no_late_receiver(recorded: Recorded) -> None:
    found = waits_of(recorded("eager"))
    assert found.total(Cause.LATE_RECEIVER) == 0
    assert found.by_rank[0].sum() > TIMES * LATE_NS  # in MPI_Barrier, or in the library, but for no receive


@pytest.mark.cases(1)
def test_a_program_of_messages_that_are_not_buffered_has_no_late_sender(recorded: Recorded) -> None:
    found = waits_of(recorded("rendezvous"))
    assert found.total(Cause.LATE_SENDER) < LATE_NS  # a sender may lose its core once, on a busy machine
    assert 2 * TIMES * LATE_NS * 0.8 < found.total(Cause.LATE_RECEIVER) <= found.wall_ns[0]
    assert found.by_rank[1, Cause.LATE_RECEIVER] == 0


@pytest.mark.cases(1)
def test_a_synchronous_send_of_few_bytes_waits_and_a_standard_one_beside_it_does_not(recorded: Recorded) -> None:
    path = recorded("synchronous")
    assert waits_of(path).total(Cause.LATE_RECEIVER) > TIMES * LATE_NS * 0.8
    trace = open_run(path)
    rows = waits_of_run(trace, match_operations(trace)).rows.with_causes(Cause.LATE_RECEIVER)
    clock = waits_of_run(trace, match_operations(trace)).clock
    assert {clock.event(place).function.name for place in rows.waiter.tolist()} == {"MPI_Ssend"}


@pytest.mark.cases(1)
def test_an_exchange_with_a_late_rank_is_one_wait_of_a_late_sender(recorded: Recorded) -> None:
    found = waits_of(recorded("late"))
    assert found.by_rank[0, Cause.LATE_SENDER] > TIMES * LATE_NS * 0.8
    assert found.by_rank[0, Cause.LATE_RECEIVER] < LATE_NS


@pytest.mark.cases(1)
def test_every_kind_of_call_waits_by_its_own_cause(recorded: Recorded) -> None:
    found = waits_of(recorded("kinds"))
    for cause in (*COLLECTIVE, Cause.LATE_SENDER, Cause.LATE_POST, Cause.EARLY_WAIT, Cause.POLLING):
        assert found.total(cause) > 10 * MS, cause.label
    assert found.total(Cause.LATE_RECEIVER) == 0
    assert found.total(Cause.START_AND_END) and found.total(Cause.MANAGEMENT) > 10 * MS
    assert found.base.streams > found.base.ranks and "threads of 4 ranks" in found.base.words


@pytest.mark.cases(1)
def test_the_record_knows_the_cores_of_each_rank(recorded: Recorded) -> None:
    trace = open_run(recorded("kinds"))
    cores = count_usable_cores(trace.ranks)
    assert cores >= 1
    assert bool(waits_of(recorded("kinds")).crowded) == (cores < 4)
