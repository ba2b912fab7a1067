"""pending.py: with --whole-buffers a change anywhere in a pending buffer is told between its two lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute

PROGRAM = Path(__file__).parent / "pending.py"


def findings(mpi: Installed, folder: Path, mode: str, *options: str) -> list[dict[str, Any]]:
    assert mpi.python is not None
    report = folder / "report.json"
    line = [*WEFT, "run", *options, "--out", folder / "run", "--report", report, "--", *mpi.mpiexec, "-n", "2"]
    done = execute([*line, mpi.python, PROGRAM, mode], cwd=folder, env=mpi.environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return [f for f in json.loads(report.read_text())["findings"] if f["severity"] != "note"]


@pytest.fixture(params=["mpich", "openmpi"])
def mpi(request: pytest.FixtureRequest) -> Installed:
    return request.getfixturevalue(request.param)


@pytest.mark.cases(1)
def test_buffers_that_are_left_alone_are_not_told(mpi: Installed, tmp_path: Path) -> None:
    assert [f["message"] for f in findings(mpi, tmp_path, "right", "--whole-buffers")] == []


@pytest.mark.cases(1)
def test_a_change_in_the_middle_is_told_with_both_lines(mpi: Installed, tmp_path: Path) -> None:
    lines: dict[str, set[int]] = {}
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1):
        if of := re.search(r"# BUG (\w+)", line):
            lines.setdefault(of[1], set()).add(number)
    found = findings(mpi, tmp_path, "wrong", "--whole-buffers")
    assert {f["kind"] for f in found} == {"buffer-reuse"}
    assert {frozenset(site["line"] for site in f["sites"]) for f in found} == {frozenset(two) for two in lines.values()}


def test_without_it_the_first_sends_of_a_line_are_looked_at_wholly_and_receives_by_sample(
    mpich: Installed, tmp_path: Path
) -> None:
    found = findings(mpich, tmp_path, "wrong")
    assert len(found) == 1 and "the pending isend(" in found[0]["message"]
