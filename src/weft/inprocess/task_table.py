"""Builds the table of tasks as columns: tasks with the same call stack are examined and described once.

A hundred thousand tasks are read while a person waits. births.c reads them if it could be built; this module has the
same in Python, and handles the waits that both leave open because the variables of frames have to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from . import births
from .births import Task, birth, is_library, pedigree
from .gc_pause import gc_paused
from .waits import (
    Timers,
    describe_wait,
    find_frame_to_inspect,
    frame_at,
    frame_site,
    future_wait_kind,
    instruction_site,
    task_frames,
)

READY, NEW, RUNS, PLAIN, ASK = 0, -1, -2, -3, -4
"""What a task does (`Walk.how`): is about to run, has not begun, runs, waits for a future, or as its frames say."""
STATES = ("new", "top", "middle", "heap")
DETAIL_LIMIT = 2000
"""Tasks up to which each wait is described in full, which takes a look at the variables of its frames."""
InstructionOffset = tuple[CodeType, int]
SiteRow = list[object]


class TaskWalk(NamedTuple):
    """What was read of all tasks: one list a column, in the order of creation.

    `made` (-1: not known) and `shapes` are indices of `spots`: the instruction that created a task, and its call stack
    from the outermost frame in. `how` is READY, NEW, RUNS, PLAIN or ASK; above 0, the number of the task that it
    awaits.
    """

    tasks: list[Task]
    ids: list[int]
    parents: list[int]
    made: list[int]
    shapes: list[int]
    how: list[int]
    spots: list[tuple[InstructionOffset, ...]]


def walk_tasks(tasks: list[Task]) -> TaskWalk:
    """Return the number, parent, creation, call stack and activity of all tasks, as columns sorted by number. The C
    part reads them if it is in use.
    """
    if (fast := births.c_task_walker()) is not None:
        return TaskWalk(*fast(tasks))
    known: dict[tuple[tuple[int, int], ...], int] = {}
    spots: list[tuple[InstructionOffset, ...]] = []

    def spot_index(line: tuple[InstructionOffset, ...]) -> int:
        """Return the index that a call stack has in `spots`. A new call stack is added there."""
        at = known.setdefault(tuple((id(code), lasti) for code, lasti in line), len(spots))
        if at == len(spots):
            spots.append(line)
        return at

    rows = []
    for task in tasks:
        born, frames = birth(task), task_frames(task)
        made = spot_index(((born.code, born.lasti),)) if born.code is not None else -1
        shape = spot_index(tuple((frame.f_code, frame.f_lasti) for frame in frames))
        rows.append((born.id, task, born.parent or 0, made, shape, task_activity(task, bool(frames))))
    rows.sort(key=lambda row: row[0])
    ids, ordered, parents, of, shapes, how = ([row[i] for row in rows] for i in range(6))
    return TaskWalk(ordered, ids, parents, of, shapes, how, spots)  # type: ignore[arg-type]


def task_activity(task: Task, has_frame: bool) -> int:
    """Return what a task does: RUNS, NEW, READY (about to continue), or ASK if it waits. `has_frame`: whether its
    coroutine has a frame.
    """
    coro: Any = task.get_coro()
    if getattr(coro, "cr_running", False) or getattr(coro, "gi_running", False):
        return RUNS
    if not getattr(coro, "cr_suspended", getattr(coro, "gi_suspended", True)):
        return NEW if has_frame else READY
    waiter = getattr(task, "_fut_waiter", None)
    return READY if waiter is None or waiter.done() else ASK


class _CallStacks:
    """What follows from each call stack alone: the line of its task, and its kind of wait; computed once for each.

    `sites`: the indices of all sites (file, line, function) so far. `is_detailed`: whether each wait is described
    exactly.
    """

    def __init__(
        self, spots: list[tuple[InstructionOffset, ...]], sites: dict[tuple[object, ...], int], closely: bool
    ) -> None:
        self._spots, self._sites, self.is_detailed = spots, sites, closely
        self.waits: dict[tuple[object, ...], int] = {}
        self._at: dict[int, int | None] = {}
        self._plain: dict[int, int] = {}
        self._awaits: dict[tuple[int, bool], int] = {}
        self._asks: dict[int, tuple[str, int] | None] = {}
        self._locks: dict[int, Any] = {}
        self._alike: dict[tuple[int, bool, int], dict[str, object] | None] = {}

    def site_index(self, site: SiteRow | None) -> int | None:
        """Return the index of a site, a new one at its first use; None for None."""
        return None if site is None else self._sites.setdefault(tuple(site), len(self._sites))

    def inner_site_index(self, stack_index: int) -> int | None:
        """Return the index of the site (file, line, function) at which a call stack is: the innermost one of the
        program's own code, or else the innermost of all. None for an empty stack.
        """
        if stack_index not in self._at:
            spots = self._spots[stack_index]
            own = [spot for spot in spots if not is_library(spot[0].co_filename)]
            self._at[stack_index] = self.site_index(instruction_site(*(own or spots)[-1])) if spots else None
        return self._at[stack_index]

    def outer_site_index(self, stack_index: int) -> int | None:
        """Return the index of the outermost site (file, line, function) of a call stack; None for an empty stack."""
        return self.site_index(instruction_site(*self._spots[stack_index][0])) if self._spots[stack_index] else None

    def frame_to_inspect(self, stack_index: int) -> tuple[str, int] | None:
        """Return (function, depth) of the frame whose variables show what a task with this call stack waits for. None
        if no variables have to be read.
        """
        if stack_index not in self._asks:
            self._asks[stack_index] = find_frame_to_inspect([code for code, _ in self._spots[stack_index]])
        return self._asks[stack_index]

    def describe_wait(self, task: Task, stack_index: int, timers: Callable[[], Timers]) -> dict[str, object] | None:
        """Return the wait of a task as a dictionary, as `waits.describe_wait` does. For tasks that have the same call
        stack and wait for the same object, it is computed only once.
        """
        if self.is_detailed:
            return describe_wait(task, task_frames(task), timers, is_detailed=True)
        name, depth = self.frame_to_inspect(stack_index) or ("", 0)
        if name == "Lock.acquire":
            what = id(self._awaited_lock(task, depth))
        elif name == "wait_for" and frame_at(task, depth).f_locals.get("timeout") is not None:
            what = 0
        else:
            return describe_wait(task, task_frames(task), timers)
        key = stack_index, timers().is_timed(task), what
        if key not in self._alike:
            self._alike[key] = describe_wait(task, task_frames(task), timers)
        return self._alike[key]

    def _awaited_lock(self, task: Task, depth: int) -> object:
        """Return the lock that a task waits for. The lock's own list of waiters then answers for all other tasks, so
        that one frame is read for each lock. `depth`: of the frame of `Lock.acquire`.
        """
        waiter = id(getattr(task, "_fut_waiter", None))
        if waiter not in self._locks:
            lock = frame_at(task, depth).f_locals.get("self")
            self._locks.update((id(one), lock) for one in getattr(lock, "_waiters", None) or ())
            self._locks[waiter] = lock
        return self._locks[waiter]

    def future_wait_index(self, stack_index: int) -> int:
        """Return the index, among the table's waits, of a wait at this call stack for a future that no task
        completes.
        """
        if stack_index not in self._plain:
            kind = future_wait_kind([code for code, _ in self._spots[stack_index]])
            self._plain[stack_index] = self.wait_index(
                kind, self.inner_site_index(stack_index), one=False, free=True, what=""
            )
        return self._plain[stack_index]

    def task_wait_index(self, stack_index: int, *, free: bool) -> int:
        """Return the index, among the table's waits, of a wait at this call stack for one task. `free`: whether a timer
        may end the wait, too.
        """
        if (stack_index, free) not in self._awaits:
            self._awaits[stack_index, free] = self.wait_index(
                "await", self.inner_site_index(stack_index), one=False, free=free, what=""
            )
        return self._awaits[stack_index, free]

    def wait_index(self, kind: str, at: int | None, *, one: bool, free: bool, what: str) -> int:
        """Return the index of a wait, a new one at its first use; the awaited tasks are not part of it."""
        return self.waits.setdefault((kind, at, one, free, what), len(self.waits))


def build_task_columns(
    tasks: list[Task],
    threads_of_running: dict[int, int],
    running_frame: Callable[[Task], FrameType | None],
    timers: Callable[[], Timers],
    thread_wait: Callable[[Task], dict[str, object] | None],
) -> dict[str, Any]:
    """Return the table of all tasks as columns, by name; sites and waits are given by index.

    `threads_of_running`: the thread of each running task, by the task's id(). `running_frame`: returns the frame that a
    running task executes. `timers`: returns the timers of all loops. `thread_wait`: returns the wait of a running task
    that blocks its whole thread.
    """
    with gc_paused():
        rows, sites = walk_tasks(tasks), dict[tuple[object, ...], int]()
        shapes = _CallStacks(rows.spots, sites, len(tasks) <= DETAIL_LIMIT)
        made = [shapes.site_index(instruction_site(*spots[0])) if spots else None for spots in rows.spots]
        states, places, waits, targets = (
            [3] * len(rows.ids),
            list[int | None](),
            list[int | None](),
            dict[int, object](),
        )
        timed = _find_timed_tasks(rows, timers)
        at = [shapes.inner_site_index(shape) for shape in range(len(rows.spots))]
        asks = [shapes.frame_to_inspect(shape) is not None for shape in range(len(rows.spots))]
        for i, (how, shape) in enumerate(zip(rows.how, rows.shapes, strict=True)):
            places.append(at[shape])
            if how == READY:
                waits.append(None)
            elif how in (NEW, RUNS):
                states[i] = 2 if how == RUNS else 0
                places[-1] = shapes.outer_site_index(shape)
                waits.append(None)
            elif how == PLAIN and not asks[shape] and not shapes.is_detailed:
                waits.append(shapes.future_wait_index(shape))
            elif how > 0 and not asks[shape]:
                waits.append(shapes.task_wait_index(shape, free=how in timed.ended or rows.ids[i] in timed.released))
                targets[i] = how
            else:
                wait = shapes.describe_wait(rows.tasks[i], shape, timers)
                waits.append(None if wait is None else _add_inspected_wait(wait, i, shapes, targets))
        workers = {}
        for i, task in enumerate(rows.tasks) if threads_of_running else ():
            if id(task) in threads_of_running:
                wait = thread_wait(task)
                targets.pop(i, None)  # it may have waited a moment ago
                states[i], workers[i] = 1, threads_of_running[id(task)]
                waits[i] = None if wait is None else _add_inspected_wait(wait, i, shapes, targets)
                places[i] = shapes.site_index(frame_site(running_frame(task)))
    return {
        "ids": rows.ids, "parents": rows.parents, "states": states, "at": places, "wait": waits,
        "created": [made[m] if m >= 0 else None for m in rows.made],
        "waiting": list(targets), "targets": list(targets.values()),
        "addresses": [id(task.get_coro()) for task in rows.tasks],
        "pedigrees": [pedigree(task) for task in rows.tasks] if shapes.is_detailed else [],
        "workers": workers, "names": find_given_names(rows.tasks), "sites": list(sites), "waits": list(shapes.waits),
    }  # fmt: skip


def _add_inspected_wait(
    wait: dict[str, Any], task_index: int, call_stacks: _CallStacks, targets: dict[int, object]
) -> int:
    """Add the wait of a task, which was found by looking at variables, to the table's waits, and return its index
    there. The numbers of the awaited tasks are stored in `targets[task_index]`: one number, or a list of several.

    `call_stacks`: has the table's waits and sites so far.
    """
    if wait["tasks"]:
        targets[task_index] = wait["tasks"] if len(wait["tasks"]) > 1 else wait["tasks"][0]
    place = call_stacks.site_index(wait["site"])
    return call_stacks.wait_index(wait["kind"], place, one=wait["one"], free=wait["free"], what=wait["what"])


class TimedTasks(NamedTuple):
    """The numbers of the tasks that a timer ends, and of those whose wait a timer ends."""

    ended: frozenset[int] = frozenset()
    released: frozenset[int] = frozenset()


def _find_timed_tasks(rows: TaskWalk, timers: Callable[[], Timers]) -> TimedTasks:
    """Return the numbers of the tasks that a timer ends, and of the tasks that a timer releases from their wait. Both
    are empty if no task waits for another one. `timers`: returns the timers of all loops.
    """
    if not any(how > 0 for how in rows.how):
        return TimedTasks()
    known = timers()

    def numbers(timed: dict[int, float]) -> frozenset[int]:
        ids = zip(rows.ids, rows.tasks, strict=True) if timed else ()
        return frozenset(id_ for id_, task in ids if id(task) in timed)

    return TimedTasks(numbers(known.futures), numbers(known.tasks))


def find_given_names(tasks: list[Task]) -> dict[int, str]:
    """Return the names that the program itself gave to tasks: position in `tasks` -> name. asyncio's own names,
    `Task-N`, are left out.
    """
    found = {}
    for i, task in enumerate(tasks):
        name = task.get_name()
        if not (name.startswith("Task-") and name[5:].isdigit()):
            found[i] = name
    return found
