"""The job goes on as if nobody had looked, even if Weft or a debugger of its is killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

DONE: Final = b"."
PATIENCE: Final = 60.0
"""Seconds to wait for a debugger that is to let go by itself: it may still read symbols."""
PAUSE: Final = 0.02


def status_of(pid: int) -> tuple[str, int]:
    """State and tracer of a process, as the kernel tells them; an empty state where it has gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    told = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return told.get("State", "")[:1], int(told.get("TracerPid", "0"))


def refusal(pid: int) -> str:
    """Why a process had better not be looked into; empty where it may be."""
    state, tracer = status_of(pid)
    if not state or state in "ZX":
        return "it has ended"
    if tracer:
        return f"process {tracer} is its debugger already"
    return "it is stopped (kill -CONT lets it go on)" if state in "Tt" else ""


@contextmanager
def guarded(pids: Sequence[int]) -> Iterator[None]:
    """Look at running processes: whatever ends this, none of them stays stopped.

    A process of its own waits for the end: it is there where Weft is killed. What is stopped by a debugger goes on by
    itself once that has gone, but for one that was just being stopped.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(writer)
        _wait(reader, [(pid, handle) for pid in pids if (handle := handle_of(pid)) is not None])
    os.close(reader)
    try:
        yield
    finally:
        with suppress(OSError):
            os.write(writer, DONE)
        os.close(writer)
        os.waitpid(child, 0)


def handle_of(pid: int) -> int | None:
    """A handle that cannot come to mean another process."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _wait(reader: int, processes: list[tuple[int, int]]) -> None:
    """Be the process that waits; it does not return."""
    with suppress(BaseException):
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        done = os.read(reader, 1) == DONE
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        if not done:
            _free(processes)
        for pid, handle in processes:
            if status_of(pid)[0] == "T":
                signal.pidfd_send_signal(handle, signal.SIGCONT)
    os._exit(0)


def _free(processes: list[tuple[int, int]]) -> None:
    """Wait until nobody debugs them: gdb and py-spy let go by themselves once nobody speaks to them."""
    limit = time.monotonic() + PATIENCE
    while any(status_of(pid)[1] for pid, _ in processes) and time.monotonic() < limit:
        time.sleep(PAUSE)
    time.sleep(PAUSE)
