"""slots.c: of optimised code a variable is told only where the bytes of the frame are its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute
from weft.sources.variable_slots import may_share_bytes

SOURCE = Path(__file__).parent / "slots.c"
LEVELS = ["-O0", "-O1", "-O2", "-O3"]


def findings(mpi: Installed, folder: Path, *options: str) -> list[dict[str, Any]]:
    program, report = folder / "slots", folder / "report.json"
    execute([mpi.mpicc, "-g", "-w", *options, "-o", program, SOURCE], env=mpi.environment)
    line = [*WEFT, "run", "--out", folder / "run", "--report", report, "--", *mpi.mpiexec, "-n", "2", program]
    done = execute(line, cwd=folder, env=mpi.environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return [f for f in json.loads(report.read_text())["findings"] if f["severity"] != "note"]


@pytest.mark.cases(1)
@pytest.mark.parametrize("level", LEVELS)
def test_a_name_for_bytes_that_another_value_has_is_not_told(mpich: Installed, tmp_path: Path, level: str) -> None:
    assert [f["message"] for f in findings(mpich, tmp_path, level)] == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("level", LEVELS)
def test_a_wrong_type_and_a_wrong_count_are_told_all_the_same(mpich: Installed, tmp_path: Path, level: str) -> None:
    lines = SOURCE.read_text().splitlines()
    wanted = {(n, line.split("BUG ")[1].split()[0]) for n, line in enumerate(lines, 1) if "BUG " in line}
    found = {(f["sites"][0]["line"], f["kind"]) for f in findings(mpich, tmp_path, level, "-DWRONG")}
    assert found == wanted


@pytest.mark.parametrize(
    ("producer", "is_so"),
    [
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O2", True),
        ("GNU C17 12.2.0 -mtune=generic -g -O", True),
        ("GNU C++17 12.2.0 -g -Ofast -fPIC", True),
        ("GNU Fortran2008 12.2.0 -g -O0", False),
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g", False),
        ("Debian clang version 14.0.6", True),
        ("", True),
    ],
)
def test_only_gcc_says_that_it_did_not_optimise(producer: str, is_so: bool) -> None:
    assert may_share_bytes(producer) is is_so
