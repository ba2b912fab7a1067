"""Variables of every class that are read without a value are told; those that have one are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import Request, check

C = (Path(__file__).parent / "dvm" / "locals.cdv").read_text()
FORTRAN = (Path(__file__).parent / "fortran" / "right" / "locals.f90").read_text()


def found(text: str, name: str, folder: Path) -> list[tuple[str, int, str]]:
    path = folder / name
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    checked = check(Request((path,), timeout=30), built)
    assert checked.whole
    return sorted((one.kind, one.sites[0].line, str(one.evidence["variable"])) for one in checked.findings)


def test_locals_of_c_that_were_never_set_are_told(tmp_path: Path) -> None:
    assert found(C, "p.cdv", tmp_path) == [
        ("uninitialised-read", 13, "found"), ("uninitialised-read", 20, "t"), ("uninitialised-read", 46, "y"),
    ]  # fmt: skip


def test_locals_of_c_that_were_set_in_any_way_are_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    right = C.replace("int found;", "int found = 0;").replace(": 2);", ": 5);").replace("table(3)", "table(4)")
    assert found(right, "p.cdv", tmp_path) == []
    assert capfd.readouterr().out == "153 5\n3\n"


def test_scalars_of_fortran_that_were_never_set_are_told(tmp_path: Path) -> None:
    wrong = FORTRAN.replace("found = 0 !", "!").replace("set(y, 5)", "set(y, 1)").replace("pick(15)", "pick(6)")
    assert found(wrong, "p.f90", tmp_path) == [
        ("uninitialised-read", 28, "y"), ("uninitialised-read", 50, "found"),
    ]  # fmt: skip


def test_scalars_of_fortran_that_were_set_in_any_way_are_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert found(FORTRAN, "p.f90", tmp_path) == []
    assert capfd.readouterr().out.split() == ["153.000000", "5.00000000", "14"]
