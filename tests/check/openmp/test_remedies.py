"""A race's message names the variable that is shared, and a remedy that would help; corrected programs are silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

C = """
#include <omp.h>
#define N 64
typedef struct { int n; double v[N]; } part;
static part all;
static double a[N], b[N], last_seen;
static int events;
static void fill(part *p) { p->n = N; }
static double sum(const double *x) { double s = 0; for (int i = 0; i < N; i++) s += x[i]; return s; }
static void count_one(void) {
#pragma omp critical(ONE)
    events++;
}
static void count_other(void) {
#pragma omp critical(OTHER)
    events++;
}
static void note(int i) { last_seen = 0.5 * i; a[i] = last_seen; }
int main(void) {
    double highest = 0, sums = 0;
    int found = -1, k;
#pragma omp parallel
    {
#pragma omp for NOWAIT
        for (int i = 0; i < N; i++) a[i] = b[(i + 1) % N];
#pragma omp for
        for (int i = 0; i < N; i++) b[i] = 2 * a[i] + a[i];
#pragma omp masked
        fill(&all);
        BARRIER
#pragma omp for
        for (int i = 0; i < all.n; i++) all.v[i] = i;
    }
#pragma omp parallel for HIGHEST
    for (int i = 0; i < N; i++)
        if (b[i] + i > highest) highest = b[i] + i;
#pragma omp parallel for LAST
    for (int i = 0; i < N; i++)
        if (i % 9 == 4) found = i;
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        if (i % 2) count_one(); else count_other();
#pragma omp parallel for
    for (int i = 0; i < N; i++) NOTE;
#pragma omp parallel
#pragma omp single
    {
        for (k = 0; k < 9; k++) {
#pragma omp task COPIED
            a[k] = k;
        }
#pragma omp taskwait
#pragma omp task depend(out : b)
        for (int i = 0; i < N; i++) b[i] = a[i] * b[i];
        WAIT
        sums = sum(b);
    }
    return highest + found + sums < events - N;
}
"""
WRONG = {
    "NOWAIT": "nowait", "BARRIER": "", "HIGHEST": "", "LAST": "", "OTHER": "scattered", "ONE": "absorbed",
    "NOTE": "note(i)", "COPIED": "", "WAIT": "",
}  # fmt: skip
RIGHT = {
    "NOWAIT": "", "BARRIER": "\n#pragma omp barrier\n", "HIGHEST": "reduction(max : highest)",
    "LAST": "lastprivate(conditional : found)", "OTHER": "counted", "ONE": "counted", "NOTE": "a[i] = i",
    "COPIED": "firstprivate(k)", "WAIT": "\n#pragma omp taskwait\n",
}  # fmt: skip
REMEDIES = {
    "": "has nowait: without it, its barrier orders them",
    "all": "has no barrier at its end: put one after it",
    "highest": "; name it in reduction(max: highest)",
    "found": "; they only write `found`: name it in lastprivate(conditional: found), or write it atomically",
    "events": "; each of them holds a lock or is in a critical section, but not in the same one: use one for both",
    "last_seen": "; if each needs a value of its own, make it threadprivate",
    "k": "; if the task needs the value that `k` had when it was made, name it in the task's firstprivate",
    "b": "",
}

CPP = """
#include <vector>
#include <functional>
struct Column { std::vector<double> v; };
int main() {
    std::vector<BIT> even(100);
    int calls = 0;
    auto half = [&](int i) {
        ATOMIC
        calls++;
        return i / 2;
    };
    std::vector<Column> columns(4);
#pragma omp parallel for
    for (int i = 0; i < 100; i++) even[i] = i % 2 == 0;
#pragma omp parallel for
    for (int i = 0; i < 100; i++) half(i);
    return calls < 0 || columns.size() > 4;
}
"""
NESTED = """
#include <vector>
static void add(const std::vector<int>& part, std::vector<int>& sums) {
#pragma omp parallel for num_threads(2)
    for (int d = 0; d < 4; d++) {
        int sum = 0;
#pragma omp parallel num_threads(2)
        {
#pragma omp for reduction(+ : sum)
            for (int i = 0; i < 30; i++) sum += part[i];
        }
        sums[d] = sum;
    }
}
int main() {
    std::vector<int> part(30, 1), sums(4);
    add(part, sums);
    return sums[3] != 30;
}
"""
FORTRAN = """
module eos
  implicit none
contains
  real function state(e)
    real, intent(in) :: e
    real :: tmp
    common /scratch/ tmp
    !private
    tmp = 0.4 * e
    state = tmp + e
  end function
end module
program hydro
  use eos
  implicit none
  real :: p(100), fastest
  integer :: i
  fastest = 0
  !$omp parallel do
  do i = 1, 100
    p(i) = state(real(i))
  end do
  !$omp parallel
  !$omp do !reduction
  do i = 1, 100
    if (p(i) > fastest) fastest = p(i)
  end do
  !$omp end do
  !$omp end parallel
  print *, fastest
end program
"""


def check_text(folder: Path, name: str, text: str, words: dict[str, str]) -> list[tuple[object, str, str]]:
    """Check a program with words replaced; return the variable, the message and the first function of each finding."""
    for word, other in words.items():
        text = text.replace(word, other)
    source = folder / name
    source.write_text(text)
    found = check_program(CheckRequest((source,), timeout=60), folder).findings
    return [(one.facts()["variable"], one.message, one.sites[0].function) for one in found]


def test_each_race_in_c_has_the_remedy_of_its_kind(tmp_path: Path) -> None:
    found = check_text(tmp_path, "prog.c", C, WRONG)
    assert {name for name, _, _ in found} == set(REMEDIES)
    for name, message, _ in found:
        assert REMEDIES[str(name)] in message, message


def test_the_corrected_program_is_silent(tmp_path: Path) -> None:
    assert check_text(tmp_path, "prog.c", C, RIGHT) == []


def test_bits_and_what_a_lambda_refers_to_are_named_with_remedies_that_help(tmp_path: Path) -> None:
    found = {name: text for name, text, _ in check_text(tmp_path, "prog.cpp", CPP, {"BIT": "bool", "ATOMIC": ""})}
    assert set(found) == {"even", "calls"}
    assert "make `even` a `vector<char>`" in str(found["even"])
    assert "; if all add to `calls`, update it atomically" in str(found["calls"])
    right = {"BIT": "char", "ATOMIC": "\n#pragma omp atomic\n"}
    assert check_text(tmp_path, "prog.cpp", CPP, right) == []


def test_an_address_that_the_compiler_writes_back_behind_an_inner_region_is_not_the_programs(tmp_path: Path) -> None:
    assert check_text(tmp_path, "prog.cpp", NESTED, {}) == []


def test_fortrans_functions_and_common_blocks_are_named_as_the_source_names_them(tmp_path: Path) -> None:
    found = {name: (text, function) for name, text, function in check_text(tmp_path, "prog.f90", FORTRAN, {})}
    assert set(found) == {"scratch_", "fastest"}
    text, function = found["scratch_"]
    assert "the common block `/scratch/`" in text and "threadprivate(/scratch/)" in text
    assert function == "state"
    text, function = found["fastest"]
    assert "; name it in reduction(max: fastest)" in text
    assert function == "the main program"
    right = {"!private": "!$omp threadprivate(/scratch/)", "!reduction": "reduction(max: fastest)"}
    assert check_text(tmp_path, "prog.f90", FORTRAN, right) == []


@pytest.mark.parametrize("schedule", ["", "schedule(static)"])
def test_static_schedules_are_advised_only_where_no_other_iterations_race(tmp_path: Path, schedule: str) -> None:
    text = """static int a[64], b[64];
int main(void) {
#pragma omp parallel
    {
#pragma omp for nowait SCHEDULE
        for (int i = 0; i < 64; i++) a[i] = i;
#pragma omp for SCHEDULE
        for (int i = 0; i < 64; i++) b[i] = a[i];
    }
    return b[3] != 3;
}
"""
    found = check_text(tmp_path, "prog.c", text, {"SCHEDULE": schedule})
    assert {name for name, _, _ in found} == (set() if schedule else {"a"})
    assert all("with schedule(static) on both loops" in message for _, message, _ in found)
    crossing = text.replace("b[i] = a[i];", "b[i] = a[i] + a[63 - i];")
    found = check_text(tmp_path, "prog.c", crossing, {"SCHEDULE": schedule})
    assert {name for name, _, _ in found} == {"a"}
    assert all("schedule(static)" not in message and "has nowait" in message for _, message, _ in found)


ELEMENTS = """
#include <vector>
struct Matrix {
    std::vector<double> v;
    int n;
    double& operator()(int i, int j) { return v[i * n + j]; }
    double& at(int i) { return v[i]; }
};
int main() {
    Matrix m{std::vector<double>(64, 1.0), 8};
    double err = 0;
#pragma omp parallel for
    for (int i = FIRST; i < 8; i++) {
        double f = m(i, 0) / m(0, 0);
        for (int j = 0; j < 8; j++) m(i, j) -= 0.5 * f * m(0, j);
    }
#pragma omp parallel for
    for (int i = 0; i < 32; i++) m.at(i PLACE) += i;
#pragma omp parallel
    {
#pragma omp single NOWAIT
        err = 0;
#pragma omp for reduction(+ : err)
        for (int i = 0; i < 64; i++) err += m.v[i];
    }
    return err < 0;
}
"""


def test_elements_by_a_function_of_their_class_and_variables_of_clauses_are_named(tmp_path: Path) -> None:
    found = check_text(tmp_path, "prog.cpp", ELEMENTS, {"FIRST": "0", "PLACE": "% 4", "NOWAIT": "nowait"})
    assert [name for name, _, _ in sorted(found)] == ["err", "m", "m"]
    assert check_text(tmp_path, "prog.cpp", ELEMENTS, {"FIRST": "1", "PLACE": "", "NOWAIT": ""}) == []


def test_locks_in_both_orders_are_one_finding(tmp_path: Path) -> None:
    text = """#include <omp.h>
static omp_lock_t a, b;
int main(void) {
    omp_init_lock(&a), omp_init_lock(&b);
#pragma omp parallel for
    for (int i = 0; i < 40; i++) {
        omp_set_lock(i % 2 ? &a : &b);
        if (i % 2) omp_set_lock(&b);
        else omp_set_lock(&a);
        omp_unset_lock(&a), omp_unset_lock(&b);
    }
}
"""
    source = tmp_path / "prog.c"
    source.write_text(text)
    (one,) = check_program(CheckRequest((source,), timeout=60), tmp_path).findings
    assert one.kind == "potential-deadlock"
    assert {site.line for site in one.sites} == {8, 9}


@pytest.mark.parametrize("directive", ["!$omp parallel private(t)", "!$omp parallel &\n  !$omp& private(t)"])
def test_a_private_variable_of_fortran_is_watched_where_another_directive_follows_at_once(
    tmp_path: Path, directive: str
) -> None:
    text = f"""
program dot
  implicit none
  real(8) :: s, t
  integer :: i
  s = 0
  {directive}
  !first
  !$omp do
  do i = 1, 100
    t = t + i
  end do
  !$omp end do
  !$omp critical
  s = s + t
  !$omp end critical
  !$omp end parallel
  print *, s > 0
end program
"""
    ((name, message, _),) = check_text(tmp_path, "prog.f90", text, {})
    assert name == "t" and f"prog.f90:{11 + directive.count(chr(10))}" in message
    assert check_text(tmp_path, "prog.f90", text, {"!first": "t = 0"}) == []
