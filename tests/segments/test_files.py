"""Runs that read and write files in segments have the findings that they have whole."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from files import CURRENT, END, SET, Program, of_files
from test_segments import compared, ends_quiet, first_cut, in_segments, short
from windows import one_sided

from report.parallel.test_together import COMPARED, together
from segments.seeds import seeds, workers
from weft.findings import Finding
from weft.trace import Trace

__all__ = ["short"]


@pytest.mark.matrix
@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.3])
@seeds(6, 20)
def test_random_programs_of_files_have_the_same_findings(seeds: range, wrong: float, tmp_path: Path) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        trace = of_files(random.Random(seed), tmp_path / str(seed), wrong=wrong)
        segments[compared(trace)] += 1
        if not wrong:
            assert not found_of_files(trace)
    assert sum(count for many, count in segments.items() if many > 1) > 0.6 * len(seeds), segments


def found_of_files(trace: Trace) -> list[Finding]:
    made = in_segments(trace)
    return [] if made is None else made[1]["files"]


def program(path: Path, ranks: int = 2) -> Program:
    return Program(random.Random(0), path, wrong=0, ranks=ranks)


def write(of: Program) -> None:
    of.move(0, 0, "File_write_at", 0)


def read(of: Program) -> None:
    of.move(0, 0, "File_read_at", 0)


def ask(of: Program) -> None:
    rank = of.b.ranks[0]
    rank.call("MPI_File_iread_at", fh=of.files[0][0], offset=0, buf=0x20_0000_0000, count=4, datatype="MPI_INT",
              request=rank.new_id("REQUEST"))  # fmt: skip


def begin(of: Program) -> None:
    for me in range(of.n):
        of.move(me, 0, "File_read_at_all_begin", 0)


def end(of: Program) -> None:
    of.each("File_read_at_all_end", 0, buf=0)


def sync(of: Program) -> None:
    of.each("File_sync", 0)


def close(of: Program) -> None:
    of.each("File_close", 0)


def atomic(of: Program) -> None:
    of.each("File_set_atomicity", 0, flag=1)


def on(of: Program) -> None:
    of.move(0, 0, "File_read")


def seek(whence: int) -> Callable[[Program], None]:
    return lambda of: of.call(0, "File_seek", 0, offset=3, whence=whence)


Steps = tuple[Callable[[Program], None], ...]
UNDER_WAY: dict[str, Steps] = {
    "what is not at the file": (write,), "what is written after it was brought there": (write, sync, write),
    "a request": (ask,), "a first half": (begin,), "a pointer that moved": (on,),
    "a pointer that went on": (seek(CURRENT),), "a pointer that moved from where it was put": (seek(SET), on),
}  # fmt: skip
OVER: dict[str, Steps] = {
    "an open file": (), "what was read": (read,), "what was brought to the file": (write, sync),
    "a closed file": (write, close), "what is atomic": (atomic, write), "both halves": (begin, end),
    "a pointer that was put": (on, seek(SET)), "a pointer at the end": (on, seek(END)),
}  # fmt: skip


@pytest.mark.parametrize("what", UNDER_WAY)
def test_a_moment_is_not_quiet_while_a_file_is_in_use(what: str, tmp_path: Path) -> None:
    assert not _quiet(UNDER_WAY[what], tmp_path / "run")


@pytest.mark.parametrize("what", OVER)
def test_a_moment_is_quiet_where_all_that_was_written_is_there(what: str, tmp_path: Path) -> None:
    assert _quiet(OVER[what], tmp_path / "run")


def _quiet(steps: Steps, path: Path) -> bool:
    of = program(path)
    for step in steps:
        step(of)
    for _ in range(4):
        of.barrier()
    trace, cuts = first_cut(of.b)
    behind = len(trace.ranks[0]) - 4
    return ends_quiet(cuts, next(k for k in range(1, len(cuts)) if cuts.at[k, 0] > behind))


@pytest.mark.matrix
def test_a_view_and_a_place_in_it_are_known_in_later_segments(tmp_path: Path) -> None:
    """Rank 1 stands where rank 0 writes only because of the view and the seek far in front."""
    of = program(tmp_path / "run")
    for me in (0, 1):
        of.call(me, "File_set_view", 0, disp=64 * me, etype="MPI_INT", filetype="MPI_INT", datarep="native", info=1)
    of.call(1, "File_seek", 0, offset=4, whence=SET)
    for _ in range(20):
        of.barrier()
    of.move(0, 0, "File_write_at", 20)
    of.move(1, 0, "File_read")
    trace = closed(of)
    assert compared(trace) > 5
    assert [(f.kind, f.facts()["from"]) for f in found_of_files(trace)] == [("file-race", 80)]


@pytest.mark.matrix
def test_a_file_that_is_written_and_closed_each_time_is_in_many_segments(tmp_path: Path) -> None:
    of = program(tmp_path / "run")
    for step in range(20):
        for me in (0, 1):
            of.move(me, 0, "File_write_at_all", 64 * me * (step != 13))
        of.anew(0)
        of.barrier()
    trace = closed(of)
    assert compared(trace) > 8
    assert [f.kind for f in found_of_files(trace)] == ["file-race"]


def closed(of: Program) -> Trace:
    for file in range(2):
        of.each("File_close", file)
    for r in of.b.ranks:
        r.finalize()
    return of.b.open()


@pytest.mark.matrix
@workers(3, 2, 4)
def test_several_processes_find_what_one_finds_of_windows_and_files(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for seed in range(4):
        of_files(random.Random(seed), folder / f"files-{seed}", wrong=0.2)
        one_sided(random.Random(seed), folder / f"windows-{seed}", wrong=0.2)
    done = together(workers, sys.executable, COMPARED, folder, "8", timeout=240)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and last.endswith(" the same, 0 not"), done.stdout + done.stderr
    assert int(last.split()[0]) > 4, last
