"""Intel MPI from PyPI, as a user has it: nothing is set, C programs load a copy of what mpi4py loads."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests_support import WEFT, Installed, execute

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]
LANGUAGES = ("C", "mpi4py")
PROGRAM = Path(__file__).parent / "programs" / "any"
"""A receive from any source; with an argument, two receives that wait for each other."""


def program(intel: Installed, folder: Path, language: str) -> list[str]:
    if language == "mpi4py":
        assert intel.python is not None
        return [intel.python, str(PROGRAM.with_suffix(".py"))]
    binary = folder / "any"
    done = execute([intel.mpicc, "-g", "-o", binary, PROGRAM.with_suffix(".c")], env=intel.environment)
    assert done.returncode == 0, done.stderr
    return [str(binary)]


def run(*words: str | Path) -> tuple[int, str, str]:
    done = execute([*WEFT, *words], timeout=200, env={"I_MPI_FABRICS": "shm"})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("own", [True, False], ids=["-n", "mpiexec"])
def test_it_is_recorded_and_replayed(intel: Installed, tmp_path: Path, language: str, own: bool) -> None:
    words, here = program(intel, tmp_path, language), tmp_path / "run"
    line = ["-n", "3", "--", *words] if own else ["--", *intel.mpiexec, "-n", "3", *words]
    status, out, said = run("run", "--out", here, *line)
    assert (status, out.split()) == (0, ["sum", "3"]) and "[message-race]" in said and " at any." in said, said
    trace = weft.open(here)
    assert len(trace.ranks) == 3 and not trace.problems
    names = {one.function.name for rank in trace.ranks for one in map(rank.event, range(len(rank)))}
    assert {"MPI_Init_thread" if language == "mpi4py" else "MPI_Init", "MPI_Finalize"} <= names
    status, out, said = run("replay", "--trust", "--out", tmp_path / "again", here)
    assert (status, out.split()) == (0, ["sum", "3"]) and "as recorded" in said, said


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_deadlock_is_proven(intel: Installed, tmp_path: Path, language: str) -> None:
    words = program(intel, tmp_path, language)
    status, _, said = run("run", "--out", tmp_path / "run", "-n", "2", "--", *words, "dead")
    assert status == 3 and "[deadlock]" in said and " at any." in said, said


def test_doctor_knows_it(intel: Installed) -> None:
    assert intel.python is not None
    folder = Path(intel.python).parent
    done = execute([*WEFT, "doctor"], timeout=300, env={"PATH": f"{folder}:/usr/bin:/bin"})
    assert "Intel(R) MPI Library" in done.stdout and str(folder / "mpicc") in done.stdout
    assert f"ok      mpi4py of {folder / 'python'}:" in done.stdout
