"""The small real programs of programs.py: every bug is found, every twin is silent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from programs import ROOT, Program, check, programs

ALL = list(programs())


@pytest.mark.matrix
@pytest.mark.parametrize("program", ALL, ids=lambda p: f"{p.title}/{'bug' if p.bug else 'twin'}")
def test_a_bug_is_found_and_its_twin_is_silent(program: Program, tmp_path: Path) -> None:
    assert check(program, tmp_path, ROOT / ".venv") == "ok"


def test_the_templates_make_a_program_and_its_twin_that_differ() -> None:
    for bug, twin in zip(ALL[::2], ALL[1::2], strict=True):
        assert bug.title == twin.title
        assert bug.bug and not twin.bug
        assert bug.source != twin.source
        assert "||" not in twin.source.replace("if (", "")
        assert bug.lines
