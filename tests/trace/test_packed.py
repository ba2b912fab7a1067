"""Records of many ranks in one file: read as they were, and never lost on the way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, execute
from weft.errors import OtherVersion, WeftError
from weft.launch import finish
from weft.report import analyse
from weft.trace import Trace, packing
from weft.trace.builder import ANY, Builder
from weft.trace.layout import State
from weft.trace.packing import pack_records

GOLDEN = Path(__file__).with_name("golden")


def over(_: Path) -> bool:
    return True


def run(path: Path, ranks: int = 4) -> Path:
    """Messages around, one of them left, and a definition of each rank."""
    b = Builder(ranks=ranks, path=path)
    for r in b.ranks:
        r.init()
        r.send((r.index + 1) % ranks, 3, site=("ring.py", 5 + r.index % 2, "around"))
        r.recv(ANY, 3, got=(r.index - 1) % ranks, got_tag=3)
    b.ranks[0].send(1, 9)
    for r in b.ranks:
        r.finalize()
    return b.open().path


def test_a_packed_run_reads_as_its_records_did(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "1.0", tmp_path / "run")
    before = [
        execute([*WEFT, "dump", tmp_path / "run", "--format", "json", *more]).stdout for more in ([], ["--definitions"])
    ]
    records = len(list((tmp_path / "run" / "ranks").iterdir()))
    made = pack_records(tmp_path / "run", over)
    assert (made.ranks, made.left) == (records, ())
    assert [path.name for path in (tmp_path / "run" / "ranks").iterdir()] == ["1.pack"]
    assert made.now < made.before
    after = [
        execute([*WEFT, "dump", tmp_path / "run", "--format", "json", *more]).stdout for more in ([], ["--definitions"])
    ]
    assert after == before


def test_findings_of_a_packed_run_are_those_of_its_records(tmp_path: Path) -> None:
    path = run(tmp_path / "run")
    before = analyse(Trace.open(path))
    pack_records(path, over)
    after = analyse(Trace.open(path))
    assert [f.message for f in after] == [f.message for f in before]
    assert any(f.kind == "unmatched-send" for f in after)


def test_what_is_damaged_or_still_written_stays_a_file(tmp_path: Path) -> None:
    path = run(tmp_path / "run", 5)
    names = sorted((path / "ranks").iterdir())
    with names[1].open("r+b") as file:
        file.truncate(5000)
    done = pack_records(path, lambda one: one != names[2])
    assert done.ranks == 3
    assert [text.split(": ")[0] for text in done.left] == [names[1].name, names[2].name]
    assert sorted(one.name for one in (path / "ranks").iterdir()) == ["0-000001.weft", "0-000002.weft", "1.pack"]
    assert len(Trace.open(path).ranks) == 5
    assert pack_records(path, over).ranks == 0  # one is left that could be packed
    (path / "ranks" / "0-000001.weft").unlink()


def test_a_process_that_runs_keeps_its_file(tmp_path: Path) -> None:
    b = Builder(ranks=3, path=tmp_path / "run")
    for r in b.ranks:
        r.send((r.index + 1) % 3, 3)
        if r.index:
            r.finalize()
    b.ranks[0].state = State.RUNNING
    path = b.open().path
    done = execute([*WEFT, "pack", path])
    assert done.returncode == 1
    assert "not packed: 0-000000.weft: its process still runs" in done.stderr
    assert "2 records of " in done.stderr


def test_records_outside_of_the_run_are_let_alone(tmp_path: Path) -> None:
    path, other = run(tmp_path / "run"), run(tmp_path / "other")
    shutil.rmtree(path / "ranks")
    (path / "ranks").symlink_to(other / "ranks")
    with pytest.raises(WeftError, match="is a link to"):
        pack_records(path, over)
    assert len(list((other / "ranks").glob("*.weft"))) == 4


def test_a_record_that_is_there_both_ways_counts_once(tmp_path: Path) -> None:
    """The writer was killed before it took the files away."""
    path = run(tmp_path / "run")
    shutil.copytree(path / "ranks", tmp_path / "kept")
    pack_records(path, over)
    shutil.copytree(tmp_path / "kept", path / "ranks", dirs_exist_ok=True)
    trace = Trace.open(path)
    assert len(trace.ranks) == 4
    assert trace.problems == []
    assert pack_records(path, over).name == "2.pack"
    assert len(Trace.open(path).ranks) == 4


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_full_disk_leaves_all_records_as_they_were(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(tmp_path / "run")
    before = {one.name: one.read_bytes() for one in (path / "ranks").iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(WeftError, match="cannot be packed: No space left on device"):
        pack_records(path, over)
    assert {one.name: one.read_bytes() for one in (path / "ranks").iterdir()} == before


def test_a_pack_that_reads_otherwise_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path / "run")
    before = {one.name: one.read_bytes() for one in (path / "ranks").iterdir()}
    monkeypatch.setattr(packing, "_compress", lambda data, words: b"")
    with pytest.raises(WeftError):
        pack_records(path, over)
    assert {one.name: one.read_bytes() for one in (path / "ranks").iterdir()} == before


def test_a_pack_of_another_version_or_cut_off_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = run(tmp_path / "run")
    file = path / "ranks" / pack_records(path, over).name
    data = bytearray(file.read_bytes())
    file.write_bytes(data[:-10])
    assert (
        "1.pack is left out, because its beginning is damaged or cut off: copy it again" in Trace.open(path).problems[0]
    )
    data[8] = 9
    file.write_bytes(data)
    with pytest.raises(OtherVersion, match=r"1\.pack is of version 9, and this Weft reads version 1: record"):
        Trace.open(path)


def test_many_small_records_are_packed_at_the_end_of_a_run_and_few_or_large_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "MANY", 4)
    few, many = run(tmp_path / "few", 3), run(tmp_path / "many", 5)
    large = next(iter(sorted((many / "ranks").iterdir())))
    with large.open("r+b") as file:
        file.truncate(finish.SMALL + 4096)
    assert finish.pack_small_records(few) is None
    assert finish.pack_small_records(many) is None
    assert {one.suffix for one in (few / "ranks").iterdir()} == {".weft"}
    assert sorted(one.name for one in (many / "ranks").iterdir()) == [large.name, "1.pack"]
    assert len(Trace.open(many).ranks) == 5


def test_records_of_a_folder_that_takes_the_place_of_the_packed_one_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns a run may have its folder lead to another one, with records of the same names, at any moment."""
    path, precious = run(tmp_path / "run"), run(tmp_path / "precious") / "ranks"
    before = {one.name: one.read_bytes() for one in precious.iterdir()}
    rename = os.rename

    def swapped(*args: Any, **words: Any) -> None:
        rename(*args, **words)
        rename(path / "ranks", path / "old")
        (path / "ranks").symlink_to(precious)

    monkeypatch.setattr(os, "rename", swapped)
    assert pack_records(path, over).ranks == 4
    assert {one.name: one.read_bytes() for one in precious.iterdir()} == before
    assert [one.name for one in (path / "old").iterdir()] == ["1.pack"]


def test_a_record_that_takes_the_place_of_a_packed_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path / "run")
    record = path / "ranks" / sorted(os.listdir(path / "ranks"))[1]
    rename = os.rename

    def swapped(*args: Any, **words: Any) -> None:
        rename(*args, **words)
        (tmp_path / "another").write_bytes(b"another")
        (tmp_path / "another").replace(record)

    monkeypatch.setattr(os, "rename", swapped)
    pack_records(path, over)
    assert record.read_bytes() == b"another"
