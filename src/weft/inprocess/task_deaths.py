"""Tasks that die of an exception: told by the debugger's `catch`, and with the join of a task that is followed.

A callback at the task's end is all that is added, and only while `catch` is on: nothing is traced for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import FrameType
from typing import Any

from .births import Task, birth

OnDeath = Callable[[Task, BaseException], None]


class Deaths:
    """The tasks that die while `catch` is on. `name`: the exception that is meant, with those derived from it."""

    def __init__(self, on_death: OnDeath) -> None:
        self._on_death = on_death
        self._name: str | None = None
        self.on = False

    def catch(self, name: str, tasks: list[Task]) -> None:
        """Hear of the deaths of these tasks, and of all that are made from now on."""
        if not self.on:
            self.on = True
            for task in tasks:
                self.born(task)
        self._name = name or None

    def forget(self) -> None:
        """Hear of none any more."""
        self.on = False

    def born(self, task: Task) -> None:
        """A task that has just been made."""
        if self.on:
            task.add_done_callback(self._ended)

    def _ended(self, task: Task) -> None:
        error = death_of(task)
        if error is None or not self.on or not isinstance(task, asyncio.Task):
            return
        kinds = type(error).__mro__
        names = {kind.__name__ for kind in kinds} | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
        if self._name is None or self._name in names:
            self._on_death(task, error)


def death_of(task: Any) -> BaseException | None:
    """What a task died of. It does not count as seen: asyncio still says so where nobody else looks at it."""
    return None if not task.done() or task.cancelled() else getattr(task, "_exception", None)


def told(task: Task) -> str:
    """`task 3 (reader) died of ValueError: boom`; empty where it came to its end."""
    error = death_of(task)
    if error is None:
        return ""
    words = str(error).splitlines()[:1]
    return f"task {birth(task).id} ({task.get_name()}) died of " + ": ".join([type(error).__name__, *words])


def frames_of(task: Task) -> list[FrameType]:
    """The frames in which the exception of a dead task was raised, innermost first: they have their variables still."""
    error = death_of(task)
    trace, found = error.__traceback__ if error is not None else None, []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found[::-1]
