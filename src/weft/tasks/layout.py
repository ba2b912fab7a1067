"""Reads the native table of tasks: the layout of tasks/native/table.h, and its records as rows of the model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from weft.errors import DebuggerError
from weft.native.headers.table import FINISHED, HELD, JOINS, LOCKS, RUNS, SLAB, SLABS, SPAWNS, TABLE, TASK, WORKERS
from weft.native.headers.table import TRACED as SIGNALS
from weft.native.headers.table import WAIT_EVENT as EVENT
from weft.native.headers.table import WAIT_LOCK as LOCK
from weft.tasks.model import SourceLine, State, TaskRow, Wait
from weft.tasks.stacks import StackedTask

__all__ = [
    "BARRIERS",
    "EVENT",
    "EVENTS",
    "FINISHED",
    "FRESH",
    "GROUP",
    "HEADER",
    "HEAP",
    "HELD",
    "JOINS",
    "KINDS",
    "LOCK",
    "LOCKS",
    "MAGIC",
    "MIDDLE",
    "NEW",
    "RECORD",
    "RUNS",
    "SIGNALS",
    "SIZE",
    "SLAB",
    "SLABS",
    "SPAWNS",
    "STATES",
    "TASKWAIT",
    "TOP",
    "TRACED",
    "WATCH",
    "WORKERS",
    "TaskRows",
    "TaskScopes",
    "read_records",
    "tasks_on_worker",
]  # fmt: skip

RECORD = np.dtype([
    *((name, TASK[name]) for name in TASK.names or ()),
    ("address", "<u8"), ("above", "<u8"), ("state", "<i4"), ("worker", "<i4"), ("depth", "<i4"), ("caught", "<i4"),
    ("over", "<i4"),
])  # fmt: skip
"""A record; from `address` on follows what is not stored in it but follows from it.

`caught`: the worker that waits with it, where it is held and has not come on. `over`: how many untied tasks lie on it
and on no other of these that another thread has told the end of: their code may still be on its worker's stack."""
SIZE = TASK.itemsize


def format_pedigree(value: int) -> str:
    """Return a task's pedigree as text; it is the same in every run with the same spawns."""
    return f"~{value:016x}"


def _offset(dtype: np.dtype[np.generic], name: str) -> int:
    fields = dtype.fields
    assert fields is not None
    return int(fields[name][1])


TRACED, WATCH = _offset(TASK, "traced"), _offset(TABLE, "watch")
MAGIC = b"weftask1"
HEADER = _offset(TABLE, "slabs")
FRESH = 1
NEW, TOP, MIDDLE, HEAP = 1, 2, 3, 4
STATES: tuple[State, ...] = ("done", "new", "top", "middle", "heap")
EVENTS = ("", "create", "begin", "suspend", "resume", "done", "joined")
TASKWAIT, GROUP = 5, 6
MOST = 1 << 21
"""Living tasks that are looked at, 2 million: a program that is not one's own could point to a slab again and again."""
DEEPEST = 1 << 12
"""Taskgroups and teams within each other."""
BARRIERS = (1, 2, 3, 4, 8, 9)
"""For the one at the end of a region the runtime names the region's own place, or none."""
KINDS = {1: "barrier", 2: "barrier", 3: "barrier", 4: "barrier", 5: "taskwait", 6: "taskgroup", 7: "reduction",
         8: "barrier", 9: "barrier", 10: "teams", LOCK: "lock", EVENT: "event"}  # fmt: skip

Read = Callable[[int, int], bytes]
"""Bytes of the program's memory: address and length."""


Array = np.ndarray[Any, Any]


def read_records(read: Read, table_address: int) -> tuple[Array, dict[int, int]]:
    """Return (the records of all living tasks of a program, sorted by task number; the number of the task that owns
    each lock, by the lock's address). The second part is empty if no task waits for a lock.

    `read`: returns bytes of the program's memory, from an address and a length. DebuggerError for a table of another
    version of Weft's tool.
    """
    header = read(table_address, HEADER)
    count, size, slab = np.frombuffer(header, "<i4", 1, 8)[0], *np.frombuffer(header, "<u4", 2, 16)
    if header[:8] != MAGIC or size != SIZE or slab != SLAB:
        raise DebuggerError("the program was started with another version of Weft: start it again")
    pointers = np.frombuffer(read(table_address + HEADER, 8 * min(max(int(count), 0), SLABS)), "<u8")
    parts, living = [np.zeros(0, RECORD)], 0
    for pointer in np.unique(pointers[pointers != 0]).tolist():
        parts.append(_read_slab(read, pointer))
        living += len(parts[-1])
        if living > MOST:
            raise DebuggerError(
                f"Weft's list of tasks inside the program has more than {MOST:,} living tasks, or "
                f"is damaged: start the program again"
            )
    rows = np.concatenate(parts)
    rows = rows[np.argsort(rows["id"], kind="stable")]
    order = np.argsort(rows["address"], kind="stable")
    places = rows["address"][order], order
    after = table_address + HEADER + 8 * SLABS
    workers = min(int(np.frombuffer(header, "<u8", 1, 24)[0]), WORKERS)
    for pointer in np.frombuffer(read(after, 8 * workers), "<u8").tolist():
        if pointer:
            with suppress(DebuggerError):  # the memory of a thread that has gone
                top, _, _, thread, held = np.frombuffer(read(pointer, 40), "<u8").tolist()
                thread = min(thread, np.iinfo(np.int32).max)  # the kernel's number of a thread
                _set_worker_stack(rows, places, top, thread)
                rows["caught"][rows["address"] == held] = thread
    rows = rows[rows["traced"] & FINISHED == 0]
    return rows, _read_lock_owners(read, after + 8 * WORKERS) if (rows["wait"] == LOCK).any() else {}


def _read_slab(read: Read, address: int) -> Array:
    """Return the records in use in one block (slab) of the table, as an array."""
    raw = np.frombuffer(read(address, SIZE * SLAB), np.uint8).reshape(SLAB, SIZE)
    kept = np.flatnonzero(raw.view("<u8")[:, 0])
    rows = np.zeros(len(kept), RECORD)
    rows.view(np.uint8).reshape(-1, RECORD.itemsize)[:, :SIZE] = raw[kept]
    rows["address"] = address + kept * SIZE
    rows["state"] = np.where(rows["below"] == FRESH, NEW, HEAP)
    return rows


def _set_worker_stack(rows: Array, rows_by_address: tuple[Array, Array], top_address: int, thread: int) -> None:
    """Set in `rows` the state, worker, depth and task above of all tasks on one worker's stack. If the chain of records
    is damaged, the tasks from the first unknown or repeated record on stay as they are.

    `rows_by_address`: (sorted addresses of the records, the index in `rows` of each). `top_address`: address of the
    topmost task's record. `thread`: the kernel's id of the worker's thread.
    """
    state, above, line, over = TOP, 0, list[int](), 0
    addresses, order = rows_by_address
    while top_address > FRESH:
        place = int(np.searchsorted(addresses, np.uint64(top_address)))
        if place == len(order) or addresses[place] != top_address or rows["state"][order[place]] in (TOP, MIDDLE):
            break
        i = order[place]
        if rows["traced"][i] & FINISHED:
            rows["state"][i], top_address, over = TOP, int(rows["below"][i]), over + 1
            continue
        rows["state"][i], rows["worker"][i], rows["above"][i], rows["over"][i] = state, thread, above, over
        over = 0
        state, above, top_address = MIDDLE, int(rows["id"][i]), int(rows["below"][i])
        line.append(int(i))
    rows["depth"][line] = range(len(line) - 1, -1, -1)


def _read_lock_owners(read: Read, address: int) -> dict[int, int]:
    """Return the number of the task that owns each lock, by the lock's address."""
    locks = np.frombuffer(read(address, 16 * LOCKS), "<u8").reshape(-1, 2)
    return {int(lock): int(owner) for lock, owner in locks[locks[:, 1] != 0]}


def tasks_on_worker(rows: Array, worker: int) -> list[StackedTask]:
    """Return the tasks on a worker's stack, the task on top first; `worker`: the kernel's id of its thread."""
    here = rows[(rows["worker"] == worker) & np.isin(rows["state"], (TOP, MIDDLE))]
    columns = (here[name].tolist() for name in ("depth", "id", "parent", "wait", "waiting", "created", "over"))
    found = []
    for _, id_, parent, wait, waiting, created, over in sorted(zip(*columns, strict=True), reverse=True):
        left = bool(parent) and wait in BARRIERS and waiting in (0, created)
        found.append(StackedTask(id_, not parent, left, bool(wait) and not left, frozenset((waiting, created)), over))
    return found


class TaskRows:
    """Converts the records to rows of the table.

    `site`: returns the line of an address. `tops`: the line of each worker's top. `named`: returns the name of the
    variable at an address.
    """

    def __init__(
        self, rows: Array, owners: dict[int, int], read: Read, *, site: Callable[[int], SourceLine | None],
        tops: dict[int, SourceLine | None], names: dict[int, str], named: Callable[[int], str] = lambda _: "",
    ) -> None:  # fmt: skip
        self._named = named
        self._rows, self._owners, self._site, self._tops, self._names = rows, owners, site, tops, names
        self._living = set(rows["id"].tolist())
        self._scopes = TaskScopes(read, rows["scope"])
        self._children: dict[int, list[int]] = {}
        for id_, parent in zip(rows["id"].tolist(), rows["parent"].tolist(), strict=True):
            self._children.setdefault(parent, []).append(id_)

    def tasks(self) -> list[TaskRow]:
        """Return a row for each record."""
        columns = [
            self._rows[name].tolist()
            for name in (
                "id",
                "parent",
                "state",
                "wait",
                "worker",
                "created",
                "waiting",
                "what",
                "needs",
                "scope",
                "above",
                "depth",
                "address",
                "pedigree",
            )
        ]
        return [self._make_row(fields) for fields in zip(*columns, strict=True)]

    def _make_row(self, fields: tuple[int, ...]) -> TaskRow:
        """Return the row of a task. `fields`: the fields of its record, in the order in which `tasks` reads them."""
        id_, parent, state, wait, worker, created, waiting, what, needs, scope, above, *place = fields
        depth, address, way = place[0], place[1], format_pedigree(place[2])
        made = self._site(created)
        if state == NEW and needs not in self._living:
            return TaskRow(
                id_, parent or None, "new", self._names.get(id_, ""), made, made, address=address, pedigree=way
            )
        on = state in (TOP, MIDDLE)
        waits = None
        if wait == EVENT:
            waits = Wait("event", (), None, free=True)
        elif wait and on:
            name = self._named(what) if wait == LOCK else ""
            # LLVM's runtime names the place of the wait that the thread runs this task in, for a lock within it
            site = (self._tops.get(worker) if wait == LOCK and state == TOP else None) or self._site(waiting)
            waits = Wait(KINDS.get(wait, "wait"), self._awaited_tasks(id_, wait, what, scope), site, what=name)
        elif state == NEW:
            waits = Wait("dependence", (needs,), made)
        at = self._tops.get(worker) if state == TOP else waits.site if waits else made
        name, where = self._names.get(id_, ""), worker if on else None
        beneath, heap = (depth, None) if on else (None, address)
        return TaskRow(
            id_, parent or None, STATES[state], name, made, at, waits, where, above or None, beneath, heap, way
        )

    def _awaited_tasks(self, id_: int, wait: int, awaited_address: int, scope: int) -> tuple[int, ...]:
        """Return the numbers of the tasks that a task waits for. `id_`: the task's number; `wait`: the kind of its
        wait; `awaited_address`: of the lock or taskgroup that it waits for; `scope`: of its taskgroup or team.
        """
        if wait == TASKWAIT:
            return tuple(self._children.get(id_, ()))
        if wait == LOCK:
            owner = self._owners.get(awaited_address)
            return (owner,) if owner in self._living and owner is not None else ()
        members = np.isin(self._rows["scope"], self._scopes.scopes_inside(awaited_address if wait == GROUP else scope))
        if wait != GROUP:  # those that stand at a barrier have come
            members &= ~(np.isin(self._rows["wait"], BARRIERS) & np.isin(self._rows["state"], (TOP, MIDDLE)))
        return tuple(self._rows["id"][members & (self._rows["id"] != id_)].tolist())


class TaskScopes:
    """The taskgroups and teams of a program, and which is nested in which."""

    def __init__(self, read: Read, used: Array) -> None:
        self._chains = {scope: self._outer_scopes(read, scope) for scope in np.unique(used).tolist() if scope}

    def _outer_scopes(self, read: Read, scope: int) -> list[int]:
        """Return the addresses of a taskgroup or team and of all those around it, the innermost first. DebuggerError if
        there are too many.
        """
        found: dict[int, None] = {}
        while scope and scope not in found:
            if len(found) == DEEPEST:
                raise DebuggerError(
                    f"more than {DEEPEST:,} taskgroups are nested, or Weft's list of tasks inside "
                    f"the program is damaged: start it again"
                )
            found[scope] = None
            scope = int(np.frombuffer(read(scope, 8), "<u8")[0])
        return list(found)

    def scopes_inside(self, scope: int) -> list[int]:
        """Return a scope and all scopes that are nested in it."""
        return [inner for inner, chain in self._chains.items() if scope and scope in chain]
