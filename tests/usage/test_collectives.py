"""Collectives in built traces: each wrong one and its corrected twin."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.match import match_operations
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.usage.collectives import find


def found(b: Builder, finish: bool = True) -> list[Finding]:
    for r in b.ranks if finish else ():
        r.finalize()
    trace = b.open()
    return find(trace, match_operations(trace))


def kinds(b: Builder, finish: bool = True) -> list[str]:
    return [f.kind for f in found(b, finish)]


def at(line: int) -> tuple[str, int, str]:
    return ("a.c", line, "main")


def each(calls: list[tuple[str, dict[str, object]]]) -> Builder:
    b = Builder(ranks=len(calls))
    for r, (name, arguments) in zip(b.ranks, calls, strict=True):
        getattr(r, name)(site=at(10 + r.index), **arguments)
    return b


def test_other_operations_are_a_mismatch() -> None:
    [finding] = found(each([("barrier", {}), ("barrier", {}), ("bcast", {"root": 0})]))
    assert finding.kind == "collective-mismatch"
    assert finding.message == (
        "collective call number 1 on world differs: rank 2 calls bcast(root=0) at a.c:12 "
        "but ranks 0 and 1 call barrier at a.c:10"
    )


def test_equal_operations_are_silent() -> None:
    for name in ("barrier", "allreduce", "bcast", "reduce", "gather", "scatter", "allgather", "alltoall", "scan"):
        assert kinds(each([(name, {})] * 3)) == [], name


def test_a_swapped_order_is_told_once() -> None:
    b = Builder(ranks=2)
    for _ in range(3):
        b.ranks[0].barrier()
        b.ranks[0].allreduce()
        b.ranks[1].allreduce()
        b.ranks[1].barrier()
    assert kinds(b) == ["collective-mismatch"]


def test_a_rank_that_leaves_one_call_out() -> None:
    b = Builder(ranks=3)
    comm = b.dup()
    for r in b.ranks[:2]:
        r.barrier(comm=comm, site=at(4))
    [finding] = found(b)
    assert finding.kind == "collective-mismatch"
    assert "and rank 2 never does" in finding.message


def test_a_rank_that_may_still_come_is_silent() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.barrier()
    b.ranks[1].open.recv(0)
    assert kinds(b, finish=False) == []


@pytest.mark.parametrize("name", ["bcast", "reduce", "gather", "scatter"])
def test_other_roots_are_an_argument_mismatch(name: str) -> None:
    [finding] = found(each([(name, {"root": 0}), (name, {"root": 1}), (name, {"root": 0})]))
    assert finding.kind == "argument-mismatch"
    assert "rank 1 gives root=1 at a.c:11 but ranks 0 and 2 give root=0 at a.c:10" in finding.message


def test_other_operators_counts_and_types() -> None:
    for wrong, right in (({"op": "MPI_MAX"}, {}), ({"count": 3}, {"count": 4}), ({"datatype": "MPI_FLOAT"}, {})):
        [finding] = found(each([("allreduce", right), ("allreduce", wrong), ("allreduce", right)]))
        assert finding.kind == "argument-mismatch"


def test_a_derived_type_of_the_same_elements_is_silent() -> None:
    b = Builder(ranks=2)
    four = b.ranks[0].type_contiguous(4, "MPI_INT")
    b.ranks[0].bcast(0, count=1, datatype=four)
    b.ranks[1].bcast(0, count=4)
    assert kinds(b) == []


def test_gather_compares_what_is_sent_with_what_the_root_expects() -> None:
    def build(expected: int) -> Builder:
        return each([("gather", {"count": 2, "recvcount": expected}), ("gather", {"count": 2, "recvcount": 0})])

    assert kinds(build(3)) == ["argument-mismatch"]
    assert kinds(build(2)) == []


def test_alltoallv_compares_each_pair() -> None:
    def build(wrong: int) -> Builder:
        b = Builder(ranks=2)
        for r in b.ranks:
            other = wrong if r.index else 1
            r.call(
                "MPI_Alltoallv", sendbuf=1, sendcounts=[1, 2], sdispls=[0, 1], sendtype="MPI_INT", recvbuf=2,
                recvcounts=[1, 1] if not r.index else [2, 2 + other - 1], rdispls=[0, 1], recvtype="MPI_INT",
                comm="MPI_COMM_WORLD",
            )  # fmt: skip
        return b

    assert kinds(build(5)) == ["argument-mismatch"]
    assert kinds(build(1)) == []


def test_user_operators_have_other_ids_on_other_ranks() -> None:
    assert kinds(each([("allreduce", {"op": 256}), ("allreduce", {"op": 257})])) == []


def test_nonblocking_collectives_are_compared_too() -> None:
    def build(root: int) -> Builder:
        b = Builder(ranks=2)
        for r in b.ranks:
            r.wait(r.ibcast(root if r.index else 0))
        return b

    assert kinds(build(1)) == ["argument-mismatch"]
    assert kinds(build(0)) == []


def test_a_subcommunicator_has_its_own_roots() -> None:
    b = Builder(ranks=4)
    comms = b.split([0, 0, 1, 1])
    for r in b.ranks:
        r.bcast(r.index // 2, comm=comms[r.index // 2])
    assert kinds(b) == []


@pytest.mark.parametrize("name", ["gather", "scatter", "allgather", "alltoall"])
def test_other_types_of_one_size_are_told(name: str) -> None:
    def build(datatype: str) -> list[Finding]:
        return found(each([(name, {"datatype": "MPI_INT"}), (name, {"datatype": datatype})]))

    [finding] = build("MPI_FLOAT")
    assert finding.kind == "argument-mismatch"
    assert "rank 0 gives MPI_INT at a.c:10 but rank 1 gives MPI_FLOAT at a.c:11" in finding.message
    assert build("MPI_BYTE") == [] or build("MPI_BYTE")[0].facts()["argument"] == "count"


def test_other_types_of_one_size_in_a_v_collective_are_told() -> None:
    def build(datatype: str) -> list[Finding]:
        b = Builder(ranks=2)
        for r, type in zip(b.ranks, ("MPI_INT", datatype), strict=True):
            r.call(
                "MPI_Alltoallv", sendbuf=0x100, sendcounts=[1, 1], sdispls=[0, 1], sendtype=type, recvbuf=0x200,
                recvcounts=[1, 1], rdispls=[0, 1], recvtype=type, comm=2, site=at(10 + r.index),
            )  # fmt: skip
        return found(b)

    [finding] = build("MPI_FLOAT")
    assert "rank 0 sends MPI_INT to rank 1 at a.c:10 but rank 1 expects MPI_FLOAT at a.c:11" in finding.message
    assert build("MPI_INT") == []


@pytest.mark.parametrize(("count", "told"), [(1, []), (2, ["argument-mismatch"])])
def test_neighbours_are_compared_though_not_all_have_made_the_grid(count: int, told: list[str]) -> None:
    """MPI ends a job at the first message that is too long: other members may not have come so far."""
    b = Builder(ranks=4)
    grid = b.comm("MPI_Cart_create", range(4), dims=[4], periods=[0])
    for rank in b.ranks:
        each = {"sendcount": count if rank.index == 1 else 1, "recvcount": 1}
        rank.call("MPI_Neighbor_allgather", sendtype="MPI_INT", recvtype="MPI_INT", comm=grid, **each)
    path = b.write()
    b.ranks[3].path.unlink()
    trace = Trace.open(path)
    assert [f.kind for f in find(trace, match_operations(trace))] == told
