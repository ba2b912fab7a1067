"""Stop processes with all their threads by ptrace(2), and let them go on: no signal is sent.

A process is traced here (SEIZE and INTERRUPT) until it is released, or given over to a reader: gdb or py-spy, which
trace it themselves. If this process ends in any way, the kernel releases all.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

DETACH: Final = 17
SEIZE: Final = 0x4206
INTERRUPT: Final = 0x4207
GETREGSET: Final = 0x4204
SETREGSET: Final = 0x4205
NT_PRSTATUS: Final = 1
STOPPED_BY_US: Final = 128
"""PTRACE_EVENT_STOP: no signal has stopped it, and none is to be given on."""
WALL: Final = 0x40000000
PATIENCE: Final = 2.0
"""Seconds for all to stand: a rank that waits in the kernel for a disk does not stop before that answers."""
PAUSE: Final = 0.001


@dataclass(slots=True)
class Standing:
    """Processes that can be stopped and given over. Only the thread that made it may use it, as ptrace requires."""

    refused: dict[int, str] = field(default_factory=dict)
    """Why some are not looked into."""
    pids: list[int] = field(default_factory=list)
    _threads: dict[int, dict[int, int | None]] = field(default_factory=dict)
    """Threads of each process that stands, with the signal that each was just being given; None: it did not stop."""

    def hold(self, pids: Sequence[int]) -> None:
        """Stop processes with all their threads. A process that may not be traced runs on; the tool that reads it (gdb,
        py-spy) reports why.
        """
        limit = time.monotonic() + PATIENCE
        for pid in pids:
            self._threads.setdefault(pid, {})
        coming: dict[int, int] = {}
        while self._ask_new_threads(pids, coming) or coming:  # again, until none has a thread that was made meanwhile
            for thread, pid in list(coming.items()):
                if (signal := _stop_signal(thread)) is not None:
                    del coming[thread]
                    self._threads[pid][thread] = signal
            if time.monotonic() > limit:
                break
            time.sleep(PAUSE if coming else 0)
        for thread, pid in coming.items():
            self._threads[pid][thread] = None

    def _ask_new_threads(self, pids: Sequence[int], coming: dict[int, int]) -> bool:
        """Ask those threads of the processes to stop that were not asked yet, and return whether there were any. Each
        is added to `coming`, which maps a thread to its process until it has stopped.
        """
        found = [(thread, pid) for pid in pids for thread in _threads_of(pid)
                 if thread not in coming and thread not in self._threads[pid]]  # fmt: skip
        asked = [(thread, pid) for thread, pid in found if _ptrace(SEIZE, thread)]
        for thread, pid in asked:
            _ptrace(INTERRUPT, thread)
            coming[thread] = pid
        return bool(asked)

    def release(self, pid: int) -> None:
        """Let a process continue, or leave it to the tool that reads it. A signal that was being delivered to a thread
        when it stopped is delivered now.
        """
        for thread, given in self._threads.pop(pid, {}).items():
            signal, limit = given, time.monotonic() + PATIENCE
            while signal is None and time.monotonic() < limit:  # only what stands can be let go
                time.sleep(PAUSE)
                signal = _stop_signal(thread)
            _ptrace(DETACH, thread, signal or 0)

    def threads(self, pid: int) -> dict[int, int | None]:
        """Return the stopped threads, with the signal that each was just being given; None: the thread did not stop."""
        return self._threads.get(pid, {})

    def keep(self, pids: Sequence[int]) -> bool:
        """Release all processes but `pids`. Return whether each of `pids` is stopped, or is one that may not be
        traced.
        """
        for pid in [pid for pid in self._threads if pid not in pids]:
            self.release(pid)
        self.pids = [pid for pid in self.pids if pid in pids]
        return {*pids} <= {*self.pids, *self.refused}

    def release_all(self) -> None:
        """Release all processes."""
        for pid in list(self._threads):
            self.release(pid)


def _threads_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(Path("/proc", str(pid), "task"))]
    return []


def _stop_signal(thread: int) -> int | None:
    """Return the signal that was being delivered to a thread when it stopped, 0 for none; None while the thread still
    runs.
    """
    try:
        changed, status = os.waitpid(thread, os.WNOHANG | WALL)
    except ChildProcessError:  # it has gone
        return 0
    if not changed:
        return None
    if not os.WIFSTOPPED(status) or status >> 16 == STOPPED_BY_US:
        return 0
    return os.WSTOPSIG(status)


@cache
def _ptrace_function() -> Any:
    """Return the C function ptrace, with its types declared."""
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    return call


def _ptrace(request: int, thread: int, signal: int = 0) -> bool:
    """Make a ptrace request; return whether the kernel accepts it."""
    return bool(_ptrace_function()(request, thread, None, signal or None) == 0)


def registers_of(thread: int) -> list[int]:
    """Return the general registers of a stopped thread, in the order of `struct user_regs_struct`. OSError if the
    kernel refuses.
    """
    held = (ctypes.c_uint64 * 64)()
    area = (ctypes.c_size_t * 2)(ctypes.addressof(held), ctypes.sizeof(held))  # struct iovec
    _raise_if_refused(_ptrace_function()(GETREGSET, thread, NT_PRSTATUS, ctypes.byref(area)))
    return list(held[: area[1] // 8])


def set_registers(thread: int, values: Sequence[int]) -> None:
    """Set the general registers of a stopped thread. OSError if the kernel refuses."""
    held = (ctypes.c_uint64 * len(values))(*values)
    area = (ctypes.c_size_t * 2)(ctypes.addressof(held), ctypes.sizeof(held))  # struct iovec
    _raise_if_refused(_ptrace_function()(SETREGSET, thread, NT_PRSTATUS, ctypes.byref(area)))


def _raise_if_refused(answer: int) -> None:
    """Raise OSError with the kernel's reason if a request of ptrace failed."""
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
