"""Reads threads, and the works given to thread pools, as rows of the table beside the tasks.

Everything is read on request; creation.py records who created each. A pool's thread has no row, as its work has one.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from . import creation
from .births import ASYNCIO, NAMES, Task, birth
from .blocked_threads import SYNC_FILES, ThreadWait, find_thread_wait, find_untimed_wait, rlock_owner
from .context_managers import find_entered_managers
from .creation import (
    POOL_FOLDER,
    Creation,
    display_name,
    find_work_future,
    is_anyio_worker,
    is_library_function,
    work_function,
)
from .source_lines import find_with_objects
from .tracer import frame_and_callers
from .wait_descriptions import find_executor_future, read_closure_variable
from .waits import coroutines_with_frames, frame_site, innermost_frame, instruction_site


class ThreadEntry(NamedTuple):
    """A thread, or a work of a pool (`thing`: its future).

    `stack`: its frames, innermost first. `queue`: the pool's queue that still holds the work, if it has not begun.
    """

    creation: Creation
    kind: str
    name: str
    state: str
    thing: Any
    stack: list[FrameType]
    ident: int = 0
    queue: Any = None


class ObjectWait(NamedTuple):
    """The wait of a task or thread, by its number, for an object.

    `name`: of the variable that has the object, for threads with its state. `function`: asyncio's function that waits,
    empty for others. `frames`: from the outside in.
    """

    number: int
    thing: object
    name: str
    function: str
    frames: list[FrameType]


class ThreadSnapshot:
    """All threads and works at one moment. `asleep`: the threads that have not run for a while;
    `own`: Weft's threads.
    """

    def __init__(self, own: set[int], loops: list[Any], tasks: list[Task], asleep: set[int]) -> None:
        self._tasks, self._asleep = tasks, asleep
        tops = sys._current_frames()
        self.stacks = {ident: frame_and_callers(top) for ident, top in tops.items() if ident not in own}
        self._loops = {loop._thread_id: loop for loop in loops if getattr(loop, "_thread_id", None) in self.stacks}
        self._foreign = any(loop.is_running() and not hasattr(loop, "_thread_id") for loop in loops)
        found = {ident: asyncio.current_task(loop) for ident, loop in self._loops.items() if loop.is_running()}
        self.current = {ident: task for ident, task in found.items() if task is not None}
        self.entries = [entry for ident in self.stacks if (entry := self._running_entry(ident)) is not None]
        self.entries += self._queued_entries()
        self._by_thing = {id(entry.thing): entry for entry in self.entries if entry.thing is not None}
        self.entries += self._finished_entries()
        self._by_thing |= {id(entry.thing): entry for entry in self.entries if entry.state == "done"}
        self._by_ident = {entry.ident: entry for entry in self.entries if entry.ident}
        self._set_anyio_parents()

    # What there is

    def _running_entry(self, ident: int) -> ThreadEntry | None:
        """Return the table's entry for a thread, or for the work (function given to a pool) that it executes. `ident`:
        the thread's identity.

        None for an idle thread of a pool, and for the main thread while it only runs a loop.
        """
        stack = strip_threading_frames(self.stacks[ident])
        for depth, frame in enumerate(stack):
            if (future := find_work_future(frame)) is not None:
                name, part = display_name(work_function(frame)), self._frames_outside_loop(ident, stack[:depth])
                return ThreadEntry(creation.creation_or_number(future), "work", name, "running", future, part, ident)
            if _is_pool_worker_loop(frame) and all(map(_is_in_sync_library, stack[:depth])):
                return None
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        if thread is threading.main_thread() and not self._is_main_thread_listed(ident):
            return None
        name = thread.name if thread is not None else "not of threading"
        return ThreadEntry(
            creation.thread_creation(ident),
            "thread",
            name,
            "running",
            thread,
            self._frames_outside_loop(ident, stack),
            ident,
        )

    def _frames_outside_loop(self, ident: int, stack: list[FrameType]) -> list[FrameType]:
        """Return the frames of a thread that belong to no task. If the thread runs a loop, these are the frames that
        the loop's callback has called. `stack`: innermost first.
        """
        if not self._runs_loop(ident):
            return stack
        last = max((i for i, f in enumerate(stack) if f.f_code.co_filename.startswith(ASYNCIO)), default=-1)
        return stack[last + 1 :]

    def _runs_loop(self, ident: int) -> bool:
        """Return whether a thread runs an event loop and is not blocked in a callback of the loop."""
        return self._has_running_loop(ident) and (ident in self.current or self.find_untimed_wait(ident) is None)

    def _has_running_loop(self, ident: int) -> bool:
        """Return whether a thread has a loop that runs."""
        loop = self._loops.get(ident)
        return loop is not None and loop.is_running()

    def _is_main_thread_listed(self, ident: int) -> bool:
        """Return whether the main thread has a row in the table. It has one if other threads run and it has no loop, or
        if it is blocked outside of tasks.
        """
        if ident in self.current:
            return False
        alone = self._has_running_loop(ident) or self._foreign or len(self.stacks) == 1
        return not alone or self.find_untimed_wait(ident) is not None

    def _queued_entries(self) -> Iterator[ThreadEntry]:
        """Yield an entry for each work (function given to a pool) that no thread has begun. The queues of the pools are
        found through the garbage collector.
        """
        module: Any = sys.modules.get("concurrent.futures.thread")
        if module is None:
            return
        for queue in {id(one): one for one in list(module._threads_queues.values())}.values():
            inside = gc.get_referents(queue)
            for item in [*inside, *(one for held in inside if isinstance(held, list) for one in held)]:
                if isinstance(item, module._WorkItem) and not item.future.done():
                    name = display_name(creation.submitted_function(item))
                    yield ThreadEntry(
                        creation.creation_or_number(item.future), "work", name, "queued", item.future, [], queue=queue
                    )

    def _finished_entries(self) -> list[ThreadEntry]:
        """Return an entry for each work (function given to a pool) that has finished, while the task that waits for it
        has not been resumed yet.
        """
        found = {}
        for task in self._tasks:
            source = find_executor_future(getattr(task, "_fut_waiter", None))
            known = creation.find_creation(source) if source is not None and id(source) not in self._by_thing else None
            if known is not None and source.done():
                found[known.id] = ThreadEntry(known, "work", "", "done", source, [])
        return list(found.values())

    def _set_anyio_parents(self) -> None:
        """Store as the parent of each work of anyio the task that waits for it, as anyio does not show who
        created it.
        """
        for i, entry in enumerate(self.entries):
            if entry.kind != "work" or not asyncio.isfuture(entry.thing) or entry.creation.parent != 0:
                continue
            for task in self._tasks:
                if getattr(task, "_fut_waiter", None) is entry.thing:
                    at = innermost_frame([frame for _, frame in coroutines_with_frames(task)])
                    spot = (at.f_code, at.f_lasti) if at is not None else (None, -1)
                    known = creation.remember_creation(entry.thing, Creation(entry.creation.id, birth(task).id, *spot))
                    self.entries[i] = self._by_thing[id(entry.thing)] = self._by_ident[entry.ident] = entry._replace(
                        creation=known
                    )

    # Who waits for whom

    def find_untimed_wait(self, ident: int) -> ThreadWait | None:
        """Return what a sleeping thread waits for without a time limit. None if the thread has just run, or if its wait
        may end by itself.
        """
        return find_untimed_wait(ident, self.stacks.get(ident, []), self._asleep)

    def is_every_thread_waiting(self) -> bool:
        """Return whether no thread makes progress. Each thread must wait without a time limit, be idle in a pool, or
        run a loop; and no work may be finished or about to begin.
        """
        told = {entry.ident: entry for entry in self.entries}
        for ident, stack in self.stacks.items():
            idle = ident not in told and any(_is_pool_worker_loop(frame) for frame in stack)
            if not idle and not self._has_running_loop(ident) and self.find_untimed_wait(ident) is None:
                return False
        others = [entry for entry in self.entries if entry.state != "running"]
        return not any(entry.state == "done" or self._describe_pool_wait(entry.queue)["free"] for entry in others)

    def find_object_waits(self) -> Iterator[ObjectWait]:
        """Yield the waits of threads for objects such as locks and queues, which have no row in the table."""
        for ident in self.stacks:
            block, number = self.find_untimed_wait(ident), self.find_executed_number(ident)
            if block is not None and number is not None and not any(map(self._find_number_of, block.others)):
                yield ObjectWait(number, block.thing, block.what, "", self.stacks[ident][::-1])

    def blockers_by_loop(self) -> dict[int, int]:
        """Return who blocks each loop: id() of the loop -> number of the task or thread that blocks the loop's thread.
        Loops that are not blocked are left out.
        """
        found = {}
        for ident, loop in self._loops.items():
            if (
                loop.is_running()
                and self.find_untimed_wait(ident) is not None
                and (number := self.find_executed_number(ident)) is not None
            ):
                found[id(loop)] = number
        return found

    def find_executed_number(self, ident: int) -> int | None:
        """Return the table's number of the task, work or thread that a thread executes. None if it has no number.
        `ident`: the thread's identity.
        """
        if ident in self.current:
            return birth(self.current[ident]).id
        entry = self._by_ident.get(ident)
        return entry.creation.id if entry is not None else None

    def describe_task_wait(self, task: Task) -> dict[str, object] | None:
        """Return the wait of a running task that blocks its whole thread, in the form of `waits.describe_wait`. None if
        it does not block it.
        """
        ident = next((ident for ident, one in self.current.items() if one is task), 0)
        return self._describe_thread_wait(ident, self.stacks[ident]) if ident else None

    def _describe_entry_wait(self, entry: ThreadEntry) -> dict[str, object] | None:
        """Return what a running thread or work waits for: its loop, or what its innermost frames show. None if it does
        not wait.
        """
        if self._runs_loop(entry.ident):
            at = frame_site(innermost_frame(entry.stack[::-1]))
            return {"kind": "loop", "tasks": [], "one": False, "free": True, "what": "", "site": at}
        return self._describe_thread_wait(entry.ident, entry.stack)

    def _describe_thread_wait(self, ident: int, stack: list[FrameType]) -> dict[str, object] | None:
        """Return what a thread waits for, in the form of waits.describe_wait; None if it does not wait."""
        block = find_thread_wait(stack)
        if block is None:
            return None
        numbers = [self._find_number_of(thing) for thing in block.others]
        if block.kind == "lock":
            numbers = [self.find_lock_holder(block.thing, ident)]
        known = sorted({number for number in numbers if number is not None})
        free = block.timed or ident not in self._asleep or not known or (block.one and None in numbers)
        return {"kind": block.kind, "tasks": known, "one": block.one, "free": free, "what": block.what,
                "site": frame_site(innermost_frame(stack[::-1]))}  # fmt: skip

    def _find_number_of(self, thing: Any) -> int | None:
        """Return the table's number of a thread, of a pool's work, or of the task behind a future of
        run_coroutine_threadsafe(). None for other objects.
        """
        if isinstance(thing, threading.Thread):
            return self.find_executed_number(thing.ident or 0)
        if (entry := self._by_thing.get(id(thing))) is not None:
            return entry.creation.id
        for task in self._tasks:
            if any(
                read_closure_variable(callback, "destination") is thing
                for callback in _find_callbacks_named(task, "_call_set_state")
            ):
                return birth(task).id
        return self._find_blocker_of_unborn_task(thing)

    def _find_blocker_of_unborn_task(self, future: object) -> int | None:
        """Return who keeps the task of a run_coroutine_threadsafe() future from being created: the number of the task
        or thread that blocks the loop. None if no loop is about to create the task, or the loop is not blocked.
        """
        for ident, loop in self._loops.items():
            for handle in list(getattr(loop, "_ready", ())):
                if read_closure_variable(handle._callback, "future") is future:
                    return self.find_executed_number(ident) if self.find_untimed_wait(ident) is not None else None
        return None

    def find_lock_holder(self, lock: object, asking_thread: int) -> int | None:
        """Return the number of the task or thread that holds a lock. None if that is unknown, or is the thread
        `asking_thread` itself.

        An RLock knows its thread. Any other lock is held by whoever has entered it by `with`.
        """
        if (ident := rlock_owner(lock)) is not None:
            return self.find_executed_number(ident) if ident != asking_thread else None
        for task in self._tasks:
            if any(one is lock for link, _ in coroutines_with_frames(task) for one in find_entered_managers(link)):
                return birth(task).id
        for ident in self.stacks:
            if any(one is lock for frame in self.stacks[ident] for one in find_with_objects(frame)):
                return self.find_executed_number(ident)
        return None

    def _describe_pool_wait(self, queue: object) -> dict[str, object]:
        """Return the wait of a work that no thread has begun: it waits until one of the works that occupy all threads
        of its pool ends. `queue`: the pool's queue that contains the work.
        """
        module: Any = sys.modules["concurrent.futures.thread"]
        idents = [thread.ident for thread, of in list(module._threads_queues.items()) if of is queue]
        workers = [self._by_ident.get(ident) for ident in idents if ident in self.stacks]
        busy = sorted(entry.creation.id for entry in workers if entry is not None and entry.kind == "work")
        most = max((_pool_capacity(frame) for ident in idents for frame in self.stacks.get(ident, ())), default=0)
        free = len(busy) < max(len(idents), most)
        return {"kind": "pool", "tasks": busy, "one": True, "free": free or not busy, "what": "", "site": None}

    # What is reported

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all threads and works, as dictionaries for the debugger."""
        return [self._entry_as_row(entry) for entry in self.entries]

    def _entry_as_row(self, entry: ThreadEntry) -> dict[str, Any]:
        """Return the table's row for a thread, or for the work of a pool, as a dictionary for the debugger."""
        known, wait = entry.creation, None
        if entry.state == "running":
            wait = self._describe_entry_wait(entry)
        elif entry.state == "queued":
            wait = self._describe_pool_wait(entry.queue)
        thread = threading._active.get(entry.ident)  # type: ignore[attr-defined]
        main = creation.find_creation(threading.main_thread())
        first = main.id if main is not None and known.parent is None and known.id != main.id else None
        return {
            "id": known.id, "parent": known.parent or first, "kind": entry.kind, "state": entry.state,
            "name": NAMES.get(known.id, entry.name), "created": instruction_site(known.code, known.lasti),
            "at": frame_site(innermost_frame(entry.stack[::-1])), "wait": wait,
            "worker": getattr(thread, "native_id", None),
        }  # fmt: skip


def strip_threading_frames(stack: list[FrameType]) -> list[FrameType]:
    """Return a thread's frames without its outermost ones, in which the module threading starts the thread."""
    ends = len(stack)
    while ends and is_library_function(stack[ends - 1], threading.__file__, stack[ends - 1].f_code.co_qualname):
        ends -= 1
    return stack[: ends or len(stack)]


def _is_pool_worker_loop(frame: FrameType) -> bool:
    """Return whether this is the frame in which a thread of a pool takes the works that it executes."""
    return is_anyio_worker(frame) or is_library_function(frame, POOL_FOLDER, "_worker")


def _is_in_sync_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SYNC_FILES)


def _pool_capacity(frame: FrameType) -> int:
    """Return how many threads a pool may have. `frame`: the frame in which a thread of the pool takes works; 0 for
    other frames.
    """
    if not is_library_function(frame, POOL_FOLDER, "_worker"):
        return 0
    pool = frame.f_locals["executor_reference"]()
    return int(getattr(pool, "_max_workers", 0))


def _find_callbacks_named(future: object, function_name: str) -> Iterator[Any]:
    """Yield the callbacks registered on a future, but only functions with the name (`__name__`) `function_name`."""
    for callback, *_ in getattr(future, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == function_name:
            yield callback
