"""Let the job go on as if nobody had looked, even if Weft or its debugger is killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from weft.base.processes import read_status

DONE: Final = b"."
PATIENCE: Final = 60.0
"""Seconds to wait for a debugger that is to let go by itself: it may still read symbols."""
PAUSE: Final = 0.02


@contextmanager
def ensure_resumed(pids: Sequence[int]) -> Iterator[None]:
    """Make sure that all of the processes run after a `with` block, even if Weft is killed inside it.

    A guard process waits for the end of the block and resumes them. A process that a debugger has stopped resumes by
    itself once the debugger is gone, except one that was just being stopped.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(writer)
        _run_guard(reader, [(pid, handle) for pid in pids if (handle := open_handle(pid)) is not None])
    os.close(reader)
    try:
        yield
    finally:
        with suppress(OSError):
            os.write(writer, DONE)
        os.close(writer)
        os.waitpid(child, 0)


def open_handle(pid: int) -> int | None:
    """Return a handle (pidfd) of a process, which stays valid for this process only, even if its number is used again.
    None if the process has ended.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _run_guard(pipe: int, processes: list[tuple[int, int]]) -> None:
    """Wait in the guard process for the end of Weft's `with` block, then resume the processes, and exit. `pipe`: is
    closed when Weft ends; `processes`: (pid, handle) of each.
    """
    with suppress(BaseException):
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        done = os.read(pipe, 1) == DONE
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        if not done:
            _wait_for_debuggers(processes)
        for pid, handle in processes:
            if read_status(pid)[0] == "T":
                signal.pidfd_send_signal(handle, signal.SIGCONT)
    os._exit(0)


def _wait_for_debuggers(processes: list[tuple[int, int]]) -> None:
    """Wait until no debugger is attached to the processes, after Weft was killed: gdb and py-spy detach by themselves.

    A gdb of Weft that does not detach is killed after PATIENCE seconds: it may wait for a file of the program that is a
    pipe.
    """
    from weft.attach.reader import is_reader  # seldom: Weft was killed

    limit = time.monotonic() + PATIENCE
    while (tracers := {read_status(pid)[1] for pid, _ in processes} - {0}) and time.monotonic() < limit:
        time.sleep(PAUSE)
    for tracer in filter(is_reader, tracers):
        with suppress(ProcessLookupError):
            os.kill(tracer, signal.SIGKILL)
    while any(is_reader(tracer) for tracer in tracers) and time.monotonic() < limit + PATIENCE:
        time.sleep(PAUSE)
    time.sleep(PAUSE)
