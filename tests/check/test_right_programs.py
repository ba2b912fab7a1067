"""Right Fortran-DVM programs that were refused, alarmed or computed wrongly, each beside its faulty twin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

INDICES = """\
program p
  integer, parameter :: n = 8
  real a(n,n), b(n)
  integer i, j, k
!DVM$ distribute a(block,block)
!DVM$ align b(i) with a(i,*)
!DVM$ parallel (i,j) on a(i,j)
  do i = 1, n
    do j = 1, n
      a(i,j) = i + j
    end do
  end do
!DVM$ parallel (i) on b(i), private(j,k)
  do i = 1, n
    k = 0
    b(i) = k
    do j = 1, 3
      b(i) = b(i) + j
    end do
  end do
!DVM$ parallel (i) on b(i)
  do i = 1, n
    do j = 1, 3
      b(i) = b(i) + j
    end do
  end do
  do j = 1, 2
    b(j) = WORD
  end do
  print *, j
end program
"""
CONSISTENT = """\
      program cons
      parameter (n=8)
      real a(n), c(n), s
!DVM$ distribute a(block)
!DVM$ consistent c
!DVM$ parallel (i) on a(i), consistent(c(i))
      do i = 1, n
        c(ELEMENT) = i
        a(i) = 2
      end do
      s = 0
      do i = 1, n
        s = s + c(i)
      end do
      print *, 'sum', int(s)
      end
"""
GROUP = """\
      program cons
      parameter (n=8)
      real a(n), c(n), s
!DVM$ distribute a(block)
!DVM$ consistent c
!DVM$ consistent_group cg
!DVM$ parallel (i) on a(i), consistent(cg:c(i))
      do i = 1, n
        c(i) = i
      end do
!DVM$ consistent_start cg
!DVM$ WAIT
      s = 0
      do i = 1, n
        s = s + c(i)
      end do
      print *, 'sum', int(s)
      end
"""

RENAMED = """\
module grid
  integer, parameter :: n = 8
  real :: field(n), other(n)
!DVM$ distribute field(block)
!DVM$ align other(i) with field(i)
end module
module more
  use grid, only: n
  real, allocatable :: h(:)
!DVM$ distribute h(block)
end module
program p
  use grid, f => field
  use more, only: hh => h
  double precision t, dvmh_wtime
  external dvmh_wtime
  integer i
  t = dvmh_wtime()
  allocate (hh(n))
!DVM$ parallel (i) on f(i)
  do i = 1, n
    f(i) = i
    other(i) = 2
  end do
!DVM$ parallel (i) on hh(i)
  do i = 1, n
    hh(i) = i
  end do
!DVM$ parallel (i) on other(i) WORD
  do i = 2, n
    other(i) = f(i-1)
  end do
  if (dvmh_wtime() < t) print *, 'no'
end program
"""
TEMPLATE = """\
program p
  integer, parameter :: n = 8
  real a(n), b(n,3)
  integer i
!DVM$ template t(n)
!DVM$ distribute :: t
!DVM$ align a(i) with t(i)
!DVM$ align b(i,*) with t(i)
!DVM$ redistribute t(block)
!DVM$ parallel (i) on a(i)
  do i = 1, n
    a(i) = i
    b(i,1) = 2
  end do
!DVM$ parallel (i) on b(i,2) WORD
  do i = 2, n
    b(i,2) = a(i-1)
  end do
end program
"""
REPLICATED = """\
program p
  integer, parameter :: n = 8
  real a(n), b(n), r(n), x, s
  integer i
!DVM$ distribute a(block)
!DVM$ align b(i) with a(i)
!DVM$ parallel (i) on a(i)
  do i = 1, n
    a(i) = i
    r(i) = 2 * i
  end do
!DVM$ parallel (i) on b(i)
  do i = 1, n
    b(i) = a(i) + r(WORD)
  end do
  print *, 'ok'
end program
"""
POINTERS = """\
module m
  type cell
    real, allocatable :: v(:)
    real, pointer :: q(:)
  end type
end module
program p
  use m
  integer, parameter :: n = 8
  real, pointer :: a(:), z(:)
  real, target :: w(n)
  real, allocatable :: b(:)
  type(cell) c
  integer i
!DVM$ distribute a(block)
!DVM$ align b(i) with a(i)
  allocate (a(n))
  allocate (b(n), c%v(n))
  z => w
  c%q => w
!DVM$ parallel (i) on a(i)
  do i = 1, n
    a(i) = i
    b(i) = 2
  end do
  c%v = 3
  z(1) = 2
!DVM$ parallel (i) on b(i) WORD
  do i = 2, n
    b(i) = a(i-1) + c%v(i)
  end do
  nullify (z)
  deallocate (a, b)
  print *, 'ok', w(1)
end program
"""
PRINTED = """\
program p
  integer, parameter :: n = 8
  real a(n), t
  character(20) text
  integer i
!DVM$ distribute a(block)
!DVM$ parallel (i) on a(i), private(t)
  do i = 1, n
    t = i
    a(i) = t
  end do
  WORD
  write (text, '(f4.1)') t
  if (n > 3) print *, 'text', t, text
end program
"""
TASKS = """\
program p
  parameter (n=8, nb=2)
  real a(n,nb), s
!DVM$ task mb(nb)
!DVM$ distribute a(block,*)
!DVM$ parallel (i) on a(i,*), private(j)
  do i = 1, n
    do j = 1, nb
      a(i,j) = i * j
    end do
  end do
  s = 3
!DVM$ processors q(2)
!DVM$ map mb(1) onto q(1:1)
!DVM$ map mb(2) onto q(2:2)
!DVM$ task_region mb, reduction(sum(s))
!DVM$ parallel (j) on mb(j)
  do j = 1, nb
    s = WORD + j
  end do
!DVM$ end task_region
  print *, s
end program
"""


@dataclass(frozen=True)
class Case:
    """A program with one word left open: right with the first text, faulty with the second."""

    text: str
    word: str
    right: str
    wrong: str
    found: list[tuple[str, int]]
    said: str = ""


CASES = {
    "loop-indices": Case(INDICES, "WORD", "j", "k", [("uninitialised-read", 28)], "3"),
    "consistent": Case(CONSISTENT, "ELEMENT", "i", "n+1-i", [("shared-write", 8)], "sum          36"),
    "consistent-group": Case(GROUP, "WAIT", "consistent_wait cg", "barrier", [("uninitialised-read", 15)], "sum   "),
    "task-index": Case(TASKS, "WORD", "s", "1", [("wrong-reduction", 16)], "6.0"),
    "renamed": Case(RENAMED, "WORD", ", shadow_renew(f)", "", [("stale-halo-read", 31)]),
    "template": Case(TEMPLATE, "WORD", ", shadow_renew(a)", "", [("stale-halo-read", 17)]),
    "replicated": Case(REPLICATED, "WORD", "i", "n+1-i", [("uninitialised-read", 14)]),
    "pointers": Case(POINTERS, "WORD", ", shadow_renew(a)", "", [("stale-halo-read", 30)], "ok   2.0"),
    "printed": Case(
        PRINTED, "WORD", "t = 7", "i = 7", [("uninitialised-read", 13), ("uninitialised-read", 14)], "text   7.0"
    ),
}


def run(case: Case, word: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[list[tuple[str, int]], str]:
    free = not case.text.startswith(" ")
    path = folder / ("p.f90" if free else "p.fdv")
    path.write_text(re.sub(case.word, word, case.text))
    built = folder / "built"
    built.mkdir()
    checked = check_program(CheckRequest((path,), timeout=30), built)
    assert checked.whole and not checked.looked.is_empty
    return [(one.kind, one.sites[0].line) for one in checked.findings], capfd.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize("name", CASES)
def test_a_right_program_stays_right(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found, said = run(CASES[name], CASES[name].right, tmp_path, capfd)
    assert found == []
    assert CASES[name].said in said


@pytest.mark.matrix
@pytest.mark.parametrize("name", CASES)
def test_its_faulty_twin_is_told(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(CASES[name], CASES[name].wrong, tmp_path, capfd)[0] == CASES[name].found
