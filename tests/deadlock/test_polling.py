"""Ranks that polled in vain when a run was interrupted: told if nothing could come, and nothing is said of a program
that may go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute
from weft import deadlock
from weft.findings import Finding
from weft.report import run_analyses, summary
from weft.trace import EndingKind, Trace
from weft.trace.builder import ANY, Builder, RankBuilder
from weft.trace.layout import Def, State
from weft.trace.varint import encode_string, encode_unsigned

SECOND = 1_000_000_000
SOURCE = Path(__file__).with_name("polls.c")


SLEEPS = [["nanosleep.c", 2, "__GI___nanosleep"]]
INSIDE = [["yield.c", 1, "sched_yield"], ["test.c", 3, "MPI_Test"]]


def sampled(b: Builder, frames: list[list[object]] | None = None) -> Trace:
    """The run, interrupted after three seconds, when each rank was in these functions of libc (by default it slept; []
    if it computed)."""
    frames = SLEEPS if frames is None else frames
    for rank in b.ranks:
        words = encode_unsigned(1) + encode_unsigned(0) + encode_unsigned(4096) + encode_string("ab")
        rank.define(Def.MODULE, words + encode_string("/lib/libc.so.6"))
        rank.add_ending(
            EndingKind.WARNED,
            code=2,
            name="SIGINT",
            python=[("step.py", 33, "main")],
            native=[(1, 70)] if frames else [],
            at=3 * SECOND,
        )
        rank.state = State.RUNNING
    trace = b.open()
    module = {"path": "/lib/libc.so.6", "build_id": "ab", "sites": {"70": frames}}
    (trace.path / "sites.json").write_text(json.dumps({"schema": "weft-sites/1", "modules": [module]}))
    return trace


def at(line: int) -> tuple[str, int, str]:
    return ("step.py", line, "main")


def poll_in_vain(rank: RankBuilder, *, polls: int = 2000, until: float = 2.9) -> None:
    """Record that a rank tests a receive of rank 0 until `until` seconds, without success."""
    request = rank.irecv(0, tag=5, site=at(4))
    rank.test(request, flag=False, polls=polls, site=at(5), enter=1000, exit=int(until * SECOND))


def interrupted(ranks: int = 2) -> Builder:
    b = Builder(ranks=ranks, ended="interrupted")
    b.ranks[0].open.barrier(site=at(9), enter=2000)
    return b


def only(trace: Trace) -> Finding:
    [found] = deadlock.find(trace)
    assert (found.kind, found.certainty, found.severity) == ("deadlock", "possible", "error")
    return found


def test_a_rank_that_polls_for_what_nobody_can_send_is_told_first() -> None:
    b = interrupted()
    poll_in_vain(b.ranks[1])
    trace = sampled(b)
    found = only(trace)
    assert found.message == (
        "rank 1 polls test() at step.py:5 for irecv(source=0, tag=5) of step.py:4; rank 0 never sends tag 5: it is in "
        "barrier at step.py:9 and waits for rank 1. Rank 1 polled 2,000 times in 2.9 s, and nothing can come any more: "
        "all of them wait for ever unless it leaves its loop by itself"
    )
    assert found.facts()["polling"] == [{"rank": 1, "count": 2000, "seconds": pytest.approx(2.9, abs=0.01)}]
    assert [one.kind for one in run_analyses(trace).findings if one.severity == "error"] == ["deadlock"]
    assert summary(trace).splitlines()[0].startswith("error: rank 1 polls test() at step.py:5")
    assert "SIGINT" not in summary(trace)


@pytest.mark.parametrize("why", ["awake", "few", "short", "sent", "clock", "running", "computes"])
def test_a_rank_that_may_go_on_is_not_told(why: str) -> None:
    b = interrupted(ranks=3)
    b.ranks[2].open.barrier(site=at(9), enter=2000)
    poll_in_vain(b.ranks[1], polls=3 if why == "few" else 2000, until=0.5 if why == "short" else 2.9)
    if why == "clock":
        b.ranks[1].call("MPI_Wtime", enter=int(2.95 * SECOND), exit=int(2.96 * SECOND))
    if why == "sent":
        b.ranks[2].send(1, tag=5)
        b.ranks[0].send(1, tag=5)
    if why == "computes":  # rank 0 is on its way out of the barrier, and sends next
        b.ranks[0].barrier(comm="MPI_COMM_SELF", enter=3000)
    b.ended = "running" if why == "running" else b.ended
    assert deadlock.find(sampled(b, [] if why == "awake" else None)) == []


@pytest.mark.parametrize(("polls", "is_told"), [(20_000_000, True), (500_000, False)])
def test_a_rank_found_inside_its_poll_is_told_if_its_loop_has_no_time_for_anything_else(
    polls: int, *, is_told: bool
) -> None:
    b = interrupted()
    poll_in_vain(b.ranks[1], polls=polls)
    assert len(deadlock.find(sampled(b, INSIDE))) == is_told


def test_its_twin_whose_message_is_on_its_way_is_silent_only_for_that_tag() -> None:
    for tag in (5, 6):
        b = Builder(ranks=2, ended="interrupted")
        b.ranks[0].send(1, tag=tag, site=at(8))
        b.ranks[0].open.barrier(site=at(9), enter=2000)
        poll_in_vain(b.ranks[1])
        found = deadlock.find(sampled(b))
        assert len(found) == (tag == 6)
        assert all("(it sent tag 6 at step.py:8, which nobody receives)" in one.message for one in found)


def poll_in_turn(b: Builder, *, probes: bool = True) -> None:
    """Rank 0 waits in a barrier; rank 1 tests a receive of tag 5 in a loop, which also probes for tag 7."""
    b.ranks[0].open.barrier(site=at(9), enter=2000)
    r1 = b.ranks[1]
    request = r1.irecv(0, tag=5, site=at(4))
    for step in range(20):
        now = int((0.1 + step * 0.14) * SECOND)
        r1.test(request, flag=False, site=at(5), enter=now, exit=now + 10)
        if probes:
            r1.iprobe(ANY, 7, flag=False, site=at(6), enter=now + 20, exit=now + 30)


def test_polls_in_turn_wait_for_any_of_what_they_ask_for() -> None:
    for served in (False, True):
        b = Builder(ranks=2, ended="interrupted")
        if served:
            b.ranks[0].send(1, tag=7)
        poll_in_turn(b)
        assert len(deadlock.find(sampled(b))) == (not served)


@pytest.mark.parametrize("polls_other", [True, False])
def test_all_polls_of_a_loop_are_named(*, polls_other: bool) -> None:
    b = Builder(ranks=2, ended="interrupted")
    poll_in_turn(b, probes=polls_other)
    message = only(sampled(b)).message
    assert (", also iprobe(source=ANY_SOURCE, tag=7) at step.py:6" in message) == polls_other, message


def test_ranks_that_poll_for_each_other_and_nobody_in_a_call() -> None:
    b = Builder(ranks=2, ended="interrupted")
    for rank, other in zip(b.ranks, (1, 0), strict=True):
        request = rank.irecv(other, tag=5, site=at(4))
        rank.test(request, flag=False, polls=500, site=at(5), enter=1000, exit=int(2.9 * SECOND))
    message = only(sampled(b)).message
    assert message.startswith(
        "ranks 0 and 1 poll test() at step.py:5 for irecv(tag=5) of step.py:4; each waits for a message from the other"
    )


def test_a_proven_deadlock_is_told_without_the_rank_that_polls_behind_it() -> None:
    b = Builder(ranks=3, ended="interrupted")
    b.ranks[0].open.recv(2, site=at(1))
    b.ranks[2].open.recv(0, site=at(2))
    poll_in_vain(b.ranks[1])
    [found] = deadlock.find(sampled(b))
    assert (found.certainty, found.ranks) == ("certain", (0, 2))


# Real programs


@pytest.fixture(scope="module", params=["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def installed(request: pytest.FixtureRequest) -> Installed:
    mpi = request.getfixturevalue(request.param)
    assert isinstance(mpi, Installed)
    return mpi


@pytest.fixture(scope="module")
def program(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("polls") / "polls"
    done = execute([installed.mpicc, "-g", "-O1", "-o", built, SOURCE], env=installed.environment)
    assert done.returncode == 0, done.stderr
    return built


def said(mpi: Installed, command: list[str], folder: Path) -> list[str]:
    """What `weft run` says about its findings if it is interrupted after some seconds."""
    run = folder / "run"
    job = subprocess.Popen(
        [*WEFT, "run", "--out", run, "--", *mpi.mpiexec, *command],
        env={**os.environ, **mpi.environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        limit = time.monotonic() + 60
        while len([p for p in run.glob("ranks/*.weft") if "tmp-" not in p.name]) < 2 and time.monotonic() < limit:
            time.sleep(0.1)
        time.sleep(2.5)
        job.send_signal(signal.SIGINT)
        printed, _ = job.communicate(timeout=60)
    finally:
        job.kill()
    return [line for line in printed.splitlines() if line.startswith(("weft: error", "weft: warning"))]


@pytest.mark.parametrize(
    "how",
    ["in turn", *(pytest.param(one, marks=pytest.mark.matrix)
                  for one in ("test", "testany", "testall", "testsome", "improbe"))],
)  # fmt: skip
def test_a_program_that_polls_in_vain(installed: Installed, program: Path, how: str, tmp_path: Path) -> None:
    [line] = said(installed, ["-n", "2", str(program), how], tmp_path)
    assert line.startswith("weft: error: rank 1 polls ")
    assert "barrier at polls.c:" in line
    assert "nothing can come" in line
    assert line.endswith("(possible, not proven). [deadlock]")


@pytest.mark.parametrize(
    "how",
    ["computes little", *(pytest.param(one, marks=pytest.mark.matrix)
                          for one in ("computes", "until a time", "late"))],
)  # fmt: skip
def test_a_program_that_polls_and_may_go_on(installed: Installed, program: Path, how: str, tmp_path: Path) -> None:
    assert said(installed, ["-n", "2", str(program), how], tmp_path) == []


@pytest.mark.matrix
def test_a_program_that_gives_up_polling_is_silent(installed: Installed, program: Path, tmp_path: Path) -> None:
    done = execute(
        [*WEFT, "run", "--out", tmp_path / "run", "--", *installed.mpiexec, "-n", "2", program, "bounded"],
        env=installed.environment,
    )  # fmt: skip
    assert done.returncode == 0
    assert "deadlock" not in done.stdout + done.stderr
