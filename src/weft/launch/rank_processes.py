"""The ranks' processes on this host: are they alive, are they ours, and ending them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from weft.launch.rankfile import Header, read_header
from weft.trace.layout import PAGE


def here(header: Header) -> bool:
    """Whether the rank runs on this host, so that its pid means something."""
    return header.host == os.uname().nodename


def alive(path: Path, header: Header) -> bool:
    """Whether the process that writes this file still lives (True also where it cannot be told)."""
    if not here(header):
        return True
    return maps_file(header.pid, path) is not False


def is_over(path: Path) -> bool:
    """Whether nobody writes to a record any more; False where that is not known."""
    header = read(path)
    return header is not None and (header.over or not alive(path, header))


def maps_file(pid: int, path: Path) -> bool | None:
    """Whether process `pid` has the file mapped; None where that may not be asked.

    A pid alone proves nothing, as pids are used again; a process that maps the record is the one that writes it.
    """
    try:
        status = path.stat()
        with Path(f"/proc/{pid}/maps").open("rb") as maps:
            inode = b" %d " % status.st_ino
            return any(inode in line and b"/" in line for line in maps)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return None


def read(path: Path) -> Header | None:
    """Read a rank file's header, None where there is none."""
    try:
        with path.open("rb", buffering=0) as file:
            return read_header(file.read(PAGE))
    except OSError:
        return None


def living(paths: Iterable[Path]) -> list[tuple[Path, int]]:
    """Return file and pid of every rank on this host that surely lives and surely is ours."""
    found = []
    for path in paths:
        header = read(path)
        if header is not None and here(header) and maps_file(header.pid, path):
            found.append((path, header.pid))
    return found


def end(paths: Iterable[Path], patience: float = 2.0) -> int:
    """End every rank that outlived its launcher: SIGTERM, then SIGKILL; return how many there were."""
    paths = list(paths)
    survivors = living(paths)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = living(paths)
        for path, pid in left:
            kill(pid, path, number)
        deadline = time.monotonic() + patience
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = living(path for path, _ in left)
        if not left:
            break
    return len(survivors)


def send(paths: Iterable[Path], number: int) -> None:
    """Send a signal to every rank that lives here; SIGSTOP: it does not see any more how others end."""
    for path, pid in living(paths):
        kill(pid, path, number)


def kill(pid: int, path: Path, number: int) -> None:
    """Send a signal to the process that maps `path`, by a handle that cannot come to mean another process."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if maps_file(pid, path):
            signal.pidfd_send_signal(handle, number)
            if number != signal.SIGSTOP:
                signal.pidfd_send_signal(handle, signal.SIGCONT)  # a stopped process ends only once it goes on
    except OSError:
        pass
    finally:
        os.close(handle)
