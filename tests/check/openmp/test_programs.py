"""Faulty OpenMP programs are found at their lines, and their corrected twins are silent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from check.openmp.programs import FILES, Case, cases, checked, of_case, program, told
from weft.check import CheckRequest, CheckResult, check_program
from weft.findings import Finding
from weft.openmp.build import build_program
from weft.openmp.checking import check_built_program

pytestmark = pytest.mark.skipif(not FILES, reason="the table of programs is missing")


def verdict(findings: Iterable[Finding]) -> list[tuple[str, str, object]]:
    """What a check says."""
    return sorted((one.kind, one.message, sorted(map(str, one.sites))) for one in findings)


def wrong(found: CheckResult, case: Case) -> str:
    """What is not as the case's comments promise."""
    findings = of_case(found, case)
    kinds = {one.kind for one in findings}
    if kinds != {case.kind}:
        return f"{case.name}: {sorted(kinds)} and not {case.kind}"
    return "" if told(findings) == case.lines else f"{case.name}: {sorted(told(findings))}, not {sorted(case.lines)}"


@pytest.mark.cases(8)
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
    assert not found.looked.is_empty


def test_the_table_has_sixty_errors_and_each_has_a_name_of_its_own() -> None:
    names = [case.name for path in FILES for case in cases(path)]
    assert len(names) >= 60
    assert all(case.lines for path in FILES for case in cases(path))
    assert all(len({case.name for case in cases(path)}) == len(cases(path)) for path in FILES)


def runs(path: Path, folder: Path, environments: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What comes out of one program in several runs, with variables of the environment set."""
    request = CheckRequest((program(path, False, folder),), timeout=120)
    built = build_program(request, folder)
    told: list[object] = []
    for environment in environments:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            told.append(verdict(check_built_program(built, request, folder).findings))
    return told


@pytest.mark.matrix
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_verdict_is_the_same_however_many_threads_are_asked_for(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = [{"OMP_NUM_THREADS": threads} for threads in ("1", "2", "16")]
    told = runs(path, tmp_path, environments, monkeypatch)
    assert told[0]
    assert all(one == told[0] for one in told)


@pytest.mark.matrix
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_verdict_is_the_same_on_20_of_20_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = runs(path, tmp_path, [{}] * 20, monkeypatch)
    assert told[0]
    assert all(one == told[0] for one in told)


@pytest.mark.matrix
@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_error_is_found_however_many_threads_the_user_asks_for(path: Path, threads: int, tmp_path: Path) -> None:
    found = check_program(CheckRequest((program(path, False, tmp_path),), grid=str(threads), timeout=120), tmp_path)
    assert [told for case in cases(path) if (told := wrong(found, case))] == []
