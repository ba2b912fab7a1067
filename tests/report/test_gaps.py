"""A report begins with what was not looked at, and a damaged run never ends with status 0."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from weft.cli.main import main
from weft.report import run_analyses
from weft.report.text import heading, summary
from weft.trace.builder import Builder
from weft.trace.layout import Level, State


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A run in which nothing is wrong."""
    b = Builder(ranks=2, path=tmp_path / "run")
    b.ranks[0].send(1, tag=7)
    b.ranks[1].recv(0, tag=7)
    for rank in b.ranks:
        rank.finalize()
    return b.write()


def first_line(run: Path) -> str:
    trace = weft.open(run)
    return heading(trace, run_analyses(trace))


def damage_functions(run: Path) -> None:
    (run / "functions.json").write_text('{"damaged')


def damage_record(run: Path) -> None:
    record = next((run / "ranks").glob("*.weft"))
    record.write_bytes(record.read_bytes()[: record.stat().st_size // 2])


def lose_record(run: Path) -> None:
    next((run / "ranks").glob("*.weft")).unlink()


def damage_end(run: Path) -> None:
    (run / "run.json").write_text("[")


def test_a_whole_run_ends_with_status_0_and_says_only_what_it_found(whole: Path) -> None:
    assert first_line(whole).startswith("Nothing found in ")
    assert main(["report", str(whole)]) == 0


@pytest.mark.parametrize(
    ("harm", "first"),
    [
        (damage_functions, "Nothing was checked in "),
        (damage_record, "The record of rank "),
        (lose_record, "Rank "),
        (damage_end, "A part of the record is damaged"),
    ],
)
def test_a_damaged_run_begins_with_what_was_not_looked_at_and_is_never_0(
    whole: Path, harm: Callable[[Path], None], first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harm(whole)
    assert first_line(whole).startswith(first)
    assert main(["report", str(whole)]) in (1, 4)
    assert first in capsys.readouterr().out


def test_a_file_that_is_not_of_the_run_damages_nothing(whole: Path) -> None:
    shutil.copy(__file__, whole / "ranks" / "note.txt")
    assert main(["report", str(whole)]) == 0


def test_a_rank_whose_recording_stopped_is_named_first(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    b.ranks[0].send(1, tag=7)
    b.ranks[1].recv(0, tag=7)
    b.ranks[1].state = State.STOPPED
    run = b.write()
    assert first_line(run).startswith("The last calls of rank 1 were not recorded ")
    assert main(["report", str(run)]) == 1


def test_a_run_of_level_outcomes_says_that_nothing_was_looked_at(tmp_path: Path) -> None:
    run = Builder(ranks=1, path=tmp_path / "run", level=Level.OUTCOMES).write()
    assert first_line(run).startswith("Nothing was checked in ")
    assert "`weft replay RUN`" in first_line(run)
    assert summary(weft.open(run)).startswith("nothing was checked: ")
    assert main(["report", str(run)]) == 1


def test_a_run_with_windows_says_that_accesses_of_their_memory_were_not_recorded(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path / "run")
    b.ranks[0].call("MPI_Win_fence", win=300)
    b.ranks[0].finalize()
    assert "loads and stores of window memory were not recorded" in first_line(b.write())
