"""`weft run --keep last:DURATION`: the end of a run is there, the rest takes no room, and nobody is blamed for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import weft
from launch.conftest import PROGRAMS
from tests_support import Installed, execute
from weft.match.rings import DroppedOperations, dropped_operations
from weft.trace.layout import DROPPED_RECEIVED

Weft = Callable[..., CompletedProcess[str]]
Program = Callable[[str], Path]
SECONDS = 4
WISH = 0.4
EVENTS_OF_BURST = 300 * 5 + 1
"""Of a rank of lasting.c in a burst of messages: 300 times five calls, and MPI_Bcast."""
DROPPED = re.compile(r"Weft dropped ([\d,]+) earlier calls")


def kept(weft_command: Weft, program: Program, end: str) -> CompletedProcess[str]:
    return weft_command(
        "run",
        "--keep",
        f"last:{WISH}s",
        "--out",
        "run",
        "-n",
        "2",
        "--",
        program("lasting"),
        str(SECONDS),
        end,
        str(WISH),
    )


def test_a_run_whose_ring_turned_is_small_silent_and_says_what_is_there(
    weft_command: Weft, program: Program, tmp_path: Path
) -> None:
    done = kept(weft_command, program, "")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert any(
        "only the end of the run is recorded (--keep last:0.4s keeps at least that long)" in line for line in lines[:3]
    ), done.stderr
    assert any("checked in the recorded calls: collectives, deadlock" in line for line in lines[:4]), done.stderr
    assert "nothing found" in done.stderr, done.stderr
    dropped = DROPPED.search(done.stderr)
    assert dropped is not None, done.stderr
    bursts = int(dropped[1].replace(",", "")) // (2 * EVENTS_OF_BURST)
    if bursts < 50:
        pytest.skip(f"the machine is too busy: {bursts} bursts of messages in {SECONDS} s, of some 300")
    trace = weft.open(tmp_path / "run")
    assert trace.suffix is not None
    assert trace.problems == []
    for rank in trace.ranks:  # on a busy machine the end may have most of a run's calls
        assert rank.file is not None
        assert all(one.first_events > 8 for one in rank.file.dropped.values()), "chunks gave their place several times"
    spans = [(int(r.enter_ns()[-1]) - int(r.enter_ns()[0])) / 1e9 for r in trace.ranks]
    assert all(span > 0.9 * WISH for span in spans), spans
    for rank in trace.ranks:
        rows, uncounted = trace.suffix.dropped_sorts(rank)
        assert not uncounted
        # What is on the disk is bounded by what is kept: an eighth more of it, and two accounts of what is not. Where a
        # run is slower at its end, on a busy machine, by what it made in such a time while it was fastest.
        fastest = int(done.stdout) * EVENTS_OF_BURST
        assert len(rank.events) < 1.5 * fastest, "more is there than was asked for"
        room = 56 * max(2 * len(rank.events), 1.5 * fastest) + (1 << 19)
        assert rank.file.size < room, (len(rank.events), fastest)
        sends = trace.functions.mask(("MPI_Send",))
        there = int(sends[rank.events["function"]].sum()) + int(rows["count"][sends[rows["function"]]].sum())
        assert there % 300 == 0, "each call is there, or counted once"
    for words in (("dump", "run", "--count"), ("export", "run", "--format", "perfetto", "--output", "run.pftrace")):
        told = weft_command(*words)
        assert told.returncode == 0, told.stderr
        assert "weft: only the end of the run is recorded (--keep last:0.4s keeps at least that long)" in told.stderr, (
            told.stderr
        )


@pytest.mark.matrix
def test_a_deadlock_behind_dropped_calls_is_proven(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    done = kept(weft_command, program, "deadlock")
    assert done.returncode == 3, done.stderr
    assert re.search(r"error: rank 0 waits in recv\(source=1, tag=99\) at lasting.c:\d+; rank 1 never sends tag 99: "
                     r"it is in barrier", done.stderr), done.stderr  # fmt: skip
    assert done.stderr.count("error:") == 1
    assert DROPPED.search(done.stderr)
    replayed = weft_command("replay", "run")
    assert replayed.returncode != 0
    assert "recorded with --keep, which drops the beginning of a run: a replay needs all of it" in replayed.stderr
    told = json.loads(weft_command("report", "run", "--format", "json").stdout)
    assert told["notes"][0].startswith("only the end of the run is recorded")


def test_a_kill_leaves_a_run_that_is_read(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    done = kept(weft_command, program, "kill")
    assert done.returncode != 0
    trace = weft.open(tmp_path / "run")
    assert trace.suffix is not None
    assert trace.problems == []
    assert "error:" not in "".join(line for line in done.stderr.splitlines() if "[" in line and "crash" not in line)
    assert all(len(rank.events) for rank in trace.ranks)


@pytest.mark.parametrize("wish", ["10s", "last:", "last:-1s", "last:10", "first:10s", "last:0s", "last:nans"])
def test_a_wish_that_is_none_is_refused(weft_command: Weft, wish: str) -> None:
    done = weft_command("run", "--keep", wish, "-n", "1", "--", "true")
    assert done.returncode == 2
    assert "is not last:DURATION" in done.stderr


@pytest.mark.parametrize("option", ["--tasks", "--hash-messages", "--watch-findings"])
def test_what_needs_all_of_a_run_is_refused_beside_it(weft_command: Weft, option: str) -> None:
    done = weft_command("run", "--keep", "last:10s", option, "-n", "1", "--", "true")
    assert done.returncode == 2
    assert f"{option} needs the whole run, and --keep drops its beginning" in done.stderr


def test_level_outcomes_stays_whole(weft_command: Weft) -> None:
    done = weft_command("run", "--keep", "last:10s", "--level", "outcomes", "-n", "1", "--", "true")
    assert done.returncode == 2
    assert "leave --keep out" in done.stderr


Taking = Callable[[str, str, str], tuple[CompletedProcess[str], DroppedOperations]]


@pytest.fixture
def taking(request: pytest.FixtureRequest, weft_command: Weft, tmp_path: Path) -> Taking:
    """Run taking.c with a ring that turns; what Weft said, and what was dropped came to."""

    def run(mpi: str, way: str, end: str) -> tuple[CompletedProcess[str], DroppedOperations]:
        installed: Installed = request.getfixturevalue(mpi)
        program = tmp_path / "taking"
        built = execute([installed.mpicc, "-g", "-o", program, PROGRAMS / "taking.c"])
        assert built.returncode == 0, built.stderr
        for seconds in ("1.5", "8"):  # a busy machine makes too few calls for the ring to turn
            done = weft_command(
                "run", "--keep", "last:0.2s", "--out", f"run{seconds}", "--", *installed.mpiexec, "-n", "3", program,
                seconds, way, end, env=installed.environment, timeout=120,
            )  # fmt: skip
            if (dropped := dropped_operations(weft.open(tmp_path / f"run{seconds}"))) is not None:
                break
        assert dropped is not None, done.stderr
        return done, dropped

    return run


TAKING = [
    ("sendrecv", ""), ("replace", ""), ("isendrecv", ""), ("isendrecv_replace", ""), ("waitall", ""), ("testsome", ""),
    ("waitany", ""),
    ("waitall", "late"),  # a dropped receive of any source takes a message at the end
]  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("mpi", "way", "end"),
    [
        *((mpi, *taking) for taking in TAKING for mpi in ("mpich", "openmpi")),
        ("openmpi", "isendrecv any", ""),
        ("openmpi", "isendrecv_replace any", ""),
    ],
)
def test_what_dropped_calls_took_is_told_beside_them(taking: Taking, mpi: str, way: str, end: str) -> None:
    done, dropped = taking(mpi, way, end)
    assert "error:" not in done.stderr and "unmatched" not in done.stderr, done.stderr
    assert "not checked, because the dropped calls decide" not in done.stderr, done.stderr
    assert dropped.unsettled == set()
    rows = np.concatenate([rows for rows, _ in dropped._sorts.values()])
    assert int(rows["count"][rows["function"] == DROPPED_RECEIVED].sum()) > 100
    assert all(abs(n) <= 3 for n in dropped.surplus.values()), "as many as were under way when calls begin to count"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("mpi", "way", "end"),
    [
        ("mpich", "isendrecv any", ""),  # its status says nothing of the message
        ("mpich", "isendrecv_replace any", ""),
        ("mpich", "waitall", "freed"),
        ("openmpi", "waitall", "freed"),
    ],
)
def test_what_is_not_told_stays_open_and_nobody_is_blamed(taking: Taking, mpi: str, way: str, end: str) -> None:
    done, dropped = taking(mpi, way, end)
    assert "error:" not in done.stderr and "unmatched" not in done.stderr, done.stderr
    assert "not checked, because the dropped calls decide which messages were pending" in done.stderr, done.stderr
    assert len(dropped.unsettled) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("mpi", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("way", ["sendrecv", "isendrecv", "waitall"])
def test_a_deadlock_behind_such_calls_is_proven(taking: Taking, mpi: str, way: str) -> None:
    done, _ = taking(mpi, way, "deadlock")
    assert done.returncode == 3, done.stderr
    assert re.search(r"error: rank 0 waits in recv\(source=1, tag=99\) at taking.c:\d+ for rank 1", done.stderr)
    assert done.stderr.count("error:") == 1, done.stderr
