"""Records whose streams are rings (`weft run --keep`): what is there and what is counted, whenever it is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from weft.errors import RunError
from weft.launch.rankfile import Chunk, locate_newest_events, order_ring_chunks
from weft.native.headers.record import kernel
from weft.trace import Trace, layout
from weft.trace.builder.record import RecordFile
from weft.trace.layout import (
    DROPPED_MOST,
    DROPPED_RECEIVED,
    EVENT,
    NUMBERS,
    RECEIVED,
    TAIL_ALIGN,
    Flag,
    Level,
    State,
    StreamKind,
)
from weft.trace.packed import Pack
from weft.trace.packing import pack_records
from weft.trace.rankfile import RankFile
from weft.trace.rings import snapshots
from weft.trace.rings.chunks import DroppedCalls, order_chunks

RECEIVE, SEND = 7, 8


def ring(path: Path, keep: int = 1) -> RecordFile:
    """A record that keeps the calls of `keep` ns: with 1, as few as a ring can."""
    file = RecordFile(path, Level.TRACE, 0, 1)
    kernel().weft_record_keep(file._record, keep)
    return file


def write(file: RecordFile, first: int, count: int, *, tag: int = 0, tails: bool = True) -> None:
    """Calls numbered by their `enter`, every second with a tail that holds its number."""
    for number in range(first, first + count):
        event = np.zeros(1, EVENT)
        event["enter"], event["function"], event["tag"] = number, RECEIVE + number % 2, tag and number
        event["flags"] = Flag.CLOSED
        if tails and number % 2:
            at = number // 2 * 16
            event["flags"] = Flag.CLOSED | Flag.HAS_TAIL
            event["result"] = at // TAIL_ALIGN
            file.append(StreamKind.TAILS, 0, number.to_bytes(16, "little"))
        file.append(StreamKind.EVENTS, 0, event)


def read(path: Path) -> tuple[RankFile, np.ndarray, DroppedCalls]:
    file = RankFile(path)
    data = file.stream(StreamKind.EVENTS)
    return file, data[: len(data) // EVENT.itemsize * EVENT.itemsize].view(EVENT), file.dropped.get(0, DroppedCalls())


def held(path: Path) -> tuple[int, int]:
    """Holds what is there against what was written; how many calls are there, and how many are counted."""
    file, events, before = read(path)
    assert file.problems == []
    numbers = events["enter"].astype(np.int64)
    assert (numbers == before.events + np.arange(len(events))).all(), "calls in order, none missing, none twice"
    assert int(before.sorts["count"].sum()) + before.uncounted == before.events
    for function in (RECEIVE, SEND):
        counted = int(before.sorts["count"][before.sorts["function"] == function].sum())
        assert counted == (before.events + (function == RECEIVE)) // 2 or before.uncounted
    tails = file.stream(StreamKind.TAILS)
    for event in events[(events["flags"] & Flag.HAS_TAIL) != 0][-5:]:
        at = int(event["result"]) * TAIL_ALIGN - before.tails
        if 0 <= at <= len(tails) - 16:
            assert int.from_bytes(tails[at : at + 16].tobytes(), "little") == int(event["enter"])
    return len(events), before.events


def test_a_ring_keeps_the_last_calls_and_counts_the_others(tmp_path: Path) -> None:
    file = ring(tmp_path / "a.weft")
    write(file, 0, 5000)
    file.close(layout.State.FINALIZED)
    there, dropped = held(tmp_path / "a.weft")
    assert there + dropped == 5000
    assert 2 * 292 <= there <= 3 * 292, "two full chunks and the newest"
    assert (tmp_path / "a.weft").stat().st_size < 400_000
    assert read(tmp_path / "a.weft")[0].header.major == layout.FORMAT_MAJOR_KEPT


def test_the_file_does_not_grow_with_the_run(tmp_path: Path) -> None:
    sizes = []
    for count in (5_000, 20_000):
        file = ring(tmp_path / f"{count}.weft")
        write(file, 0, count)
        file.close(layout.State.FINALIZED)
        sizes.append((tmp_path / f"{count}.weft").stat().st_size)
    assert sizes[0] == sizes[1]


def test_what_is_younger_than_the_wish_is_not_dropped(tmp_path: Path) -> None:
    file = ring(tmp_path / "a.weft", keep=3600 * 10**9)
    write(file, 0, 5000)
    file.close(layout.State.FINALIZED)
    assert held(tmp_path / "a.weft") == (5000, 0)


def test_more_sorts_than_there_is_room_for_are_uncounted_and_not_lost(tmp_path: Path) -> None:
    file = ring(tmp_path / "a.weft")
    write(file, 0, 9000, tag=1, tails=False)
    file.close(layout.State.FINALIZED)
    _, _, before = read(tmp_path / "a.weft")
    assert len(before.sorts) == DROPPED_MOST
    assert before.uncounted == before.events - DROPPED_MOST > 0


def test_a_kill_at_any_moment_leaves_whole_calls_in_order(tmp_path: Path) -> None:
    rng = random.Random(1)
    turned_at_all = 0
    for turn in range(12):
        path = tmp_path / f"{turn}.weft"
        child = os.fork()
        if child == 0:  # no test of this process runs on in the child
            try:
                file, at = ring(path), 0
                while True:
                    (write_taken if turn % 2 else write)(file, at, 100)
                    at += 100
            finally:
                os._exit(1)
        begun = time.monotonic()
        while not path.exists() or path.stat().st_size < 100_000:
            assert time.monotonic() - begun < 60
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        dropped = held_taken(path)[0] if turn % 2 else held(path)[1]
        turned_at_all += dropped > 0
    assert turned_at_all > 6


def write_taken(file: RecordFile, first: int, count: int, behind: int = 0) -> None:
    """Calls that each take a message, which is told `behind` calls later: its tag is the call's number modulo 50."""
    for number in range(first, first + count):
        event = np.zeros(1, EVENT)
        event["enter"], event["function"], event["flags"] = number, RECEIVE, Flag.CLOSED
        file.append(StreamKind.EVENTS, 0, event)
        if number >= behind:
            row = np.zeros(1, RECEIVED)
            row["call"], row["peer"], row["tag"] = number - behind, 1, (number - behind) % 50
            file.append(StreamKind.RECEIVED, 0, row.view(np.uint8))


def held_taken(path: Path, behind: int = 0) -> tuple[int, int]:
    """Holds each dropped call's message against what is told of it; how many were dropped, and of these counted."""
    file, events, before = read(path)
    assert file.problems == []
    there = file.stream(StreamKind.RECEIVED).view(RECEIVED)
    dropped = before.events
    counted = before.sorts[before.sorts["function"] == DROPPED_RECEIVED]
    behind_them = there["tag"][there["call"] < dropped]
    for tag in range(50):
        told = int(counted["count"][counted["tag"] == tag].sum()) + int((behind_them == tag).sum())
        most = len(range(tag, dropped, 50))
        least = len(range(tag, min(dropped, dropped + len(events) - behind - 1), 50))
        assert least <= told <= most, "each message once, unless its row was not there yet"
    return dropped, int(counted["count"].sum())


@pytest.mark.parametrize("behind", [0, 900])
def test_what_dropped_calls_took_is_there_or_counted_once(tmp_path: Path, behind: int) -> None:
    file = ring(tmp_path / "a.weft")
    write_taken(file, 0, 12_000, behind)
    file.close(layout.State.FINALIZED)
    dropped, counted = held_taken(tmp_path / "a.weft", behind)
    assert dropped > 11_000
    assert counted > 6_000, "and rows are dropped behind their calls"
    assert (tmp_path / "a.weft").stat().st_size < 600_000


def test_what_was_taken_by_a_call_that_is_there_is_not_dropped(tmp_path: Path) -> None:
    file = ring(tmp_path / "a.weft")
    write_taken(file, 0, 600)
    dropped = read(tmp_path / "a.weft")[2].events
    rows = np.zeros(4 * 819, RECEIVED)  # four chunks, all of the newest call
    rows["call"] = 599
    file.append(StreamKind.RECEIVED, 0, rows.view(np.uint8))
    there = read(tmp_path / "a.weft")[0].stream(StreamKind.RECEIVED).view(RECEIVED)
    assert int((there["call"] == 599).sum()) == len(rows) + 1
    assert dropped < 599


def chunk(number: int, row: int, used: int = 4096) -> tuple[int, tuple[int, int, int, int]]:
    return number % NUMBERS, (row, 4096 * (row + 1), used, 4096)


def test_numbers_of_chunks_begin_again_at_0() -> None:
    chunks = [chunk(NUMBERS + 1, 0, 100), chunk(NUMBERS - 1, 1), chunk(NUMBERS, 2), chunk(NUMBERS - 2, 3)]
    extents, wrong = order_chunks(StreamKind.TAILS, NUMBERS - 1, chunks)
    assert not wrong
    assert [e.offset for e in extents] == [8192, 12288, 4096], "and what was dropped is left out"


@pytest.mark.parametrize("chunks", [
    [chunk(5, 0), chunk(7, 1)],
    [chunk(5, 0, 100), chunk(6, 1)],
])  # fmt: skip
def test_what_does_not_follow_is_left_out_and_named(chunks: list[tuple[int, tuple[int, int, int, int]]]) -> None:
    extents, wrong = order_chunks(StreamKind.TAILS, 5, chunks)
    assert len(extents) == 1
    assert "does not follow" in wrong


def test_the_watcher_finds_the_newest_call_of_a_ring() -> None:
    def entry(number: int, at: int, used: int) -> Chunk:
        return Chunk(StreamKind.EVENTS, 0, 4, number << layout.NUMBER_SHIFT | at, used)

    chunks = order_ring_chunks([entry(1, 4096, 112), entry(NUMBERS - 1, 20480, 292 * 56), entry(0, 36864, 292 * 56)])
    assert locate_newest_events(chunks) == {0: [(4096 + 56, 56)]}


def test_rings_are_packed_in_their_order_with_what_they_say_of_dropped_calls(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for name in ("0-000000", "0-000001"):
        file = ring(tmp_path / "ranks" / f"{name}.weft")
        write(file, 0, 40_000)
        file.close(State.FINALIZED)
    files = [RankFile(path) for path in sorted((tmp_path / "ranks").iterdir())]
    held = [(f.stream(StreamKind.EVENTS).copy(), f.stream(StreamKind.TAILS).copy(), f.dropped[0]) for f in files]
    assert held[0][2].events
    made = pack_records(tmp_path, lambda _: True)
    there = Pack(tmp_path / "ranks" / made.name).read_records([])
    for one, (events, tails, before) in zip(there, held, strict=True):
        assert np.array_equal(one.stream(StreamKind.EVENTS), events)
        assert np.array_equal(one.stream(StreamKind.TAILS), tails)
        assert one.dropped[0].events == before.events
        assert np.array_equal(one.dropped[0].sorts, before.sorts)


# Parts that are set aside while rings turn (weft.trace.rings.snapshots)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory without records."""
    (tmp_path / "ranks").mkdir()
    (tmp_path / "functions.json").write_text('{"schema": "weft-functions/1", "functions": []}')
    return tmp_path


def test_a_copy_of_a_ring_that_turns_is_whole_or_not_made(run: Path) -> None:
    path = run / "ranks" / "0-000000.weft"
    child = os.fork()
    if child == 0:  # no test of this process runs on in the child
        try:
            file, at = ring(path, keep=20_000_000), 0
            while True:
                write(file, at, 50)
                at += 50
                time.sleep(0.0005)
        finally:
            os._exit(1)
    try:
        begun = time.monotonic()
        while not path.exists() or path.stat().st_size < 100_000:
            assert time.monotonic() - begun < 60
            time.sleep(0.001)
        made, dropped = 0, set[int]()
        for _ in range(40):
            try:
                part = snapshots.copy_records(run, {}, 1 << 60)
            except RunError as error:
                assert "drops its calls faster" in str(error)
                continue
            calls, before = held(part / "ranks" / path.name)
            assert calls
            made += 1
            dropped.add(before)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert made > 5
    assert len(dropped) > 2, "the ring turned meanwhile"


@pytest.mark.cases(1)
@pytest.mark.parametrize("more", [600, 60_000])
def test_a_file_that_grows_while_it_is_copied_is_whole(
    run: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:  # fmt: skip
    path = run / "ranks" / "0-000000.weft"
    file = ring(path, keep=10**12)
    write(file, 0, 100)
    grown: list[int] = []

    class Looked(RankFile):
        """The file, which has another chunk, or another table of chunks, as soon as somebody has looked at it."""

        def __init__(self, *args: Path) -> None:
            super().__init__(*args)
            if not grown:
                grown.append(self.size)
                write(file, 100, more)

    monkeypatch.setattr(snapshots, "RankFile", Looked)
    part = snapshots.copy_records(run, {}, 1 << 60)
    assert path.stat().st_size > grown[0]
    assert held(part / "ranks" / path.name) == (100 + more, 0)


def test_a_part_is_a_run_read_up_to_its_moment(run: Path) -> None:
    file = ring(run / "ranks" / "0-000000.weft", keep=10**12)
    write(file, 0, 100, tails=False)
    part = snapshots.add_snapshot(snapshots.copy_records(run, {"keep": 1000.0, "until": 7}, 49))
    write(file, 100, 100, tails=False)
    assert part == run / "around" / "1"
    assert snapshots.add_snapshot(snapshots.copy_records(run, {}, 1 << 60)).name == "2"
    assert [path.name for path in snapshots.list_snapshots(run)] == ["1", "2"]
    assert json.loads((part / "run.json").read_text())["keep"] == 1000.0
    [rank] = Trace.open(part).ranks
    assert len(rank.events) == 50
    assert len(Trace.open(run / "around" / "2").ranks[0].events) == 200


def test_what_a_killed_watcher_leaves_is_taken_away_and_parts_are_not(run: Path) -> None:
    file = ring(run / "ranks" / "0-000000.weft")
    write(file, 0, 100)
    snapshots.add_snapshot(snapshots.copy_records(run, {}, 1 << 60))
    left = snapshots.copy_records(run, {}, 1 << 60)
    assert left not in snapshots.list_snapshots(run)
    snapshots.delete_unfinished_copies(run)
    assert [path.name for path in (run / "around").iterdir()] == ["1"]


def test_what_is_too_large_is_not_made_and_leaves_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ring(run / "ranks" / "0-000000.weft")
    write(file, 0, 100)
    monkeypatch.setattr(snapshots, "MOST_BYTES", 1 << 12)
    with pytest.raises(snapshots.NoRoomError, match="all parts together would take"):
        snapshots.copy_records(run, {}, 1 << 60)
    snapshots.delete_copy(run / "around" / f".new-{os.getpid()}")
    assert not (run / "around").exists()
