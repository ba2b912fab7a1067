"""Several threads of a rank: they stop at the same events each time, and none waits for ever for one that stands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import weft
from replay.campaign import compile_c, environment
from replay.every_stop import stands
from tests_support import WEFT, Installed, execute


@pytest.fixture(scope="module")
def folder(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where threads.c was recorded as `run`."""
    made = tmp_path_factory.mktemp("threads")
    program = compile_c(Path(mpich.mpicc).parents[1], "threads.c", made)
    execute([*WEFT, "run", "--out", "run", "-n", "3", "--", program, "10"], cwd=made, env=environment())
    return made


def replay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = execute([*WEFT, "replay", "run", *words], cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", ["--until", "--break"])
def test_a_stop_in_one_thread_is_the_same_each_time(how: str, folder: Path) -> None:
    first, second = (replay(folder, how, "0:12").stderr for _ in range(2))
    assert first == second
    assert "before event 12: recv(source=ANY_SOURCE, tag=5) at threads.c" in first


def test_what_comes_behind_a_join_needs_all_that_the_threads_did(folder: Path) -> None:
    finalize = len(weft.open(folder / "run").ranks[0]) - 1
    done = replay(folder, "--until", f"0:{finalize}")
    assert f"rank 0 thread 0 before event {finalize}: finalize" in done.stderr
    assert done.stdout.count(".") == 20


def test_before_the_threads_begin_nothing_was_run(folder: Path) -> None:
    assert "stopped as asked: 0 of 43 calls were run again" in replay(folder, "--until", "0:2").stderr


@pytest.mark.matrix
def test_a_thread_that_waits_for_others_holds_no_stop_up(folder: Path) -> None:
    """The main thread of rank 0 is in pthread_join while its receivers stand, or when they have ended."""
    finalize = len(weft.open(folder / "run").ranks[0]) - 1
    for rank, event in [(1, 3), (1, 12), (0, finalize)]:
        done = replay(folder, "--break", f"{rank}:{event}", "--timeout", "20")
        assert event in stands(done.stderr, rank), done.stderr
        joins = f"rank 0 thread 0 outside of MPI, next is event {finalize}: finalize at threads.c" in done.stderr
        assert joins == (rank == 1), done.stderr
