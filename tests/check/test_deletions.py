"""From correct programs every clause is deleted in turn: each is missed, at its own loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from check.deletions import deletions
from weft.check import CheckRequest, check_program, mark_sources
from weft.dataparallel.findings import read_findings
from weft.dataparallel.program import build_program, run_program
from weft.findings import Finding

PROGRAMS = Path(__file__).parent / "dvm" / "correct"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.cdv"))


def run(text: str, folder: Path) -> list[Finding]:
    path = folder / "program.cdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir(exist_ok=True)
    return list(check_program(CheckRequest((path,), timeout=30), built).findings)


def lines(finding: Finding) -> set[int]:
    """The directive's line, or that of the access where no loop is about it."""
    return {finding.facts().get("loop", {}).get("line", 0), finding.sites[0].line}


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_correct_program_is_silent_on_every_grid(name: str, tmp_path: Path) -> None:
    marked, texts = mark_sources([PROGRAMS / f"{name}.cdv"])
    program = build_program(marked, tmp_path)
    for grid in ("", "1", "2", "2x2"):
        found = tmp_path / f"findings-{grid}"
        assert run_program(program, [], found, grid, 30).status == 0
        findings = read_findings(found, texts)
        assert not findings, f"{grid}: " + "\n".join(finding.message for finding in findings)


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
def test_every_deleted_clause_is_missed_at_its_loop(name: str, tmp_path: Path) -> None:
    tried = list(deletions((PROGRAMS / f"{name}.cdv").read_text()))
    assert tried
    for one in tried:
        findings = run(one.text, tmp_path)
        near = {one.line, one.line + 1}
        found = [finding for finding in findings if lines(finding) & near]
        shown = "\n".join(f"{sorted(lines(f))} {f.message} [{f.kind}]" for f in findings)
        assert found, f"without `{one.clause}` in line {one.line}:\n{shown}"
