"""C-DVMH programs with one error each are told at their line, loop, iteration and element; their twins are silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from arrays.c_programs import PROGRAMS, fault, faults, shown, variant
from weft.arrays import Request, check

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.cdv"))


def run(name: str, right: bool, folder: Path) -> tuple[Path, list]:  # type: ignore[type-arg]
    path = folder / f"{name}.cdv"
    path.write_text(variant((PROGRAMS / f"{name}.cdv").read_text(), right))
    built = folder / "built"
    built.mkdir()
    return path, list(check(Request((path,), timeout=30), built).findings)


@pytest.mark.parametrize("name", NAMES)
def test_each_error_is_told_at_its_line_loop_iteration_and_element(name: str, tmp_path: Path) -> None:
    path, findings = run(name, False, tmp_path)
    expected = faults(name)
    assert len(expected) >= 6
    told = [fault(finding) for finding in findings]
    assert sorted(told, key=lambda f: f.line) == expected, shown(told)
    assert {finding.sites[0].file for finding in findings} == {str(path)}


@pytest.mark.parametrize("name", NAMES)
def test_corrected_twins_are_silent(name: str, tmp_path: Path) -> None:
    _, findings = run(name, True, tmp_path)
    assert not findings, "\n".join(finding.message for finding in findings)
