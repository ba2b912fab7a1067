"""`watch`: real programs stop where a value changes, whichever task changes it, and as long as its frame is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from machine import need
from tests_support import clang, pythons
from weft.errors import WeftError
from weft.tasks import Session, session

PROGRAMS = Path(__file__).parent / "programs"
PYTHONS = pythons()
native = pytest.mark.needs("gdb", "gcc", "OMPT")


def changes(s: Session, most: int = 30) -> list[tuple[str, int]]:
    """What is told at each stop until the program's end, and at which line; all are at something watched."""
    found: list[tuple[str, int]] = []
    for _ in range(most):
        stop = s.do("continue")
        if stop["why"] == "ended":
            return found
        assert stop["why"] == "watch", stop
        found.append((stop["text"], stop["at"]["line"] if stop["at"] else 0))
    raise AssertionError(f"no end: {found}")


def line(stop: dict[str, Any]) -> int:
    """Where it stands."""
    found: int = stop["at"]["line"]
    return found


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_an_attribute_and_an_element_stop_whichever_task_changes_them(python: str) -> None:
    with session([python, str(PROGRAMS / "watched.py")]) as s:
        s.do("break watched.py:32")
        assert s.do("continue")["why"] == "breakpoint"
        assert s.do("watch stock.left")["value"] == "5"
        assert s.do("watch counts")["value"] == "[0]"
        told = []
        while (stop := s.do("continue"))["why"] != "ended":
            told.append((stop["text"], stop["label"], line(stop)))
        assert stop["code"] == 0
        assert s.output() == "sold 3 counted 2 2\n"
    assert told == [
        ("stock.left: 5 -> 4", "task 2 (seller 1)", 14),
        ("stock.left: 4 -> 3", "task 3 (seller 2)", 14),
        ("counts: [0] -> [1]", "task 4 (counter)", 22),
        ("stock.left: 3 -> 2", "task 3 (seller 2)", 14),
        ("counts: [1] -> [2]", "task 4 (counter)", 22),
        ("stock.left is out of scope, and no longer watched", "task 1", 38),
    ]


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_local_is_watched_across_suspensions_until_its_frame_ends(python: str) -> None:
    with session([python, str(PROGRAMS / "watched.py")]) as s:
        s.do("break watched.py:22")
        assert s.do("continue")["why"] == "breakpoint"
        assert s.do("watch mine")["value"] == "0"
        assert [w["expression"] for w in s.do("breakpoints")["watches"]] == ["mine"]
        s.do("delete 1")
        told = [text for text, _ in changes(s)]
        assert "watches" not in s.do("breakpoints")
    assert told == ["mine: 0 -> 1", "mine: 1 -> 2", "mine is out of scope, and no longer watched"]


def test_a_watch_is_taken_away_and_a_mistake_is_told() -> None:
    with session([sys.executable, str(PROGRAMS / "watched.py")]) as s:
        s.do("break watched.py:32")
        s.do("continue")
        with pytest.raises(WeftError, match="watch what"):
            s.do("watch")
        with pytest.raises(WeftError, match="SyntaxError"):
            s.do("watch stock.")
        number = s.do("watch stock.left")["id"]
        s.do(f"delete {number}")
        assert changes(s) == []


def compiled(folder: Path, name: str, compiler: str, *options: str) -> str:
    """A test program's executable."""
    need(compiler)
    target = folder / "program"
    command = [compiler, "-g", "-O0", "-fopenmp", *options, str(PROGRAMS / name), "-o", str(target)]
    subprocess.run(command, check=True, cwd=folder, timeout=60)
    return str(target)


@pytest.mark.matrix
@native
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_variable_of_a_function_stops_in_the_tasks_that_change_it(tmp_path: Path, compiler: str) -> None:
    with session([compiled(tmp_path, "summed.c", compiler)]) as s:
        s.do("break summed.c:6")
        s.do("continue")
        s.do("delete 1")
        assert s.do("watch sum")["value"] == "0"
        assert s.do("watch count")["value"] == "0"
        told = changes(s)
        assert s.output() == "6 3\n"
    counts = [text for text, _ in told if text.startswith("count: ")]
    sums = [text for text, _ in told if text.startswith("sum: ")]
    assert counts == ["count: 0 -> 1", "count: 1 -> 2", "count: 2 -> 3"]
    assert sums[0].startswith("sum: 0 -> ")  # two threads may change it at one instant: gdb tells that as one change
    assert sums[-1].endswith(" -> 6")
    assert {where for text, where in told if text in (*counts, *sums)} <= {12, 13, 14}
    assert told[-1][0] == "sum is out of scope, and no longer watched"


@native
def test_a_local_of_a_task_is_watched_until_its_function_returns(tmp_path: Path) -> None:
    with session([compiled(tmp_path, "three.c", "gcc")]) as s:
        s.do("tbreak three.c:6")
        first = s.do("continue")
        value = int(s.do("watch a")["value"])
        told = changes(s)
        assert s.output() == "total 45\n"
    assert [text for text, _ in told] == [
        f"a: {value} -> {value + 1}", f"a: {value + 1} -> {value + 3}", "a is out of scope, and no longer watched",
    ]  # fmt: skip
    assert first["at"]["function"] == "leaf"
    assert told[-1][1] == 16


@native
def test_a_dummy_argument_of_fortran_is_watched_where_the_variable_lies(tmp_path: Path) -> None:
    with session([compiled(tmp_path, "tied.f90", "gfortran")]) as s:
        s.do("tbreak tied.f90:9")
        s.do("continue")
        with pytest.raises(WeftError, match="nowhere"):
            s.do("watch nowhere")
        assert s.do("watch total")["value"] == "0"
        told = [text for text, _ in changes(s)]
    assert told == ["total: 0 -> 11", "total: 11 -> 16", "total is out of scope, and no longer watched"]


@pytest.mark.matrix
@native
def test_a_step_of_one_task_stops_at_a_change_by_another_and_goes_on(tmp_path: Path) -> None:
    with session([compiled(tmp_path, "summed.c", "gcc")]) as s:
        s.do("break summed.c:6")
        s.do("continue")
        s.do("delete 1")
        number = s.do("watch count")["id"]
        reasons = []
        while (stop := s.do("next"))["why"] != "ended":
            reasons.append(stop["why"])
            if reasons.count("watch") == 2 and number:
                s.do(f"delete {number}")
                number = 0
        assert s.output() == "6 3\n"
    assert reasons.count("watch") == 2


@native
def test_all_that_is_watched_in_one_frame_ends_with_it(tmp_path: Path) -> None:
    with session([compiled(tmp_path, "three.c", "gcc")]) as s:
        s.do("tbreak three.c:12")
        s.do("continue")
        s.do("watch b")
        s.do("watch got")
        told = [text for text, _ in changes(s)]
        assert "watches" not in s.do("breakpoints")
        assert s.output() == "total 45\n"
    assert told[-1] == "b is out of scope, and no longer watched; got is out of scope, and no longer watched"
    assert {text.split(":")[0] for text in told[:-1]} == {"b", "got"}
