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
class _Kept:
    """The signals that arrived while they were deferred, and whether they are deferred now."""

    layers: int = 0
    came: bool = False
    limited: bool = False
    """Whether a command with a limit is under way: an alarm may be heard late, where another thread took it."""
    before: dict[signal.Signals, Any] = field(default_factory=dict)
    """What is done at each signal where it is not kept back."""


_kept = _Kept()


def _over(number: int, frame: FrameType | None) -> None:
    if _kept.limited:
        raise KeyboardInterrupt


def _later(number: int, frame: FrameType | None) -> None:
    _kept.came = True


def _elsewhere() -> bool:
    """Whether this is a thread that signals do not come to."""
    return threading.current_thread() is not threading.main_thread()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt, as Ctrl-C does, after so many seconds in a `with` block; 0 for no limit."""
    if not seconds or _elsewhere():
        yield
        return
    before = signal.getsignal(signal.SIGALRM)
    try:
        try:
            _kept.limited = True
            signal.signal(signal.SIGALRM, _over)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:  # the one alarm may come in here, too: not in what comes next
            _kept.limited = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)


@contextmanager
def kept(*, late: bool = False) -> Iterator[None]:
    """Defer Ctrl-C and the time limit in a `with` block to calls of `raise_deferred_interrupt`.

    `late`: raise at the end of the block what has arrived until then, which is dropped otherwise.
    """
    if _elsewhere() or _kept.layers:
        yield
        return
    outside, before = _kept.before, {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        _kept.layers, _kept.came, _kept.before = 1, False, before
        _set_handlers(dict.fromkeys(_SIGNALS, _later))
        yield
    finally:
        _kept.layers, _kept.before = 0, outside
        _set_handlers(before)
    if late and _kept.came:
        raise KeyboardInterrupt


@contextmanager
def immediate_interrupts() -> Iterator[None]:
    """Let Ctrl-C interrupt at once in a `with` block within `kept`."""
    if _elsewhere() or not _kept.layers:
        yield
        return
    before = _kept.before
    try:
        _kept.layers = 0
        _set_handlers(before)
        yield
    finally:
        _kept.layers, _kept.came, _kept.before = 1, False, before
        _set_handlers(dict.fromkeys(_SIGNALS, _later))


def _set_handlers(by: Mapping[signal.Signals, Any]) -> None:
    for number, handler in by.items():
        signal.signal(number, handler)


def raise_deferred_interrupt() -> None:
    """Raise KeyboardInterrupt if Ctrl-C or the time limit arrived while they were deferred."""
    if _kept.came and _kept.layers and not _elsewhere():
        _kept.came = False
        raise KeyboardInterrupt


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended; safe where Ctrl-C may interrupt at any moment.

    Popen.poll() takes a lock, which stays taken if an interrupt comes right after that; each wait() then waits for
    ever.
    """
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has been waited for
        return True
