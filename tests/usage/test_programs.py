"""The small real programs of programs.py: every bug is found, every twin is silent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from programs import VENVS, Program, check, programs, race_programs
from race_programs import RaceProgram

ALL = list(programs())


@pytest.mark.matrix
@pytest.mark.parametrize("mpi", VENVS)
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.title)
def test_a_bug_is_found_and_its_twin_is_silent(program: Program, mpi: str, tmp_path: Path) -> None:
    assert check(program, tmp_path, VENVS[mpi]) == [(program.title, "ok")]


@pytest.mark.cases(1)
@pytest.mark.parametrize("mpi", VENVS)
@pytest.mark.parametrize("program", list(race_programs()), ids=lambda p: p.title)
def test_every_situation_of_a_race_is_found_and_what_cannot_race_is_silent(
    program: RaceProgram, mpi: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(mpi)  # skips where it is not installed
    verdicts = check(program, tmp_path, VENVS[mpi])
    assert len(verdicts) == len(program.cases) >= 48
    assert [row for row in verdicts if row[1] != "ok"] == []


def test_the_templates_make_a_program_and_its_twin_that_differ() -> None:
    for bug, twin in zip(ALL[::2], ALL[1::2], strict=True):
        assert bug.title.removesuffix("/bug") == twin.title.removesuffix("/twin")
        assert bug.bug and not twin.bug
        assert bug.source != twin.source
        assert "||" not in twin.source.replace("if (", "")
        assert bug.lines
