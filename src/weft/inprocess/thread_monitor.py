"""Looks at all threads of the program: which wait and sleep, whether anything goes on, and what is told of them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from asyncio import base_events
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from . import creation
from .births import Task, birth
from .blocked_threads import Sleepers, blocked, held_up
from .task_table import CLOSELY
from .threads import Entry, Threads
from .tracer import backs

NAP = 0.02
"""Seconds for a thread that could go on to do so: one that waits for Python's lock asks for it every 5 ms."""


class Overlook:
    """The threads of a program beside its tasks. `own`: Weft's; `tells`: whether they stand in the table."""

    def __init__(self, loops: Iterable[Any], tasks: Callable[[], list[Task]], *, tells: bool) -> None:
        self.own: set[int] = set()
        self._loops, self._tasks, self._tells = loops, tasks, tells
        self._asked, self._watched = Sleepers(), Sleepers()

    def threads(self, asleep: set[int]) -> Threads:
        """All of them, and their works; `asleep`: those that have not run for a while."""
        tasks = self._tasks()
        return Threads(self.own, list(self._loops), tasks if len(tasks) <= CLOSELY else [], asleep)

    # Who waits

    def asleep(self) -> set[int]:
        """The threads that do not run, where somebody asks: those that wait are looked at twice."""
        if not any(blocked(backs(top)) for ident, top in sys._current_frames().items() if ident not in self.own):
            return set()
        self._asked.look()
        time.sleep(NAP)
        return self._asked.look()

    def idle(self) -> set[int] | None:
        """The threads that have slept since this was last asked; None where something goes on."""
        if self.goes_on(set(sys._current_frames())):  # what the system counts is read only where that matters
            return None
        asleep = self._watched.look()
        return None if self.goes_on(asleep) else asleep

    def goes_on(self, asleep: set[int]) -> bool:
        """Whether a loop or the main thread has something to do, as far as they tell."""
        tops = sys._current_frames()

        def waits(ident: int | None) -> bool:
            return ident in asleep and held_up(ident, backs(tops.get(ident)), asleep) is not None

        running = [loop for loop in list(self._loops) if loop.is_running()]
        if any(busy(loop) and not (self._tells and waits(getattr(loop, "_thread_id", None))) for loop in running):
            return True
        return not running and not (self._tells and waits(threading.main_thread().ident))

    # What is told

    def told(self, threads: Threads) -> dict[str, Any]:
        """The rows of threads, and which task has to go on first, by the numbers of those whose loops are held up."""
        above = threads.above() if self._tells else {}
        tasks = self._tasks() if above else []
        first = {birth(task).id: above.get(id(task.get_loop()), 0) for task in tasks}
        return {"threads": threads.rows() if self._tells else [],
                "above": {task: one for task, one in first.items() if one and one != task}}  # fmt: skip

    def at(self, frame: FrameType) -> dict[str, Any] | None:
        """The row of the thread, or its work, that a frame is of; None where it is told as a task, or not at all."""
        return self.row(creation.maker(frame)) if self._tells else None

    def row(self, number: int | None) -> dict[str, Any] | None:
        """The row of a thread or a work by its number."""
        rows = self.threads(set()).rows() if self._tells and number is not None else []
        return next((row for row in rows if row["id"] == number), None)

    def entry(self, number: int | None) -> Entry | None:
        """A thread or a work by its number."""
        entries = self.threads(set()).entries if self._tells and number is not None else []
        return next((entry for entry in entries if entry.made.id == number), None)

    def number_of(self, thing: object) -> int | None:
        """The number of a thread, or of the work that a future is for."""
        entries = self.threads(set()).entries if self._tells else []
        return next((entry.made.id for entry in entries if entry.thing is thing), None)


def busy(loop: Any) -> bool:
    """Whether a loop has something to do, now or by a timer."""
    if not loop.is_running():
        return False
    if not isinstance(loop, base_events.BaseEventLoop):
        return True  # it does not say
    if asyncio.current_task(loop) is not None or getattr(loop, "_ready", None):
        return True
    return any(not handle.cancelled() for handle in list(getattr(loop, "_scheduled", ())))
