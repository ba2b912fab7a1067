"""Parts of a program that come by dlopen() call MPI in C and in Fortran: recorded, and as they are without Weft."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import weft
from survival.conftest import PROGRAMS
from tests_support import WEFT, Installed, execute
from weft.mpi import shim

LANGUAGES = {"c": (), "mpif.h": (), "mpi": ("-DMODULE=mpi",), "mpi_f08": ("-DMODULE=mpi_f08",)}
CASES = [
    pytest.param(flag, brings, id=f"{flag}-{'part' if brings else 'program'}",
                 marks=[] if (flag, brings) in {("local", False), ("global", True)} else pytest.mark.matrix)
    for flag in ("local", "global", "deep") for brings in (False, True)
]  # fmt: skip


def compiled(mpi: Installed, *words: str | Path) -> None:
    done = execute(words, env=mpi.environment)
    assert done.returncode == 0, done.stderr


def parts(mpi: Installed, folder: Path) -> list[Path]:
    """The part in each language."""
    fortran = shutil.which(mpi.mpicc.replace("mpicc", "mpif90"))
    if fortran is None:
        pytest.skip(f"{mpi.name} has no mpif90")
    made = []
    for name, options in LANGUAGES.items():
        source = PROGRAMS / ("part.c" if name == "c" else "part.F90")
        made.append(folder / f"{name.replace('.', '_')}.so")
        compiler = [mpi.mpicc] if name == "c" else [fortran, "-J", folder]
        compiled(mpi, *compiler, "-g", "-shared", "-fPIC", *options, "-o", made[-1], source)
    return made


def opened(mpi: Installed, folder: Path, flag: str, brings: bool) -> None:
    """Runs the program on two ranks and holds what was recorded against what it called."""
    words, program = parts(mpi, folder), folder / "host"
    compiler = ["cc", "-DBRINGS"] if brings else [mpi.mpicc]
    compiled(mpi, *compiler, "-g", "-o", program, PROGRAMS / "host.c", "-ldl")
    line: list[str | Path] = [
        *WEFT,
        "run",
        "--out",
        folder / "run",
        "--",
        *mpi.mpiexec,
        "-n",
        "2",
        program,
        flag,
        *words,
    ]
    done = execute(line, cwd=folder, env=mpi.environment, timeout=200)
    assert done.stdout.count("whole") == 2, done.stderr
    if flag == "deep" and brings:
        assert "by functions that the recorder does not see" in done.stderr
        return
    assert done.returncode == 0
    assert "nothing found" in done.stderr
    trace = weft.open(folder / "run")
    for rank in trace.ranks:
        calls = [event.function.name for event in rank]
        assert calls.count("MPI_Allreduce") == (0 if flag == "deep" else 2 * len(LANGUAGES))
        assert calls[-1] == "MPI_Finalize"


@pytest.mark.cases(1)
@pytest.mark.parametrize(("flag", "brings"), CASES)
def test_parts_that_come_by_dlopen_are_recorded_with_mpich(
    debian_mpich: Installed, tmp_path: Path, flag: str, brings: bool
) -> None:
    opened(debian_mpich, tmp_path, flag, brings)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("flag", "brings"), CASES)
def test_parts_that_come_by_dlopen_are_recorded_with_open_mpi(
    debian_openmpi: Installed, tmp_path: Path, flag: str, brings: bool
) -> None:
    opened(debian_openmpi, tmp_path, flag, brings)


@pytest.mark.cases(1)
@pytest.mark.parametrize("initialises", [True, False])
def test_functions_that_a_program_looks_up_itself_are_told_as_the_cause(
    mpich: Installed, tmp_path: Path, initialises: bool
) -> None:
    compiled(mpich, "cc", "-g", "-o", tmp_path / "looked_up", PROGRAMS / "looked_up.c", "-ldl")
    library = shim.probe_library(mpich.mpicc).path
    line: list[str | Path] = [
        *WEFT,
        "run",
        "--out",
        tmp_path / "run",
        "--",
        *mpich.mpiexec,
        "-n",
        "1",
        tmp_path / "looked_up",
        library,
    ]
    done = execute([*line, *([] if initialises else ["not"])], cwd=tmp_path, env=mpich.environment, timeout=120)
    assert "whole" in done.stdout
    assert ("it looks them up itself (dlsym)" in done.stderr) == initialises
    assert ("never initialised MPI" in done.stderr) != initialises
