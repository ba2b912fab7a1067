"""Requests and pending buffers in built traces: each wrong one and its corrected twin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from proofs import unproven

from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.terms import calls
from weft.trace.builder import Builder, Request
from weft.trace.layout import PROC_NULL
from weft.usage.long_ranks import find


def found(b: Builder) -> list[Finding]:
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    findings = find(trace)
    assert unproven(trace, findings, order_events(trace, match_operations(trace))) == []
    return findings


def kinds(b: Builder) -> list[str]:
    return [f.kind for f in found(b)]


def at(line: int) -> tuple[str, int, str]:
    return ("a.c", line, "main")


def test_a_request_that_nobody_completes_leaks() -> None:
    b = Builder(ranks=2)
    b.ranks[0].isend(1, tag=3, site=at(5))
    [finding] = found(b)
    assert finding.kind == "request-leak"
    assert "never completes the request of isend(dest=1, tag=3) at a.c:5" in finding.message


def test_completed_requests_are_silent_whichever_call_completes_them() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.wait(r0.isend(1, buffer=0x100))
    r0.waitall([r0.isend(1, buffer=0x100), r0.isend(1, buffer=0x200)])
    r1.test(r1.irecv(0, buffer=0x100), flag=False)
    assert kinds(b) == ["request-leak"]
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    requests = [r0.irecv(1, buffer=0x100), r0.irecv(1, buffer=0x200)]
    r0.waitany(requests, 1)
    r0.test(requests[0])
    assert kinds(b) == []


def test_a_shared_handle_of_finished_sends_is_no_leak() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.isend(1, buffer=0x100)
    last = r0.isend(1, buffer=0x100)
    r0.waitall([last, last])
    assert kinds(b) == []


def test_a_persistent_request_is_started_completed_and_freed() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    request = r0.recv_init(1)
    for _ in range(3):
        r0.start(request)
        r0.wait(request)
    r0.call("MPI_Request_free", request=request)
    assert kinds(b) == []


def test_a_persistent_request_never_started_or_never_freed() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.recv_init(1)
    assert sorted(kinds(b)) == ["request-leak", "request-misuse"]


def test_a_start_of_an_active_request() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    request = r0.recv_init(1)
    r0.start(request, site=at(4))
    r0.start(request, site=at(5))
    r0.wait(request)
    r0.wait(request)
    r0.call("MPI_Request_free", request=request)
    [finding] = found(b)
    assert finding.kind == "request-misuse"
    assert "again at a.c:5, while it is active from its start at a.c:4" in finding.message


def test_a_start_of_a_request_that_is_not_persistent() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    request = r0.irecv(1)
    r0.start(request)
    r0.wait(request)
    assert kinds(b) == ["request-misuse"]


def test_an_active_receive_that_is_freed() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.call("MPI_Request_free", request=r0.irecv(1))
    assert kinds(b) == ["request-misuse"]
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.call("MPI_Request_free", request=r0.isend(1))
    assert kinds(b) == []


def test_two_pending_receives_into_one_buffer() -> None:
    def build(apart: int, wait_between: bool = False) -> Builder:
        b = Builder(ranks=2)
        r0 = b.ranks[0]
        first = r0.irecv(1, count=4, buffer=0x1000)
        if wait_between:
            r0.wait(first)
        second = r0.irecv(1, count=4, buffer=0x1000 + apart)
        if not wait_between:
            r0.wait(first)
        r0.wait(second)
        return b

    assert kinds(build(0)) == ["buffer-reuse"]
    assert kinds(build(15)) == ["buffer-reuse"]
    assert kinds(build(16)) == []
    assert kinds(build(0, wait_between=True)) == []


def test_a_blocking_send_from_a_pending_receive() -> None:
    def build(buffer: int) -> Builder:
        b = Builder(ranks=2)
        r0 = b.ranks[0]
        request = r0.irecv(1, count=4, buffer=0x1000)
        r0.send(1, count=4, buffer=buffer)
        r0.wait(request)
        return b

    assert kinds(build(0x1000)) == ["buffer-reuse"]
    assert kinds(build(0x2000)) == []


def test_two_sends_may_share_a_buffer() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.waitall([r0.isend(1, buffer=0x1000), r0.isend(1, buffer=0x1000)])
    assert kinds(b) == []


@pytest.mark.parametrize("apart", [0, 4])
def test_receives_that_one_startall_starts_into_the_same_bytes_are_told(apart: int) -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    requests = [r0.recv_init(1, count=1, buffer=0x1000 + i * apart) for i in range(2)]
    r0.startall(requests, site=at(5))
    for _ in range(2):
        r1.send(0)
    r0.waitall(requests)
    for request in requests:
        r0.request_free(request)
    assert [f.kind for f in found(b)] == ([] if apart else ["buffer-reuse"])


def test_columns_of_a_matrix_do_not_overlap() -> None:
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    column = r0.type_vector(3, 1, 4, "MPI_INT")
    r0.type_commit(column)
    requests = [r0.irecv(1, datatype=column, buffer=0x1000), r0.irecv(1, datatype=column, buffer=0x1004)]
    r0.waitall(requests)
    assert kinds(b) == []


def test_a_send_buffer_that_changed() -> None:
    from weft.trace import Flag

    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.wait(r0.isend(1, site=at(3)), flags=Flag.BUFFER_CHANGED, site=at(5))
    [finding] = found(b)
    assert finding.message.startswith("rank 0 changed the buffer of the pending isend(dest=1, tag=0) at a.c:3")


def test_a_rank_that_was_killed_leaks_nothing() -> None:
    b = Builder(ranks=1)
    b.ranks[0].isend(0)
    b.ranks[0].open.barrier()
    assert find(b.open()) == []


def test_a_stale_copy_of_a_handle_is_told() -> None:
    for call in ("wait", "test", "request_free"):
        b = Builder(ranks=2)
        r0 = b.ranks[0]
        made = r0.irecv(1, site=at(5))
        r0.wait(made)
        getattr(r0, call)(Request(r0.new_id("REQUEST"), "MPI_Irecv"), site=at(7))
        [finding] = found(b)
        assert (finding.kind, finding.certainty) == ("request-misuse", "certain")
        assert [site.line for site in finding.sites] == [7, 5]
        assert "is already complete, that of irecv(source=1, tag=0) at a.c:5" in finding.message


def test_a_request_that_no_call_made_is_no_stale_copy() -> None:
    for failing in (False, True):
        b = Builder(ranks=2)
        r0 = b.ranks[0]
        if failing:
            r0.call("MPI_Irecv", source=2, tag=0, error=6, site=at(5))
        r0.wait(Request(r0.new_id("REQUEST"), "MPI_Irecv"), site=at(7))
        [finding] = found(b)
        assert (finding.kind, finding.certainty) == ("request-misuse", "certain")
        assert [site.line for site in finding.sites] == [7, 5][: 1 + failing]
        why = (
            "irecv(source=2, tag=0) at a.c:5 failed, and left its handle as it was"
            if failing
            else "its handle was never set"
        )
        assert finding.message.endswith(f"a.c:7 that no call made: {why}")


def test_a_lost_id_of_a_finished_send_is_no_stale_copy() -> None:
    """MPICH gave two sends one handle: the first wait took the second's id, the second wait finds none."""
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.isend(1, buffer=0x100)
    last = r0.isend(1, buffer=0x200)
    r0.wait(last)
    r0.wait(Request(r0.new_id("REQUEST"), "MPI_Isend"))
    assert kinds(b) == []


def test_the_shared_handle_of_operations_with_nobody_is_no_leak() -> None:
    """Open MPI gives all of them one handle: the id of the earlier one is lost."""
    b = Builder(ranks=2)
    r0 = b.ranks[0]
    r0.irecv(PROC_NULL, got=PROC_NULL, buffer=0x100)
    last = r0.irecv(PROC_NULL, got=PROC_NULL, buffer=0x200)
    r0.waitall([last, last])
    assert kinds(b) == []


def test_polls_that_failed_complete_nothing_whatever_lies_behind_their_arguments() -> None:
    """The next tail begins with 2, 2, 0: read as the outcome of the polls, that is one request, the first."""
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    requests = [r0.irecv(1, tag=k, buffer=4096 * (k + 1), site=at(5 + k)) for k in range(2)]
    r0.testsome(requests, [], polls=7)
    for r in b.ranks:
        counts = {
            "sendcounts": [1, 0],
            "sdispls": [0, 0],
            "recvcounts": [1, 0] if r is r0 else [0, 0],
            "rdispls": [0, 0],
        }
        r.call(
            "MPI_Alltoallv", **counts, sendtype="MPI_INT", recvtype="MPI_INT", comm=2, sendbuf=1 << 20, recvbuf=1 << 21
        )
    for k in range(2):
        r1.send(0, tag=k)
    r0.testsome(requests, [0])
    r0.wait(requests[1])
    assert found(b) == []


@pytest.mark.parametrize("name", ["allreduce", "bcast"])
def test_a_collective_on_the_buffer_of_a_pending_receive_is_found(name: str) -> None:
    def build(buffer: int) -> list[str]:
        b = Builder(ranks=2)
        pending = b.ranks[0].irecv(1, buffer=0x1000)
        for r in b.ranks:
            where = {"sendbuf": buffer, "recvbuf": 0x9000} if name == "allreduce" else {"buffer": buffer}
            getattr(r, name)(**where)
        b.ranks[1].send(0, buffer=0x3000)
        b.ranks[0].wait(pending)
        return kinds(b)

    assert build(0x1000) == ["buffer-reuse"]
    assert build(0x2000) == []


def test_a_broadcast_only_reads_at_its_root() -> None:
    def build(root: int) -> list[str]:
        b = Builder(ranks=2)
        pending = b.ranks[0].isend(1, buffer=0x1000)
        for r in b.ranks:
            r.bcast(root, buffer=0x1000)
        b.ranks[1].recv(0, buffer=0x3000)
        b.ranks[0].wait(pending)
        return kinds(b)

    assert build(1) == ["buffer-reuse"]
    assert build(0) == []


@pytest.mark.parametrize("done", [False, True])
def test_each_maker_of_a_request_is_known_and_silent_when_the_request_is_completed(done: bool) -> None:
    """Requests that persist are freed, the others waited for."""
    makers = sorted(calls.REQUEST_MAKERS)
    b = Builder(ranks=1)
    rank = b.ranks[0]
    for line, name in enumerate(makers, 1):
        request = Request(rank.new_id("REQUEST"), f"MPI_{name}")
        rank.call(f"MPI_{name}", request=request, site=at(line))
        if done:
            (rank.request_free if name in calls.PERSISTENT else rank.wait)(request)
    rank.finalize()
    leaks = [f for f in find(b.open()) if f.kind == "request-leak"]
    assert len(makers) > 75
    assert sorted(makers[f.sites[0].line - 1] for f in leaks) == ([] if done else makers)


def test_a_leak_names_the_wait_that_completes_others_of_its_line() -> None:
    def sends(*, wait_always: bool) -> Builder:
        b = Builder(ranks=2)
        for step in range(3):
            request = b.ranks[0].isend(1, site=at(4))
            if wait_always or step != 1:
                b.ranks[0].wait(request, site=at(6))
            b.ranks[1].recv(0)
        return b

    [leak] = found(sends(wait_always=False))
    assert leak.kind == "request-leak" and "though wait at a.c:6 completes others of that line" in leak.message
    assert not found(sends(wait_always=True))
