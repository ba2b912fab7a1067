"""Stacks: arrays of a procedure lie there, it may have no limit, and it may be full."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from tests_support import WEFT, execute

LARGE = """\
#include <stdio.h>
#define N 2000000
int main(void)
{
    #pragma dvm array distribute[block]
    double a[N];
    #pragma dvm array align([i] with a[i])
    double b[N];
    double sum = 0;
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++)
        a[i] = 1;
    #pragma dvm parallel([i] on b[i]) reduction(sum(sum))
    for (int i = 1; i < N; i++)
        b[i] = a[i AT], sum += b[i];
    printf("%.0f\\n", sum);
    return 0;
}
"""
OPENMP = """\
int main(void)
{
    double a[9];
    #pragma omp parallel for
    for (int i = 1; i < 9; i++)
        a[i] = i;
    return a[8] != 8;
}
"""
NUMBA = """\
import numpy as np
from numba import njit, prange

@njit(parallel=True)
def fill(a):
    for i in prange(a.size):
        a[i] = i

fill(np.zeros(9))
"""
DEEP = """\
#include <stdlib.h>
#pragma dvm array distribute[block]
double a[9];
static int sum(int n) { volatile char room[100000]; room[0] = n; return END sum(n + 1) + room[0]; }
int main(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 9; i++)
        a[i] = i;
    return sum(0) & 0;
}
"""


def weft(limits: str, *words: str | Path, cwd: Path) -> tuple[int, str]:
    """A check by a shell that sets limits before."""
    done = execute(["bash", "-c", f'{limits} && exec "$@"', "bash", *WEFT, "check", *words], timeout=100, cwd=cwd)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.cases(1)
@pytest.mark.parametrize(("at", "status", "said"), [("", 0, "Nothing found"), ("- 1", 1, "[stale-halo-read]")])
def test_arrays_of_a_procedure_may_be_larger_than_the_stack(at: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "p.cdv").write_text(LARGE.replace("AT", at))
    got, out = weft("ulimit -Ss 8192", "p.cdv", cwd=tmp_path)
    assert got == status and said in out and "1999999\n" in out, out


unlimited = pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY, reason="the stack must have a limit here"
)


@pytest.mark.cases(1)
@unlimited
@pytest.mark.parametrize(
    ("name", "text"), [("p.cdv", LARGE.replace("AT", "")), ("p.c", OPENMP), ("p.py", NUMBA)], ids=["dvm", "omp", "py"]
)
def test_a_stack_without_a_limit_leaves_room_for_what_the_check_needs(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    status, out = weft("ulimit -s unlimited", name, cwd=tmp_path)
    assert status == 0 and f"Nothing found in {name} (finished)" in out, out


@pytest.mark.parametrize(("end", "full"), [("", True), ("n > 9 ? *(volatile int *)0 :", False)], ids=["full", "null"])
def test_a_stack_that_was_full_is_told_and_another_crash_is_not_one(end: str, full: bool, tmp_path: Path) -> None:
    (tmp_path / "p.cdv").write_text(DEEP.replace("END", end))
    status, out = weft("ulimit -Hs 16384", "p.cdv", cwd=tmp_path)
    assert status == 3 and "the program ended by SIGSEGV" in out, out
    assert ("its stack of 16,384 KiB was full" in out) == full, out
    assert "1 parallel loop (1 run, 9 iterations)" in out, out


def test_a_memory_that_is_too_small_is_said_of_every_language(tmp_path: Path) -> None:
    for name, text in (("p.cdv", LARGE), ("p.c", OPENMP)):
        (tmp_path / name).write_text(text.replace("AT", ""))
        status, out = weft("ulimit -v 20000000", name, cwd=tmp_path)
        assert status == 4 and "Weft found no room for its copy of the program's memory" in out, out


@pytest.mark.matrix
@unlimited
def test_a_suite_of_tests_is_told_that_its_stack_has_no_limit(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(NUMBA.replace("fill(np.zeros(9))", "def test_it():\n    fill(np.zeros(9))"))
    pytest_ = [sys.executable, "-m", "pytest", "--weft-check", "-q", "-p", "no:cacheprovider"]
    for limit, status, said in (("unlimited", 4, "limit the stack"), ("8192", 0, "0 findings in 1 function")):
        done = execute(["bash", "-c", f'ulimit -Ss {limit} && exec "$@"', "bash", *pytest_], timeout=100, cwd=tmp_path)
        assert done.returncode == status and said in done.stdout + done.stderr, done.stdout + done.stderr
