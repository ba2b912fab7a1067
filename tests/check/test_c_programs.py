"""C-DVMH programs with one error each are told at their line, loop, iteration and element; their twins are silent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from check.c_programs import PROGRAMS, fault, faults, shown, variant
from tests_support import clang
from weft.check import CheckRequest, check_program

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.cdv"))


def run(name: str, right: bool, folder: Path) -> tuple[Path, list]:  # type: ignore[type-arg]
    path = folder / f"{name}.cdv"
    path.write_text(variant((PROGRAMS / f"{name}.cdv").read_text(), right))
    built = folder / "built"
    built.mkdir()
    return path, list(check_program(CheckRequest((path,), timeout=30), built).findings)


@pytest.mark.cases(9)
@pytest.mark.parametrize("name", NAMES)
def test_each_error_is_told_at_its_line_loop_iteration_and_element(name: str, tmp_path: Path) -> None:
    path, findings = run(name, False, tmp_path)
    expected = faults(name)
    assert len(expected) >= 6
    told = [fault(finding) for finding in findings]
    assert sorted(told, key=lambda f: f.line) == expected, shown(told)
    assert {finding.sites[0].file for finding in findings} == {str(path)}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", NAMES)
def test_corrected_twins_are_silent(name: str, tmp_path: Path) -> None:
    _, findings = run(name, True, tmp_path)
    assert not findings, "\n".join(finding.message for finding in findings)


def test_a_program_may_use_the_names_that_the_runtime_uses_inside(tmp_path: Path) -> None:
    path = tmp_path / "names.cdv"
    names = ("fill", "scan", "mark", "found", "touch", "tick", "judge", "usage_error")
    functions = "".join(f"int {name}(int x) {{ return x + 1; }}\n" for name in names)
    path.write_text(
        f"#pragma dvm array distribute[block]\nint a[9];\n{functions}int main(void)\n{{\n"
        "    #pragma dvm parallel([i] on a[i])\n    for (int i = 0; i < 9; i++)\n        a[i] = "
        + "(".join(names) + "(i" + ")" * len(names) + ";\n}\n"
    )  # fmt: skip
    built = tmp_path / "built"
    built.mkdir()
    assert not check_program(CheckRequest((path,), timeout=30), built).findings


LOCALS = """\
#include <string.h>
struct pair { double x, y; };
static double use(struct pair p) { return p.x; }
int main(void)
{
    #pragma dvm array distribute[block]
    double a[9];
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 9; i++) {
        double t;
        struct pair p, q;
        double *x = &p.x;
        if (i > 0)
            t = i;
        *x = 1;
        q = p;
        a[i] = t + use(q);
    }
}
"""


@pytest.mark.parametrize("right", [False, True])
def test_a_local_of_an_iteration_is_judged_where_nothing_else_is_known_of_the_stack(
    right: bool, tmp_path: Path
) -> None:
    path = tmp_path / "locals.cdv"
    path.write_text(LOCALS.replace("i > 0", "i >= 0") if right else LOCALS)
    built = tmp_path / "built"
    built.mkdir()
    found = check_program(CheckRequest((path,), timeout=30), built).findings
    told = [(one.kind, one.sites[0].line, one.facts()["iteration"], one.facts()["count"]) for one in found]
    assert told == ([] if right else [("uninitialised-read", 17, [0], 1)])


CLANG = clang() if shutil.which(clang()) else ""


@pytest.mark.cases(1)
@pytest.mark.skipif(not CLANG, reason="clang is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_clang_tells_the_same_errors_and_is_silent_about_the_twins(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", CLANG)
    for right in (True, False):
        folder = tmp_path / str(right)
        folder.mkdir()
        _, findings = run(name, right, folder)
        told = {(f.kind, f.line, f.loop, f.iteration) for f in map(fault, findings)}  # it names fewer variables
        assert told == (set() if right else {(f.kind, f.line, f.loop, f.iteration) for f in faults(name)})
