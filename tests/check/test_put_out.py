"""What a program puts out is looked at, though the library that reads it has no hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from machine import need
from weft.check import CheckRequest, check_program

C = """\
#include <stdio.h>
#pragma dvm array distribute[block]
double a[8];
struct { char sign; double value; } gap;
int main(void)
{
    FILE *to = fopen("/dev/null", "wb");
    #pragma dvm region out(a)
    {
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < LAST; i++)
        a[i] = i;
    }
    #pragma dvm get_actual(a)
    gap.sign = 'x', gap.value = 1;
    fwrite(&gap, sizeof gap, 1, to);
    fwrite(a, sizeof *a, 8, to);
    return fclose(to);
}
"""
FORTRAN = """\
program p
  real(8) :: a(8)
  integer :: i
!DVM$ DISTRIBUTE A(BLOCK)
!DVM$ REGION OUT(A)
!DVM$ PARALLEL (I) ON A(I)
  do i = 1, LAST
    a(i) = i
  end do
!DVM$ END REGION
!DVM$ GET_ACTUAL(A)
  open(3, file='/dev/null')
  write(3, *) a
end program
"""


def told(text: str, suffix: str, folder: Path) -> list[tuple[str, int]]:
    """Kinds and lines of what is found."""
    if suffix == ".f90":
        need("gfortran")
    path = folder / f"p{suffix}"
    path.write_text(text)
    (folder / "built").mkdir()
    checked = check_program(CheckRequest((path,), timeout=30), folder / "built")
    assert checked.whole
    return [(one.kind, one.sites[0].line) for one in checked.findings]


@pytest.mark.cases(2)
@pytest.mark.parametrize("program", [(C, ".c", 17), (FORTRAN, ".f90", 13)])
@pytest.mark.parametrize(
    ("last", "without", "kinds"),
    [("8", "", []), ("8", "get_actual", ["stale-copy"]), ("7", "", ["uninitialised-read"])],
)
def test_an_array_that_is_put_out_is_read(
    program: tuple[str, str, int], last: str, without: str, kinds: list[str], tmp_path: Path
) -> None:
    text, suffix, line = program
    lines = text.replace("LAST", last).split("\n")
    kept = ["" if without and without in one.lower() else one for one in lines]
    assert told("\n".join(kept), suffix, tmp_path) == [(kind, line) for kind in kinds]


ITEMS = """\
program p
  implicit none
  real(8) :: v(8), w(4), m(3, 3), full(6)
  integer :: i, j
  character(80) :: line
!DVM$ DISTRIBUTE V(BLOCK)
!DVM$ PARALLEL (I) ON V(I)
  do i = 1, 8
    v(i) = i
  end do
  full = 1
  m(1, :) = 2
GIVEN
  write(*, *) full(2:6:2), m(1, :), v(1:3)
  if (full(2) > 0) print *, (full(i), v(i), i = 2, 5, 3), (m(1, j), j = 1, 3)
  if (i /= 8) stop 3
  write(*, *) (w(i), i = 1, 2)
  write(line, '(3F8.3)') m(2:3, 3)
  print *, full(1)
end program
"""


@pytest.mark.parametrize(("given", "found"), [
    ("", [("uninitialised-read", 17), ("uninitialised-read", 18)]), ("  m = 2; w = 1", []),
])  # fmt: skip
def test_parts_of_arrays_and_loops_in_an_output_list_are_read(
    given: str, found: list[tuple[str, int]], tmp_path: Path
) -> None:
    """The loop that asks for them leaves its index as the statement does: the program would stop otherwise."""
    assert told(ITEMS.replace("GIVEN", given), ".f90", tmp_path) == found


CHOICE = """\
#include <math.h>
#include <stdio.h>
#pragma dvm array distribute[block]
double a[8];
int main(void)
{
    double t;
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 8; i++)
        a[i] = i;
#CHOICE WHICH
    t = 1;
#endif
    printf("%g\\n", sin(t));
    return 0;
}
"""


@pytest.mark.matrix
@pytest.mark.parametrize("choice", ["if", "ifdef"])
@pytest.mark.parametrize(("which", "found"), [("WHICH", [("uninitialised-read", 14)]), ("__STDC__", [])])
def test_an_assignment_that_the_preprocessor_leaves_out_gives_no_value(
    choice: str, which: str, found: list[tuple[str, int]], tmp_path: Path
) -> None:
    assert told(CHOICE.replace("CHOICE", choice).replace("WHICH", which), ".c", tmp_path) == found


PARTS = """\
program p
  implicit none
  type :: point
    real(8) :: x, y
    integer :: w(2)
  end type
  real(8) :: a(8), t, r(3)
  integer :: i, k
  type(point) :: s
  namelist /first/ k, t
  namelist /second/ r
!DVM$ DISTRIBUTE A(BLOCK)
  k = 1
!DVM$ PARALLEL (I) ON A(I), PRIVATE(S, T)
  do i = 1, 8
    s%x = i; s%w = i; t = i
    a(i) = s%x + t
  end do
  GIVEN
  if (k == 1) goto 20
  stop 4
20 print *, s%w(2)
  write(*, nml=first)
  write(*, second)
  do 30 i = 1, 2
30 print *, k
  if (i /= 3) stop 5
end program
"""


@pytest.mark.parametrize(("given", "lines"), [("continue", [22, 23, 24]), ("s%w = 1; t = 2; r = 3", [])])
def test_components_namelists_and_statements_with_labels_are_read(given: str, lines: list[int], tmp_path: Path) -> None:
    """A label that ends a loop stays where it is: the program would stop otherwise."""
    found = told(PARTS.replace("GIVEN", given), ".f90", tmp_path)
    assert found == [("uninitialised-read", line) for line in lines]


TEXTS = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#pragma dvm array distribute[block]
double a[8];
int main(void)
{
    FILE *to = fopen("/dev/null", "wb");
    char *text = malloc(16), *made = malloc(32), line[40];
    snprintf(made, 32, "%d", 7);
    sprintf(line, "line %d", 3);
    puts(line);
    fputs(made, stdout);
    puts("constant");
    #pragma dvm region out(a)
    {
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 8; i++)
        a[i] = i;
    }
    GET
    write(fileno(to), a, sizeof a);
    FILL
    text[3] = 0;
    fputs(text, to);
    puts(text);
    return fclose(to);
}
"""


@pytest.mark.parametrize(
    ("get", "fill", "found"),
    [
        ("", "", [("stale-copy", 22), ("uninitialised-read", 25), ("uninitialised-read", 26)]),
        ("#pragma dvm get_actual(a)", "for (int i = 0; i < 3; i++) text[i] = 'a';", []),
    ],
)
def test_texts_and_what_goes_to_a_file_descriptor_are_read(
    get: str, fill: str, found: list[tuple[str, int]], tmp_path: Path
) -> None:
    assert told(TEXTS.replace("GET", get).replace("FILL", fill), ".c", tmp_path) == found


WHOLE_C = """\
#include <stdio.h>
#include <string.h>
#pragma dvm array distribute[block]
double a[8];
struct point { double x; int tag; };
struct { float low; double value; char name[11]; } gaps;
struct point all[2];
int main(void)
{
    FILE *to = fopen("/dev/null", "wb");
    struct point one, copy;
    float few[3];
    one.x = 1, one.tag = 2;
    #pragma dvm parallel([i] on a[i]) private(one, few, all, gaps)
    for (int i = 0; i < 8; i++) {
        one.x = i, one.tag = i, few[1] = i, all[1].x = i, gaps.value = i;
        a[i] = one.x + one.tag + few[1] + all[1].x + gaps.value;
    }
    GIVEN
    fwrite(&one, sizeof one, 1, to);
    fwrite(few, sizeof few, 1, to);
    copy = one;
    fwrite(&copy, sizeof copy, 1, to);
    fwrite(all + 1, sizeof *all, 1, to);
    fwrite(&gaps, sizeof gaps, 1, to);
    return fclose(to);
}
"""
GIVEN_C = """one.x = 1, one.tag = 2; few[0] = few[1] = few[2] = 3; all[1].x = 4, all[1].tag = 5; \
gaps.low = 1, gaps.value = 2, strcpy(gaps.name, "ten signs.");"""


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("", [20, 21, 22, 24, 25]),
        (GIVEN_C, []),
        (GIVEN_C.replace("few[1] = few[2]", "few[2]"), [21]),
        (GIVEN_C.replace("all[1].x = 4, ", ""), [24]),
        (GIVEN_C.replace("gaps.low = 1, ", ""), [25]),
    ],
)
def test_structures_and_arrays_that_are_put_out_whole_have_a_value_in_each_member(
    given: str, lines: list[int], tmp_path: Path
) -> None:
    """Their gaps have none, and that is no fault."""
    assert told(WHOLE_C.replace("GIVEN", given), ".c", tmp_path) == [("uninitialised-read", line) for line in lines]


WHOLE_FORTRAN = """\
module kinds
  implicit none
  type point
    real(8) :: x
    integer :: tag
  end type
  type speaker
    real(8) :: x
  contains
    procedure :: says
  end type
contains
  real(8) function says(this)
    class(speaker), intent(in) :: this
    says = this%x
  end function
end module
program p
  use kinds
  implicit none
  type(point) :: one, all(2)
  type(speaker) :: other
  character(5) :: word
  real(8) :: a(8)
  integer :: i
!DVM$ DISTRIBUTE A(BLOCK)
!DVM$ PARALLEL (I) ON A(I), PRIVATE(ONE, ALL, WORD)
  do i = 1, 8
    one%x = i; one%tag = i; all(1)%x = i; word = 'aword'
    a(i) = one%x + all(1)%x
  end do
  other%x = 1
  GIVEN
  print *, one
  write(*, *) all(2), all
  print *, other
  print *, word
end program
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("continue", [34, 35, 37]),
        ("one = point(1, 2); all = one; word = 'b'", []),
        ("one%tag = 1; all = point(3, 4); word = 'b'", [34]),
    ],
)
def test_variables_of_derived_types_and_texts_are_read_whole(given: str, lines: list[int], tmp_path: Path) -> None:
    found = told(WHOLE_FORTRAN.replace("GIVEN", given), ".f90", tmp_path)
    assert found == [("uninitialised-read", line) for line in lines]


COPIED = """\
#include <stdlib.h>
#pragma dvm array distribute[block]
double a[8];
struct point { double x; int tag; char sign; };
#pragma dvm array align([i] with a[i])
struct point p[8];
int main(void)
{
    struct point *made = malloc(sizeof *made), one;
    made->x = 1, made->tag = 2, made->sign = '+';
    one = *made;
    #pragma dvm parallel([i] on a[i]) private(one)
    for (int i = 0; i < 8; i++) {
        LEFT_OUT
        one.tag = i, one.sign = '-';
        p[i] = one;
        a[i] = p[i].tag;
    }
    return one.tag = 0;
}
"""


@pytest.mark.matrix
@pytest.mark.parametrize(("left_out", "lines"), [("one.x = i;", []), ("", [16])])
def test_a_structure_is_copied_with_its_gaps(left_out: str, lines: list[int], tmp_path: Path) -> None:
    found = told(COPIED.replace("LEFT_OUT", left_out), ".c", tmp_path)
    assert found == [("uninitialised-read", line) for line in lines]
