"""Watches the threads of the program: which wait or sleep, whether anything is active, and their rows in the table."""

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
from .blocked_threads import SleepingThreads, find_thread_wait, find_untimed_wait
from .task_table import DETAIL_LIMIT
from .threads import ThreadEntry, ThreadSnapshot
from .tracer import frame_and_callers

SETTLE_TIME = 0.02
"""Seconds for a thread that could go on to do so: one that waits for Python's lock asks for it every 5 ms."""


class ThreadMonitor:
    """The threads of a program beside its tasks.

    `own_threads`: the identities of Weft's threads. `has_rows`: whether threads have rows in the table.
    """

    def __init__(self, loops: Iterable[Any], tasks: Callable[[], list[Task]], *, has_rows: bool) -> None:
        self.own_threads: set[int] = set()
        self._loops, self._tasks, self._has_rows = loops, tasks, has_rows
        self._asked, self._watched = SleepingThreads(), SleepingThreads()

    def read_threads(self, asleep: set[int]) -> ThreadSnapshot:
        """Return a snapshot of all threads and pool works. `asleep`: the threads that have not run for a while."""
        tasks = self._tasks()
        return ThreadSnapshot(self.own_threads, list(self._loops), tasks if len(tasks) <= DETAIL_LIMIT else [], asleep)

    # Who waits

    def find_sleeping_threads(self) -> set[int]:
        """Return the identities of the threads that sleep. They are watched for SETTLE_TIME seconds, unless no thread
        waits for anything: then the result is empty at once.
        """
        if not any(
            find_thread_wait(frame_and_callers(top))
            for ident, top in sys._current_frames().items()
            if ident not in self.own_threads
        ):
            return set()
        return self.find_threads_that_do_not_run()

    def find_threads_that_do_not_run(self) -> set[int]:
        """Return the identities of the threads that have slept for SETTLE_TIME seconds, for which this call waits."""
        self._asked.find_sleeping_since_last_call()
        time.sleep(SETTLE_TIME)
        return self._asked.find_sleeping_since_last_call()

    def find_idle_threads(self) -> set[int] | None:
        """Return the identities of the threads that have slept since the last call. None if a loop or the main thread
        has something to do.
        """
        if self.is_active(set(sys._current_frames())):  # what the system counts is read only where that matters
            return None
        asleep = self._watched.find_sleeping_since_last_call()
        return None if self.is_active(asleep) else asleep

    def is_active(self, asleep: set[int]) -> bool:
        """Return whether a loop has something to do, or, without a running loop, the main thread. `asleep`: the
        identities of the threads that have not run for a while.
        """
        tops = sys._current_frames()

        def waits(ident: int | None) -> bool:
            return ident in asleep and find_untimed_wait(ident, frame_and_callers(tops.get(ident)), asleep) is not None

        running = [loop for loop in list(self._loops) if loop.is_running()]
        if any(
            is_loop_busy(loop) and not (self._has_rows and waits(getattr(loop, "_thread_id", None))) for loop in running
        ):
            return True
        return not running and not (self._has_rows and waits(threading.main_thread().ident))

    # What is reported

    def thread_columns(self, threads: ThreadSnapshot) -> dict[str, Any]:
        """Return two columns of the table: `threads`, the rows of all threads, and `above`, which has for each task in
        a blocked loop the number of the task or thread that blocks the loop.
        """
        above = threads.blockers_by_loop() if self._has_rows else {}
        tasks = self._tasks() if above else []
        first = {birth(task).id: above.get(id(task.get_loop()), 0) for task in tasks}
        return {"threads": threads.rows() if self._has_rows else [],
                "above": {task: one for task, one in first.items() if one and one != task}}  # fmt: skip

    def find_row_of_frame(self, frame: FrameType) -> dict[str, Any] | None:
        """Return the row of the thread or work that executes a frame; None if a task does, or threads have no rows."""
        return self.find_row(creation.find_creator(frame)) if self._has_rows else None

    def find_row(self, number: int | None) -> dict[str, Any] | None:
        """Return the row of a thread or work by its number; None if there is none."""
        rows = self.read_threads(set()).rows() if self._has_rows and number is not None else []
        return next((row for row in rows if row["id"] == number), None)

    def find_entry(self, number: int | None) -> ThreadEntry | None:
        """Return the entry of a thread or work by its number; None if there is none."""
        entries = self.read_threads(set()).entries if self._has_rows and number is not None else []
        return next((entry for entry in entries if entry.creation.id == number), None)

    def find_number_of(self, thing: object) -> int | None:
        """Return the number of a thread, or of the work that a future belongs to; None for other objects."""
        entries = self.read_threads(set()).entries if self._has_rows else []
        return next((entry.creation.id for entry in entries if entry.thing is thing), None)


def is_loop_busy(loop: Any) -> bool:
    """Return whether a loop has something to do, now or when a timer is due. A loop that is not asyncio's own always
    counts as busy.
    """
    if not loop.is_running():
        return False
    if not isinstance(loop, base_events.BaseEventLoop):
        return True  # it does not say
    if asyncio.current_task(loop) is not None or getattr(loop, "_ready", None):
        return True
    return any(not handle.cancelled() for handle in list(getattr(loop, "_scheduled", ())))
