"""Fortran modules that hold their own distributed arrays, and variables that are known past the unit they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

FIELD = """\
module field
  implicit none
  private
  integer, parameter :: n = 12
  real :: a(n), b(n), c(n)
!DVM$ template t(n)
!DVM$ distribute t(block)
!DVM$ align (i) with t(i) :: a, b
!DVM$ align c(i) with t(i)
  public :: start, sweep, again, total
contains
  subroutine start()
    a = 0
    b(3) = 1
  end subroutine
  subroutine sweep()
    integer :: i
    call fill()
!DVM$ parallel (i) on b(i), shadow_renew(a)
    do i = 2, n - 1
      b(i) = a(i-1) + a(i+1)
    end do
!DVM$ parallel (i) on b(i)RENEW
    do i = 2, n - 1
      b(i) = b(i) + c(i-1) ! F stale-halo-read
    end do
  contains
    subroutine fill()
!DVM$ parallel (i) on a(i)
      do i = 1, n
        a(i) = i; c(i) = i
      end do
    end subroutine
  end subroutine
  subroutine again()
!DVM$ redistribute t(*)
    call everywhere()
  end subroutine
  subroutine everywhere()
    integer :: i
!DVM$ parallel (i) on b(i)
    do i = 2, n - 1
      b(i) = b(i) + c(i-1)
    end do
  end subroutine
  real function total()
    integer :: i
    real s
    s = 0
!DVM$ parallel (i) on a(i), reduction(sum(s))
    do i = 1, n
      s = s + a(i)
    end do
    total = s
  end function
end module
"""
MAIN = """\
program p
  use field
  implicit none
  call start(); call sweep(); call again()
  print *, total()
end program
"""
PARENT = """\
module m
  implicit none
  integer, parameter :: n = 10
  real :: a(n)
  real, allocatable :: w(:)
!DVM$ distribute a(block)
!DVM$ align w(i) with a(i)
  interface
    module subroutine set(k)
      integer, intent(in) :: k
    end subroutine
  end interface
contains
  subroutine make()
    allocate(w(n))
  end subroutine
end module
"""
PART = """\
submodule (m) parts
contains
  module subroutine set(k)
    integer, intent(in) :: k
    integer :: i
!DVM$ parallel (i) on a(i)
    do i = 1, n
      a(i) = i; w(i) = k
    end do
!DVM$ parallel (i) on a(i)RENEW
    do i = 2, n
      a(i) = a(i) + w(i-1) ! F stale-halo-read
    end do
  end subroutine
end submodule
"""
USER = """\
program q
  use m, only : set, make
  call make()
  call set(2)
  call inner()
contains
  subroutine inner()
    use m, only: mine => a
    mine(2) = 1
    print *, mine(2)
  end subroutine
end program
"""
INNER = """\
subroutine outer(n)
  implicit none
  integer n
  real :: x(n), y(n)
  integer :: i
!DVM$ distribute x(block)
!DVM$ align y(i) with x(i)
  call go()
contains
  subroutine go()
!DVM$ parallel (i) on x(i)
    do i = 1, n; x(i) = i; y(i) = 1; end do
    call deep()
  end subroutine
  subroutine deep()
!DVM$ parallel (i) on x(i)RENEW
    do i = 1, n - 1
      x(i) = y(i + 1) ! F stale-halo-read
    end do
  end subroutine
end subroutine
program q
  call outer(9)
  call outer(6)
end program
"""
PROGRAMS = {
    "module": ({"field.f90": FIELD, "main.f90": MAIN}, "c"),
    "submodule": ({"main.f90": USER, "part.f90": PART, "parent.f90": PARENT}, "w"),
    "procedure": ({"inner.f90": INNER}, "y"),
}

AFTER = """\
module base
  integer, parameter :: n = 8
  real :: u(n), s
  integer hits
!DVM$ distribute u(block)
contains
  subroutine work(last)
    integer i
    real last
!DVM$ parallel (i) on u(i)
    do i = 1, n
      s = i; last = s; hits = i
      u(i) = s
    end do
  end subroutine
end module
subroutine show(x, y)
  real x
  real, optional :: y
  print *, x ! F uninitialised-read
end subroutine
program z
  use base
  interface
    subroutine show(x, y)
      real x
      real, optional :: y
    end subroutine
  end interface
  real t, fine
  character(len=4) :: text = 'abcd'
  fine = 2; t = 1; s = 1; hits = 1
  print *, s, t
  call work(t)FIXED
  print *, s ! F uninitialised-read
  print *, t ! F uninitialised-read
  print *, fine, text, hits * 1 ! F uninitialised-read
  do i = 1, 3
    j = i * 2; print *, i, j, fine
  end do
  print *, i; i = 5; print *, 'a;b', i ! ; x
  call show(t)
end program
"""

ARRAYS = """\
program z
  implicit none
  integer, parameter :: n = 5
  real a(n), y
!DVM$ distribute a(block)
  integer i
  real, external :: total
!DVM$ parallel (i) on a(i)
  do i = 1, n
    a(i) = i
  end do
  call part(n, y)
  print *, y, total(n)
  call reader
end program
subroutine part(n, y)
  integer n, k
  real y, t(5), w(n)
  logical seen(4)
  complex z(2)
  character(3) names(2)
  t(FIRST:) = 1
  w = 2
  seen(1:2) = .true.; seen(3:4) = .false.
  z(1) = 1; z(2) = (1, 2)
  names(1) = 'abc'
  y = 0
  do k = 1, 5
    if (seen(1)) y = y + t(k) + w(1) ! F uninitialised-read
  end do
  print *, names(1), seen, z
end subroutine
real function total(n)
  integer n
  real held(n, n), sums(n)
  held(:, FIRST) = 1
  sums(1) = sum(held(:, 1)) ! F uninitialised-read
  sums(2) = sums(1)
  total = sums(2)
end function
subroutine reader
  real u(3)
  character(20) :: text = '1 2 3'
  read (text, *) u(FIRST:)
  print *, u(2:)
  print *, u(1) ! F uninitialised-read
end subroutine
"""


def findings(folder: Path, files: dict[str, str], order: Sequence[str]) -> list[tuple[str, str, int]]:
    for name, text in files.items():
        (folder / name).write_text(text)
    checked = check_program(CheckRequest(tuple(folder / name for name in order), timeout=30), folder)
    assert checked.whole and checked.looked.to_json()["iterations"]
    places = (
        (one.kind, Path(place["file"]).name, place["line"])
        for one in checked.findings
        for place in one.facts().get("places", [site.to_json() for site in one.sites[:1]])
    )
    return sorted(places)


def marked(files: dict[str, str]) -> list[tuple[str, str, int]]:
    return sorted(
        (line.partition("! F ")[2], name, number)
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if "! F " in line
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_of_a_host_are_known_to_its_procedures_in_files_of_any_order(name: str, tmp_path: Path) -> None:
    texts, array = PROGRAMS[name]
    faulty = {file: text.replace("RENEW", "") for file, text in texts.items()}
    assert findings(tmp_path, faulty, list(texts)) == marked(faulty)
    right = {file: text.replace("RENEW", f", shadow_renew({array})") for file, text in texts.items()}
    assert findings(tmp_path, right, list(texts)[::-1]) == []


@pytest.mark.matrix
def test_what_a_loop_leaves_without_a_value_is_told_where_any_unit_puts_it_out(tmp_path: Path) -> None:
    faulty = {"after.f90": AFTER.replace("FIXED", "")}
    assert findings(tmp_path, faulty, list(faulty)) == marked(faulty)
    right = {"after.f90": AFTER.replace("FIXED", "; s = 1; t = 2; hits = 3")}
    assert findings(tmp_path, right, list(right)) == []


@pytest.mark.matrix
def test_local_arrays_without_a_value_are_told_in_units_without_directives(tmp_path: Path) -> None:
    faulty = {"arrays.f90": ARRAYS.replace("FIRST", "2")}
    assert findings(tmp_path, faulty, list(faulty)) == marked(faulty)
    right = {"arrays.f90": ARRAYS.replace("FIRST", "1")}
    assert findings(tmp_path, right, list(right)) == []


def test_procedures_and_files_have_the_names_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("field.f90").write_text(FIELD.replace("RENEW", ""))
    Path("main.f90").write_text(MAIN)
    site = check_program(CheckRequest((Path("field.f90"), Path("main.f90")), timeout=30), tmp_path).findings[0].sites[0]
    assert (site.function, site.file) == ("sweep", "field.f90")
