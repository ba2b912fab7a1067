"""Runs a way of ending under `weft run`, and keeps what was said, found and returned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ways import Way

from tests_support import Installed

PATIENCE = 90.0
BANNERS = ("BAD TERMINATION", "YOUR APPLICATION TERMINATED")


@dataclass(frozen=True)
class Outcome:
    """What came of a run: its status, Weft's own lines, the kinds of its errors, and all that was printed."""

    status: int
    lines: list[str]
    kinds: frozenset[str]
    printed: str

    @property
    def first(self) -> str:
        """The line that tells most: the first finding's, else the first that says how a rank ended."""
        findings = [line for line in self.lines if line.startswith("error: ")]
        return findings[0].removeprefix("error: ") if findings else next(iter(self.plain), "")

    @property
    def plain(self) -> list[str]:
        """What is said beside findings and of every crash."""
        common = ("recorded ", "building ", "the program crashed", "error: ", "no misuse of MPI")
        return [line for line in self.lines if not line.startswith(common)]


def prepare(way: Way, mpi: Installed, folder: Path) -> list[str]:
    """Write the program, compile it where that is needed, and return the command that starts one rank."""
    source = folder / way.file
    source.write_text(way.text)
    if way.language == "python":
        return [mpi.python or sys.executable, *way.options, way.file]
    compiler = mpi.mpicc if way.language == "c" else mpi.mpicc.replace("mpicc", "mpif90")
    command = [compiler, "-g", "-O0", "-o", str(folder / "prog"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return ["./prog"]


def run(way: Way, mpi: Installed, folder: Path) -> Outcome:
    """Run it and read what came of it. A signal is sent when every rank has come to its last place."""
    program = prepare(way, mpi, folder)
    command = [sys.executable, "-P", "-m", "weft.cli.main", "run", "--report", "report.json", "--out", "run", "--",
               *mpi.mpiexec, "-n", str(way.ranks), *program]  # fmt: skip
    environment = {**os.environ, **mpi.environment, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        if way.signal:
            settle(folder / "run", way.ranks)
            process.send_signal(way.signal)
        printed, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        raise AssertionError(f"{way.name} did not end within {PATIENCE} s:\n{printed}") from None
    lines = [line.removeprefix("weft: ") for line in printed.splitlines() if line.startswith("weft: ")]
    document = json.loads((folder / "report.json").read_text()) if (folder / "report.json").exists() else {}
    kinds = frozenset(one["kind"] for one in document.get("findings", ()) if one["severity"] == "error")
    return Outcome(process.returncode, lines, kinds, printed)


def settle(run_directory: Path, ranks: int) -> None:
    """Wait until every rank has made a call, and a little longer."""
    from weft.launch import rank_processes

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        headers = [rank_processes.read_rank_header(path) for path in run_directory.glob("ranks/*.weft")]
        if sum(1 for header in headers if header is not None and header.state == 1) == ranks:
            break
        time.sleep(0.1)
    time.sleep(1.5)
