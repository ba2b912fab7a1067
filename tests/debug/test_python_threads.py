"""Breakpoints in the threads of Python ranks: hit wherever the code runs, named with the thread, or refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from debug.conftest import PROGRAMS, Recorded
from tests_support import Installed

SOURCE = (PROGRAMS / "threaded.py").read_text().splitlines()


def line(text: str) -> int:
    """The number of the only line of the program that holds a text."""
    [found] = [i for i, row in enumerate(SOURCE, 1) if text in row]
    return found


@pytest.fixture(scope="module")
def threaded(record: Callable[..., Recorded], mpich: Installed) -> Recorded:
    """Two ranks with two threads each beside the main one."""
    return record("threaded", "-n", "2", "--", sys.executable, PROGRAMS / "threaded.py")


@pytest.mark.matrix
def test_a_thread_that_is_started_later_stops_and_is_named(threaded: Recorded) -> None:
    at = line("squares[number]")
    out = threaded.debug(f"break threaded.py:{at}", "continue", "print value", "where @1", "next", "print squares[3]",
                         "delete", "continue")  # fmt: skip
    assert f"ranks 0 and 1  worker at threaded.py:{at} in square  squares[number] = value * value\n" in out
    assert "  rank 0  3\n  rank 1  4\n" in out
    assert f"#0 threaded.py:{at} in square  squares[number] = value * value\n" in out
    assert "threading.py" not in out  # what starts a thread is not the program's own
    assert f"worker at threaded.py:{at + 1} in square  return value\n" in out
    assert out.endswith(f"(weft) continue\n{threaded.out}the program has ended\n")


@pytest.mark.matrix
def test_a_thread_that_waits_already_stops_too(threaded: Recorded) -> None:
    at = line('squares["early"]')
    out = threaded.debug("until 0:5", f"break threaded.py:{at} if value > 10", "continue", "print value @1", "continue")
    assert f"rank 1  early bird at threaded.py:{at} in wait_and_square" in out
    assert "rank 0  early bird" not in out  # its condition is false there
    assert "  rank 1  11\n" in out
    assert out.endswith(f"{threaded.out}the program has ended\n")


@pytest.mark.matrix
def test_a_function_stops_the_thread_that_calls_it(threaded: Recorded) -> None:
    out = threaded.debug("break 0:square", "continue", "print number", "step", "continue")
    at = line("def square")
    assert f"rank 0  worker at threaded.py:{at} in square" in out
    assert "  rank 0  3\n" in out
    assert f"rank 0  worker at threaded.py:{at + 1} in square" in out


def test_a_change_is_met_in_whichever_thread_it_is_made(threaded: Recorded) -> None:
    out = threaded.debug("until 0:3", "watch len(squares) @0", "continue", "continue", "delete", "continue")
    assert re.search(r"rank 0  worker at threaded.py:\d+ in square .*len\(squares\): 0 -> 1", out), out
    assert re.search(r"rank 0  early bird at threaded.py:\d+ in wait_and_square .*len\(squares\): 1 -> 2", out), out


@pytest.mark.matrix
def test_the_way_back_from_another_thread_is_refused_with_the_reason(threaded: Recorded) -> None:
    out = threaded.debug("break square", "continue", "reverse-next", "continue")
    assert "a step back needs the thread that makes the MPI calls, and the rank is in another one\n" in out
    assert out.endswith(f"{threaded.out}the program has ended\n")


@pytest.mark.matrix
def test_a_program_that_traces_its_threads_itself_is_told_so(record: Callable[..., Recorded], mpich: Installed) -> None:
    hooked = record("hooked", "-n", "1", "--", sys.executable, PROGRAMS / "threaded.py", "hooked")
    out = hooked.debug("until 0:3", "break square", "continue")
    assert "the program uses threading.settrace itself, so breakpoints on lines do not stop its threads\n" in out
    assert out.endswith(f"{hooked.out}the program has ended\n")
