"""Threads, and the works that pools of threads were given, as rows of the table: of another kind than tasks.

All is read when somebody asks; who made each is noted by creation.py. A pool's thread is no row: its work is.
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
from .blocked_threads import SYNC, Block, blocked, held_up, owner_of
from .context_managers import entered
from .creation import POOL, Made, function_of, is_anyio, is_of, word_of, work_in
from .source_lines import inside_of
from .tracer import backs
from .wait_descriptions import held_by, of_thread
from .waits import innermost, links, site, site_of


class Entry(NamedTuple):
    """A thread, or a work (`thing`: its future). `stack`: its frames, innermost first; `queue`: where it lies still."""

    made: Made
    kind: str
    name: str
    state: str
    thing: Any
    stack: list[FrameType]
    ident: int = 0
    queue: Any = None


class Threads:
    """All of them now. `asleep`: the threads that have not run for a while; `own`: Weft's."""

    def __init__(self, own: set[int], loops: list[Any], tasks: list[Task], asleep: set[int]) -> None:
        self._tasks, self._asleep = tasks, asleep
        tops = sys._current_frames()
        self.stacks = {ident: backs(top) for ident, top in tops.items() if ident not in own}
        self._loops = {loop._thread_id: loop for loop in loops if getattr(loop, "_thread_id", None) in self.stacks}
        self._foreign = any(loop.is_running() and not hasattr(loop, "_thread_id") for loop in loops)
        found = {ident: asyncio.current_task(loop) for ident, loop in self._loops.items() if loop.is_running()}
        self.current = {ident: task for ident, task in found.items() if task is not None}
        self.entries = [entry for ident in self.stacks if (entry := self._running(ident)) is not None]
        self.entries += self._queued()
        self._by_thing = {id(entry.thing): entry for entry in self.entries if entry.thing is not None}
        self.entries += self._done()
        self._by_thing |= {id(entry.thing): entry for entry in self.entries if entry.state == "done"}
        self._by_ident = {entry.ident: entry for entry in self.entries if entry.ident}
        self._adopt()

    # What there is

    def _running(self, ident: int) -> Entry | None:
        """What a thread does; None for an idle one of a pool, and for the main thread while it runs a loop."""
        stack = own_part(self.stacks[ident])
        for depth, frame in enumerate(stack):
            if (future := work_in(frame)) is not None:
                name, part = word_of(function_of(frame)), self._outside(ident, stack[:depth])
                return Entry(creation.of(future), "work", name, "running", future, part, ident)
            if _is_pools(frame) and all(map(_of_pool, stack[:depth])):
                return None
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        if thread is threading.main_thread() and not self._main_is_told(ident):
            return None
        name = thread.name if thread is not None else "not of threading"
        return Entry(creation.of_thread(ident), "thread", name, "running", thread, self._outside(ident, stack), ident)

    def _outside(self, ident: int, stack: list[FrameType]) -> list[FrameType]:
        """A thread's frames outside of the loop that it runs: those inside are of tasks."""
        if not self._runs_loop(ident):
            return stack
        last = max((i for i, f in enumerate(stack) if f.f_code.co_filename.startswith(ASYNCIO)), default=-1)
        return stack[last + 1 :]

    def _runs_loop(self, ident: int) -> bool:
        """Whether a thread is at a loop, and not in a callback that waits."""
        return self._at_loop(ident) and (ident in self.current or self.held_up(ident) is None)

    def _at_loop(self, ident: int) -> bool:
        loop = self._loops.get(ident)
        return loop is not None and loop.is_running()

    def _main_is_told(self, ident: int) -> bool:
        """Whether the main thread is a row: where it runs no loop and is not alone, or stands in a callback of one."""
        if ident in self.current:
            return False
        alone = self._at_loop(ident) or self._foreign or len(self.stacks) == 1
        return not alone or self.held_up(ident) is not None

    def _queued(self) -> Iterator[Entry]:
        """What pools have not begun: Python's collector of cycles knows what is in their queues."""
        module: Any = sys.modules.get("concurrent.futures.thread")
        if module is None:
            return
        for queue in {id(one): one for one in list(module._threads_queues.values())}.values():
            inside = gc.get_referents(queue)
            for item in [*inside, *(one for held in inside if isinstance(held, list) for one in held)]:
                if isinstance(item, module._WorkItem) and not item.future.done():
                    name = word_of(creation.given(item))
                    yield Entry(creation.of(item.future), "work", name, "queued", item.future, [], queue=queue)

    def _done(self) -> list[Entry]:
        """Works that are through, while a task that waits for them has not heard of it."""
        found = {}
        for task in self._tasks:
            source = of_thread(getattr(task, "_fut_waiter", None))
            known = creation.noted(source) if source is not None and id(source) not in self._by_thing else None
            if known is not None and source.done():
                found[known.id] = Entry(known, "work", "", "done", source, [])
        return list(found.values())

    def _adopt(self) -> None:
        """anyio's works are made by the task that waits for them."""
        for i, entry in enumerate(self.entries):
            if entry.kind != "work" or not asyncio.isfuture(entry.thing) or entry.made.parent != 0:
                continue
            for task in self._tasks:
                if getattr(task, "_fut_waiter", None) is entry.thing:
                    at = innermost([frame for _, frame in links(task)])
                    spot = (at.f_code, at.f_lasti) if at is not None else (None, -1)
                    known = creation.keep(entry.thing, Made(entry.made.id, birth(task).id, *spot))
                    self.entries[i] = self._by_thing[id(entry.thing)] = self._by_ident[entry.ident] = entry._replace(
                        made=known
                    )

    # Who waits for whom

    def held_up(self, ident: int) -> Block | None:
        """What a thread waits for, and for as long as it takes: it has not run for a while."""
        return held_up(ident, self.stacks.get(ident, []), self._asleep)

    def all_wait(self) -> bool:
        """Whether no thread goes on: each waits and sleeps, has no work, or runs a loop."""
        told = {entry.ident: entry for entry in self.entries}
        for ident, stack in self.stacks.items():
            idle = ident not in told and any(_is_pools(frame) for frame in stack)
            if not idle and not self._at_loop(ident) and self.held_up(ident) is None:
                return False
        others = [entry for entry in self.entries if entry.state != "running"]
        return not any(entry.state == "done" or self._pool(entry.queue)["free"] for entry in others)

    def waiting(self) -> Iterator[tuple[int, object, str, list[FrameType]]]:
        """Who is held up by what is in no other row, what it is called, and the frames, outermost first."""
        for ident in self.stacks:
            block, number = self.held_up(ident), self.on(ident)
            if block is not None and number is not None and not any(map(self._number, block.others)):
                yield number, block.thing, block.what, self.stacks[ident][::-1]

    def above(self) -> dict[int, int]:
        """The task or thread that has to go on first where a loop's thread waits, by the loop's id()."""
        found = {}
        for ident, loop in self._loops.items():
            if loop.is_running() and self.held_up(ident) is not None and (number := self.on(ident)) is not None:
                found[id(loop)] = number
        return found

    def on(self, ident: int) -> int | None:
        """The task, work or thread that a thread is at."""
        if ident in self.current:
            return birth(self.current[ident]).id
        entry = self._by_ident.get(ident)
        return entry.made.id if entry is not None else None

    def task_wait(self, task: Task) -> dict[str, object] | None:
        """What a task that runs waits for with its whole thread."""
        ident = next((ident for ident, one in self.current.items() if one is task), 0)
        return self._wait(ident, self.stacks[ident]) if ident else None

    def _wait_of(self, entry: Entry) -> dict[str, object] | None:
        """What a thread or a work that runs waits for: its loop, or as its innermost frames say."""
        if self._runs_loop(entry.ident):
            at = site(innermost(entry.stack[::-1]))
            return {"kind": "loop", "tasks": [], "one": False, "free": True, "what": "", "site": at}
        return self._wait(entry.ident, entry.stack)

    def _wait(self, ident: int, stack: list[FrameType]) -> dict[str, object] | None:
        """What a thread waits for, as waits.wait_of gives it."""
        block = blocked(stack)
        if block is None:
            return None
        numbers = [self._number(thing) for thing in block.others]
        if block.kind == "lock":
            numbers = [self.holder(block.thing, ident)]
        known = sorted({number for number in numbers if number is not None})
        free = block.timed or ident not in self._asleep or not known or (block.one and None in numbers)
        return {"kind": block.kind, "tasks": known, "one": block.one, "free": free, "what": block.what,
                "site": site(innermost(stack[::-1]))}  # fmt: skip

    def _number(self, thing: Any) -> int | None:
        """Of a thread, a pool's work, or the task that a future of run_coroutine_threadsafe() is for."""
        if isinstance(thing, threading.Thread):
            return self.on(thing.ident or 0)
        if (entry := self._by_thing.get(id(thing))) is not None:
            return entry.made.id
        for task in self._tasks:
            if any(held_by(callback, "destination") is thing for callback in _callbacks(task, "_call_set_state")):
                return birth(task).id
        return self._not_begun(thing)

    def _not_begun(self, future: object) -> int | None:
        """Where the task of run_coroutine_threadsafe() is not made yet: what its loop is held up by."""
        for ident, loop in self._loops.items():
            for handle in list(getattr(loop, "_ready", ())):
                if held_by(handle._callback, "future") is future:
                    return self.on(ident) if self.held_up(ident) is not None else None
        return None

    def holder(self, lock: object, asks: int) -> int | None:
        """Who has a lock: an RLock knows its thread; else who is inside of it, by `with`."""
        if (ident := owner_of(lock)) is not None:
            return self.on(ident) if ident != asks else None
        for task in self._tasks:
            if any(one is lock for link, _ in links(task) for one in entered(link)):
                return birth(task).id
        for ident in self.stacks:
            if any(one is lock for frame in self.stacks[ident] for one in inside_of(frame)):
                return self.on(ident)
        return None

    def _pool(self, queue: object) -> dict[str, object]:
        """What a work that has not begun waits for, where all threads of its pool are at work: one of these."""
        module: Any = sys.modules["concurrent.futures.thread"]
        idents = [thread.ident for thread, of in list(module._threads_queues.items()) if of is queue]
        workers = [self._by_ident.get(ident) for ident in idents if ident in self.stacks]
        busy = sorted(entry.made.id for entry in workers if entry is not None and entry.kind == "work")
        most = max((_room(frame) for ident in idents for frame in self.stacks.get(ident, ())), default=0)
        free = len(busy) < max(len(idents), most)
        return {"kind": "pool", "tasks": busy, "one": True, "free": free or not busy, "what": "", "site": None}

    # What is told

    def rows(self) -> list[dict[str, Any]]:
        """The rows, for the debugger."""
        return [self._row(entry) for entry in self.entries]

    def _row(self, entry: Entry) -> dict[str, Any]:
        known, wait = entry.made, None
        if entry.state == "running":
            wait = self._wait_of(entry)
        elif entry.state == "queued":
            wait = self._pool(entry.queue)
        thread = threading._active.get(entry.ident)  # type: ignore[attr-defined]
        main = creation.noted(threading.main_thread())
        first = main.id if main is not None and known.parent is None and known.id != main.id else None
        return {
            "id": known.id, "parent": known.parent or first, "kind": entry.kind, "state": entry.state,
            "name": NAMES.get(known.id, entry.name), "created": site_of(known.code, known.lasti),
            "at": site(innermost(entry.stack[::-1])), "wait": wait, "worker": getattr(thread, "native_id", None),
        }  # fmt: skip


def own_part(stack: list[FrameType]) -> list[FrameType]:
    """A thread's frames without those that threading itself begins with."""
    ends = len(stack)
    while ends and is_of(stack[ends - 1], threading.__file__, stack[ends - 1].f_code.co_qualname):
        ends -= 1
    return stack[: ends or len(stack)]


def _is_pools(frame: FrameType) -> bool:
    """Whether a thread of a pool takes up its works here."""
    return is_anyio(frame) or is_of(frame, POOL, "_worker")


def _of_pool(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SYNC)


def _room(frame: FrameType) -> int:
    """How many threads a pool may have, where this is a frame of one of them."""
    if not is_of(frame, POOL, "_worker"):
        return 0
    pool = frame.f_locals["executor_reference"]()
    return int(getattr(pool, "_max_workers", 0))


def _callbacks(future: object, name: str) -> Iterator[Any]:
    """The callbacks of a future that are called so."""
    for callback, *_ in getattr(future, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == name:
            yield callback
