"""Right Fortran-DVM programs that were refused, alarmed or computed wrongly, each beside its faulty twin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft.arrays import Request, check

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
}


def run(case: Case, word: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[list[tuple[str, int]], str]:
    free = not case.text.startswith(" ")
    path = folder / ("p.f90" if free else "p.fdv")
    path.write_text(re.sub(case.word, word, case.text))
    built = folder / "built"
    built.mkdir()
    checked = check(Request((path,), timeout=30), built)
    assert checked.whole and not checked.looked.nothing
    return [(one.kind, one.sites[0].line) for one in checked.findings], capfd.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_a_right_program_stays_right(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found, said = run(CASES[name], CASES[name].right, tmp_path, capfd)
    assert found == []
    assert CASES[name].said in said


@pytest.mark.parametrize("name", CASES)
def test_its_faulty_twin_is_told(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(CASES[name], CASES[name].wrong, tmp_path, capfd)[0] == CASES[name].found
