"""Runs of every released version of the format, and one of today's, read as they read on the day they were made.

Nothing was released yet: there is today's (golden/make.py) alone. From the first release on, a new version gets a new
folder, and the old ones stay as they are.
"""

import contextlib
import io
import json
from pathlib import Path

import pytest

from weft.cli.main import main
from weft.trace import Trace, layout

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("version", sorted(p.name for p in GOLDEN.iterdir() if p.is_dir() and p.name[0].isdigit()))
def test_a_golden_run_reads_as_on_its_day(version: str) -> None:
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        assert main(["dump", str(GOLDEN / version), "--format", "json"]) == 0
    expected = (GOLDEN / version / "expected.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in output.getvalue().splitlines()] == [json.loads(line) for line in expected]
    assert errors.getvalue() == ""


def test_accesses_of_memory_that_mpi_had_are_read_whole() -> None:
    [row] = Trace.open(GOLDEN / "1.0").ranks[1].accesses_to_pending_buffers
    assert (row["low"], row["count"], row["size"], row["stride"], row["event"]) == (0x1000, 10, 8, 16, 2)
    assert (row["kind"], row["thread"]) == (layout.TouchKind.WRITE, 1)


def test_hashes_of_messages_are_read_whole() -> None:
    rows = Trace.open(GOLDEN / "1.0").ranks[1].hashes
    columns = ("hash", "bytes", "event", "request")
    assert [tuple(map(int, (row[c] for c in columns))) for row in rows] == [(0xABCD, 2**33, 0, 0), (41, 8, 1, 256)]
    assert set(rows["side"]) == {layout.HashSide.RECEIVED}


def test_kept_bytes_are_those_of_their_row() -> None:
    hashed = Trace.open(GOLDEN / "1.0").ranks[1].message_hashes
    kept = [hashed.content_of(row) for row in range(2)]
    assert kept[0] is None
    assert kept[1] is not None and kept[1].tobytes() == b"8 bytes."


def test_a_spawn_has_one_name_in_its_root_and_its_children() -> None:
    trace = Trace.open(GOLDEN / "1.0")
    known = [next(iter(rank.definitions.all(layout.Def.WORLD))) for rank in trace.ranks]
    assert [(d.origin, d.name) for d in known] == [
        ("spawn", "4711-1764160000000000000-1"), ("spawn", ""), ("parent", "4711-1764160000000000000-1"),
    ]  # fmt: skip
    assert [rank.other_worlds() for rank in trace.ranks] == [{1: (2,)}, {1: (2,)}, {1: (0, 1)}]


def test_the_present_version_has_a_golden_run() -> None:
    assert (GOLDEN / f"{layout.FORMAT_MAJOR}.{layout.FORMAT_MINOR}" / "run.json").is_file()
