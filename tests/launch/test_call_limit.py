"""`weft run --call-limit`: a call that does not return is told once while the program runs, with what others do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests_support import WEFT, execute_and_touch
from weft.report.limit import CallLimit
from weft.trace.builder import Builder

Weft = Callable[..., CompletedProcess[str]]
Program = Callable[[str], Path]
TOLD = "weft: limit: rank 1 has been in recv(source=0, tag=5) at limit.c:27 for "


def limits(done: CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("weft: limit: ")]


def test_a_call_over_the_limit_is_told_once_and_the_run_goes_on(program: Program, tmp_path: Path) -> None:
    line = [*WEFT, "run", "--call-limit", "2", "-n", "3", "--", program("limit"), "60", tmp_path / "told"]
    done = execute_and_touch(line, "weft: limit: ", tmp_path / "told", cwd=tmp_path, env={})
    assert done.returncode == 0, done.stderr
    of_one = [line for line in limits(done) if line.startswith(TOLD)]
    assert len(of_one) == 1, done.stderr
    assert "rank 2 has made calls since" in of_one[0]
    assert "rank 0 is outside of MPI" in of_one[0]
    assert not [line for line in limits(done) if "rank 2 has been" in line or "rank 0 has been" in line]


def test_calls_that_return_in_time_are_not_told(weft_command: Weft, program: Program) -> None:
    done = weft_command("run", "--call-limit", "40", "-n", "3", "--", program("limit"), "2")
    assert done.returncode == 0
    assert limits(done) == []


def test_the_run_is_ended_on_request(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    begun = time.monotonic()
    done = weft_command(
        "run", "--call-limit", "1", "--end-at-limit", "--out", "run", "-n", "3", "--", program("limit"), "50"
    )
    assert time.monotonic() - begun < 45
    assert done.returncode != 0
    assert any(line.startswith(TOLD) for line in limits(done)), done.stderr
    assert "weft: --end-at-limit ended the run: a call had not returned." in done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ended"] == "killed"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--level", "outcomes", "--call-limit", "3"], "--call-limit needs --level trace"),
        (["--end-at-limit"], "--end-at-limit needs --call-limit SECONDS"),
    ],
)
def test_what_cannot_be_asked_is_refused(weft_command: Weft, arguments: list[str], why: str) -> None:
    done = weft_command("run", *arguments, "--", "true")
    assert done.returncode == 2
    assert why in done.stderr


def test_a_call_is_told_again_only_when_it_is_another_one(tmp_path: Path) -> None:
    run = Builder(ranks=2, path=tmp_path / "run")
    run.ranks[0].send(1, tag=5)
    run.ranks[1].recv(0, tag=5)
    run.ranks[1].open.recv(0, tag=5)
    run.open()
    clock = [0.0]
    limit = CallLimit(tmp_path / "run", 3.0, lambda: clock[0])
    told = []
    for at in (0.0, 2.9, 3.0, 9.0):
        clock[0] = at
        told.append([text for text, _ in limit.find_news()])
    assert [len(lines) for lines in told] == [0, 0, 1, 0]
    assert told[2][0].startswith("limit: rank 1 has been in recv(source=0, tag=5)")
