"""Ask the ranks of this host where they are before they are ended: each writes its stack into its own record.

The recorder answers a real-time signal (recorder/crash.c). The signal goes only to a process that certainly writes one
of the run's records and certainly has a handler for it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from weft.launch import rank_processes
from weft.launch.rankfile import read_chunks
from weft.trace.layout import PAGE, StreamKind

ASKED: Final = 57
"""The signal, as in recorder/crash.c."""
PATIENCE: Final = 0.5
"""Seconds to wait for the answers of all."""
PAUSE: Final = 0.02


def request_locations(rank_files: Iterable[Path], patience: float = PATIENCE) -> int:
    """Ask every rank of this host to record its stack, and wait up to `patience` seconds. Return how many have
    answered."""
    limit = time.monotonic() + patience
    waiting: dict[Path, int] = {}
    for path in rank_files:
        header = rank_processes.read_rank_header(path)
        if header is not None and rank_processes.is_on_this_host(header) and time.monotonic() < limit:
            before = count_definition_bytes(path)
            if send_request(header.pid, path):
                waiting[path] = before
    asked = len(waiting)
    growing = dict(waiting)
    while waiting and time.monotonic() < limit:
        time.sleep(PAUSE)
        for path, before in list(growing.items()):
            now = count_definition_bytes(path)
            if now != before or not path.exists():
                growing[path] = now
            elif now != waiting[path]:
                del waiting[path], growing[path]  # it has told, and no more came since
    return asked - len(waiting)


def count_definition_bytes(path: Path) -> int:
    """Return how many bytes of definitions a record holds; they grow when the rank records its location."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        chunks, _ = read_chunks(file, os.pread(file, PAGE, 0))
    except OSError:
        return 0
    finally:
        os.close(file)
    return sum(chunk.used for chunk in chunks if chunk.kind == StreamKind.DEFINITIONS)


def send_request(pid: int, path: Path) -> bool:
    """Send the signal to process `pid` if it writes the record `path` and handles the signal; return whether it was
    sent.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not rank_processes.maps_file(pid, path) or not catches_request(pid):
            return False
        signal.pidfd_send_signal(handle, ASKED)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def catches_request(pid: int) -> bool:
    """Return whether a process has a handler for the signal: without a handler the signal would end it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (ASKED - 1) & 1)
