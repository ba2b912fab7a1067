"""The job goes on as if nobody had looked, even if Weft or a debugger of its is killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from weft.base.processes import status_of

DONE: Final = b"."
PATIENCE: Final = 60.0
"""Seconds to wait for a debugger that is to let go by itself: it may still read symbols."""
PAUSE: Final = 0.02


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
    """Wait until nobody debugs them: gdb and py-spy let go by themselves once nobody speaks to them.

    A gdb of Weft's that does not is ended: it may wait for a file of the program's that is a pipe.
    """
    from weft.attach.reader import is_reader  # seldom: Weft was killed

    limit = time.monotonic() + PATIENCE
    while (tracers := {status_of(pid)[1] for pid, _ in processes} - {0}) and time.monotonic() < limit:
        time.sleep(PAUSE)
    for tracer in filter(is_reader, tracers):
        with suppress(ProcessLookupError):
            os.kill(tracer, signal.SIGKILL)
    while any(is_reader(tracer) for tracer in tracers) and time.monotonic() < limit + PATIENCE:
        time.sleep(PAUSE)
    time.sleep(PAUSE)
