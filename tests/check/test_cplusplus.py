"""C-DVMH programs in C++: faults are told where they are, the corrected twin is silent and prints what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from check import c_programs
from tests_support import WEFT, execute
from weft.check import CheckRequest, check_program
from weft.findings import Finding

PROGRAMS = Path(__file__).parent / "dvm" / "cplusplus"


def run(right: bool, folder: Path) -> tuple[Finding, ...]:
    path = folder / "heat.cpp"
    path.write_text(c_programs.variant((PROGRAMS / "heat.cpp").read_text(), right))
    built = folder / "built"
    built.mkdir()
    one = check_program(CheckRequest((path,), timeout=60), built)
    assert one.whole and one.looked.to_json()["loops"] == 6
    return one.findings


def test_faults_in_cplusplus_are_told_at_their_line_loop_iteration_and_element(tmp_path: Path) -> None:
    text = (PROGRAMS / "heat.cpp").read_text()
    (tmp_path / "heat.cdv").write_text(text)
    expected = set(c_programs.faults("heat", tmp_path))
    found = {c_programs.fault(one) for one in run(False, tmp_path)}
    assert len(expected) == 3
    assert expected <= found, c_programs.shown(sorted(found, key=lambda one: one.line))
    assert {one.line for one in found} == {one.line for one in expected}


def test_the_corrected_twin_in_cplusplus_is_silent(tmp_path: Path) -> None:
    assert run(True, tmp_path) == ()


@pytest.mark.matrix
def test_a_program_in_cplusplus_prints_what_it_prints(tmp_path: Path) -> None:
    path = tmp_path / "heat.cpp"
    path.write_text(c_programs.variant((PROGRAMS / "heat.cpp").read_text(), True))
    plain = tmp_path / "plain"
    assert execute(["g++", "-O1", "-w", str(path), "-o", str(plain)], timeout=100).returncode == 0
    checked = execute([*WEFT, "check", "-o", str(tmp_path / "report"), str(path)], timeout=100)
    assert checked.returncode == 0
    assert checked.stdout == execute([str(plain)], timeout=30).stdout


NAMESPACES = """\
namespace outer {
namespace in {
#pragma dvm array align([i] with a[i])
double b[9];
#pragma dvm array distribute[block]
double a[9];
struct Grid {
    int n;
    void fill()
    {
        #pragma dvm parallel([i] on a[i])
        for (int i = 0; i < n; ++i) { a[i] = i; b[i] = 2; }
    }
    template <typename F> void each(F f)
    {
        #pragma dvm parallel([i] on a[i]) RENEW
        for (int i = 1; i < n; ++i) a[i] = f(b[i - 1]);
    }
};
}
}
int main()
{
    outer::in::Grid g{9};
    g.fill();
    g.each([](double x) { return x + 1; });
    return 0;
}
"""


@pytest.mark.matrix
def test_arrays_of_namespaces_are_aligned_and_loops_of_templates_checked(tmp_path: Path) -> None:
    (path := tmp_path / "grid.cpp").write_text(NAMESPACES.replace("RENEW", ""))
    found = check_program(CheckRequest((path,), timeout=60), tmp_path).findings
    assert [(one.kind, one.sites[0].line) for one in found] == [("stale-halo-read", 17)]
    path.write_text(NAMESPACES.replace("RENEW", "shadow_renew(b)"))
    assert check_program(CheckRequest((path,), timeout=60), tmp_path).findings == ()
