"""Numbers asyncio tasks and records which task created each, and at which instruction.

This is all that an untraced task costs. If Weft's C part could be built (tasks/native/births.c), asyncio's own C code
calls it when it registers a task; else `create_task` of asyncio's loops is wrapped in Python.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import sys
from asyncio import base_events, locks
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ASYNCIO = str(Path(asyncio.__file__).parent)
OWN_FOLDER = str(Path(__file__).parent)
LIBRARY_FOLDERS: tuple[str, ...] = (str(Path(asyncio.__file__).parents[1]), OWN_FOLDER, "<frozen")
GENERATED_FILES = {"<string>"}
"""Files that stand for code which a library made (a namedtuple's): not so where `python -c` is what runs."""
Task = asyncio.Task[Any]
NAMES: dict[int, str] = {}
"""Names that the debugger gave, by number."""
INNERMOST_TYPES: set[type] = set()
"""Types of awaitables with no frame behind them, as far as they were met."""
HAS_GLOBAL_TASK_SET = sys.version_info < (3, 14)
"""Whether asyncio has one set of all tasks, and one of those that run: later its C code keeps them by thread."""
OnCreate = Callable[[Task, Task | None], None]


class Birth(NamedTuple):
    """Creation of a task: its number, its parent's number, the instruction that created it, and its rank among
    siblings.

    `parent`: None if no task created it. `nth`: counts the children of the same parent from 1.
    """

    id: int
    parent: int | None
    code: CodeType | None
    lasti: int
    nth: int


class Births:
    """Records the creation of all tasks, in Python. `walk`: a C function that reads all tasks (task_table.py), None
    here.

    A birth record is a tuple of the fields of `Birth`, then the parent's record, the number of ancestors that are
    remembered, and the counter that numbers the children.
    """

    walk: object = None

    def __init__(self, on_create: OnCreate) -> None:
        self._on_create = on_create
        self._is_callback_enabled = False
        self._next = itertools.count(1).__next__
        self._root = itertools.count(1).__next__
        self._wrap_create_task()

    def enable_callback(self, is_enabled: bool) -> None:
        """Enable or disable the calls of `on_create` for new tasks."""
        self._is_callback_enabled = is_enabled

    def next_number(self) -> int:
        """Return the next free number, for a thread or a work, which share the numbers of tasks."""
        return self._next()

    def birth(self, task: Task) -> Birth:
        """Return the birth of a task. A task that was created unnoticed gets one now, without a parent."""
        return Birth(*self._birth_record(task)[:5])

    def ancestry(self, task: Task) -> list[Birth]:
        """Return the births (number, parent, and the instruction that created it) of a task, of its parent, and so on
        up to the first task.
        """
        found, at = [], self._birth_record(task)
        while at is not None:
            found.append(Birth(*at[:5]))
            at = at[5]
        return found

    def _birth_record(self, task: Task) -> Any:
        """Return the birth record that a task carries. A task without one gets a new record without a parent."""
        try:
            return task._weft_birth  # type: ignore[attr-defined]
        except AttributeError:
            task._weft_birth = late = self._new_birth_record(None, None, -1)  # type: ignore[attr-defined]
            return late

    def _new_birth_record(self, parent_record: Any, code: CodeType | None, lasti: int) -> Any:
        """Return the birth record of a new task. Only the last MOST_ANCESTORS ancestors stay in the chain of records.
        `code`, `lasti`: the code and the offset of the instruction that created the task.
        """
        if parent_record is None:
            return (self._next(), None, code, lasti, self._root(), None, 0, itertools.count(1).__next__)
        if parent_record[6] > MOST_ANCESTORS:
            parent_record = (parent_record[0], None, None, -1, 0, None, 0, parent_record[7])
        return (
            self._next(),
            parent_record[0],
            code,
            lasti,
            parent_record[7](),
            parent_record,
            parent_record[6] + 1,
            itertools.count(1).__next__,
        )

    def _wrap_create_task(self) -> None:
        """Replace `create_task` of asyncio's loops by a function that gives each new task a birth record."""
        original = base_events.BaseEventLoop.create_task
        running, current_task = asyncio._get_running_loop, asyncio.current_task
        eager = hasattr(asyncio, "eager_task_factory")

        def create_task(loop: Any, coro: Any, **options: Any) -> Any:
            """Create a task as asyncio does, and give it a birth record."""
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(ASYNCIO):
                frame = frame.f_back
            here = running()
            parent = current_task(here) if here is not None else None
            mother = self._birth_record(parent) if parent is not None else None
            task = original(loop, coro, **options)
            born = self._new_birth_record(mother, *((frame.f_code, frame.f_lasti) if frame is not None else (None, -1)))
            if eager and hasattr(task, "_weft_birth"):  # it has already run, and was given a number then
                early = self._birth_record(task)
                born = (early[0], *born[1:7], early[7])
            task._weft_birth = born  # type: ignore[attr-defined]
            if self._is_callback_enabled:
                self._on_create(task, parent)
            return task

        base_events.BaseEventLoop.create_task = create_task  # type: ignore[assignment, method-assign]


MOST_ANCESTORS = 500
"""Ancestors that are remembered at most: a task that makes its own successor, for ever, would fill the memory."""


class SampleTask:
    """Task that belongs to no program and awaits a future that never completes; shows how asyncio treats a task."""

    def __init__(self) -> None:
        self.waiter: Any = asyncio.Future(loop=self)  # type: ignore[arg-type]
        coro = self._wait()
        self.task = asyncio.Task(coro, loop=self, name="weft")  # type: ignore[arg-type]
        self.close = coro.close
        self.task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _wait(self) -> None:
        await self.waiter

    def get_debug(self) -> bool:
        """Answer asyncio, which asks its loops for this."""
        return False

    def call_soon(self, callback: Callable[[], object], *_: object, **__: object) -> None:
        """Keep the callback that would run the task's next step as `step`."""
        self.step = callback


def _asyncio_task_set() -> Any:
    """Return asyncio's set of all tasks; from Python 3.14 on it has only those that its C code did not make."""
    names: Any = asyncio.tasks
    return names._scheduled_tasks if sys.version_info >= (3, 12) else names._all_tasks


def _asyncio_birth_objects() -> list[Any]:
    """Return four objects of asyncio that the C code needs to see new tasks and to find the running one. They are the
    set of all tasks, its guard and its remove function (each None from Python 3.14 on), and the running tasks.
    """
    if not HAS_GLOBAL_TASK_SET:
        return [None, None, None, asyncio.current_task]
    known = _asyncio_task_set()
    return [known.data, known._iterating, known._remove, asyncio.tasks._current_tasks]  # type: ignore[attr-defined]


class FastBirths(Births):
    """The same as Births, in C. OSError or AttributeError if this Python's asyncio or ctypes is not as expected.

    `library`: the path of the shared library. `wait_functions`: `unwrap_awaitable` and `has_shield_callback` of
    waits.py.
    """

    def __init__(self, on_create: OnCreate, library: str, *wait_functions: Callable[[object], object]) -> None:
        self._on_create = on_create
        if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise OSError("this Python is not CPython, or was built without the global interpreter lock")
        code = ctypes.PyDLL(library)
        code.weft_begin_births.restype = ctypes.py_object
        self._given: list[Any] = [
            *_asyncio_birth_objects(), asyncio._get_running_loop, asyncio.Task.get_loop, is_asyncio_code, on_create,
            asyncio.Task, asyncio.Future, INNERMOST_TYPES, *wait_functions,
        ]  # fmt: skip
        array = (ctypes.py_object * len(self._given))(*self._given)
        # TypeError where it gives None
        add, self._read, self._chain, self._watch, self.walk, self._number = code.weft_begin_births(array)
        if HAS_GLOBAL_TASK_SET:
            _asyncio_task_set().add = add
        self.sample = SampleTask()
        if self.birth(self.sample.task).code is not SampleTask.__init__.__code__:
            if HAS_GLOBAL_TASK_SET:
                del _asyncio_task_set().add
            else:
                code.weft_births_leave()
            raise OSError("this Python's asyncio lists its tasks in a place that Weft does not know")

    def enable_callback(self, on: bool) -> None:
        """Enable or disable the calls of `on_create` for new tasks."""
        self._watch(on)

    def next_number(self) -> int:
        """Return the next free number, for a thread or a work."""
        return int(self._number(None))

    def birth(self, task: Task) -> Birth:
        """Return the birth of a task."""
        return Birth(*self._read(task))

    def ancestry(self, task: Task) -> list[Birth]:
        """Return the births (number, parent, and the instruction that created it) of a task, of its parent, and so on
        up to the first task.
        """
        return [Birth(*row) for row in self._chain(task)]


_births: Births


def install_births(on_create: OnCreate, library: str, *wait_functions: Callable[[Any], Any]) -> None:
    """From now on, give each asyncio task a number at its creation, in C if the C part works in this Python, else in
    Python.

    `on_create`: is called for new tasks. `library`: the path of the C part, empty to do without it. `wait_functions`:
    passed to the C part.
    """
    global _births  # noqa: PLW0603
    try:
        if not library:
            raise OSError
        _births = fast = FastBirths(on_create, library, *wait_functions)
        fast.sample.close()
    except (OSError, AttributeError, TypeError):
        _births = Births(on_create)
    locks.Lock._locked = _LockOwnerField()  # type: ignore[attr-defined]


def enable_birth_callback(is_enabled: bool) -> None:
    """Enable or disable the calls of the installed `on_create` for new tasks."""
    _births.enable_callback(is_enabled)


def c_task_walker() -> Any:
    """Return the C function that reads all tasks; None if the C part is not in use."""
    return _births.walk


def next_number() -> int:
    """Return a number for a thread or a work: they share one table with the tasks."""
    return _births.next_number()


def birth(task: Task) -> Birth:
    """Return the birth of a task."""
    return _births.birth(task)


def ancestry(task: Task) -> list[Birth]:
    """Return the births of a task, of its parent, of the parent's parent and so on."""
    return _births.ancestry(task)


def find_loops() -> list[Any]:
    """Return the loops of all tasks. Loops that were created before Weft's hooks are among them."""
    if HAS_GLOBAL_TASK_SET:
        return list({id(task.get_loop()): task.get_loop() for task in registered_tasks()}.values())
    # asyncio tells the tasks of one loop only, and no list of loops.
    return [one for one in gc.get_objects() if issubclass(type(one), asyncio.AbstractEventLoop)]


def registered_tasks() -> list[Task]:
    """Return all tasks that asyncio has registered, of any loop; some may be done."""
    if not HAS_GLOBAL_TASK_SET:
        return [task for loop in find_loops() for task in asyncio.all_tasks(loop)]
    return [
        task for task in list(_asyncio_task_set()) if isinstance(task.get_loop(), asyncio.AbstractEventLoop)
    ]  # no Sample


def pedigree(task: Task) -> str:
    """Return a task's pedigree, its path from the first task: `1.2.1` is the first child of the second child of task 1.
    It is the same in every run with the same spawns.
    """
    return ".".join(str(born.nth or "") for born in reversed(ancestry(task)))


def is_asyncio_code(code: CodeType) -> bool:
    """Return whether a code object is asyncio's own."""
    return code.co_filename.startswith(ASYNCIO)


@cache
def source_line(code: CodeType, lasti: int) -> int:
    """Return the source line of an instruction; 0 if it is unknown. `lasti`: the offset of the instruction in
    `code`.
    """
    for start, end, line in code.co_lines():
        if start <= lasti < end:
            return line or 0
    return 0


@cache
def is_library(file: str) -> bool:
    """Return whether a file belongs to the standard library, an installed package or Weft."""
    return file.startswith(LIBRARY_FOLDERS) or "site-packages" in file or file in GENERATED_FILES


def current_task() -> Task | None:
    """Return the task that runs in this thread; None if none does."""
    loop = asyncio._get_running_loop()
    return asyncio.current_task(loop) if loop is not None else None


class _LockOwnerField:
    """Descriptor for `_locked` of asyncio.Lock that also stores the task that took the lock, which Lock does not know.

    It has no `__get__`, so that Python reads the lock's own dictionary, at its own speed.
    """

    def __set__(self, lock: object, value: bool) -> None:
        lock.__dict__["_locked"] = value
        lock.__dict__["_weft_owner"] = current_task() if value else None
