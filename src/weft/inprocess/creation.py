"""Numbers threads and the works given to thread pools, and records who created each, where and when.

A work is a function that was given to a pool. `Thread.start` and a pool's `submit` are hooked; of what was created
before that, only the number is known.
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
from .__main__ import call_at_import
from .births import ASYNCIO, birth, current_task

POOL_FOLDER = str(Path(concurrent.futures.__file__).parent)
CREATOR_FILES = (ASYNCIO, POOL_FOLDER, threading.__file__)
"""Through whose files a program makes threads and works."""


class Creation(NamedTuple):
    """Number of a thread or work, the number of its creator, the creating instruction, and the time.

    `parent`: 0 if not known, None for the main thread outside of tasks. `since`: by time.monotonic().
    """

    id: int
    parent: int | None = 0
    code: CodeType | None = None
    lasti: int = -1
    since: float | None = None


_known: dict[int, tuple[weakref.ref[Any], Creation]] = {}
_unknown_threads: dict[int, Creation] = {}
"""Threads that threading does not know, by their identity."""


def install_creation_hooks() -> None:
    """From now on, record who creates each thread, and who gives each function to a thread pool."""
    if hasattr(threading, "_limbo"):
        threading._limbo = _StartingThreads(threading._limbo)
    call_at_import("concurrent.futures.thread", _hook_pool_submissions)


class _StartingThreads(dict[Any, Any]):
    """Dictionary in which threading keeps a thread while it starts; puts no frame of Weft into the program's
    tracebacks.
    """

    def __setitem__(self, thread: Any, value: Any) -> None:
        dict.__setitem__(self, thread, value)
        frame = sys._getframe(1)
        if frame.f_back is None or not is_library_function(
            frame.f_back, POOL_FOLDER, "ThreadPoolExecutor._adjust_thread_count"
        ):
            record_creation(thread, frame)


def _hook_pool_submissions() -> None:
    """From now on, record who gives a function to a ThreadPoolExecutor, and where."""
    item: Any = sys.modules["concurrent.futures.thread"]._WorkItem
    original = item.__init__

    def init(self: Any, future: Any, *rest: Any) -> None:
        original(self, future, *rest)
        record_creation(future, sys._getframe(1))

    item.__init__ = init


def clear_creations() -> None:
    """Forget all numbers, so that threads and works are numbered anew."""
    _known.clear()
    _unknown_threads.clear()


def record_creation(thing: object, frame: FrameType) -> None:
    """Record that the code at `frame` creates `thing`, a thread, or the future of a function that is given to a thread
    pool. Never raises in the program.
    """
    try:
        at: FrameType | None = frame
        while at is not None and at.f_code.co_filename.startswith(CREATOR_FILES):
            at = at.f_back
        code, lasti = (at.f_code, at.f_lasti) if at is not None else (None, -1)
        remember_creation(thing, Creation(births.next_number(), find_creator(frame), code, lasti, time.monotonic()))
    except Exception:
        return


def remember_creation(thing: object, creation: Creation) -> Creation:
    """Store the creation of an object for as long as the object lives, and return it."""
    key = id(thing)
    _known[key] = (weakref.ref(thing, lambda _: _known.pop(key, None)), creation)
    return creation


def find_creation(thing: object) -> Creation | None:
    """Return what was recorded of the creation of a thread or a work's future; None if nothing was."""
    found = _known.get(id(thing))
    return found[1] if found is not None and found[0]() is thing else None


def creation_or_number(thing: object) -> Creation:
    """Return the creation of a thread or a work's future; one that was not recorded gets a number now."""
    return find_creation(thing) or remember_creation(thing, Creation(births.next_number()))


def thread_creation(thread_identity: int) -> Creation:
    """Return the creation (number, creator, instruction, time) of the thread with an identity. A thread that threading
    does not know gets a number at the first call.
    """
    thread = threading._active.get(thread_identity)  # type: ignore[attr-defined]
    if thread is threading.main_thread():
        return find_creation(thread) or remember_creation(thread, Creation(births.next_number(), None))
    return (
        creation_or_number(thread)
        if thread is not None
        else _unknown_threads.setdefault(thread_identity, Creation(births.next_number()))
    )


def find_creator(frame: FrameType | None) -> int | None:
    """Return the number of whatever executes `frame` in the calling thread: an asyncio task, the work of a pool's
    thread, or the thread itself. None for the main thread.
    """
    if (task := current_task()) is not None:
        return birth(task).id
    while frame is not None:
        if (work := find_work_future(frame)) is not None:
            return creation_or_number(work).id
        frame = frame.f_back
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    return None if thread is threading.main_thread() else thread_creation(threading.get_ident()).id


def is_library_function(frame: FrameType, file_prefix: str, function_name: str) -> bool:
    """Return whether a frame executes the function with a qualified name, in a file of a library. `file_prefix`: the
    beginning of the file's path.
    """
    return frame.f_code.co_qualname == function_name and frame.f_code.co_filename.startswith(file_prefix)


def find_work_future(frame: FrameType) -> Any:
    """Return the future of the work (a function given to a thread pool) that a pool's thread begins in this frame. None
    if it begins none.
    """
    if is_library_function(frame, POOL_FOLDER, "_WorkItem.run"):
        return getattr(frame.f_locals.get("self"), "future", None)
    return frame.f_locals.get("future") if is_anyio_worker(frame) else None


def is_anyio_worker(frame: FrameType) -> bool:
    """Return whether this is the frame in which a thread of anyio takes its works."""
    return frame.f_code.co_qualname == "WorkerThread.run" and "anyio" in frame.f_code.co_filename


def work_function(frame: FrameType) -> Any:
    """Return the function that the work which begins in this frame executes."""
    return frame.f_locals.get("func") if is_anyio_worker(frame) else submitted_function(frame.f_locals.get("self"))


def submitted_function(item: Any) -> Any:
    """Return the function that a work item of a thread pool is to call. From Python 3.14 on, the item stores it
    together with its arguments.
    """
    function = getattr(item, "fn", None)
    task = getattr(item, "task", None)
    return task[0] if function is None and isinstance(task, tuple) else function


def display_name(function: Any) -> str:
    """Return the name of a function as the program calls it. `functools.partial` and the wrapper of `to_thread` are
    looked through.
    """
    while isinstance(function, functools.partial):
        inside = isinstance(getattr(function.func, "__self__", None), Context) and function.args
        function = function.args[0] if inside else function.func
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]
