"""Right programs run as they do without a check, and nothing is found in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

PROGRAMS = sorted((Path(__file__).parent / "right").iterdir())
COMPILERS = {".c": "gcc", ".cpp": "g++", ".f90": "gfortran"}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_check_of_a_right_program_finds_nothing_and_changes_nothing(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain"
    subprocess.run([COMPILERS[path.suffix], "-fopenmp", "-O1", str(path), "-o", str(plain)], check=True)
    expected = subprocess.run([str(plain)], capture_output=True, text=True, check=True).stdout
    capfd.readouterr()
    found = check_program(CheckRequest((path,), timeout=60), tmp_path)
    assert capfd.readouterr().out == expected
    assert found.findings == ()
    assert found.problems == ()
