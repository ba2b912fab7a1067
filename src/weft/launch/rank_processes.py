"""Find the ranks' processes on this host, prove that they are ours, and end them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from weft.launch.rankfile import Header, read_header
from weft.trace.layout import PAGE


def is_on_this_host(header: Header) -> bool:
    """Return whether the rank runs on this host, so that its pid means something here."""
    return header.host == os.uname().nodename


def is_writer_alive(path: Path, header: Header) -> bool:
    """Return whether the process that writes this file still lives (True also if unknown)."""
    if not is_on_this_host(header):
        return True
    return maps_file(header.pid, path) is not False


def is_record_final(path: Path) -> bool:
    """Return whether nobody writes to a record any more; False if unknown."""
    header = read_rank_header(path)
    return header is not None and (header.over or not is_writer_alive(path, header))


def maps_file(pid: int, path: Path) -> bool | None:
    """Return whether process `pid` has the file mapped; None if the system does not say.

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


def read_rank_header(path: Path) -> Header | None:
    """Return the header of a rank file, None if it has none or cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            return read_header(file.read(PAGE))
    except OSError:
        return None


def find_living_ranks(paths: Iterable[Path]) -> list[tuple[Path, int]]:
    """Return (file, pid) of every rank on this host whose process certainly lives: it still maps the rank file, so
    that its pid cannot be that of another program."""
    found = []
    for path in paths:
        header = read_rank_header(path)
        if header is not None and is_on_this_host(header) and maps_file(header.pid, path):
            found.append((path, header.pid))
    return found


def end_ranks(paths: Iterable[Path], patience: float = 2.0) -> int:
    """End every rank that outlived its launcher, by SIGTERM and then SIGKILL; return how many there were."""
    paths = list(paths)
    survivors = find_living_ranks(paths)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = find_living_ranks(paths)
        for path, pid in left:
            signal_process(pid, path, number)
        deadline = time.monotonic() + patience
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = find_living_ranks(path for path, _ in left)
        if not left:
            break
    return len(survivors)


def signal_ranks(paths: Iterable[Path], number: int) -> None:
    """Send a signal to every rank that lives on this host."""
    for path, pid in find_living_ranks(paths):
        signal_process(pid, path, number)


def signal_process(pid: int, path: Path, number: int) -> None:
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
