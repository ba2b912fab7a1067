"""Deadlocks in built traces: what is proven, what is said, and what must stay silent."""

from __future__ import annotations

import time

import pytest

from weft import deadlock
from weft.base.words import rank_set
from weft.findings import Finding
from weft.trace import State
from weft.trace.builder import ANY, PROC_NULL, Builder


def one(b: Builder) -> Finding:
    b.ended = "deadlock" if b.ended == "finished" else b.ended
    found = deadlock.find(b.open())
    assert len(found) == 1, found
    assert (found[0].kind, found[0].severity, found[0].certainty) == ("deadlock", "error", "certain")
    return found[0]


def none(b: Builder) -> None:
    assert deadlock.find(b.open()) == []


def at(line: int) -> tuple[str, int, str]:
    return ("step.py", line, "main")


def test_a_receive_that_nobody_sends_names_both_lines() -> None:
    b = Builder(ranks=2)
    b.ranks[1].open.recv(0, tag=99, site=at(9))
    b.ranks[0].open.allreduce(site=at(10))
    found = one(b)
    assert found.message == (
        "rank 1 waits in recv(source=0, tag=99) at step.py:9; "
        "rank 0 never sends tag 99: it is in allreduce at step.py:10 and waits for rank 1"
    )
    assert found.ranks == (0, 1)
    assert [(s.rank, s.line) for s in found.sites] == [(1, 9), (0, 10)]


def test_a_message_on_its_way_is_progress() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=99)
    b.ranks[1].open.recv(0, tag=99)
    b.ranks[0].open.barrier()
    none(b)


def test_the_wrong_tag_is_named() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=7, site=at(3))
    b.ranks[1].open.recv(0, tag=17, site=at(5))
    b.ranks[0].open.barrier(site=at(4))
    assert "(it sent tag 7 at step.py:3, which nobody receives)" in one(b).message


@pytest.mark.parametrize("sent", [(7, 7), (7, 8)])
def test_the_wrong_tag_that_several_ranks_were_sent_is_named_once(sent: tuple[int, int]) -> None:
    b = Builder(ranks=3)
    for rank, tag in zip((1, 2), sent, strict=True):
        b.ranks[0].send(rank, tag=tag, site=at(3))
        b.ranks[rank].open.recv(0, tag=17, site=at(5))
    b.ranks[0].open.barrier(site=at(4))
    named = "rank 0 sends none (it sent tag 7 to each at step.py:3, which nobody receives)"
    assert (named in one(b).message) == (sent[0] == sent[1])


def test_the_wrong_communicator_is_named() -> None:
    b = Builder(ranks=2)
    other = b.dup()
    b.ranks[0].send(1, tag=7, comm=other, site=at(3))
    b.ranks[1].open.recv(0, tag=7, site=at(5))
    b.ranks[0].open.barrier(site=at(4))
    assert "it sent tag 7 on the communicator of ranks 0 and 1 (world.dup#0) at step.py:3" in one(b).message


def test_two_ranks_that_receive_first_are_deadlocked_and_with_one_send_they_are_not() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.recv(1)
    b.ranks[1].open.recv(0)
    assert one(b).facts()["cycle"] == [0, 1]
    b = Builder(ranks=2)
    b.ranks[0].open.recv(1)
    b.ranks[1].send(0)
    b.ranks[1].open.recv(0)
    none(b)


def test_two_blocked_sends_are_deadlocked() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.send(1, tag=3, site=at(4))
    b.ranks[1].open.send(0, tag=3, site=at(4))
    assert "each receives only after its own send has returned" in one(b).message


def test_open_sends_of_a_killed_run_may_have_been_on_their_way() -> None:
    def build(ended: str, send: str) -> str:
        b = Builder(ranks=2, ended=ended)
        for r in b.ranks:
            getattr(r.open, send)(1 - r.index)
        return deadlock.find(b.open())[0].certainty

    assert build("killed", "send") == "possible"
    assert build("killed", "ssend") == "certain"
    assert build("deadlock", "send") == "certain"


def test_a_posted_receive_releases_a_synchronous_send() -> None:
    b = Builder(ranks=2)
    request = b.ranks[1].irecv(0, tag=3)
    b.ranks[1].open.ssend(0, tag=3)
    b.ranks[0].open.ssend(1, tag=3)
    none(b)
    del request


def test_a_wildcard_waits_for_anyone_and_a_computing_rank_can_help() -> None:
    b = Builder(ranks=3)
    b.ranks[0].open.recv(ANY)
    b.ranks[1].open.recv(0)
    b.ranks[2].open.recv(0)
    assert one(b).ranks == (0, 1, 2)
    b = Builder(ranks=3)
    b.ranks[0].open.recv(ANY)
    b.ranks[1].open.recv(0)
    b.ranks[2].barrier()
    b.ranks[2].state = State.RUNNING
    none(b)


def test_a_rank_that_finished_never_helps() -> None:
    b = Builder(ranks=2)
    b.ranks[0].finalize()
    b.ranks[1].open.recv(0, tag=1)
    assert "it has finished" in one(b).message


def test_a_probe_that_nobody_answers() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.mprobe(1, tag=2)
    b.ranks[1].open.barrier()
    assert one(b).ranks == (0, 1)
    b = Builder(ranks=2)
    b.ranks[0].open.mprobe(1, tag=2)
    b.ranks[1].send(0, tag=2)
    b.ranks[1].open.barrier()
    none(b)


def test_waitall_needs_all_and_waitany_needs_one() -> None:
    def build(wait: str) -> Builder:
        b = Builder(ranks=3)
        r0, r1, r2 = b.ranks
        r2.send(0, tag=2)
        both = [r0.irecv(1, tag=1), r0.irecv(2, tag=2)]
        getattr(r0.open, wait)(both)
        r1.open.recv(0)
        r2.open.recv(0)
        return b

    assert "for irecv(source=1, tag=1)" in one(build("waitall")).message
    none(build("waitany"))


def test_a_buffered_isend_in_a_waitall_is_not_the_reason() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.open.waitall([r0.isend(2, tag=5), r0.irecv(1, tag=1)])
    r1.open.recv(0)
    r2.barrier()
    r2.state = State.RUNNING
    assert one(b).ranks == (0, 1)


def test_a_persistent_receive_waits_only_when_it_was_started() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    request = r0.recv_init(1, tag=1)
    r0.start(request)
    r0.open.wait(request)
    r1.open.recv(0)
    assert one(b).ranks == (0, 1)
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    request = r0.recv_init(1, tag=1)
    r0.open.wait(request)
    r1.open.recv(0)
    none(b)


def test_a_barrier_that_one_rank_never_enters() -> None:
    b = Builder(ranks=4)
    for r in b.ranks[:3]:
        r.open.barrier(site=at(10))
    b.ranks[3].open.recv(0, tag=4, site=at(12))
    assert one(b).message == (
        "rank 3 waits in recv(source=0, tag=4) at step.py:12; rank 0 never sends tag 4: "
        "it is in barrier at step.py:10, with ranks 1 and 2, and waits for rank 3"
    )


def test_one_call_too_few() -> None:
    b = Builder(ranks=3)
    for r in b.ranks:
        r.barrier()
    for r in b.ranks[:2]:
        r.open.barrier(site=at(7))
    b.ranks[2].open.finalize(site=at(9))
    found = one(b)
    assert found.message == (
        "ranks 0 and 1 wait in barrier at step.py:7; rank 2 never enters it: "
        "it is in finalize at step.py:9 and waits for ranks 0 and 1"
    )


def test_different_collectives_and_different_roots() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.barrier(site=at(1))
    b.ranks[1].open.allreduce(site=at(2))
    assert "rank 1 called allreduce at step.py:2 in its place" in one(b).message
    b = Builder(ranks=2)
    b.ranks[0].open.bcast(root=1, site=at(1))
    b.ranks[1].open.bcast(root=0, site=at(2))
    assert one(b).ranks == (0, 1)
    b = Builder(ranks=2)
    b.ranks[0].open.barrier()
    b.ranks[1].open.barrier()
    none(b)


def test_a_collective_on_a_subcommunicator_needs_only_its_members() -> None:
    b = Builder(ranks=3)
    comms = b.split([0, 0, 1])
    b.ranks[0].open.barrier(comm=comms[0])
    b.ranks[1].open.recv(0, comm=comms[0])
    b.ranks[2].barrier()
    b.ranks[2].state = State.RUNNING
    found = one(b)
    assert found.ranks == (0, 1)


def test_nonblocking_collectives_are_waited_for_in_their_wait() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.wait(b.ranks[0].iallreduce())
    b.ranks[1].open.recv(0)
    assert one(b).ranks == (0, 1)


def test_ranks_that_wait_at_one_line_for_other_things_are_not_said_to_wait_alike() -> None:
    """One waits for a message, the other for a receive: the tags are why."""
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.open.waitall([r0.irecv(1, tag=1, site=at(2))], site=at(5))
    r1.open.waitall([r1.issend(0, tag=4, site=at(3))], site=at(5))
    assert one(b).message == (
        "rank 0 waits in waitall() at step.py:5 for irecv(source=1, tag=1) of step.py:2; rank 1 never sends tag 1 (it "
        "sent tag 4 at step.py:3, which nobody receives): it is in waitall() at step.py:5 for issend(dest=0, tag=4) of "
        "step.py:3 and waits for rank 0"
    )
    b = Builder(ranks=2)
    for r in b.ranks:
        r.open.waitall([r.irecv(1 - r.index, tag=1, site=at(2))], site=at(5))
    assert "ranks 0 and 1 wait in waitall() at step.py:5 for irecv(tag=1)" in one(b).message


def test_communicators_that_cross() -> None:
    b = Builder(ranks=2)
    one_, other = b.dup(), b.dup()
    b.ranks[0].open.barrier(comm=one_)
    b.ranks[1].open.barrier(comm=other)
    assert one(b).ranks == (0, 1)


def test_proc_null_never_blocks() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.recv(PROC_NULL)
    b.ranks[1].open.recv(0)
    none(b)


def test_a_fence_that_one_rank_misses() -> None:
    b = Builder(ranks=2)
    wins = b.window()
    b.ranks[0].open.call("MPI_Win_fence", win=wins[0])
    b.ranks[1].open.recv(0)
    assert one(b).ranks == (0, 1)


def test_a_lock_held_by_a_rank_that_waits_for_us() -> None:
    b = Builder(ranks=3)
    wins = b.window()
    b.ranks[0].call("MPI_Win_lock", win=wins[0], rank=2, lock_type=234)
    b.ranks[0].open.recv(1, tag=5)
    b.ranks[1].open.call("MPI_Win_lock", win=wins[1], rank=2, lock_type=234)
    b.ranks[2].open.recv(0)
    found = one(b)
    assert found.ranks == (0, 1, 2)


@pytest.mark.parametrize("mine", ["shared", "all", "exclusive"])
@pytest.mark.parametrize("other", ["shared", "all", "exclusive"])
def test_an_operation_waits_for_a_lock_of_another_rank_unless_both_share_it(mine: str, other: str) -> None:
    b = Builder(ranks=3)
    wins = b.window()
    for rank, how in ((0, mine), (1, other)):
        if how == "all":
            b.ranks[rank].call("MPI_Win_lock_all", win=wins[rank])
        else:
            b.ranks[rank].call("MPI_Win_lock", win=wins[rank], rank=2, lock_type=1 if how == "exclusive" else 2)
    b.ranks[0].open.call(
        "MPI_Get", win=wins[0], target_rank=2, origin_count=1, origin_datatype="MPI_INT", target_disp=0,
        target_count=1, target_datatype="MPI_INT",
    )  # fmt: skip
    b.ranks[1].open.recv(0, tag=5)
    b.ranks[2].open.recv(0, tag=5)
    if "exclusive" in (mine, other):
        assert one(b).ranks == (0, 1, 2)
    else:
        none(b)


def test_a_thread_that_computes_can_help() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.recv(1, thread=0)
    b.ranks[0].send(1, tag=9, thread=1)
    b.ranks[1].open.recv(0, tag=3)
    none(b)


@pytest.mark.matrix
def test_a_thousand_ranks_in_one_cycle_are_one_short_finding_within_a_second() -> None:
    n = 1000
    b = Builder(ranks=n)
    for i, r in enumerate(b.ranks):
        r.open.recv((i + 1) % n, tag=1, site=at(5))
    trace = b.open()
    start = time.process_time()
    found = deadlock.find(trace)
    assert time.process_time() - start < 5
    assert len(found) == 1
    assert len(found[0].message) < 300
    assert found[0].message.startswith("ranks 0-999 wait for each other in a cycle")


def test_hundreds_of_ranks_in_one_barrier_are_one_short_finding() -> None:
    b = Builder(ranks=300)
    for r in b.ranks[1:]:
        r.open.barrier(site=at(5))
    b.ranks[0].finalize()
    found = one(b)
    assert found.message == "ranks 1-299 wait in barrier at step.py:5; rank 0 never enters it: it has finished"


def test_rank_sets_are_short() -> None:
    assert rank_set([3]) == "3"
    assert rank_set([0, 1, 2, 5]) == "0-2 and 5"
    assert rank_set(range(0, 100, 2)).endswith("more")


def partitioned(ready: int) -> Builder:
    """A partitioned send of two partitions, of which the first `ready` are said to be ready."""
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    for r, name, peer in ((r0, "MPI_Psend_init", "dest"), (r1, "MPI_Precv_init", "source")):
        arguments = {peer: 1 - r.index, "request": 300}
        r.call(name, buf=0x100, partitions=2, count=4, datatype="MPI_INT", tag=5, comm=2, site=at(3), **arguments)
        r.call("MPI_Start", request=300, site=at(4))
    for partition in range(ready):
        r0.call("MPI_Pready", partition=partition, request=300, site=at(5))
    for r in b.ranks:
        r.call("MPI_Wait", request=300, open=True, site=at(6))
    return b


def test_a_partition_that_is_never_ready_is_named() -> None:
    assert "it never calls MPI_Pready for partition 1 of that send" in one(partitioned(1)).message


def test_a_partitioned_send_that_is_ready_is_no_deadlock() -> None:
    none(partitioned(2))
