"""Statements out of lines: found whole in four languages, whatever stands in strings, comments and other lines."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.sources.statement import MAX_LINES, MAX_WIDTH, find_called_names, find_statement


def lines_of(text: str) -> list[str]:
    return textwrap.dedent(text).strip("\n").split("\n")


def found(text: str, line: int, file: str) -> tuple[int, str]:
    made = find_statement(lines_of(text), 1, line, file)
    assert made is not None
    return made.first, made.text


PYTHON = '''
    def work():
        """A text (with a bracket."""
        x = comm.recv(  # not ( this
            source=1, text=")",
        )
        comm.send(x, 1); y = 1
        total = add(
            1, comm.allreduce(2),
        )
        value = \\
            comm.bcast(3)
'''


@pytest.mark.parametrize(
    ("line", "first", "text"),
    [
        (3, 3, 'x = comm.recv(  # not ( this\n    source=1, text=")",\n)'),
        (6, 6, "comm.send(x, 1); y = 1"),
        (8, 7, "total = add(\n    1, comm.allreduce(2),\n)"),
        (11, 10, "value = \\\n    comm.bcast(3)"),
    ],
)
def test_a_statement_of_python_is_whole(line: int, first: int, text: str) -> None:
    assert found(PYTHON, line, "a.py") == (first, text)


C = """
    static void ask(int *x) {
        CHECK(MPI_Recv(x, 1, MPI_INT, /* ; ( */ 1,
                       99, MPI_COMM_WORLD, st));
        int err =
            MPI_Barrier(comm);
        if (x) // then ;
            MPI_Send(x, 1, MPI_INT,
    #ifdef WIDE
                     2,
    #endif
                     7, comm);
        for (i = 0; i < 3; i++) MPI_Bcast(x, 1, MPI_INT, 0, comm);
    }
"""


@pytest.mark.parametrize(
    ("line", "first", "last"), [(2, 2, 3), (3, 2, 3), (4, 4, 5), (5, 4, 5), (7, 7, 11), (12, 12, 12), (13, 13, 13)]
)
def test_a_statement_of_c_is_whole(line: int, first: int, last: int) -> None:
    made = find_statement(lines_of(C), 1, line, "a.c")
    assert made is not None
    assert (made.first, made.last) == (first, last)


FREE = """
    if (rank == 0) then   ! ask & wait
      call MPI_Recv(x, 1, MPI_INTEGER, & ! of one
        1, 99, MPI_COMM_WORLD, &
        status, ierr)
    end if
"""
FIXED = """
      IF (RANK .EQ. 0) THEN
C     IT IS NEVER SENT (
        CALL MPI_RECV(X, 1, MPI_INTEGER,
     &    1, 99, MPI_COMM_WORLD,
     &    STATUS, IERR)
      END IF
"""


@pytest.mark.parametrize("line", [2, 3, 4])
def test_a_statement_of_fortran_goes_on_where_an_ampersand_says_so(line: int) -> None:
    made = find_statement(lines_of(FREE), 1, line, "a.f90")
    assert made is not None
    assert (made.first, made.last) == (2, 4)
    assert made.lines[0] == "call MPI_Recv(x, 1, MPI_INTEGER, & ! of one"


@pytest.mark.parametrize("line", [3, 4, 5])
def test_and_in_fixed_form_where_the_sixth_column_does(line: int) -> None:
    made = find_statement(FIXED.strip("\n").split("\n"), 1, line, "a.f")
    assert made is not None
    assert (made.first, made.last) == (3, 5)


def test_a_long_statement_is_cut_and_says_so() -> None:
    text = "x = f(\n" + "".join(f"    {n},\n" for n in range(50)) + ")"
    made = find_statement(text.split("\n"), 1, 1, "a.py")
    assert made is not None
    assert len(made.lines) == MAX_LINES and made.lines[-1] == "..."
    wide = find_statement(["comm.send('" + "x" * 1000 + "')"], 1, 1, "a.py")
    assert wide is not None and len(wide.text) == MAX_WIDTH and wide.text.endswith("...")


def test_a_statement_far_above_is_not_shown() -> None:
    text = "x = {\n" + "    1: 2,\n" * 40 + "    3: comm.recv(),\n}"
    assert found(text, 42, "a.py") == (42, "3: comm.recv(),")


@pytest.mark.parametrize("line", [0, 3, 9, -1])
def test_no_line_and_a_blank_one_have_no_statement(line: int) -> None:
    assert find_statement(["a()", "b()", "  "], 1, line, "a.py") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = comm.recv(source=0)  # then comm.send(", ("comm.recv",)),
        ("comm.send('comm.recv()', dest=1)", ("comm.send",)),
        ("if comm.iprobe() and not (x): self.comm.Dup ()", ("comm.iprobe", "self.comm.Dup")),
        ("get()[0].bcast(1)", ("get", ".bcast")),
        ("x = 1", ()),
    ],
)
def test_what_a_line_calls(text: str, names: tuple[str, ...]) -> None:
    assert find_called_names([text], 0, "a.py") == names


def test_where_a_line_calls_nothing_its_statement_counts() -> None:
    assert find_called_names(["value = \\", "    comm.bcast(3)", "comm.send(1)"], 0, "a.py") == ("comm.bcast",)


@given(
    st.lists(st.text(alphabet="()[]{}\"'#/*\\&!;=, \tabC.\u2028\x0c", max_size=30), max_size=12),
    st.integers(-2, 14),
    st.sampled_from(["a.py", "a.c", "a.f90", "a.f", "a"]),
)
def test_any_lines_have_a_statement_that_holds_the_line_or_none(lines: list[str], line: int, file: str) -> None:
    made = find_statement(lines, 1, line, file)
    known = 1 <= line <= len(lines) and bool(lines[line - 1].strip())
    assert (made is not None) == known
    if made is not None:
        assert made.first <= made.line <= made.last <= len(lines)
        assert 1 <= len(made.lines) <= MAX_LINES
        find_called_names(lines, line - 1, file)
