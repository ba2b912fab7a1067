"""Wait states in built traces with known times, and their healthy twins."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.match import match_operations
from weft.trace.builder import Builder
from weft.waits import find, message_matrix, profile

MS = 1_000_000


def found(b: Builder) -> list[Finding]:
    trace = b.open()
    return find(trace, match_operations(trace))


def message(send: tuple[int, int], receive: tuple[int, int], name: str = "send") -> list[Finding]:
    """One message, its calls' entries and exits in ms."""
    b = Builder(ranks=2)
    getattr(b.ranks[0], name)(1, site=("a.c", 3, "f"), enter=send[0] * MS, exit=send[1] * MS)
    b.ranks[1].recv(0, site=("a.c", 7, "f"), enter=receive[0] * MS, exit=receive[1] * MS)
    for r in b.ranks:
        r.call("MPI_Comm_rank", comm=2, rank=0, enter=200 * MS, exit=200 * MS)
    return [f for f in found(b) if f.kind != "imbalance"]


def test_a_late_sender_costs_its_receiver_the_time_until_it_sends() -> None:
    [finding] = message((100, 101), (10, 102))
    assert (finding.kind, finding.severity) == ("late-sender", "note")
    assert finding.facts()["ns"] == 90 * MS
    assert finding.message == (
        "rank 1 waits 90 ms (24% of all ranks' time) in recv at a.c:7 for messages that rank 0 sent late at a.c:3"
    )


def test_a_late_receiver_costs_a_send_that_waits() -> None:
    [finding] = message((10, 103), (100, 102), "ssend")
    assert (finding.kind, finding.facts()["ns"]) == ("late-receiver", 90 * MS)


def test_a_buffered_send_and_a_prompt_message_are_silent() -> None:
    assert message((10, 11), (100, 102)) == []
    assert message((10, 12), (10, 12)) == []


@pytest.mark.parametrize("name", ["barrier", "allreduce"])
def test_the_last_at_a_collective_is_named(name: str) -> None:
    b = Builder(ranks=4)
    for r in b.ranks:
        start = 90 if r.index == 2 else 10
        getattr(r, name)(site=("a.c", 5, "f"), enter=start * MS, exit=100 * MS)
    [finding] = [f for f in found(b) if f.kind != "imbalance"]
    assert finding.kind == "wait-at-collective"
    assert finding.facts()["ns"] == 240 * MS
    assert finding.facts()["late"] == [2]
    assert "ranks 0, 1 and 3 wait 240 ms" in finding.message


def test_a_broadcast_waits_for_its_root_only() -> None:
    def build(late: int) -> list[Finding]:
        b = Builder(ranks=3)
        for r in b.ranks:
            r.bcast(0, enter=(90 if r.index == late else 10) * MS, exit=100 * MS)
        return [f for f in found(b) if f.kind != "imbalance"]

    assert [f.facts()["ns"] for f in build(0)] == [160 * MS]
    assert build(1) == []


def test_uneven_work_is_told_and_even_work_is_not() -> None:
    def build(slow: int) -> list[str]:
        b = Builder(ranks=2)
        for r in b.ranks:
            end = slow if r.index else 100
            r.call("MPI_Init", enter=0, exit=MS)
            r.barrier(enter=end * MS, exit=(max(slow, 100) + 1) * MS)
        return [f.kind for f in found(b)]

    assert "imbalance" in build(300)
    assert build(101) == []


def test_short_waits_are_noise() -> None:
    b = Builder(ranks=2)
    b.ranks[0].barrier(enter=0, exit=2 * MS)
    b.ranks[1].barrier(enter=MS, exit=2 * MS)
    assert found(b) == []


def test_the_tables_count_calls_times_and_bytes() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, count=3, enter=0, exit=5)
    b.ranks[0].send(1, count=2, enter=10, exit=15)
    b.ranks[1].recv(0, count=3, enter=0, exit=20)
    trace = b.open()
    assert [(r.name, r.calls, r.ns) for r in profile(trace)] == [("MPI_Recv", 1, 20), ("MPI_Send", 2, 10)]
    assert [r.name for r in profile(trace, "rank")] == ["rank 1", "rank 0"]
    messages, sizes = message_matrix(trace, match_operations(trace))
    assert messages.tolist() == [[0, 2], [0, 0]]
    assert sizes.tolist() == [[0, 20], [0, 0]]
