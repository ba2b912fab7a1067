"""A reduction's operation beside what its loop does, as the source says."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check.openmp.reductions import LARGEST, wrong


def told(tmp_path: Path, operation: str, body: str) -> list[tuple[str, str, int]]:
    source = tmp_path / "a.c"
    source.write_text(
        f"void f(void) {{\n#pragma omp parallel for reduction({operation}:s)\nfor (int i = 0; i < n; i++)\n{body}\n}}\n"
    )
    return [(one.declared, one.does, one.line) for one in wrong(source)]


@pytest.mark.parametrize(
    ("operation", "body", "does"),
    [
        ("+", "s *= a[i];", "*"),
        ("+", "s = s * a[i];", "*"),
        ("*", "{ s += a[i]; }", "+"),
        ("*", "s++;", "+"),
        ("+", "if (a[i] > s) s = a[i];", LARGEST),
        ("+", "s = fmax(s, a[i]);", LARGEST),
        ("|", "s &= a[i];", "&"),
        ("&&", "s = s || a[i];", "||"),
    ],
)
def test_another_operation_is_told(tmp_path: Path, operation: str, body: str, does: str) -> None:
    assert told(tmp_path, operation, body) == [(operation, does, 4)]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("+", "s += a[i];"),
        ("+", "s -= a[i];"),
        ("-", "s += a[i];"),
        ("+", "{ if (a[i]) s++; else s--; }"),
        ("*", "s = s * a[i];"),
        ("+", "s = s * 2 + a[i];"),
        ("+", "{ s *= 2; s += a[i]; }"),
        ("+", "{ s = 0; s *= a[i]; }"),
        ("+", "{ s *= a[i]; use(s); }"),
        ("+", "{ s *= a[i]; b[i] = s; }"),
        ("&&", "s &= a[i] > 0;"),
        ("+", "s |= 1 << i;"),
        ("|", "s ^= 1 << i;"),
        ("&", "s *= a[i] > 0;"),
        ("max", "if (a[i] > s) s = a[i];"),
        ("max", "s++;"),
        ("+", "{ p.s *= 2; t[s] = 1; }"),
        ("+", "{ /* s *= 2; */ s += 1; }"),
    ],
)
def test_what_is_right_or_cannot_be_told_is_not(tmp_path: Path, operation: str, body: str) -> None:
    assert told(tmp_path, operation, body) == []


def told_fortran(tmp_path: Path, operation: str, body: str) -> list[tuple[str, str, int]]:
    source = tmp_path / "a.f90"
    source.write_text(
        f"subroutine f()\n!$omp parallel do reduction({operation}:s)\n"
        f"do i = 1, n\n{body}\nend do\ns = 0\nend subroutine\n"
    )
    return [(one.declared, one.does, one.line) for one in wrong(source)]


@pytest.mark.parametrize(
    ("operation", "body", "does"),
    [
        ("+", "s = s * a(i)", "*"),
        ("+", "if (a(i) > 0) S = s * (a(i) + 1)", "*"),
        ("*", "s = s + a(i)", "+"),
        ("*", "s = s - &\n  a(i)", "+"),
        ("+", "s = max(s, a(i))", LARGEST),
        ("+", "if (a(i) .gt. s) s = a(i)", LARGEST),
        (".and.", "s = s .or. b(i)", ".or."),
        (".OR.", "s = s .and. b(i)", ".and."),
        ("max", "s = s + a(i)", "+"),
        ("iand", "s = ior(s, a(i))", "ior"),
    ],
)
def test_another_operation_is_told_of_fortran(tmp_path: Path, operation: str, body: str, does: str) -> None:
    assert told_fortran(tmp_path, operation, body) == [(operation.lower(), does, 4)]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("+", "s = s + a(i)"),
        ("-", "s = s - a(i)"),
        ("+", "if (a(i) > 0) then\ns = s + 1\nelse\ns = s - 1\nend if"),
        ("*", "s = s * a(i)"),
        ("+", "s = s * 2 + a(i)"),
        ("+", "s = s * s"),
        ("+", "s = s * a(i)\nb(i) = s"),
        ("+", "s = 0\ns = s * a(i)"),
        ("max", "s = max(s, a(i))"),
        ("max", "if (a(i) > s) s = a(i)"),
        ("+", "p%s = p%s * 2; s = s + 1"),
        ("+", "! s = s * 2\ns = s + a(i)"),
        ("+", "print *, 's = s * 2'\ns = s + 1"),
        (".and.", "s = s .and. a(i) > 0 .or. b(i)"),
        (".eqv.", "s = s .or. b(i)"),
        ("+", "do j = 1, m\ns = s + a(j)\nend do"),
        ("+", "do 10 j = 1, m\n10 s = s * a(j)"),
    ],
)
def test_what_is_right_or_cannot_be_told_of_fortran_is_not(tmp_path: Path, operation: str, body: str) -> None:
    assert told_fortran(tmp_path, operation, body) == []
