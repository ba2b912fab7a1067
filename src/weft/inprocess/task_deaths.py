"""Finds tasks that end by an exception: for the debugger's `catch`, and for the join of a followed task.

Only a callback at the end of each task is added, and only while `catch` is on: nothing is traced for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import FrameType
from typing import Any

from .births import Task, birth

OnDeath = Callable[[Task, BaseException], None]


class TaskDeaths:
    """Calls `on_death(task, exception)` for each task that ends by an exception, while catching is on."""

    def __init__(self, on_death: OnDeath) -> None:
        self._on_death = on_death
        self._name: str | None = None
        self.is_catching = False

    def start_catching(self, exception_name: str, tasks: list[Task]) -> None:
        """Report deaths of these tasks and of all tasks created later.

        `exception_name`: the class to catch, with its subclasses; all if empty.
        """
        if not self.is_catching:
            self.is_catching = True
            for task in tasks:
                self.on_task_created(task)
        self._name = exception_name or None

    def stop_catching(self) -> None:
        """Report no more deaths."""
        self.is_catching = False

    def on_task_created(self, task: Task) -> None:
        """Watch the end of a new task, if catching is on."""
        if self.is_catching:
            task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: Task) -> None:
        """Call `on_death` if a task ended by an exception of the caught class."""
        error = find_fatal_exception(task)
        if error is None or not self.is_catching or not isinstance(task, asyncio.Task):
            return
        kinds = type(error).__mro__
        names = {kind.__name__ for kind in kinds} | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
        if self._name is None or self._name in names:
            self._on_death(task, error)


def find_fatal_exception(task: Any) -> BaseException | None:
    """Return the exception that ended a task, None if none did. asyncio still warns if nobody retrieves it."""
    return None if not task.done() or task.cancelled() else getattr(task, "_exception", None)


def describe_death(task: Task) -> str:
    """Return `task 3 (reader) died of ValueError: boom`; empty if no exception ended the task."""
    error = find_fatal_exception(task)
    if error is None:
        return ""
    words = str(error).splitlines()[:1]
    return f"task {birth(task).id} ({task.get_name()}) died of " + ": ".join([type(error).__name__, *words])


def exception_frames(task: Task) -> list[FrameType]:
    """Return the frames of the traceback of a dead task, innermost first; they still have their variables."""
    error = find_fatal_exception(task)
    trace, found = error.__traceback__ if error is not None else None, []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found[::-1]
