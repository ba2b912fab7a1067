"""The model: the table of logical tasks, the six hooks that update it, and which task waits for which.

A backend for another runtime delivers the hooks, in any language: `TaskTable` is their definition, and tests compare
the native table with it. After any hook, all commands of `weft tasks` work on `rows`.

    create(task, parent, site)   a task was created; it is `new` until it begins
    begin(task, worker)          a worker starts it, on top of the tasks on that worker
    suspend(task)                it leaves its worker: it goes to the `heap`, and the task beneath it is on top again
    resume(task, worker)         it continues, from the heap, on any worker
    wait(task, wait), joined(task)   it waits for others from here to there, on its worker or on the heap
    done(task)                   it has ended

The states are those of Onishi, Kamada and Taki (1999): `top` of a worker's stack, in its `middle`, or on the `heap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from weft.errors import WeftError
from weft.trace.tasks import task_label

State = Literal["new", "top", "middle", "heap", "done", "queued", "running"]
"""`queued`, `running` and `done` are of threads and their works."""


class HookError(WeftError):
    """Raised if a hook cannot be true, so that the backend is wrong."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the program's source; `line` is 0 if unknown."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}" if self.line else self.function or "?"

    def as_dict(self) -> dict[str, Any]:
        """Return the line as a dictionary for JSON."""
        return {"file": self.file or None, "line": self.line or None, "function": self.function or None}


class Wait(NamedTuple):
    """The wait of a task: for all of `tasks`, or for one of them if `one` is set.

    `free`: whether something else can end the wait, too (a timer, a file, another thread), so that it is never part of
    a deadlock. `what`: a description for people.
    """

    kind: str
    tasks: tuple[int, ...]
    site: SourceLine | None = None
    one: bool = False
    free: bool = False
    what: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the wait as a dictionary for JSON."""
        site = self.site.as_dict() if self.site else None
        return {"kind": self.kind, "tasks": list(self.tasks), "one": self.one, "site": site, "what": self.what or None}


NO_CODE: Final = -1
"""Of a task that is on a worker's stack by the table, and has no frame there: it is about to begin, or has left."""


class TaskRow(NamedTuple):
    """A row of the table of tasks (a tuple, as a hundred thousand of them are made at once).

    `above`: the task on top of it in its worker's stack, which has to leave first. `beneath`: the number of tasks under
    it there; `address`: its place on the heap, otherwise. `pedigree`: its path from the first task, by which child of
    each it is; the same in every run with the same spawns. `kind`: `task`; or `thread`, or `work` for what a pool's
    thread executes, which are shown beside the tasks. `part`: which part of its worker's stack belongs to it, 0 for the
    innermost, NO_CODE if none does; None if `above` tells it.
    """

    id: int
    parent: int | None = None
    state: State = "new"
    name: str = ""
    created: SourceLine | None = None
    at: SourceLine | None = None
    wait: Wait | None = None
    worker: int | None = None
    above: int | None = None
    beneath: int | None = None
    address: int | None = None
    pedigree: str = ""
    kind: str = "task"
    part: int | None = None

    @property
    def label(self) -> str:
        """Return how people read it."""
        return render_label(self.kind, self.id, self.name)

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary for JSON."""
        return as_dicts([self])[0]


def render_label(kind: str, number: int, name: str) -> str:
    """Return `task 3 (reader)`, `thread 4 (feeder)` or `thread work 7 (load)`."""
    words = {"work": "thread work"}
    return words.get(kind, kind) + task_label(number, name).removeprefix("task")


def as_dicts(rows: Iterable[TaskRow]) -> list[dict[str, object]]:
    """Return rows as dictionaries for JSON. Rows that share a site or a wait get the same dictionary of it, which saves
    time and memory.
    """
    known: dict[int, dict[str, Any] | None] = {id(None): None}

    def as_shared_dict(thing: SourceLine | Wait | None) -> dict[str, Any] | None:
        """Return a site or wait as a dictionary, the same one at each call; None for None."""
        if thing is not None and id(thing) not in known:
            known[id(thing)] = thing.as_dict()
        return known[id(thing)]

    return [
        {
            "id": id_, "name": name or None, "state": state, "parent": parent, "created": as_shared_dict(created),
            "at": as_shared_dict(at), "wait": as_shared_dict(wait), "worker": worker, "beneath": beneath,
            "address": None if address is None else hex(address), "pedigree": pedigree or None, "kind": kind,
        }
        for id_, parent, state, name, created, at, wait, worker, _, beneath, address, pedigree, kind, _ in rows
    ]  # fmt: skip


class TaskTable:
    """The living tasks of a program, updated by the hooks. HookError if a hook contradicts the table."""

    def __init__(self) -> None:
        self._tasks: dict[int, TaskRow] = {}
        self._stacks: dict[int, list[int]] = {}

    @property
    def rows(self) -> list[TaskRow]:
        """Return all tasks that are not done, in the order of creation."""
        return list(self._tasks.values())

    def create(self, task: int, parent: int | None = None, site: SourceLine | None = None) -> None:
        """Add a new task, which has not begun. `site`: the line that created it. HookError if the task is in the table
        already.
        """
        if task in self._tasks:
            raise HookError(f"task {task} was created twice")
        self._tasks[task] = TaskRow(task, parent, created=site)

    def begin(self, task: int, worker: int) -> None:
        """Let a worker start a new task."""
        self._push_on_worker(task, worker, "new")

    def resume(self, task: int, worker: int) -> None:
        """Let a worker take a task from the heap."""
        self._push_on_worker(task, worker, "heap")

    def suspend(self, task: int) -> None:
        """Move a task from its worker to the heap (the tasks on no worker's stack)."""
        self._pop_from_worker(task)
        self._update_row(task, state="heap", worker=None)

    def wait(self, task: int, wait: Wait) -> None:
        """Note that a task waits from now on. HookError if it is neither on top of a worker nor on the heap."""
        self._require_state(task, "top", "heap")
        self._update_row(task, wait=wait)

    def joined(self, task: int) -> None:
        """End the wait of a task."""
        self._update_row(task, wait=None)

    def done(self, task: int) -> None:
        """Remove a task that has ended."""
        self._pop_from_worker(task)
        del self._tasks[task]

    def _require_state(self, task: int, *states: State) -> TaskRow:
        """Return the row of a task. HookError unless the task is in one of the states."""
        row = self._tasks.get(task)
        if row is None or row.state not in states:
            raise HookError(f"task {task} is {row.state if row else 'not there'}, not {' or '.join(states)}")
        return row

    def _update_row(self, task: int, **fields: Any) -> None:
        """Replace fields of a task's row. HookError if there is no such task."""
        if task not in self._tasks:
            raise HookError(f"task {task} is not there")
        self._tasks[task] = self._tasks[task]._replace(**fields)

    def _push_on_worker(self, task: int, worker: int, state: State) -> None:
        """Put a task on top of a worker's stack. HookError if the task is not in `state`."""
        self._require_state(task, state)
        stack = self._stacks.setdefault(worker, [])
        if stack:
            self._update_row(stack[-1], state="middle", above=task)
        stack.append(task)
        self._update_row(task, state="top", worker=worker)

    def _pop_from_worker(self, task: int) -> None:
        """Remove a task from the top of its worker's stack."""
        row = self._require_state(task, "top")
        stack = self._stacks[row.worker or 0]
        stack.pop()
        if stack:
            self._update_row(stack[-1], state="top", above=None)


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Tasks that wait for one another in a cycle: each for the next, the last for the first."""

    tasks: tuple[TaskRow, ...]

    @property
    def sites(self) -> list[dict[str, Any] | None]:
        """Return the line at which each task waits, as dictionaries for JSON."""
        return [task.wait.site.as_dict() if task.wait and task.wait.site else None for task in self.tasks]

    @property
    def message(self) -> str:
        """Return the deadlock in one sentence."""
        parts = []
        for task, other in zip(self.tasks, (*self.tasks[1:], self.tasks[0]), strict=True):
            parts.append(f"{task.label} waits {render_wait(task, other.id)} for {other.label}")
        return "deadlock: " + ", ".join(parts) + ": none of them can ever go on"


ENDS = {
    "thread": "thread work", "executor": "thread work", "result": "result of", "futures": "results of",
    "join": "end of", "shutdown": "pool's end, and of", "end": "end of", "pool": "thread of its pool, at work",
}  # fmt: skip
"""Waits for the end of threads and works, as people read them: what these do is told with the wait."""


def render_wait(task: TaskRow, awaited_task: int) -> str:
    """Return where and how a task waits for another one, such as `at prog.py:9 (await)`. `awaited_task`: the other's
    number.
    """
    if task.wait is None or awaited_task not in task.wait.tasks:
        how = f"beneath it on worker {task.worker}" if task.worker is not None else "its loop is held up"
        return f"at {task.at or '?'} ({how})"
    what = task.wait.kind if task.wait.kind in ENDS else f"{task.wait.kind} {task.wait.what}".strip()
    return f"at {task.wait.site or task.at or task.created or '?'} ({what})"


def find_needed_tasks(task: TaskRow, living_tasks: frozenset[int]) -> tuple[set[int], bool]:
    """Return (the numbers of the living tasks that must act before this task can continue, whether any single one of
    them suffices). These are the tasks that it waits for and the task on top of it on its worker's stack.
    """
    above = {task.above} & living_tasks if task.above is not None else set()
    if task.wait is None or task.wait.free:
        return set(above), False
    return set(task.wait.tasks) & living_tasks | above, task.wait.one and not above


def find_stuck_tasks(tasks: Iterable[TaskRow]) -> dict[int, TaskRow]:
    """Return the tasks that can never continue, by number. Every task that can continue is assumed to come to its end,
    which may let other tasks continue; the tasks that are left over at last are returned.

    This is the AND-OR release of Hilbrich et al. (2012), on tasks.
    """
    rows = {task.id: task for task in tasks}
    living = frozenset(rows)
    need: dict[int, set[int]] = {}
    one: set[int] = set()
    waited: dict[int, list[int]] = {}
    for task in rows.values():
        need[task.id], single = find_needed_tasks(task, living)
        if single:
            one.add(task.id)
        for other in need[task.id]:
            waited.setdefault(other, []).append(task.id)
    ready = [id_ for id_ in rows if not need[id_]]
    released = set(ready)
    while ready:
        gone = ready.pop()
        for id_ in waited.get(gone, ()):
            need[id_].discard(gone)
            if id_ not in released and (id_ in one or not need[id_]):
                released.add(id_)
                ready.append(id_)
    return {id_: task for id_, task in rows.items() if id_ not in released}


def find_deadlocks(tasks: Iterable[TaskRow]) -> list[Deadlock]:
    """Return the deadlocks: cycles of tasks that can never continue, as each waits for the next. From each group of
    tasks that wait for one another, one cycle is returned.
    """
    left = find_stuck_tasks(tasks)
    found, seen = [], set[int]()
    for start in sorted(left):
        path: list[int] = []
        at = start
        while at not in seen:
            seen.add(at)
            path.append(at)
            onward = sorted(find_needed_tasks(left[at], frozenset(left))[0])
            if not onward:
                break
            at = next((id_ for id_ in onward if id_ in path), next((i for i in onward if i not in seen), onward[0]))
            if at in path:
                found.append(Deadlock(tuple(left[id_] for id_ in path[path.index(at) :])))
                break
    return found


def is_descendant(rows: dict[int, TaskRow], task: int, ancestor: int) -> bool:
    """Return whether a task is `ancestor` itself or a descendant of it."""
    at: int | None = task
    while at is not None and at != ancestor:
        at = rows[at].parent if at in rows else None
    return at is not None


def sort_as_tree(tasks: Sequence[TaskRow]) -> list[tuple[int, TaskRow]]:
    """Return (depth, task) for each task, parents before their children; a task whose parent has ended has depth 0."""
    living = {task.id for task in tasks}
    children: dict[int | None, list[TaskRow]] = {}
    for task in tasks:
        children.setdefault(task.parent if task.parent in living else None, []).append(task)
    rows: list[tuple[int, TaskRow]] = []
    todo = [(0, task) for task in reversed(children.get(None, []))]
    while todo:
        depth, task = todo.pop()
        rows.append((depth, task))
        todo += [(depth + 1, child) for child in reversed(children.get(task.id, []))]
    return rows
