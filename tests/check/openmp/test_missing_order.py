"""Races that miss one barrier or one wait are one finding, at its construct; independent races stay apart."""

from __future__ import annotations

import json
from pathlib import Path

from weft.check import CheckRequest, check_program, excerpt
from weft.findings import Finding
from weft.report.selection import SelectionOptions, read_baseline, select_findings

C = """
#define N 64
struct totals { double sum, top; };
static double x[N], v[N], f[N], part[2], a[N], b[N], c[N];
static int first, last, count, wide;
static double scale, shift;
static struct totals low, high;
static void add(struct totals *t, int from, int to) {
    for (int i = from; i < to; i++) { t->sum += a[i]; t->top = a[i] > t->top ? a[i] : t->top; }
}
static double move(void) {
#pragma omp parallel
    {
#pragma omp for NOWAIT
        for (int i = 0; i < N; i++) { x[i] += v[i]; v[i] += f[i]; }
#pragma omp for
        for (int i = 0; i < N; i++) { f[i] = x[(i + 7) % N] - v[(i + 9) % N]; }
    }
    return f[3];
}
static double begin(void) {
#pragma omp parallel
    {
#pragma omp single NOWAIT
        { first = 3; last = 9; }
#pragma omp for
        for (int i = 0; i < N; i++) b[i] = i < first || i > last;
    }
    return b[4];
}
static double set(void) {
#pragma omp parallel
    {
#pragma omp masked
        { scale = 2; shift = 3; }
        BARRIER
        double own = scale * 2;
#pragma omp for
        for (int i = 0; i < N; i++) c[i] = own * i + shift;
    }
    return c[5];
}
static double sums(void) {
    double all = 0, most = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task
        add(&low, 0, N / 2);
#pragma omp task
        add(&high, N / 2, N);
        WAIT
        all = low.sum + high.sum;
        most = low.top > high.top ? low.top : high.top;
    }
    return all + most;
}
static double stages(void) {
#pragma omp parallel
#pragma omp single
    {
#pragma omp task DEPEND_OUT
        { for (int i = 0; i < N; i++) part[i % 2] += i; count = N; wide = 2; }
#pragma omp task DEPEND_IN
        { for (int i = 0; i < count; i++) a[i] = part[i % wide]; }
    }
    return a[6];
}
int main(void) { return move() + begin() + set() + sums() + stages() < -1e9; }
"""
WRONG = {"NOWAIT": "nowait", "BARRIER": "", "WAIT": "", "DEPEND_OUT": "depend(out: part)", "DEPEND_IN": ""}
RIGHT = {
    "NOWAIT": "", "BARRIER": "\n#pragma omp barrier\n", "WAIT": "\n#pragma omp taskwait\n",
    "DEPEND_OUT": "depend(out: part)", "DEPEND_IN": "depend(in: part)",
}  # fmt: skip
CAUSES = {
    "#pragma omp for nowait": {"x", "v", "f"},
    "#pragma omp single nowait": {"first", "last"},
    "#pragma omp masked": {"scale", "shift"},
    "#pragma omp task": {"low", "high"},
    "#pragma omp task depend(out: part)": {"part", "count", "wide"},
}
APART = """
#define N 64
static double a[N], b[N], c[N], e[N], low, high, sum;
static int done;
int main(void) {
#pragma omp parallel
    {
#pragma omp for nowait
        for (int i = 0; i < N; i++) a[i] = i;
#pragma omp for nowait
        for (int i = 0; i < N; i++) b[i] = a[N - 1 - i];
#pragma omp for
        for (int i = 0; i < N; i++) { c[i] = b[(i + 5) % N]; sum += i; }
    }
#pragma omp parallel
#pragma omp single
    {
#pragma omp task
        low = c[1];
        e[0] = low;
#pragma omp task
        high = c[2];
        e[1] = high;
#pragma omp taskwait
#pragma omp task
        { a[3] = 1; done += 1; }
#pragma omp task
        { a[3] += 2; done += 1; }
    }
    return sum + e[0] + done < -1e9;
}
"""
FORTRAN = """program steps
  implicit none
  real :: x(64), v(64), f(64)
  integer :: i
  f = 1
!$omp parallel
!$omp do
  do i = 1, 64
    x(i) = i
    v(i) = 2 * i
  end do
!$omp end do NOWAIT
!$omp do
  do i = 1, 64
    f(i) = x(65 - i) + v(1 + mod(i + 8, 64))
  end do
!$omp end do
!$omp end parallel
  print *, sum(f)
end program
"""


def find_races(folder: Path, name: str, text: str, words: dict[str, str]) -> tuple[Finding, ...]:
    """Return the findings in a program with words replaced."""
    for word, other in words.items():
        text = text.replace(word, other)
    source = folder / name
    source.write_text(text)
    return check_program(CheckRequest((source,), timeout=60), folder).findings


def variables(finding: Finding) -> set[str]:
    """Return the variables of a finding's pairs, or the one of a finding that has one."""
    facts = finding.facts()
    return {facts["variable"]} if facts["variable"] else {pair["variable"] for pair in facts["pairs"]}


def test_races_that_miss_one_order_are_one_finding_at_its_construct(tmp_path: Path) -> None:
    found = find_races(tmp_path, "prog.c", C, WRONG)
    lines = (tmp_path / "prog.c").read_text().splitlines()
    assert {lines[one.sites[0].line - 1].strip(): variables(one) for one in found} == CAUSES
    for one in found:
        assert one.sites[0].call == "directive"
        assert one.facts()["count"] == sum(pair["count"] for pair in one.facts()["pairs"])
    waits = {one.message.rpartition("; ")[2] for one in found if "taskwait" in one.message}
    assert any(f"in front of line {1 + lines.index('        all = low.sum + high.sum;')}" in text for text in waits)


def test_where_that_order_is_there_nothing_is_found(tmp_path: Path) -> None:
    assert find_races(tmp_path, "prog.c", C, RIGHT) == ()


def test_races_of_other_constructs_and_those_that_a_clause_mends_stay_findings_of_their_own(tmp_path: Path) -> None:
    found = find_races(tmp_path, "prog.c", APART, {})
    names = sorted(sorted(variables(one)) for one in found)
    assert names == [["a"], ["a"], ["b"], ["done"], ["high"], ["low"], ["sum"]]


def test_fortran_has_the_clause_at_the_end_of_its_loop(tmp_path: Path) -> None:
    (found,) = find_races(tmp_path, "prog.f90", FORTRAN, {"NOWAIT": "nowait"})
    assert variables(found) == {"x", "v"}
    assert found.sites[0].line == 7
    assert find_races(tmp_path, "prog.f90", FORTRAN, {"NOWAIT": ""}) == ()


def test_each_access_of_such_a_finding_is_marked_with_its_variable_and_a_baseline_knows_it(tmp_path: Path) -> None:
    (found,) = find_races(tmp_path, "prog.f90", FORTRAN, {"NOWAIT": "nowait"})
    marked = {excerpt.render_excerpt(found, site) for site in found.sites if site.call == "write"}
    assert {text[0][text[1].index("^") : text[1].rindex("^") + 1] for text in marked} == {"x(i)", "v(i)"}
    report = tmp_path / "old.json"
    report.write_text(json.dumps({"findings": [found.to_json()]}))
    assert select_findings([found], SelectionOptions(baseline=read_baseline(report))).findings == ()
