"""A run whose file system is slow is recorded on a faster one of this host, and moved to its place at the end.

RUN is a link there meanwhile, so that all that reads a run finds it, also after Weft itself was killed.
"""

from __future__ import annotations

import mmap
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.launch import rank_processes
from weft.launch.rundir import BASE, RunDirectory

PIECE: Final = 1 << 16
"""Bytes that the recorder writes at once where it takes room (native/record.c, `file_zero`): 1,170 calls."""
SLOW: Final = 2e-3
"""Seconds for a piece from which on a place is slow: 1.7 us a call. A disk takes a twentieth of it, and one that others
write to less than half; what is between costs no more than the recorder waits for in any case (`waited`)."""
LOOKS: Final = 5
"""Times that a place is measured, at most: another program may have had the processor."""
PATIENCE: Final = 0.25
"""Seconds after which the second measure is the last."""
ROOM: Final = 1 << 30
"""Bytes that must be free where a run is recorded that was to lie elsewhere."""


def seconds(folder: Path) -> float | None:
    """How long a folder takes for a piece of a record, at its best; None where nothing can be written there."""
    began, best = time.perf_counter(), float("inf")
    for look in range(LOOKS):
        try:
            best = min(best, measured(folder))
        except OSError:
            return None
        if best < SLOW or (look and time.perf_counter() - began > PATIENCE):
            break
    return best


def measured(folder: Path) -> float:
    """Seconds for what the recorder does to have room for more calls: reserve, write, map, store."""
    path = folder / f".weft-{os.urandom(8).hex()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        began = time.perf_counter()
        os.posix_fallocate(fd, 0, mmap.PAGESIZE)
        os.pwrite(fd, bytes(PIECE), 0)
        with mmap.mmap(fd, PIECE) as pages:
            pages[0] = pages[PIECE - 1] = 1
        return time.perf_counter() - began
    finally:
        os.close(fd)
        path.unlink()


def faster(than: Path) -> Path | None:
    """A folder of this host on another file system that is not slow and has room; None where there is none."""
    device = than.stat().st_dev
    for place in places():
        with suppress(OSError):
            if place.stat().st_dev == device or shutil.disk_usage(place).free < ROOM:
                continue
            if (took := seconds(place)) is not None and took < SLOW:
                return place
    return None


def places() -> Iterator[Path]:
    """Where a host's own disk is likely to be, best first. Not /dev/shm: what lies there the program lacks."""
    import tempfile  # few places are slow

    yield from dict.fromkeys((Path(tempfile.gettempdir()).absolute(), Path("/var/tmp")))


def ground(out: Path | None) -> Path:
    """The folder that is there and in which a run will lie; `out` itself where a file system is mounted there."""
    path = (out if out is not None else BASE / "run").absolute()
    parent = next(one for one in path.parents if one.is_dir())
    return path if path.is_dir() and path.stat().st_dev != parent.stat().st_dev else parent


@dataclass
class Stage:
    """Where a run is while it is recorded, before it goes to its place."""

    folder: Path
    """A new one, for this user alone."""
    given: Path | None = None
    """The empty folder that the user named, which has given way to the link."""

    def make(self, path: Path) -> None:
        """Make a run's folder: a link to one that lies here. FileExistsError where there is something of that name."""
        local = self.folder / path.name
        path.absolute().symlink_to(local, target_is_directory=True)
        local.mkdir()

    def size(self) -> int:
        """Bytes that are to be moved."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def leave(self, run: RunDirectory) -> str | None:
        """Move the run to its place; returns why it stays where it is, None where it does not.

        The link gives way to the whole run at once: who is killed meanwhile leaves the link.
        """
        local = self.folder / run.path.name
        try:
            if not any(local.iterdir()):  # nothing was recorded, and the run was discarded
                run.path.unlink()
                self.drop()
                return None
            if rank_processes.living(run.ranks.glob("*.weft")):
                return "some of its processes still run"
            part = run.path.with_name(f".{run.path.name}.part")
            part.mkdir()
            replace(run.path, local, part)
        except OSError as error:
            return error.strerror or str(error)
        shutil.rmtree(self.folder, ignore_errors=True)
        return None

    def drop(self) -> None:
        """There is no run: leave all as it was found."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.given is not None:
            self.given.mkdir(exist_ok=True)


def begin(base: Path, out: Path | None) -> Stage | None:
    """Have a new run recorded below `base`; None where its folder cannot give way to a link."""
    import tempfile  # as above

    try:
        if out is not None and out.exists():
            out.rmdir()
            return Stage(Path(tempfile.mkdtemp(prefix="weft-run-", dir=base)), out)
        return Stage(Path(tempfile.mkdtemp(prefix="weft-run-", dir=base)))
    except OSError:
        return None


def replace(link: Path, local: Path, part: Path) -> None:
    """Put a copy of `local`, made in the empty folder `part`, in place of a link. OSError where that fails."""
    try:
        copy(local, part)
        link.unlink()
        part.rename(link)
    finally:
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)


def copy(source: Path, target: Path) -> None:
    """Copy a folder's files, folders and links into an empty one. OSError where that fails."""
    for one in source.iterdir():
        if one.is_symlink():
            (target / one.name).symlink_to(one.readlink())
        elif one.is_dir():
            (target / one.name).mkdir()
            copy(one, target / one.name)
        elif one.is_file():
            shutil.copyfile(one, target / one.name)
