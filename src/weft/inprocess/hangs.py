"""Says when nothing can happen any more in a program, and who could have let its tasks go on.

Whatever is not understood counts as something that may still happen: another thread, an open socket, a signal handler,
a loop that is not asyncio's own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import base_events
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .births import ASYNCIO, Task, birth
from .blocked_threads import LOCKS
from .context_managers import entered
from .creation import noted
from .threads import Threads
from .wait_descriptions import attributes, called, of_thread, thing_of
from .waits import innermost, links, site, work_behind


def quiet(loops: list[Any], tasks: list[Task], threads: Threads) -> bool:
    """Whether nothing can happen any more: no timer, no I/O, no signal handler, no thread that goes on."""
    running = [loop for loop in loops if loop.is_running()]
    if any(not _silent(loop) and threads.held_up(getattr(loop, "_thread_id", 0)) is None for loop in running):
        return False
    if _handles_signals():
        return False
    if not threads.all_wait() or _native_threads():
        return False
    return all(source is None or noted(source) for source in _sources(tasks))  # others are of no thread of ours


def _sources(tasks: list[Task]) -> list[Any]:
    return [of_thread(getattr(task, "_fut_waiter", None)) for task in tasks]


def _silent(loop: Any) -> bool:
    """Whether nothing can wake a loop up from outside, as far as it knows itself."""
    if not isinstance(loop, base_events.BaseEventLoop) or getattr(loop, "_signal_handlers", True):
        return False
    selector: Any = getattr(loop, "_selector", None)
    wakes = getattr(getattr(loop, "_ssock", None), "fileno", int)()
    return selector is not None and all(fd == wakes for fd in selector.get_map())


def _handles_signals() -> bool:
    """Whether the program has a handler for a signal; that of Ctrl-C is Python's own, or asyncio's."""
    numbers = signal.valid_signals() - {signal.SIGINT}
    return any(callable(signal.getsignal(number)) for number in numbers)


def _native_threads() -> bool:
    """Whether there are threads that Python does not know: they may call back."""
    try:
        return len(os.listdir("/proc/self/task")) > len(sys._current_frames())
    except OSError:
        return True


def told(tasks: list[Task], threads: Threads) -> list[dict[str, Any]]:
    """Each thing that is waited for: who waits where, who is inside it, and who else has it."""
    rows: dict[int, list[tuple[Any, FrameType]]] = {birth(task).id: links(task) for task in tasks}
    rows |= {entry.made.id: [(None, frame) for frame in entry.stack[::-1]] for entry in threads.entries if entry.stack}
    found: dict[int, dict[str, Any]] = {}
    for number, thing, what, frames in [*_waiting(tasks, rows), *threads.waiting()]:
        one = found.setdefault(id(thing), {"thing": thing, "kind": "", "what": "", "waits": [], "at": []})
        one["kind"] = type(thing).__name__
        one["what"] = one["what"] or what
        one["waits"].append(number)
        one["at"].append(site(innermost(frames)))
    for one in found.values():
        thing = one.pop("thing")
        holder = threads.holder(thing, 0) if isinstance(thing, LOCKS) else None
        one["inside"] = [number for number, line in rows.items() if number == holder or _is_inside(thing, line)]
        one["has"] = [number for number, line in rows.items()
                      if number not in one["waits"] and any(_has(frame, thing) for _, frame in line)]  # fmt: skip
        one["owner"] = _owner(thing)
        lines = ([frame for _, frame in rows[number]] for number in one["has"])
        one["what"] = one["what"] or next(filter(None, (called(thing, frames) for frames in lines)), "")
    return list(found.values())


def _waiting(
    tasks: list[Task], rows: dict[int, list[tuple[Any, FrameType]]]
) -> Iterator[tuple[int, object, str, list[FrameType]]]:
    """The tasks that wait for a thing, what it is called, and their frames, outermost first."""
    for task in tasks:
        waiter, number = getattr(task, "_fut_waiter", None), birth(task).id
        if waiter is None or isinstance(waiter, asyncio.Task) or work_behind(waiter) is not None:
            continue
        frames = [frame for _, frame in rows[number]]
        thing, _ = thing_of(frames) or (waiter, "")
        yield number, thing, called(thing, frames), frames


def _is_inside(thing: object, line: list[tuple[Any, FrameType]]) -> bool:
    return any(
        manager is thing or any(value is thing for _, value in attributes(manager))
        for coroutine, frame in line
        if coroutine is not None and not frame.f_code.co_filename.startswith(ASYNCIO)
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
