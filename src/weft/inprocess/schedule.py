"""Controls the order in which loops run their tasks: holds single tasks, records the order, or replays a recorded one.

A loop's `_run_once` is replaced only while one of these is in use: before each round the steps of tasks that are ready
are examined, and those that must not run yet are set aside. The same is done with readers, writers and timers, as tasks
wait for them. Other callbacks, such as those of threads, run as always.
"""

from __future__ import annotations

import asyncio
import json
import time
import weakref
from asyncio import base_events, events, futures
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from .births import Task, birth, pedigree
from .schedule_file import SCHEMA, read_schedule

TURN_TIMEOUT = 5.0
"""Seconds that a replay waits for the task whose turn it is, before it says that the run has left its record."""


IO_TURN_TIMEOUT = 0.5
"""Seconds that it waits for a reader or writer, which may have got in one piece what came in two."""
IO_PREFIX = "!"
"""What the name of a reader, writer or timer begins with in a record, beside the pedigrees of tasks."""


def stepped_task(handle: Any) -> Task | None:
    """Return the task whose step a loop's handle runs; None for other handles."""
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _defer_thread_results() -> None:
    """Change asyncio so that a task always waits for the result of a thread. Without this, Python 3.14 hands over a
    quick result at once, and the task makes one step less.
    """
    chain = futures._chain_future  # type: ignore[attr-defined]

    def chain_outside_loop(source: Any, destination: Any) -> None:
        """Connect two futures as asyncio does, but let asyncio believe that this thread runs no loop."""
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)  # it asks whether it is called by the loop's own thread
        try:
            chain(source, destination)
        finally:
            asyncio._set_running_loop(running)

    futures._chain_future = chain_outside_loop  # type: ignore[attr-defined]


class RecordedTurns:
    """The recorded order of one loop's tasks, readers, writers and timers, and the position that a replay has reached.

    `name_handle`: returns the name of a handle in the record. `is_timer_set`: whether the timer of a name is set and so
    will run.
    """

    def __init__(
        self, names: list[str], name_handle: Callable[[Any], str], is_timer_set: Callable[[str], bool]
    ) -> None:
        self.names, self.position = names, 0
        self.waiting_since: float | None = None
        self._name_handle, self._is_timer_set = name_handle, is_timer_set
        self._left = Counter(names)

    def take_due_handles(self, waiting: list[Any]) -> list[Any]:
        """Remove the handles (callbacks of the loop) whose turn it is from `waiting`, and return them in the order of
        the record. A handle that the record does not contain is returned at once if it is of I/O; after the record's
        end all are returned.
        """
        found = [handle for handle in waiting if self._is_unrecorded_io(handle)]
        waiting[:] = [handle for handle in waiting if handle not in found]
        while self.position < len(self.names):
            one = next((handle for handle in waiting if self._name_handle(handle) == self.names[self.position]), None)
            if one is None and not (self._is_late(IO_TURN_TIMEOUT) and self.names[self.position].startswith(IO_PREFIX)):
                break
            if one is not None:
                found.append(one)
                waiting.remove(one)
            self._left[self.names[self.position]] -= 1
            self.position, self.waiting_since = self.position + 1, None
        if self.position >= len(self.names):  # what comes after the record is free
            found += waiting
            waiting.clear()
        held = any(self._left[self._name_handle(handle)] for handle in waiting)
        self.waiting_since = None if not held or found else self.waiting_since or time.monotonic()
        return found

    def _is_unrecorded_io(self, handle: Any) -> bool:
        """Return whether a handle (callback of the loop) is a reader or writer that the rest of the record does not
        contain. Such a handle may run at any time.
        """
        way = self._name_handle(handle)
        return way.startswith(IO_PREFIX) and not isinstance(handle, asyncio.TimerHandle) and not self._left[way]

    def _is_late(self, seconds: float) -> bool:
        """Return whether the next callback of the record has not come for `seconds`, while others wait for it. False if
        a timer will still run it.
        """
        if (
            self.waiting_since is None
            or self.position >= len(self.names)
            or time.monotonic() - self.waiting_since < seconds
        ):
            return False
        return not self._is_timer_set(self.names[self.position])

    @property
    def is_overdue(self) -> bool:
        """Return whether the replay has to give up the handle whose turn it is."""
        return self._is_late(IO_TURN_TIMEOUT) and (self.names[self.position].startswith(IO_PREFIX) or self.is_lost)

    @property
    def is_lost(self) -> bool:
        """Return whether the run no longer follows its record."""
        return self._is_late(TURN_TIMEOUT)


class Schedule:
    """The order of steps in all loops of the process. `on_divergence(text)`: is called if a replay cannot follow its
    record.
    """

    def __init__(self, on_divergence: Callable[[str], None]) -> None:
        self._on_divergence = on_divergence
        self.held_tasks: set[int] = set()
        self._aside: dict[Any, list[Any]] = {}
        self._file: TextIO | None = None
        self._turns: dict[int, RecordedTurns] | None = None
        self._loops: dict[Any, int] = {}
        self._ways: dict[int, str] = {}
        self._known: set[Any] = set()
        self._marks: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._timers: weakref.WeakValueDictionary[str, asyncio.TimerHandle] = weakref.WeakValueDictionary()
        self._made = Counter[str]()
        self._granted = set[Any]()
        self._seen = set[Any]()

    # What is wanted

    def hold(self, task: int, *, on: bool) -> None:
        """Hold a task by its number, so that it makes no step, or release it (`on`: False)."""
        (self.held_tasks.add if on else self.held_tasks.discard)(task)

    def record(self, path: str) -> None:
        """From now on, write into a file which task makes each step, and which reader, writer or timer runs
        in between.
        """
        self._file = Path(path).open("w")  # noqa: SIM115 - for as long as the process lives
        self._file.write(json.dumps({"schema": SCHEMA}) + "\n")
        _defer_thread_results()
        run, taken = events.Handle._run, self._record_step

        def noted(handle: Any) -> Any:
            taken(handle)
            return run(handle)

        events.Handle._run = noted  # type: ignore[method-assign, assignment]

    def replay(self, path: str) -> None:
        """From now on, let the tasks make their steps in the order that a file has recorded. ValueError if it is a file
        of another kind.
        """
        self._turns = {
            loop: RecordedTurns(of, self._handle_name, self._is_timer_set) for loop, of in read_schedule(path).items()
        }
        _defer_thread_results()
        run = events.Handle._run

        def in_turn(handle: Any) -> Any:
            return run(handle) if self._admit_or_set_aside(handle) else None

        events.Handle._run = in_turn  # type: ignore[method-assign, assignment]

    def take_over_loop(self, loop: Any) -> None:
        """Control the order of a loop's callbacks from its next round on. A loop that is not asyncio's own is left
        alone.
        """
        if loop in self._known or not isinstance(loop, base_events.BaseEventLoop):
            return
        self._known.add(loop)
        of: Any = loop
        rounds, call_at = of._run_once, of.call_at

        def run_once() -> None:
            self._order_ready_handles(loop)
            rounds()

        def called_at(when: float, callback: Any, *args: Any, context: Any = None) -> Any:
            handle = call_at(when, callback, *args, context=context)
            self._timers[self._name_io_handle(loop, handle, callback)] = handle
            return handle

        of._run_once, of.call_at = run_once, called_at
        for name in ("_add_reader", "_add_writer"):
            if hasattr(of, name):
                setattr(of, name, self._wrap_add_function(loop, getattr(of, name)))

    def _wrap_add_function(self, loop: Any, add: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that adds a reader or writer as the loop's own function `add` does, and gives its handle a
        name for the record.
        """

        def add_named(fd: Any, callback: Any, *args: Any) -> Any:
            """Add a reader or writer as the loop does, and give its handle a name for the record."""
            handle = add(fd, callback, *args)
            if handle is not None and getattr(callback, "__name__", "") != "_read_from_self":  # of threads and signals
                self._name_io_handle(loop, handle, callback)
            return handle

        return add_named

    def _name_io_handle(self, loop: Any, handle: Any, callback: Any) -> str:
        """Give a reader, writer or timer a name for the record, made of its loop, its function and a count. Return the
        name.
        """
        kind = f"{IO_PREFIX}{self._loop_number(loop)}.{getattr(callback, '__qualname__', type(callback).__name__)}"
        self._made[kind] += 1
        self._marks[handle] = name = f"{kind}.{self._made[kind]}".replace(" ", "")
        return name

    def _is_timer_set(self, name: str) -> bool:
        """Return whether the timer of a name exists and is not cancelled."""
        timer = self._timers.get(name)
        return timer is not None and not timer.cancelled()

    # Before each round, and when a handle's own time has come

    def _loop_number(self, loop: Any) -> int:
        return self._loops.setdefault(loop, len(self._loops))

    def _handle_name(self, handle: Any) -> str:
        """Return the name that a handle (callback of the loop) has in the record: the pedigree of its task, or the name
        of a reader, writer or timer. Empty for other handles.
        """
        task = stepped_task(handle)
        if task is None:
            return self._marks.get(handle, "")
        number = birth(task).id
        if number not in self._ways:
            self._ways[number] = pedigree(task)
        return self._ways[number]

    def _record_step(self, handle: Any) -> None:
        """Write the step of a handle to the record, if one is written."""
        if self._file is not None and not handle.cancelled() and (way := self._handle_name(handle)):
            self._file.write(f"{self._loop_number(handle._loop)} {way}\n")

    def _order_ready_handles(self, loop: Any) -> None:
        """Before a loop's next round, set aside the handles (callbacks) that must not run in it, and put the others
        into the recorded order.
        """
        if self._file is not None:
            self._file.flush()
        self._seen = {handle for handle in self._seen if handle._loop is not loop}
        aside: list[Any] = self._aside.pop(loop, [])
        ready = loop._ready
        given = list(ready)
        handles = [*aside, *given]
        steps = [
            handle for handle in handles if not handle.cancelled() and (stepped_task(handle) or handle in self._marks)
        ]
        turns = self._turns.get(self._loop_number(loop)) if self._turns is not None else None
        kept = [handle for handle in steps if self._is_held(handle)]
        wanted = [handle for handle in steps if handle not in kept]
        if turns is not None:
            free = self._take_turns(turns, wanted)
            self._granted.update(handle for handle in free if stepped_task(handle) is None)
            kept += wanted
        else:
            free = wanted
        if kept:
            self._aside[loop] = kept
        if steps:
            others = [handle for handle in handles if handle not in steps]
            loop._ready = deque([*others, *free] if turns is not None else [h for h in handles if h not in kept])
            loop._ready.extend(list(ready)[len(given) :])  # what threads have added meanwhile

    def _is_held(self, handle: Any) -> bool:
        """Return whether a handle is the step of a held task."""
        task = stepped_task(handle)
        return task is not None and birth(task).id in self.held_tasks

    def _admit_or_set_aside(self, handle: Any) -> bool:
        """Return whether a reader, writer or timer may run now. If it may not, it is set aside until its turn in the
        recorded order.
        """
        turns = self._turns.get(self._loop_number(handle._loop)) if self._turns is not None else None
        if turns is None or handle not in self._marks:
            return True
        if handle in self._seen:  # the loop has found it once more before it ran: it will again, if there is more
            return False
        if handle in self._granted:
            self._granted.discard(handle)
            self._seen.add(handle)
            return True
        waiting = [handle]
        if self._take_turns(turns, waiting):
            return True
        aside = self._aside.setdefault(handle._loop, [])
        aside += [one for one in waiting if one not in aside]
        return False

    def _take_turns(self, turns: RecordedTurns, handles: list[Any]) -> list[Any]:
        """Remove the handles whose turn it is from `handles`, and return them. If the run no longer follows its record,
        report that, and return all handles.
        """
        free = turns.take_due_handles(handles)
        if handles and turns.is_lost:
            expected, at = turns.names[turns.position], turns.position
            self._turns = None
            free += handles
            handles.clear()
            self._on_divergence(
                f"the run differs from its record: step {at + 1} was one of task {expected}, which makes no step now"
            )
        return free

    # What the agent's look asks

    @property
    def is_delaying_tasks(self) -> bool:
        """Return whether a replay makes tasks wait for their turn, so that an idle program may be its doing."""
        return any(turns.waiting_since is not None for turns in list((self._turns or {}).values()))

    def overdue_loops(self) -> list[Any]:
        """Return the loops in which the callback whose turn it is has not come for too long."""
        return [loop for loop, number in list(self._loops.items())
                if self._turns is not None and (turns := self._turns.get(number)) is not None
                and turns.is_overdue]  # fmt: skip

    def held_ready_tasks(self) -> list[int]:
        """Return the numbers of the held tasks that could make a step now."""
        steps = [stepped_task(handle) for aside in list(self._aside.values()) for handle in aside]
        return sorted({birth(task).id for task in steps if task is not None} & self.held_tasks)
