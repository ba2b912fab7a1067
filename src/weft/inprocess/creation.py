"""Numbers threads, and the works that pools of threads are given, and remembers who made each, where and when.

Noted where `Thread.start` and a pool's `submit` come by; of what was made before, only the number is known.
"""

from __future__ import annotations

import concurrent.futures
import functools
import sys
import threading
import time
import weakref
from contextvars import Context
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from . import births
from .__main__ import at_import
from .births import ASYNCIO, birth, current

POOL = str(Path(concurrent.futures.__file__).parent)
MAKERS = (ASYNCIO, POOL, threading.__file__)
"""Through whose files a program makes threads and works."""


class Made(NamedTuple):
    """A number, and that of the task, thread or work that made it; the instruction that did, and when.

    `parent` 0: not known; None: the main thread, outside of any task. `since`: by time.monotonic().
    """

    id: int
    parent: int | None = 0
    code: CodeType | None = None
    lasti: int = -1
    since: float | None = None


_known: dict[int, tuple[weakref.ref[Any], Made]] = {}
_loose: dict[int, Made] = {}
"""Threads that threading does not know, by their identity."""


def install() -> None:
    """Note the makers of threads and works from now on."""
    if hasattr(threading, "_limbo"):
        threading._limbo = _Limbo(threading._limbo)
    at_import("concurrent.futures.thread", _watch_pools)


class _Limbo(dict[Any, Any]):
    """Where threading keeps a thread while it is started: no frame of ours is in the program's tracebacks so."""

    def __setitem__(self, thread: Any, value: Any) -> None:
        dict.__setitem__(self, thread, value)
        frame = sys._getframe(1)
        if frame.f_back is None or not is_of(frame.f_back, POOL, "ThreadPoolExecutor._adjust_thread_count"):
            note(thread, frame)


def _watch_pools() -> None:
    item: Any = sys.modules["concurrent.futures.thread"]._WorkItem
    original = item.__init__

    def init(self: Any, future: Any, *rest: Any) -> None:
        original(self, future, *rest)
        note(future, sys._getframe(1))

    item.__init__ = init


def forget() -> None:
    """Number all anew."""
    _known.clear()
    _loose.clear()


def note(thing: object, frame: FrameType) -> None:
    """That it is made here. Nothing of ours may fail in the program."""
    try:
        at: FrameType | None = frame
        while at is not None and at.f_code.co_filename.startswith(MAKERS):
            at = at.f_back
        code, lasti = (at.f_code, at.f_lasti) if at is not None else (None, -1)
        keep(thing, Made(births.number(), maker(frame), code, lasti, time.monotonic()))
    except Exception:
        return


def keep(thing: object, made: Made) -> Made:
    """Remember it for as long as the thing lives."""
    key = id(thing)
    _known[key] = (weakref.ref(thing, lambda _: _known.pop(key, None)), made)
    return made


def noted(thing: object) -> Made | None:
    """What is known of a thread or of a work's future, if it has come by."""
    found = _known.get(id(thing))
    return found[1] if found is not None and found[0]() is thing else None


def of(thing: object) -> Made:
    """The same, with a number for one that did not."""
    return noted(thing) or keep(thing, Made(births.number()))


def of_thread(ident: int) -> Made:
    """A thread's, also of one that threading does not know."""
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    if thread is threading.main_thread():
        return noted(thread) or keep(thread, Made(births.number(), None))
    return of(thread) if thread is not None else _loose.setdefault(ident, Made(births.number()))


def maker(frame: FrameType | None) -> int | None:
    """The number of the task, work or thread that runs here; None for the main thread."""
    if (task := current()) is not None:
        return birth(task).id
    while frame is not None:
        if (work := work_in(frame)) is not None:
            return of(work).id
        frame = frame.f_back
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    return None if thread is threading.main_thread() else of_thread(threading.get_ident()).id


def is_of(frame: FrameType, place: str, name: str) -> bool:
    """Whether a frame is a library's function."""
    return frame.f_code.co_qualname == name and frame.f_code.co_filename.startswith(place)


def work_in(frame: FrameType) -> Any:
    """The future of the work that begins in this frame of a pool's thread; None where none does."""
    if is_of(frame, POOL, "_WorkItem.run"):
        return getattr(frame.f_locals.get("self"), "future", None)
    return frame.f_locals.get("future") if is_anyio(frame) else None


def is_anyio(frame: FrameType) -> bool:
    """Whether a thread of anyio's takes up its works here."""
    return frame.f_code.co_qualname == "WorkerThread.run" and "anyio" in frame.f_code.co_filename


def function_of(frame: FrameType) -> Any:
    """The function that `work_in` a frame is about."""
    return frame.f_locals.get("func") if is_anyio(frame) else given(frame.f_locals.get("self"))


def given(item: Any) -> Any:
    """What a pool was given to do: from 3.14 on with its arguments."""
    function = getattr(item, "fn", None)
    task = getattr(item, "task", None)
    return task[0] if function is None and isinstance(task, tuple) else function


def word_of(function: Any) -> str:
    """What the program calls a function: `to_thread` and others wrap it."""
    while isinstance(function, functools.partial):
        inside = isinstance(getattr(function.func, "__self__", None), Context) and function.args
        function = function.args[0] if inside else function.func
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]
