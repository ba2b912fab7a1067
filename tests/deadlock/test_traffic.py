"""Accounts of messages, on built traces."""

from __future__ import annotations

from weft.deadlock.message_balance import Channel, make_ledgers
from weft.deadlock.traffic import Traffic
from weft.trace import Status, Trace
from weft.trace.builder import ANY, Builder


def _ledger(trace: Trace, rank: int):  # type: ignore[no-untyped-def]
    return make_ledgers([Traffic(r) for r in trace.ranks], {rank})[rank]


def test_a_message_without_a_receive_is_left() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7)
    b.ranks[0].send(1, tag=8)
    b.ranks[1].recv(0, tag=8)
    assert _ledger(b.open(), 1).left == {Channel(0, 0, 7): 1}


def test_a_wildcard_receive_counts_for_the_channel_that_its_status_names() -> None:
    b = Builder(ranks=3)
    b.ranks[0].send(2, tag=7)
    b.ranks[1].send(2, tag=7)
    b.ranks[2].recv(ANY, got=1, tag=7)
    assert _ledger(b.open(), 2).left == {Channel(0, 0, 7): 1}


def test_a_nonblocking_wildcard_is_resolved_by_its_wait() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(2, tag=7)
    r1.send(2, tag=9)
    request = r2.irecv(ANY, tag=ANY)
    r2.call("MPI_Waitall", count=1, array_of_requests=[request], array_of_statuses=[Status(1, 9, 4)])
    assert _ledger(b.open(), 2).left == {Channel(0, 0, 7): 1}


def test_a_pending_wildcard_takes_the_only_message_before_a_later_receive() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7)
    b.ranks[1].irecv(ANY, tag=7)
    last = b.ranks[1].open.recv(0, tag=7)
    ledger = _ledger(b.open(), 1)
    assert not ledger.left
    assert not ledger.is_served(last, 0, Channel(0, 0, 7))


def test_which_of_two_messages_a_pending_wildcard_takes_is_left_open() -> None:
    b = Builder(ranks=3)
    b.ranks[0].send(2, tag=7)
    b.ranks[1].send(2, tag=7)
    b.ranks[2].irecv(ANY, tag=7)
    last = b.ranks[2].open.recv(0, tag=7)
    assert _ledger(b.open(), 2).is_served(last, 0, Channel(0, 0, 7))


def test_sendrecv_is_a_send_and_a_receive() -> None:
    b = Builder(ranks=2)
    for me in (0, 1):
        b.ranks[me].call(
            "MPI_Sendrecv", sendbuf=1, sendcount=1, sendtype="MPI_INT", dest=1 - me, sendtag=3, recvbuf=2, recvcount=1,
            recvtype="MPI_INT", source=ANY, recvtag=3, comm="MPI_COMM_WORLD", status=Status(1 - me, 3, 4),
        )  # fmt: skip
    trace = b.open()
    assert not _ledger(trace, 0).left and not _ledger(trace, 1).left and not _ledger(trace, 1).hungry
