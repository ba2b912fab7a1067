"""Variables of mergeable tasks whose value matters behind the task, as the source says."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.openmp.merged_tasks import find_variables_of_merged_tasks


def told(folder: Path, clauses: str, body: str, later: str, around: str = "") -> list[tuple[str, int]]:
    source = folder / "a.c"
    source.write_text(
        f"int g;\nint f(int n) {{\nint x = 2, y = 3; static int k; int a[9], *p = a;\n{around}\n{{\n"
        f"#pragma omp task mergeable {clauses}\n{body}\n{later}\n}}\nreturn y;\n}}\n"
    )
    return [(one.name, one.read_line) for one in find_variables_of_merged_tasks(source)]


@pytest.mark.parametrize(
    ("clauses", "body", "later"),
    [
        ("", "x++;", "use(x);"),
        ("if(0)", "{ x = y * 2; }", "y = x;"),
        ("if(0) default(firstprivate)", "x += y;", "if (x) use(0);"),
        ("if(0) firstprivate(x)", "{ if (y) --x; }", "x += 1;"),
        ("if(0)", "for (int i = 0; i < n; i++) x = i;", "use(&x);"),
    ],
)
def test_a_change_that_is_read_is_told(tmp_path: Path, clauses: str, body: str, later: str) -> None:
    assert told(tmp_path, clauses, body, later) == [("x", 8)]


@pytest.mark.parametrize(
    ("clauses", "body", "later", "around"),
    [
        ("shared(x)", "x++;", "use(x);", ""),
        ("default(shared)", "x++;", "use(x);", ""),
        ("", "x++;", "use(x);", "#pragma omp parallel"),
        ("in_reduction(+ : x)", "x++;", "use(x);", ""),
        ("", "x++;", "x = 0; use(x);", ""),
        ("", "x++;", "use(y);", ""),
        ("", "use(x);", "use(x);", ""),
        ("", "{ int x = 1; x++; }", "use(x);", ""),
        ("", "s.x = p->x = a[x] = x == 3;", "use(x);", ""),
        ("", "g++;", "use(g);", ""),
        ("", "k++;", "use(k);", ""),
        ("", "*p = 1;", "use(p);", ""),
    ],
)
def test_what_is_shared_or_not_read_is_not_told(
    tmp_path: Path, clauses: str, body: str, later: str, around: str
) -> None:
    assert told(tmp_path, clauses, body, later, around) == []


def test_a_variable_that_is_private_around_the_task_is_private_to_it(tmp_path: Path) -> None:
    assert told(tmp_path, "if(0)", "x++;", "use(x);", "#pragma omp parallel private(x)") == [("x", 8)]
