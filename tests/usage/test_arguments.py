"""Forbidden arguments in built traces, and the allowed ones next to them."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.trace import State
from weft.trace.builder import ANY, PROC_NULL, Builder, RankBuilder
from weft.trace.layout import IN_PLACE, ROOT, Def
from weft.trace.varint import encode_string
from weft.usage.arguments import find


def found(make) -> list[Finding]:  # type: ignore[no-untyped-def]
    b = Builder(ranks=3)
    make(b.ranks[0])
    return find(b.open())


def _sendrecv(r: RankBuilder) -> None:
    r.call(
        "MPI_Sendrecv", sendbuf=0x100, sendcount=1, sendtype="MPI_INT", dest=1, sendtag=0, recvbuf=0x100, recvcount=1,
        recvtype="MPI_INT", source=1, recvtag=0, comm=2,
    )  # fmt: skip


WRONG = {
    "count": lambda r: r.send(1, count=-1),
    "dest": lambda r: r.send(3),
    "dest negative": lambda r: r.open.send(-7),
    "dest any": lambda r: r.send(ANY),
    "source": lambda r: r.open.recv(5),
    "tag": lambda r: r.send(1, tag=-4),
    "tag any": lambda r: r.send(1, tag=-1),
    "tag receive": lambda r: r.open.recv(1, tag=-9),
    "root": lambda r: r.bcast(3),
    "root negative": lambda r: r.bcast(-1),
    "comm": lambda r: r.send(1, comm="MPI_COMM_NULL"),
    "datatype": lambda r: r.send(1, datatype="MPI_DATATYPE_NULL"),
    "datatype uncommitted": lambda r: r.send(1, datatype=r.type_contiguous(2, "MPI_INT")),
    "op": lambda r: r.allreduce(op="MPI_OP_NULL"),
    "op on type": lambda r: r.allreduce(op="MPI_BAND", datatype="MPI_DOUBLE"),
    "op minloc": lambda r: r.allreduce(op="MPI_MINLOC", datatype="MPI_INT"),
    "recvbuf": lambda r: r.allreduce(sendbuf=0x100, recvbuf=0x100),
    "recvbuf sendrecv": _sendrecv,
    "sendbuf": lambda r: r.gather(1, sendbuf=IN_PLACE),
    "source sendrecv": lambda r: r.open.sendrecv(1, 9),
    "recvtag": lambda r: r.open.sendrecv(1, 1, recvtag=-5),
    "color": lambda r: r.call("MPI_Comm_split", comm=2, color=-3, newcomm=300),
    "sendcounts": lambda r: r.call("MPI_Alltoallv", sendcounts=[1, -1, 0], sendtype="MPI_INT", comm=2),
    "blocklength": lambda r: r.call("MPI_Type_vector", count=1, blocklength=-1, oldtype="MPI_INT", newtype=300),
    "request": lambda r: r.call("MPI_Start", request=1),
    "win": lambda r: r.call("MPI_Win_fence", win=1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_forbidden_argument_is_told_with_its_parameter(name: str) -> None:
    [finding] = found(WRONG[name])
    assert finding.kind == "invalid-argument"
    assert finding.certainty == "certain"
    assert finding.facts()["parameter"] == name.split(maxsplit=1)[0]


def _typed(r: RankBuilder) -> None:
    made = r.type_contiguous(2, "MPI_INT")
    r.type_commit(made)
    r.send(1, datatype=made)


RIGHT = {
    "sendbuf at the root": lambda r: r.gather(0, sendbuf=IN_PLACE),
    "count 0": lambda r: r.send(1, count=0),
    "nobody": lambda r: (r.send(PROC_NULL, tag=0), r.recv(PROC_NULL)),
    "last rank": lambda r: r.send(2),
    "any": lambda r: r.recv(ANY, got=1, tag=-1, got_tag=3),
    "committed": _typed,
    "root": lambda r: r.bcast(2),
    "op": lambda r: (r.allreduce(op="MPI_BAND"), r.allreduce(op="MPI_MAX", datatype="MPI_DOUBLE")),
    "loc": lambda r: r.allreduce(op="MPI_MINLOC", datatype="MPI_DOUBLE_INT"),
    "in place": lambda r: r.allreduce(sendbuf=2**64 - 1, recvbuf=0x100),
    "reduce elsewhere": lambda r: r.reduce(1, sendbuf=0x100, recvbuf=0x100),
    "undefined": lambda r: r.call("MPI_Comm_split", comm=2, color=-32766, newcomm=1),
    "poll": lambda r: (r.iprobe(ANY, flag=False, polls=100), r.test(r.irecv(1), flag=False)),
    "wait": lambda r: r.wait(r.irecv(1)),
    "waitall": lambda r: r.waitall([r.isend(1), r.irecv(ANY, got=2)]),
    "vector": lambda r: r.type_vector(2, 3, -5, "MPI_INT"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_allowed_argument_is_silent(name: str) -> None:
    assert found(RIGHT[name]) == []


def test_the_call_in_which_mpi_ended_the_process_is_told() -> None:
    b = Builder(ranks=1)
    b.ranks[0].open.call("MPI_Type_commit", datatype=300, site=("a.c", 5, "main"))
    b.ranks[0].state = State.EXITED
    [finding] = find(b.open())
    assert finding.certainty == "possible"
    assert "MPI ended rank 0 inside type_commit at a.c:5" in finding.message


def test_a_returned_error_class_is_told() -> None:
    b = Builder(ranks=1)
    b.ranks[0].call("MPI_Type_commit", datatype=300, error=3)
    [finding] = find(b.open())
    assert finding.facts()["parameter"] == "datatype"


def _ended_in_send(tag: int, reason: str) -> Finding:
    b = Builder(ranks=1)
    r = b.ranks[0]
    r.open.send(0, tag=tag, site=("a.c", 5, "main"))
    r.define(Def.ENDED, encode_string(f"internal_Send(1)...: failed\ncheck(2)...: {reason}\n"))
    r.state = State.EXITED
    [finding] = find(b.open())
    return finding


def test_a_tag_that_mpi_refused_is_told_with_the_largest_one_that_every_library_takes() -> None:
    limit = "tags up to its attribute MPI_TAG_UB, of which the standard promises no more than 32,767"
    assert limit in _ended_in_send(1 << 30, "Invalid tag, value is 1073741824").message
    assert limit not in _ended_in_send(32767, "Invalid tag, value is 32767").message
    assert limit not in _ended_in_send(1 << 30, "Invalid communicator").message
    assert "gives MPI_Send the negative tag -4" in found(WRONG["tag"])[0].message


@pytest.mark.parametrize("lines", [(5, 5), (5, 6)])
def test_a_null_communicator_is_told_with_the_only_call_that_returned_one(lines: tuple[int, int]) -> None:
    def make(r: RankBuilder) -> None:
        for line in lines:
            r.call("MPI_Comm_split", comm=2, color=-32766, newcomm=1, site=("a.c", line, "main"))
        r.send(1, comm="MPI_COMM_NULL", site=("a.c", 9, "main"))

    [finding] = found(make)
    giver = "MPI_COMM_NULL, which comm_split at a.c:5 returned to it, at a.c:9"
    assert (giver in finding.message) == (lines == (5, 5)), finding.message


@pytest.mark.parametrize(("library", "error"), [("MPICH 5.0", 28), ("Open MPI 5.0", 34)])
def test_an_info_object_that_mpi_refused_is_told_under_either_librarys_number(library: str, error: int) -> None:
    for numbered in (error, 62 - error):
        b = Builder(ranks=1)
        b.ranks[0].call("MPI_Win_set_info", error=numbered)
        trace = b.open()
        trace.functions.mpi["library"] = library
        found = find(trace)
        assert [finding.facts()["parameter"] for finding in found] == ["info"] * (numbered == error)


@pytest.mark.parametrize("wrong", [False, True])
def test_who_only_stands_in_the_roots_group_gives_arguments_without_meaning(wrong: bool) -> None:
    b = Builder(ranks=3)
    inter = b.comm("MPI_Intercomm_create", [0, 1], remote=[2])
    for rank, root in zip(b.ranks, (ROOT, PROC_NULL, 0), strict=True):
        nobody = root == PROC_NULL
        rank.reduce(root, comm=inter, datatype="MPI_BYTE" if nobody else "MPI_INT", count=0 if nobody else 1)
    if wrong:
        b.ranks[2].reduce(0, comm=inter, datatype="MPI_BYTE")
    assert len(find(b.open())) == wrong
