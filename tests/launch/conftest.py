"""Programs and terminals for the launcher's tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from launch.hosts import Hosts, made
from tests_support import Installed, execute
from weft.mpi import shim

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def program(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a program of tests/launch/programs with MPICH, once; returns its path. The recorder is built too."""
    shim.build_shim(mpich.mpicc)
    folder = tmp_path_factory.mktemp("programs")

    def compiled(name: str) -> Path:
        target = folder / name
        if not target.exists():
            done = execute([mpich.mpicc, "-g", "-o", target, PROGRAMS / f"{name}.c"])
            assert done.returncode == 0, done.stderr
        return target

    return compiled


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts with private disks."""
    yield from made(tmp_path_factory.mktemp("hosts"), ["a", "b", "c"])


class Terminal:
    """A terminal with a program in it that takes it for the user's."""

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        self.master, slave = pty.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            list(command), stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
            env={**os.environ, "TERM": "dumb", "PS1": "$ ", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        os.close(slave)

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self.master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Change the window's size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, pattern: str, timeout: float = 60.0) -> re.Match[str]:
        """Wait until the screen shows `pattern` behind what was expected before."""
        deadline = time.monotonic() + timeout
        while not (match := re.search(pattern, self.text)):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                pytest.fail(f"the terminal did not show {pattern!r} within {timeout} s but\n{self.text}")
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:  # the last program has closed its side
                if not re.search(pattern, self.text):
                    pytest.fail(f"the terminal closed before it showed {pattern!r}:\n{self.text}")
        self.text = self.text[match.end() :]
        return match

    def hang_up(self) -> None:
        """Close the terminal while programs run in it."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """End all that still runs in the terminal."""
        with contextlib.suppress(ProcessLookupError):
            for pid in session(self.process.pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)
        if self.master >= 0:
            os.close(self.master)


def session(leader: int) -> list[int]:
    """Return the processes of one session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[3]) == leader:
                found.append(int(path.parent.name))
    return found


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[Sequence[str]], Terminal]]:
    """Start a command in a terminal of its own."""
    opened: list[Terminal] = []

    def start(command: Sequence[str]) -> Terminal:
        opened.append(Terminal(command, tmp_path))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
