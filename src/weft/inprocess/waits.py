"""What a suspended asyncio task waits for, read from asyncio's own objects when somebody asks: the model's `wait`.

Whatever is not understood counts as something that can end by itself, so that no deadlock is claimed without proof.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any

from .births import ASYNCIO, ENDS, Task, birth, is_library, line_of
from .creation import noted, of
from .wait_descriptions import called, held_by, of_thread, what_of

_BY_FUNCTION = {
    "Event.wait": "event", "Condition.wait": "condition", "Condition.wait_for": "condition",
    "Semaphore.acquire": "semaphore", "Queue.get": "queue", "Queue.put": "queue", "Queue.join": "queue",
    "Barrier.wait": "barrier", "sleep": "sleep", "to_thread": "thread", "StreamReader.read": "stream",
    "BaseEventLoop.sock_recv": "socket",
}  # fmt: skip


def chain(task: Task) -> list[FrameType]:
    """A suspended task's frames, outermost first, through coroutines and generators of both kinds."""
    return [frame for _, frame in links(task)]


def links(task: Task) -> list[tuple[Any, FrameType]]:
    """The same, each with the coroutine or generator that it is of."""
    found: list[tuple[Any, FrameType]] = []
    at: Any = task.get_coro()
    while at is not None:
        if isinstance(at, CoroutineType):
            frame, onward = at.cr_frame, at.cr_await
        elif isinstance(at, GeneratorType):
            frame, onward = at.gi_frame, at.gi_yieldfrom
        elif isinstance(at, AsyncGeneratorType):
            frame, onward = at.ag_frame, at.ag_await
        else:
            frame, onward = None, behind(at)
        if frame is not None:
            if found and found[-1][1] is frame:
                break
            found.append((at, frame))
        at = onward
    return found


WRAPPERS = {"async_generator_asend", "async_generator_athrow", "coroutine_wrapper", "anext_awaitable"}


def behind(thing: Any) -> Any:
    """What an awaitable wraps that does not say so: `async for`, `anext`, or __await__ of a class."""
    if type(thing).__name__ not in WRAPPERS:
        ENDS.add(type(thing))
        return None
    kinds = (AsyncGeneratorType, CoroutineType, GeneratorType)
    found = (x for x in gc.get_referents(thing) if isinstance(x, kinds) or type(x).__name__ == "async_generator_asend")
    return next(found, None)


class Timers:
    """What the loops' timers will end by themselves."""

    def __init__(self, loops: list[Any]) -> None:
        self.futures: dict[int, float] = {}
        self.tasks: dict[int, float] = {}
        for loop in loops:
            for handle in [*getattr(loop, "_scheduled", ()), *getattr(loop, "_ready", ())]:
                if handle._cancelled:
                    continue
                left = handle.when() - loop.time() if isinstance(handle, asyncio.TimerHandle) else 0.0
                owner = getattr(handle._callback, "__self__", None)
                if isinstance(owner, asyncio.Timeout):
                    self.tasks[id(owner._task)] = left  # type: ignore[attr-defined]
                    continue
                for one in (*(handle._args or ()), *([owner] if owner is not None else [])):
                    self.futures[id(one)] = left

    def end(self, task: Task) -> bool:
        """Whether one ends a task's wait."""
        return self.left(task) is not None

    def left(self, task: Task) -> float | None:
        """The seconds until one does; None where none does."""
        return self.futures.get(id(getattr(task, "_fut_waiter", None)), self.tasks.get(id(task)))


def wait_of(
    task: Task, frames: list[FrameType], timers: Callable[[], Timers], *, closely: bool = False
) -> dict[str, object] | None:
    """The wait of a suspended task; None for one that is about to run. `closely`: what exactly it waits for, too."""
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None or waiter.done():
        return None
    kind, targets, one, what = _found(waiter, frames)
    free = not targets or timers().end(task)
    if closely:
        targets = targets or _within(frames)
        what = what or ("" if targets else what_of(waiter, frames, timers().left(task)))
        what = what or _since(targets, kind)
    tasks = sorted(of(t).id if is_work(t) else birth(t).id for t in targets if is_work(t) or not t.done())
    if any(t.done() for t in targets) and one:
        free = True
    at = innermost(frames)
    return {"kind": kind, "tasks": tasks, "one": one, "free": free or not tasks, "what": what, "site": site(at)}


def is_work(target: Any) -> bool:
    """Whether a wait is for a thread's work, which its future stands for."""
    return not isinstance(target, asyncio.Task)


def work_behind(waiter: Any) -> Any:
    """The future of the thread's work that a loop's future is completed by; None where it is no such one."""
    source = of_thread(waiter)
    source = waiter if source is None else source
    return source if source is not None and noted(source) is not None else None


def _since(targets: list[Any], kind: str) -> str:
    """How long a task waits for one work, or how long ago the work was given to its pool."""
    since = noted(targets[0]).since if len(targets) == 1 and is_work(targets[0]) else None  # type: ignore[union-attr]
    if since is None:
        return ""
    seconds = f"{time.monotonic() - since:.1f} s"
    return f"for {seconds}" if kind == "thread" else f"given {seconds} ago"


def _within(frames: list[FrameType]) -> list[Task]:
    """The task that `wait_for` with a time limit made of what it was given (3.11)."""
    inner: Any = frames[-1].f_locals.get("fut") if frames and frames[-1].f_code.co_qualname == "wait_for" else None
    return [inner] if isinstance(inner, asyncio.Task) and not inner.done() else []


def innermost(frames: list[FrameType]) -> FrameType | None:
    """The program's own innermost frame, else the innermost."""
    own = [frame for frame in frames if not is_library(frame.f_code.co_filename)]
    return (own or frames or [None])[-1]  # type: ignore[list-item]


def site(frame: FrameType | None) -> list[Any] | None:
    """File, line, function."""
    return None if frame is None else [frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_qualname]


def site_of(code: CodeType | None, lasti: int) -> list[Any] | None:
    """The same of a code object's instruction."""
    return None if code is None else [code.co_filename, line_of(code, lasti), code.co_qualname]


Found = tuple[str, list[Task], bool, str]


def _found(waiter: object, frames: list[FrameType]) -> Found:
    """Kind, tasks, whether one of them is enough, and what it is called."""
    if (of_frame := _of_frames(frames)) is not None:
        return of_frame
    if (work := work_behind(waiter)) is not None:
        plain = as_plain([frame.f_code for frame in frames])
        return "thread" if plain == "thread" else "executor", [work], False, ""
    direct = _tasks_behind(waiter, 0)
    if hasattr(waiter, "_children"):
        return "gather", direct, False, ""
    if isinstance(waiter, asyncio.Task):
        return "await", direct, False, ""
    if direct or next(_shielded(waiter), None) is not None:  # also where the inner one has ended a moment ago
        return "shield", direct, False, ""
    return as_plain([frame.f_code for frame in frames]), [], False, ""


def _library_end(codes: list[CodeType]) -> Iterator[str]:
    """What of asyncio's own a line of calls ends with, innermost first."""
    for code in reversed(codes):
        if not code.co_filename.startswith(ASYNCIO):
            return
        yield code.co_qualname


def as_plain(codes: list[CodeType]) -> str:
    """What the wait for a future is called, by the functions it is awaited in."""
    return next((_BY_FUNCTION[name] for name in _library_end(codes) if name in _BY_FUNCTION), "future")


def variables_of(codes: list[CodeType]) -> tuple[str, int] | None:
    """The function whose variables `_of_frames` looks at first, and which of a line of calls it is."""
    for at, name in enumerate(_library_end(codes), 1):
        if name in _WITH_VARIABLES:
            return name, len(codes) - at
    return None


def frame_at(task: Task, depth: int) -> FrameType:
    """One of `chain(task)`, the quick way where coroutines alone stand in it."""
    at: Any = task.get_coro()
    for _ in range(depth):
        at = at.cr_await if type(at) is CoroutineType else None
    frame = at.cr_frame if type(at) is CoroutineType else None
    return chain(task)[depth] if frame is None else frame


_WITH_VARIABLES = {"Lock.acquire", "_wait", "wait_for", "TaskGroup.__aexit__", "TaskGroup._aexit"}


def _of_frames(frames: list[FrameType]) -> Found | None:
    """What a library frame at the inner end waits for, by its own variables."""
    for frame in reversed(frames):
        code = frame.f_code
        if not code.co_filename.startswith(ASYNCIO):
            return None
        if code.co_qualname == "Lock.acquire":
            lock = frame.f_locals.get("self")
            owner = getattr(lock, "_weft_owner", None)
            return "lock", [owner] if owner is not None else [], False, called(lock, frames)
        if code.co_qualname == "_wait":
            futures = list(frame.f_locals.get("fs") or ())
            one = frame.f_locals.get("return_when") != asyncio.ALL_COMPLETED
            behind = [_tasks_behind(f, 0) for f in futures if not f.done()]
            if frame.f_locals.get("timeout_handle") is not None or (one and not all(behind)):
                return "wait", [], one, ""
            return "wait", [t for tasks in behind for t in tasks], one, ""
        if code.co_qualname == "wait_for" and frame.f_locals.get("timeout") is not None:
            return "wait_for", [], False, ""
        if code.co_qualname in ("TaskGroup.__aexit__", "TaskGroup._aexit"):
            group = frame.f_locals.get("self")
            return "group", [t for t in list(getattr(group, "_tasks", ())) if not t.done()], False, ""
    return None


def _tasks_behind(future: Any, depth: int) -> list[Task]:
    """The tasks whose end completes a future: itself, gather's children, what a shield covers."""
    if isinstance(future, asyncio.Task):
        return [future]
    if depth > 8 or future.done():
        return []
    if (work := work_behind(future)) is not None:
        return [work]
    children = getattr(future, "_children", None) or list(_shielded(future))
    return [task for child in children if not child.done() for task in _tasks_behind(child, depth + 1)]


def _shielded(outer: object) -> Iterator[object]:
    """asyncio.shield(): the outer future's callback knows the inner one."""
    for callback, _ in getattr(outer, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == "_outer_done_callback":
            inner = held_by(callback, "inner")
            if isinstance(inner, asyncio.Future):
                yield inner


def shields(callbacks: list[Any]) -> bool:
    """Whether one of a future's callbacks is asyncio.shield()'s."""
    return any(getattr(callback, "__name__", "") == "_outer_done_callback" for callback, _ in callbacks)


def joiner(task: Task, others: list[Task]) -> Task | None:
    """The task that waits for this one, right now."""
    for other in others:
        waiter = getattr(other, "_fut_waiter", None)
        if other is not task and waiter is not None:
            if waiter is task:
                return other
            _, targets, _, _ = _found_with(other, waiter, task)
            if task in targets:
                return other
    return None


def _found_with(other: Task, waiter: object, ended: Task) -> Found:
    """As `_found`, where the task that has just ended still counts."""
    frames = chain(other)
    children = list(getattr(waiter, "_children", ())) or list(_shielded(waiter))
    if ended in children:
        return "gather", [ended], False, ""
    for frame in reversed(frames):
        code = frame.f_code
        if not code.co_filename.startswith(ASYNCIO):
            break
        if code.co_qualname in ("_wait", "wait_for") and (
            ended in (frame.f_locals.get("fs") or ()) or frame.f_locals.get("fut") is ended
        ):
            return "wait", [ended], False, ""
        if code.co_qualname in ("TaskGroup.__aexit__", "TaskGroup._aexit"):
            born, made = birth(ended), birth(other)
            if born.parent == made.id or ended in getattr(frame.f_locals.get("self"), "_tasks", ()):
                return "group", [ended], False, ""
    return "", [], False, ""
