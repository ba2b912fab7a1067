"""Limit the time of commands that let the program run, and defer Ctrl-C to places where it does no harm.

Scripts end also if the program does not. An exchange with gdb is completed first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGALRM)


@dataclass
class _Deferral:
    """Whether Ctrl-C and the time limit are deferred now (`layers`), and whether one of them has arrived meanwhile."""

    layers: int = 0
    has_arrived: bool = False
    has_limit: bool = False
    """Whether a command with a limit is under way: an alarm may be heard late, where another thread took it."""
    before: dict[signal.Signals, Any] = field(default_factory=dict)
    """What is done at each signal where it is not kept back."""


_deferral = _Deferral()


def _over(number: int, frame: FrameType | None) -> None:
    if _deferral.has_limit:
        raise KeyboardInterrupt


def _later(number: int, frame: FrameType | None) -> None:
    _deferral.has_arrived = True


def _elsewhere() -> bool:
    """Whether this is a thread that signals do not come to."""
    return threading.current_thread() is not threading.main_thread()


@contextmanager
def interrupting_after(seconds: float) -> Iterator[None]:
    """In a `with` block, raise KeyboardInterrupt after `seconds`, as Ctrl-C does; 0 for no limit. Has no effect in
    other threads than the main one."""
    if not seconds or _elsewhere():
        yield
        return
    before = signal.getsignal(signal.SIGALRM)
    try:
        try:
            _deferral.has_limit = True
            signal.signal(signal.SIGALRM, _over)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:  # the one alarm may come in here, too: not in what comes next
            _deferral.has_limit = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)


@contextmanager
def deferring_interrupts(*, raise_at_end: bool = False) -> Iterator[None]:
    """In a `with` block, let Ctrl-C and the time limit raise KeyboardInterrupt only where `raise_deferred_interrupt`
    is called.

    `raise_at_end`: also raise it at the end of the block if one has arrived until then. Otherwise it is dropped there.
    """
    if _elsewhere() or _deferral.layers:
        yield
        return
    outside, before = _deferral.before, {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        _deferral.layers, _deferral.has_arrived, _deferral.before = 1, False, before
        _set_handlers(dict.fromkeys(_SIGNALS, _later))
        yield
    finally:
        _deferral.layers, _deferral.before = 0, outside
        _set_handlers(before)
    if raise_at_end and _deferral.has_arrived:
        raise KeyboardInterrupt


@contextmanager
def immediate_interrupts() -> Iterator[None]:
    """In a `with` block inside of `deferring_interrupts`, let Ctrl-C and the time limit interrupt at once again."""
    if _elsewhere() or not _deferral.layers:
        yield
        return
    before = _deferral.before
    try:
        _deferral.layers = 0
        _set_handlers(before)
        yield
    finally:
        _deferral.layers, _deferral.has_arrived, _deferral.before = 1, False, before
        _set_handlers(dict.fromkeys(_SIGNALS, _later))


def _set_handlers(by: Mapping[signal.Signals, Any]) -> None:
    for number, handler in by.items():
        signal.signal(number, handler)


def raise_deferred_interrupt() -> None:
    """Raise KeyboardInterrupt if Ctrl-C or the time limit arrived while they were deferred."""
    if _deferral.has_arrived and _deferral.layers and not _elsewhere():
        _deferral.has_arrived = False
        raise KeyboardInterrupt


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended. Unlike Popen.poll(), this is safe where Ctrl-C may interrupt at any moment.

    Popen.poll() takes a lock. If an interrupt comes right after that, the lock stays taken, and every later wait()
    hangs.
    """
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has been waited for
        return True
