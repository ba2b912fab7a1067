"""Finds loops that sleep although a callback is ready, and loops whose thread is blocked by one callback.

Both are read from the frame of asyncio's own loop, `BaseEventLoop._run_once`: its variables say how long it meant to
sleep, and when the round of callbacks began.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import base_events
from types import FrameType
from typing import Any

from .births import ASYNCIO, Task, birth, is_library
from .call_search import find_thread_calls
from .schedule import stepped_task
from .tracer import frame_and_callers
from .wait_descriptions import find_awaited_object, find_variable_name
from .waits import frame_site, innermost_frame, task_frames

BLOCKED_FOR = 0.5
"""Seconds after which a loop counts as blocked by the callback that it runs."""


def find_round_frame(loop: Any, stack: list[FrameType]) -> tuple[FrameType, list[FrameType]] | None:
    """Return (the frame of `_run_once`, in which a loop of asyncio runs its callbacks; the frames inside it, innermost
    first). None if the loop does not run in this stack.
    """
    for depth, frame in enumerate(stack):
        code = frame.f_code
        if code.co_name == "_run_once" and code.co_filename.startswith(ASYNCIO) and frame.f_locals.get("self") is loop:
            return frame, stack[:depth]
    return None


def _is_selecting(inside: list[FrameType]) -> bool:
    """Return whether a loop waits for files and timers. `inside`: the frames inside its round, innermost first."""
    return bool(inside) and inside[-1].f_code.co_name == "select" and "selectors" in inside[-1].f_code.co_filename


def find_lost_wakeups(loops: list[Any], stacks: dict[int, list[FrameType]]) -> list[dict[str, Any]]:
    """Return a row for each loop that sleeps although a callback is ready, as another thread added the callback without
    waking the loop.

    A row has: `key` (the loop and its callbacks, to compare two looks), `seconds` (until a timer wakes the loop; None
    if none does), `ready` (rows of the callbacks).
    """
    if any(_is_adding_callback(frame) for stack in stacks.values() for frame in stack):
        return []  # it is about to wake the loop
    found = []
    for loop in loops:
        if not isinstance(loop, base_events.BaseEventLoop) or not getattr(loop, "_ready", None):
            continue
        round_ = find_round_frame(loop, stacks.get(getattr(loop, "_thread_id", 0), []))
        if round_ is None or not _is_selecting(round_[1]):
            continue
        seconds = round_[0].f_locals.get("timeout", 0)
        handles = [handle for handle in list(loop._ready) if not handle.cancelled()]  # type: ignore[attr-defined]
        if handles and (seconds is None or seconds > BLOCKED_FOR):
            rows = [_describe_ready_handle(handle) for handle in handles[:4]]
            found.append({"key": [id(loop), *map(id, handles)], "seconds": seconds, "ready": rows})
    return found


def _is_adding_callback(frame: FrameType) -> bool:
    """Return whether a frame is that of `call_soon_threadsafe`."""
    return frame.f_code.co_name == "call_soon_threadsafe" and frame.f_code.co_filename.startswith(ASYNCIO)


def _describe_ready_handle(handle: Any) -> dict[str, Any]:
    """Return a row for a ready callback, which is a step of a task or a plain function.

    A row has: `task` and `at` (number and line of the task; None for a plain function), `what` (what the task waited
    for, or the function's name) and `calls` (the program's calls that can have made the callback ready).
    """
    task = stepped_task(handle)
    if task is None:
        callback = handle._callback
        name = getattr(callback, "__qualname__", type(callback).__name__)
        return {"task": None, "at": None, "what": str(name), "calls": find_thread_calls("callback", "")}
    frames = task_frames(task)
    if getattr(task, "_fut_waiter", None) is None:
        calls = find_thread_calls("new", "")
        return {"task": birth(task).id, "at": frame_site(innermost_frame(frames)), "what": "", "calls": calls}
    thing, function = find_awaited_object(frames) or (task._fut_waiter, "")  # type: ignore[attr-defined]
    name = find_variable_name(thing, frames)
    return {
        "task": birth(task).id, "at": frame_site(innermost_frame(frames)),
        "what": f"{type(thing).__name__} {name}".rstrip(), "calls": find_thread_calls(function, name),
    }  # fmt: skip


def find_blocked_loops(loops: list[Any], stacks: dict[int, list[FrameType]], asleep: set[int]) -> list[dict[str, Any]]:
    """Return a row for each loop whose thread has been in one callback for BLOCKED_FOR seconds or longer.

    A row has: `seconds`, `task` (its number; None for a plain callback), `at` (the program's innermost line), `source`
    (that line's text), `library` (the function of a library that it has called), `sleeps` (whether the thread waits
    there, and does not compute), `overdue` (timers whose time has come) and `ready` (callbacks that wait).
    """
    found = []
    for loop in loops:
        ident = getattr(loop, "_thread_id", None)
        if ident is None or not loop.is_running():
            continue
        round_ = find_round_frame(loop, stacks.get(ident, []))
        if round_ is None or _is_selecting(round_[1]):
            continue
        began = round_[0].f_locals.get("end_time")
        seconds = loop.time() - began if began is not None else 0.0
        if seconds < BLOCKED_FOR:
            continue
        found.append(_describe_blocked_loop(loop, round_[1], seconds) | {"sleeps": ident in asleep})
    return found


def _describe_blocked_loop(loop: Any, callback_frames: list[FrameType], seconds: float) -> dict[str, Any]:
    """Return the row of a blocked loop. `callback_frames`: the frames of the callback that it runs, innermost first;
    `seconds`: for how long it has run.
    """
    task: Task | None = asyncio.current_task(loop)
    own, library = find_own_frame_and_library_call(callback_frames)
    timers = [handle for handle in list(loop._scheduled) if not handle.cancelled()]
    return {
        "seconds": seconds, "task": birth(task).id if task is not None else None, "at": frame_site(own),
        "library": library,
        "overdue": sum(handle.when() < loop.time() for handle in timers), "ready": len(loop._ready),
    }  # fmt: skip


def find_own_frame_and_library_call(stack: list[FrameType]) -> tuple[FrameType | None, str]:
    """Return (the program's innermost frame in a stack, the name of the library function that it has called). The frame
    is None if there is none; the name is empty if it has called none. `stack`: innermost first.
    """
    depth = next((i for i, frame in enumerate(stack) if not is_library(frame.f_code.co_filename)), len(stack))
    own = stack[depth] if depth < len(stack) else None
    return own, stack[depth - 1].f_code.co_qualname if own is not None and depth else ""


def all_stacks(own_threads: set[int]) -> dict[int, list[FrameType]]:
    """Return the frames of all threads but Weft's, innermost first, by the identity of the thread."""
    tops = sys._current_frames()
    return {ident: frame_and_callers(top) for ident, top in tops.items() if ident not in own_threads}
