"""A fault of the recorder's own code is told as Weft's, and its part can be left out; one of the program's is not."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from survival.conftest import PROGRAMS
from tests_support import ROOT, WEFT, Installed, execute
from weft.endings.wording import _WORKS
from weft.launch.recorder import PARTS

BROKEN = {"heap": ("heap",), "hashes": ("copies", "--hash-messages"), "buffers": ("copies", "--whole-buffers")}
"""A part of the recorder: how it is broken, and the options with which it is at work."""
ACCUSED = (
    "operation", "attribute", "heap", "counts", "requests", "request", "name", "action", "stack", "sent",
    "thread", "contents", "progress",
)  # fmt: skip


@pytest.fixture(scope="session")
def breaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that breaks a part of the recorder."""
    library = tmp_path_factory.mktemp("breaks") / "breaks.so"
    done = execute(["cc", "-w", "-shared", "-fPIC", "-o", library, PROGRAMS / "breaks.c", "-ldl"])
    assert done.returncode == 0, done.stderr
    return library


def compiled(mpi: Installed, folder: Path, name: str) -> list[str]:
    program = folder / name
    done = execute(
        [mpi.mpicc, "-g", "-O2", "-w", "-pthread", "-o", program, PROGRAMS / f"{name}.c"], env=mpi.environment
    )
    assert done.returncode == 0, done.stderr
    return [str(program)]


def run_broken(mpi: Installed, folder: Path, breaking: Path, part: str, program: list[str]) -> None:
    """The program is ended by a fault that is told as Weft's, and goes on where the part that has it is left out."""
    how, *options = BROKEN[part]
    words = [*options, "--", *mpi.mpiexec, "-n", "2", *program]
    environment = {**mpi.environment, "LD_PRELOAD": str(breaking), "BREAKS": how}
    done = execute([*WEFT, "run", "--out", folder / "run", *words], env=environment, timeout=120)
    [error] = re.findall(r"^weft: error: .*", done.stderr, re.MULTILINE)
    own = error.partition("; rank")[0]  # before those who wait for it, at their lines
    assert "ended by Weft's error, not the program's" in own and "[crash]" not in error, done.stderr
    assert "weft doctor --bug-report" in own and str(folder / "run") in own
    assert f"WEFT_WITHOUT={part} " in own and "[weft-error]" in error and Path(program[-1]).name not in own
    said = execute([*WEFT, "report", "--format", "json", folder / "run"]).stdout
    [found] = [one for one in json.loads(said)["findings"] if one["kind"] == "weft-error"]
    assert (found["evidence"]["part"], found["sites"]) == (part, []) and found["evidence"]["recorder"]
    done = execute(
        [*WEFT, "run", "--out", folder / "without", *words], env={**environment, "WEFT_WITHOUT": part}, timeout=120
    )
    assert (done.returncode, done.stdout.split()) == (0, ["sum", "3"]), done.stderr
    assert "nothing found" in done.stderr


@pytest.mark.cases(1)
@pytest.mark.parametrize("part", BROKEN)
def test_a_crash_of_the_recorder_is_wefts(mpich: Installed, tmp_path: Path, breaking: Path, part: str) -> None:
    run_broken(mpich, tmp_path, breaking, part, compiled(mpich, tmp_path, "exchanges"))


def test_so_it_is_in_python(mpich: Installed, tmp_path: Path, breaking: Path) -> None:
    run_broken(mpich, tmp_path, breaking, "hashes", [sys.executable, str(PROGRAMS / "exchanges.py")])


@pytest.mark.matrix
def test_so_it_is_with_open_mpi(debian_openmpi: Installed, tmp_path: Path, breaking: Path) -> None:
    run_broken(debian_openmpi, tmp_path, breaking, "hashes", compiled(debian_openmpi, tmp_path, "exchanges"))


@pytest.mark.matrix
def test_so_it_is_in_python_with_open_mpi(openmpi: Installed, tmp_path: Path, breaking: Path) -> None:
    assert openmpi.python is not None
    run_broken(openmpi, tmp_path, breaking, "hashes", [openmpi.python, str(PROGRAMS / "exchanges.py")])


def asked(mpi: Installed, folder: Path, breaking: Path) -> None:
    """A fault inside MPI is told as Weft's where only Weft made that call, and gave it what is broken."""
    words = ["--", *compiled(mpi, folder, "accused"), "types"]
    environment = {**mpi.environment, "LD_PRELOAD": str(breaking), "BREAKS": "asks"}
    done = execute([*WEFT, "run", "--out", folder / "run", *words], env=environment, timeout=120)
    [error] = re.findall(r"^weft: error: .*", done.stderr, re.MULTILINE)
    assert "ended by Weft's error, not the program's" in error and "[weft-error]" in error, done.stderr
    assert "accused.c" not in error and "WEFT_WITHOUT" not in error
    done = execute([*WEFT, "run", "--out", folder / "whole", *words], env=mpi.environment, timeout=120)
    assert done.returncode == 0 and "nothing found" in done.stderr, done.stderr


def test_a_crash_of_mpi_that_the_recorder_asked_is_wefts(mpich: Installed, tmp_path: Path, breaking: Path) -> None:
    asked(mpich, tmp_path, breaking)


@pytest.mark.matrix
def test_so_it_is_of_open_mpi(debian_openmpi: Installed, tmp_path: Path, breaking: Path) -> None:
    asked(debian_openmpi, tmp_path, breaking)


@pytest.mark.cases(4)
@pytest.mark.parametrize("how", ACCUSED)
def test_a_crash_of_the_program_stays_the_programs(mpich: Installed, tmp_path: Path, how: str) -> None:
    told_as_the_programs(mpich, tmp_path, how)


@pytest.mark.matrix
@pytest.mark.parametrize("how", ACCUSED)
def test_so_it_does_with_open_mpi(debian_openmpi: Installed, tmp_path: Path, how: str) -> None:
    told_as_the_programs(debian_openmpi, tmp_path, how)


def told_as_the_programs(mpi: Installed, folder: Path, how: str) -> None:
    words = [*compiled(mpi, folder, "accused"), how]
    line = [*WEFT, "run", "--out", folder / "run", "--hash-messages", "--", *words]
    done = execute(line, env=mpi.environment, timeout=120)
    [error] = re.findall(r"^weft: error: .*", done.stderr, re.MULTILINE)
    assert "crashed by SIG" in error and "[crash]" in error, done.stderr
    assert " at accused.c:" in error or how in ("stack", "thread")  # there no frame of the program is left, or found
    assert "Weft's error" not in done.stderr


def test_a_part_that_there_is_not_is_named(tmp_path: Path, mpich: Installed) -> None:
    line = [*WEFT, "run", "--out", tmp_path / "run", "--", *compiled(mpich, tmp_path, "accused"), "none"]
    done = execute(line, env={**mpich.environment, "WEFT_WITHOUT": "heap,stacks"})
    assert done.returncode == 2 and "`stacks` is not a part of the recorder" in done.stderr
    assert all(part in done.stderr for part in PARTS)


def test_each_part_has_one_name_everywhere() -> None:
    source = (ROOT / "src/weft/recorder/process.c").read_text()
    [names] = re.findall(r"weft_works\[WEFT_WORKS\] = \{(.*?)\}", source, re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', names)) == PARTS == tuple(_WORKS)
    page = (ROOT / "docs/commands/run.md").read_text()
    assert all(f"| `{part}` |" in page for part in PARTS)
