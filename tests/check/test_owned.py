"""Own computations in sequential parts: statements that are run again and again keep what is known of their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program
from weft.findings import Finding

HEAD = """\
#include <stdio.h>
#pragma dvm array distribute[block], shadow[0:0]
double a[12];
#pragma dvm array align([i] with a[i]), shadow[0:0]
double b[12];
#pragma dvm array distribute[block], shadow[0:0]
double c[12];
double of(int i) { return a[i]; }
#pragma dvm inherit(p)
void set(double p[12], double q) {
    for (int i = 1; i < 11; i++)
        p[i] = q + i;
}
int main(void) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        a[i] = b[i] = c[i] = i;
    for (int n = 0; n < 3; n++)
        for (int i = 1; i < 11; i++) {
"""
TAIL = """\
        }
    printf("%g\\n", sum);
    return 0;
}
"""
FIRST = HEAD.count("\n") + 1


def found(statements: str, folder: Path, grid: str = "") -> tuple[Finding, ...]:
    source = folder / "p.cdv"
    source.write_text(HEAD + statements + TAIL)
    built = folder / "built"
    built.mkdir()
    return check_program(CheckRequest((source,), timeout=60, grid=grid), built).findings


def counted(findings: tuple[Finding, ...]) -> dict[tuple[str, int], int]:
    """How often each kind came, by its line."""
    return {(one.kind, one.sites[0].line - FIRST): one.facts()["count"] for one in findings}


def test_what_the_owner_has_is_right_each_time(tmp_path: Path) -> None:
    right = "            b[i] = 2 * a[i] + b[i];\n            a[i] += b[i];\n            a[11 - i] = b[11 - i];\n"
    assert counted(found(right, tmp_path)) == {}


def test_a_neighbours_element_is_wrong_each_time(tmp_path: Path) -> None:
    wrong = "            b[i] = a[i];\n            b[i] = a[11 - i];\n"
    assert counted(found(wrong, tmp_path)) == {("remote-access", 1): 30}


@pytest.mark.parametrize(("grid", "times"), [("", 30), ("2", 30), ("3", 18)])
def test_with_a_grid_only_other_blocks_are_wrong(grid: str, times: int, tmp_path: Path) -> None:
    assert counted(found("            b[i] = a[11 - i];\n", tmp_path, grid)) == {("remote-access", 0): times}


def test_a_function_may_read_within_a_statement_what_it_may_not_outside(tmp_path: Path) -> None:
    both = "            b[i] = of(i);\n            sum += of(i);\n"
    wrong = found(both, tmp_path)
    assert [(one.kind, one.facts()["count"], one.sites[0].line) for one in wrong] == [("remote-access", 30, 8)]


def test_the_owner_of_another_element_has_not_what_a_function_reads(tmp_path: Path) -> None:
    wrong = found("            b[i] = of(i);\n            b[i] = of(11 - i);\n", tmp_path)
    assert [(one.kind, one.facts()["count"], one.sites[0].line) for one in wrong] == [("remote-access", 30, 8)]


def test_a_statement_of_a_formal_parameter_is_of_what_was_passed(tmp_path: Path) -> None:
    assert counted(found("            set(a, n), set(c, n);\n", tmp_path)) == {}


def test_an_array_that_was_distributed_anew_has_other_owners(tmp_path: Path) -> None:
    text = """\
            if (n == 1 && i == 1) {
                #pragma dvm redistribute(c[])
            }
            b[i] = c[5];
"""
    wrong = found(text, tmp_path)
    assert [one.kind for one in wrong] == ["remote-access"]
    assert wrong[0].facts()["count"] in (9, 10)
