"""Rows of iterations that run without hooks: what is found is what the hooks find, and only what is proved runs so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from check import loops, straights
from weft.check import mark_sources
from weft.dataparallel import compilation
from weft.dataparallel.findings import read_findings
from weft.dataparallel.program import CompileOptions, build_program
from weft.dataparallel.runtime import runtime_sources
from weft.findings import Finding
from weft.instrument import assembly, rows

SOURCE = Path(__file__).parent / "rows.cdv"


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of other tests were made with rows, or without."""
    monkeypatch.setattr(compilation, "cached_object_path", lambda name: Path(os.devnull, name))


needs_gcc = pytest.mark.skipif(not assembly.POSSIBLE or not shutil.which("gcc"), reason="gcc on x86-64")


def checked(
    folder: Path, source: Path = SOURCE, watched: str = "weft_check_row_exit", grid: str = ""
) -> tuple[str, list[Finding]]:
    """What the program prints, and its findings."""
    folder.mkdir()
    marked, texts = mark_sources([source])
    program = build_program(marked, folder, CompileOptions(link=(f"-Wl,--wrap={watched}",)))
    found = folder / "findings.jsonl"
    environment = {"WEFT_INTERNAL_CHECK_FINDINGS": str(found)} | ({"WEFT_INTERNAL_CHECK_GRID": grid} if grid else {})
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip(), read_findings(found, texts)


@needs_gcc
def test_rows_without_hooks_find_what_the_hooks_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, found = checked(tmp_path / "rows")
    monkeypatch.setattr(rows, "find_copied_loops", lambda lines, sites: iter(()))
    none, expected = checked(tmp_path / "hooks")
    assert int(taken) > 400
    assert none == "0"
    assert found == expected
    kinds = {finding.kind for finding in found}
    assert kinds >= {"uninitialised-read", "stale-halo-read", "loop-dependence", "out-of-bounds"}


@pytest.mark.cases(1)
@needs_gcc
@pytest.mark.parametrize(("seed", "grid"), [(0, ""), (2, ""), (3, ""), (4, "2x2"), (5, ""), (7, "1x3")])
def test_random_loops_are_found_out_alike_with_rows_and_with_hooks(
    seed: int, grid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "loops.cdv"
    source.write_text(loops.program(seed))
    taken, found = checked(tmp_path / "rows", source, "weft_check_row", grid)
    monkeypatch.setattr(rows, "find_copied_loops", lambda lines, sites: iter(()))
    none, expected = checked(tmp_path / "hooks", source, "weft_check_row", grid)
    assert int(taken) > 0
    assert none == "0"
    assert found == expected


@needs_gcc
def test_code_without_a_loop_is_found_out_alike_with_a_copy_and_with_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.with_name("straight.cdv")
    taken, found = checked(tmp_path / "rows", source)
    monkeypatch.setattr(rows, "find_copied_loops", lambda lines, sites: iter(()))
    none, expected = checked(tmp_path / "hooks", source)
    assert int(taken) > 60
    assert none == "0"
    assert found == expected
    assert {one.kind: one.facts()["count"] for one in found} == {"remote-access": 40 * 16, "uninitialised-read": 20}


@pytest.mark.cases(1)
@needs_gcc
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_the_copy_of_code_without_a_loop_computes_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "straight.cdv"
    source.write_text(straights.program(seed))
    printed, found = checked(tmp_path / "rows", source)
    monkeypatch.setattr(rows, "find_copied_loops", lambda lines, sites: iter(()))
    expected, judged = checked(tmp_path / "hooks", source)
    assert int(printed.split()[0]) > 10
    assert printed.split()[1:] == expected.split()[1:]
    assert found == judged
    assert expected.split()[0] == "0"


@needs_gcc
@pytest.mark.needs("g++")
def test_a_variable_that_is_read_where_something_is_thrown_has_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.with_name("thrown.cpp")
    printed, found = checked(tmp_path / "rows", source)
    monkeypatch.setattr(rows, "find_copied_loops", lambda lines, sites: iter(()))
    expected, _ = checked(tmp_path / "hooks", source)
    assert int(printed.split()[0]) > 10
    assert printed.split()[1:] == expected.split()[1:]
    assert found == []


# What a branch asks, and how often a row begins at most, in 30 rows of 30 iterations.
BRANCHES = [
    ("j > 10", 60),
    ("i == 7", 30),
    ("j == at0 || j == at0 + 1", 90),
    ("u + j < 5u", 60),  # turns around at 2^32
    ("q + j < 5", 60),  # and at 2^64
    ("3 * j + l <= 50 - i", 60),
    ("b[i][j] > 0", 0),  # nobody knows
]


@needs_gcc
@pytest.mark.parametrize(("asked", "most"), BRANCHES)
def test_a_row_goes_on_while_a_branch_asks_what_is_known(asked: str, most: int, tmp_path: Path) -> None:
    source = tmp_path / "branch.cdv"
    start = loops.HEAD.index("volatile int taken;")
    source.write_text(
        f"#include <stdio.h>\n{loops.HEAD[start:]}"
        "#define N 32\n#pragma dvm array distribute[block][block]\ndouble a[N][N];\n"
        "#pragma dvm array align([i][j] with a[i][j])\ndouble b[N][N];\n"
        "int at0 = 12; unsigned u = 4294967280u; unsigned long q = 18446744073709551600ul; long l = -2;\n"
        "int main(void)\n{\nint i, j, before;\n"
        "#pragma dvm parallel([i][j] on a[i][j])\nfor (i = 0; i < N; i++)\nfor (j = 0; j < N; j++)\nb[i][j] = 1;\n"
        "before = taken;\n"
        "#pragma dvm parallel([i][j] on a[i][j])\nfor (i = 1; i < N - 1; i++)\nfor (j = 1; j < N - 1; j++)\n"
        f'if ({asked}) a[i][j] = b[i][j]; else b[i][j] = 2;\nprintf("%d\\n", taken - before);\nreturn 0;\n}}\n'
    )
    taken, found = checked(tmp_path / "rows", source, "weft_check_row")
    assert found == []
    assert (int(taken) > 20) == (most > 0)
    assert int(taken) <= most


# What a branch compares is written by the loop itself: mostly by few of its iterations.
WRITES = [
    ("if (j < edge) a[i][j] = 1; else b[i][j] = 2; if (j == 20) edge = 10 + i;", True),
    ("if (j == 20) *way = i; if (edge > 5) a[i][j] = 1;", False),
    ("if (j > 3 && j <= edge) { a[i][j] = 1; if (i + j == 40) edge = 12; }", True),
    ("edge = j + 1; if (j < edge) a[i][j] = 1; else b[i][j] = 2;", False),
    ("if (j < edge) a[i][j] = 1; else b[i][j] = 2;", True),
]


@pytest.mark.cases(1)
@needs_gcc
@pytest.mark.parametrize(("body", "rows_run"), WRITES)
def test_a_branch_on_what_the_loop_writes_goes_the_programs_own_way(
    body: str, rows_run: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "own.cdv"
    start = loops.HEAD.index("volatile int taken;")
    source.write_text(
        f"#include <stdio.h>\n{loops.HEAD[start:]}"
        "#define N 32\n#pragma dvm array distribute[block][block]\ndouble a[N][N];\n"
        "#pragma dvm array align([i][j] with a[i][j])\ndouble b[N][N];\n"
        "int edge = 15, *way = &edge;\n"
        "int main(void)\n{\nint i, j, ran; double sum = 0;\n"
        "#pragma dvm parallel([i][j] on a[i][j])\nfor (i = 0; i < N; i++)\nfor (j = 0; j < N; j++)\n"
        "a[i][j] = b[i][j] = 0;\n"
        "ran = taken;\n"
        "#pragma dvm parallel([i][j] on a[i][j])\nfor (i = 1; i < N - 1; i++)\nfor (j = 1; j < N - 1; j++) {\n"
        f"{body}\n}}\n"
        "ran = taken - ran;\n"
        "for (i = 0; i < N; i++)\nfor (j = 0; j < N; j++)\nsum += (i * N + j) * a[i][j] + b[i][j];\n"
        'printf("%d %g %d\\n", ran, sum, edge);\nreturn 0;\n}\n'
    )
    printed, found = checked(tmp_path / "rows", source, "weft_check_row")
    monkeypatch.setattr(rows, "find_copied_loops", lambda lines, sites: iter(()))
    expected, judged = checked(tmp_path / "hooks", source, "weft_check_row")
    assert printed.split()[1:] == expected.split()[1:]
    assert found == judged
    assert (int(printed.split()[0]) > 0) == rows_run
    assert expected.split()[0] == "0"


BODIES = [
    ("a[i][j] = b[i][j - 1] + b[i][j + 1];", 1),
    ("s += b[i][j]; at[j] = j;", 1),
    ("a[i][at[j]] = b[i][j];", 0),
    ("a[i][j * j] = b[i][j];", 0),
    ("a[i][j] = other(j);", 0),
    ("b[i][j] = 0; p = p->next; p->value = j;", 0),
    ("for (int k = 0; k < 9; k++) a[i][k] = b[i][j];", 1),  # the loop within
]


@needs_gcc
@pytest.mark.parametrize(("body", "copies"), BODIES)
def test_only_loops_with_addresses_that_rise_evenly_get_a_copy(body: str, copies: int, tmp_path: Path) -> None:
    source = tmp_path / "loop.c"
    source.write_text(
        '#include "check.h"\nextern double a[50][50], b[50][50], s; extern int at[50]; double other(int);\n'
        "struct list { struct list *next; int value; };\n"
        f"void f(int n, struct list *p) {{\nfor (int i = 1; i < n; i++)\nfor (int j = 1; j < n; j++) {{\n"
        f"weft_check_iteration2(i, j);\n{body}\n}}\n}}\n"
    )
    flags = ["-O1", "-fsanitize=thread", "-fno-omit-frame-pointer", f"-I{runtime_sources()}"]
    subprocess.run(["gcc", *flags, "-S", str(source), "-o", str(tmp_path / "loop.s")], check=True, timeout=60)
    text = (tmp_path / "loop.s").read_text()
    made = assembly.inline_hooks(text)
    assert len(re.findall(r"^\.Lweftr\d+_t:$", made, re.M)) == copies
    (tmp_path / "made.s").write_text(made)
    subprocess.run(["gcc", "-c", str(tmp_path / "made.s"), "-o", str(tmp_path / "made.o")], check=True, timeout=60)
