"""Worlds that several ranks spawn at one time are told apart, ends of a connection are one; messages are matched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute

PROGRAM = Path(__file__).parent / "spawned.c"
RANKS = 3
BUG = next(n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "BUG" in line)


def reported(mpi: Installed, source: Path, ranks: int, folder: Path, *words: str) -> tuple[str, list[object]]:
    """What `weft run` says of a program, and the kinds and lines of what it found."""
    assert execute([mpi.mpicc, "-g", "-o", folder / "program", source]).returncode == 0
    report = folder / "report.json"
    line = [*WEFT, "run", "--out", folder / "run", "--report", report, "--", *mpi.mpiexec, "-n", str(ranks)]
    done = execute([*line, folder / "program", *words], cwd=folder, env=mpi.environment)
    found: list[dict[str, Any]] = [f for f in json.loads(report.read_text())["findings"] if f["severity"] != "note"]
    return done.stdout + done.stderr, [(f["kind"], [site["line"] for site in f["sites"]]) for f in found]


@pytest.mark.cases(1)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_a_message_to_a_spawned_world_is_matched_or_told(
    name: str, left: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    said, told = reported(request.getfixturevalue(name), PROGRAM, RANKS, tmp_path, *(["left"] if left else []))
    if not left or "unmatched message(s)" not in said:  # MPICH ends the run where it came before the freeing
        assert f"recorded {RANKS + RANKS * 2 * 2} ranks" in said, said
    assert told == ([("unmatched-send", [BUG])] if left else []), said


def test_a_message_left_on_a_freed_communicator_is_told_and_nothing_else(mpich: Installed, tmp_path: Path) -> None:
    source = PROGRAM.with_name("freed.c")
    bug = next(n for n, line in enumerate(source.read_text().splitlines(), 1) if "BUG" in line)
    said, told = reported(mpich, source, 2, tmp_path)
    assert "1 unmatched message(s)" in said, said  # MPICH ends the receiver: no wrong argument of its own
    assert told == [("unmatched-send", [bug])], said


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", ["one", "many"])
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_what_counts_at_the_root_alone_is_read_at_the_root_alone(
    name: str, how: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    said, told = reported(request.getfixturevalue(name), PROGRAM.with_name("at_the_root.c"), 2, tmp_path, how)
    assert "recorded 4 ranks" in said, said
    assert told == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_the_ends_of_a_connection_are_one_communicator(left: bool, openmpi: Installed, tmp_path: Path) -> None:
    source = PROGRAM.with_name("connected.c")
    bug = next(n for n, line in enumerate(source.read_text().splitlines(), 1) if "BUG" in line)
    said, told = reported(openmpi, source, 2, tmp_path, *(["left"] if left else []))
    assert told == ([("unmatched-send", [bug])] if left else []), said
