"""A time limit for commands that let the program run: scripts come to an end also where the program does not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def _over(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """KeyboardInterrupt, as by the person's Ctrl-C, after so many seconds; 0: never."""
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
