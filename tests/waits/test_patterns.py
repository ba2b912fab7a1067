"""Each wait state in a built trace with known times, beside a twin in which nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from weft.findings import Finding
from weft.match import match_operations
from weft.native.headers.waits import Cause as CauseInC
from weft.trace import Trace
from weft.trace.builder import Builder, RankBuilder
from weft.trace.layout import Def
from weft.trace.tails import Status
from weft.trace.varint import encode_string, encode_unsigned
from weft.waits import find, ledger_of
from weft.waits.causes import LATE, ORDER, Cause
from weft.waits.shared_cores import describe_shared_cores
from weft.waits.wait_states import waits_of_run

MS = 1_000_000
BIG = {"count": 1 << 20, "datatype": "MPI_BYTE"}


def times(enter: int, leave: int) -> dict[str, int]:
    return {"enter": enter * MS, "exit": leave * MS}


@cache
def opened(b: Builder) -> Trace:
    return b.open()


def waits(b: Builder) -> dict[tuple[int, int], tuple[str, float]]:
    """By (rank, event) the cause and ms of each wait for somebody late."""
    trace = opened(b)
    found = waits_of_run(trace, match_operations(trace))
    return {
        found.clock.event(place).id: (Cause(cause).slug, ns / MS)
        for place, ns, cause in zip(*(c.tolist() for c in (found.late.waiter, found.late.ns, found.late.cause)),
                                    strict=True)
    }  # fmt: skip


def totals(b: Builder) -> dict[str, float]:
    """ms by cause, of all ranks."""
    trace = opened(b)
    made = ledger_of(trace, match_operations(trace))
    return {cause.slug: made.total(cause) / MS for cause in made.present()}


def told(b: Builder, kind: str) -> list[Finding]:
    trace = opened(b)
    return [finding for finding in find(trace, match_operations(trace)) if finding.kind == kind]


def test_a_wait_for_several_requests_is_of_the_last_to_come() -> None:
    b = Builder(ranks=3)
    requests = [b.ranks[0].irecv(source, **times(0, 1)) for source in (1, 2)]
    b.ranks[0].waitall(requests, **times(1, 60))
    b.ranks[1].send(0, **times(20, 21))
    b.ranks[2].send(0, **times(50, 51))
    assert waits(b) == {(0, 2): ("late-sender", 49)}


@pytest.mark.parametrize("call", ["waitany", "waitsome"])
def test_a_wait_for_any_request_is_of_the_first_to_come(call: str) -> None:
    b = Builder(ranks=3)
    requests = [b.ranks[0].irecv(source, **times(0, 1)) for source in (1, 2)]
    if call == "waitany":
        b.ranks[0].waitany(requests, 0, **times(1, 60))
    else:
        b.ranks[0].waitsome(requests, [0, 1], **times(1, 60))
    b.ranks[1].send(0, **times(20, 21))
    b.ranks[2].send(0, **times(50, 51))
    assert waits(b) == {(0, 2): ("late-sender", 19)}


def test_an_exchange_with_a_late_rank_is_a_late_sender_and_no_late_receiver() -> None:
    b = Builder(ranks=2)
    for r, start in zip(b.ranks, (0, 40), strict=True):
        both = [
            r.irecv(1 - r.index, **BIG, **times(start, start + 1)),
            r.isend(1 - r.index, **BIG, **times(start + 1, start + 2)),
        ]
        r.waitall(both, **times(start + 2, 60))
    assert waits(b) == {(0, 2): ("late-sender", 39)}


def send(bytes_: int, leave: int, name: str = "send", more: int = 1) -> Builder:
    """Sends at 10 ms that return at `leave`; their receives are posted at 50 ms."""
    b = Builder(ranks=2)
    for i in range(more):
        at = 100 * i
        getattr(b.ranks[0], name)(1, count=bytes_, datatype="MPI_BYTE", **times(at + 10, at + leave))
        b.ranks[1].recv(0, count=bytes_, datatype="MPI_BYTE", **times(at + 50, at + 60))
    return b


def test_a_large_send_that_returns_with_its_receive_waited_for_it() -> None:
    assert waits(send(1 << 20, 52)) == {(0, 0): ("late-receiver", 40)}


@pytest.mark.parametrize(
    ("bytes_", "leave", "name"),
    [(1 << 20, 11, "send"), (8, 52, "send"), (2000, 52, "send"), (1 << 20, 52, "bsend"), (1 << 20, 52, "rsend"),
     (5000, 52, "send")],
)  # fmt: skip
def test_a_send_that_is_buffered_or_may_have_been_waits_for_nobody(bytes_: int, leave: int, name: str) -> None:
    assert waits(send(bytes_, leave, name)) == {}


def test_two_sends_that_were_held_show_the_limit_and_one_does_not() -> None:
    assert waits(send(5000, 52, more=2)) == {(0, 0): ("late-receiver", 40), (0, 1): ("late-receiver", 40)}


def test_a_size_that_was_seen_to_be_buffered_never_waits() -> None:
    b = send(1 << 20, 52)
    b.ranks[0].send(1, count=1 << 21, datatype="MPI_BYTE", **times(100, 101))
    b.ranks[1].recv(0, count=1 << 21, datatype="MPI_BYTE", **times(150, 151))
    assert waits(b) == {}


def test_a_synchronous_send_of_a_byte_waits() -> None:
    assert waits(send(1, 52, "ssend")) == {(0, 0): ("late-receiver", 40)}


def test_isend_waits_where_its_completion_does() -> None:
    b = Builder(ranks=2)
    request = b.ranks[0].isend(1, **BIG, **times(0, 1))
    b.ranks[0].wait(request, **times(30, 52))
    b.ranks[1].recv(0, **BIG, **times(50, 60))
    assert waits(b) == {(0, 1): ("late-receiver", 20)}


def test_a_matched_probe_waits_and_its_receive_does_not() -> None:
    b = Builder(ranks=2)
    message = b.ranks[1].mprobe(0, **times(0, 31))
    b.ranks[1].mrecv(message, **times(31, 40))
    b.ranks[0].send(1, **times(30, 31))
    assert waits(b) == {(1, 0): ("late-sender", 30)}


def test_polls_are_polling_and_wait_for_nobody() -> None:
    b = Builder(ranks=2)
    request = b.ranks[1].irecv(0, **times(0, 1))
    b.ranks[1].test(request, False, polls=900, **times(1, 50))
    b.ranks[1].test(request, **times(50, 51))
    b.ranks[0].send(1, **times(50, 51))
    assert waits(b) == {}
    assert totals(b) == {"polling": 49, "rest": 3}


def collective(name: str, late: int, **more: Any) -> dict[tuple[int, int], tuple[str, float]]:
    b = Builder(ranks=3)
    for r in b.ranks:
        getattr(r, name)(**more, **times(50 if r.index == late else 10, 60))
    return waits(b)


@pytest.mark.parametrize(
    ("name", "more", "late", "waiting", "slug"),
    [("barrier", {}, 1, "0, 2", "wait-at-barrier"), ("allreduce", {}, 2, "0, 1", "wait-at-nxn"),
     ("bcast", {"root": 1}, 1, "0, 2", "late-broadcast"), ("bcast", {"root": 1}, 0, "", ""),
     ("reduce", {"root": 1}, 0, "1", "early-reduce"), ("reduce", {"root": 1}, 1, "", ""),
     ("scan", {}, 1, "2", "early-scan"), ("scan", {}, 0, "1, 2", "early-scan"), ("scan", {}, 2, "", "")],
)  # fmt: skip
def test_who_waits_at_a_collective(name: str, more: dict[str, int], late: int, waiting: str, slug: str) -> None:
    found = collective(name, late, **more)
    assert ", ".join(str(rank) for rank, _ in found) == waiting
    assert set(found.values()) <= {(slug, 40)}


def test_a_member_that_left_before_the_last_came_did_not_wait_for_it() -> None:
    b = Builder(ranks=2)
    b.ranks[0].allreduce(count=0, **times(0, 5))
    b.ranks[1].allreduce(count=0, **times(50, 51))
    assert waits(b) == {}


def test_a_nonblocking_collective_waits_in_its_completion() -> None:
    b = Builder(ranks=2)
    for r, at in zip(b.ranks, (0, 50), strict=True):
        request = r.ibarrier(**times(at, at + 1))
        r.wait(request, **times(at + 10, 70))
    assert waits(b) == {(0, 1): ("wait-at-barrier", 40)}


def test_what_is_left_of_a_barrier_is_its_completion() -> None:
    b = Builder(ranks=2)
    b.ranks[0].barrier(**times(0, 60))
    b.ranks[1].barrier(**times(50, 52))
    assert totals(b) == {"wait-at-barrier": 50, "completion": 8, "rest": 4}


def on_window(calls: Callable[[Builder, Callable[..., None]], None]) -> Builder:
    b = Builder(ranks=2)
    wins = b.window()
    ids = {}
    for r in b.ranks:
        ids[r.index] = r.new_id("GROUP")
        r.define(Def.GROUP, encode_unsigned(ids[r.index]) + b.encode_members(r, [1 - r.index]))

    def call(rank: int, name: str, enter: int, leave: int, **more: Any) -> None:
        group = {"group": ids[rank]} if name in {"MPI_Win_start", "MPI_Win_post"} else {}
        b.ranks[rank].call(name, win=wins[rank], **group, **more, **times(enter, leave))

    calls(b, call)
    return b


@pytest.mark.parametrize("held", ["start", "complete"])
def test_a_late_post_holds_the_start_or_the_complete(held: str) -> None:
    def calls(b: Builder, call: Callable[..., None]) -> None:
        call(0, "MPI_Win_start", 10, 52 if held == "start" else 11)
        call(0, "MPI_Win_complete", 53 if held == "start" else 20, 60)
        call(1, "MPI_Win_post", 50, 51)
        call(1, "MPI_Win_wait", 51, 61)

    found = waits(on_window(calls))
    place, ns = ((0, 1), 40) if held == "start" else ((0, 2), 30)
    assert {v for k, v in found.items() if k[0] == 0} == {("late-post", ns)} and place[1] <= 2


def test_a_wait_is_early_until_the_last_complete() -> None:
    def calls(b: Builder, call: Callable[..., None]) -> None:
        call(1, "MPI_Win_post", 0, 1)
        call(1, "MPI_Win_wait", 5, 62)
        call(0, "MPI_Win_start", 10, 11)
        call(0, "MPI_Win_complete", 60, 61)

    assert set(waits(on_window(calls)).values()) == {("early-wait", 55)}


def test_an_early_fence_waits_and_its_rest_is_one_sided() -> None:
    def calls(b: Builder, call: Callable[..., None]) -> None:
        call(0, "MPI_Win_fence", 10, 60)
        call(1, "MPI_Win_fence", 50, 60)

    b = on_window(calls)
    assert set(waits(b).values()) == {("wait-at-fence", 40)}
    found = totals(on_window(calls))
    assert (found["wait-at-fence"], found["one-sided"]) == (40, 20)


def test_start_and_end_of_mpi_and_making_communicators_are_apart() -> None:
    b = Builder(ranks=2)
    for r in b.ranks:
        late = 40 * r.index
        r.call("MPI_Init", **times(late, 50))
    b.dup(enter=60 * MS, exit=90 * MS)
    for r in b.ranks:
        r.call("MPI_Finalize", **times(100 + 40 * r.index, 150))
    found = totals(b)
    assert found == {"management": 60, "start-and-end": 120}
    trace = opened(b)
    assert {finding.kind for finding in find(trace, match_operations(trace))} <= {"imbalance"}


def test_imbalance_names_the_call_before_which_the_work_was_done() -> None:
    b = Builder(ranks=2)
    for r in b.ranks:
        end = 400 if r.index else 50
        r.call("MPI_Init", **times(0, 1), site=("a.c", 1, "main"))
        r.call("MPI_Comm_rank", comm=2, rank=0, **times(1, 1), site=("a.c", 2, "main"))
        r.barrier(**times(end, 401), site=("a.c", 7, "main"))
        r.call("MPI_Finalize", **times(402, 403), site=("a.c", 9, "main"))
    [finding] = told(b, "imbalance")
    assert "most of it before barrier at a.c:7" in finding.message
    assert [site.call for site in finding.sites] == ["MPI_Barrier"]


def test_work_after_the_last_call_is_placed_there_and_not_at_finalize() -> None:
    b = Builder(ranks=2)
    for r in b.ranks:
        r.call("MPI_Init", **times(0, 1), site=("a.c", 1, "main"))
        r.barrier(**times(10, 11), site=("a.c", 7, "main"))
        r.call("MPI_Finalize", **times(400 if r.index else 50, 403), site=("a.c", 9, "main"))
    [finding] = told(b, "imbalance")
    assert "most of it after barrier at a.c:7" in finding.message
    assert "Finalize" not in str(finding.to_json()) and "MPI_Init" not in str(finding.to_json())


def on_cores(ranks: list[RankBuilder], cores: str, limit: int = 0) -> None:
    for r in ranks:
        r.define(Def.CORES, encode_string(cores) + encode_unsigned(limit))


@pytest.mark.parametrize(
    ("cores", "limit", "said"),
    [("0-1", 0, "4 ranks shared 2 cores"), ("0-3", 0, ""), ("0-7,9", 1500, "4 ranks shared 2 cores"), ("", 0, ""),
     ("5", 0, "4 ranks shared 1 core"), ("x-,9999999999999", 0, "4 ranks shared 1 core")],
)  # fmt: skip
def test_ranks_that_share_cores_are_told(cores: str, limit: int, said: str) -> None:
    b = Builder(ranks=4)
    for r in b.ranks:
        r.barrier(**times(50 if r.index else 0, 60))
    on_cores(b.ranks, cores, limit)
    trace = opened(b)
    assert describe_shared_cores(trace) == said
    [finding] = [f for f in find(trace, match_operations(trace)) if f.kind == "wait-at-collective"]
    assert ("had no core" in finding.message) == bool(said)
    assert ("had no core" in "".join(ledger_of(trace, match_operations(trace)).lines())) == bool(said)


def test_each_bound_rank_adds_its_own_core() -> None:
    b = Builder(ranks=2)
    for r in b.ranks:
        r.barrier()
        on_cores([r], str(r.index))
    assert describe_shared_cores(opened(b)) == ""


def test_of_a_record_that_does_not_know_the_cores_nothing_is_said() -> None:
    assert describe_shared_cores(Builder(ranks=64).open()) == ""


def test_a_call_that_never_returned_is_in_no_row_and_that_is_said() -> None:
    b = Builder(ranks=2)
    b.ranks[0].open.recv(1)
    b.ranks[1].send(0, tag=5)
    trace = opened(b)
    made = ledger_of(trace, match_operations(trace))
    assert made.open_calls == 1 and any("1 call never returned and is not counted" in line for line in made.lines())


def test_a_late_start_of_a_partitioned_message_is_not_attributed() -> None:
    b = Builder(ranks=2)
    whole = {"partitions": 1, "count": 1, "datatype": "MPI_BYTE", "tag": 0, "comm": 2}
    for r, name, start in ((b.ranks[0], "MPI_Psend_init", 50), (b.ranks[1], "MPI_Precv_init", 1)):
        id = r.new_id("REQUEST")
        r.call(name, **whole, **{"dest" if r.index == 0 else "source": 1 - r.index}, request=id, **times(0, 1))
        r.call("MPI_Start", request=id, **times(start, start + 1))
        r.call("MPI_Wait", request=id, **times(start + 1, 60), status=Status(0, 0, 1))
    assert waits(b) == {}


def test_causes_have_labels_and_an_order() -> None:
    assert set(ORDER) == set(Cause) and set(LATE) < set(ORDER)
    assert len({cause.label for cause in Cause}) == len(Cause)
    assert len(CauseInC) == 9 and all(Cause[cause.name] == cause for cause in CauseInC)


def loop(work: list[list[int]]) -> str:
    """What is told of barriers in a loop before which the ranks compute so many ms in each round."""
    b = Builder(ranks=len(work[0]))
    at = [0] * len(work[0])
    for ms in work:
        at = [start + more for start, more in zip(at, ms, strict=True)]
        for r, enter in zip(b.ranks, at, strict=True):
            r.barrier(site=("loop.c", 9, "main"), **times(enter, max(at) + 1))
        at = [max(at) + 1] * len(at)
    return told(b, "wait-at-collective")[0].message


def test_who_comes_last_is_named_with_its_work_and_that_of_one_who_waits() -> None:
    said = loop([[5, 100, 90], [5, 90, 100]] * 2)
    assert "for ranks 1 and 2, last to come: rank 2 computes 290 ms before loop.c:9, rank 0 15 ms" in said


def test_nobody_is_named_last_where_all_are_so_in_turn() -> None:
    assert loop([[100, 5], [5, 100]] * 4).endswith("for each other: a different one comes last each time")
