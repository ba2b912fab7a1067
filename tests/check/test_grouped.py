"""Findings of one cause are told as one, with its count and places; another cause is another finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, execute
from weft.base.facts import changed
from weft.dataparallel.grouping import group_by_cause
from weft.evidence import CheckCase, Line, Loop
from weft.findings import Finding, Site

PROGRAM = """\
#include <stdio.h>
#pragma dvm array distribute[block]
double a[9], b[9];
int main(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 9; i++)
        a[i] = b[i] = i;
    double sum = 0;
    for (int i = 0; i < 9; i++)
        sum += a[i];
    sum += a[3];
    sum += b[1];
    sum += a[4]; /* weft: ignore remote-access: one processor is enough here */
    printf("%g\\n", sum);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grouped")
    (path / "p.cdv").write_text(PROGRAM)
    return path


def weft(folder: Path, *words: str) -> str:
    return execute([*WEFT, "check", *words, "p.cdv"], timeout=60, cwd=folder).stdout


def report(folder: Path, *words: str) -> dict[str, Any]:
    weft(folder, "--format", "json", "-o", "report.json", *words)
    held: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return held


def test_reads_of_one_array_outside_of_loops_are_one_finding_with_its_places(folder: Path) -> None:
    found = {one["evidence"]["variable"]: one for one in report(folder)["findings"]}
    assert set(found) == {"a", "b"}
    assert [(one["line"], one["count"]) for one in found["a"]["evidence"]["places"]] == [(11, 9), (12, 1)]
    assert found["a"]["message"].endswith("add remote_access (10 times at 2 places)")
    assert [site["line"] for site in found["a"]["sites"]] == [11, 12]
    assert "places" not in found["b"]["evidence"]


def test_a_place_that_is_suppressed_does_not_suppress_the_others(folder: Path) -> None:
    out = weft(folder)
    assert "p.cdv:14" not in out.partition("suppressed:")[0]
    (note,) = (line for line in out.splitlines() if line.startswith("suppressed: remote-access at "))
    assert note.endswith("p.cdv:14: one processor is enough here")
    assert "p.cdv:11" in out and "p.cdv:12" in out


@pytest.mark.matrix
def test_a_report_of_findings_of_one_cause_is_a_baseline_of_all_its_places(folder: Path) -> None:
    report(folder)
    out = weft(folder, "--baseline", "report.json")
    assert "3 findings known from report.json" in out
    (folder / "p.cdv").write_text(PROGRAM.replace("sum += b[1];", "sum += b[1] + a[2];"))
    try:
        assert "p.cdv:13" in weft(folder, "--baseline", "report.json")
    finally:
        (folder / "p.cdv").write_text(PROGRAM)


def finding(variable: str = "a", kind: str = "stale-halo-read", line: int = 7, **held: object) -> Finding:
    loop = Loop(kind="do", file="p.cdv", line=5)
    evidence = changed(CheckCase(case="never", count=2, variable=variable, loop=loop), **held)
    return Finding(kind, "error", "certain", "It reads (2 times)", sites=(Site(0, "read", "p.cdv", line),),
                   evidence=evidence)  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        finding("b", line=8),
        finding(kind="remote-access", line=8),
        finding(line=8, case="changed"),
        finding(line=8, loop=Loop(kind="do", file="p.cdv", line=6)),
        finding(line=8, declared=Line(file="q.cdv", line=1)),
    ],
)
def test_another_variable_kind_case_or_loop_is_another_cause(other: Finding) -> None:
    assert group_by_cause([finding(), other]) == (finding(), other)
    assert len(group_by_cause([finding(), finding(line=8)])) == 1


def test_each_index_outside_of_an_array_is_told_by_itself() -> None:
    outside = [finding(kind="out-of-bounds", line=line) for line in (7, 8)]
    assert group_by_cause(outside) == tuple(outside)
