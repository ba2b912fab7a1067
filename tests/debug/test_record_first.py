"""`weft debug -n N -- PROGRAM` records the program, and stops where something is wrong with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from debug.conftest import PROGRAMS, Recorded
from tests_support import WEFT, Installed, execute

ENDS = """\
import sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(1)
if comm.rank == 1:
    late = total - 2
    print(sys.argv[1] != "raise" or 1 / late)
while sys.argv[1] == "wait":
    total = comm.allreduce(total)
    time.sleep(0.05)
comm.Barrier()
"""


def debugged(folder: Path, ranks: int, *program: str | Path, commands: tuple[str, ...] = ()) -> tuple[str, str]:
    """Debug a program in a folder; return what the prompt printed, and the report."""
    words = [word for command in commands for word in ("-c", command)]
    done = execute([*WEFT, "debug", "-n", str(ranks), *words, "--", *program], cwd=folder, timeout=150)
    return done.stdout, done.stderr


def test_a_hang_is_recorded_and_continue_stops_before_it(compiled: Callable[[str], Path], tmp_path: Path) -> None:
    out, report = debugged(tmp_path, 3, compiled("cells"), commands=("ranks", "continue", "prev event"))
    assert "the ranks named below wait and can never continue" in report and "breakpoint 1: finding:1, " in out
    start, stop, back = out.split("(weft) ")[1:]
    assert "rank 2  before event 7: barrier" in start  # the way back begins at the first moment
    assert "rank 0  before event 11: recv(source=1, tag=7)" in stop
    assert "rank 0  before event 10" in back


@pytest.mark.usefixtures("gdb")
def test_a_crash_is_stopped_at_without_a_breakpoint(compiled: Callable[[str], Path], tmp_path: Path) -> None:
    out, _ = debugged(tmp_path, 2, compiled("crash"), commands=("continue", "reverse-next"))
    assert "breakpoint" not in out
    stop, back = out.split("(weft) ")[1:]
    assert "SIGSEGV at crash.c:" in stop and "SIGSEGV" not in back and "at crash.c:" in back


@pytest.mark.matrix
def test_a_race_is_stopped_at(tmp_path: Path, mpich: Installed) -> None:
    out, report = debugged(tmp_path, 3, sys.executable, PROGRAMS / "collect.py", commands=("continue",))
    assert "[message-race]" in report and "breakpoint 1: finding:1" in out
    assert "before event" in out.split("(weft) continue")[1] and "source=ANY_SOURCE" in out


@pytest.mark.matrix
def test_an_exception_is_stopped_at_on_its_line_and_the_way_back_goes_on_from_there(
    tmp_path: Path, mpich: Installed
) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    program = (sys.executable, "ends.py", "raise")
    out, _ = debugged(tmp_path, 2, *program, commands=("continue", "reverse-next", "print total @1"))
    assert "breakpoint 1: 1:ends.py:7, in the source on rank 1" in out
    stop, back, value = out.split("(weft) ")[1:]
    assert "rank 1  at ends.py:7 in <module>" in stop and "rank 1  at ends.py:6 in <module>" in back
    assert value.splitlines()[1] == "  rank 1  2"


@pytest.mark.matrix
def test_ctrl_c_ends_the_recording_and_the_prompt_opens(tmp_path: Path, mpich: Installed) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    commands = ["-c", "continue", "-c", "print total > 0"]
    words = [*WEFT, "debug", "-n", "2", *commands, "--", sys.executable, "ends.py", "wait"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    until = time.monotonic() + 60
    while not list(tmp_path.glob("weft-runs/*/ranks/*.weft")) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    out = process.communicate(timeout=100)[0]
    assert process.returncode == 0, out
    assert "has left its record" not in out and "ranks 0 and 1  True" in out


def test_a_program_without_a_record_is_no_older_run(tmp_path: Path, mpich: Installed) -> None:
    done = execute([*WEFT, "debug", "-n", "1", "-c", "ranks", "--", "true"], cwd=tmp_path)
    assert done.returncode == 4 and "`true` left no record" in done.stderr and "(weft)" not in done.stdout


def test_the_prompt_on_a_hung_run_begins_with_the_way_to_the_hang(cells: Recorded, rounds: Recorded) -> None:
    done = execute([*WEFT, "debug", cells.run], stdin="until finding:1\nquit\n", timeout=100)
    start, stop = done.stdout.split("(weft) ")[:2]
    assert "[deadlock] `until finding:1` goes there." in start
    assert "rank 0  before event 11: recv(source=1, tag=7)" in stop
    quiet = execute([*WEFT, "debug", rounds.run], stdin="quit\n", timeout=100)
    assert "goes there" not in quiet.stdout
