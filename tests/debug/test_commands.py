"""What people know from gdb and pdb: given to ranks in four languages, each command shows what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from debug.commands_table import LANGUAGES, ROWS, Bench, Row
from tests_support import ROOT, Installed

pytestmark = pytest.mark.usefixtures("gdb")
EVERYWHERE = {
    "C++": ("(`watch`)", "`finish`", "`set`", "a reference"),
    "Fortran": ("`watch`", "`finish`", "`set`", "a reference"),
}
"""Rows that are tried in these, too; the others differ in C and Python only."""


@pytest.fixture(scope="module")
def bench(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = Bench(Path(mpich.mpicc).parents[1], tmp_path_factory.mktemp("squares"))
    for language in LANGUAGES:
        made.build(language)
    return made


@pytest.mark.cases(4)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_does_what_it_is_known_for(language: str, row: Row, bench: Bench) -> None:
    if language not in bench.commands:
        pytest.skip(f"there is no compiler for {language} here")
    if language not in row.languages:
        pytest.skip(f"{language} has no such thing")
    if language in ("C++", "Fortran") and not any(word in row.what for word in EVERYWHERE[language]):
        pytest.skip("as in C: `python tests/debug/commands_table.py` tries it")
    good, said = bench.weft(row, language)
    assert good, said


@pytest.mark.matrix
def test_a_condition_that_cannot_be_computed_stops_and_says_so(bench: Bench) -> None:
    row = Row("", ("break {file}:{here} if nothing > 1", "continue"), r"NameError: name 'nothing' is not defined")
    assert bench.weft(row, "Python")[0]
    row = Row("", ("break {file}:{here} if nothing > 1",), r'No symbol "nothing" in current context')
    assert bench.weft(row, "C")[0]


def test_wrong_use_of_conditions_and_filters_is_answered_with_what_is_right(bench: Bench) -> None:
    wrong = [
        ("break MPI_Allreduce if x > 1", "filter calls: break MPI_Send tag:5 peer:1"),
        ("break MPI_Allreduce tag:99", "the record has 2 calls at this place, and none of them matches tag:99"),
        ("break {file}:{here} tag:5", "give a condition, `{file}:{here} if ...`"),
        ("set total", "give NAME = EXPR"),
        ("p/q 1", "/q is not a format"),
        ("frame 9", "rank 0 has "),
        ("ignore 7 1", "there is no breakpoint 7"),
        ("info nothing", "give one of info locals"),
        ("undisplay 3", "nothing is displayed as 3"),
    ]
    said = bench.script([command for command, _ in wrong], "Python")
    answers = said.split("(weft) ")[1 : 1 + len(wrong)]
    for part, (command, shows) in zip(answers, wrong, strict=True):
        assert bench.filled(shows, "Python") in part, (command, said)


def test_every_command_that_is_tried_has_its_row_in_the_evidence() -> None:
    page = (ROOT / "tests" / "evidence" / "debug-commands.md").read_text()
    assert [row.what for row in ROWS if f"\n| {row.what} |" not in page] == []
