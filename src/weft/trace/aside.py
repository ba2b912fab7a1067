"""Parts of a run with rings (`weft run --keep`) that were set aside before the rings dropped them: RUN/around/N.

Such a part is a run directory of its own: copies of the records as they were at one moment, and the tick up to which
its calls are read (weft.trace.growing). A ring may give a chunk's place to newer calls while it is copied. What says
that it did so is the account of what was dropped: a copy holds where that is the same before and after.
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
from weft.trace.rankfile import RankFile, open_inside

FOLDER: Final = "around"
MOST: Final = 8
"""Parts of one run, at most."""
MOST_BYTES: Final = 4 << 30
"""Of all parts of a run together."""
_AGAIN: Final = 5
_BLOCK: Final = 1 << 20


class NoRoomError(RunError):
    """A part would be larger than parts may be, or than the disk has room for."""


def parts(root: Path) -> list[Path]:
    """The parts of a run that were set aside, in the order of time."""
    try:
        names = [entry.name for entry in os.scandir(root / FOLDER) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [root / FOLDER / name for name in sorted(filter(re.compile("[1-9][0-9]{0,3}").fullmatch, names), key=int)]


def set_aside(root: Path, facts: dict[str, object], until: int) -> Path:
    """Copy the records of a run that goes on into a folder that is no part yet (`name` makes it one).

    `until` is a tick that all ranks have passed. NoRoomError where it is too large, RunError where a ring turned again
    and again while it was copied.
    """
    made = root / FOLDER / f".new-{os.getpid()}"
    shutil.rmtree(made, ignore_errors=True)
    try:
        (made / "ranks").mkdir(parents=True)
        records = sorted(ranks_folder(root).glob("*.weft"))
        _room_for(sum(path.lstat().st_size for path in records), root)
        for path in records:
            _copy(path, made / "ranks" / path.name, root)
        shutil.copyfile(root / "functions.json", made / "functions.json")
        told = {**facts, "schema": "weft-run/1", "until": until}
        write_whole(made / "run.json", json.dumps(told, indent=1).encode() + b"\n")
    except BaseException:
        drop(made)
        raise
    return made


def name(made: Path) -> Path:
    """Make what was set aside a part of its run."""
    last = parts(made.parent.parent)
    part = made.parent / str(int(last[-1].name) + 1 if last else 1)
    made.rename(part)
    return part


def drop(made: Path) -> None:
    """Take away what was set aside, and the folder of parts where that has none."""
    shutil.rmtree(made, ignore_errors=True)
    try:
        made.parent.rmdir()
    except OSError:
        return


def tidy(root: Path) -> None:
    """Take away copies that whoever made them was ended over."""
    for made in (root / FOLDER).glob(".new-*"):
        drop(made)


def _room_for(size: int, root: Path) -> None:
    there = sum(path.stat().st_size for part in parts(root) for path in (part / "ranks").iterdir())
    if size + there > MOST_BYTES:
        raise NoRoomError(f"all parts together would take {size + there >> 20} MiB, of {MOST_BYTES >> 20} at most")
    free = shutil.disk_usage(root).free
    if 2 * size > free:
        raise NoRoomError(f"it would take {size >> 20} MiB, and the disk has {free >> 20} left, which the run may need")


def _copy(source: Path, to: Path, root: Path) -> None:
    for _ in range(_AGAIN):
        before = RankFile(source, root)
        with os.fdopen(open_inside(source, root), "rb") as read, to.open("wb") as write:
            # The tables first: what they count is there, and what comes meanwhile they do not count.
            tables = list(_pieces(read.fileno(), [(0, PAGE), *before.tables]))
            size = os.fstat(read.fileno()).st_size  # now, as the file may have grown since `before`
            blocks = [(at, min(_BLOCK, size - at)) for at in range(0, size, _BLOCK)]
            for at, data in chain(_pieces(read.fileno(), blocks), tables):
                os.pwrite(write.fileno(), data, at)
        made = RankFile(to)
        if _dropped(RankFile(source, root)) == _dropped(before) == _dropped(made) and made.tables == before.tables:
            return
    raise RunError(f"{source} drops its calls faster than they are copied: keep longer")


def _pieces(file: int, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    for at, size in places:
        yield at, os.pread(file, size, at)


def _dropped(file: RankFile) -> dict[int, tuple[int, int, int]]:
    return {thread: (one.events, one.tails, one.first_received) for thread, one in file.before.items()}
