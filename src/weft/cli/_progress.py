"""Shows a bar on the error output for work that takes over a second, and removes it at the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

AFTER_S: Final = 1.0
"""Seconds of work before the bar is shown."""

Advance = Callable[[float, str], None]
"""A function that is called with the share of the work done (0 to 1; below 0: unknown) and its step (empty: as before).
"""


def _ignore_progress(share: float, now: str) -> None:
    """Ignore the progress, as there is no terminal."""


class _DelayedBar:
    """Shows a bar after AFTER_S, whether or not there was any progress by then."""

    def __init__(self, what: str) -> None:
        self._what, self._share, self._now = what, -1.0, ""
        self._lock = threading.Lock()
        self._shown: tuple[Progress, TaskID] | None = None
        self._timer = threading.Timer(AFTER_S, self._show)
        self._timer.daemon = True
        self._ended = False

    def start(self) -> None:
        """Begin to count the time."""
        self._timer.start()

    def advance(self, share: float, step: str = "") -> None:
        """Set the share of the work that is done (0 to 1, below 0 if unknown), and the name of the current step."""
        with self._lock:
            self._share, self._now = share, step or self._now
            if self._shown is not None:
                progress, task = self._shown
                progress.update(task, **self._state())  # type: ignore[arg-type]

    def stop(self) -> None:
        """Remove the bar."""
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown[0].stop()

    def _state(self) -> dict[str, object]:
        text = f"{self._what}: {self._now}" if self._now else self._what
        # Without a total the bar moves to and fro.
        return {"description": text, "total": None if self._share < 0 else 1.0, "completed": max(self._share, 0.0)}

    def _show(self) -> None:
        """Draw the bar, unless the work has ended meanwhile."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._ended:
                return
            columns = TextColumn("weft: {task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
            # What the program or the command prints is not ours to redirect.
            progress = Progress(*columns, console=Console(file=sys.__stderr__), transient=True,
                                redirect_stdout=False, redirect_stderr=False)  # fmt: skip
            progress.start()
            self._shown = progress, progress.add_task(**self._state())  # type: ignore[arg-type]


@contextmanager
def show_progress(work: str) -> Iterator[Advance]:
    """In a `with` block, show on a terminal how far some work is, once it takes longer than AFTER_S. Yields the
    function that sets the share."""
    if not sys.stderr.isatty():
        yield _ignore_progress
        return
    bar = _DelayedBar(work)
    bar.start()
    try:
        yield bar.advance
    finally:
        bar.stop()
