"""No command waits without end: beside a rank that stands, in a poll that is to succeed, in a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from debug.conftest import PROGRAMS, Recorded

pytestmark = pytest.mark.usefixtures("gdb")

SOURCE = (PROGRAMS / "answered.c").read_text().splitlines()


@pytest.fixture(scope="module")
def program(compiled: Callable[[str], Path]) -> Path:
    return compiled("answered")


@pytest.fixture(scope="module")
def answered(record: Callable[..., Recorded], program: Path) -> Recorded:
    """Two ranks, one of which polls for what the other one sends."""
    return record("answered", "-n", "2", "--", program)


@pytest.mark.matrix
def test_a_rank_in_a_poll_that_is_to_succeed_stands_while_the_sender_stops_at_a_line(answered: Recorded) -> None:
    at = next(i for i, row in enumerate(SOURCE, 1) if "value = 7" in row)
    out = answered.debug(f"break 0:answered.c:{at}", "continue", "delete", "continue", options=["--timeout", "60"])
    assert f"rank 0  at answered.c:{at} in main  value = 7;\n" in out
    assert "not done after" not in out
    assert out.endswith("the program has ended\n"), out


def test_a_command_of_a_script_has_a_limit_and_says_where_the_ranks_are(answered: Recorded, program: Path) -> None:
    out = answered.debug("continue", program=[program, "90"], options=["--timeout", "3"])
    assert "not done after 3 s: rank 0 " in out
    assert "rank 1 " in out


def test_a_call_at_which_ranks_do_not_stop_is_told(answered: Recorded) -> None:
    out = answered.debug("until 0:0", "until 0:3")
    told = "rank 0 is at the next place where one can\n"
    assert f"no replay can stop before event 0 of rank 0, init at answered.c:9: {told}" in out
    assert out.count(told) == 1  # the barrier is one
