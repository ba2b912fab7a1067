"""Buffers of one call that share bytes in built traces, and those that only lie close."""

from __future__ import annotations

import pytest

from weft.trace.builder import Builder, RankBuilder
from weft.trace.layout import IN_PLACE, PROC_NULL
from weft.usage.arguments import find


def found(make) -> list[str]:  # type: ignore[no-untyped-def]
    b = Builder(ranks=2)
    make(b.ranks[0])
    return [str(f.facts()["parameter"]) for f in find(b.open())]


def sendrecv(r: RankBuilder, apart: int, *, source: int = 1, count: int = 2) -> None:
    r.call(
        "MPI_Sendrecv", sendbuf=0x100, sendcount=2, sendtype="MPI_INT", dest=1, sendtag=0, recvbuf=0x100 + apart,
        recvcount=count, recvtype="MPI_INT", source=source, recvtag=0, comm=2,
    )  # fmt: skip


@pytest.mark.parametrize("apart", [-8, -7, -4, 4, 7, 8])
def test_a_message_that_is_received_into_what_is_sent_is_told_from_the_first_byte_on(apart: int) -> None:
    assert found(lambda r: sendrecv(r, apart)) == (["recvbuf"] if abs(apart) < 8 else [])


def test_nothing_that_is_received_shares_no_byte() -> None:
    assert found(lambda r: (sendrecv(r, 4, source=PROC_NULL), sendrecv(r, 4, count=0))) == []


@pytest.mark.parametrize("second", [0, 1, 2])
@pytest.mark.parametrize("sendbuf", [0x900, IN_PLACE])
def test_blocks_of_two_members_are_told_where_they_meet(second: int, sendbuf: int) -> None:
    def gatherv(r: RankBuilder) -> None:
        r.call(
            "MPI_Allgatherv", sendbuf=sendbuf, sendcount=2, sendtype="MPI_INT", recvbuf=0x100, recvcounts=[2, 2],
            displs=[0, second], recvtype="MPI_INT", comm=2,
        )  # fmt: skip

    assert found(gatherv) == (["displs"] if second < 2 and sendbuf != IN_PLACE else [])


def test_a_datatype_whose_entries_overlap_may_be_sent_and_not_received() -> None:
    def made(r: RankBuilder) -> int:
        kind = r.type_vector(2, 2, 1, "MPI_INT")
        r.type_commit(kind)
        return kind

    assert found(lambda r: r.send(1, datatype=made(r))) == []
    assert found(lambda r: r.recv(1, datatype=made(r))) == ["datatype"]
    assert found(lambda r: r.recv(1, datatype=made(r), count=0)) == []
