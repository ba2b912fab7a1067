"""Calls after the end and from threads that may not call, in built traces, and their allowed twins."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.usage.lifetime_and_threads import find


def told(b: Builder, level: int = 3) -> list[Finding]:
    trace: Trace = b.open()
    for rank in trace.ranks:
        assert rank.header is not None
        rank.header.thread_level = level
    return find(trace)


def threaded(first: tuple[int, int], second: tuple[int, int], level: int, name: str = "MPI_Barrier") -> list[Finding]:
    """One call in each of two threads, with the times of entry and exit."""
    b = Builder(ranks=1)
    b.ranks[0].init(enter=0, exit=1)
    b.ranks[0].call(name, enter=first[0], exit=first[1], site=("a.c", 4, "main"))
    b.ranks[0].call(name, enter=second[0], exit=second[1], thread=1, site=("a.c", 9, "work"))
    return told(b, level)


def test_a_call_after_finalize_is_told() -> None:
    b = Builder(ranks=1)
    b.ranks[0].init()
    b.ranks[0].finalize(site=("a.c", 7, "main"))
    b.ranks[0].call("MPI_Barrier", comm=2, site=("a.c", 8, "main"))
    [finding] = told(b)
    assert finding.message == "rank 0 calls MPI_Barrier at a.c:8 after MPI_Finalize at a.c:7"


def test_what_may_be_called_at_any_time_is_silent() -> None:
    b = Builder(ranks=1)
    b.ranks[0].init()
    b.ranks[0].finalize()
    b.ranks[0].call("MPI_Finalized", flag=1)
    assert told(b) == []


@pytest.mark.parametrize("level", [0, 1])
def test_another_thread_may_not_call_below_serialized(level: int) -> None:
    [finding] = threaded((10, 20), (30, 40), level)
    assert "from another thread than the one that initialised MPI" in finding.message
    assert threaded((10, 20), (30, 40), level, "MPI_Initialized") == []


def test_two_threads_at_once_need_multiple() -> None:
    [finding] = threaded((10, 30), (20, 40), 2)
    assert "while another of its threads is still in MPI_Barrier at a.c:4" in finding.message
    assert threaded((10, 20), (30, 40), 2) == []
    assert threaded((10, 30), (20, 40), 3) == []


def test_a_fold_of_failed_polls_is_no_single_call() -> None:
    b = Builder(ranks=1)
    r = b.ranks[0]
    r.init(enter=0, exit=1)
    request = r.irecv(0, enter=2, exit=3)
    r.test(request, flag=False, polls=9, enter=10, exit=50)
    r.call("MPI_Barrier", comm=2, enter=20, exit=30, thread=1)
    assert told(b, 2) == []


def test_two_threads_in_collectives_of_one_communicator_at_once_are_told() -> None:
    def collectives(second: tuple[int, int], comm: int = 2) -> list[Finding]:
        b = Builder(ranks=1)
        b.ranks[0].init(enter=0, exit=1)
        b.ranks[0].call("MPI_Barrier", comm=2, enter=10, exit=30, site=("a.c", 4, "main"))
        enter, exit = second
        b.ranks[0].call("MPI_Barrier", comm=comm, enter=enter, exit=exit, thread=1, site=("a.c", 9, "work"))
        return told(b)

    [finding] = collectives((20, 40))
    assert finding.kind == "collective-mismatch"
    assert "while another of its threads is still in barrier at a.c:4 on it" in finding.message
    assert collectives((30, 40)) == []
    assert collectives((20, 40), comm=3) == []
