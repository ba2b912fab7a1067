"""Decides whether nothing can happen in a program any more, and finds who could let its tasks continue.

Whatever is not understood counts as something that may still happen: another thread, an open socket, a signal handler,
a loop that is not asyncio's own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from asyncio import base_events
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from .births import ASYNCIO, Task, birth, is_library
from .blocked_threads import LOCK_TYPES
from .call_search import MOST_CALLS, find_releasing_calls
from .context_managers import find_entered_managers
from .creation import find_creation
from .resource_holders import find_completing_threads, find_pool_holders
from .task_deaths import Death
from .threads import ObjectWait, ThreadSnapshot
from .wait_descriptions import (
    describe_awaited_function,
    describe_stalled_io,
    describe_state,
    find_awaited_object,
    find_executor_future,
    find_variable_name,
    own_attributes,
    reachable_objects,
)
from .waits import coroutines_with_frames, find_target_tasks, frame_site, innermost_frame

MOST_SEARCHED = 200
"""Tasks up to which their variables are searched for parts of a pool."""


def is_stuck(loops: list[Any], tasks: list[Task], threads: ThreadSnapshot) -> bool:
    """Return whether nothing can happen in the program any more: no timer, I/O or signal handler can wake a loop, and
    no thread runs.
    """
    running = [loop for loop in loops if loop.is_running()]
    if any(
        not _has_no_io(loop) and threads.find_untimed_wait(getattr(loop, "_thread_id", 0)) is None for loop in running
    ):
        return False
    if _has_signal_handlers():
        return False
    if not threads.is_every_thread_waiting() or _has_native_threads():
        return False
    return all(
        source is None or find_creation(source) for source in _executor_futures(tasks)
    )  # others are of no thread of ours


def _executor_futures(tasks: list[Task]) -> list[Any]:
    """Return, for each task, the future of an executor that it waits for; None if it waits for none."""
    return [find_executor_future(getattr(task, "_fut_waiter", None)) for task in tasks]


def _has_no_io(loop: Any) -> bool:
    """Return whether a loop watches no file and no signal, so that nothing from outside can wake it."""
    if not isinstance(loop, base_events.BaseEventLoop) or getattr(loop, "_signal_handlers", True):
        return False
    selector: Any = getattr(loop, "_selector", None)
    wakes = getattr(getattr(loop, "_ssock", None), "fileno", int)()
    return selector is not None and all(fd == wakes for fd in selector.get_map())


def _has_signal_handlers() -> bool:
    """Return whether the program has a signal handler; that of SIGINT, which Python or asyncio sets, does not count."""
    numbers = signal.valid_signals() - {signal.SIGINT}
    return any(callable(signal.getsignal(number)) for number in numbers)


def _has_native_threads() -> bool:
    """Return whether there are threads that Python does not know. They may call back into the program at any time."""
    try:
        return len(os.listdir("/proc/self/task")) > len(sys._current_frames())
    except OSError:
        return True


def describe_awaited_objects(
    tasks: list[Task], threads: ThreadSnapshot, deaths: Iterable[Death]
) -> list[dict[str, Any]]:
    """Return a row for each object (lock, queue, future …) that tasks or threads wait for. Tasks, and works of thread
    pools, are no such objects.

    A row has: `kind`, `what` and `state` (type, name and state of the object), `waits` and `at` (numbers and lines of
    those that wait), `inside` (who has entered it by `with`), `has` (who can reach it through variables), `owner` (who
    took it, for a lock), `thread` (for a future: the number of the thread that will complete it, and whether it works
    on it now), `pool` (as `_describe_exhausted_pool` returns it), `deaths` (who had it, and died of what: label,
    exception, line), `calls` (the program's calls that release it, if no task is in a function with one; None if that
    is not known), `stalled` (as `describe_stalled_io` returns it).
    """
    find_releasing_calls.cache_clear()  # the program may have imported more
    by_number = sorted(tasks, key=lambda task: birth(task).id)
    rows: Rows = {birth(task).id: coroutines_with_frames(task) for task in by_number}
    rows |= {
        entry.creation.id: [(None, frame) for frame in entry.stack[::-1]] for entry in threads.entries if entry.stack
    }
    found = _group_by_object([*_find_waiting_tasks(tasks, rows), *threads.find_object_waits()])
    futures = {id(one["thing"]): one for one in found if asyncio.isfuture(one["thing"])}
    completing = find_completing_threads([one["thing"] for one in futures.values()], threads.stacks)
    for key, (ident, is_at_work) in completing.items():
        futures[key]["thread"] = [threads.find_executed_number(ident), is_at_work]
    holders, known = _Holders(rows, {id(one["thing"]) for one in found}), list(deaths)
    for one in found:
        thing = one["thing"]
        holder = threads.find_lock_holder(thing, 0) if isinstance(thing, LOCK_TYPES) else None
        one["inside"] = sorted({*holders.inside.get(id(thing), ()), *([holder] if holder is not None else [])})
        if isinstance(thing, asyncio.Condition):
            one["inside"] = []  # who waits for one has entered it, and left it meanwhile
        one["has"] = [number for number in holders.has.get(id(thing), ()) if number not in one["waits"]]
        one["owner"] = _describe_lock_owner(thing)
        one["deaths"] = [[death.label, death.words, death.at] for death in known if id(thing) in death.reached]
        _add_releases(one, holders)
        one["pool"] = _describe_exhausted_pool(one["frames"], set(one["waits"]), rows)
        lines = ([frame for _, frame in rows[number]] for number in one["has"])
        one["what"] = one["what"] or next(filter(None, (find_variable_name(thing, frames) for frames in lines)), "")
        for name in ("thing", "function", "frames"):
            del one[name]
    return found


Rows = dict[int, list[tuple[Any, FrameType]]]
"""The coroutines and frames of tasks and threads, from the outermost in, by their numbers."""


def _group_by_object(waits: list[ObjectWait]) -> list[dict[str, Any]]:
    """Return a row for each awaited object, with the numbers and lines of the tasks and threads that wait for it. An
    object that is awaited in several functions of asyncio has a row for each of them.
    """
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for number, thing, what, function, frames in waits:
        if (id(thing), function) not in found:
            state = describe_state(thing, function)
            found[id(thing), function] = {
                "thing": thing, "kind": type(thing).__name__, "what": "", "waits": [], "at": [], "thread": None,
                "function": function, "frames": frames,
                "state": state or ("" if function or what else describe_awaited_function(frames)),
                "stalled": "" if function else describe_stalled_io(frames),
            }  # fmt: skip
        one = found[id(thing), function]
        one["what"] = one["what"] or what
        one["waits"].append(number)
        one["at"].append(frame_site(innermost_frame(frames)))
    return list(found.values())


class _Holders:
    """Which tasks and threads have entered some objects or can reach them, found by one walk over all frames.

    `has`, `inside`: numbers by the object's id(); `callers`: numbers by file and function.
    """

    def __init__(self, rows: Rows, wanted: set[int]) -> None:
        self.has: dict[int, list[int]] = {}
        self.inside: dict[int, list[int]] = {}
        self.callers: dict[tuple[str, str], list[int]] = {}
        for number, line in rows.items():
            for coroutine, frame in line:
                code = frame.f_code
                self._append_once(self.callers, (code.co_filename, code.co_name), number)
                for value in reachable_objects(frame):
                    if id(value) in wanted:
                        self._append_once(self.has, id(value), number)
                if coroutine is not None and not code.co_filename.startswith(ASYNCIO):
                    for manager in find_entered_managers(coroutine):
                        for value in (manager, *(value for _, value in own_attributes(manager))):
                            if id(value) in wanted:
                                self._append_once(self.inside, id(value), number)

    @staticmethod
    def _append_once(numbers: dict[Any, list[int]], key: object, number: int) -> None:
        """Append a number to the list `numbers[key]`, unless it is the last one there already."""
        known = numbers.setdefault(key, [])
        if known[-1:] != [number]:
            known.append(number)


def _add_releases(row: dict[str, Any], holders: _Holders) -> None:
    """Add `calls` to the row of an awaited object: the program's calls that can release it.

    `calls` is None if the row shows who has the object, if a task is in a function with such a call, or if several
    threads run. For a lock or semaphore without an owner by `with`, the tasks in such functions are stored as `inside`.
    """
    is_known = row["inside"] or row["owner"] or row["deaths"]
    calls = None if is_known else find_releasing_calls(row["function"], row["what"])
    living = {number for call in calls or () for number in holders.callers.get((call.file, call.function), ())}
    is_idle = calls is not None and not living and threading.active_count() == 1
    row["calls"] = [call.row() for call in (calls or ())[:MOST_CALLS]] if is_idle else None
    if row["function"] in ("Semaphore.acquire", "Lock.acquire") and not row["inside"]:
        row["inside"] = sorted(living)  # they have to come to a `release`


def _find_waiting_tasks(tasks: list[Task], rows: dict[int, list[tuple[Any, FrameType]]]) -> Iterator[ObjectWait]:
    """Yield a wait for each task that waits for an object. A task that waits for other tasks, or for works of a thread
    pool, is left out: the table of tasks shows these waits. `rows`: the coroutines and frames of each task, by number.
    """
    for task in tasks:
        waiter, number = getattr(task, "_fut_waiter", None), birth(task).id
        if waiter is None or waiter.done():
            continue
        frames = [frame for _, frame in rows[number]]
        thing, function = find_awaited_object(frames) or (waiter, "")
        if not function and (find_target_tasks(waiter, frames) or hasattr(waiter, "_children")):
            continue  # the table tells of it; what those wait for is a row
        yield ObjectWait(number, thing, find_variable_name(thing, frames), function, frames)


def _describe_exhausted_pool(
    frames: list[FrameType], waits: set[int], rows: dict[int, list[tuple[Any, FrameType]]]
) -> dict[str, Any] | None:
    """Return a row for the library's object, such as a pool of connections, that a task waits for: `kind` (its type),
    `function` (that the program called) and `holders` ([number, line, variable, type of the part] for each task that
    holds a part of it). None if there is no such object, or no task holds a part.

    `frames`: of the waiting task, outermost first; `waits`: the numbers of all that wait; `rows`: the frames of all
    tasks and threads, by number.
    """
    if len(rows) > MOST_SEARCHED:
        return None
    others = {number: [frame for _, frame in line] for number, line in rows.items() if number not in waits}
    if (found := find_pool_holders(frames, others)) is None:
        return None
    owner, holders = found
    own = max((i for i, frame in enumerate(frames) if not is_library(frame.f_code.co_filename)), default=-1)
    return {
        "kind": type(owner).__name__, "function": frames[own + 1].f_code.co_qualname,
        "holders": [[number, frame_site(frame), name, type(part).__name__]
                    for number, (frame, name, part) in holders.items()],
    }  # fmt: skip


def _describe_lock_owner(lock: object) -> list[Any] | None:
    """Return [number, name, whether done] of the task that took an asyncio lock; None if none did."""
    owner = getattr(lock, "_weft_owner", None)
    return [birth(owner).id, owner.get_name(), owner.done()] if owner is not None else None
