"""What a command has started and made goes with it, whatever ends the command; what was not its own goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute

MARK = "WEFT_TEST_LEFTOVERS"
GRACE = 8.0
"""Seconds until what a killed command started has to be gone: 5, and what a busy machine adds."""
CAUSES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)

FOREVER_C = """
#include <stdio.h>
int main(void) {
    fclose(fopen("begun", "w"));
    volatile double total = 0;
#pragma omp parallel for
    for (int i = 0; i < 4; i++)
        for (;;) { double x = i; x += 1; if (x < 0) total = 1; }
    printf("%g\\n", total);
}
"""
FOREVER_PYTHON = """
import numba, numpy, time
@numba.njit(parallel=True)
def double(a):
    for i in numba.prange(len(a)):
        a[i] *= 2
double(numpy.ones(4))
open("begun", "w").close()
while True:
    time.sleep(0.01)
"""
FOREVER_MPI = """
import time
from mpi4py import MPI
while True:
    MPI.COMM_WORLD.barrier()
    open("begun", "w").close()
    time.sleep(0.01)
"""
HUNG_TASK = "import asyncio\n\nasync def main():\n    await asyncio.Event().wait()\n\nasyncio.run(main())\n"


class Scene:
    """A folder of programs, and a mark in the environment of all that is started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{folder}-{os.getpid()}"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}

    def write(self, name: str, text: str) -> Path:
        """Write a program."""
        path = self.folder / name
        path.write_text(text)
        return path

    def processes(self) -> dict[int, str]:
        """Return id and command line of each process that was started here and lives."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, with pipes that nobody reads."""
        with (self.folder / "output.txt").open("wb") as output:
            return subprocess.Popen(
                [str(word) for word in words], cwd=self.folder, env=self.environment, stdin=subprocess.PIPE,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def output(self) -> str:
        """What the command has printed."""
        return (self.folder / "output.txt").read_text(errors="replace")

    def wait_for(self, is_there: Callable[[], bool], seconds: float = 60) -> bool:
        """Wait until something is there; return whether it came."""
        until = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def end(self) -> None:
        """End what a failed test has left."""
        for pid in self.processes():
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.end()


def check_c(scene: Scene, _: Installed) -> list[str | Path]:
    return [*WEFT, "check", scene.write("forever.c", FOREVER_C)]


def check_numba(scene: Scene, _: Installed) -> list[str | Path]:
    pytest.importorskip("numba")
    return [*WEFT, "check", scene.write("forever.py", FOREVER_PYTHON)]


def tasks(scene: Scene, _: Installed) -> list[str | Path]:
    return [*WEFT, "tasks", scene.write("forever.py", HUNG_TASK)]


def run(scene: Scene, mpich: Installed) -> list[str | Path]:
    return [*WEFT, "run", "-n", "2", "--", sys.executable, scene.write("forever.py", FOREVER_MPI)]


def debug(scene: Scene, mpich: Installed) -> list[str | Path]:
    program = scene.write("forever.py", "from mpi4py import MPI\nfor _ in range(3):\n    MPI.COMM_WORLD.barrier()\n")
    done = execute([*WEFT, "run", "-n", "2", "--out", scene.folder / "run", "--", sys.executable, program],
                   cwd=scene.folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [*WEFT, "debug", scene.folder / "run"]


def view(scene: Scene, mpich: Installed) -> list[str | Path]:
    return [*debug(scene, mpich)[:-2], "view", "--no-browser", scene.folder / "run"]


def has_begun(scene: Scene) -> bool:
    """Whether the program has made its file."""
    return (scene.folder / "begun").exists()


BEGUN: dict[str, tuple[Callable[[Scene, Installed], list[str | Path]], Callable[[Scene], bool]]] = {
    "check of C": (check_c, has_begun),
    "check of Numba": (check_numba, has_begun),
    "tasks": (tasks, lambda scene: "first line" in scene.output),
    "run": (run, has_begun),
    "debug": (debug, lambda scene: sum("forever.py" in line for line in scene.processes().values()) >= 2),
    "view": (view, lambda scene: "http://" in scene.output),
}
"""Each command that goes on for long, and how it is known that it is under way."""
SOME = {("check of C", signal.SIGTERM), ("check of C", signal.SIGKILL), ("tasks", signal.SIGKILL)}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("name", "cause"),
    [pytest.param(name, cause, marks=[] if (name, cause) in SOME else pytest.mark.matrix, id=f"{name}-{cause.name}")
     for name in BEGUN for cause in CAUSES],
)  # fmt: skip
def test_nothing_is_left_of_a_command_that_is_ended(
    name: str, cause: signal.Signals, scene: Scene, mpich: Installed
) -> None:
    make, is_under_way = BEGUN[name]
    if name.startswith("check of C") and shutil.which("gcc") is None:
        pytest.skip("no gcc")
    command = make(scene, mpich)
    process = scene.start(*command)
    assert scene.wait_for(lambda: is_under_way(scene), 200), f"it has not begun: {scene.processes()} {scene.output}"
    time.sleep(0.3)
    os.kill(process.pid, cause)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        # A prompt takes Ctrl-C as the wish to stop what runs; its input's end ends it.
        assert cause == signal.SIGINT and name in ("tasks", "debug"), f"{name} does not end of {cause.name}"
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
    assert scene.wait_for(lambda: not scene.processes(), GRACE), scene.processes()
    if cause != signal.SIGKILL:
        assert [path.name for path in scene.temporary.iterdir()] == []
    assert "Traceback" not in scene.output or cause == signal.SIGINT, scene.output
