"""Record a run whose file system is slow on a faster one of this host, and move it to its place at the end.

RUN is a link to the faster folder meanwhile, so that every reader finds the run, also after Weft itself was killed.
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
"""Bytes that the recorder writes at once where it takes room (native/record.c, `write_zeros`): 1,170 calls."""
SLOW: Final = 2e-3
"""Seconds for a piece from which on a place is slow: 1.7 us a call. A disk takes a twentieth of it, and one that others
write to less than half; what is between costs no more than the recorder waits for in any case (`waited`)."""
LOOKS: Final = 5
"""Times that a place is measured, at most: another program may have had the processor."""
PATIENCE: Final = 0.25
"""Seconds after which the second measure is the last."""
ROOM: Final = 1 << 30
"""Bytes that must be free where a run is recorded that was to lie elsewhere."""


def measure_write_time(folder: Path) -> float | None:
    """Return the shortest time in seconds that a folder takes to write a piece of a record, None if it cannot be
    written.
    """
    began, best = time.perf_counter(), float("inf")
    for look in range(LOOKS):
        try:
            best = min(best, time_one_piece(folder))
        except OSError:
            return None
        if best < SLOW or (look and time.perf_counter() - began > PATIENCE):
            break
    return best


def time_one_piece(folder: Path) -> float:
    """Return how many seconds a folder needs to give the recorder room for more calls. Measured on a file that is
    removed afterwards: reserve a piece of it, write and map it, store into it."""
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


def find_faster_folder(slow_folder: Path) -> Path | None:
    """Return a folder on another file system of this host that is fast and has room, None if there is none."""
    device = slow_folder.stat().st_dev
    for place in candidate_folders():
        with suppress(OSError):
            if place.stat().st_dev == device or shutil.disk_usage(place).free < ROOM:
                continue
            if (took := measure_write_time(place)) is not None and took < SLOW:
                return place
    return None


def candidate_folders() -> Iterator[Path]:
    """Yield the folders that are likely on a host's own disk, the best first. /dev/shm is not: its memory is the
    program's.
    """
    import tempfile  # few places are slow

    yield from dict.fromkeys((Path(tempfile.gettempdir()).absolute(), Path("/var/tmp")))


def find_existing_folder(out: Path | None) -> Path:
    """Return the existing folder in which a run will be made; `out` itself if a file system is mounted there."""
    path = (out if out is not None else BASE / "run").absolute()
    parent = next(one for one in path.parents if one.is_dir())
    return path if path.is_dir() and path.stat().st_dev != parent.stat().st_dev else parent


@dataclass
class StagedRun:
    """A run that is recorded in a temporary folder until it is moved to its place."""

    folder: Path
    """A new one, for this user alone."""
    given: Path | None = None
    """The empty folder that the user named, which has given way to the link."""

    def make_linked_folder(self, path: Path) -> None:
        """Make a run's folder in the temporary one, and a link to it at `path`. Raises FileExistsError if `path`
        exists.
        """
        local = self.folder / path.name
        path.absolute().symlink_to(local, target_is_directory=True)
        local.mkdir()

    def count_bytes(self) -> int:
        """Return the bytes that are to be moved."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def move_to_place(self, run: RunDirectory) -> str | None:
        """Move the run to its place; return why it cannot be moved, None if it was.

        The link is replaced by the complete run at once: if this process is killed meanwhile, the link remains.
        """
        local = self.folder / run.path.name
        try:
            if not any(local.iterdir()):  # nothing was recorded, and the run was discarded
                run.path.unlink()
                self.restore_place()
                return None
            if rank_processes.find_living_ranks(run.ranks.glob("*.weft")):
                return "some of its processes still run"
            part = run.path.with_name(f".{run.path.name}.part")
            part.mkdir()
            replace_link(run.path, local, part)
        except OSError as error:
            return error.strerror or str(error)
        shutil.rmtree(self.folder, ignore_errors=True)
        return None

    def restore_place(self) -> None:
        """Leave everything as it was before, as there is no run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.given is not None:
            self.given.mkdir(exist_ok=True)


def stage_run(base: Path, out: Path | None) -> StagedRun | None:
    """Make a temporary folder below `base` in which a new run is recorded, and return it. None if the run's folder
    cannot be replaced by a link."""
    import tempfile  # as above

    try:
        if out is not None and out.exists():
            out.rmdir()
            return StagedRun(Path(tempfile.mkdtemp(prefix="weft-run-", dir=base)), out)
        return StagedRun(Path(tempfile.mkdtemp(prefix="weft-run-", dir=base)))
    except OSError:
        return None


def replace_link(link: Path, local: Path, part: Path) -> None:
    """Replace a link by a copy of `local`, made in the empty folder `part`. Raises OSError if that fails."""
    try:
        copy_folder(local, part)
        link.unlink()
        part.rename(link)
    finally:
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder's files, folders and links into an empty one. Raises OSError if that fails."""
    for one in source.iterdir():
        if one.is_symlink():
            (target / one.name).symlink_to(one.readlink())
        elif one.is_dir():
            (target / one.name).mkdir()
            copy_folder(one, target / one.name)
        elif one.is_file():
            shutil.copyfile(one, target / one.name)
