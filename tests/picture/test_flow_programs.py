"""The pictures that `weft run` and `weft report` print of real programs, and README's, which is one of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests_support import ROOT, WEFT, Installed, execute

PROGRAMS = ROOT / "tests"
DRAWN = re.compile(r"^ {3,}rank \d|^ {5}[│✗┆■|X:#]")


@pytest.fixture(scope="module")
def heat(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """README's program, run as README says."""
    folder = tmp_path_factory.mktemp("heat")
    shutil.copy(ROOT / "src" / "weft" / "examples" / "heat.py", folder)
    assert mpich.python is not None
    return folder, execute([*WEFT, "run", "-n", "3", "--", mpich.python, "heat.py"], cwd=folder)


def drawn(text: str) -> list[str]:
    """The lines of pictures in a text."""
    return [line for line in text.splitlines() if DRAWN.match(line)]


@pytest.mark.matrix
def test_readme_shows_what_the_command_prints(heat: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = heat
    block = (ROOT / "README.md").read_text().split("$ weft run -n 3 -- python heat.py\n")[1].split("```")[0]
    said = [line for line in done.stderr.splitlines() if line.startswith("weft: ") and "recorder" not in line]
    assert drawn(block) == drawn(done.stderr) != []
    rest = " ".join(line for line in block.splitlines() if not DRAWN.match(line))
    assert rest.split() == " ".join(said).split()


def test_the_report_prints_the_picture_too_and_in_ascii_where_lines_cannot_be_shown(
    heat: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = heat
    report = execute([*WEFT, "report"], cwd=folder)
    assert drawn(report.stdout) == drawn(done.stderr)
    plain = execute([*WEFT, "report"], cwd=folder, env={"PYTHONIOENCODING": "ascii:backslashreplace"})
    assert drawn(plain.stdout)[-1] == "     :....tag 1....X....tag 1....X    heat.py:25  wait in recv(tag=1)"
    assert len(drawn(plain.stdout)) == len(drawn(done.stderr))


@pytest.mark.matrix
def test_a_program_in_c_that_waits_for_another_tag_shows_which_was_sent(mpich: Installed, tmp_path: Path) -> None:
    program = tmp_path / "deadlock"
    source = PROGRAMS / "launch" / "programs" / "deadlock.c"
    assert execute([mpich.mpicc, "-g", "-o", program, source]).returncode == 0
    done = execute([*WEFT, "run", "-n", "2", "--", program], cwd=tmp_path)
    text = "\n".join(drawn(done.stderr))
    assert text.count("tag 7──") == 2 and "deadlock.c:8  send, never received" in text
    assert "✗╌╌╌tag 17╌╌╌╌✗    deadlock.c:9  wait in recv(tag=17)" in text


@pytest.mark.cases(1)
@pytest.mark.parametrize("ranks", [3, 4])
def test_a_race_in_python_shows_who_could_have_come_first(mpich: Installed, tmp_path: Path, ranks: int) -> None:
    assert mpich.python is not None
    program = PROGRAMS / "replay" / "programs" / "races.py"
    done = execute([*WEFT, "run", "-n", str(ranks), "--", mpich.python, program], cwd=tmp_path)
    made = drawn(done.stderr)
    assert len(made) == ranks + 1
    assert sum("taken by" in line for line in made) == 1
    assert sum(line.endswith("could have come first") for line in made) == ranks - 2
