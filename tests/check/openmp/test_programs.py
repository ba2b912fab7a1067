"""Faulty OpenMP programs are found at their lines, and their corrected twins are silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from check.openmp.programs import FILES, Case, cases, checked, of_case, program, told
from weft.check import Checked, Request, check

pytestmark = pytest.mark.skipif(not FILES, reason="the table of programs is missing")


def verdict(found: Checked) -> list[tuple[str, str, object]]:
    """What a check says, without how long it took."""
    return sorted((one.kind, one.message, sorted(map(str, one.sites))) for one in found.findings)


def wrong(found: Checked, case: Case) -> str:
    """What is not as the case's comments promise."""
    findings = of_case(found, case)
    kinds = {one.kind for one in findings}
    if kinds != {case.kind}:
        return f"{case.name}: {sorted(kinds)} and not {case.kind}"
    return "" if told(findings) == case.lines else f"{case.name}: {sorted(told(findings))}, not {sorted(case.lines)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_error_is_found_at_its_lines(path: Path, tmp_path: Path) -> None:
    found = checked(path, False, tmp_path)
    assert [told for case in cases(path) if (told := wrong(found, case))] == []
    assert len([one for case in cases(path) for one in of_case(found, case)]) == len(found.findings)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_corrected_twins_are_silent(path: Path, tmp_path: Path) -> None:
    found = checked(path, True, tmp_path)
    assert found.findings == ()
    assert found.whole
    assert not found.looked.nothing


def test_the_table_has_sixty_errors_and_each_has_a_name_of_its_own() -> None:
    names = [case.name for path in FILES for case in cases(path)]
    assert len(names) >= 60
    assert all(case.lines for path in FILES for case in cases(path))
    assert all(len({case.name for case in cases(path)}) == len(cases(path)) for path in FILES)


@pytest.mark.matrix
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_verdict_is_the_same_on_20_of_20_runs(path: Path, tmp_path: Path) -> None:
    verdicts = [verdict(checked(path, False, tmp_path)) for _ in range(20)]
    assert all(one == verdicts[0] for one in verdicts)


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("path", FILES[-1:], ids=lambda path: path.name)
def test_the_verdict_is_the_same_however_many_threads_are_asked_for(
    path: Path, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = verdict(checked(path, False, tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    assert verdict(checked(path, False, tmp_path)) == whole


@pytest.mark.matrix
@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_error_is_found_however_many_threads_the_user_asks_for(path: Path, threads: int, tmp_path: Path) -> None:
    found = check(Request((program(path, False, tmp_path),), grid=str(threads), timeout=120), tmp_path)
    assert [told for case in cases(path) if (told := wrong(found, case))] == []
