"""What is decided at the target of a window comes out as recorded: who fetched what, who had the lock when."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from replay.campaign import campaign, compile_c, environment
from tests_support import WEFT, Installed, execute
from weft.replay.turns import Location, find_turns
from weft.trace.layout import AccessKind

CASES = [
    ("spin", "mpich", "trace"), ("lock", "mpich", "outcomes"), ("requested", "mpich", "outcomes"),
    ("fence", "mpich", "trace"), ("spin-py", "mpich", "outcomes"), ("lock-py", "mpich", "trace"),
    ("counter", "openmpi", "outcomes"), ("spin", "openmpi", "trace"),
    pytest.param("counter", "mpich", "trace", marks=pytest.mark.matrix),
    pytest.param("lock-py", "openmpi", "outcomes", marks=pytest.mark.matrix),
]  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize(("name", "mpi", "level"), CASES, ids=lambda case: case)
def test_every_replay_decides_as_recorded(
    name: str, mpi: str, level: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    venv = Path(request.getfixturevalue(mpi).mpicc).parents[1]
    same, replays, _ = campaign(name, venv, 2, tmp_path, plain_runs=0, loads=(0,), level=level)
    assert same == replays


@pytest.fixture(scope="module")
def spun(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a lock by MPI_Compare_and_swap was recorded as `run`."""
    folder = tmp_path_factory.mktemp("windows")
    program = compile_c(Path(mpich.mpicc).parents[1], "windows.c", folder)
    execute([*WEFT, "run", "--out", "run", "-n", "3", "--", program, "spin", "10"], cwd=folder, env=environment())
    return folder


@pytest.mark.matrix
def test_the_order_that_was_found_explains_every_value(spun: Path) -> None:
    ranks = weft.open(spun / "run").ranks
    found = find_turns(ranks)
    atomic = found.accesses[found.accesses["kind"] >= AccessKind.FETCH]
    owners = [o for o, kind in zip(found.owners, found.accesses["kind"], strict=True) if kind >= AccessKind.FETCH]
    place = Location(atomic, owners)
    place.find_order()
    assert len(atomic) >= 60  # 30 times taken, 30 times given back
    assert place.unexplained == 0


def test_a_stop_in_the_midst_needs_the_turns_before_it(spun: Path) -> None:
    rank = weft.open(spun / "run").ranks[2]
    puts = [e.index for e in rank if e.function.name == "MPI_Put"]
    first, second = (
        execute([*WEFT, "replay", "run", "--until", f"2:{puts[4]}"], cwd=spun, env=environment()) for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert f"rank 2 before event {puts[4]}: put" in first.stderr.lower()
    assert first.stderr == second.stderr


@pytest.mark.matrix
def test_a_replay_of_a_replay_is_the_same_run(spun: Path) -> None:
    one = execute([*WEFT, "replay", "run", "--out", "one"], cwd=spun, env=environment())
    two = execute([*WEFT, "replay", "one", "--out", "two"], cwd=spun, env=environment())
    assert one.returncode == two.returncode == 0
    assert one.stdout == two.stdout


@pytest.mark.cases(1)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_numbers_are_added_in_the_recorded_order(mpi: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    venv = Path(request.getfixturevalue(mpi).mpicc).parents[1]
    program = compile_c(venv, "rounded.c", tmp_path)
    for attempt in range(3):  # in two of three replays without turns some sum was another one
        command = [*WEFT, "run", "--out", f"run-{attempt}", "-n", "3", "--", program]
        recorded = execute(command, cwd=tmp_path, env=environment())
        replayed = execute([*WEFT, "replay", f"run-{attempt}"], cwd=tmp_path, env=environment())
        assert len(recorded.stdout.split()) == 10
        assert replayed.stdout == recorded.stdout


def test_integers_are_added_in_any_order(mpich: Installed, tmp_path: Path) -> None:
    program = compile_c(Path(mpich.mpicc).parents[1], "rounded.c", tmp_path)
    added = execute([*WEFT, "run", "--out", "run", "-n", "3", "--", program, "whole"], cwd=tmp_path, env=environment())
    assert added.stdout.split() == ["1"] * 10
    assert not any(rows["needed"].any() for rows in find_turns(weft.open(tmp_path / "run").ranks).rows.values())
