"""OTF2: the otf2 package and otf2-print read the same calls, messages, collectives and transfers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import otf2
import pytest
from otf2 import events as kinds

from machine import need
from tests_support import execute
from weft.export import write
from weft.export.otf2.archive import _CALLS
from weft.export.otf2.record_rows import Kind
from weft.match import NONE, match_operations
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.trace.layout import PROC_NULL, ROOT


def archive(trace: Trace, tmp_path: Path) -> Path:
    write(trace, "otf2", tmp_path / "run.otf2")
    return tmp_path / "run.otf2" / "traces.otf2"


def read(trace: Trace, tmp_path: Path) -> tuple[Any, list[tuple[Any, Any]]]:
    with otf2.reader.open(str(archive(trace, tmp_path))) as opened:
        return opened.definitions, list(opened.events)


def printed(anchor: Path) -> str:
    need("otf2-print")
    done = execute(["otf2-print", anchor])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_kind_of_row_has_its_function_of_otf2() -> None:
    assert len(_CALLS) == len(Kind)


@pytest.mark.parametrize("name", ["zoo", "hung"])
def test_every_call_enters_and_leaves_its_region(name: str, request: Any, tmp_path: Path) -> None:
    trace: Trace = request.getfixturevalue(name)
    _, events = read(trace, tmp_path)
    entered = Counter((e.time, e.region.name) for _, e in events if isinstance(e, kinds.Enter))
    assert entered == Counter((e.enter_ns, e.function.name) for rank in trace.ranks for e in rank)
    left = Counter(e.region.name for _, e in events if isinstance(e, kinds.Leave))
    assert left == Counter(e.function.name for rank in trace.ranks for e in rank)


def test_calls_nest_and_times_ascend_on_every_location(zoo: Trace, tmp_path: Path) -> None:
    _, events = read(zoo, tmp_path)
    inside: dict[Any, Any] = {}
    last: dict[Any, int] = {}
    for location, event in events:
        key = location.group.name, location.name
        assert event.time >= last.get(key, 0)
        last[key] = event.time
        if isinstance(event, kinds.Enter):
            assert inside.get(key) is None
            inside[key] = event.region
        else:
            assert inside[key] is not None
            if isinstance(event, kinds.Leave):
                assert inside.pop(key) is event.region
    assert len(last) == sum(len(rank.threads) for rank in zoo.ranks)


def test_messages_are_those_of_the_match(zoo: Trace, tmp_path: Path) -> None:
    _, events = read(zoo, tmp_path)
    of = match_operations(zoo)

    def told(*types: type) -> Counter[tuple[Any, ...]]:
        return Counter(
            (location.group.name, other(e), e.communicator.name, e.msg_tag, e.msg_length)
            for location, e in events if isinstance(e, types)
        )  # fmt: skip

    def other(event: Any) -> int:
        return int(event.receiver if hasattr(event, "receiver") else event.sender)

    def size(row: int) -> int:
        args = zoo.event(of.sends.rank_of(row), int(of.sends.args[row]))
        return args.count * 4

    sent = Counter(
        (f"rank {of.sends.rank_of(i)}", int(of.sends.peer[i]), "world", int(of.sends.tag[i]), size(i))
        for i in range(len(of.sends))
    )
    assert told(kinds.MpiSend, kinds.MpiIsend) == sent
    got = Counter(
        (
            f"rank {of.recvs.rank_of(j)}",
            int(of.recvs.peer[j]),
            "world",
            int(of.recvs.tag[j]),
            size(int(of.recvs.partner[j])),
        )
        for j in range(len(of.recvs))
        if of.recvs.completion[j] != NONE
    )
    assert told(kinds.MpiRecv, kinds.MpiIrecv) == got


def test_requests_are_complete_once(zoo: Trace, tmp_path: Path) -> None:
    _, events = read(zoo, tmp_path)

    def numbers(kind: type) -> list[tuple[str, int]]:
        return sorted((location.group.name, e.request_id) for location, e in events if isinstance(e, kind))

    assert numbers(kinds.MpiIrecvRequest) == numbers(kinds.MpiIrecv)
    begun, done = numbers(kinds.MpiIsend), numbers(kinds.MpiIsendComplete)
    # Nobody waits for rank 0's last.
    assert len(set(begun) - set(done)) == 1 and set(done) < set(begun)
    assert numbers(kinds.NonBlockingCollectiveRequest) == numbers(kinds.NonBlockingCollectiveComplete)


def test_collectives_have_their_operation_root_and_volume(zoo: Trace, tmp_path: Path) -> None:
    _, events = read(zoo, tmp_path)
    found = {
        (location.group.name, e.collective_op.name if hasattr(e.collective_op, "name") else str(e.collective_op)):
        (e.communicator.name, e.root, e.size_sent, e.size_received)
        for location, e in events if isinstance(e, kinds.MpiCollectiveEnd)
    }  # fmt: skip

    def of(rank: int, operation: str) -> tuple[Any, ...]:
        return found[f"rank {rank}", f"CollectiveOp.{operation}"]

    nobody = 2**32 - 1
    assert of(1, "BCAST") == ("world", 1, 64, 16) and of(0, "BCAST") == ("world", 1, 0, 16)
    assert of(2, "GATHER") == ("world", 2, 8, 32) and of(0, "GATHER") == ("world", 2, 8, 0)
    assert of(0, "SCATTER") == ("world", 0, 32, 8) and of(1, "SCATTER") == ("world", 0, 0, 8)
    assert of(0, "ALLGATHER") == ("world", nobody, 12, 48)
    assert of(0, "ALLTOALL") == ("world", nobody, 16, 16)
    assert of(0, "ALLTOALLV") == ("world", nobody, 40, 64)
    assert of(3, "REDUCE") == ("world", 3, 4, 4) and of(0, "REDUCE") == ("world", 3, 4, 0)
    assert of(0, "BARRIER") == ("world", nobody, 0, 0)
    assert of(3, "ALLREDUCE")[0] == zoo.ranks[3].comm(256).name  # type: ignore[union-attr]
    assert of(3, "ALLREDUCE")[2:] == (20, 20)


def test_transfers_are_complete_at_the_next_synchronisation(zoo: Trace, tmp_path: Path) -> None:
    _, events = read(zoo, tmp_path)
    mine = [e for location, e in events if location.group.name == "rank 0" and type(e).__name__.startswith("Rma")]
    assert [type(e).__name__.removeprefix("Rma") for e in mine] == [
        "WinCreate", "CollectiveBegin", "CollectiveEnd", "Put", "Atomic", "CollectiveBegin", "OpCompleteRemote",
        "OpCompleteRemote", "CollectiveEnd", "RequestLock", "AcquireLock", "Get", "OpCompleteRemote", "ReleaseLock",
        "WinDestroy",
    ]  # fmt: skip
    put, atomic, get = mine[3], mine[4], mine[11]
    assert (put.remote, put.bytes, atomic.bytes_sent, atomic.bytes_received, get.bytes) == (1, 8, 8, 0, 8)
    assert {e.matching_id for e in (mine[6], mine[7])} == {put.matching_id, atomic.matching_id}
    assert mine[12].matching_id == get.matching_id and mine[9].lock_type == otf2.LockType.SHARED


def test_call_sites_are_source_code_locations(zoo: Trace, tmp_path: Path) -> None:
    _, events = read(zoo, tmp_path)
    sites = {
        (value.file, value.line_number) for _, e in events if isinstance(e, kinds.Enter) and e.attributes
        for value in e.attributes.values()
    }  # fmt: skip
    assert sites == {("step.py", 9), ("step.py", 14), ("lost.py", 1)}


def ranks_of(location: Any) -> int:
    return int(location.group.name.removeprefix("rank "))


def test_groups_and_communicators_have_their_members(zoo: Trace, tmp_path: Path) -> None:
    definitions, _ = read(zoo, tmp_path)
    members = {comm.name: [ranks_of(m) for m in comm.group.members] for comm in definitions.comms}
    assert members["world"] == [0, 1, 2, 3]
    for comm in zoo.communicators:
        assert members[comm.name] == list(comm.members)


def test_open_calls_end_with_the_run_and_are_marked(hung: Trace, tmp_path: Path) -> None:
    anchor = archive(hung, tmp_path)
    with otf2.reader.open(str(anchor)) as opened:
        left = [(loc.group.name, e.time) for loc, e in opened.events if isinstance(e, kinds.Leave)]
    assert left[-2:] == [("rank 0", 3000), ("rank 1", 3000)]
    text = (tmp_path / "run.otf2" / "traces.marker").read_bytes()
    assert text.count(b"never returned from recv") == 2


def test_otf2_print_counts_the_same(zoo: Trace, tmp_path: Path) -> None:
    anchor = archive(zoo, tmp_path)
    lines = Counter(re.findall(r"^([A-Z_]+) {2,}\d", printed(anchor), re.MULTILINE))
    with otf2.reader.open(str(anchor)) as opened:
        read_ = Counter(type(e).__name__ for _, e in opened.events)
    by_name = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): count for name, count in read_.items()}
    assert lines == by_name
    assert lines["ENTER"] == zoo.event_count
    assert lines["MPI_SEND"] + lines["MPI_ISEND"] == len(match_operations(zoo).sends)


def test_an_intercommunicator_is_both_its_groups_one_behind_the_other(tmp_path: Path) -> None:
    b = Builder(ranks=2)
    both = b.spawn((0, 1), 2)
    b.ranks[0].send(1, tag=3, comm=both)
    b.ranks[3].recv(0, tag=3, comm=both)
    b.ranks[0].bcast(ROOT, comm=both)
    b.ranks[1].bcast(PROC_NULL, comm=both)
    b.ranks[2].bcast(0, comm=both)
    b.ranks[3].bcast(0, comm=both)
    definitions, events = read(b.open(), tmp_path)
    inter = next(c for c in definitions.comms if "|" in c.name)
    assert [ranks_of(m) for m in inter.group.members] == [0, 1, 2, 3]
    assert [(e.receiver, e.communicator) for _, e in events if isinstance(e, kinds.MpiSend)] == [(3, inter)]
    assert [e.sender for _, e in events if isinstance(e, kinds.MpiRecv)] == [0]
    roots = [e.root for _, e in events if isinstance(e, kinds.MpiCollectiveEnd) and e.communicator is inter]
    assert sorted(roots) == [0, 0, 0, 2**32 - 1]


def test_a_member_without_a_record_keeps_its_place(tmp_path: Path) -> None:
    b = Builder(ranks=3)
    b.ranks[0].send(2)
    b.ranks[2].leave_no_record()
    definitions, events = read(b.open(), tmp_path)
    assert len(definitions.locations) == 3
    assert [e.receiver for _, e in events if isinstance(e, kinds.MpiSend)] == [2]
