"""Programs recorded once, and editors that debug them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dap.client import Client, Schema
from machine import need
from tests_support import ROOT, WEFT, Installed, execute

PROGRAMS = Path(__file__).parent / "programs"
SQUARES = ROOT / "tests" / "debug" / "programs"


@dataclass(frozen=True)
class Recorded:
    """A recorded run and the source of its program."""

    run: Path
    source: Path

    @property
    def here(self) -> int:
        """The line that is marked in it."""
        [found] = [
            n for n, line in enumerate(self.source.read_text().splitlines(), 1) if re.search(r"(#|!|/\*) here\b", line)
        ]
        return found


@pytest.fixture(scope="session")
def schema() -> Schema:
    """The protocol's schema. Without debugpy, which brings it, messages go unchecked: that is no test."""
    spec = importlib.util.find_spec("debugpy")
    assert spec is not None and spec.origin is not None, "debugpy is a development dependency: make setup"
    found = Path(spec.origin).parent / "_vendored/pydevd/_pydevd_bundle/_debug_adapter/debugProtocol.json"
    return Schema(found)


@pytest.fixture
def client(schema: Schema) -> Iterator[Callable[..., Client]]:
    """Start an adapter; each ends with its test, without a word on standard error."""
    started: list[Client] = []

    def start(*weft: str, **options: object) -> Client:
        started.append(Client([*(weft or WEFT), "dap"], schema, **options))
        return started[-1]

    yield start
    for one in started:
        assert one.close() == 0, one.errors()
        assert not (said := one.errors()), said


@pytest.fixture(scope="session")
def recorded(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Recorded]:
    """Record a program on 4 ranks, built with -g where it is no script."""
    known: dict[Path, Recorded] = {}
    compilers = {".c": [mpich.mpicc], ".cpp": [str(Path(mpich.mpicc).with_name("mpicxx"))]}

    def made(source: Path) -> Recorded:
        if source not in known:
            folder = tmp_path_factory.mktemp("dap")
            weft, command = list(WEFT), [str(mpich.python), str(source)]
            if source.suffix in compilers:
                done = execute([*compilers[source.suffix], "-g", "-O0", "-o", folder / "program", source])
                assert done.returncode == 0, done.stderr
                command = [str(folder / "program")]
            done = execute([*weft, "run", "-n", "4", "--out", folder / "run", "--", *command], timeout=200, cwd=folder)
            assert done.returncode == 0, done.stderr
            known[source] = Recorded(folder / "run", source)
        return known[source]

    return made


@pytest.fixture(scope="session")
def of_fortran(debian_mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Recorded]:
    """Record a Fortran program on 4 ranks, with Debian's MPICH."""

    def made(source: Path) -> Recorded:
        compiler = need("mpif90.mpich")
        folder = tmp_path_factory.mktemp("dap")
        done = execute([compiler, "-g", "-O0", "-J", folder, "-o", folder / "program", source])
        assert done.returncode == 0, done.stderr
        line = [*debian_mpich.mpiexec, "-n", "4", folder / "program"]
        done = execute([*WEFT, "run", "--out", folder / "run", "--", *line], timeout=200, cwd=folder)
        assert done.returncode == 0, done.stderr
        return Recorded(folder / "run", source)

    return made


@pytest.fixture(scope="session")
def gdb() -> None:
    """The test needs gdb."""
    need("gdb")
