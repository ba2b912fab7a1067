"""Programs that poll: every stop is reached at the poll that was asked for, and what polls without end is told."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

import weft
from replay.campaign import compile_c, environment
from replay.every_stop import stands
from tests_support import Installed
from weft.trace import Event


class Farm:
    """A recorded run of polls.c on four ranks, and replays of it."""

    def __init__(self, installed: Installed, folder: Path) -> None:
        self.weft_command = str(Path(installed.mpicc).parents[1] / "bin" / "weft")
        self.folder = folder
        program = compile_c(Path(installed.mpicc).parents[1], "polls.c", folder)
        self.weft("run", "--out", "run", "-n", "4", "--", program)
        self.trace = weft.open(folder / "run")
        self.made = 0

    def weft(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.weft_command, *words], capture_output=True, text=True, timeout=60, cwd=self.folder,
            env=environment(), stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def replay(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.made += 1
        return self.weft("replay", "run", "--out", f"replay-{self.made}", *words)


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def farm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return Farm(request.getfixturevalue(request.param), tmp_path_factory.mktemp(request.param))


def calls(farm: Farm, rank: int) -> list[Event]:
    """All events of a rank."""
    return [farm.trace.event(rank, index) for index in range(len(farm.trace.ranks[rank]))]


def failed_polls(farm: Farm, rank: int) -> list[int]:
    """The events of a rank that are polls which failed."""
    found = [e.index for e in calls(farm, rank) if e.polls]
    assert found, "the program never polled in vain: the test shows nothing"
    return found


@pytest.mark.matrix
def test_a_stop_beside_ranks_that_poll_is_reached(farm: Farm) -> None:
    polls = failed_polls(farm, 0)
    for rank, event in [(0, polls[0]), (0, polls[-1]), (0, polls[0] + 1), (1, 9), (3, 3)]:
        done = farm.replay("--break", f"{rank}:{event}")
        assert done.returncode == 0, done.stderr
        assert stands(done.stderr, rank) == [event], done.stderr


@pytest.mark.cases(1)
def test_a_demand_point_and_a_breakpoint_stop_where_either_does(farm: Farm) -> None:
    last = len(farm.trace.ranks[0]) - 2  # the barrier
    send = next(e.index for e in calls(farm, 1) if e.function.name == "MPI_Send")  # which rank 0 waits for
    done = farm.replay("--until", f"0:{last}", "--break", f"1:{send}")
    assert (done.returncode, stands(done.stderr, 1)) == (0, [send]), done.stderr
    assert f"event {last} of rank 0, barrier at polls.c" in done.stderr
    assert "comes after another place at which the replay stops" in done.stderr
    alone = farm.replay("--until", "0:4", "--break", "1:9")
    assert (alone.returncode, stands(alone.stderr, 0)) == (0, [4]), alone.stderr


@pytest.mark.cases(1)
def test_a_call_that_is_no_communication_is_named(farm: Farm) -> None:
    done = farm.replay("--until", "0:1")
    assert (done.returncode, stands(done.stderr, 0)) == (0, [3])
    assert "event 1 of rank 0, comm_rank at polls.c" in done.stderr
    assert "the rank stopped before the next call at which a replay can stop" in done.stderr


@pytest.mark.matrix
def test_a_forced_message_that_never_comes_is_told_though_all_poll(farm: Farm) -> None:
    """Rank 0 tests for two messages of one worker at once, which sends the second when it has an answer."""
    first = next(e.index for e in calls(farm, 0) if e.function.name == "MPI_Irecv")
    ran = 0
    for source in (1, 2, 3):
        begun = time.monotonic()
        done = farm.replay("--force", f"0:{first}={source}", "--timeout", "40")
        assert time.monotonic() - begun < 40
        refused = done.returncode == 2 and ("outcome of the record" in done.stderr or "only after" in done.stderr)
        assert refused or done.returncode in (0, 5), done.stderr
        ran += not refused
    assert ran, "each was refused: the test shows nothing"


@pytest.mark.matrix
def test_a_limit_ends_a_replay_and_says_where_it_was(farm: Farm) -> None:
    held = farm.replay("--break", "0:4", "--hold", "--timeout", "3")
    assert (held.returncode, stands(held.stderr, 0)) == (0, [4]), held.stderr
    cut = farm.replay("--timeout", "0.001")
    assert cut.returncode == 5, cut.stderr
    assert "Weft ended the replay after 0.001 seconds (--timeout), before any rank had initialised MPI" in cut.stderr
