"""Numbers asyncio's tasks and remembers who made them, and where: the model's `create`.

All that an untraced task pays is here. Where Weft's C part could be built (tasks/native/births.c), asyncio's own C code
calls it when it registers a task; elsewhere, `create_task` of asyncio's loops is wrapped in Python.
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
OWN = str(Path(__file__).parent)
LIBRARY: tuple[str, ...] = (str(Path(asyncio.__file__).parents[1]), OWN, "<frozen")
GENERATED = {"<string>"}
"""Files that stand for code which a library made (a namedtuple's): not so where `python -c` is what runs."""
Task = asyncio.Task[Any]
NAMES: dict[int, str] = {}
"""Names that the debugger gave, by number."""
ENDS: set[type] = set()
"""Types of awaitables with no frame behind them, as far as they were met."""
LISTED = sys.version_info < (3, 14)
"""Whether asyncio has one set of all tasks, and one of those that run: later its C code keeps them by thread."""
OnCreate = Callable[[Task, Task | None], None]


class Birth(NamedTuple):
    """A task's number, the one of who made it, the instruction that did, and the how-manieth child it is (from 1)."""

    id: int
    parent: int | None
    code: CodeType | None
    lasti: int
    nth: int


class Births:
    """The births of all tasks, taken down in Python. `walk`: C that looks at all tasks (task_table.py: Walk)."""

    walk: object = None

    def __init__(self, on_create: OnCreate) -> None:
        self._on_create = on_create
        self._watched = False
        self._next = itertools.count(1).__next__
        self._root = itertools.count(1).__next__
        self._wrap()

    def watch(self, on: bool) -> None:
        """Whether `on_create` is called from now on."""
        self._watched = on

    def number(self) -> int:
        """The next number, for what is no task."""
        return self._next()

    def of(self, task: Task) -> Birth:
        """A task's; made now for one that was created past us (before we came, or by another loop)."""
        return Birth(*self._line(task)[:5])

    def ancestry(self, task: Task) -> list[Birth]:
        """The births of a task, of who made it, and so on."""
        found, at = [], self._line(task)
        while at is not None:
            found.append(Birth(*at[:5]))
            at = at[5]
        return found

    def _line(self, task: Task) -> Any:
        try:
            return task._weft_birth  # type: ignore[attr-defined]
        except AttributeError:
            task._weft_birth = late = self._made(None, None, -1)  # type: ignore[attr-defined]
            return late

    def _made(self, mother: Any, code: CodeType | None, lasti: int) -> Any:
        """A birth now: as `Birth`, then the mother's, how many came before it, and what numbers its children."""
        if mother is None:
            return (self._next(), None, code, lasti, self._root(), None, 0, itertools.count(1).__next__)
        if mother[6] > DEEP:
            mother = (mother[0], None, None, -1, 0, None, 0, mother[7])
        return (self._next(), mother[0], code, lasti, mother[7](), mother, mother[6] + 1, itertools.count(1).__next__)

    def _wrap(self) -> None:
        original = base_events.BaseEventLoop.create_task
        running, current_task = asyncio._get_running_loop, asyncio.current_task
        eager = hasattr(asyncio, "eager_task_factory")

        def create_task(loop: Any, coro: Any, **options: Any) -> Any:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(ASYNCIO):
                frame = frame.f_back
            here = running()
            parent = current_task(here) if here is not None else None
            mother = self._line(parent) if parent is not None else None
            task = original(loop, coro, **options)
            born = self._made(mother, *((frame.f_code, frame.f_lasti) if frame is not None else (None, -1)))
            if eager and hasattr(task, "_weft_birth"):  # it has already run, and was given a number then
                early = self._line(task)
                born = (early[0], *born[1:7], early[7])
            task._weft_birth = born  # type: ignore[attr-defined]
            if self._watched:
                self._on_create(task, parent)
            return task

        base_events.BaseEventLoop.create_task = create_task  # type: ignore[assignment, method-assign]


DEEP = 500
"""Ancestors that are remembered at most: a task that makes its own successor, for ever, would fill the memory."""


class Sample:
    """A task of no program, to see what asyncio does with one: it awaits a future that never comes."""

    def __init__(self) -> None:
        self.waiter: Any = asyncio.Future(loop=self)  # type: ignore[arg-type]
        coro = self._wait()
        self.task = asyncio.Task(coro, loop=self, name="weft")  # type: ignore[arg-type]
        self.close = coro.close
        self.task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _wait(self) -> None:
        await self.waiter

    def get_debug(self) -> bool:
        """As asyncio asks its loops."""
        return False

    def call_soon(self, callback: Callable[[], object], *_: object, **__: object) -> None:
        """Keep what would run the task's step."""
        self.step = callback


def _weak_set() -> Any:
    """Where asyncio has all tasks; from 3.14 on, those that are not made by its C code."""
    names: Any = asyncio.tasks
    return names._scheduled_tasks if sys.version_info >= (3, 12) else names._all_tasks


def _where_kept() -> list[Any]:
    """How births.c hears of tasks, and what tells it which one runs."""
    if not LISTED:
        return [None, None, None, asyncio.current_task]
    known = _weak_set()
    return [known.data, known._iterating, known._remove, asyncio.tasks._current_tasks]  # type: ignore[attr-defined]


class FastBirths(Births):
    """The same by C. OSError or AttributeError where this Python's asyncio or ctypes is not as we know it."""

    def __init__(self, on_create: OnCreate, library: str, *asked: Callable[[object], object]) -> None:
        self._on_create = on_create
        if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise OSError("another interpreter, or one without a lock")
        code = ctypes.PyDLL(library)
        code.weft_births.restype = ctypes.py_object
        self._given: list[Any] = [*_where_kept(), asyncio._get_running_loop, asyncio.Task.get_loop, is_asyncio,
                                  on_create, asyncio.Task, asyncio.Future, ENDS, *asked]  # fmt: skip
        array = (ctypes.py_object * len(self._given))(*self._given)
        # TypeError where it gives None
        add, self._read, self._chain, self._watch, self.walk, self._number = code.weft_births(array)
        if LISTED:
            _weak_set().add = add
        self.sample = Sample()
        if self.of(self.sample.task).code is not Sample.__init__.__code__:
            if LISTED:
                del _weak_set().add
            else:
                code.weft_births_leave()
            raise OSError("asyncio does not register its tasks where it used to")

    def watch(self, on: bool) -> None:
        """Whether `on_create` is called from now on."""
        self._watch(on)

    def number(self) -> int:
        """The next number, for what is no task."""
        return int(self._number(None))

    def of(self, task: Task) -> Birth:
        """A task's."""
        return Birth(*self._read(task))

    def ancestry(self, task: Task) -> list[Birth]:
        """The births of a task, of who made it, and so on."""
        return [Birth(*row) for row in self._chain(task)]


_births: Births


def install(on_create: OnCreate, library: str, *asked: Callable[[Any], Any]) -> None:
    """Number every task from now on. `library`: the C part, empty where there is none; `asked`: waits.py's for it."""
    global _births  # noqa: PLW0603
    try:
        if not library:
            raise OSError
        _births = fast = FastBirths(on_create, library, *asked)
        fast.sample.close()
    except (OSError, AttributeError, TypeError):
        _births = Births(on_create)
    locks.Lock._locked = _Locked()  # type: ignore[attr-defined]


def watch(on: bool) -> None:
    """Whether the installed `on_create` is called at each birth."""
    _births.watch(on)


def walker() -> Any:
    """The C that looks at all tasks, None where there is none."""
    return _births.walk


def number() -> int:
    """A number for a thread, or the work of one: they stand with tasks in one table."""
    return _births.number()


def birth(task: Task) -> Birth:
    """A task's birth."""
    return _births.of(task)


def ancestry(task: Task) -> list[Birth]:
    """The births of a task, of who made it, and so on."""
    return _births.ancestry(task)


def loops() -> list[Any]:
    """The loops of all tasks, those that were made past us too."""
    if LISTED:
        return list({id(task.get_loop()): task.get_loop() for task in registered()}.values())
    # asyncio tells the tasks of one loop only, and no list of loops.
    return [one for one in gc.get_objects() if issubclass(type(one), asyncio.AbstractEventLoop)]


def registered() -> list[Task]:
    """All tasks that asyncio knows, of any loop; some may be done."""
    if not LISTED:
        return [task for loop in loops() for task in asyncio.all_tasks(loop)]
    return [task for task in list(_weak_set()) if isinstance(task.get_loop(), asyncio.AbstractEventLoop)]  # no Sample


def pedigree(task: Task) -> str:
    """Which child of which child of the first task it is: `1.2.1`, the same in every run of the same spawns."""
    return ".".join(str(born.nth or "") for born in reversed(ancestry(task)))


def is_asyncio(code: CodeType) -> bool:
    """Whether code is asyncio's own."""
    return code.co_filename.startswith(ASYNCIO)


@cache
def line_of(code: CodeType, lasti: int) -> int:
    """The line of an instruction."""
    for start, end, line in code.co_lines():
        if start <= lasti < end:
            return line or 0
    return 0


@cache
def is_library(file: str) -> bool:
    """Whether a file is the standard library's, an installed package's, or ours."""
    return file.startswith(LIBRARY) or "site-packages" in file or file in GENERATED


def current() -> Task | None:
    """The task that runs in this thread."""
    loop = asyncio._get_running_loop()
    return asyncio.current_task(loop) if loop is not None else None


class _Locked:
    """asyncio.Lock's `_locked`, which says too which task holds it: Lock itself does not know.

    It has no `__get__`, so that Python reads the lock's own dictionary, at its own speed.
    """

    def __set__(self, lock: object, value: bool) -> None:
        lock.__dict__["_locked"] = value
        lock.__dict__["_weft_owner"] = current() if value else None
