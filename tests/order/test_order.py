"""What has to happen before what."""

from __future__ import annotations

from weft.match import match_operations
from weft.order import Order, order_events
from weft.trace.builder import ANY, Builder


def ordered(b: Builder) -> Order:
    trace = b.open()
    made = order_events(trace, match_operations(trace))
    assert made.left_out == 0
    return made


def test_a_message_orders_its_send_before_its_receive() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1)
    r1.recv(0)
    r1.send(2)
    r2.recv(1)
    r0.send(2, tag=5)
    o = ordered(b)
    assert o.before((0, 0), (2, 0))
    assert not o.before((2, 0), (0, 0))
    assert o.is_concurrent((0, 1), (2, 0))
    assert not o.reaches((0, 0), (1, 0), a_end=True), "a buffered send need not have returned"


def test_a_synchronous_send_ends_only_after_its_receive_was_posted() -> None:
    for synchronous in (True, False):
        b = Builder(ranks=2)
        r0, r1 = b.ranks
        r1.barrier("MPI_COMM_SELF")
        (r0.ssend if synchronous else r0.send)(1)
        r1.recv(0)
        assert ordered(b).before((1, 0), (0, 0)) is synchronous


def test_a_nonblocking_receive_orders_at_its_completion() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    q = r1.irecv(ANY, got=0)
    r1.barrier("MPI_COMM_SELF")
    r1.wait(q)
    r0.send(1)
    o = ordered(b)
    assert [o.before((0, 0), (1, i)) for i in range(3)] == [False, False, True]


def matrix(name: str) -> list[list[bool]]:
    """[i][j]: the start of rank i's part is before the end of rank j's, in a collective with root 1."""
    b = Builder(ranks=3)
    for r in b.ranks:
        getattr(r, name)(**({"root": 1} if name in ("bcast", "scatter", "gather", "reduce") else {}))
    o = ordered(b)
    return [[i == j or o.before((i, 0), (j, 0)) for j in range(3)] for i in range(3)]


def test_collectives_order_by_their_kind() -> None:
    every = [[True] * 3] * 3
    assert all(matrix(name) == every for name in ("barrier", "allreduce", "allgather", "alltoall"))
    rows = {name: ["".join(".x"[x] for x in row) for row in matrix(name)] for name in
            ("bcast", "scatter", "reduce", "gather", "scan", "exscan")}  # fmt: skip
    assert rows["bcast"] == rows["scatter"] == ["x..", "xxx", "..x"]
    assert rows["reduce"] == rows["gather"] == ["xx.", ".x.", ".xx"]
    assert rows["scan"] == rows["exscan"] == ["xxx", ".xx", "..x"]


def test_a_collective_that_moves_nothing_or_is_none_orders_nothing() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.allreduce(count=0)
    r1.allreduce(count=0)
    r0.barrier()
    r1.allreduce()
    o = ordered(b)
    assert o.is_concurrent((0, 0), (1, 0))
    assert o.is_concurrent((0, 1), (1, 1))


def test_a_nonblocking_collective_orders_at_its_completion() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    q = r0.ibarrier()
    r0.wait(q)
    r1.barrier()
    o = ordered(b)
    assert not o.before((1, 0), (0, 0))
    assert o.before((1, 0), (0, 1))
    assert o.before((0, 0), (1, 0))


def test_making_a_communicator_orders_all_its_members() -> None:
    b = Builder(ranks=2)
    b.split([0, 0])
    o = ordered(b)
    assert o.before((0, 0), (1, 0))
    assert o.before((1, 0), (0, 0))


def test_a_fence_orders_when_it_makes_no_assertion() -> None:
    for assertion in (0, 1024):
        b = Builder(ranks=2)
        windows = b.window()
        for r in b.ranks:
            r.call("MPI_Win_fence", win=windows[r.index], **{"assert": assertion})
        assert ordered(b).before((0, 1), (1, 1)) is (assertion == 0)


def test_calls_of_two_threads_are_ordered_unless_they_overlap() -> None:
    b = Builder(ranks=1)
    (r0,) = b.ranks
    r0.call("MPI_Init_thread", required=3, enter=0, exit=100)
    r0.barrier("MPI_COMM_SELF", enter=200, exit=400)
    r0.barrier("MPI_COMM_SELF", thread=1, enter=300, exit=500)
    q = r0.irecv(0, thread=1, enter=600, exit=800)
    r0.wait(q, enter=700, exit=900)
    o = ordered(b)
    assert o.before((0, 0), (0, 2)), "MPI must be initialised before another thread calls it"
    assert o.is_concurrent((0, 1), (0, 2)), "each was under way during the other"
    assert o.reaches((0, 1), (0, 3), a_end=True, b_end=False), "the threads may have waited for each other between them"
    assert o.before((0, 3), (0, 4)), "a request must be made before it completes"


def test_past_and_future_are_cuts() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.barrier("MPI_COMM_SELF")
    r0.send(1)
    r0.send(2)
    r1.recv(0)
    r1.barrier("MPI_COMM_SELF")
    r2.recv(0)
    o = ordered(b)
    past = o.past((1, 1))
    assert past.started.tolist() == [2, 2, 0]
    assert past.ended.tolist() == [1, 2, 0]
    future = o.future((0, 1))
    assert future.ended.tolist() == [1, 0, 0]
    assert future.started.tolist() == [1, 1, 1]


def test_nothing_of_a_spawned_rank_is_before_its_spawn() -> None:
    b = Builder(ranks=2)
    b.ranks[0].barrier("MPI_COMM_SELF")
    b.ranks[1].barrier("MPI_COMM_SELF")
    b.spawn([0], 1, comm=b.comm("MPI_Comm_split", [0]))
    child = b.ranks[2]
    child.call("MPI_Init")
    child.barrier("MPI_COMM_SELF")
    o = ordered(b)
    spawn = len(o.trace.ranks[0]) - 1
    assert o.before((0, 0), (2, 1))
    assert not o.before((1, 0), (2, 1))
    assert o.reaches((2, 0), (0, spawn), b_end=True), "it returns when the child initialises MPI"


def test_a_run_that_contradicts_itself_is_still_ordered() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.recv(1)
    r0.send(1)
    r1.recv(0)
    r1.send(0)
    trace = b.open()
    assert order_events(trace, match_operations(trace)).left_out > 0
