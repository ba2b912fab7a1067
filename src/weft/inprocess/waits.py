"""Reads what a suspended asyncio task waits for from asyncio's own objects, on request.

Whatever is not understood counts as something that can end by itself, so that no deadlock is claimed without proof.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any

from .births import ASYNCIO, INNERMOST_TYPES, Task, birth, is_library, source_line
from .creation import creation_or_number, find_creation
from .wait_descriptions import (
    describe_future_wait,
    find_executor_future,
    find_variable_name,
    find_wait_function,
    read_closure_variable,
)

_KIND_BY_FUNCTION = {
    "Event.wait": "event", "Condition.wait": "condition", "Condition.wait_for": "condition",
    "Semaphore.acquire": "semaphore", "Queue.get": "queue", "Queue.put": "queue", "Queue.join": "queue",
    "Barrier.wait": "barrier", "sleep": "sleep", "to_thread": "thread", "StreamReader.read": "stream",
    "BaseEventLoop.sock_recv": "socket",
}  # fmt: skip


def task_frames(task: Task) -> list[FrameType]:
    """Return a suspended task's frames, outermost first, through coroutines and generators of both kinds."""
    return [frame for _, frame in coroutines_with_frames(task)]


def coroutines_with_frames(task: Task) -> list[tuple[Any, FrameType]]:
    """Return (coroutine or generator, its frame) for each that a suspended task consists of, outermost first."""
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
            frame, onward = None, unwrap_awaitable(at)
        if frame is not None:
            if found and found[-1][1] is frame:
                break
            found.append((at, frame))
        at = onward
    return found


WRAPPER_TYPES = {"async_generator_asend", "async_generator_athrow", "coroutine_wrapper", "anext_awaitable"}


def unwrap_awaitable(awaitable: Any) -> Any:
    """Return the coroutine or generator inside an awaitable that `async for`, `anext` or `__await__` has made. None for
    other objects.
    """
    if type(awaitable).__name__ not in WRAPPER_TYPES:
        INNERMOST_TYPES.add(type(awaitable))
        return None
    kinds = (AsyncGeneratorType, CoroutineType, GeneratorType)
    found = (
        x for x in gc.get_referents(awaitable) if isinstance(x, kinds) or type(x).__name__ == "async_generator_asend"
    )
    return next(found, None)


class Timers:
    """The futures and tasks whose waits the loops' timers will end, by id(), with the seconds left."""

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

    def is_timed(self, task: Task) -> bool:
        """Return whether a timer ends a task's wait."""
        return self.seconds_left(task) is not None

    def seconds_left(self, task: Task) -> float | None:
        """Return the seconds until a timer ends a task's wait; None if none does."""
        return self.futures.get(id(getattr(task, "_fut_waiter", None)), self.tasks.get(id(task)))


def describe_wait(
    task: Task, frames: list[FrameType], timers: Callable[[], Timers], *, is_detailed: bool = False
) -> dict[str, object] | None:
    """Return the wait of a suspended task as a dictionary; None if the task is about to run.

    The dictionary has `kind`, `tasks` (the numbers that it waits for), `one` (whether one of them suffices), `free`
    (whether the wait may end by itself), `what` (what it waits for, in words) and `site`. `frames`: of the task,
    outermost first. `is_detailed`: find out `what`, which takes longer.
    """
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None or waiter.done():
        return None
    kind, targets, one, what = _classify_wait(waiter, frames)
    free = not targets or timers().is_timed(task)
    if is_detailed:
        targets = targets or _find_wait_for_task(frames)
        what = what or ("" if targets else describe_future_wait(waiter, frames, timers().seconds_left(task)))
        what = what or _describe_work_age(targets, kind)
    tasks = sorted(
        creation_or_number(t).id if is_thread_work(t) else birth(t).id
        for t in targets
        if is_thread_work(t) or not t.done()
    )
    if any(t.done() for t in targets) and one:
        free = True
    at = innermost_frame(frames)
    return {"kind": kind, "tasks": tasks, "one": one, "free": free or not tasks, "what": what, "site": frame_site(at)}


def find_target_tasks(waiter: object, frames: list[FrameType]) -> list[Any]:
    """Return the tasks and works whose end completes a wait; empty if it waits for something else."""
    return _classify_wait(waiter, frames)[1]


def is_thread_work(target: Any) -> bool:
    """Return whether the target of a wait is the future of a thread's work, and not a task."""
    return not isinstance(target, asyncio.Task)


def find_thread_work(waiter: Any) -> Any:
    """Return the pool's future of the function that will complete `waiter`, a future of the loop, from a thread. None
    if no thread does.
    """
    source = find_executor_future(waiter)
    source = waiter if source is None else source
    return source if source is not None and find_creation(source) is not None else None


def _describe_work_age(targets: list[Any], kind: str) -> str:
    """Return how long ago the function that a task waits for was given to a thread pool, such as `given 1.5 s ago`.
    Empty if the task does not wait for exactly one such function.
    """
    since = find_creation(targets[0]).since if len(targets) == 1 and is_thread_work(targets[0]) else None  # type: ignore[union-attr]
    if since is None:
        return ""
    seconds = f"{time.monotonic() - since:.1f} s"
    return f"for {seconds}" if kind == "thread" else f"given {seconds} ago"


def _find_wait_for_task(frames: list[FrameType]) -> list[Task]:
    """Return, as a list, the task that `asyncio.wait_for` made of its argument (Python 3.11). Empty for other waits.
    `frames`: outermost first.
    """
    inner: Any = frames[-1].f_locals.get("fut") if frames and frames[-1].f_code.co_qualname == "wait_for" else None
    return [inner] if isinstance(inner, asyncio.Task) and not inner.done() else []


def innermost_frame(frames: list[FrameType]) -> FrameType | None:
    """Return the innermost frame of the program's own code, or else the innermost of all; None if there is none.
    `frames`: outermost first.
    """
    own = [frame for frame in frames if not is_library(frame.f_code.co_filename)]
    return (own or frames or [None])[-1]  # type: ignore[list-item]


def frame_site(frame: FrameType | None) -> list[Any] | None:
    """Return [file, line, function] of a frame; None for None."""
    return None if frame is None else [frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_qualname]


def instruction_site(code: CodeType | None, lasti: int) -> list[Any] | None:
    """Return [file, line, function] of an instruction, or None without a code object. `lasti`: the offset of the
    instruction in `code`.
    """
    return None if code is None else [code.co_filename, source_line(code, lasti), code.co_qualname]


ClassifiedWait = tuple[str, list[Task], bool, str]


def _classify_wait(waiter: object, frames: list[FrameType]) -> ClassifiedWait:
    """Return (kind of a wait, the tasks that it waits for, whether one of them suffices, name of the awaited object).
    `waiter`: the future that the task awaits; `frames`: of the task, outermost first.
    """
    if (of_frame := _classify_by_variables(frames)) is not None:
        return of_frame
    if (work := find_thread_work(waiter)) is not None:
        plain = future_wait_kind([frame.f_code for frame in frames])
        return "thread" if plain == "thread" else "executor", [work], False, ""
    direct = _completing_tasks(waiter, 0)
    if hasattr(waiter, "_children"):
        return "gather", direct, False, ""
    if isinstance(waiter, asyncio.Task):
        return "await", direct, False, ""
    if direct or next(_shielded_futures(waiter), None) is not None:  # also where the inner one has ended a moment ago
        return "shield", direct, False, ""
    return future_wait_kind([frame.f_code for frame in frames]), [], False, ""


def _inner_asyncio_functions(codes: list[CodeType]) -> Iterator[str]:
    """Yield the names of asyncio's own functions at the inner end of a call stack, innermost first."""
    for code in reversed(codes):
        if not code.co_filename.startswith(ASYNCIO):
            return
        yield code.co_qualname


def future_wait_kind(codes: list[CodeType]) -> str:
    """Return the kind of a wait for a future, such as `sleep` or `queue`. It follows from the asyncio functions that
    await the future. `codes`: the call stack, outermost first.
    """
    found = find_wait_function(codes, _KIND_BY_FUNCTION)
    return _KIND_BY_FUNCTION[found[0]] if found is not None else "future"


def find_frame_to_inspect(codes: list[CodeType]) -> tuple[str, int] | None:
    """Return (name, depth in the call stack) of the asyncio function whose variables show what is awaited. None if
    there is none. `codes`: the call stack, outermost first.
    """
    for at, name in enumerate(_inner_asyncio_functions(codes), 1):
        if name in _FUNCTIONS_TO_INSPECT:
            return name, len(codes) - at
    return None


def frame_at(task: Task, depth: int) -> FrameType:
    """Return the frame at a depth of a task's call stack, 0 for the outermost. This is fast if only coroutines lead to
    it.
    """
    at: Any = task.get_coro()
    for _ in range(depth):
        at = at.cr_await if type(at) is CoroutineType else None
    frame = at.cr_frame if type(at) is CoroutineType else None
    return task_frames(task)[depth] if frame is None else frame


_FUNCTIONS_TO_INSPECT = {"Lock.acquire", "_wait", "wait_for", "TaskGroup.__aexit__", "TaskGroup._aexit"}


def _classify_by_variables(frames: list[FrameType]) -> ClassifiedWait | None:
    """Return the wait as `_classify_wait` does, from the variables of asyncio's innermost frames. None if they do not
    show it. `frames`: outermost first.
    """
    for frame in reversed(frames):
        code = frame.f_code
        if not code.co_filename.startswith(ASYNCIO):
            return None
        if code.co_qualname == "Lock.acquire":
            lock = frame.f_locals.get("self")
            owner = getattr(lock, "_weft_owner", None)
            return "lock", [owner] if owner is not None else [], False, find_variable_name(lock, frames)
        if code.co_qualname == "_wait":
            futures = list(frame.f_locals.get("fs") or ())
            one = frame.f_locals.get("return_when") != asyncio.ALL_COMPLETED
            behind = [_completing_tasks(f, 0) for f in futures if not f.done()]
            if frame.f_locals.get("timeout_handle") is not None or (one and not all(behind)):
                return "wait", [], one, ""
            return "wait", [t for tasks in behind for t in tasks], one, ""
        if code.co_qualname == "wait_for" and frame.f_locals.get("timeout") is not None:
            return "wait_for", [], False, ""
        if code.co_qualname in ("TaskGroup.__aexit__", "TaskGroup._aexit"):
            group = frame.f_locals.get("self")
            return "group", [t for t in list(getattr(group, "_tasks", ())) if not t.done()], False, ""
    return None


def _completing_tasks(future: Any, recursion_depth: int) -> list[Task]:
    """Return the tasks, or works in threads, that complete a future when they end. If the future is a task, it is
    returned itself; else the tasks inside a `gather` or `shield` are. Empty if it is done, or nested too deeply.
    """
    if isinstance(future, asyncio.Task):
        return [future]
    if recursion_depth > 8 or future.done():
        return []
    if (work := find_thread_work(future)) is not None:
        return [work]
    children = getattr(future, "_children", None) or list(_shielded_futures(future))
    return [task for child in children if not child.done() for task in _completing_tasks(child, recursion_depth + 1)]


def _shielded_futures(outer: object) -> Iterator[object]:
    """Yield the inner futures that asyncio.shield() protects behind `outer`, read from its callbacks."""
    for callback, _ in getattr(outer, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == "_outer_done_callback":
            inner = read_closure_variable(callback, "inner")
            if isinstance(inner, asyncio.Future):
                yield inner


def has_shield_callback(callbacks: list[Any]) -> bool:
    """Return whether asyncio.shield() has added one of a future's callbacks."""
    return any(getattr(callback, "__name__", "") == "_outer_done_callback" for callback, _ in callbacks)


def find_joining_task(task: Task, others: list[Task]) -> Task | None:
    """Return the task among `others` that waits right now for the end of `task`. None if none does."""
    for other in others:
        waiter = getattr(other, "_fut_waiter", None)
        if other is not task and waiter is not None:
            if waiter is task:
                return other
            _, targets, _, _ = _classify_wait_for_ended(other, waiter, task)
            if task in targets:
                return other
    return None


def _classify_wait_for_ended(waiting_task: Task, waiter: object, ended: Task) -> ClassifiedWait:
    """Return the wait of a task for `ended`, a task that has just ended, as `_classify_wait` does. The kind is empty if
    the task does not wait for it. `waiter`: the future that the waiting task awaits.
    """
    frames = task_frames(waiting_task)
    children = list(getattr(waiter, "_children", ())) or list(_shielded_futures(waiter))
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
            born, made = birth(ended), birth(waiting_task)
            if born.parent == made.id or ended in getattr(frame.f_locals.get("self"), "_tasks", ()):
                return "group", [ended], False, ""
    return "", [], False, ""
