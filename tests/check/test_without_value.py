"""Variables of every class that are read without a value are told; those that have one are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

C = (Path(__file__).parent / "dvm" / "locals.cdv").read_text()
FORTRAN = (Path(__file__).parent / "fortran" / "right" / "locals.f90").read_text()


def found(text: str, name: str, folder: Path) -> list[tuple[str, int, str]]:
    path = folder / name
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    checked = check_program(CheckRequest((path,), timeout=30), built)
    assert checked.whole
    return sorted((one.kind, one.sites[0].line, str(one.facts()["variable"])) for one in checked.findings)


def test_locals_of_c_that_were_never_set_are_told(tmp_path: Path) -> None:
    assert found(C, "p.cdv", tmp_path) == [
        ("uninitialised-read", 13, "found"), ("uninitialised-read", 20, "t"), ("uninitialised-read", 46, "y"),
    ]  # fmt: skip


def test_locals_of_c_that_were_set_in_any_way_are_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    right = C.replace("int found;", "int found = 0;").replace(": 2);", ": 5);").replace("table(3)", "table(4)")
    assert found(right, "p.cdv", tmp_path) == []
    assert capfd.readouterr().out == "153 5\n3\n"


def test_scalars_of_fortran_that_were_never_set_are_told(tmp_path: Path) -> None:
    wrong = FORTRAN.replace("found = 0 !", "!").replace("set(y, 5)", "set(y, 1)").replace("pick(15)", "pick(6)")
    assert found(wrong, "p.f90", tmp_path) == [
        ("uninitialised-read", 28, "y"), ("uninitialised-read", 50, "found"),
    ]  # fmt: skip


def test_scalars_of_fortran_that_were_set_in_any_way_are_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert found(FORTRAN, "p.f90", tmp_path) == []
    assert capfd.readouterr().out.split() == ["153.000000", "5.00000000", "14"]


IMPLIED = """\
program z
  implicit double precision (a-h, o-z)
  parameter (n = 8)
  dimension table(4), v(2)
  common /field/ u(n)
  namelist /group/ width, inside
  intrinsic dsin
  data w, v(2) /1.0, 2.0/
!DVM$ distribute u(block)
  call work(s)
  print *, s
  call count(m, k)
  print *, m, w
  open (newunit=iu, status='scratch')
  write (iu, *) 2.5d0, int(z'ff')
  rewind iu
  read (iu, *) x5, mask
  if (mask == 255) print *, x5
  width = 1; inside = 2
  write (*, nml=group)
  do 10, l = 1, 4
    table(l) = l
10 continue
  print *, (table(ll), ll = 1, 4)
  y = 1
  call host
  print *, y, hh
  call apply(dsin, a)
  print *, a
  select case (m)
  case (4)
    q = 1.d0
  case default
    q = 2
  end select
  if (q > 1.e0 .and. q < 0 .or. .not. q < 4) print *, never
contains
  subroutine host
    y = y + 1
    hh = y
    own = 3
    print *, own
  end subroutine
end program
subroutine apply(f, a)
  double precision a, f, b
  external f
  b = 0
  a = f(b)
end subroutine
subroutine work(x)
  implicit double precision (a-h, o-z)
  parameter (n = 8)
  common /field/ u(n)
!DVM$ distribute u(block)
!DVM$ parallel (i) on u(i), private(x)
  do i = 1, n
    x = i
    u(i) = x
  end do
  x = LAST
end subroutine
subroutine count(m, k)
  dimension list(3)
  k = 3
  if (k > LEAST) then
    number = 3
    list(2) = 1
  end if
  m = number + list(2)
end subroutine
"""


def test_scalars_of_fortran_that_nothing_declares_are_looked_at_too(tmp_path: Path) -> None:
    assert found(IMPLIED.replace("x = LAST", "").replace("LEAST", "3"), "p.f90", tmp_path) == [
        ("uninitialised-read", 11, "x"), ("uninitialised-read", 70, "list"), ("uninitialised-read", 70, "number"),
    ]  # fmt: skip


def test_scalars_that_nothing_declares_and_that_were_set_in_any_way_are_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert found(IMPLIED.replace("LAST", "1").replace("LEAST", "2"), "p.f90", tmp_path) == []
    assert capfd.readouterr().out.split()[:3] == ["1.0000000000000000", "4", "1.0000000000000000"]


AGAIN = """\
      program z
      parameter (n = 16)
      integer a(n), b(n)
!DVM$ distribute a(block)
!DVM$ parallel (i) on a(i)
      do i = 1, n
        a(i) = i
      enddo
      b = 3
!DVM$ parallel (i) on a(i), private(k, j, m)
      do i = 1, n
        m = 0
        do 10, k = 1, a(i)
          do 10, j = k, a(i)
            m = m + 1
   10   continue
        a(i) = m + j - 2 * k
      enddo
      do i = 1, n
        m = 0
        do 20, k = 1, b(i)
          do 20, j = k, LAST
            m = m + 1
   20   continue
        b(i) = m + j - 2 * k
      enddo
      print *, b(1)
      end
"""


@pytest.mark.parametrize("right", [True, False])
def test_a_private_that_is_set_in_a_loop_behind_has_a_value_there(right: bool, tmp_path: Path) -> None:
    """The compiler may read it ahead of that loop, as it keeps it in a register there."""
    text = AGAIN.replace("LAST", "b(i)") if right else AGAIN.replace("do 20, j = k, LAST", "do 20, l = k, b(i)")
    assert found(text, "p.f", tmp_path) == ([] if right else [("uninitialised-read", 25, "j")])
