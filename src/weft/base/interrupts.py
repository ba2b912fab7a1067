"""A time limit for commands that let the program run, and Ctrl-C where it does no harm.

Scripts come to an end also where the program does not. What is being said to gdb comes to its end first.
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
    """What came while it was kept back, and in how many layers it is."""

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
    """KeyboardInterrupt, as by the person's Ctrl-C, after so many seconds; 0: never."""
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
    """Ctrl-C and the limit come at `interruptible` only; `late`: or at the end, where they else are nothing."""
    if _elsewhere() or _kept.layers:
        yield
        return
    outside, before = _kept.before, {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        _kept.layers, _kept.came, _kept.before = 1, False, before
        _handled(dict.fromkeys(_SIGNALS, _later))
        yield
    finally:
        _kept.layers, _kept.before = 0, outside
        _handled(before)
    if late and _kept.came:
        raise KeyboardInterrupt


@contextmanager
def heeded() -> Iterator[None]:
    """Within `kept`: Ctrl-C comes at once, as ever."""
    if _elsewhere() or not _kept.layers:
        yield
        return
    before = _kept.before
    try:
        _kept.layers = 0
        _handled(before)
        yield
    finally:
        _kept.layers, _kept.came, _kept.before = 1, False, before
        _handled(dict.fromkeys(_SIGNALS, _later))


def _handled(by: Mapping[signal.Signals, Any]) -> None:
    for number, handler in by.items():
        signal.signal(number, handler)


def interruptible() -> None:
    """A place at which what was kept back may come. KeyboardInterrupt."""
    if _kept.came and _kept.layers and not _elsewhere():
        _kept.came = False
        raise KeyboardInterrupt


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended, asked where Ctrl-C and the limit may come at any moment.

    Popen.poll() takes a lock, which stays taken where one comes just behind that; each wait() then waits for ever.
    """
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has been waited for
        return True
