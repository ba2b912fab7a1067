"""A build of Python without a lock: a run is recorded without its lines, and the debugger refuses with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute

STANDING_IN = """
#include <mpi.h>
int PyCode_Type;
const char *Py_GetVersion(void) { return VERSION; }
int Py_IsInitialized(void) { return 1; }
void *PyGILState_GetThisThreadState(void) { return 0; }
int main(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); return MPI_Finalize(); }
"""
"""A program with an interpreter in it, as far as the recorder looks for one."""


def recorded(mpi: Installed, folder: Path, version: str) -> str:
    (folder / "program.c").write_text(STANDING_IN)
    named = f'-DVERSION="{version}"'
    execute([mpi.mpicc, "-rdynamic", named, "-o", "program", "program.c"], cwd=folder).check_returncode()
    done = execute([*WEFT, "run", "--out", "run", "-n", "2", "--", "./program"], cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["3.14.2 free-threading build (main)", "3.10.4 (main)"])
def test_a_run_says_why_it_has_no_lines_of_python(mpich: Installed, tmp_path: Path, version: str) -> None:
    assert f"not recorded: lines of Python, because Weft reads them only in ordinary builds of CPython 3.11 to 3.14, " \
           f"and this is {version} (ranks 0 and 1)" in recorded(mpich, tmp_path, version)  # fmt: skip


@pytest.mark.matrix
def test_the_debugger_refuses_a_build_without_a_lock_and_no_other(mpich: Installed, tmp_path: Path) -> None:
    for version, refused in (("3.14.2 free-threading build (main)", True), ("3.10.4 (main)", False)):
        folder = tmp_path / version[:4]
        folder.mkdir()
        recorded(mpich, folder, version)
        done = execute([*WEFT, "debug", "run", "-c", "where"], cwd=folder)
        said = "the program's interpreter is the free-threaded build of Python 3.14.2, whose frames Weft does not read"
        assert (said in done.stderr) == refused, done.stderr
        assert done.returncode == (2 if refused else 0), done.stderr + done.stdout
