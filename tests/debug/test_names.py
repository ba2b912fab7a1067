"""Places are named as a stack shows them, those of C++ too."""

from __future__ import annotations

import pytest

from weft.debug.breakpoints import _split_specification
from weft.errors import UsageError
from weft.replay.points import parse_place


@pytest.mark.parametrize("name", [
    "add", "Pool.query", "main.<locals>.work", "Solver::Step", "mesh::Domain<double>::Sum", "twice<int>",
    "mesh::Map<int, std::vector<double> >::at(int, double)", "Solver::~Solver", "Solver::operator()(int)",
])  # fmt: skip
def test_a_function_is_named_as_a_stack_shows_it(name: str) -> None:
    assert parse_place(name).name == name
    assert (parse_place(f"2:{name}").rank, parse_place(f"2:{name}").name) == (2, name)
    assert _split_specification(f"{name} if k < 3") == (name, "k < 3", "")
    assert _split_specification(f"{name} tag:5") == (name, "", "tag:5")


@pytest.mark.parametrize("text", ["Solver::", "::Step", "2x", "a b", "solver.cpp:"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_place(text)


def test_a_line_is_not_taken_for_a_name() -> None:
    assert (parse_place("src/solver.cpp:12").file, parse_place("src/solver.cpp:12").line) == ("src/solver.cpp", 12)
    assert parse_place("1:solver.cpp:12#3").visit == 3
