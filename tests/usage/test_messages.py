"""Messages in built traces: each wrong one and its corrected twin."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.match import match_operations
from weft.trace import State
from weft.trace.builder import Builder
from weft.usage.messages import find


def found(b: Builder) -> list[Finding]:
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    return find(trace, match_operations(trace))


def kinds(b: Builder) -> list[str]:
    return [f.kind for f in found(b)]


def at(line: int) -> tuple[str, int, str]:
    return ("a.c", line, "main")


def pair(send: dict[str, object], receive: dict[str, object]) -> Builder:
    b = Builder(ranks=2)
    b.ranks[0].send(1, site=at(3), **send)  # type: ignore[arg-type]
    b.ranks[1].recv(0, site=at(7), **receive)  # type: ignore[arg-type]
    return b


def test_a_message_that_nobody_receives() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7, site=at(3))
    [finding] = found(b)
    assert finding.kind == "unmatched-send"
    assert finding.message == (
        "the message of rank 0 to rank 1 in send(dest=1, tag=7) at a.c:3 is never received: rank 1 posts no receive "
        "for it"
    )


def freed_with(receives: bool, ended: State, on: str = "own") -> list[str]:
    """Rank 0 sends on one of two communicators of all, and MPI never lets rank 1 return from the freeing of `own`."""
    b = Builder(ranks=2)
    comms = {name: b.comm("MPI_Comm_dup", [0, 1], name=name) for name in ("own", "other")}
    b.ranks[0].send(1, comm=comms[on], site=at(3))
    if receives:
        b.ranks[1].recv(0, comm=comms[on], site=at(4))
    b.ranks[1].open.comm_free(comms["own"], site=at(5))
    b.ranks[1].state = ended
    trace = b.open()
    return [one.kind for one in find(trace, match_operations(trace))]


def test_a_message_on_a_communicator_in_whose_freeing_mpi_ended_the_receiver() -> None:
    assert freed_with(False, State.EXITED) == ["unmatched-send"]
    assert freed_with(True, State.EXITED) == []
    assert freed_with(False, State.EXITED, on="other") == []  # it may have been received later, had MPI not ended it
    assert freed_with(False, State.RUNNING) == []


def test_the_near_miss_is_told() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7, site=at(3))
    b.ranks[1].irecv(0, tag=17, site=at(5))
    [send] = found(b)  # the receive itself is a request that leaks
    assert send.kind == "unmatched-send"
    assert send.message.endswith("rank 1 waits for tag 17 at a.c:5")


def test_a_freed_receive_without_a_message_tells_the_near_miss_too() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7, site=at(3))
    q = b.ranks[1].irecv(0, tag=17, site=at(5))
    b.ranks[1].request_free(q)
    send, receive = found(b)
    assert (send.kind, receive.kind) == ("unmatched-send", "unmatched-receive")
    assert receive.message.endswith("rank 0 sent tag 7 at a.c:3")


def test_a_matched_message_is_silent() -> None:
    assert kinds(pair({"tag": 7}, {"tag": 7})) == []


def test_a_message_on_its_way_in_a_run_that_was_killed_is_silent() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7)
    b.ranks[1].open.barrier()
    trace = b.open()
    assert find(trace, match_operations(trace)) == []


def test_a_cancelled_receive_is_silent() -> None:
    b = Builder(ranks=2)
    request = b.ranks[1].irecv(0, tag=7, cancelled=True)
    b.ranks[1].call("MPI_Cancel", request=request)
    b.ranks[1].wait(request)
    assert kinds(b) == []


def test_other_types_are_a_mismatch_and_equal_ones_are_not() -> None:
    assert kinds(pair({"datatype": "MPI_INT"}, {"datatype": "MPI_FLOAT"})) == ["type-mismatch"]
    assert kinds(pair({"datatype": "MPI_INT"}, {"datatype": "MPI_INT", "count": 5})) == []
    assert kinds(pair({"datatype": "MPI_LONG"}, {"datatype": "MPI_INT64_T"})) == []
    assert kinds(pair({"datatype": "MPI_INT"}, {"datatype": "MPI_PACKED", "count": 4})) == []


def test_bytes_for_a_type_are_a_warning() -> None:
    [finding] = found(pair({"datatype": "MPI_INT"}, {"datatype": "MPI_BYTE", "count": 4}))
    assert finding.severity == "warning"


def test_a_message_longer_than_its_receive_is_truncated() -> None:
    [finding] = found(pair({"count": 10}, {"count": 4}))
    assert finding.kind == "truncation"
    assert "sends 40 bytes where rank 1 in recv(source=0, tag=0) at a.c:7 has room for 16" in finding.message


def test_a_derived_type_fits_its_elements() -> None:
    def build(wanted: str) -> Builder:
        b = Builder(ranks=2)
        vector = b.ranks[0].type_vector(2, 3, 5, "MPI_INT")
        b.ranks[0].send(1, datatype=vector)
        b.ranks[1].recv(0, count=6 if wanted == "MPI_INT" else 3, datatype=wanted)
        return b

    assert kinds(build("MPI_INT")) == []
    assert kinds(build("MPI_DOUBLE")) == ["type-mismatch"]


def test_the_halves_of_a_sendrecv_have_their_own_types() -> None:
    b = Builder(ranks=2)
    for r in b.ranks:
        r.sendrecv(1 - r.index, 1 - r.index, count=4, datatype="MPI_INT", recvcount=2)
    assert kinds(b) == ["truncation", "truncation"]


@pytest.mark.parametrize(
    ("parts", "tags", "told"),
    [((2, 4), (1,), []), ((8, 1), (1,), []), ((2, 2), (1,), ["truncation"]), ((2, 2), (1, 1), [])],
    ids=["alike", "other parts", "too long", "two of one tag"],
)
def test_a_partitioned_message_is_compared_as_a_whole(
    parts: tuple[int, int], tags: tuple[int, ...], told: list[str]
) -> None:
    """2 times 4 elements; of several of one tag it is not looked into which is whose."""
    b = Builder(ranks=2)
    sides = (("MPI_Psend_init", "dest", (2, 4)), ("MPI_Precv_init", "source", parts))
    for rank, (function, peer, (partitions, count)) in zip(b.ranks, sides, strict=True):
        for number, tag in enumerate(tags):
            rank.call(
                function, buf=0x1000, partitions=partitions, count=count, datatype="MPI_INT", comm=2,
                info=1, request=300 + number, tag=tag, **{peer: 1 - rank.index},
            )  # fmt: skip
            rank.call("MPI_Start", request=300 + number)
            rank.call("MPI_Wait", request=300 + number)
    assert kinds(b) == told
