"""Programs recorded once, and sessions of `weft debug` on them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from machine import need
from tests_support import WEFT, Installed, execute

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Recorded:
    """A recorded run, and what its program wrote."""

    run: Path
    out: str
    weft: Sequence[str]
    env: Mapping[str, str] | None = None

    def debug(
        self, *commands: str, env: Mapping[str, str] | None = None, program: Sequence[str | Path] = (),
        options: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """What a script of commands prints."""
        script = self.run.parent / "script"
        script.write_text("\n".join(commands) + "\n")
        rest = ["--", *program] if program else []
        done = execute([*self.weft, "debug", self.run, *options, "-x", script, *rest], env=env or self.env, timeout=100)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    def answers(self, *commands: str) -> list[dict[str, Any]]:
        """The JSON answers to commands, that of the start first."""
        words = [*self.weft, "debug", self.run, "--format", "json"]
        done = execute(words, stdin="\n".join(commands) + "\n", timeout=100)
        assert not done.stderr, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Recorded]:
    """Record a command."""

    def made(name: str, *command: str | Path, weft: Sequence[str] = WEFT, **options: Any) -> Recorded:
        run = tmp_path_factory.mktemp("debug") / name
        done = execute([*weft, "run", "--out", run, *command], timeout=200, cwd=run.parent, **options)
        assert run.exists(), done.stderr
        return Recorded(run, done.stdout, weft, options.get("env"))

    return made


@pytest.fixture(scope="session")
def compiled(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile a C program with MPICH's mpicc, with line numbers."""

    def build(name: str) -> Path:
        target = tmp_path_factory.mktemp("programs") / name
        done = execute([mpich.mpicc, "-g", "-O0", "-o", target, PROGRAMS / f"{name}.c"])
        assert done.returncode == 0, done.stderr
        return target

    return build


@pytest.fixture(scope="session")
def cells(record: Callable[..., Recorded], compiled: Callable[[str], Path]) -> Recorded:
    """Three ranks of C, deadlocked."""
    return record("cells", "-n", "3", "--", compiled("cells"))


@pytest.fixture(scope="session")
def crash(record: Callable[..., Recorded], compiled: Callable[[str], Path]) -> Recorded:
    """Two ranks of C, one of which crashes."""
    return record("crash", "-n", "2", "--", compiled("crash"))


@pytest.fixture(scope="session")
def rounds(record: Callable[..., Recorded], compiled: Callable[[str], Path]) -> Recorded:
    """Two ranks of C that call one function three times between two calls of MPI."""
    return record("rounds", "-n", "2", "--", compiled("rounds"))


@pytest.fixture(scope="session")
def collect(record: Callable[..., Recorded], mpich: Installed) -> Recorded:
    """Three ranks of mpi4py with a racing receive."""
    return record("collect", "-n", "3", "--", sys.executable, PROGRAMS / "collect.py")


@pytest.fixture(scope="session")
def gdb() -> None:
    """The test needs gdb."""
    need("gdb")
