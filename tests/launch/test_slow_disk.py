"""A run directory on a file system that is slow, or full: the program does not wait for it, and nothing is lost unsaid.

The file system is one of FUSE, which waits before it answers and writes down who asked. So that a program waits for
it is no matter of clocks: its processes have asked, or they have not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import weft
from launch.conftest import PROGRAMS
from machine import need
from tests_support import WEFT, Installed, execute
from weft.cli import _slow
from weft.launch import rundir, staging
from weft.launch.launcher_line import parse_launcher_line
from weft.launch.library import MPILibrary
from weft.launch.plan import LaunchPlan

Weft = Callable[..., CompletedProcess[str]]
Program = Callable[[str], Path]
SLOW_MS = 20
ROUNDS = 6000  # 0.7 MB of calls a rank
PIECES = 10  # of 64 KiB, at least, that a rank writes for them


@dataclass
class Disk:
    """A mounted file system."""

    place: Path
    asked: Path
    """The file in which each request stands."""

    def waits(self, run: Path) -> int:
        """How often ranks of a run have waited for it."""
        pids = {rank.header.pid for rank in weft.open(run).ranks if rank.header is not None}
        assert len(pids) == 2
        return sum(int(line.split()[1]) in pids for line in self.asked.read_text().splitlines())


Mount = Callable[..., Disk]


@pytest.fixture(scope="session")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that is the file system."""
    flags = need("fuse")
    target = tmp_path_factory.mktemp("fuse") / "slow_disk"
    source = PROGRAMS / "slow_disk.c"
    done = execute(["cc", "-std=c11", "-Wall", "-Werror", "-o", target, source, *flags.split()])
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def mount(slow_disk: Path, tmp_path: Path) -> Iterator[Mount]:
    """Mounts file systems of FUSE."""
    mounted: list[tuple[Path, subprocess.Popen[bytes]]] = []

    def at(milliseconds: int, *words: str, room: int = 0) -> Disk:
        behind, place, asked = (tmp_path / f"{name}-{len(mounted)}" for name in ("behind", "disk", "asked"))
        behind.mkdir()
        place.mkdir()
        with asked.open("wb") as out:
            command = [slow_disk, behind, str(milliseconds), str(room), ",".join(words), place]
            mounted.append((place, subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE)))
        deadline = time.monotonic() + 20
        while not place.is_mount():
            if mounted[-1][1].poll() is not None:
                error = mounted[-1][1].communicate()[1].decode()
                pytest.skip(f"file systems of FUSE cannot be mounted here: {error}")
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return Disk(place, asked)

    yield at
    for place, process in mounted:
        execute(["umount", "--lazy", place])
        process.kill()  # records that tests have mapped would keep it
        process.wait()


def calls(run: Path) -> list[list[tuple[str, int, int]]]:
    """What each rank of a run called, in order, but for its clock."""
    trace = weft.open(run)
    assert trace.problems == []
    return [
        [(trace.functions[int(e["function"])].name, int(e["peer"]), int(e["tag"])) for e in rank.events]
        for rank in trace.ranks
    ]


def findings(weft_command: Weft, run: Path) -> object:
    """The findings that a report gives."""
    done = weft_command("report", run, "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    told = [one for one in json.loads(done.stdout)["findings"] if one["severity"] != "note"]
    return [(one["kind"], one["ranks"], one["sites"]) for one in told]


@pytest.mark.matrix
def test_a_program_does_not_wait_for_a_slow_disk_and_its_run_is_whole(
    weft_command: Weft, program: Program, mount: Mount, tmp_path: Path
) -> None:
    disk = mount(SLOW_MS)
    run, plain = disk.place / "run", tmp_path / "plain"
    done = weft_command("run", "--out", run, "-n", "2", "--", program("rounds"), str(ROUNDS))
    assert done.returncode == 0, done.stderr
    said = re.search(rf"weft: {disk.place} is on a slow file system \([\d.]+ ms for 64 KiB\): Weft records in (\S+),",
                     done.stderr)  # fmt: skip
    assert said, done.stderr
    assert "lost" not in done.stderr
    assert disk.waits(run) == 0
    assert not run.is_symlink()
    assert [path.name for path in disk.place.iterdir()] == ["run"]
    as_ever = weft_command("run", "--out", plain, "-n", "2", "--", program("rounds"), str(ROUNDS))
    assert "slow" not in as_ever.stderr
    assert calls(run) == calls(plain)
    assert findings(weft_command, run) == findings(weft_command, plain)
    assert {path.name for path in run.iterdir()} == {path.name for path in plain.iterdir()}


@pytest.mark.matrix
@pytest.mark.parametrize("words", [(), ("reserve",)])
def test_in_place_it_waits_once_for_each_64_kib_of_calls(
    weft_command: Weft, program: Program, mount: Mount, words: tuple[str, ...]
) -> None:
    disk = mount(2, *words)
    run = disk.place / "run"
    done = weft_command("run", "--in-place", "--out", run, "-n", "2", "--", program("rounds"), str(ROUNDS))
    assert done.returncode == 0, done.stderr
    assert "slow" not in done.stderr
    assert 2 * PIECES < disk.waits(run) < 2 * 10 * PIECES, "and not for each page"


@pytest.mark.matrix
def test_where_the_run_must_stay_the_record_ends_before_the_program_has_waited_for_long(
    weft_command: Weft, program: Program, mount: Mount, mpich: Installed
) -> None:
    disk = mount(100, "reads")
    run = disk.place / "run"
    line = (*mpich.mpiexec, "-hosts", "localhost", "-n", "2", program("rounds"), str(4 * ROUNDS))
    began = time.monotonic()
    done = weft_command("run", "--out", run, "--", *line)
    assert f"{4 * ROUNDS} rounds in " in done.stdout, done.stderr
    assert done.returncode == 4, done.stderr
    assert "add `--local /tmp` to record on each host's own disk" in done.stderr
    assert "recording stopped early on ranks 0, 1: the file system was slow" in done.stderr
    whole = 2 * 4 * ROUNDS
    assert all(100 < len(rank.events) < whole for rank in weft.open(run).ranks)
    assert disk.waits(run) < 2 * 10 * (5 + 0.05 * (time.monotonic() - began) + 1), "ten in a second"


@pytest.mark.matrix
@pytest.mark.parametrize("words", [(), ("reserve",)])
def test_a_full_disk_ends_the_record_not_the_program(
    weft_command: Weft, program: Program, mount: Mount, words: tuple[str, ...]
) -> None:
    disk = mount(0, *words, room=1_000_000)
    run = disk.place / "run"
    done = weft_command("run", "--in-place", "--out", run, "-n", "2", "--", program("rounds"), str(ROUNDS))
    assert f"{ROUNDS} rounds in " in done.stdout
    assert done.returncode == 4, done.stderr
    assert (
        "recording stopped early on ranks 0, 1: the disk was full; the program ran on without being recorded"
        in done.stderr
    )
    assert all(100 < len(rank.events) < ROUNDS for rank in weft.open(run).ranks)


def test_a_run_that_finds_no_room_at_its_place_stays_where_it_was_recorded(
    weft_command: Weft, program: Program, mount: Mount
) -> None:
    disk = mount(SLOW_MS, room=1_000_000)
    run = disk.place / "run"
    done = weft_command("run", "--out", run, "-n", "2", "--", program("rounds"), str(ROUNDS))
    assert done.returncode == 4, done.stderr
    local = run.readlink()
    try:
        assert f"the run could not be moved to disk-0/run (No space left on device): it is in {local}," in done.stderr
        assert disk.waits(run) == 0
        assert all(len(rank.events) > 2 * ROUNDS for rank in weft.open(run).ranks)
        assert [path.name for path in disk.place.iterdir()] == ["run"], "no part of it is left behind"
    finally:
        shutil.rmtree(local.parent)


@pytest.mark.matrix
def test_who_kills_weft_finds_the_run_by_its_link(
    weft_command: Weft, program: Program, mount: Mount, tmp_path: Path
) -> None:
    disk = mount(SLOW_MS)
    run = disk.place / "weft-runs" / "ring-1"
    command = [*WEFT, "run", "-n", "2", "--", program("ring"), "60"]
    process = subprocess.Popen(command, cwd=disk.place, start_new_session=True, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while len([*run.glob("ranks/*.weft")]) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert run.is_symlink()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    done = weft_command("report", "weft-runs/ring-1", cwd=disk.place)
    assert "2 ranks" in done.stdout, done.stdout + done.stderr
    shutil.rmtree(run.readlink().parent)


def planned(*line: str) -> LaunchPlan:
    return LaunchPlan(parse_launcher_line(line), MPILibrary(Path("libmpi.so")), None, {}, True)


def options(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"local": None, "in_place": False, "out": None, **given})


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which we are, that is slow, and another place that is not."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(
        staging, "measure_write_time", lambda folder: 0.02 if tmp_path / "here" in [folder, *folder.parents] else 0
    )
    monkeypatch.setattr(staging, "find_faster_folder", lambda than: tmp_path)
    return tmp_path / "here"


@pytest.mark.parametrize("launcher", [("mpiexec", "-hosts", "a,b"), ("srun", "-N2"), ("jsrun",)])
def test_a_run_of_other_hosts_stays_in_its_place_and_that_is_said(
    slow: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    launcher: tuple[str, ...],
) -> None:
    (slow / launcher[0]).write_text("#!/bin/sh\n")
    (slow / launcher[0]).chmod(0o755)
    monkeypatch.setenv("PATH", str(slow), prepend=os.pathsep)
    assert _slow.choose_staging(planned(*launcher, "./prog"), options()) is None
    assert capsys.readouterr().err == (
        f"weft: note: {slow} is on a slow file system (20.0 ms for 64 KiB), and the program waits for it: "
        "add `--local /tmp` to record on each host's own disk\n"
    )


@pytest.mark.parametrize("given", [{"local": Path("/tmp")}, {"in_place": True}])
def test_who_has_said_where_is_obeyed(slow: Path, capsys: pytest.CaptureFixture[str], given: dict[str, object]) -> None:
    assert _slow.choose_staging(planned("./prog"), options(**given)) is None
    assert capsys.readouterr().err == ""
    made = _slow.choose_staging(planned("./prog"), options())
    assert made is not None
    made.restore_place()


def test_where_no_place_is_faster_the_run_stays_and_that_is_said(
    slow: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "find_faster_folder", lambda than: None)
    assert _slow.choose_staging(planned("./prog"), options()) is None
    assert "Weft found no faster one with 1 GiB free: choose another place with --out" in capsys.readouterr().err


def staged(out: Path | None) -> tuple[staging.StagedRun, rundir.RunDirectory]:
    """A run below a stage of its own."""
    there = _slow.choose_staging(planned("./prog"), options(out=out))
    assert there is not None
    return there, rundir.create_run(out, ["./prog"], ["./prog"], "trace", there.make_linked_folder)


def test_a_folder_that_was_given_empty_is_there_again(slow: Path) -> None:
    given = slow / "given"
    given.mkdir()
    there, run = staged(given)
    assert given.is_symlink()
    run.discard()
    assert there.move_to_place(run) is None
    assert given.is_dir() and not given.is_symlink() and not there.folder.exists()
    there, run = staged(given)
    assert there.move_to_place(run) is None
    assert (given / "run.json").exists() and not given.is_symlink() and not there.folder.exists()


def test_a_run_that_was_discarded_leaves_nothing(slow: Path) -> None:
    there, run = staged(None)
    run.discard()
    assert _slow.move_to_place(there, run)
    assert [*(slow / "weft-runs").iterdir()] == [] and not there.folder.exists()


def test_runs_that_begin_at_the_same_time_get_names_of_their_own(slow: Path) -> None:
    both = [staged(None) for _ in range(2)]
    assert [run.path.name for _, run in both] == ["prog-1", "prog-2"]
    assert all(_slow.move_to_place(there, run) for there, run in both)
    assert all(json.loads((run.path / "run.json").read_text())["schema"] == "weft-run/1" for _, run in both)


def test_links_and_folders_of_a_run_are_moved_as_they_are(slow: Path) -> None:
    there, run = staged(None)
    (run.path / "values").mkdir()
    (run.path / "values" / "0.bin").write_bytes(b"value")
    (run.path / "link").symlink_to("values")
    assert there.move_to_place(run) is None
    assert (run.path / "values" / "0.bin").read_bytes() == b"value"
    assert (run.path / "link").readlink() == Path("values")


def test_what_was_put_in_the_way_meanwhile_is_not_overwritten(slow: Path) -> None:
    there, run = staged(None)
    (slow / "weft-runs" / ".prog-1.part").mkdir()
    (slow / "weft-runs" / ".prog-1.part" / "data").write_text("precious")
    assert there.move_to_place(run) == "File exists"
    assert run.path.is_symlink() and (run.path / "run.json").exists()
    assert (slow / "weft-runs" / ".prog-1.part" / "data").read_text() == "precious"


def test_a_disk_is_not_slow_and_a_folder_that_cannot_be_written_is_no_place(tmp_path: Path) -> None:
    took = staging.measure_write_time(tmp_path)
    assert took is not None and took < staging.SLOW
    assert staging.measure_write_time(tmp_path / "none") is None
    assert [*tmp_path.iterdir()] == []


def test_in_place_and_local_contradict(weft_command: Weft) -> None:
    done = weft_command("run", "--in-place", "--local", "/tmp", "--", "true")
    assert done.returncode == 2
    assert "--in-place records in RUN itself, and --local elsewhere" in done.stderr
