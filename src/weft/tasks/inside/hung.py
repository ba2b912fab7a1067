"""Says when nothing can happen any more in a program, and who could have let its tasks go on.

Whatever is not understood counts as something that may still happen: another thread, an open socket, a signal handler,
a loop that is not asyncio's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from asyncio import base_events
from collections.abc import Iterator
from types import FrameType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

from .births import ASYNCIO, Task, birth, is_library
from .naming import attributes, called, of_thread, thing_of
from .waits import innermost, links, site

_JOINS = {"Thread.join", "Thread._wait_for_tstate_lock", "_shutdown"}
"""Functions of the standard library in which a thread waits for other threads, and does nothing else."""
_EXITS = (MethodType, FunctionType, MethodDescriptorType)
"""What `__exit__` is on a coroutine's stack; from 3.14 on not bound to its object, which lies above it."""


def quiet(loops: list[Any], tasks: list[Task], own: set[int]) -> bool:
    """Whether nothing can happen any more: no timer, no I/O, no signal handler, no thread. `own`: Weft's threads."""
    running = [loop for loop in loops if loop.is_running()]
    if not running or not all(map(_silent, running)) or _threads_left(running, own):
        return False
    return not any(of_thread(getattr(task, "_fut_waiter", None)) for task in tasks)


def _silent(loop: Any) -> bool:
    """Whether nothing can wake a loop up from outside, as far as it knows itself."""
    if not isinstance(loop, base_events.BaseEventLoop) or getattr(loop, "_signal_handlers", True):
        return False
    selector: Any = getattr(loop, "_selector", None)
    wakes = getattr(getattr(loop, "_ssock", None), "fileno", int)()
    return selector is not None and all(fd == wakes for fd in selector.get_map())


def _threads_left(loops: list[Any], own: set[int]) -> bool:
    """Whether a thread that runs no loop may still do something."""
    known = {getattr(loop, "_thread_id", None) for loop in loops} | own
    frames = sys._current_frames()
    if any(not _waits_for_work(frame) for thread, frame in frames.items() if thread not in known):
        return True
    try:  # native threads may call back
        return len(os.listdir("/proc/self/task")) > len(frames)
    except OSError:
        return True


def _waits_for_work(frame: FrameType) -> bool:
    """Whether a thread stands idle in a pool, or waits for other threads without a time limit."""
    name = frame.f_code.co_qualname
    if name == "_worker":  # what it works on has frames of its own
        return is_library(frame.f_code.co_filename) and frame.f_locals.get("work_item") is None
    return name in _JOINS and is_library(frame.f_code.co_filename) and frame.f_locals.get("timeout", -1) in (None, -1)


def entered(coroutine: object, deep: int = 4) -> Iterator[object]:
    """The context managers that a suspended coroutine is inside of: their exits lie on its stack."""
    stack = gc.get_referents(coroutine)
    for held, above in zip(stack, [*stack[1:], None], strict=True):
        if type(held) in _EXITS and held.__name__ in ("__aexit__", "__exit__"):
            manager = held.__self__ if isinstance(held, MethodType) else above
            if not isinstance(held, MethodType) and not _is_of(held, manager):
                continue
            yield manager
            if isinstance(manager, contextlib._GeneratorContextManagerBase) and deep:
                yield from entered(manager.gen, deep - 1)


def _is_of(function: object, thing: object) -> bool:
    """Whether a function is one of a thing's class."""
    return any(function is one for kind in type(thing).__mro__ for one in list(vars(kind).values()))


def told(tasks: list[Task]) -> list[dict[str, Any]]:
    """Each thing that tasks wait for: who waits where, who is inside it, and who else has it."""
    rows = {birth(task).id: links(task) for task in tasks}
    found: dict[int, dict[str, Any]] = {}
    for task in tasks:
        waiter, frames = getattr(task, "_fut_waiter", None), [frame for _, frame in rows[birth(task).id]]
        if waiter is None or isinstance(waiter, asyncio.Task):
            continue
        thing, _ = thing_of(frames) or (waiter, "")
        one = found.setdefault(id(thing), {"thing": thing, "kind": "", "what": "", "waits": [], "at": []})
        one["kind"] = type(thing).__name__
        one["what"] = one["what"] or called(thing, frames)
        one["waits"].append(birth(task).id)
        one["at"].append(site(innermost(frames)))
    for one in found.values():
        thing = one.pop("thing")
        one["inside"] = [number for number, line in rows.items() if _is_inside(thing, line)]
        one["has"] = [number for number, line in rows.items()
                      if number not in one["waits"] and any(_has(frame, thing) for _, frame in line)]  # fmt: skip
        one["owner"] = _owner(thing)
        lines = ([frame for _, frame in rows[number]] for number in one["has"])
        one["what"] = one["what"] or next(filter(None, (called(thing, frames) for frames in lines)), "")
    return list(found.values())


def _is_inside(thing: object, line: list[tuple[Any, FrameType]]) -> bool:
    return any(
        manager is thing or any(value is thing for _, value in attributes(manager))
        for coroutine, frame in line
        if not frame.f_code.co_filename.startswith(ASYNCIO)
        for manager in entered(coroutine)
    )


def _has(frame: FrameType, thing: object) -> bool:
    """Whether a frame could do something with an object: a variable, or an attribute of its `self`."""
    if any(value is thing for value in list(frame.f_locals.values())):
        return True
    if any(value is thing for name, value in attributes(frame.f_locals.get("self"))):
        return True
    names = frame.f_code.co_names
    return any(frame.f_globals.get(name) is thing for name in names)


def _owner(lock: object) -> list[Any] | None:
    """The task that took a lock: its number, and whether it has come to its end."""
    owner = getattr(lock, "_weft_owner", None)
    return [birth(owner).id, owner.get_name(), owner.done()] if owner is not None else None
