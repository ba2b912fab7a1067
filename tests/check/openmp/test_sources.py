"""What the simulated runtime's copies of the sources say, and what the compiler does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program
from weft.openmp.directives import LINES, parse_directive, rewrite_for_runtime
from weft.openmp.source_rewriting import rewrite_c, rewrite_fortran


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("parallel for", "parallel for schedule(dynamic, 7)"),
        ("for schedule(static) nowait", "for nowait schedule(guided, 7)"),
        ("for schedule(static, 4) nowait", f"for nowait schedule(guided, 7 + (long)(4) * {LINES}L)"),
        ("for schedule(monotonic: static)", "for schedule(guided, 7)"),
        ("for simd safelen(4) private(x)", "for private(x) schedule(dynamic, 7)"),
        ("simd safelen(4)", "parallel for num_threads(1000004) schedule(dynamic, 7)"),
        ("teams distribute parallel for num_teams(3)", "parallel for schedule(dynamic, 7)"),
        ("target teams distribute map(to: a)", "target parallel for map(to: a) schedule(dynamic, 7)"),
        (
            "for order(reproducible: concurrent) nowait",
            "for nowait schedule(guided, 7)",
        ),
        ("loop bind(parallel)", "for schedule(dynamic, 7)"),
        ("task depend(in: a[f(1)])", "task depend(in: a[f(1)])"),
        ("declare simd uniform(a)", "declare simd uniform(a)"),
    ],
)
def test_a_directive_is_written_for_the_simulated_runtime(given: str, made: str) -> None:
    one = parse_directive(given)
    assert one is not None
    assert str(rewrite_for_runtime(one, "for", 7)) == made


def test_lines_of_preprocessed_text_are_those_of_its_markers() -> None:
    text = '# 1 "a.c"\nint a;\n# 40 "a.c"\n#pragma omp parallel for\nfor (;;) ;\n'
    assert "schedule(dynamic, 40)" in rewrite_c(text)
    assert "schedule" not in rewrite_c(text, unchanged_lines={40})


def test_a_long_directive_in_fixed_form_stays_within_its_columns() -> None:
    names = ", ".join(f"variable{k}" for k in range(9))
    text = f"C$OMP PARALLEL DO SHARED({names[:40]}\nC$OMP&{names[40:]})\n      DO I = 1, 9\n"
    made = rewrite_fortran(text, Path("a.f"), is_fixed_form=True)
    assert all(len(line) <= 72 for line in made.split("\n"))
    assert "schedule(dynamic," in made.replace("\nC$OMP&", "")
    assert '\n# 2 "a.f"' in made


def test_a_parallel_workshare_is_two_directives_and_every_line_stays_its_own() -> None:
    text = "!$omp parallel workshare shared(a)\n a = 1\n!$omp end parallel workshare\nend\n"
    made = rewrite_fortran(text, Path("a.f90"), is_fixed_form=False)
    assert made == (
        '!$omp parallel shared(a)\n!$omp single\n# 2 "a.f90"\n a = 1\n'
        '!$omp end single\n!$omp end parallel\n# 4 "a.f90"\nend\n'
    )


@pytest.mark.matrix
def test_words_of_fortran_have_no_case(tmp_path: Path) -> None:
    source = tmp_path / "a.f90"
    source.write_text(
        "program p\n  integer :: i, a(9)\n!$OMP PARALLEL DO SCHEDULE(DYNAMIC)\n  do i = 2, 9\n"
        "    a(i) = a(i - 1)\n  end do\nend program\n"
    )
    (one,) = check_program(CheckRequest((source,), timeout=60), tmp_path).findings
    assert {site.line for site in one.sites} == {5}


def test_a_loop_that_takes_no_schedule_is_run_as_it_is_and_told(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text(
        "int a[9][9];\nint main(void) {\n#pragma omp parallel for collapse(2)\n    for (int i = 0; i < 9; i++)\n"
        "        for (int j = 0; j < i; j++)\n            a[i][j] = 1;\n}\n"
    )
    found = check_program(CheckRequest((source,), timeout=60), tmp_path)
    assert found.findings == ()
    assert any("overrides the schedule" in one and "a.c:3" in one for one in found.looked.unchecked)
