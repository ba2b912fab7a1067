"""What is paired with what, operation by operation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import weft.native
from weft.match import NONE, Match, Op, Post, Spec, match_operations, operations
from weft.match.functions import Code, Role, classify
from weft.trace.builder import ANY, PROC_NULL, Builder
from weft.trace.layout import ANY_TAG
from weft.trace.tails import Status


def pairs(m: Match) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return {(m.sends.id(i), m.recvs.id(int(p))) for i, p in enumerate(m.sends.partner) if p != NONE}


def test_the_enums_mirror_the_header() -> None:
    header = (Path(weft.native.__file__).parent / "kernel" / "ops.h").read_text()
    for prefix, enum in (("OP", Op), ("ROLE", Role), ("CODE", Code)):
        said = {n: int(v) for n, v in re.findall(rf"WEFT_{prefix}_(\w+) = (\d+)", header)}
        assert said == {e.name: int(e) for e in enum}
    for prefix, flags in (("SPEC", Spec), ("POST", Post)):
        said = {n: int(v, 16) for n, v in re.findall(rf"WEFT_{prefix}_(\w+) (0x\w+)u", header)}
        assert said == {e.name: int(e) for e in flags}


@pytest.mark.parametrize(
    ("name", "op", "spec"),
    [
        ("MPI_Send", Op.SEND, Spec(0)),
        ("MPI_Issend_c", Op.SEND, Spec.NONBLOCKING | Spec.SYNCHRONOUS),
        ("MPI_Bsend_init", Op.SEND_INIT, Spec.BUFFERED),
        ("MPI_Ineighbor_alltoallw", Op.COLL, Spec.NONBLOCKING),
        ("MPI_Reduce_scatter_block_init_c", Op.COLL_INIT, Spec(0)),
        ("MPI_File_iwrite_at_all", Op.COLL_OBJECT, Spec.FILE | Spec.NONBLOCKING),
        ("MPI_Comm_create_group", Op.NONE, Spec(0)),
        ("MPI_Reduce_local", Op.NONE, Spec(0)),
    ],
)
def test_a_name_tells_the_class(name: str, op: Op, spec: Spec) -> None:
    assert classify(name) == (op, spec)


def test_messages_of_one_channel_pair_in_order_and_tags_keep_apart() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    first, other, second = r0.send(1, tag=7), r0.send(1, tag=8), r0.send(1, tag=7)
    a, b7, c = r1.recv(0, tag=8), r1.recv(0, tag=7), r1.recv(0, tag=7)
    m = match_operations(b.open())
    assert pairs(m) == {((0, first), (1, b7)), ((0, other), (1, a)), ((0, second), (1, c))}
    assert m.partner_events((0, other)) == [(1, a)]
    assert m.partner_events((1, c)) == [(0, second)]


def test_a_wildcard_is_resolved_by_its_status() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    s1, s2 = r1.send(0, tag=4), r2.send(0, tag=5)
    x = r0.recv(ANY, ANY_TAG, got=2, got_tag=5)
    y = r0.recv(ANY, 4, got=1)
    m = match_operations(b.open())
    assert pairs(m) == {((1, s1), (0, y)), ((2, s2), (0, x))}
    assert m.recvs.flags[0] == Post.ANY_SOURCE | Post.ANY_TAG


def test_an_open_wildcard_takes_nothing_but_an_open_named_receive_does() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0)
    s2 = r2.send(1)
    r0.open.recv(ANY)
    x = len(["send"])
    r1.open.recv(2)
    m = match_operations(b.open())
    assert pairs(m) == {((2, s2), (1, x))}
    assert m.recvs.flags[0] & Post.UNDECIDED
    assert [m.sends.id(int(i)) for i in m.unmatched_sends()] == [(1, 0)]


@pytest.mark.parametrize("how", ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"])
def test_every_completion_tells_which_message_came(how: str) -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    s1, s2 = r1.send(0, tag=1), r2.send(0, tag=1)
    q1, q2 = r0.irecv(ANY, 1, got=2), r0.irecv(ANY, 1, got=1)
    sent = r0.isend(1, 3)
    if how in ("wait", "test"):
        done = [getattr(r0, how)(q) for q in (q1, q2)]
    elif how in ("waitall", "testall"):
        done = [getattr(r0, how)([sent, q1, q2])] * 2
    elif how in ("waitany", "testany"):
        getattr(r0, how)([sent, q1, q2], 0)
        done = [getattr(r0, how)([sent, q1, q2], 1), getattr(r0, how)([sent, q1, q2], 2)]
    else:
        done = [getattr(r0, how)([sent, q1, q2], [2, 1])] * 2
    m = match_operations(b.open())
    assert pairs(m) == {((2, s2), (0, 0)), ((1, s1), (0, 1))}
    assert m.recvs.completion.tolist() == done
    assert m.recvs.decided.tolist() == done
    assert (m.sends.completion[0] != NONE) == (how[4:] in ("all", "any"))


def test_both_halves_of_a_sendrecv_count() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.sendrecv(1, ANY, sendtag=1, recvtag=2, got=1)
    r1.sendrecv(0, 0, sendtag=2, recvtag=1)
    q = r0.call(
        "MPI_Isendrecv_replace", buf=1, count=1, datatype="MPI_INT", dest=1, sendtag=5, source=ANY, recvtag=5,
        comm="MPI_COMM_WORLD", request=300,
    )  # fmt: skip
    w = r0.call("MPI_Wait", request=300, status=Status(1, 5, 4))
    r1.call(
        "MPI_Sendrecv_replace", buf=1, count=1, datatype="MPI_INT", dest=0, sendtag=5, source=0, recvtag=5,
        comm="MPI_COMM_WORLD", status=Status(0, 5, 4),
    )  # fmt: skip
    m = match_operations(b.open())
    assert pairs(m) == {((0, 0), (1, 0)), ((1, 0), (0, 0)), ((0, q), (1, 1)), ((1, 1), (0, q))}
    assert m.sends.completion.tolist() == [0, w, 0, 1]
    assert all(f & Post.HALF for f in m.recvs.flags)


def test_a_message_to_nobody_is_no_message() -> None:
    b = Builder(ranks=1)
    (r0,) = b.ranks
    r0.send(PROC_NULL)
    r0.recv(PROC_NULL)
    m = match_operations(b.open())
    assert len(m.sends) == len(m.recvs) == 0


def test_a_persistent_operation_counts_at_each_start() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    p = r0.send_init(1, tag=3)
    q = r1.recv_init(ANY, tag=3)
    for _ in range(2):
        r0.startall([p])
        r0.wait(p)
        r1.start(q)
        q.status = Status(0, 3, 4)
        r1.wait(q)
    m = match_operations(b.open())
    assert pairs(m) == {((0, 1), (1, 1)), ((0, 3), (1, 3))}
    assert m.sends.args.tolist() == [0, 0]
    assert m.recvs.completion.tolist() == [2, 4]


def test_a_matched_probe_is_the_post_of_its_receive() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0)
    r1.send(0)
    r2.send(0)
    late = r0.mprobe(ANY, got=1)
    r0.recv(1)
    message = r0.improbe(ANY, got=2)
    assert message is not None
    r0.mrecv(late)
    q = r0.imrecv(message)
    r0.wait(q)
    m = match_operations(b.open())
    assert pairs(m) == {((1, 0), (0, 0)), ((1, 1), (0, 1)), ((2, 0), (0, 2))}
    assert m.recvs.decided.tolist() == [0, 1, 2]
    assert m.recvs.args.tolist() == [3, 1, 4]
    assert m.recvs.completion.tolist() == [3, 1, 5]


def test_a_probe_sees_the_message_that_the_next_receive_takes() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r1.send(0, tag=1)
    r1.send(0, tag=1)
    r0.recv(1, tag=1)
    r0.iprobe(ANY, 1, flag=False, polls=9)
    r0.iprobe(ANY, 1, got=1)
    r0.probe(ANY, ANY_TAG, got=1, got_tag=1)
    r0.recv(1, tag=1)
    m = match_operations(b.open())
    assert m.probes.partner.tolist() == [1, 1]


def test_a_cancelled_receive_drops_out_and_a_freed_one_stays() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    q = r0.irecv(1, tag=1, cancelled=True)
    r0.cancel(q)
    r0.wait(q)
    r0.recv(1, tag=1)
    r0.request_free(r0.irecv(1, tag=1))
    r1.send(0, tag=1)
    r1.send(0, tag=1)
    m = match_operations(b.open())
    assert pairs(m) == {((1, 0), (0, 3)), ((1, 1), (0, 4))}
    assert m.recvs.flags[1] & Post.FREED


def test_a_refused_send_was_never_posted() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.send(1, tag=1, error=4)
    r0.send(1, tag=1)
    r1.recv(0, tag=1)
    m = match_operations(b.open())
    assert pairs(m) == {((0, 1), (1, 0))}


def test_communicators_keep_apart_and_their_ranks_are_translated() -> None:
    b = Builder(ranks=4)
    r0, r1, r2, r3 = b.ranks
    halves = b.split([1, 0, 1, 0])
    odd, even = halves[0], halves[1]
    twin = b.dup(even)
    s = r0.send(1, comm=even)
    r0.send(1, comm=twin)
    r2.recv(0, comm=twin)
    x = r2.recv(ANY, got=0, comm=even)
    y = r3.send(0, comm=odd)
    z = r1.recv(1, comm=odd)
    m = match_operations(b.open())
    assert ((0, s), (2, x)) in pairs(m)
    assert ((3, y), (1, z)) in pairs(m)
    assert len(pairs(m)) == 3


def test_peers_of_an_intercommunicator_are_in_the_other_group() -> None:
    b = Builder(ranks=4)
    r0, _, _, r3 = b.ranks
    inter = b.comm("MPI_Intercomm_create", [0, 1], remote=[2, 3])
    s = r0.send(1, comm=inter)
    x = r3.recv(ANY, got=0, comm=inter)
    m = match_operations(b.open())
    assert pairs(m) == {((0, s), (3, x))}


def test_collectives_pair_by_their_number_on_the_communicator() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    q = r0.ibarrier()
    r1.barrier()
    r2.barrier()
    r0.wait(q)
    for r in b.ranks:
        r.bcast(root=1)
    r0.open.barrier()
    m = match_operations(b.open())
    assert [m.instances.parts(k).tolist() for k in range(3)] == [[0, 3, 5], [1, 4, 6], [2]]
    assert m.collectives.completion.tolist() == [1, 2, NONE, 0, 1, 0, 1]
    assert m.collective_of((1, 1)) == 1


def test_windows_files_and_persistent_collectives_count_for_themselves() -> None:
    b = Builder(ranks=2)
    windows = b.window()
    for i, r in enumerate(b.ranks):
        if i == 0:
            r.barrier()
        r.call("MPI_Win_fence", win=windows[i])
        if i == 1:
            r.barrier()
        r.call("MPI_Barrier_init", comm="MPI_COMM_WORLD", info=1, request=400)
        r.call("MPI_Start", request=400)
        r.call("MPI_Wait", request=400)
        r.call("MPI_Start", request=400)
        r.call("MPI_Wait", request=400)
        r.call("MPI_Win_free", win=windows[i])
    m = match_operations(b.open())
    groups = [tuple(m.collectives.event[m.instances.parts(k)].tolist()) for k in range(len(m.instances))]
    # made, barrier, init on the world; fence and free on the window; two starts
    assert sorted(groups) == sorted([(0, 0), (1, 2), (3, 3), (2, 1), (8, 8), (4, 4), (6, 6)])
    assert m.collectives.completion.tolist()[4:6] == [5, 7]


def test_posts_of_threads_are_ordered_by_their_tickets() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.send(1, tag=1, thread=0, ticket=5, enter=1000)
    r0.send(1, tag=1, thread=1, ticket=4, enter=2000)
    r1.recv(0, tag=1)
    r1.recv(0, tag=1)
    m = match_operations(b.open())
    assert pairs(m) == {((0, 1), (1, 0)), ((0, 0), (1, 1))}


def test_a_request_may_complete_in_another_thread() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    q = r0.irecv(ANY, 1, got=1, thread=0)
    w = r0.wait(q, thread=1)
    r1.send(0, tag=1)
    m = match_operations(b.open())
    assert pairs(m) == {((1, 0), (0, 0))}
    assert m.recvs.completion.tolist() == [w + 1]


def test_what_c_reads_of_a_rank_lives_as_long_as_c_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: set[int] = set()

    class Watched(operations.ExtractionInput):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            alive.add(id(self.given))

        def __del__(self) -> None:
            alive.discard(id(self.given))

    class Kernel:
        def __getattr__(self, name: str) -> Any:
            function = getattr(kernel, name)
            if name not in ("weft_extract_ops", "weft_bound_op_counts"):
                return function

            def called(given: Any, *rest: Any) -> Any:
                assert id(given) in alive
                seen.append(name)
                return function(given, *rest)

            return called

    kernel, seen = operations.extraction.kernel(), list[str]()
    monkeypatch.setattr(operations, "ExtractionInput", Watched)
    monkeypatch.setattr(operations.extraction, "kernel", Kernel)
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    p = r0.send_init(1)
    r0.startall([p, p, p])
    for _ in range(3):
        r1.recv(0)
    assert len(match_operations(b.open()).sends) == 3
    assert set(seen) == {"weft_extract_ops", "weft_bound_op_counts"}
