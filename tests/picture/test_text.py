"""The last moments as text."""

from __future__ import annotations

import argparse
import re

import pytest

from weft.picture.last_calls import group_ranks
from weft.picture.options import add_options
from weft.picture.text import draw_text
from weft.trace.builder import ANY, Builder
from weft.trace.layout import State

ANSI = re.compile(r"\x1b\[[\d;]*m")


def pair() -> Builder:
    b = Builder(ranks=2, ended="deadlock")
    r0, r1 = b.ranks
    r0.send(1, tag=1, site=("a.py", 1, "main"))
    r1.recv(0, tag=1, site=("a.py", 2, "main"))
    r0.open.recv(1, tag=5, site=("a.py", 3, "main"))
    r1.open.recv(0, tag=6, site=("a.py", 4, "main"))
    return b


def ring(n: int, stuck: int | None = None) -> Builder:
    b = Builder(ranks=n, ended="finished" if stuck is None else "deadlock")
    for r in b.ranks:
        r.send((r.index + 1) % n, tag=1, site=("ring.c", 5, "main"))
    for r in b.ranks:
        r.recv((r.index - 1) % n, tag=1, site=("ring.c", 6, "main"))
    for r in b.ranks:
        if stuck is None:
            r.finalize()
        elif r.index == stuck:
            r.open.recv(ANY, tag=9, site=("ring.c", 8, "main"))
        else:
            r.open.barrier(site=("ring.c", 9, "main"))
    return b


def test_open_calls_stand_in_the_last_column_with_a_torn_edge_and_their_reason() -> None:
    lines = draw_text(pair().open(), 100).splitlines()
    first, second = (next(line for line in lines if line.startswith(name)) for name in ("rank 0", "rank 1"))
    assert first.index("recv←1 #5╌╌⟩") == second.index("recv←0 #6╌╌⟩")
    # The message arrives behind where it was sent, and before what hangs.
    assert first.index("send→1 #1") < second.index("recv←0 #1") < second.index("recv←0 #6")
    assert any("in recv at a.py:3 for" in line and line.endswith("waits for rank 1") for line in lines)
    assert "waits for: 0 ⟶ 1 ⟶ 0" in lines


@pytest.mark.matrix
def test_ranks_that_do_the_same_are_one_row() -> None:
    lines = draw_text(ring(1024).open(), 100).splitlines()
    rows = [line for line in lines if line.startswith("rank")]
    assert len(rows) == 1 and rows[0].startswith("ranks 0-1023")
    assert "send→+1 #1" in rows[0] and "recv←-1 #1" in rows[0] and "finalize" in rows[0]


def test_the_one_that_does_something_else_has_a_row_of_its_own() -> None:
    lines = draw_text(ring(64, stuck=17).open(), 100).splitlines()
    assert [line.split("  ")[0].rstrip("… ") for line in lines if line.startswith("rank")] == [
        "ranks 0-16 and 18-63",
        "rank 17",
    ]
    assert any("in barrier at ring.c:9" in line and line.endswith("waits for rank 17") for line in lines)
    assert len(lines) < 20


def test_each_waits_for_its_neighbour() -> None:
    b = Builder(ranks=8, ended="deadlock")
    for r in b.ranks:
        r.open.recv((r.index - 1) % 8, tag=1)
    lines = draw_text(b.open(), 100).splitlines()
    assert any(line.endswith("each waits for rank -1") for line in lines)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    b = pair()
    for _ in range(9):
        b.ranks[0].call("MPI_Comm_create_group", open=False, site=("long.py", 7, "f"))
    for line in draw_text(b.open(), width, depth=12).splitlines():
        assert len(line) <= max(width, 40)


def test_a_send_that_nobody_received_is_marked() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=4)
    b.ranks[0].finalize()
    b.ranks[1].finalize()
    text = draw_text(b.open(), 100)
    assert "send→1 #4!" in text and "! nobody received it" in text
    assert "!" not in draw_text(ring(2).open(), 100)


def test_how_a_rank_ended_is_said() -> None:
    b = Builder(ranks=3, ended="crashed")
    b.ranks[0].barrier()
    b.ranks[1].finalize()
    b.ranks[2].leave_no_record()
    b.ranks[0].state = State.EXITED
    text = draw_text(b.open(), 100)
    assert "✗ left no record" in text and "✗ ended outside of MPI, before MPI_Finalize" in text
    assert text.count("✗") == 2


def test_equal_calls_in_a_row_and_failed_polls_are_counted() -> None:
    b = Builder(ranks=2)
    for _ in range(5):
        b.ranks[0].send(1, tag=2, site=("a.c", 1, "main"))
    b.ranks[1].iprobe(0, tag=2, flag=False, polls=1234)
    text = draw_text(b.open(), 120)
    assert "send→1 #2 ×5" in text and "iprobe←0 #2 1,234×no" in text


def test_colour_changes_no_letter() -> None:
    trace = pair().open()
    coloured = draw_text(trace, 90, colour=True)
    assert "\x1b[" in coloured and "\x1b" not in draw_text(trace, 90)
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == draw_text(trace, 90).splitlines()


def test_nothing_of_the_record_steers_the_terminal() -> None:
    b = Builder(ranks=2)
    named = b.comm("MPI_Comm_split", (0, 1), name="\x1b]0;evil\x07")
    b.ranks[0].open.recv(1, comm=named, site=("\x1b[31m.py", 3, "\x07"))
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", draw_text(b.open(), 100))


def test_depth_limits_the_calls_of_a_rank() -> None:
    trace = ring(4).open()
    assert [len(group.steps) for group in group_ranks(trace, 2)] == [2]
    assert [len(group.steps) for group in group_ranks(trace, 9)] == [3]


def test_a_run_without_calls_says_so() -> None:
    assert "no calls were recorded" in draw_text(Builder(ranks=2).open())


def test_the_options_are_there_for_the_command() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert vars(parser.parse_args(["--text", "--last", "3"])) == {"text": True, "last": 3}
