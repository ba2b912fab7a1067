"""Blocks of the heap are looked for only in a malloc that is seen to keep them as glibc's does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from survival.conftest import PROGRAMS
from tests_support import WEFT, Installed, execute

LEFT_ALONE = "not recorded: the heap blocks of buffers"


@pytest.fixture(scope="session")
def overrun(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("overrun") / "overrun"
    done = execute([mpich.mpicc, "-g", "-o", program, PROGRAMS / "overrun.c"])
    assert done.returncode == 0, done.stderr
    return program


def other_malloc(folder: Path, *options: str) -> str:
    library = folder / "other_malloc.so"
    done = execute(["cc", "-w", "-shared", "-fPIC", *options, "-o", library, PROGRAMS / "other_malloc.c"])
    assert done.returncode == 0, done.stderr
    return str(library)


def said_of(mpi: Installed, folder: Path, *program: str | Path, preload: str = "") -> str:
    line = [*WEFT, "run", "--out", folder / f"run{len(list(folder.iterdir()))}", "--", *program]
    done = execute(line, env={**mpi.environment, "LD_PRELOAD": preload}, timeout=120)
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr
    return done.stderr


def test_glibcs_malloc_is_known(mpich: Installed, overrun: Path, tmp_path: Path) -> None:
    said = said_of(mpich, tmp_path, overrun)
    assert "[buffer-overrun]" in said and LEFT_ALONE not in said
    assert "nothing found" in said_of(mpich, tmp_path, overrun, "right")


@pytest.mark.parametrize("options", [(), ("-DDISGUISED",)], ids=["other", "disguised"])
def test_another_malloc_is_left_alone(
    mpich: Installed, overrun: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    said = said_of(mpich, tmp_path, overrun, preload=other_malloc(tmp_path, *options))
    assert "nothing found" in said and said.count(LEFT_ALONE) == 1


def test_in_python_too(mpich: Installed, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy\nfrom mpi4py import MPI\n"
        "MPI.COMM_SELF.Sendrecv(numpy.zeros(4), 0, recvbuf=numpy.zeros(4), source=0)\nprint('over')\n"
    )
    assert LEFT_ALONE not in said_of(mpich, tmp_path, sys.executable, program)
    said = said_of(mpich, tmp_path, sys.executable, program, preload=other_malloc(tmp_path, "-DDISGUISED"))
    assert "nothing found" in said and said.count(LEFT_ALONE) == 1
