"""Asking the ranks of this host where they are, before something ends them: each writes it into its own record.

The recorder answers a real-time signal (recorder/crash.c). Only a process that surely writes one of the run's
records and surely catches that signal gets it.
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


def where(paths: Iterable[Path], patience: float = PATIENCE) -> int:
    """Ask every rank of this host, wait for the answers; return how many answered in time."""
    limit = time.monotonic() + patience
    waiting: dict[Path, int] = {}
    for path in paths:
        header = rank_processes.read(path)
        if header is not None and rank_processes.here(header) and time.monotonic() < limit:
            before = told(path)
            if ask(header.pid, path):
                waiting[path] = before
    asked = len(waiting)
    growing = dict(waiting)
    while waiting and time.monotonic() < limit:
        time.sleep(PAUSE)
        for path, before in list(growing.items()):
            now = told(path)
            if now != before or not path.exists():
                growing[path] = now
            elif now != waiting[path]:
                del waiting[path], growing[path]  # it has told, and no more came since
    return asked - len(waiting)


def told(path: Path) -> int:
    """How many bytes of definitions a record holds."""
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


def ask(pid: int, path: Path) -> bool:
    """Send the signal to the process that writes `path`, if it is there and catches it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not rank_processes.maps_file(pid, path) or not catches(pid):
            return False
        signal.pidfd_send_signal(handle, ASKED)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def catches(pid: int) -> bool:
    """Whether a process has a handler for the signal: without one it would end by it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (ASKED - 1) & 1)
