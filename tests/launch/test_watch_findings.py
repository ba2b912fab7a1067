"""`weft run --watch-findings`: what is proven is told while the program runs, once, and nothing that is not so."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests_support import WEFT, Installed, execute, execute_and_touch
from weft.cli.main import main
from weft.match import NONE, match_operations
from weft.order import order_events
from weft.races import find
from weft.trace.cut import cut_events
from weft.trace.growing import open_growing
from weft.trace.layout import EVENT, Flag

PROGRAMS = Path(__file__).parent / "programs"
IN_PYTHON = """
import os, sys, time
from mpi4py import MPI
world, place = MPI.COMM_WORLD, bytearray(4)
for step in range(3000 if "told" in sys.argv else 150):
    if world.allreduce(os.path.exists("told")):
        break
    if step == 5 and world.rank:
        world.Send(bytes(4), dest=0, tag=3)
    elif step == 5:
        for source in range(1, world.size):
            world.Recv(place, source=source if "named" in sys.argv else MPI.ANY_SOURCE, tag=3)
    time.sleep(0.02)
"""

Way = Callable[..., list[str]]


@pytest.fixture(params=["mpich", "openmpi"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    """Run midway.c, or its like in Python, with --watch-findings on three ranks: Weft's own lines."""
    mpi: Installed = request.getfixturevalue(request.param)

    def run(*arguments: str, python: bool = False) -> list[str]:
        if python:
            (tmp_path / "midway.py").write_text(IN_PYTHON)
            line = [mpi.python, str(tmp_path / "midway.py")]
        else:
            line = [str(tmp_path / "midway")]
            done = execute([mpi.mpicc, "-g", "-o", line[0], PROGRAMS / "midway.c"])
            assert done.returncode == 0, done.stderr
        command = [*WEFT, "run", "--watch-findings", "--", *mpi.mpiexec, "-n", "3", *line, *arguments]
        done = execute_and_touch(
            command, "weft: so far: ", tmp_path / "told", cwd=tmp_path, env=mpi.environment, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return [text for text in done.stderr.splitlines() if text.startswith("weft: ")]

    return run


def early(lines: list[str]) -> list[str]:
    """What was told of findings before the run had ended."""
    ended = next(i for i, text in enumerate(lines) if text.startswith("weft: recorded"))
    return [text for text in lines[:ended] if not text.startswith("weft: building the recorder")]


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", [False, True])
def test_a_race_in_the_middle_is_told_once_with_its_lines_while_the_program_runs(watched: Way, python: bool) -> None:
    lines = watched("race", "60", "told", python=python)
    assert len(early(lines)) == 1, lines
    (told,) = early(lines)
    assert told.startswith("weft: so far: warning: rank 0 receives from any source at midway.")
    assert "(tag 3)" in told
    assert told.endswith("[message-race]")
    assert told.replace("so far: ", "") in lines  # and at the end, in the same words


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", [False, True])
def test_nothing_is_told_of_the_twin(watched: Way, python: bool) -> None:
    assert early(watched("named", "3", python=python)) == []


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["pool", "token"])
def test_a_pool_that_answers_each_and_a_message_that_is_alone_are_no_news(watched: Way, how: str) -> None:
    assert early(watched(how, "3")) == []


@pytest.mark.matrix
def test_what_is_read_of_a_run_that_goes_on_holds_the_send_of_each_receive(
    mpich: Installed, program: Callable[[str], Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    line = [*WEFT, "run", "--out", run, "--", *mpich.mpiexec, "-n", "3", program("midway"), "token", "4"]
    job = subprocess.Popen([str(word) for word in line], cwd=tmp_path, stderr=subprocess.DEVNULL)
    looks = 0
    try:
        while job.poll() is None:
            trace = open_growing(run) if (run / "ranks").is_dir() and (run / "functions.json").exists() else None
            if trace is not None and len(trace.ranks) == 3:
                matched = match_operations(trace)
                completed = matched.recvs.completion != NONE
                assert (matched.recvs.partner[completed] != NONE).all()
                assert not [one for one in find(trace, matched, order_events(trace, matched)) if one.severity != "note"]
                looks += bool(completed.any())
            time.sleep(0.02)
    finally:
        job.wait(60)
    assert looks > 5


def calls(*rows: tuple[int, int, int]) -> np.ndarray:
    """Events of (enter, duration, flags), from source 2."""
    events = np.zeros(len(rows), EVENT)
    for event, (enter, duration, flags) in zip(events, rows, strict=True):
        event["enter"], event["duration"], event["flags"], event["peer"] = enter, duration, flags, 2
    return events


def test_a_call_that_ended_later_waits_and_one_that_began_later_is_not_there() -> None:
    closed, any_source = int(Flag.CLOSED), int(Flag.ANY_SOURCE)
    events = calls((10, 5, closed), (20, 5, closed | any_source), (30, 5, closed))
    assert len(cut_events(events, 29)) == 2
    assert (cut_events(events, 29) == events[:2]).all()
    waiting = cut_events(events, 24)[1]
    assert (waiting["flags"], waiting["duration"], waiting["peer"]) == (any_source, 0, -1)
    assert len(cut_events(events, 9)) == 0
    assert events[1]["flags"] == closed | any_source


def test_without_calls_there_is_nothing_to_watch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--level", "outcomes", "--watch-findings", "--", "true"]) == 2
    assert "--watch-findings needs --level trace" in capsys.readouterr().err


def test_looking_ends_where_nobody_is_there_to_be_told(tmp_path: Path) -> None:
    """`weft run` was killed before its witness looked for its parent the first time."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    command = [sys.executable, "-P", "-m", "weft.report.live", tmp_path, "--of", str(gone.pid), "--findings"]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
