"""Runs on disk: what is whole reads whole, what is not is named."""

import gc
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.trace import EVENT, RunError, layout, mapping
from weft.trace.builder import ANY, Builder
from weft.trace.layout import StreamKind
from weft.trace.places import split_spawned_worlds


def slots(n: int) -> np.ndarray:
    """`n` events that can be told apart."""
    rows = np.zeros(n, EVENT)
    rows["enter"] = np.arange(n) + 10**9
    rows["function"] = 474
    rows["flags"] = layout.Flag.CLOSED
    rows["buffer"] = np.arange(n) * 7
    return rows


def test_a_run_reads_as_it_was_built() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=7, site=("step.py", 9, "exchange"), enter=1000, exit=3500)
    r1.recv(ANY, got=0, tag=7, enter=2000, exit=4000)
    r2.open.recv(0, error=0)
    trace = b.open()
    send, recv, still = trace.event(0, 0), trace.event(1, 0), trace.event(2, 0)
    assert not trace.problems
    assert (send.function.name, send.peer, send.tag, send.site.text) == ("MPI_Send", 1, 7, "step.py:9 exchange")
    assert (send.enter_ns, send.exit_ns, recv.enter_ns) == (0, 2500, 1000)
    assert recv.args["source"] == layout.ANY_SOURCE
    assert recv.peer == 0
    assert recv.status is not None
    assert (recv.status.source, recv.status.count) == (0, 4)
    assert still.open
    assert still.exit_ns is None
    assert [rank.state for rank in trace.ranks] == ["finalized", "finalized", "running"]


def test_events_are_read_without_a_copy_across_chunks() -> None:
    b = Builder(ranks=1)
    rows = slots(400_000)  # 22 MB: a dozen chunks with tails and definitions between them
    for part in np.array_split(rows, 7):
        b.ranks[0].append(part)
        b.ranks[0].append_tails(b"x" * 50_000)
        b.ranks[0]._flush(0)
    trace = b.open()
    thread = trace.ranks[0].threads[0]
    extents = trace.ranks[0].file.extents(StreamKind.EVENTS)  # type: ignore[union-attr]
    assert len(extents) > 5
    assert np.array_equal(trace.ranks[0].events, rows)
    assert trace.ranks[0].events is thread.events
    assert not thread.events.flags.owndata
    assert not thread.events.flags.writeable
    assert len(thread.tails) == 350_000


def test_a_chunk_table_that_goes_on_in_the_file_is_followed() -> None:
    b = Builder(ranks=1)
    for thread in range(100):  # two streams each: more chunks than the header has room for
        b.ranks[0].append(slots(3), thread)
        b.ranks[0].append_tails(b"abc", thread)
    b.ranks[0].append(slots(300_000), 7)
    trace = b.open()
    assert not trace.problems
    assert len(trace.ranks[0].threads) == 100
    assert len(trace.ranks[0].threads[7].events) == 300_003
    assert trace.event_count == 300_300


def test_copying_gives_what_mapping_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder(ranks=1)
    b.ranks[0].append(slots(100_000))
    path = b.write()
    monkeypatch.setattr(mapping, "_libc", None)
    assert np.array_equal(weft.open(path).ranks[0].events, slots(100_000))


def test_a_mapping_ends_with_the_last_array_over_it() -> None:
    b = Builder(ranks=1)
    b.ranks[0].append(slots(100_000))
    trace = b.open()
    name = str(trace.ranks[0].file.path)  # type: ignore[union-attr]
    part = trace.ranks[0].events["buffer"][5:10]
    assert name in Path("/proc/self/maps").read_text()
    del trace
    gc.collect()
    assert part.tolist() == [35, 42, 49, 56, 63]
    assert name in Path("/proc/self/maps").read_text()
    del part
    gc.collect()
    assert name not in Path("/proc/self/maps").read_text()


def test_threads_are_merged_in_the_order_of_time() -> None:
    b = Builder(ranks=1)
    r = b.ranks[0]
    for thread in (0, 1, 1, 0, 2):
        r.send(0, tag=thread, thread=thread)
    rank = b.open().ranks[0]
    assert [t.slot for t in rank.threads] == [0, 1, 2]
    assert rank.events["tag"].tolist() == [0, 1, 1, 0, 2]
    assert rank.event_threads.tolist() == [0, 1, 1, 0, 2]
    assert rank.event_positions.tolist() == [0, 0, 1, 1, 0]
    assert rank.event(2).thread is rank.threads[1]
    assert rank.event(3).position == 1


def test_a_torn_file_keeps_its_whole_events_and_says_so() -> None:
    b = Builder(ranks=2)
    b.ranks[0].append(slots(10_000))
    b.ranks[1].send(0)
    path = b.write()
    file = path / "ranks" / "0-000000.weft"
    os.truncate(file, 4096 + 100 * 56 + 20)
    trace = weft.open(path)
    assert len(trace.ranks[0].events) == 100
    assert len(trace.ranks[1].events) == 1
    assert any("0-000000.weft" in p and "cut off" in p for p in trace.problems)


def test_a_missing_rank_keeps_its_place_and_is_named() -> None:
    b = Builder(ranks=4)
    for rank in b.ranks:
        rank.send(0)
    b.ranks[2].leave_no_record()
    trace = b.open()
    assert [r.missing for r in trace.ranks] == [False, False, True, False]
    assert len(trace.ranks[2].events) == 0
    assert trace.ranks[2].state == "missing"
    assert trace.communicators[0].members == (0, 1, 2, 3)
    assert any("1 of 4 ranks left no readable record: 2" in p for p in trace.problems)


def test_a_world_of_which_next_to_nothing_is_there_gets_no_million_places() -> None:
    b = Builder(ranks=2)
    b.ranks[0].size = b.ranks[1].size = 900_000
    for rank in b.ranks:
        rank.send(0)
    trace = b.open()
    assert len(trace.ranks) == 2
    assert any("899998 of 900000" in p for p in trace.problems)


def test_a_process_that_died_before_its_rank_was_known_stands_at_the_end() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1)
    b.ranks[1].open.call("MPI_Init")
    b.ranks[1].rank = -1
    b.ranks[1].path = b.path / "ranks" / "tmp-node0-77.weft"
    trace = b.open()
    assert [r.rank for r in trace.ranks] == [0, 1, -1]
    assert trace.ranks[1].missing
    assert trace.ranks[2].event(0).open
    assert any("before its rank was known" in p for p in trace.problems)


def test_another_size_of_slots_is_refused(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].send(0)
    file = b.write() / "ranks" / "0-000000.weft"
    data = bytearray(file.read_bytes())
    data[12] = 64
    file.write_bytes(data)
    assert any("events of 64 bytes" in p for p in weft.open(tmp_path).problems)


def test_a_link_out_of_the_run_is_refused_and_named(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for rank in b.ranks:
        rank.send(0)
    run = b.write()
    file = run / "ranks" / "0-000001.weft"
    file.rename(tmp_path / "elsewhere.weft")
    file.symlink_to(tmp_path / "elsewhere.weft")
    trace = weft.open(run)
    assert trace.ranks[1].missing
    assert any("0-000001.weft is a link to" in p and "outside the run" in p for p in trace.problems)


def test_a_link_within_the_run_is_followed(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for rank in b.ranks:
        rank.send(0)
    run = b.write()
    file = run / "ranks" / "0-000001.weft"
    file.rename(run / "kept.weft")
    file.symlink_to(run / "kept.weft")
    assert not weft.open(run).problems


def test_ranks_in_another_folder_are_refused(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path / "run")
    b.ranks[0].send(0)
    run = b.write()
    (run / "ranks").rename(tmp_path / "ranks")
    (run / "ranks").symlink_to(tmp_path / "ranks")
    assert any("ranks is a link" in p for p in weft.open(run).problems)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such directory"):
        weft.open(tmp_path / "nothing")
    with pytest.raises(RunError, match="not a run of Weft"):
        weft.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="not a directory"):
        weft.open(tmp_path / "file")


def test_a_foreign_file_among_the_records_is_named(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].send(0)
    b.write()
    (tmp_path / "ranks" / "x.weft").write_text("something else altogether")
    (tmp_path / "ranks" / "notes.txt").write_text("mine")
    problems = weft.open(tmp_path).problems
    assert any("x.weft is not a record of Weft" in p for p in problems)
    assert any("notes.txt" in p for p in problems)


def test_overlapping_chunks_are_left_out(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].append(slots(3000))
    file = b.write() / "ranks" / "0-000000.weft"
    data = bytearray(file.read_bytes())
    raw = np.frombuffer(data, layout.HEADER, count=1)
    count = int(raw["chunk_count"][0])
    assert count > 2
    raw["chunks"][0]["offset"][1:count] = raw["chunks"][0]["offset"][0]
    file.write_bytes(data)
    trace = weft.open(tmp_path)
    assert any("overlaps" in p for p in trace.problems)
    assert len(trace.ranks[0].events) < 3000


def test_a_chunk_table_that_leads_to_itself_ends(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].append(slots(3000))
    file = b.write() / "ranks" / "0-000000.weft"
    data = bytearray(file.read_bytes())
    raw = np.frombuffer(data, layout.HEADER, count=1)
    count = int(raw["chunk_count"][0])
    raw["chunks"][0][count] = (5, 0, 1, 8192, 1)
    raw["chunk_count"] = count + 1
    data[8192 : 8192 + 24] = np.array((5, 0, 1, 8192, 1), layout.CHUNK).tobytes()
    file.write_bytes(data)
    assert any("goes on at byte 8192, where none can be" in p for p in weft.open(tmp_path).problems)


def test_a_file_that_changed_since_it_was_opened_is_not_mapped(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].append(slots(3000))
    file = b.write() / "ranks" / "0-000000.weft"
    trace = weft.open(tmp_path)
    os.truncate(file, 8192)
    with pytest.raises(RunError, match="changed since it was opened"):
        _ = trace.ranks[0].events


def test_a_copied_run_is_the_same_run(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "a")
    b.ranks[0].send(1, site=("x.py", 1, "f"))
    b.ranks[1].recv(0)
    shutil.copytree(b.write(), tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    assert weft.open(tmp_path / "b").event(0, 0).site.text == "x.py:1 f"


def test_an_unknown_function_has_a_number_for_a_name() -> None:
    b = Builder(ranks=1)
    rows = slots(1)
    rows["function"] = 9999
    b.ranks[0].append(rows)
    event = b.open().event(0, 0)
    assert event.function.name == "function 9999"
    assert event.args == {}


@pytest.mark.parametrize(("reason", "words"), [("DISK_FULL", "disk was full"), ("DISK_SLOW", "file system was slow")])
def test_a_record_that_was_given_up_says_why(tmp_path: Path, reason: str, words: str) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].send(0)
    b.ranks[0].state = layout.State.STOPPED
    file = b.write() / "ranks" / "0-000000.weft"
    data = bytearray(file.read_bytes())
    np.frombuffer(data, layout.HEADER, count=1)["stop_reason"] = layout.StopReason[reason]
    file.write_bytes(data)
    (problem,) = weft.open(tmp_path).problems
    assert words in problem
    assert "0-000000.weft" in problem


def test_worlds_that_one_launcher_spawned_under_one_name_are_told_apart() -> None:
    """Two of size 2, one after the other, and one of size 1 between them; a process that never learnt its rank."""

    def record(rank: int, size: int, started: int) -> Any:
        header = SimpleNamespace(rank=rank, world_size=size, start=SimpleNamespace(realtime_ns=started))
        return SimpleNamespace(header=header, name=f"{started}.weft")

    files = [
        record(1, 2, 60),
        record(0, 2, 10),
        record(-1, 0, 40),
        record(0, 1, 30),
        record(1, 2, 12),
        record(0, 2, 61),
    ]
    worlds = [[f.header.start.realtime_ns for f in world] for world in split_spawned_worlds(files)]
    assert worlds == [[10, 12], [30], [40], [60, 61]]


def test_ranks_of_a_large_run_can_be_written_one_by_one(tmp_path: Path) -> None:
    b = Builder(ranks=3, path=tmp_path / "run")
    for r in b.ranks:
        r.send((r.index + 1) % 3, 1)
        r.finalize()
        r.write()
    assert not any(r._record for r in b.ranks)  # an open one has mappings, of which a process has 65,530 at most
    assert [len(rank.events) for rank in b.open().ranks] == [2, 2, 2]
    with pytest.raises(ValueError, match="is written already"):
        b.ranks[0].append(np.zeros(1, EVENT))


def test_an_opened_run_says_its_calls_and_findings_in_words() -> None:
    b = Builder(ranks=2)
    b.ranks[0].isend(1, tag=7, site=("lost.c", 9, "main"))
    for rank in b.ranks:
        rank.finalize()
    trace = weft.open(b.open().path)
    said = str(trace.event(0, 0))
    assert said.startswith("rank 0, event 0: MPI_Isend(") and said.endswith(" at lost.c:9")
    assert repr(trace.event(0, 0)) == "<Event 0:0 MPI_Isend>"
    assert "unmatched-send" in {finding.kind for finding in trace.findings()}
