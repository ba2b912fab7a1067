"""Where the record cannot grow, recording stops and says why; the program goes on as if nothing were."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import weft
from machine import need
from survival.conftest import Scene, Start
from tests_support import execute
from weft.trace.layout import StopReason

ROUNDS = "4000"  # about 1 MB of events a rank
MORE_ROUNDS = "200000"  # 40 MB


def stopped_because(scene: Scene, reason: StopReason) -> bool:
    """Whether every rank's record says so, and holds the program's calls up to the stop."""
    assert scene.disagreements() == []
    trace = weft.open(scene.run)
    headers = [rank.header for rank in trace.ranks]
    return all(h is not None and h.state.name == "STOPPED" and h.stop_reason == reason for h in headers)


def whole(scene: Scene) -> bool:
    """Whether every process has come to the end of its own work."""
    return all(log.begun == log.ended > int(ROUNDS) for log in scene.written())


def limited(kind: int, size: int) -> Callable[[], None]:
    """What to call in a child before its program: sets a limit."""
    return lambda: resource.setrlimit(kind, (size, size))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    need("mounting")
    execute(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]).check_returncode()
    yield folder
    execute(["umount", "--lazy", folder])  # what a failed test left running may still be at it


@pytest.mark.cases(1)
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_full_disk_stops_the_recording_not_the_program(
    job: Start, mix: list[str], small_disk: Path, ranks: int
) -> None:
    scene = job(mix, ROUNDS, ranks=ranks, run=small_disk / "run")
    status, errors = scene.finish()
    assert whole(scene)
    assert status == 4, errors
    assert "recording stopped early" in errors
    assert "the disk was full; the program ran on without being recorded" in errors
    assert stopped_because(scene, StopReason.DISK_FULL)


@pytest.mark.parametrize("level", ["trace", "outcomes"])
def test_a_disk_without_any_room_leaves_the_program_alone(
    alone: Start, mix: list[str], small_disk: Path, level: str
) -> None:
    scene = alone(mix, ROUNDS, level=level, run=small_disk / "run")
    (small_disk / "filler").touch()
    execute(["dd", "if=/dev/zero", f"of={small_disk / 'filler'}", "bs=4096"])
    assert scene.finish()[0] == 0
    assert whole(scene)


def test_a_limit_on_the_size_of_files_stops_the_recording_not_the_program(alone: Start, mix: list[str]) -> None:
    # MPICH itself and the log need files of 13 MB, the record goes beyond
    scene = alone(mix, MORE_ROUNDS, before=limited(resource.RLIMIT_FSIZE, 16 << 20))
    status, errors = scene.finish()
    assert status == 0, (status, errors)
    assert whole(scene)
    assert stopped_because(scene, StopReason.DISK_FULL)


PROBE = """
import resource, signal, sys
from weft.native.headers.record import kernel
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
print(bool(kernel().weft_record_create(sys.argv[1].encode(), 2, 0, 1)))
"""


@pytest.mark.parametrize(("limit", "made"), [(0, False), (4095, False), (4096, True)])
def test_a_record_that_may_not_be_made_ends_no_program(tmp_path: Path, limit: int, made: bool) -> None:
    done = execute([sys.executable, "-c", PROBE, tmp_path / "record.weft", str(limit)])
    assert (done.returncode, done.stdout) == (0, f"{made}\n")
    assert (tmp_path / "record.weft").exists() == made


def least_address_space(mix: list[str], folder: Path) -> int:
    """What the program needs unrecorded, to 16 MiB."""
    for mib in range(32, 4096, 16):
        logs = folder / f"without-{mib}"
        logs.mkdir()
        limit = f"ulimit -v {mib * 1024} && exec {mix[0]} {logs} 200"
        if execute(["bash", "-c", limit]).returncode == 0:
            return mib << 20
    pytest.skip("the program does not run under any limit")


def test_a_limit_on_address_space_stops_the_recording_not_the_program(
    alone: Start, mix: list[str], tmp_path: Path
) -> None:
    least = least_address_space(mix, tmp_path)
    for extra in (32, 64, 256):
        scene = alone(mix, MORE_ROUNDS, before=limited(resource.RLIMIT_AS, least + (extra << 20)))
        status, errors = scene.finish()
        assert status == 0, (extra, status, errors)
        assert whole(scene)
        assert stopped_because(scene, StopReason.NO_ADDRESS_SPACE)
