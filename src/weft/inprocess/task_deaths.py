"""Finds tasks that end by an exception: for the debugger's `catch`, the join of a followed task, and verdicts.

Only a callback at the end of each task is added, and only while `catch` is on: nothing is traced for this. An error
that nobody retrieves is also noted when asyncio tells of it.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

from .births import HAS_GLOBAL_TASK_SET, Task, _asyncio_task_set, birth
from .wait_descriptions import reachable_objects
from .waits import innermost_frame

OnDeath = Callable[[Task, BaseException], None]
MOST_DEATHS = 100
"""Deaths that are remembered of tasks and callbacks that nothing holds any more."""


class Death(NamedTuple):
    """A task or a callback of a loop that an exception has ended.

    `label`: of the task, or of the callback. `words`: of the exception; `at`: the program's line that raised it.
    `reached`: the id() of what its frames could reach and is still there.
    """

    label: str
    words: str
    at: list[Any] | None
    reached: frozenset[int]


class TaskDeaths:
    """Calls `on_death(task, exception)` for each task that ends by an exception, while catching is on."""

    def __init__(self, on_death: OnDeath) -> None:
        self._on_death = on_death
        self._name: str | None = None
        self.is_catching = False

    def start_catching(self, exception_name: str, tasks: list[Task]) -> None:
        """From now on, report each task that ends by an exception, both of these tasks and of tasks created later.

        `exception_name`: the class to report, with its subclasses; empty for all.
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
        """Call `on_death` if a task has ended by an exception of the class that is to be reported. asyncio calls this
        at the end of each task.
        """
        error = find_cancellation(task) or find_fatal_exception(task)
        if error is None or not self.is_catching or not isinstance(task, asyncio.Task):
            return
        kinds = type(error).__mro__
        if isinstance(error, asyncio.CancelledError) and self._name is None:
            return  # a cancellation is an end like others, if nobody asks for it
        names = {kind.__name__ for kind in kinds} | {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
        if self._name is None or self._name in names:
            self._on_death(task, error)


def find_fatal_exception(task: Any) -> BaseException | None:
    """Return the exception that ended a task, None if none did. asyncio still warns if nobody retrieves it."""
    return None if not task.done() or task.cancelled() else getattr(task, "_exception", None)


def find_cancellation(task: Any) -> asyncio.CancelledError | None:
    """Return the CancelledError that ended a task, with its traceback; None if the task was not cancelled."""
    if not task.done() or not task.cancelled():
        return None
    return next((one for one in gc.get_referents(task) if isinstance(one, asyncio.CancelledError)), None)


def describe_exception(error: BaseException) -> str:
    """Return `ValueError: boom`, of which the message is its first line."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def describe_death(task: Task) -> str:
    """Return `task 3 (reader) died of ValueError: boom`; empty if no exception ended the task."""
    error = find_fatal_exception(task) or find_cancellation(task)
    return f"{_task_label(task)} died of {describe_exception(error)}" if error is not None else ""


def _task_label(task: Task) -> str:
    return f"task {birth(task).id} ({task.get_name()})"


def exception_frames(task: Task) -> list[FrameType]:
    """Return the frames of the traceback of a dead task, innermost first; they still have their variables."""
    return error_frames(find_fatal_exception(task) or find_cancellation(task))


def innermost_error_site(error: BaseException) -> list[Any] | None:
    """Return [file, line, function] of the innermost line of the program's own code in an exception's traceback. None
    if there is none.
    """
    trace, found = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append((trace.tb_frame, [code.co_filename, trace.tb_lineno, code.co_qualname]))
        trace = trace.tb_next
    inner = innermost_frame([frame for frame, _ in found])
    return next((site for frame, site in reversed(found) if frame is inner), None)


def error_frames(error: BaseException | None) -> list[FrameType]:
    """Return the frames of an exception's traceback, innermost first."""
    trace, found = error.__traceback__ if error is not None else None, []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found[::-1]


def find_dead_tasks() -> list[Task]:
    """Return the tasks that an exception has ended and that are still referenced."""
    known = list(_asyncio_task_set()) if HAS_GLOBAL_TASK_SET else gc.get_objects()
    return [one for one in known if isinstance(one, asyncio.Task) and find_fatal_exception(one) is not None]


def describe_dead_task(task: Task) -> Death:
    """Return a Death for a task that an exception has ended: in words what ended it, at which line, and which objects
    its frames could reach.
    """
    error = find_fatal_exception(task)
    assert error is not None
    reached = frozenset(id(one) for frame in error_frames(error) for one in reachable_objects(frame))
    return Death(_task_label(task), describe_exception(error), innermost_error_site(error), reached)


class UnretrievedErrors:
    """The errors of which asyncio has told the loops' handlers: of tasks that nobody awaited, and of callbacks."""

    def __init__(self) -> None:
        self._deaths: deque[tuple[Death, list[weakref.ref[Any]]]] = deque(maxlen=MOST_DEATHS)

    def __iter__(self) -> Iterator[Death]:
        for death, refs in list(self._deaths):
            yield death._replace(reached=frozenset(id(one) for ref in refs if (one := ref()) is not None))

    def install(self) -> None:
        """From now on, store each error that asyncio reports to a loop's exception handler. The loop handles it
        afterwards as always.
        """
        original = base_events.BaseEventLoop.call_exception_handler

        def call_exception_handler(loop: Any, context: dict[str, Any]) -> None:
            with suppress(Exception):
                self._note_error(context)
            original(loop, context)

        base_events.BaseEventLoop.call_exception_handler = call_exception_handler  # type: ignore[method-assign, assignment]

    def _note_error(self, context: dict[str, Any]) -> None:
        """Store the error that asyncio reports to a loop's exception handler. The objects that the error's frames reach
        are stored as weak references. `context`: the dictionary that the handler gets.
        """
        error, task, handle = context.get("exception"), context.get("future"), context.get("handle")
        task = context.get("task", task)
        if error is None or not (isinstance(task, asyncio.Task) or handle is not None):
            return
        if isinstance(task, asyncio.Task):
            label = _task_label(task)
        else:
            label = f"the callback {getattr(handle._callback, '__qualname__', type(handle._callback).__name__)}"  # type: ignore[union-attr]
        refs: list[weakref.ref[Any]] = []
        for frame in error_frames(error):
            for one in reachable_objects(frame):
                with suppress(TypeError):
                    refs.append(weakref.ref(one))
        death = Death(label, describe_exception(error), innermost_error_site(error), frozenset())
        self._deaths.append((death, refs))
