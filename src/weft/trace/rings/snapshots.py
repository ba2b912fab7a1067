"""Snapshots of a run with rings, which are copied before the rings drop the calls of a finding: RUN/around/N.

A snapshot is a run directory of its own: copies of the records as they were at one moment, and the tick up to which
its calls are read (weft.trace.growing). A ring may give a chunk's place to newer calls while it is copied. The account
of dropped calls shows that: a copy is right where the account is the same before and after.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from weft.base.json_files import write_whole
from weft.errors import RunError
from weft.trace.layout import PAGE
from weft.trace.opening import ranks_folder
from weft.trace.rankfile import RankFile, open_record

FOLDER: Final = "around"
MOST_SNAPSHOTS: Final = 8
"""The most snapshots of one run."""
MOST_BYTES: Final = 4 << 30
"""The most bytes of all snapshots of a run together."""
_TRIES: Final = 5
_BLOCK: Final = 1 << 20


class NoRoomError(RunError):
    """A snapshot would be larger than snapshots may be, or than the disk has room for."""


def list_snapshots(root: Path) -> list[Path]:
    """List the snapshots of a run in the order of time."""
    try:
        names = [entry.name for entry in os.scandir(root / FOLDER) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [root / FOLDER / name for name in sorted(filter(re.compile("[1-9][0-9]{0,3}").fullmatch, names), key=int)]


def copy_records(root: Path, facts: dict[str, object], until: int) -> Path:
    """Copy the records of a run that still goes on, and return the new folder. `add_snapshot` later makes it a
    snapshot.

    `facts`: the contents of the run's run.json; `until`: a clock tick that all ranks have passed. NoRoomError if the
    copy would be too large, RunError if a ring dropped calls each time that it was copied.
    """
    copy = root / FOLDER / f".new-{os.getpid()}"
    shutil.rmtree(copy, ignore_errors=True)
    try:
        (copy / "ranks").mkdir(parents=True)
        records = sorted(ranks_folder(root).glob("*.weft"))
        _require_room(sum(path.lstat().st_size for path in records), root)
        for path in records:
            _copy_record(path, copy / "ranks" / path.name, root)
        shutil.copyfile(root / "functions.json", copy / "functions.json")
        facts = {**facts, "schema": "weft-run/1", "until": until}
        write_whole(copy / "run.json", json.dumps(facts, indent=1).encode() + b"\n")
    except BaseException:
        delete_copy(copy)
        raise
    return copy


def add_snapshot(copy: Path) -> Path:
    """Rename a folder that `copy_records` made so that it becomes the run's next snapshot. Return its new path."""
    earlier = list_snapshots(copy.parent.parent)
    snapshot = copy.parent / str(int(earlier[-1].name) + 1 if earlier else 1)
    copy.rename(snapshot)
    return snapshot


def delete_copy(copy: Path) -> None:
    """Delete a folder that `copy_records` made. The folder of snapshots is deleted too if it is empty."""
    shutil.rmtree(copy, ignore_errors=True)
    try:
        copy.parent.rmdir()
    except OSError:
        return


def delete_unfinished_copies(root: Path) -> None:
    """Delete unfinished copies of records. They remain if a process ends while it makes them."""
    for copy in (root / FOLDER).glob(".new-*"):
        delete_copy(copy)


def _require_room(size: int, root: Path) -> None:
    """Raise NoRoomError if a copy of `size` bytes would exceed the limit of snapshots, or the free space of the
    disk.
    """
    there = sum(path.stat().st_size for one in list_snapshots(root) for path in (one / "ranks").iterdir())
    if size + there > MOST_BYTES:
        raise NoRoomError(f"all parts together would take {size + there >> 20} MiB, of {MOST_BYTES >> 20} at most")
    free = shutil.disk_usage(root).free
    if 2 * size > free:
        raise NoRoomError(f"it would take {size >> 20} MiB, and the disk has {free >> 20} left, which the run may need")


def _copy_record(source: Path, target: Path, root: Path) -> None:
    """Copy a record at a moment when its ring drops no calls. RunError if calls were dropped during each attempt."""
    for _ in range(_TRIES):
        before = RankFile(source, root)
        with os.fdopen(open_record(source, root), "rb") as read, target.open("wb") as write:
            # The tables first: what they count is there, and what comes meanwhile they do not count.
            tables = list(_read_pieces(read.fileno(), [(0, PAGE), *before.tables]))
            size = os.fstat(read.fileno()).st_size  # now, as the file may have grown since `before`
            blocks = [(at, min(_BLOCK, size - at)) for at in range(0, size, _BLOCK)]
            for at, data in chain(_read_pieces(read.fileno(), blocks), tables):
                os.pwrite(write.fileno(), data, at)
        copy = RankFile(target)
        if (
            _dropped_counts(RankFile(source, root)) == _dropped_counts(before) == _dropped_counts(copy)
            and copy.tables == before.tables
        ):
            return
    raise RunError(f"{source} drops its calls faster than Weft copies them: give --keep a longer duration")


def _read_pieces(file: int, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    for at, size in places:
        yield at, os.pread(file, size, at)


def _dropped_counts(file: RankFile) -> dict[int, tuple[int, int, int]]:
    return {thread: (one.events, one.tails, one.first_received) for thread, one in file.dropped.items()}
