"""Shared memory that ranks leave behind where they are ended: MPICH takes its own away in MPI_Finalize only."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from weft.launch import survivors

OWN = re.compile(rb" (\d+) +(/dev/shm/mpich_shm_\w+)\n")
"""A line of /proc/PID/maps: the inode and the name of what MPICH has its messages within a host in."""

PATIENCE = 1.0
"""Seconds for processes that are ending."""

Segments = dict[Path, int]
"""Files and their inodes."""


def of_ranks(records: Iterable[Path]) -> Segments:
    """The segments that living ranks of a run on this host have mapped."""
    found: Segments = {}
    for _, pid in survivors.living(records):
        with suppress(OSError):
            for inode, name in OWN.findall(Path(f"/proc/{pid}/maps").read_bytes()):
                found[Path(os.fsdecode(name))] = int(inode)
    return found


def remove(segments: Segments) -> None:
    """Take away those that no process has open or mapped any more; what cannot be told stays."""
    left, until = dict(segments), time.monotonic() + PATIENCE
    while left:
        for path, inode in list(left.items()):
            try:
                if _unused(path, inode):
                    path.unlink()
            except BlockingIOError:
                continue  # a process that ends lets go of its memory before its files
            except OSError:
                pass
            del left[path]
        if not left or time.monotonic() > until:
            return
        time.sleep(0.05)


def _unused(path: Path, inode: int) -> bool:
    """Whether a file is still the one that was seen, and nobody else has it open: the system gives a lease on it."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(handle).st_ino != inode:
            return False
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    finally:
        os.close(handle)
    return True
