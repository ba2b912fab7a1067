"""Logical time against its slow definition, over the runs of random programs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.match import NONE, Match, match_operations
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.view.logical_time import logical_steps
from weft.view.rows import Rows

Step = tuple[str, int, int, int]


def program(made: list[Step], ranks: int, folder: str) -> Trace:
    """A run of messages, collectives and local calls; receives may come long before or after their sends."""
    b = Builder(ranks=ranks, path=Path(folder))
    for what, one, two, tag in made:
        a, z = one % ranks, two % ranks
        if what == "message" and a != z:
            b.ranks[a].send(z, tag)
            b.ranks[z].recv(a, tag)
        elif what == "request" and a != z:
            request = b.ranks[z].irecv(a, tag)
            b.ranks[a].send(z, tag)
            b.ranks[z].wait(request)
        elif what == "lost" and a != z:
            b.ranks[a].send(z, 90 + tag)
        elif what == "barrier":
            for rank in b.ranks:
                rank.barrier()
        else:
            b.ranks[a].call("MPI_Comm_rank", comm=2, rank=a)
    return b.open()


def slow_steps(trace: Trace, found: Match) -> list[list[int]]:
    """By rank and call the step at which it ends: one more than the latest of what it has to come after."""
    ends = [[0] * len(rank) for rank in trace.ranks]

    def start(rank: int, event: int) -> int:
        return ends[rank][event - 1] if event else 0

    causes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in range(len(found.recvs)):
        partner, done = int(found.recvs.partner[row]), int(found.recvs.completion[row])
        if NONE not in (partner, done):
            causes.setdefault((found.recvs.rank_of(row), done), []).append(found.sends.id(partner))
    for instance in range(len(found.instances)):
        parts = [found.collectives.id(int(row)) for row in found.instances.parts(instance)]
        for row in found.instances.parts(instance):
            mine = found.collectives.rank_of(int(row)), int(found.collectives.completion[row])
            causes.setdefault(mine, []).extend(parts)
    for _ in range(sum(map(len, ends)) + 1):
        for rank, calls in enumerate(ends):
            for event in range(len(calls)):
                calls[event] = 1 + max([start(rank, event), *(start(*c) for c in causes.get((rank, event), []))])
    return ends


made_steps = st.lists(
    st.tuples(
        st.sampled_from(("message", "request", "lost", "barrier", "local")),
        st.integers(0, 4), st.integers(0, 4), st.integers(0, 2),
    ),
    min_size=1, max_size=25,
)  # fmt: skip


@pytest.mark.matrix
@settings(max_examples=40, deadline=None)
@given(made_steps, st.integers(2, 5))
def test_a_call_ends_one_step_after_all_that_it_has_to_come_after(made: list[Step], ranks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = program(made, ranks, folder)
        found = match_operations(trace)
        assert [row.tolist() for row in logical_steps(Rows(trace), found)] == slow_steps(trace, found)


def test_a_message_ends_after_it_was_sent_though_clocks_say_otherwise(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    b.ranks[1].recv(0, 5, enter=0, exit=10)
    for _ in range(4):
        b.ranks[0].call("MPI_Comm_rank", comm=2, rank=0)
    b.ranks[0].send(1, 5, enter=100_000, exit=100_010)
    trace = b.open()
    assert [row.tolist() for row in logical_steps(Rows(trace), match_operations(trace))] == [[1, 2, 3, 4, 5], [5]]


@pytest.mark.matrix
def test_a_record_that_contradicts_itself_has_steps_all_the_same(tmp_path: Path) -> None:
    b = Builder(ranks=3, path=tmp_path / "run")
    zero, one, two = b.ranks
    zero.recv(1, 5)  # ranks 0 and 1 receive what the other sends only afterwards
    one.recv(0, 9)
    zero.send(2, 1)  # when rank 0 goes on all the same, rank 2 does too, for which it waits then
    zero.recv(2, 2)
    two.recv(0, 1)
    two.send(0, 2)
    zero.send(1, 9)
    one.send(0, 5)
    trace = b.open()
    found = [row.tolist() for row in logical_steps(Rows(trace), match_operations(trace))]
    assert found == [[1, 2, 3, 4], [4, 5], [2, 3]]
