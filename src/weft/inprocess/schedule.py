"""The order in which a loop lets its tasks go on: held back for one, written down, and kept to in another run.

A loop's `_run_once` is taken over while one of these is wanted, and only then: before each of its rounds the steps of
tasks that are due are looked at, and those that are not to come yet stay aside. So do the loop's readers, writers and
timers, whose doing a task finds or waits for. Other callbacks (of threads) come as ever.
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
from .schedule_file import SCHEMA, recorded

PATIENCE = 5.0
"""Seconds that a replay waits for the task whose turn it is, before it says that the run has left its record."""


GRACE = 0.5
"""Seconds that it waits for a reader or writer, which may have got in one piece what came in two."""
MARK = "!"
"""What the name of a reader, writer or timer begins with in a record, beside the pedigrees of tasks."""


def task_of(handle: Any) -> Task | None:
    """The task that a loop's handle lets make a step."""
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _late_threads() -> None:
    """Have a task always wait for what a thread does: where that was quick, 3.14 gives it at once, without a step."""
    chain = futures._chain_future  # type: ignore[attr-defined]

    def chained(source: Any, destination: Any) -> None:
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)  # it asks whether it is called by the loop's own thread
        try:
            chain(source, destination)
        finally:
            asyncio._set_running_loop(running)

    futures._chain_future = chained  # type: ignore[attr-defined]


class Turns:
    """The turns of one loop's tasks, readers, writers and timers as recorded, and how far a replay is.

    `way`: what a record calls a handle. `comes`: whether the timer of that name is set, and so will come.
    """

    def __init__(self, ways: list[str], way: Callable[[Any], str], comes: Callable[[str], bool]) -> None:
        self.ways, self.at = ways, 0
        self.since: float | None = None
        self._way, self._comes = way, comes
        self._left = Counter(ways)

    def due(self, waiting: list[Any]) -> list[Any]:
        """Those of the handles whose turn it is, in the order of their turns."""
        found = [handle for handle in waiting if self._is_free(handle)]
        waiting[:] = [handle for handle in waiting if handle not in found]
        while self.at < len(self.ways):
            one = next((handle for handle in waiting if self._way(handle) == self.ways[self.at]), None)
            if one is None and not (self._is_late(GRACE) and self.ways[self.at].startswith(MARK)):
                break
            if one is not None:
                found.append(one)
                waiting.remove(one)
            self._left[self.ways[self.at]] -= 1
            self.at, self.since = self.at + 1, None
        if self.at >= len(self.ways):  # what comes after the record is free
            found += waiting
            waiting.clear()
        held = any(self._left[self._way(handle)] for handle in waiting)
        self.since = None if not held or found else self.since or time.monotonic()
        return found

    def _is_free(self, handle: Any) -> bool:
        """Whether it is a reader or writer that came no more; a timer that did not come has no business to come now."""
        way = self._way(handle)
        return way.startswith(MARK) and not isinstance(handle, asyncio.TimerHandle) and not self._left[way]

    def _is_late(self, seconds: float) -> bool:
        """Whether others have waited so long for the one whose turn it is, and it may never come."""
        if self.since is None or self.at >= len(self.ways) or time.monotonic() - self.since < seconds:
            return False
        return not self._comes(self.ways[self.at])

    @property
    def is_overdue(self) -> bool:
        """Whether the one whose turn it is has to be given up."""
        return self._is_late(GRACE) and (self.ways[self.at].startswith(MARK) or self.is_lost)

    @property
    def is_lost(self) -> bool:
        """Whether the run has left its record."""
        return self._is_late(PATIENCE)


class Schedule:
    """All loops of the process. `left`: is told where a replay can go on no further."""

    def __init__(self, left: Callable[[str], None]) -> None:
        self._left = left
        self.held: set[int] = set()
        self._aside: dict[Any, list[Any]] = {}
        self._file: TextIO | None = None
        self._turns: dict[int, Turns] | None = None
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
        """Let a task make no step, or again."""
        (self.held.add if on else self.held.discard)(task)

    def record(self, path: str) -> None:
        """Write down which task makes each step, and which reader, writer or timer comes in between."""
        self._file = Path(path).open("w")  # noqa: SIM115 - for as long as the process lives
        self._file.write(json.dumps({"schema": SCHEMA}) + "\n")
        _late_threads()
        run, taken = events.Handle._run, self._step

        def noted(handle: Any) -> Any:
            taken(handle)
            return run(handle)

        events.Handle._run = noted  # type: ignore[method-assign, assignment]

    def replay(self, path: str) -> None:
        """Let the tasks make their steps in the order that was recorded. ValueError for a file of another kind."""
        self._turns = {loop: Turns(of, self._way, self._comes) for loop, of in recorded(path).items()}
        _late_threads()
        run = events.Handle._run

        def in_turn(handle: Any) -> Any:
            return run(handle) if self._has_turn(handle) else None

        events.Handle._run = in_turn  # type: ignore[method-assign, assignment]

    def attend(self, loop: Any) -> None:
        """Take a loop over, from its next round on."""
        if loop in self._known or not isinstance(loop, base_events.BaseEventLoop):
            return
        self._known.add(loop)
        of: Any = loop
        rounds, call_at = of._run_once, of.call_at

        def run_once() -> None:
            self._before(loop)
            rounds()

        def called_at(when: float, callback: Any, *args: Any, context: Any = None) -> Any:
            handle = call_at(when, callback, *args, context=context)
            self._timers[self._mark(loop, handle, callback)] = handle
            return handle

        of._run_once, of.call_at = run_once, called_at
        for name in ("_add_reader", "_add_writer"):
            if hasattr(of, name):
                setattr(of, name, self._marking(loop, getattr(of, name)))

    def _marking(self, loop: Any, add: Callable[..., Any]) -> Callable[..., Any]:
        """The loop's own function that adds a reader or writer, each of which gets a name."""

        def added(fd: Any, callback: Any, *args: Any) -> Any:
            handle = add(fd, callback, *args)
            if handle is not None and getattr(callback, "__name__", "") != "_read_from_self":  # of threads and signals
                self._mark(loop, handle, callback)
            return handle

        return added

    def _mark(self, loop: Any, handle: Any, callback: Any) -> str:
        """Name a reader, writer or timer: by its function, and the how-manieth with that it is."""
        kind = f"{MARK}{self._number(loop)}.{getattr(callback, '__qualname__', type(callback).__name__)}"
        self._made[kind] += 1
        self._marks[handle] = name = f"{kind}.{self._made[kind]}".replace(" ", "")
        return name

    def _comes(self, name: str) -> bool:
        timer = self._timers.get(name)
        return timer is not None and not timer.cancelled()

    # Before each round, and when a handle's own time has come

    def _number(self, loop: Any) -> int:
        return self._loops.setdefault(loop, len(self._loops))

    def _way(self, handle: Any) -> str:
        """How a handle is called in a record: by its task's pedigree, or its name; empty for others."""
        task = task_of(handle)
        if task is None:
            return self._marks.get(handle, "")
        number = birth(task).id
        if number not in self._ways:
            self._ways[number] = pedigree(task)
        return self._ways[number]

    def _step(self, handle: Any) -> None:
        if self._file is not None and not handle.cancelled() and (way := self._way(handle)):
            self._file.write(f"{self._number(handle._loop)} {way}\n")

    def _before(self, loop: Any) -> None:
        if self._file is not None:
            self._file.flush()
        self._seen = {handle for handle in self._seen if handle._loop is not loop}
        aside: list[Any] = self._aside.pop(loop, [])
        ready = loop._ready
        given = list(ready)
        handles = [*aside, *given]
        steps = [handle for handle in handles if not handle.cancelled() and (task_of(handle) or handle in self._marks)]
        turns = self._turns.get(self._number(loop)) if self._turns is not None else None
        kept = [handle for handle in steps if self._is_held(handle)]
        wanted = [handle for handle in steps if handle not in kept]
        if turns is not None:
            free = self._turn(turns, wanted)
            self._granted.update(handle for handle in free if task_of(handle) is None)
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
        task = task_of(handle)
        return task is not None and birth(task).id in self.held

    def _has_turn(self, handle: Any) -> bool:
        """Whether a reader, writer or timer is to run now: it stays aside until its turn."""
        turns = self._turns.get(self._number(handle._loop)) if self._turns is not None else None
        if turns is None or handle not in self._marks:
            return True
        if handle in self._seen:  # the loop has found it once more before it ran: it will again, if there is more
            return False
        if handle in self._granted:
            self._granted.discard(handle)
            self._seen.add(handle)
            return True
        waiting = [handle]
        if self._turn(turns, waiting):
            return True
        aside = self._aside.setdefault(handle._loop, [])
        aside += [one for one in waiting if one not in aside]
        return False

    def _turn(self, turns: Turns, wanted: list[Any]) -> list[Any]:
        free = turns.due(wanted)
        if wanted and turns.is_lost:
            expected, at = turns.ways[turns.at], turns.at
            self._turns = None
            free += wanted
            wanted.clear()
            self._left(f"the run has left its record: step {at + 1} was of the task {expected}, which does not come")
        return free

    # What the agent's look asks

    @property
    def withholds(self) -> bool:
        """Whether a replay keeps tasks waiting for their turn: what stands still may only be its doing."""
        return any(turns.since is not None for turns in list((self._turns or {}).values()))

    def overdue(self) -> list[Any]:
        """The loops that wait too long for the one whose turn it is."""
        return [loop for loop, number in list(self._loops.items())
                if self._turns is not None and (turns := self._turns.get(number)) is not None
                and turns.is_overdue]  # fmt: skip

    def waits_for_release(self) -> list[int]:
        """The tasks that could make a step if they were not held."""
        steps = [task_of(handle) for aside in list(self._aside.values()) for handle in aside]
        return sorted({birth(task).id for task in steps if task is not None} & self.held)
