"""The table as columns: tasks that stand alike are looked at once, and where they stand is told once.

A hundred thousand tasks are read while a person waits. Births.c walks them where it could be built; here is the same
in Python, and what both leave open: waits that need a look at the frames' variables.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from . import births
from .births import Task, birth, is_library, pedigree
from .gc_pause import unswept
from .waits import Timers, as_plain, chain, frame_at, site, site_of, variables_of, wait_of

READY, NEW, RUNS, PLAIN, ASK = 0, -1, -2, -3, -4
"""What a task does (`Walk.how`): is about to run, has not begun, runs, waits for a future, or as its frames say."""
STATES = ("new", "top", "middle", "heap")
CLOSELY = 2000
"""Tasks up to which each wait is told with what exactly it is for: that takes a look at the variables of its frames."""
Spot = tuple[CodeType, int]
Place = list[object]


class Walk(NamedTuple):
    """Where tasks stand, a list a column, in the order of creation.

    `made` (-1: not known) and `shapes` are indices of `spots`: the instruction that made a task, and the line of calls
    it stands in, outermost first. `how` above 0 is the number of the task that it awaits.
    """

    tasks: list[Task]
    ids: list[int]
    parents: list[int]
    made: list[int]
    shapes: list[int]
    how: list[int]
    spots: list[tuple[Spot, ...]]


def walk(tasks: list[Task]) -> Walk:
    """Look at all of them."""
    if (fast := births.walker()) is not None:
        return Walk(*fast(tasks))
    known: dict[tuple[tuple[int, int], ...], int] = {}
    spots: list[tuple[Spot, ...]] = []

    def number(line: tuple[Spot, ...]) -> int:
        at = known.setdefault(tuple((id(code), lasti) for code, lasti in line), len(spots))
        if at == len(spots):
            spots.append(line)
        return at

    rows = []
    for task in tasks:
        born, frames = birth(task), chain(task)
        made = number(((born.code, born.lasti),)) if born.code is not None else -1
        shape = number(tuple((frame.f_code, frame.f_lasti) for frame in frames))
        rows.append((born.id, task, born.parent or 0, made, shape, how_of(task, bool(frames))))
    rows.sort(key=lambda row: row[0])
    ids, ordered, parents, of, shapes, how = ([row[i] for row in rows] for i in range(6))
    return Walk(ordered, ids, parents, of, shapes, how, spots)  # type: ignore[arg-type]


def how_of(task: Task, lives: bool) -> int:
    """`Walk.how` of a task; `lives`: its coroutine has a frame."""
    coro: Any = task.get_coro()
    if getattr(coro, "cr_running", False) or getattr(coro, "gi_running", False):
        return RUNS
    if not getattr(coro, "cr_suspended", getattr(coro, "gi_suspended", True)):
        return NEW if lives else READY
    waiter = getattr(task, "_fut_waiter", None)
    return READY if waiter is None or waiter.done() else ASK


class _Shapes:
    """What follows from a line of calls alone, for each: where its task stands, and how it waits."""

    def __init__(self, spots: list[tuple[Spot, ...]], sites: dict[tuple[object, ...], int], closely: bool) -> None:
        self._spots, self._sites, self.closely = spots, sites, closely
        self.waits: dict[tuple[object, ...], int] = {}
        self._at: dict[int, int | None] = {}
        self._plain: dict[int, int] = {}
        self._awaits: dict[tuple[int, bool], int] = {}
        self._asks: dict[int, tuple[str, int] | None] = {}
        self._locks: dict[int, Any] = {}
        self._alike: dict[tuple[int, bool, int], dict[str, object] | None] = {}

    def site_number(self, told: Place | None) -> int | None:
        """The number of a place."""
        return None if told is None else self._sites.setdefault(tuple(told), len(self._sites))

    def at(self, shape: int) -> int | None:
        """The program's own innermost line, else the innermost."""
        if shape not in self._at:
            spots = self._spots[shape]
            own = [spot for spot in spots if not is_library(spot[0].co_filename)]
            self._at[shape] = self.site_number(site_of(*(own or spots)[-1])) if spots else None
        return self._at[shape]

    def begin(self, shape: int) -> int | None:
        """The outermost line."""
        return self.site_number(site_of(*self._spots[shape][0])) if self._spots[shape] else None

    def asks(self, shape: int) -> tuple[str, int] | None:
        """The frame whose variables have to be looked at, if any: its function, and which of the line it is."""
        if shape not in self._asks:
            self._asks[shape] = variables_of([code for code, _ in self._spots[shape]])
        return self._asks[shape]

    def wait_of(self, task: Task, shape: int, timers: Callable[[], Timers]) -> dict[str, object] | None:
        """As waits.wait_of: those who stand alike and wait for one lock, or for a time, do so alike."""
        if self.closely:
            return wait_of(task, chain(task), timers, closely=True)
        name, depth = self.asks(shape) or ("", 0)
        if name == "Lock.acquire":
            what = id(self._lock(task, depth))
        elif name == "wait_for" and frame_at(task, depth).f_locals.get("timeout") is not None:
            what = 0
        else:
            return wait_of(task, chain(task), timers)
        key = shape, timers().end(task), what
        if key not in self._alike:
            self._alike[key] = wait_of(task, chain(task), timers)
        return self._alike[key]

    def _lock(self, task: Task, depth: int) -> object:
        """The lock that a task waits for: one look at a frame's variables finds it for all that wait for it."""
        waiter = id(getattr(task, "_fut_waiter", None))
        if waiter not in self._locks:
            lock = frame_at(task, depth).f_locals.get("self")
            self._locks.update((id(one), lock) for one in getattr(lock, "_waiters", None) or ())
            self._locks[waiter] = lock
        return self._locks[waiter]

    def plain(self, shape: int) -> int:
        """The wait for a future that no task stands behind."""
        if shape not in self._plain:
            kind = as_plain([code for code, _ in self._spots[shape]])
            self._plain[shape] = self.wait(kind, self.at(shape), one=False, free=True, what="")
        return self._plain[shape]

    def awaits(self, shape: int, *, free: bool) -> int:
        """The wait for one task."""
        if (shape, free) not in self._awaits:
            self._awaits[shape, free] = self.wait("await", self.at(shape), one=False, free=free, what="")
        return self._awaits[shape, free]

    def wait(self, kind: str, at: int | None, *, one: bool, free: bool, what: str) -> int:
        """The number of a wait, but for the tasks that it waits for."""
        return self.waits.setdefault((kind, at, one, free, what), len(self.waits))


def columns(
    tasks: list[Task],
    running: dict[int, int],
    here: Callable[[Task], FrameType | None],
    timers: Callable[[], Timers],
    blocks: Callable[[Task], dict[str, object] | None],
) -> dict[str, Any]:
    """The table. `running`: the thread of each task that runs, by the task's id(); `here`: the line that it runs;
    `blocks`: what it waits for with its thread."""
    with unswept():
        rows, sites = walk(tasks), dict[tuple[object, ...], int]()
        shapes = _Shapes(rows.spots, sites, len(tasks) <= CLOSELY)
        made = [shapes.site_number(site_of(*spots[0])) if spots else None for spots in rows.spots]
        states, places, waits, targets = (
            [3] * len(rows.ids),
            list[int | None](),
            list[int | None](),
            dict[int, object](),
        )
        freed = _freed(rows, timers)
        at = [shapes.at(shape) for shape in range(len(rows.spots))]
        asks = [shapes.asks(shape) is not None for shape in range(len(rows.spots))]
        for i, (how, shape) in enumerate(zip(rows.how, rows.shapes, strict=True)):
            places.append(at[shape])
            if how == READY:
                waits.append(None)
            elif how in (NEW, RUNS):
                states[i] = 2 if how == RUNS else 0
                places[-1] = shapes.begin(shape)
                waits.append(None)
            elif how == PLAIN and not asks[shape] and not shapes.closely:
                waits.append(shapes.plain(shape))
            elif how > 0 and not asks[shape]:
                waits.append(shapes.awaits(shape, free=bool(freed) and (how in freed or -rows.ids[i] in freed)))
                targets[i] = how
            else:
                wait = shapes.wait_of(rows.tasks[i], shape, timers)
                waits.append(None if wait is None else _asked(wait, i, shapes, targets))
        workers = {}
        for i, task in enumerate(rows.tasks) if running else ():
            if id(task) in running:
                wait = blocks(task)
                targets.pop(i, None)  # it may have waited a moment ago
                states[i], workers[i] = 1, running[id(task)]
                waits[i] = None if wait is None else _asked(wait, i, shapes, targets)
                places[i] = shapes.site_number(site(here(task)))
    return {
        "ids": rows.ids, "parents": rows.parents, "states": states, "at": places, "wait": waits,
        "created": [made[m] if m >= 0 else None for m in rows.made],
        "waiting": list(targets), "targets": list(targets.values()),
        "addresses": [id(task.get_coro()) for task in rows.tasks],
        "pedigrees": [pedigree(task) for task in rows.tasks] if shapes.closely else [],
        "workers": workers, "names": names(rows.tasks), "sites": list(sites), "waits": list(shapes.waits),
    }  # fmt: skip


def _asked(wait: dict[str, Any], i: int, shapes: _Shapes, targets: dict[int, object]) -> int:
    """A wait that is in the variables of the task's frames."""
    if wait["tasks"]:
        targets[i] = wait["tasks"] if len(wait["tasks"]) > 1 else wait["tasks"][0]
    place = shapes.site_number(wait["site"])
    return shapes.wait(wait["kind"], place, one=wait["one"], free=wait["free"], what=wait["what"])


def _freed(rows: Walk, timers: Callable[[], Timers]) -> set[int]:
    """The tasks whose end a timer brings, by their numbers; and negative those whose wait a timer ends."""
    if not any(how > 0 for how in rows.how):
        return set()
    known, freed = timers(), set[int]()
    for sign, ended in ((1, known.futures), (-1, known.tasks)):
        if ended:
            freed |= {sign * id_ for id_, task in zip(rows.ids, rows.tasks, strict=True) if id(task) in ended}
    return freed


def names(tasks: list[Task]) -> dict[int, str]:
    """The names that somebody gave, by the tasks' positions: not asyncio's own."""
    found = {}
    for i, task in enumerate(tasks):
        name = task.get_name()
        if not (name.startswith("Task-") and name[5:].isdigit()):
            found[i] = name
    return found
