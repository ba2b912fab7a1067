"""Remove shared memory that ranks leave behind if they are killed: MPICH removes its own in MPI_Finalize only."""

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


def remove_leftovers(since: float) -> None:
    """Remove MPICH's shared memory files that this user made after `since` (of time.time) and that no process uses.

    Files whose use is unknown stay. MPICH opens such a file only at its start, and every rank has it mapped from then
    on: a file that no process maps is of no use to any job.
    """
    until = time.monotonic() + PATIENCE
    while not all([_try_to_remove(path) for path in _find_created_files(since)]) and time.monotonic() < until:  # noqa: C419 - each is tried
        time.sleep(0.05)


def _find_created_files(since: float) -> list[Path]:
    """Return MPICH's shared memory files that this user made after `since`."""
    found = []
    for path in (path for name in NAMES for path in FOLDER.glob(name)):
        with suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.geteuid() and status.st_ctime >= since:
                found.append(path)
    return found


def _try_to_remove(path: Path) -> bool:
    """Remove a file unless a process has it open or mapped; return False in that case, so that the caller can try
    again. The system shows such a use by refusing a lease. Return True also if the file cannot be removed for another
    reason.
    """
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
