"""The watcher on synthetic records, which this very process writes: what is a standstill, and what is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from weft.launch import finish, rank_processes, rankfile, watch
from weft.launch.rankfile import SLOT, RankFileWatch, locate_newest_events, read_chunks, read_header
from weft.launch.watch import RankWatch
from weft.native.headers.record import kernel
from weft.trace.layout import EVENT, PAGE, Flag, Level, State, StreamKind

OPEN, CLOSED = 0, int(Flag.CLOSED)
DURATION, COUNT = (EVENT.fields[name][1] for name in ("duration", "count"))


class Record:
    """A rank file being written."""

    opened: ClassVar[list[Record]] = []

    def __init__(self, folder: Path, rank: int, size: int, name: str | None = None) -> None:
        self.path = folder / (name or f"0-{rank:06d}.weft")
        self.kernel = kernel()
        self.handle = self.kernel.weft_record_create(os.fsencode(self.path), int(Level.TRACE), rank, size)
        assert self.handle is not None
        self.opened.append(self)

    def call(self, flags: int, thread: int = 0, count: int = 1) -> None:
        """Append an event."""
        slot = bytearray(SLOT)
        slot[rankfile.FLAGS_OFFSET] = flags
        slot[COUNT : COUNT + 4] = count.to_bytes(4, "little")
        assert self.append(StreamKind.EVENTS, thread, bytes(slot)) == 0

    def append(self, kind: int, thread: int, data: bytes) -> int:
        return self.kernel.weft_record_append(self.handle, int(kind), thread, data, len(data))

    def patch(self, flags: int | None = None, count: int | None = None, thread: int = 0) -> None:
        """Change the newest event of a thread in place, as the shim does at a call's exit and at a failed poll."""
        file = os.open(self.path, os.O_RDWR)
        chunks, _ = read_chunks(file, os.pread(file, PAGE, 0))
        (start, _), *_ = locate_newest_events(chunks)[thread]
        if flags is not None:
            os.pwrite(file, bytes([flags]), start + rankfile.FLAGS_OFFSET)
        if count is not None:
            os.pwrite(file, count.to_bytes(4, "little"), start + COUNT)
        os.close(file)

    def poll(self, count: int, *, duration: int, thread: int = 0) -> None:
        """Change the newest event of a thread as the shim does at a failed poll."""
        self.patch(flags=CLOSED, count=count, thread=thread)
        with self.path.open("r+b") as file:
            (start, _), *_ = locate_newest_events(read_chunks(file.fileno(), os.pread(file.fileno(), PAGE, 0))[0])[
                thread
            ]
            os.pwrite(file.fileno(), duration.to_bytes(4, "little"), start + DURATION)

    def close(self, state: State) -> None:
        self.kernel.weft_record_close(self.handle, int(state))

    def free(self) -> None:
        self.close(State.EXITED)
        self.kernel.weft_record_free(self.handle)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short times, and no record that outlives its test."""
    monkeypatch.setattr(watch, "QUIET", 0.2)
    monkeypatch.setattr(watch, "INTERVAL", 0.02)
    yield
    while Record.opened:
        Record.opened.pop().free()


def stands_still(watched: RankWatch, seconds: float = 20.0) -> bool:
    """Watch until the job is found standing still; False when it was not within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not watched.is_standing_still:
        time.sleep(watched.look_at_ranks())
    return watched.is_standing_still


def goes_on(watched: RankWatch) -> bool:
    """Watch for several times QUIET, and tell whether the job was never found standing still."""
    return not stands_still(watched, 1.0)


def test_ranks_that_all_wait_in_mpi_stand_still(tmp_path: Path) -> None:
    for rank in range(3):
        record = Record(tmp_path, rank, 3)
        record.call(CLOSED)
        record.call(OPEN)
    assert stands_still(RankWatch(tmp_path))


def test_a_rank_outside_mpi_means_no_standstill(tmp_path: Path) -> None:
    Record(tmp_path, 0, 2).call(OPEN)
    Record(tmp_path, 1, 2).call(CLOSED)
    assert goes_on(RankWatch(tmp_path))


@pytest.mark.parametrize("calls", [False, True])
def test_polls_in_vain_are_silence_but_no_standstill(tmp_path: Path, *, calls: bool) -> None:
    Record(tmp_path, 0, 2).call(OPEN)
    poller = Record(tmp_path, 1, 2)
    poller.call(CLOSED)
    watched = RankWatch(tmp_path)
    for count in range(2, 40):
        poller.poll(count, duration=0 if calls else count)  # other folded calls keep the time of their first
        time.sleep(watched.look_at_ranks())
    assert (watched.silent_for > 0.3) is not calls
    assert watched.still_for == 0


def test_a_rank_that_has_not_begun_means_no_standstill(tmp_path: Path) -> None:
    Record(tmp_path, 0, 2).call(OPEN)
    assert goes_on(RankWatch(tmp_path))
    Record(tmp_path, -1, -1, "tmp-host-1.weft").call(OPEN)
    assert goes_on(RankWatch(tmp_path))


def test_a_rank_that_left_mpi_does_not_hide_a_standstill(tmp_path: Path) -> None:
    Record(tmp_path, 0, 2).call(OPEN)
    gone = Record(tmp_path, 1, 2)
    gone.call(CLOSED)
    gone.close(State.FINALIZED)
    assert stands_still(RankWatch(tmp_path))


def test_a_rank_that_is_no_longer_recorded_means_no_standstill(tmp_path: Path) -> None:
    Record(tmp_path, 0, 2).call(OPEN)
    stopped = Record(tmp_path, 1, 2)
    stopped.call(OPEN)
    stopped.close(State.STOPPED)
    assert goes_on(RankWatch(tmp_path))


def test_a_job_that_has_left_mpi_altogether_does_not_stand_still(tmp_path: Path) -> None:
    for rank in range(2):
        record = Record(tmp_path, rank, 2)
        record.call(CLOSED)
        record.close(State.FINALIZED)
    assert goes_on(RankWatch(tmp_path))


@pytest.mark.cases(1)
@pytest.mark.parametrize("what", ["call", "return", "poll"])
def test_any_movement_of_any_rank_ends_the_standstill(tmp_path: Path, what: str) -> None:
    records = [Record(tmp_path, rank, 3) for rank in range(3)]
    for record in records:
        record.call(OPEN)
    watched = RankWatch(tmp_path)
    assert stands_still(watched)
    if what == "call":
        records[2].call(OPEN)
    elif what == "return":
        records[2].patch(flags=CLOSED)
    else:
        records[2].patch(count=2)
    watched.look_at_ranks()
    assert not watched.is_standing_still
    assert goes_on(watched) if what == "return" else stands_still(watched)


def test_a_second_thread_that_computes_means_no_standstill(tmp_path: Path) -> None:
    record = Record(tmp_path, 0, 1)
    record.call(OPEN, thread=0)
    record.call(CLOSED, thread=1)
    assert goes_on(RankWatch(tmp_path))
    record.patch(flags=OPEN, thread=1)
    assert stands_still(RankWatch(tmp_path))


def varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


@pytest.mark.cases(1)
@pytest.mark.parametrize("ended", [True, False])
def test_a_thread_that_has_ended_does_not_hide_a_standstill(tmp_path: Path, ended: bool) -> None:
    record = Record(tmp_path, 0, 1)
    record.call(OPEN, thread=0)
    record.call(CLOSED, thread=1)
    identity = 2**22 + 1 if ended else os.getpid()  # beyond the kernel's largest, or a thread that lives
    payload = varint(1) + varint(0) + varint(identity) + varint(0) + varint(0) + varint(0)
    assert record.append(StreamKind.DEFINITIONS, 0, varint(8) + varint(len(payload)) + payload) == 0
    assert stands_still(RankWatch(tmp_path)) if ended else goes_on(RankWatch(tmp_path))


def test_a_gap_in_the_watch_is_not_counted(tmp_path: Path) -> None:
    Record(tmp_path, 0, 1).call(OPEN)
    watched = RankWatch(tmp_path)
    for _ in range(3):
        watched.look_at_ranks()
    time.sleep(0.5)  # as after Ctrl-Z and fg
    watched.look_at_ranks()
    assert not watched.is_standing_still


def test_ranks_on_other_hosts_are_given_the_time_of_their_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Record(tmp_path, 0, 1).call(OPEN)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="another-host"))
    assert goes_on(RankWatch(tmp_path))


@pytest.mark.parametrize("events", [1, 292, 293, 294, 1000, 100_000])
def test_the_newest_event_is_found_wherever_it_lies(tmp_path: Path, events: int) -> None:
    record = Record(tmp_path, 0, 1)
    slot = bytearray(SLOT)
    slot[rankfile.FLAGS_OFFSET] = CLOSED
    record.append(StreamKind.EVENTS, 0, bytes(slot) * (events - 1))
    record.call(OPEN)
    watched = RankFileWatch(record.path)
    for _ in range(4):
        watched.has_moved()
    assert watched.threads_inside_mpi() == [0]
    record.call(CLOSED)
    for _ in range(4):
        watched.has_moved()
    assert watched.threads_outside_mpi() == [0]


def test_threads_beyond_the_first_chunk_table_are_seen(tmp_path: Path) -> None:
    record = Record(tmp_path, 0, 1)
    for thread in range(400):
        record.call(OPEN, thread)
    watched = RankFileWatch(record.path)
    for _ in range(6):
        watched.has_moved()
    assert len(watched.threads_inside_mpi()) == 400
    record.call(CLOSED, 399)
    assert watched.has_moved()


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "content", [b"", b"WEFTRANK", b"\0" * PAGE, b"WEFTRANK" + b"\xff" * (PAGE - 8), os.urandom(PAGE)]
)
def test_a_file_that_is_no_record_is_no_standstill_and_no_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0-000000.weft").write_bytes(content)
    assert goes_on(RankWatch(tmp_path))


def test_a_thousand_ranks_are_watched_at_a_small_part_of_one_core(tmp_path: Path) -> None:
    for rank in range(1000):
        Record(tmp_path, rank, 1000).call(OPEN)
    watched = RankWatch(tmp_path)
    for _ in range(3):
        watched.look_at_ranks()
    begun = time.process_time()
    pause = watched.look_at_ranks()
    assert (time.process_time() - begun) / pause <= 3 * watch.SHARE


# --- processes --------------------------------------------------------------------------------------------------------

WRITER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_watch import Record, CLOSED
record = Record(Path(sys.argv[1]), 0, 1)
for _ in range(10):
    record.call(CLOSED)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes 10 events into rank 0's file and then sleeps."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait(10)


def test_a_living_ranks_file_is_never_cut_and_a_dead_ones_is(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    path = tmp_path / "0-000000.weft"
    whole = path.stat().st_size
    finish.trim_records([path])
    assert path.stat().st_size == whole
    writer.kill()
    writer.wait(10)
    finish.trim_records([path])
    assert path.stat().st_size == 2 * PAGE
    assert finish.trim_rank_file(path) == 0


def test_a_survivor_is_ended(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    assert rank_processes.end_ranks([tmp_path / "0-000000.weft"]) == 1
    assert writer.wait(10) == -signal.SIGTERM


def test_a_stopped_survivor_is_ended_too(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    writer.send_signal(signal.SIGSTOP)
    assert rank_processes.end_ranks([tmp_path / "0-000000.weft"]) == 1
    assert writer.wait(10) == -signal.SIGTERM


def test_a_process_that_only_has_the_ranks_number_is_left_alone(
    tmp_path: Path, writer: subprocess.Popen[str], other: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "0-000000.weft"
    writer.kill()
    writer.wait(10)
    header = read_header(path.read_bytes()[:PAGE])
    assert header is not None
    data = path.read_bytes().replace(header.pid.to_bytes(4, "little"), other.pid.to_bytes(4, "little"), 1)
    path.write_bytes(data)
    assert rank_processes.end_ranks([path]) == 0
    assert other.poll() is None


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Some process that has nothing to do with us."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait(10)


def test_a_survivor_that_ignores_sigterm_is_killed(
    tmp_path: Path, stubborn: Callable[[], subprocess.Popen[str]]
) -> None:
    process = stubborn()
    assert rank_processes.end_ranks([tmp_path / "0-000000.weft"], patience=0.3) == 1
    assert process.wait(10) == -signal.SIGKILL


@pytest.fixture
def stubborn(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """A writer that ignores SIGTERM."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        code = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WRITER
        command = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[0].stdout is not None
        assert started[0].stdout.readline() == "ready\n"
        return started[0]

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def test_a_rank_whose_file_is_renamed_while_it_moves_may_stand_still(tmp_path: Path) -> None:
    rank = Record(tmp_path, 0, 1, "tmp-host-1.weft")
    rank.call(CLOSED)
    watched = RankWatch(tmp_path)
    for _ in range(3):  # it moves, so it is the one that is looked at first
        rank.call(CLOSED)
        watched.look_at_ranks()
    rank.call(OPEN)
    rank.path.rename(tmp_path / "0-000000.weft")
    assert stands_still(watched)
