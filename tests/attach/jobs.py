"""Jobs that hang, for tests: started without Weft, and ended with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute
from weft.attach.python import REMEDY, find_py_spy
from weft.errors import UsageError

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 60.0
Told = dict[str, Any]


def compiled(of: Installed, name: str, folder: Path, *options: str, source: Path | None = None) -> Path:
    """A program of this folder, or of a copy of its source, built."""
    source = source or PROGRAMS / name
    compiler = of.mpicc.replace("mpicc", {".f90": "mpif90", ".cpp": "mpicxx"}.get(source.suffix, "mpicc"))
    done = execute([compiler, "-g", *options, "-o", folder / source.stem, source])
    assert done.returncode == 0, done.stderr
    return folder / source.stem


def needs_py_spy() -> None:
    """Skip a test where Pythons cannot be read."""
    try:
        find_py_spy()
    except UsageError:
        pytest.skip(REMEDY)


@contextmanager
def running(of: Installed, n: int, command: Sequence[str | Path], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that runs meanwhile, in a session of its own; what is left of it is ended."""
    environment = {**os.environ, **of.environment, "OMP_NUM_THREADS": "1"}
    words = [*of.mpiexec, "-n", str(n), *map(str, command)]
    with subprocess.Popen(
        words, cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as job:  # fmt: skip
        try:
            yield job
        finally:
            if job.poll() is None:
                job.terminate()
                with suppress(subprocess.TimeoutExpired):
                    job.communicate(timeout=10)
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)


def attached(what: object, *options: str, env: Mapping[str, str] | None = None) -> Told:
    """What `weft attach` sees."""
    done = execute([*WEFT, "attach", str(what), "--format", "json", *options], env=env)
    assert done.returncode == 0, done.stderr
    told: Told = json.loads(done.stdout)
    return told


def once(hold: Callable[[Told], bool], what: object, *options: str, env: Mapping[str, str] | None = None) -> Told:
    """What is seen once all ranks have come to where they hang."""
    until(hold, what, *options, env=env)
    return attached(what, *options, env=env)


def until(hold: Callable[[Told], bool], what: object, *options: str, env: Mapping[str, str] | None = None) -> None:
    """Wait until all ranks have come to where they hang."""
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            told = attached(what, "--interval", "0", *options, env=env)
        except AssertionError as error:  # no rank is there yet
            if "Traceback" in str(error):
                raise
            told = {"told": str(error)}
        if "groups" in told and hold(told):
            return
        assert time.monotonic() < limit, told.get("told", told)
        time.sleep(0.2)


def where(told: Told) -> dict[str, list[int]]:
    """The ranks in each MPI function; `` for outside of MPI."""
    found: dict[str, list[int]] = {}
    for group in told["groups"]:
        found.setdefault(group["call"] or "", []).extend(group["ranks"])
    return {name: sorted(ranks) for name, ranks in found.items()}
