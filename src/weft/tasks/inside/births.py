"""Numbers asyncio's tasks and remembers who made them, and where: the model's `create`.

All that an untraced task pays is here: one more Python call when it is made.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from asyncio import base_events, locks
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ASYNCIO = str(Path(asyncio.__file__).parent)
OWN = str(Path(__file__).parent)
LIBRARY = (str(Path(asyncio.__file__).parents[1]), OWN, "<frozen")
Task = asyncio.Task[Any]

_next_id = itertools.count(1).__next__


class Birth(NamedTuple):
    """A task's number, who made it, and the instruction that did. A tuple: every task of the program pays for one."""

    id: int
    parent: Birth | None
    code: CodeType | None
    lasti: int
    depth: int

    def descends(self, ancestor: int) -> bool:
        """Whether it is the ancestor or comes from it."""
        at: Birth | None = self
        while at is not None and at.id != ancestor:
            at = at.parent
        return at is not None


NAMES: dict[int, str] = {}
"""Names that the debugger gave, by number."""
DEEP = 500
"""Ancestors that are remembered at most: a task that makes its own successor, for ever, would fill the memory."""
_new = tuple.__new__


def made(parent: Birth | None, code: CodeType | None, lasti: int) -> Birth:
    """The birth of a task that begins now."""
    depth = 0
    if parent is not None:
        depth = parent[4] + 1
        if depth > DEEP:
            parent, depth = _new(Birth, (parent[0], None, None, -1, 0)), 1
    return _new(Birth, (_next_id(), parent, code, lasti, depth))


def birth(task: Task) -> Birth:
    """A task's; made now for one that was created past us (before we came, or by another loop)."""
    try:
        return task._weft_birth  # type: ignore[attr-defined, no-any-return]
    except AttributeError:
        task._weft_birth = late = made(None, None, -1)  # type: ignore[attr-defined]
        return late


def line_of(code: CodeType, lasti: int) -> int:
    """The line of an instruction."""
    for start, end, line in code.co_lines():
        if start <= lasti < end:
            return line or 0
    return 0


def is_library(file: str) -> bool:
    """Whether a file is the standard library's, an installed package's, or ours."""
    return file.startswith(LIBRARY) or "site-packages" in file or file == "<string>"


def current() -> Task | None:
    """The task that runs in this thread."""
    loop = asyncio._get_running_loop()
    return asyncio.current_task(loop) if loop is not None else None


def install(on_create: Callable[[Task, Task | None], None], watched: list[bool]) -> None:
    """Number every task from now on. `on_create` is called only while `watched[0]`."""
    original = base_events.BaseEventLoop.create_task
    running, current_task = asyncio._get_running_loop, asyncio.current_task
    eager = hasattr(asyncio, "eager_task_factory")

    def create_task(self: Any, coro: Any, **options: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(ASYNCIO):
            frame = frame.f_back
        loop = running()
        parent = current_task(loop) if loop is not None else None
        mother = birth(parent) if parent is not None else None
        task = original(self, coro, **options)
        born = made(mother, frame.f_code, frame.f_lasti) if frame is not None else made(mother, None, -1)
        if eager and hasattr(task, "_weft_birth"):  # it has already run, and was given a number then
            born = born._replace(id=birth(task).id)
        task._weft_birth = born  # type: ignore[attr-defined]
        if watched[0]:
            on_create(task, parent)
        return task

    base_events.BaseEventLoop.create_task = create_task  # type: ignore[method-assign]
    locks.Lock._locked = _Locked()  # type: ignore[attr-defined]


class _Locked:
    """asyncio.Lock's `_locked`, which says too which task holds it: Lock itself does not know."""

    def __get__(self, lock: Any, _: type) -> bool:
        return bool(lock.__dict__.get("_locked", False))

    def __set__(self, lock: Any, value: bool) -> None:
        lock.__dict__["_locked"] = value
        lock.__dict__["_weft_owner"] = current() if value else None
