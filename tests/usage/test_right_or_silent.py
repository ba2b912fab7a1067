"""right.c: what the standard allows is not alarmed, and beside it the twin with an error is found at its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute

SOURCE = Path(__file__).parent / "right.c"
NOTES = {"late-sender", "late-receiver", "wait-at-collective", "imbalance"}


def bugs() -> set[tuple[int, str, str]]:
    """Line, kind and severity of each error of the wrong run."""
    found = set()
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        for kind, severity in re.findall(r"/\* BUG ([a-z-]+)(?: (warning))? \*/", line):
            found.add((number, kind, severity or "error"))
    return found


def run(mpi: Installed, folder: Path, mode: str) -> list[dict[str, Any]]:
    program = folder / "right"
    if not program.exists():
        execute([mpi.mpicc, "-g", "-w", "-o", program, SOURCE], env=mpi.environment)
    command = [
        *WEFT,
        "run",
        "--out",
        folder / f"run-{mode}",
        "--report",
        folder / f"{mode}.json",
        "--",
        *mpi.mpiexec,
        "-n",
        "3",
    ]
    done = execute([*command, program, mode], cwd=folder, env=mpi.environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads((folder / f"{mode}.json").read_text())["findings"]
    return [finding for finding in findings if finding["kind"] not in NOTES]


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    mpi = request.getfixturevalue(request.param)
    return mpi, tmp_path_factory.mktemp(f"right-{request.param}")


@pytest.mark.cases(1)
def test_what_the_standard_allows_is_not_alarmed(of_mpi: tuple[Installed, Path]) -> None:
    assert [finding["message"] for finding in run(*of_mpi, "right")] == []


@pytest.mark.cases(1)
def test_each_error_beside_it_is_found_at_its_line_and_nothing_else(of_mpi: tuple[Installed, Path]) -> None:
    found = run(*of_mpi, "wrong")
    lines = [({site["line"] for site in f["sites"]}, f["kind"], f["severity"]) for f in found]
    wanted = bugs()
    assert len(wanted) >= 16
    missed = [
        bug
        for bug in wanted
        if not any(bug[0] in line and bug[1:] == rest for line, *r in lines for rest in [tuple(r)])
    ]
    assert missed == []
    alarms = [
        f["message"]
        for f, (line, *rest) in zip(found, lines, strict=True)
        if not any(bug[0] in line and bug[1:] == tuple(rest) for bug in wanted)
    ]
    assert alarms == []
