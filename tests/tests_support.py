"""What the tests of every room import: running commands under a time limit, and naming an installed MPI."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT = 60.0
"""Seconds that one external process may take, unless a test says otherwise."""


@dataclass(frozen=True)
class Installed:
    """One MPI that tests may use: its commands by full path."""

    name: str
    mpiexec: tuple[str, ...]
    mpicc: str
    python: str | None
    environment: Mapping[str, str]


def pythons(oldest: int = 11) -> list[str]:
    """The Pythons to run programs by: this one, pyenv's, a newer one on the PATH, and those that WEFT_PYTHONS names."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(path) for minor in range(oldest, 15) for path in sorted(versions.glob(f"3.{minor}.*/bin/python3"))]
    newer = shutil.which("python3.14")
    if newer is not None and subprocess.run([newer, "-c", ""], capture_output=True, check=False).returncode == 0:
        found.append(newer)  # else it is pyenv's word for a version that it would not run here
    found += filter(None, os.environ.get("WEFT_PYTHONS", "").split(os.pathsep))
    return [sys.executable, *{Path(one).resolve(): one for one in found}.values()]


def execute(
    command: Sequence[str | Path],
    *,
    timeout: float = LIMIT,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a session of its own; all of it is killed when the time is up."""
    words = [str(word) for word in command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", cwd=cwd, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"`{' '.join(words)}` did not end within {timeout} s\n--- stdout\n{out}\n--- stderr\n{err}")
    except BaseException:  # pytest's own time limit, Ctrl-C
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def execute_and_touch(
    command: Sequence[str | Path], text: str, path: Path, *, timeout: float = LIMIT, cwd: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; the file `path` is made once it has said `text` on standard error.

    So a program can stay until Weft has said something of it, however busy the machine is.
    """
    environment, lines = {**os.environ, "OMP_NUM_THREADS": "1", **env}, []
    with subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, errors="replace", cwd=cwd, env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        timer = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        assert process.stderr is not None
        try:
            for line in process.stderr:
                lines.append(line)
                if text in line:
                    path.touch()
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
    return subprocess.CompletedProcess(command, process.returncode, "", "".join(lines))


WEFT = (sys.executable, "-P", "-m", "weft")


def compilers(kind: str) -> list[str]:
    """The compilers of a kind (gcc, clang, ...) on the path: the one without a number, then the newest first."""
    numbered: dict[str, int] = {}
    for folder in os.get_exec_path():
        for path in Path(folder).glob(f"{kind}-*"):
            version = path.name.removeprefix(f"{kind}-")
            if version.isdigit() and os.access(path, os.X_OK):
                numbered[path.name] = int(version)
    return [kind] * bool(shutil.which(kind)) + sorted(numbered, key=lambda name: -numbered[name])


@cache
def clang() -> str:
    """clang by its name here: one with a runtime of OpenMP's if there is one; `clang` where there is none."""
    here = compilers("clang")
    for name in here:
        asked = subprocess.run([name, "-print-file-name=libomp.so"], capture_output=True, text=True, check=False)
        if Path(asked.stdout.strip()).is_absolute():
            return name
    return here[0] if here else "clang"
