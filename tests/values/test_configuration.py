"""Configurations: what is wrong is told with its entry and what was likely meant; what is right is kept to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from replay.campaign import environment
from tests_support import WEFT, Installed, execute
from weft.errors import UsageError
from weft.values.configuration import read_configuration
from weft.values.trace import ValueTrace

WRONG = {
    'level = "ful"': "level = 'ful' is not one of none, minimal, modifications, full; the nearest is 'full'",
    "leval = 1": "the program: 'leval' is not a setting; the nearest is 'level'",
    "[lop.x]": "[lop] is not a kind of entry; the nearest is 'loop'",
    "[loop]\nx = 3": '[loop]: write [loop."x"]',
    "[loop.x]\nabsolute = 1": "[loop.\"x\"]: 'absolute' is not a setting",
    '[loop.x]\niterations = "5:2"': "iterations = '5:2' selects no iteration",
    '[loop.x]\niterations = "a"': "iterations = 'a': write first:last:step",
    "[probe.x]\nevery = 0": "every = 0 is not a number of 1 or more",
    '[probe.x]\nranks = "1;2"': "ranks = '1;2': write a list of ranks",
    "[probe.x]\nrelative = -1": "relative = -1 is not a number of 0 or more",
    '[probe.x]\nnan = "no"': "nan = 'no': write equal or different",
    'limit = "much"': "limit = 'much': write a size",
    "level = ": "is not TOML",
    '[probe."a\\tb"]': "contains a tab or a line break",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_its_entry(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(UsageError) as told:
        read_configuration(tmp_path / "p.toml")
    assert str(tmp_path / "p.toml") in str(told.value)
    assert WRONG[text] in str(told.value)


PROGRAM = """
import weft
def inner(i):
    weft.probe("within", [i] * 20)
for i in range(10):
    with weft.loop("outer", i):
        weft.probe("number", i)
        inner(i)
for i in range(3):
    with weft.loop("other", i):
        weft.probe("number", 100 + i)
"""


def recorded(folder: Path, text: str | None) -> tuple[dict[str, list[float]], str]:
    """The first number of each probe that was kept, by name; and what was said."""
    (folder / "p.py").write_text(PROGRAM)
    if text is not None:
        (folder / "p.toml").write_text(text)
    command = [*WEFT, "run", "--probes", "p.toml", "--out", "run", "--", sys.executable, "p.py"]
    done = execute(command, cwd=folder, env=environment())
    found: dict[str, list[float]] = {}
    for process in ValueTrace.open(folder / "run").processes if (folder / "run").exists() else ():
        for row in range(len(process.rows)):
            one = process.value_at(row)
            values = one.values()
            assert values is not None
            found.setdefault(one.place.name, []).append(float(values.ravel()[0]))
    return found, done.stderr


ALL = [float(i) for i in range(10)] + [100.0, 101.0, 102.0]
KEPT = {
    'level = "full"': (ALL, 10),
    'level = "none"\n[probe.number]\nlevel = "full"': (ALL, 0),
    '[loop.outer]\niterations = "2:8:3"': ([2.0, 5.0, 8.0, 100.0, 101.0, 102.0], 3),
    '[loop.outer]\nlevel = "none"': ([100.0, 101.0, 102.0], 0),
    '[probe.number]\nevery = 5': ([0.0, 5.0, 100.0], 10),
    '[probe.number]\niterations = "9"': ([9.0], 10),
    '[procedure.inner]\nlevel = "none"': (ALL, 0),
    '[file."p.py"]\nlevel = "none"\n[loop.other]\nlevel = "full"': ([100.0, 101.0, 102.0], 0),
    '[probe.within]\nranks = "1-3"': (ALL, 0),
}  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize("text", KEPT)
def test_what_is_asked_for_is_kept_and_nothing_else(text: str, mpich: Installed, tmp_path: Path) -> None:
    found, said = recorded(tmp_path, text)
    numbers, within = KEPT[text]
    assert found.get("number", []) == numbers, said
    assert len(found.get("within", [])) == within


def test_a_first_run_writes_the_configuration_and_the_next_one_takes_it(mpich: Installed, tmp_path: Path) -> None:
    found, said = recorded(tmp_path, None)
    assert found["number"] == ALL
    assert "wrote p.toml" in said
    text = (tmp_path / "p.toml").read_text()
    assert '[loop."outer"]   # p.py:6' in text
    assert '[probe."number"]   # p.py:7, p.py:11' in text
    assert read_configuration(tmp_path / "p.toml").limit == 1 << 30


def test_an_entry_for_what_the_program_does_not_have_is_an_error(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    (tmp_path / "p.toml").write_text('[probe.nunber]\nlevel = "none"\n')
    command = [*WEFT, "run", "--probes", "p.toml", "--", sys.executable, "p.py"]
    done = execute(command, cwd=tmp_path, env=environment())
    assert done.returncode == 4
    assert "p.toml: the run has no probe 'nunber'; the nearest is 'number'" in done.stderr


def test_a_trace_ends_at_its_limit_and_says_so(mpich: Installed, tmp_path: Path) -> None:
    found, said = recorded(tmp_path, 'limit = "1k"')
    assert 0 < len(found["number"]) < 10
    assert "values end early: they had reached the limit of 1,024 bytes" in said
