"""Declarations of statuses in Fortran: how many integers each has, and where nothing is known for certain."""

from __future__ import annotations

import pytest

from weft.sources.statement import join_fortran
from weft.usage.fortran_statuses import _find_declared_size

SIZE = 5
HOST = ["program p", "integer :: st(3)", "call mpi_init(e)", "contains", "subroutine s(a)"]


@pytest.mark.parametrize(
    ("lines", "size"),
    [
        (["subroutine s(a)", "integer st(3)"], 3),
        (["subroutine s(a)", "integer :: n, st ! a comment (7)"], 1),
        (["SUBROUTINE S(A)", "INTEGER, DIMENSION(MPI_STATUS_SIZE, 2) :: X, ST"], 2 * SIZE),
        (["integer function s(a)", "integer(kind=4), intent(out) :: &", "   x(2), &", "   & st(0:2)"], 3),
        (["subroutine s(a)", "integer st", "dimension st(4)"], 4),
        (["subroutine s(a)", "integer st(2*mpi_status_size)"], 2 * SIZE),
        (HOST, 3),
        ([*HOST, "integer st(mpi_status_size)"], SIZE),
        ([*HOST, "integer st(2)", "end subroutine", "subroutine t(a)", "integer :: st(4)", "if (x) then", "end if"], 4),
        ([*HOST, "integer st(2)", "end", "subroutine t(a)"], 3),
        ([*HOST, "interface", "subroutine i(b)", "integer st(7)", "end subroutine", "end interface"], 3),
        (["subroutine s(st)", "integer st(1)"], None),
        (["subroutine s(a)", "integer st(*)"], None),
        (["subroutine s(a)", "integer st(n)"], None),
        (["subroutine s(a)", "integer, allocatable :: st(:)"], None),
        (["subroutine s(a)", "type(mpi_status) :: st"], None),
        ([*HOST, "type(mpi_status) :: st"], None),
        (["subroutine s(a)", "#ifdef MPI", "integer st(mpi_status_size)", "#else", "integer st(1)", "#endif"], None),
        (["subroutine s(a)", "integer st(3), all(9)", "equivalence (st(1), all(1))"], None),
        (["subroutine s(a)", "integer last(3)"], None),
    ],
)
def test_the_size_of_a_status_is_that_of_its_declaration(lines: list[str], size: int | None) -> None:
    assert _find_declared_size(join_fortran(lines, "a.f90"), "st", SIZE) == size


def test_a_declaration_of_fixed_form_goes_on_in_the_sixth_column() -> None:
    lines = ["c     integer st(9)", "      subroutine s(a)", "      integer x,", "     &  st(3)", "      x = 1"]
    assert _find_declared_size(join_fortran(lines, "a.f"), "st", SIZE) == 3
