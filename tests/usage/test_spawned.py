"""spawned.c: worlds that several ranks spawn at one time are told apart, and messages to them are matched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute

PROGRAM = Path(__file__).parent / "spawned.c"
RANKS = 3
BUG = next(n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "BUG" in line)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_a_message_to_a_spawned_world_is_matched_or_told(
    name: str, left: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mpi: Installed = request.getfixturevalue(name)
    assert execute([mpi.mpicc, "-g", "-o", tmp_path / "program", PROGRAM]).returncode == 0
    report = tmp_path / "report.json"
    line = [*WEFT, "run", "--out", tmp_path / "run", "--report", report, "--", *mpi.mpiexec, "-n", str(RANKS)]
    done = execute([*line, tmp_path / "program", *(["left"] if left else [])], cwd=tmp_path, env=mpi.environment)
    assert f"recorded {RANKS + RANKS * 2 * 2} ranks" in done.stderr, done.stdout + done.stderr
    found: list[dict[str, Any]] = [f for f in json.loads(report.read_text())["findings"] if f["severity"] != "note"]
    told = [(f["kind"], [site["line"] for site in f["sites"]]) for f in found]
    assert told == ([("unmatched-send", [BUG])] if left else [])
