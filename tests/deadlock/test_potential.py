"""Potential deadlocks in built traces: unsafe programs that got through, and safe ones."""

from __future__ import annotations

import pytest

from weft.deadlock.unbuffered_sends import find
from weft.findings import Finding
from weft.match import match_operations
from weft.trace.builder import Builder


def found(b: Builder) -> list[Finding]:
    trace = b.open()
    return find(trace, match_operations(trace))


def at(line: int) -> tuple[str, int, str]:
    return ("halo.py", line, "main")


def exchange(first: str, ranks: int = 2, times: int = 1) -> Builder:
    b = Builder(ranks=ranks)
    for _ in range(times):
        for r in b.ranks:
            send = getattr(r, first)
            r.request = send((r.index + 1) % ranks, tag=1, site=at(5))
        for r in b.ranks:
            r.recv((r.index - 1) % ranks, tag=1, site=at(6))
            if first == "isend":
                r.wait(r.request)
    return b


def test_two_ranks_that_send_first_are_unsafe() -> None:
    [finding] = found(exchange("send"))
    assert (finding.kind, finding.severity, finding.certainty) == ("potential-deadlock", "warning", "certain")
    assert finding.ranks == (0, 1)
    assert finding.message == (
        "rank 0 sends to rank 1 at halo.py:5 (received at halo.py:6) and rank 1 sends to rank 0 at halo.py:5 "
        "(received at halo.py:6): this got through only because messages were buffered"
    )


def test_nonblocking_and_buffered_sends_are_safe() -> None:
    assert found(exchange("isend")) == []
    assert found(exchange("bsend")) == []


def test_a_thousand_iterations_of_one_cause_are_one_finding() -> None:
    assert len(found(exchange("send", ranks=4, times=1000))) == 1


def test_red_and_black_is_safe() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.send(1)
    r1.recv(0)
    r1.send(0)
    r0.recv(1)
    assert found(b) == []


def test_a_wait_before_the_receive_is_unsafe() -> None:
    b = Builder(ranks=2)
    for r in b.ranks:
        r.wait(r.isend(1 - r.index))
    for r in b.ranks:
        r.recv(1 - r.index)
    assert len(found(b)) == 1


def test_a_send_before_a_collective_that_is_received_behind_it_is_unsafe() -> None:
    def build(early: bool) -> Builder:
        b = Builder(ranks=2)
        r0, r1 = b.ranks
        r0.send(1, site=at(3))
        if early:
            r1.recv(0)
        r0.barrier()
        r1.barrier(site=at(8))
        if not early:
            r1.recv(0, site=at(9))
        return b

    [finding] = found(build(False))
    assert finding.ranks == (0, 1)
    assert found(build(True)) == []


def test_a_send_to_oneself_before_the_receive_is_unsafe() -> None:
    b = Builder(ranks=1)
    b.ranks[0].send(0)
    b.ranks[0].recv(0)
    [finding] = found(b)
    assert "sends to itself" in finding.message
    b = Builder(ranks=1)
    request = b.ranks[0].irecv(0)
    b.ranks[0].send(0)
    b.ranks[0].wait(request)
    assert found(b) == []


def test_a_run_that_hangs_has_a_deadlock_and_no_potential_one() -> None:
    b = exchange("send")
    b.ranks[0].open.recv(1)
    b.ranks[1].open.recv(0)
    assert found(b) == []


@pytest.mark.parametrize(("tag", "safe"), [(3, True), (4, False)])
def test_a_wildcard_that_would_take_the_message_that_is_there_is_safe(tag: int, safe: bool) -> None:
    """Rank 1's second message came before rank 2's first; with sends that wait, rank 2's is there first, if it fits."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0, tag=3, site=at(5))
    r2.send(0, tag=tag, site=at(6))
    r2.send(1, tag=1, site=at(7))
    r1.recv(2, tag=1, site=at(8))
    r1.send(0, tag=3, site=at(5))
    for source in (1, 1):
        r0.recv(tag=3, got=source, site=at(9))
    r0.recv(tag=tag, got=2, site=at(10))
    assert [f.ranks for f in found(b)] == ([] if safe else [(0, 1, 2)])


EARLY = ("Bcast", "Scatter", "Gather", "Reduce", "Scan")


def early(name: str, *, behind: bool, pending: bool) -> Builder:
    """Rank 0 sends behind a collective that rank 1 calls when it has the message, or where `behind` when it has not."""
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    getattr(r0, name.lower())(site=at(10))
    if pending:
        r0.wait(r0.isend(1, tag=1, site=at(11)), site=at(12))
    else:
        r0.send(1, tag=1, site=at(11))
    if behind:
        getattr(r1, name.lower())(site=at(20))
    if pending:
        r1.wait(r1.irecv(0, tag=1, site=at(21)), site=at(22))
    else:
        r1.recv(0, tag=1, site=at(21))
    if not behind:
        getattr(r1, name.lower())(site=at(20))
    return b


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("name", EARLY)
def test_a_receive_before_a_collective_that_its_sender_may_wait_in(name: str, pending: bool) -> None:
    [finding] = found(early(name, behind=False, pending=pending))
    assert {site.line for site in finding.sites} == {10, 20, 22 if pending else 21}
    called = name.lower() + ("(root=0)" if name != "Scan" else "")
    assert f"only because rank 0 left {called} at halo.py:10 before all had come" in finding.message
    assert finding.message.endswith("(rank 1 comes to it at halo.py:20)")
    assert found(early(name, behind=True, pending=pending)) == []


def test_a_collective_that_a_successful_test_completes_is_no_wait() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.test(r0.ibcast())
    r0.send(1, tag=1)
    r1.recv(0, tag=1)
    r1.wait(r1.ibcast())
    assert found(b) == []


@pytest.mark.parametrize("call", ["test", "testall", "testany"])
def test_a_send_that_a_test_found_complete_is_no_wait_but_one_that_is_polled_for_is(call: str) -> None:
    def build(polls: int, between: bool = False) -> list[Finding]:
        b = Builder(ranks=2)
        sent = [r.isend(1 - r.rank, tag=1, site=at(3)) for r in b.ranks]
        for r, request in zip(b.ranks, sent, strict=True):
            requests = request if call == "test" else [request]
            if polls:
                getattr(r, call)(requests, site=at(4), **({"index": None} if call == "testany" else {"flag": False}))
            if between:
                r.send(r.rank, tag=9)
                r.recv(r.rank, tag=9)
            getattr(r, call)(requests, site=at(4))
        for r in b.ranks:
            r.recv(1 - r.rank, tag=1, site=at(5))
        return found(b)

    assert build(0) == []  # had it not been complete, the program might have gone on to its receive
    [finding] = build(3)
    assert finding.certainty == "possible" and finding.sites[0].line == 3
    assert [f for f in build(3, between=True) if f.sites[0].line == 3] == []


@pytest.mark.parametrize("is_tested", [True, False])
def test_what_comes_after_a_test_that_would_have_failed_proves_nothing(is_tested: bool) -> None:
    """MUMPS sends lengths and values, receives what has come until the lengths are sent, then waits for the values."""
    b = Builder(ranks=2)
    sent = [(r.isend(1 - r.rank, tag=1, site=at(3)), r.isend(1 - r.rank, tag=2, site=at(4))) for r in b.ranks]
    for r, (lengths, values) in zip(b.ranks, sent, strict=True):
        if is_tested:
            r.test(lengths, site=at(5))
        r.wait(values, site=at(6))
    for r, (lengths, _) in zip(b.ranks, sent, strict=True):
        r.recv(1 - r.rank, tag=1, site=at(7))
        r.recv(1 - r.rank, tag=2, site=at(8))
        if not is_tested:
            r.wait(lengths, site=at(9))
    assert [finding.sites[0].line for finding in found(b)] == ([] if is_tested else [4])


def test_what_proves_nothing_for_some_ranks_does_not_silence_others() -> None:
    b = Builder(ranks=4)
    for r in b.ranks[:2]:
        r.send(1 - r.rank, tag=9, site=at(1))
    for r in b.ranks[:2]:
        r.recv(1 - r.rank, tag=9, site=at(2))
    two = b.ranks[2:]
    sent = [(r.isend(5 - r.rank, tag=1, site=at(3)), r.isend(5 - r.rank, tag=2, site=at(4))) for r in two]
    for r, (lengths, values) in zip(two, sent, strict=True):
        r.test(lengths, site=at(5))
        r.wait(values, site=at(6))
    for r in two:
        r.recv(5 - r.rank, tag=1, site=at(7))
        r.recv(5 - r.rank, tag=2, site=at(8))
    assert [(finding.ranks, finding.sites[0].line) for finding in found(b)] == [((0, 1), 1)]


def test_a_test_that_found_a_received_message_sent_proves_as_before() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    early = r0.isend(1, tag=1, site=at(3))
    r1.recv(0, tag=1, site=at(4))
    r0.test(early, site=at(5))
    sent = [r.isend(1 - r.rank, tag=2, site=at(6)) for r in b.ranks]
    for r, request in zip(b.ranks, sent, strict=True):
        r.wait(request, site=at(7))
    for r in b.ranks:
        r.recv(1 - r.rank, tag=2, site=at(8))
    assert [finding.sites[0].line for finding in found(b)] == [6]


def test_a_wait_for_any_of_several_sends_is_possible_not_certain() -> None:
    b = Builder(ranks=2)
    sent = [r.isend(1 - r.rank, tag=1, site=at(3)) for r in b.ranks]
    for r, request in zip(b.ranks, sent, strict=True):
        r.waitany([request], index=0, site=at(4))
    for r in b.ranks:
        r.recv(1 - r.rank, tag=1, site=at(5))
    [finding] = found(b)
    assert finding.certainty == "possible"
