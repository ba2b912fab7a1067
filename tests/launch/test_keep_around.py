"""`weft run --keep last:DURATION --keep-around-findings`: what a finding stands on stays, after the ring dropped it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import weft
from launch.conftest import PROGRAMS
from tests_support import Installed, execute
from weft.trace.rings import snapshots

CALLS = re.compile(
    r"--keep last:1s keeps at least that long\): ([\d,]+) calls of the last .*; Weft dropped ([\d,]+) earlier calls"
)
CALLS_OF_ROUND = 300
ROUNDS = 60
"""A machine on which the program makes fewer rounds, of some 400, is too busy: nobody comes to look at it in time."""

Weft = Callable[..., CompletedProcess[str]]
Early = Callable[..., CompletedProcess[str]]


@pytest.fixture(params=["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def early(request: pytest.FixtureRequest, weft_command: Weft, tmp_path: Path) -> Early:
    """Run early.c, whose rank 0 receives from whoever comes in the middle, with a ring that turns before and after."""
    mpi: Installed = request.getfixturevalue(request.param)

    def run(way: str, *options: str) -> CompletedProcess[str]:
        program = tmp_path / "early"
        built = execute([mpi.mpicc, "-g", "-o", program, PROGRAMS / "early.c"])
        assert built.returncode == 0, built.stderr
        return weft_command(
            "run", "--keep", "last:1s", *options, "--out", "run", "--", *mpi.mpiexec, "-n", "3", program,
            way, "2.5", "6", "9", env=mpi.environment, timeout=120,
        )  # fmt: skip

    return run


def test_a_race_that_the_ring_has_dropped_is_told_from_what_was_set_aside(
    early: Early, weft_command: Weft, tmp_path: Path
) -> None:
    done = early("race", "--keep-around-findings")
    assert done.returncode == 0, done.stderr
    calls = CALLS.search(done.stderr)
    assert calls is not None, done.stderr
    rounds = sum(int(number.replace(",", "")) for number in calls.groups()) // CALLS_OF_ROUND
    if rounds < ROUNDS:
        pytest.skip(f"the machine is too busy: {rounds} rounds of messages in 9 s, of some 400")
    so_far = [line for line in done.stderr.splitlines() if "so far: warning: rank 0 receives from any source" in line]
    assert len(so_far) == 1, done.stderr
    assert "(its calls are copied to around/1)" in so_far[0]
    run = tmp_path / "run"
    assert snapshots.list_snapshots(run) == [run / "around" / "1"]
    whole, part = weft.open(run), weft.open(run / "around" / "1")
    assert whole.suffix is not None and part.suffix is not None and part.problems == []
    assert part.event_count > 0 and part.suffix.dropped_count < whole.suffix.dropped_count
    wildcards = [
        sum(int((rank.events["flags"] & weft.trace.Flag.ANY_SOURCE != 0).sum()) for rank in trace.ranks)
        for trace in (whole, part)
    ]
    assert wildcards[1], "the part has the racing receives"
    if wildcards[0]:
        pytest.skip(f"the machine is too busy: with {rounds} rounds of messages the ring's end still has the race")
    told = json.loads(weft_command("report", "run", "--format", "json").stdout)
    [race] = [one for one in told["findings"] if one["kind"] == "message-race"]
    assert race["evidence"] == {"around": "around/1"}
    assert {(Path(site["file"]).name, site["line"] > 0) for site in race["sites"]} == {("early.c", True)}
    assert "1 part of the run, copied around findings before the calls were dropped: around/1" in told["notes"]
    text = weft_command("report", "run").stdout
    assert "weft report run/around/1" in text
    own = weft_command("report", "run/around/1").stdout
    assert "[message-race]" in own
    assert "weft replay" not in own, "a replay needs the whole run"
    assert "| MPI_Recv(&value" in own or "MPI_Recv(&value, 1, MPI_INT" in own


@pytest.mark.matrix
def test_without_a_race_nothing_is_set_aside(early: Early, tmp_path: Path) -> None:
    done = early("named", "--keep-around-findings")
    assert done.returncode == 0, done.stderr
    assert "so far" not in done.stderr and "are copied" not in done.stderr, done.stderr
    assert "nothing found" in done.stderr, done.stderr
    assert not (tmp_path / "run" / "around").exists()


def test_it_needs_a_ring(weft_command: Weft) -> None:
    done = weft_command("run", "--keep-around-findings", "-n", "1", "--", "true")
    assert done.returncode == 2
    assert "--keep-around-findings needs --keep last:DURATION" in done.stderr
