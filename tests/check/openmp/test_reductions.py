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
