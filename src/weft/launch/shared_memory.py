"""Shared memory that ranks leave behind where they are ended: MPICH takes its own away in MPI_Finalize only."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")
NAMES = ("mpich_shm_*", "mpich_shar_tmp*")
"""What MPICH calls the files that its messages within a host go through."""

PATIENCE = 1.0
"""Seconds for processes that are ending."""


def remove(since: float) -> None:
    """Take away those that this user has made since a moment (of time.time) and that no process has any more.

    What cannot be told stays. MPICH opens such a file only while it starts, and every rank has it mapped from then on:
    one that nobody has is of no use to any job.
    """
    until = time.monotonic() + PATIENCE
    while not all([_is_removed(path) for path in _made(since)]) and time.monotonic() < until:  # noqa: C419 - each is tried
        time.sleep(0.05)


def _made(since: float) -> list[Path]:
    found = []
    for path in (path for name in NAMES for path in FOLDER.glob(name)):
        with suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.geteuid() and status.st_ctime >= since:
                found.append(path)
    return found


def _is_removed(path: Path) -> bool:
    """Remove a file if nobody else has it open or mapped: only then does the system give a lease on it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            os.close(handle)
        path.unlink()
    except BlockingIOError:
        return False  # a process that ends lets go of its memory before its files
    except OSError:
        pass
    return True
