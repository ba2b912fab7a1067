"""The bounds of `weft run --keep-around-findings`: what is beyond each is said, and nothing is half there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from machine import need
from weft.errors import RunError
from weft.report import live
from weft.trace import Trace
from weft.trace.builder import ANY, Builder
from weft.trace.rings import snapshots

Show = Callable[[int | None], None]
MIB = 1 << 20


def recorded(line: int | None, path: Path) -> Path:
    """A run in which rank 0 receives twice, at `line` from whoever comes; None: from each by name."""
    b = Builder(ranks=3, path=path, ended="running")
    for source in (1, 2):
        b.ranks[source].send(0, 3, site=("early.py", 100 + source, "main"))
    for source in (1, 2):
        asked = source if line is None else ANY
        b.ranks[0].recv(asked, 3, got=source, got_tag=3, site=("early.py", line or 1, "main"))
    return b.write()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that goes on, as `show` lets it."""
    return recorded(None, tmp_path / "run")


@pytest.fixture
def show(run: Path, tmp_path: Path) -> Show:
    """Let the rings of the run hold other calls."""

    def to(line: int | None) -> None:
        other = recorded(line, tmp_path / f"at-{line}")
        for path in (other / "ranks").iterdir():
            shutil.copyfile(path, run / "ranks" / path.name)
        shutil.rmtree(other)

    return to


def told(around: live.SnapshotTaker) -> list[str]:
    return [text for text, _ in around.find_news()]


def nothing_half_there(run: Path) -> bool:
    return not list(run.glob("around/.new-*"))


@pytest.mark.matrix
def test_the_ninth_finding_is_not_set_aside_and_that_was_said_before(run: Path, show: Show) -> None:
    around = live.SnapshotTaker(run)
    for k in range(1, 9):
        show(k)
        first, *more = told(around)
        assert "[message-race]" in first and f"early.py:{k} " in first, first
        assert first.endswith(f"(its calls are copied to around/{k})")
        assert more == (["note: Weft has copied the calls around 8 findings and will copy no others"] if k == 8 else [])
        assert around.over is (k == 8)
    lines = [live.select_proven(live.run_analyses(Trace.open(part), live.SNAPSHOT_ANALYSES).findings)[0].sites[0].line
             for part in snapshots.list_snapshots(run)]  # fmt: skip
    assert lines == list(range(1, 9)), "each part has what it was made for"
    assert nothing_half_there(run)


def test_a_finding_that_a_part_has_is_not_set_aside_again(run: Path, show: Show) -> None:
    around = live.SnapshotTaker(run)
    show(1)
    assert len(told(around)) == 1
    show(None)
    assert told(around) == []
    show(1)
    assert told(around) == []
    assert len(snapshots.list_snapshots(run)) == 1


def test_all_parts_together_stay_below_their_bound(
    run: Path, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    show(1)
    size = sum(path.stat().st_size for path in (run / "ranks").iterdir())
    monkeypatch.setattr(snapshots, "MOST_BYTES", 2 * size + size // 2)
    around = live.SnapshotTaker(run)
    said = []
    for k in (1, 2, 3):
        show(k)
        said.append(told(around))
    assert [len(lines) for lines in said] == [1, 1, 1]
    [last] = said[2]
    assert last.startswith("note: Weft copies no more calls around findings: all parts together would take ")
    assert around.over and len(snapshots.list_snapshots(run)) == 2
    assert nothing_half_there(run)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    need("mounting")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_what_is_left_of_the_disk_is_the_runs_own(small_disk: Path, tmp_path: Path) -> None:
    run = recorded(1, small_disk / "run")
    size = sum(path.stat().st_size for path in (run / "ranks").iterdir())
    free = shutil.disk_usage(small_disk).free
    with (small_disk / "other").open("wb") as other:
        other.write(bytes(free - 2 * size + 8192))  # a copy would fit, and take more than half of what is left
    around = live.SnapshotTaker(run)
    [said] = told(around)
    assert said.startswith("note: Weft copies no more calls around findings: it would take ")
    assert "left, which the run may need" in said
    assert around.over and snapshots.list_snapshots(run) == [] and not (run / "around").exists()
    (small_disk / "other").unlink()
    [said] = told(live.SnapshotTaker(run))
    assert said.endswith("(its calls are copied to around/1)"), "with room it is copied"


def test_a_disk_that_fills_while_it_is_copied_is_told(
    run: Path, show: Show, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    show(1)
    (run / "around").symlink_to(small_disk)  # the copies' disk is another than the one that was looked at
    (small_disk / "other").write_bytes(bytes(shutil.disk_usage(small_disk).free - 8192))
    around = live.SnapshotTaker(run)
    said = [told(around) for _ in range(4)]
    assert said[0] == said[1] == said[3] == []
    [note] = said[2]
    assert note.startswith("note: what looked like a finding at early.py:1")
    assert (
        "is in none of 3 copies of the record, so Weft no longer looks for it: [Errno 28] No space left on device"
        in note
    )
    assert list(small_disk.iterdir()) == [small_disk / "other"]


@pytest.mark.matrix
def test_what_is_in_none_of_three_copies_is_given_up_and_told(
    run: Path, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    copy, copies = snapshots.copy_records, []

    def too_late(root: Path, facts: dict[str, object], until: int) -> Path:
        show(None)  # the rings have turned
        copies.append(copy(root, facts, until))
        return copies[-1]

    monkeypatch.setattr(snapshots, "copy_records", too_late)
    around = live.SnapshotTaker(run)
    said = []
    for _ in range(4):
        show(1)
        said.append(told(around))
    assert len(copies) == live.TRIES == 3
    assert said[0] == said[1] == said[3] == []
    [note] = said[2]
    assert note == (
        "note: what looked like a finding at early.py:1 [message-race] is in none of 3 copies of the record, so Weft "
        "no longer looks for it: "
        "its calls were dropped before they could be copied"
    )
    assert snapshots.list_snapshots(run) == [] and not (run / "around").exists() and not around.over
    monkeypatch.setattr(snapshots, "copy_records", copy)
    show(2)
    [found] = told(around)
    assert found.endswith("(its calls are copied to around/1)"), "another finding is looked for as ever"


def test_a_ring_that_turns_faster_than_it_is_copied_is_told(
    run: Path, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def turning(_: object) -> dict[int, tuple[int, int, int]]:
        turning.at += 1  # type: ignore[attr-defined]
        return {0: (turning.at, 0, 0)}  # type: ignore[attr-defined]

    turning.at = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(snapshots, "_dropped_counts", turning)
    show(1)
    with pytest.raises(RunError, match="drops its calls faster than Weft copies them: give --keep a longer duration"):
        snapshots.copy_records(run, {}, 1)
    around = live.SnapshotTaker(run)
    said = [told(around) for _ in range(3)]
    assert said[:2] == [[], []]
    assert said[2][0].endswith("drops its calls faster than Weft copies them: give --keep a longer duration")
    assert nothing_half_there(run) and not (run / "around").exists()
