"""A reduction's operation beside what its loop does, as the source says."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program
from weft.openmp.reductions import EXTREME, LARGEST, SMALLEST, find_misdeclared_reductions


def told(tmp_path: Path, operation: str, body: str) -> list[tuple[str, str, int]]:
    source = tmp_path / "a.c"
    source.write_text(
        f"void f(void) {{\n#pragma omp parallel for reduction({operation}:s)\nfor (int i = 0; i < n; i++)\n{body}\n}}\n"
    )
    return [(one.declared, one.computed, one.update_line) for one in find_misdeclared_reductions(source)]


@pytest.mark.parametrize(
    ("operation", "body", "does"),
    [
        ("+", "s *= a[i];", "*"),
        ("+", "s = s * a[i];", "*"),
        ("*", "{ s += a[i]; }", "+"),
        ("*", "s++;", "+"),
        ("+", "if (a[i] > s) s = a[i];", LARGEST),
        ("+", "s = fmax(s, a[i]);", LARGEST),
        ("+", "if (a[i] > s) s = b[i];", EXTREME),
        ("max", "if (a[i] < s) s = a[i];", SMALLEST),
        ("max", "if (s >= f(i)) { s = f(i); }", SMALLEST),
        ("max", "s = a[i] < s ? a[i] : s;", SMALLEST),
        ("max", "s = (s > a[i]) ? a[i] : s;", SMALLEST),
        ("max", "s = std::min(a[i], s);", SMALLEST),
        ("max", "s = MIN(s, a[i]);", SMALLEST),
        ("max", "if (a[b[i]][j] < s) s = a[b[i]][j];", SMALLEST),
        ("max", "s = f(a[i]) + g(b) < s ? f(a[i]) + g(b) : s;", SMALLEST),
        ("min", "if (s < a[i]) s = a[i];", LARGEST),
        ("min", "s = s > a[i] ? s : a[i];", LARGEST),
        ("min", "s = fmaxf(s, a[i]);", LARGEST),
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
        ("max", "if (s < a[i]) s = a[i];"),
        ("max", "s = a[i] > s ? a[i] : s;"),
        ("max", "s = a[i] < s ? s : a[i];"),
        ("max", "if (a[i] < s) s = b[i];"),
        ("max", "s = a[i] < s ? b[i] : s;"),
        ("max", "s = a[i] < t ? a[i] : s;"),
        ("max", "if (a[i] < s) s = a[i]; else s = b[i];"),
        ("max", "{ if (a[i] < s) s = a[i]; b[i] = s; }"),
        ("min", "if (a[i] < s) s = a[i];"),
        ("min", "s = fmin(s, a[i]);"),
        ("prod", "s += a[i];"),
        ("+", "s = minus(s, a[i]);"),
        ("max", "s = minus(s, a[i]);"),
        ("max", f"s = {'a' * 99} > {'b' * 99} ? {'c' * 99} : {'d' * 99}(1) + (2 == 3);"),
        ("+", "{ p.s *= 2; t[s] = 1; }"),
        ("+", "{ /* s *= 2; */ s += 1; }"),
    ],
)
def test_what_is_right_or_cannot_be_told_is_not(tmp_path: Path, operation: str, body: str) -> None:
    assert told(tmp_path, operation, body) == []


OWN = """\
#pragma omp declare reduction(prod : int, double : omp_out *= omp_in) \\
        initializer(omp_priv = 1)
#pragma omp declare reduction(least : std::pair : omp_out = omp_in < omp_out ? omp_in : omp_out)
#pragma omp declare reduction(odd : struct c : join(&omp_out, &omp_in))
void f(void)
{
#pragma omp @
    { s @= a[i]; }
}
"""


@pytest.mark.parametrize(
    ("directive", "does", "said"),
    [
        ("parallel reduction(+:s)", "*", "+"),
        ("task in_reduction(*:s)", "+", "*"),
        ("parallel reduction(prod:s)", "+", "prod (*)"),
        ("task in_reduction(prod:s)", "+", "prod (*)"),
        ("parallel reduction(prod:s)", "*", ""),
        ("task in_reduction(+:s)", "+", ""),
        ("parallel reduction(odd:s)", "*", ""),
        ("parallel reduction(least:s)", "*", ""),
        ("taskgroup task_reduction(+:s)", "*", ""),
    ],
)
def test_reductions_of_blocks_and_operations_of_ones_own(tmp_path: Path, directive: str, does: str, said: str) -> None:
    source = tmp_path / "a.cpp"
    source.write_text(OWN.replace("@", directive, 1).replace("@", does, 1))
    assert [
        (one.declared, one.computed, one.update_line, one.is_loop) for one in find_misdeclared_reductions(source)
    ] == ([(said, does, 8, False)] if said else [])


def test_a_loop_with_an_operation_of_ones_own(tmp_path: Path) -> None:
    loop = "void g(void)\n{\n#pragma omp parallel for reduction(least:s)\n    for (i = 0; i < n; i++)\n"
    for statement, found in (("if (a[i] > s) s = a[i];", [("least (min)", LARGEST, 14)]), ("s = fmin(s, a[i]);", [])):
        source = tmp_path / "a.cpp"
        source.write_text(OWN.replace("@", "parallel").replace("s parallel= a[i]", "") + loop + statement + "\n}\n")
        assert [(one.declared, one.computed, one.update_line) for one in find_misdeclared_reductions(source)] == found


RUN = """\
#pragma omp declare reduction(prod : double : omp_out *= omp_in) initializer(omp_priv = 1)
int main(void)
{
    double a[100], m = 9, p = 1, s = 1, t = 1;
    for (int i = 0; i < 100; i++) a[i] = 1 + i % 7;
    #pragma omp parallel for reduction(@0:m)
    for (int i = 0; i < 100; i++)
        m = a[i] < m ? a[i] : m; // 0
    #pragma omp parallel for reduction(@1:p)
    for (int i = 0; i < 100; i++)
        p += a[i]; // 1
    #pragma omp parallel reduction(@2:t)
    {
        t *= 2; // 2
    }
    #pragma omp parallel
    #pragma omp single
    #pragma omp taskgroup task_reduction(@3:s)
    for (int i = 0; i < 10; i++) {
        #pragma omp task in_reduction(@3:s)
        s *= a[i]; // 3
    }
    return m + p + s + t < 0;
}
"""


@pytest.mark.parametrize("wrongly", [True, False], ids=["faulty", "right"])
def test_reductions_of_a_program_that_runs(wrongly: bool, tmp_path: Path) -> None:
    text = RUN
    for number, operation in enumerate(("max", "prod", "+", "+") if wrongly else ("min", "+", "*", "*")):
        text = text.replace(f"@{number}", operation)
    source = tmp_path / "a.c"
    source.write_text(text)
    found = check_program(CheckRequest((source,)), tmp_path).findings
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "; // " in line]
    assert sorted((one.kind, one.sites[0].line) for one in found) == [
        ("wrong-reduction", one) for one in lines if wrongly
    ]


def told_fortran(tmp_path: Path, operation: str, body: str) -> list[tuple[str, str, int]]:
    source = tmp_path / "a.f90"
    source.write_text(
        f"subroutine f()\n!$omp parallel do reduction({operation}:s)\n"
        f"do i = 1, n\n{body}\nend do\ns = 0\nend subroutine\n"
    )
    return [(one.declared, one.computed, one.update_line) for one in find_misdeclared_reductions(source)]


@pytest.mark.parametrize(
    ("operation", "body", "does"),
    [
        ("+", "s = s * a(i)", "*"),
        ("+", "if (a(i) > 0) S = s * (a(i) + 1)", "*"),
        ("*", "s = s + a(i)", "+"),
        ("*", "s = s - &\n  a(i)", "+"),
        ("+", "s = max(s, a(i))", LARGEST),
        ("+", "if (a(i) .gt. s) s = a(i)", LARGEST),
        ("+", "if (a(i) .gt. s) s = b(i)", EXTREME),
        ("max", "if (a(i) .lt. s) s = a( i )", SMALLEST),
        ("max", "s = min(s, a(i))", SMALLEST),
        ("min", "if (a(i) >= s) s = a(i)", LARGEST),
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
        ("max", "if (a(i) < s) s = b(i)"),
        ("min", "s = min(s, a(i))"),
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
