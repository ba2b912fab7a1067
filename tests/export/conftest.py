"""A run with one of everything, and a hung one."""

from __future__ import annotations

import pytest

from weft.trace import Trace
from weft.trace.builder import ANY, Builder
from weft.trace.layout import ANY_TAG, IN_PLACE

SCRIPT = "<script>alert(1)</script>"


def _messages(b: Builder) -> None:
    r0, r1, r2, r3 = b.ranks
    r0.send(1, tag=7, count=3, site=("step.py", 9, "exchange"))
    r1.recv(ANY, got=0, tag=ANY_TAG, got_tag=7, count=5, received=12, site=("step.py", 14, "collect"))
    requests = [r2.isend(3, tag=1, count=2), r2.irecv(3, tag=2), r2.irecv(ANY, got=3, tag=3)]
    there = [r3.irecv(2, tag=1, count=2), r3.isend(2, tag=2), r3.issend(2, tag=3)]
    r2.waitall(requests)
    r3.waitany(there, 0)
    r3.waitall(there[1:])
    r0.sendrecv(1, 1, sendtag=4, recvtag=5)
    r1.sendrecv(0, 0, sendtag=5, recvtag=4)
    r2.send(3, tag=8)
    r3.iprobe(2, tag=8, flag=False, polls=17)
    r3.call("MPI_Wtime", calls=5)
    r3.call("MPI_Type_size", datatype="MPI_INT", size=4)
    r3.mrecv(r3.mprobe(ANY, got=2, tag=8))
    r2.send(3, tag=9)
    r3.wait(r3.imrecv(r3.mprobe(2, tag=9)))
    persistent, its = r0.send_init(1, tag=6), r1.recv_init(0, tag=6)
    for _ in range(2):
        r0.start(persistent)
        r1.start(its)
        r0.wait(persistent)
        r1.wait(its)
    r1.send(2, tag=99, site=("lost.py", 1, SCRIPT))
    r0.isend(3, tag=98)


def _collectives(b: Builder) -> None:
    halves = b.split([0, 0, 1, 1])
    for r in b.ranks:
        r.bcast(1, count=4)
        r.gather(2, count=2)
        r.scatter(0, count=2)
        r.allgather(count=3)
        r.alltoall(count=1)
        r.allreduce(count=5, comm=halves[r.index // 2])
        r.reduce(3, sendbuf=IN_PLACE if r.index == 3 else 0x1000)
        r.barrier()
        request = r.iallreduce()
        r.call("MPI_Alltoallv", sendcounts=[1, 2, 3, 4], recvcounts=[2] * 4, sendtype="MPI_INT", recvtype="MPI_DOUBLE",
               sdispls=[0] * 4, rdispls=[0] * 4, comm=2, sendbuf=0x1000, recvbuf=0x2000)  # fmt: skip
        r.wait(request)


def _onesided(b: Builder) -> None:
    windows = b.window(size=64)
    for r in b.ranks:
        w, to = windows[r.index], (r.index + 1) % 4
        target = {"target_rank": to, "target_disp": 0, "target_count": 2, "target_datatype": "MPI_INT", "win": w}
        origin = {"origin_addr": 0x1000, "origin_count": 2, "origin_datatype": "MPI_INT"}
        r.call("MPI_Win_fence", win=w)
        r.call("MPI_Put", **origin, **target)
        r.call("MPI_Accumulate", **origin, **target, op="MPI_SUM")
        r.call("MPI_Win_fence", win=w)
        r.call("MPI_Win_lock", lock_type=2, rank=to, win=w)
        r.call("MPI_Get", **origin, **target)
        r.call("MPI_Win_unlock", rank=to, win=w)
        r.call("MPI_Win_free", win=w)


def _threads(b: Builder) -> None:
    r0, r1 = b.ranks[:2]
    r0.send(1, tag=20, thread=1, ticket=1)
    r0.send(1, tag=21, thread=0, ticket=2)
    r1.recv(0, tag=20, thread=2, ticket=1)
    r1.recv(0, tag=21, thread=0, ticket=2)


@pytest.fixture
def zoo() -> Trace:
    """Four ranks, and calls of every sort; nobody hangs."""
    b = Builder(ranks=4)
    for r in b.ranks:
        r.init()
    _messages(b)
    _collectives(b)
    _onesided(b)
    _threads(b)
    for r in b.ranks:
        r.finalize()
    return b.open()


@pytest.fixture
def hung() -> Trace:
    """Ranks 0 and 1 wait for each other; rank 2 left no record."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=1)
    r0.open.recv(1, tag=5, site=(f"{SCRIPT}.py", 3, SCRIPT))
    r1.recv(0, tag=1)
    r1.open.recv(0, tag=6, site=("b.py", 4, "main"))
    r2.leave_no_record()
    return b.open()
