"""Every command of docs/tutorial.md is run, and prints what the page says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests_support import ROOT, Installed, execute
from tutorial.consoles import ANYTHING, Typed, shown_files, typed_commands

PAGE = ROOT / "docs" / "tutorial.md"
RUNS = os.environ.get("WEFT_TEST_TUTORIAL_RUNS", "3")
"""In place of the page's 50, which take a minute."""


def plain(line: str, run: str) -> str:
    """A line as every machine prints it: the run's number differs, and on how many runs are made."""
    line = re.sub(rf"\b{run}\b", "search-17", line)
    return re.sub(r"^ +\d+ best", "    many best", line.rstrip())


def lines(text: str, run: str) -> list[str]:
    """What was printed, without notes about waiting times, which differ."""
    return [plain(line, run) for line in text.splitlines() if not re.search(r"notes? on waiting times", line)]


def check(one: Typed, out: str, run: str) -> None:
    """Compare. Two streams of a program have no order among each other, so lines are compared as a bag."""
    expected, got = [plain(line, run) for line in one.output], lines(out, run)
    if one.prompt:
        assert got == expected, out
    elif ANYTHING in expected:
        assert set(expected) - {ANYTHING} <= set(got), out
    else:
        assert sorted(got) == sorted(expected), out


@pytest.mark.timeout(400)
def test_every_command_of_the_tutorial_prints_what_it_says(tmp_path: Path, mpich: Installed) -> None:
    page = PAGE.read_text()
    for name, text in shown_files(page).items():
        (tmp_path / name).write_text(text)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PACE": "0.02"}
    commands = typed_commands(page)
    assert len(commands) == 12 and len(shown_files(page)) == 2
    run = "search-17"
    for one in commands:
        words = one.command.replace("seq 50", f"seq {RUNS}").replace("search-17", run)
        done = execute(["bash", "-c", f"({words}) 2>&1"], cwd=tmp_path, env=environment, stdin=one.stdin, timeout=200)
        if one.command.startswith("while"):
            *_, run = re.findall(r"weft-runs/(search-\d+)", done.stdout)
            last = done.stdout[done.stdout.index("best: setting 4") :]
            check(one, last, run)
            assert len(list((tmp_path / "weft-runs").iterdir())) == int(run.removeprefix("search-"))
        else:
            check(one, done.stdout, run)
            if "uniq -c" in one.command:
                assert done.stdout.split()[0] == RUNS
