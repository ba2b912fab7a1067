"""A wrong line is refused in one short sentence that names the option, and what may have been meant."""

from __future__ import annotations

import pytest

from weft.cli import _overview
from weft.cli.main import command_names, main


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rnu", "there is no command rnu: did you mean run?"),
        ("--verson", "did you mean --version?"),
        ("dump --fromat json", "there is no option --fromat: did you mean --format?"),
        ("dump --format yaml", "weft: dump: --format yaml: unknown value; use text, json, csv or parquet"),
        ("dump --frobnicate", "there is no option --frobnicate (weft dump --help)"),
        ("replay --timeout -1", "weft: replay: --timeout: "),
        ("dump a b", "unexpected argument b"),
        ("compare a", "RUN is missing"),
        ("run -n 0 -- prog", "weft: run: -n: '0' is not a number of 1 or more"),
        ("report nowhere", "nowhere is not a run: there is no such directory"),
        ("compare nowhere here", "nowhere is not a run: there is no such directory"),
    ],
)
def test_a_wrong_line_is_refused_in_a_sentence(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    errors = capsys.readouterr().err
    assert said in errors, errors
    assert errors.count("\n") == 1 and len(errors) < 160


def test_who_names_no_command_sees_all_of_them_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["help"]) == 0
    shown = capsys.readouterr().out
    assert sorted(name for names in _overview.TASKS.values() for name in names) == command_names()
    assert all(shown.count(f"\n  {name} ") == 2 for name in command_names())
