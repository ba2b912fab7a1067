"""What a program gets from its user and gives back to him is the same under `weft run` as without."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests_support import WEFT, Installed

from .conftest import Terminal

Weft = Callable[..., subprocess.CompletedProcess[str]]
Program = Callable[[str], Path]
Open = Callable[[Sequence[str]], Terminal]


@pytest.mark.matrix
def test_standard_input_output_and_error_reach_the_program_unchanged(weft_command: Weft, program: Program) -> None:
    text = "".join(f"line {i} äöü\n" for i in range(500))
    done = weft_command("run", "-n", "2", "--", program("echo"), stdin=text)
    assert done.stdout == text
    assert f"{len(text.encode())} bytes" in done.stderr.splitlines()[0]
    assert done.returncode == 0


def test_wefts_own_lines_come_behind_all_of_the_programs(weft_command: Weft, program: Program) -> None:
    done = weft_command("run", "-n", "2", "--", program("echo"), stdin="x")
    lines = done.stderr.splitlines()
    assert lines[0] == "1 bytes"
    assert all(line.startswith("weft: ") for line in lines[1:])


@pytest.mark.cases(1)
@pytest.mark.parametrize(("how", "status"), [("", 0), ("status", 7), ("abort", 5)])
def test_the_exit_status_is_the_programs_own(weft_command: Weft, program: Program, how: str, status: int) -> None:
    assert weft_command("run", "-n", "2", "--", program("endings"), how).returncode == status


def test_the_exit_status_of_a_rank_that_leaves_is_what_the_launcher_makes_of_it(
    weft_command: Weft, program: Program, mpich: Installed, tmp_path: Path
) -> None:
    # Hydra gives the 6 of the rank that left, or, of a few runs in a hundred, the 9 with which it ended the other rank.
    launch = " ".join(map(shlex.quote, [*mpich.mpiexec, "-n", "2", str(program("endings")), "exit"]))
    own = tmp_path / "status"
    done = weft_command("run", "--", "sh", "-c", f"{launch}; status=$?; echo $status > {own}; exit $status")
    assert done.returncode == int(own.read_text()) != 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_that_ends_the_program_gives_the_status_of_a_shell(weft_command: Weft, number: int) -> None:
    done = weft_command("run", "--", "sh", "-c", f"kill -{number} $$")
    assert done.returncode == 128 + number


def test_the_program_starts_with_the_signals_that_weft_was_started_with(weft_command: Weft) -> None:
    command = ["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    under_weft = weft_command("run", "--", *command).stdout
    assert signal_masks(under_weft) == signal_masks(plain)


def signal_masks(text: str) -> list[int]:
    # glibc's posix_spawn leaves its two internal signals, 32 and 33, ignored; programs cannot use them.
    return [int(line.split()[1], 16) & ~(3 << 31) for line in text.splitlines()]


def test_a_script_without_a_first_line_runs_as_in_a_shell(weft_command: Weft, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert weft_command("run", "--", "./script").returncode == 9


@pytest.fixture
def listening(terminal: Open, program: Program) -> Iterator[Terminal]:
    """`weft run` of a program that counts its signals, in a terminal."""
    opened = terminal([*WEFT, "run", "--", str(program("signals"))])
    opened.expect("ready")
    yield opened


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("key", "number"), [("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)], ids=["ctrl-c", "ctrl-backslash"]
)
def test_a_key_of_the_terminal_reaches_the_program_once(listening: Terminal, key: str, number: int) -> None:
    listening.type(key)
    os.sched_yield()
    listening.process.send_signal(signal.SIGTERM)
    assert listening.expect(r"signal (\d+): (\d+)").groups() == (str(int(number)), "1")
    listening.expect("weft: recorded 1 rank")
    assert listening.process.wait(20) == 0


def test_a_new_window_size_reaches_the_program_once(listening: Terminal) -> None:
    listening.resize(31, 77)
    listening.process.send_signal(signal.SIGTERM)
    assert listening.expect(r"signal (\d+): (\d+)").groups() == (str(int(signal.SIGWINCH)), "1")
    assert listening.expect(r"signal (\d+): (\d+)").groups() == (str(int(signal.SIGTERM)), "1")


@pytest.mark.cases(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH])
def test_a_signal_sent_to_weft_alone_is_passed_on_once(listening: Terminal, number: int) -> None:
    listening.process.send_signal(number)
    listening.process.send_signal(signal.SIGTERM)
    listening.expect(rf"signal {int(number)}: 1\r")
    listening.expect("weft: recorded 1 rank")


def test_ctrl_z_stops_the_whole_job_and_fg_goes_on_with_it(terminal: Open, program: Program) -> None:
    shell = terminal(["bash", "--norc", "--noprofile", "-i"])
    shell.type(f"{shlex.join([*WEFT, 'run', '--', str(program('signals'))])}\n")
    shell.expect("ready")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.type("ps -o stat=,comm= --ppid $(jobs -p) | cat; fg\n")
    shell.expect(r"T\S* +signals")
    shell.expect("run -- ")
    job = int(Path(f"/proc/{shell.process.pid}/task/{shell.process.pid}/children").read_text().split()[0])
    deadline = time.monotonic() + 30
    while os.tcgetpgrp(shell.master) != job and time.monotonic() < deadline:
        time.sleep(0.01)  # `fg` prints the command before it hands the terminal over
    shell.type("\x03")
    shell.expect(r"\^C")
    os.kill(job, signal.SIGTERM)
    shell.expect(rf"signal {int(signal.SIGINT)}: 1\r")
    shell.expect("weft: recorded 1 rank")


def test_ctrl_c_ends_an_mpiexec_job_and_the_run_is_kept(
    terminal: Open, program: Program, mpich: Installed, tmp_path: Path
) -> None:
    opened = terminal([*WEFT, "run", "--out", "run", "--", *mpich.mpiexec, "-n", "2", str(program("endings")), "sleep"])
    opened.expect("ready")
    opened.type("\x03")
    opened.expect("weft: the run was interrupted by SIGINT")
    opened.expect("weft: recorded 2 ranks in run")
    assert opened.process.wait(20) == 130
    assert '"ended": "interrupted"' in (tmp_path / "run" / "run.json").read_text()


STUBBORN = """
import signal, sys, time
from mpi4py import MPI
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 0:
    print("ready", flush=True)
time.sleep(60)
"""


def stubborn(mpi: Installed, folder: Path) -> list[str]:
    """`weft run` of two ranks that only SIGKILL ends."""
    (folder / "stubborn.py").write_text(STUBBORN)
    job = [*mpi.mpiexec, "-n", "2", mpi.python or "", "stubborn.py"]
    return [*WEFT, "run", "--out", "run", "--report", "report.json", "--", *job]


def left_behind(folder: Path) -> list[str]:
    """What still runs in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.joinpath("cwd").readlink() == folder:
                found.append(process.joinpath("cmdline").read_text().replace("\0", " "))
    return found


def test_a_second_ctrl_c_ends_what_does_not_end_itself(terminal: Open, mpich: Installed, tmp_path: Path) -> None:
    opened = terminal(stubborn(mpich, tmp_path))
    opened.expect("ready")
    opened.type("\x03")
    time.sleep(1.5)
    assert opened.process.poll() is None
    opened.type("\x03")
    opened.expect("weft: the run was interrupted by SIGINT", timeout=10)
    opened.expect("weft: recorded 2 ranks in run")
    assert opened.process.wait(20) == 130
    assert left_behind(tmp_path) == []


# Under a shell it failed once of some thirty times, for a reason that was not found.
@pytest.mark.parametrize("shell", [False, pytest.param(True, marks=pytest.mark.matrix)], ids=["leader", "in a shell"])
def test_a_closed_terminal_ends_the_job_and_the_run_is_written(
    terminal: Open, mpich: Installed, tmp_path: Path, *, shell: bool
) -> None:
    # The kernel tells the session's leader alone of a closed terminal; a shell passes that on to its jobs.
    command = stubborn(mpich, tmp_path)
    opened = terminal(["bash", "--norc", "--noprofile", "-i"] if shell else command)
    if shell:
        opened.type(shlex.join(command) + "\n")
    opened.expect(r"(?m)^ready")
    opened.hang_up()
    assert opened.process.wait(30) == (-signal.SIGHUP if shell else 128 + signal.SIGHUP)
    deadline = time.monotonic() + 20
    while left_behind(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(tmp_path) == []
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["ended"], run["interrupted_by"]) == ("interrupted", "SIGHUP")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["run"]["ended"] == "interrupted"
    assert sorted(rank for end in report["run"]["ends"] for rank in end["ranks"]) == [0, 1]
