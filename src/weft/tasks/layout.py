"""The native table as Python reads it: the layout of native/tasks/table.h, and its rows as tasks of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.tasks.backend import BackendError
from weft.tasks.model import Site, State, Task, Wait

RECORD = np.dtype([
    ("id", "<u8"), ("parent", "<u8"), ("created", "<u8"), ("waiting", "<u8"), ("what", "<u8"), ("below", "<u8"),
    ("in_group", "<u8"), ("group", "<u8"), ("team", "<u8"), ("needs", "<u8"),
    ("state", "<i4"), ("wait", "<i4"), ("worker", "<i4"), ("traced", "<i4"), ("address", "<u8"),
])  # fmt: skip
"""A record; `address` is where it lies, which is not in it."""
SIZE = RECORD.itemsize - 8
TRACED = 92
MAGIC = b"weftask1"
SLAB, SLABS, LOCKS = 1024, 1 << 16, 4096
HEADER = 24
STATES: tuple[State, ...] = ("done", "new", "top", "middle", "heap")
EVENTS = ("", "create", "begin", "suspend", "resume", "done", "joined")
RUNS, SPAWNS, JOINS = 1, 2, 4
LOCK, DEPENDENCE, TASKWAIT, GROUP = 64, 128, 5, 6
KINDS = {1: "barrier", 2: "barrier", 3: "barrier", 4: "barrier", 5: "taskwait", 6: "taskgroup", 7: "reduction",
         8: "barrier", 9: "barrier", 10: "teams", LOCK: "lock"}  # fmt: skip

Read = Callable[[int, int], bytes]
"""Bytes of the program's memory: address and length."""


def records(read: Read, base: int) -> tuple[np.ndarray[Any, Any], dict[int, int]]:
    """All living tasks, in the order of creation, and which task holds which lock. BackendError for another table."""
    header = read(base, HEADER)
    count, size, slab = np.frombuffer(header, "<i4", 1, 8)[0], *np.frombuffer(header, "<u4", 2, 16)
    if header[:8] != MAGIC or size != SIZE or slab != SLAB:
        raise BackendError("the program's table of tasks is of another version of Weft's tool: start it again")
    pointers = np.frombuffer(read(base + HEADER, 8 * min(int(count), SLABS)), "<u8")
    parts = [_slab(read, int(pointer)) for pointer in pointers if pointer]
    rows = np.concatenate(parts) if parts else np.zeros(0, RECORD)
    rows = rows[np.argsort(rows["id"], kind="stable")]
    return rows, _owners(read, base + HEADER + 8 * SLABS) if (rows["wait"] == LOCK).any() else {}


def _slab(read: Read, address: int) -> np.ndarray[Any, Any]:
    raw = np.frombuffer(read(address, SIZE * SLAB), np.uint8).reshape(SLAB, SIZE)
    state = raw[:, 80].view(np.int8)
    kept = np.flatnonzero(state)
    rows = np.zeros(len(kept), RECORD)
    rows.view(np.uint8).reshape(-1, RECORD.itemsize)[:, :SIZE] = raw[kept]
    rows["address"] = address + kept * SIZE
    return rows


def _owners(read: Read, address: int) -> dict[int, int]:
    locks = np.frombuffer(read(address, 16 * LOCKS), "<u8").reshape(-1, 2)
    return {int(lock): int(owner) for lock, owner in locks[locks[:, 1] != 0]}


class Rows:
    """The records as tasks. `site`: the line of an address; `tops`: where each worker's top stands."""

    def __init__(self, rows: np.ndarray[Any, Any], owners: dict[int, int], site: Callable[[int], Site | None],
                 tops: dict[int, Site | None], names: dict[int, str]) -> None:  # fmt: skip
        self._owners, self._site, self._tops, self._names = owners, site, tops, names
        self._ids = rows["id"].tolist()
        self._rows = rows
        self._living = set(self._ids)
        self._children: dict[int, list[int]] = {}
        for id_, parent in zip(self._ids, rows["parent"].tolist(), strict=True):
            self._children.setdefault(parent, []).append(id_)
        by_address = dict(zip(rows["address"].tolist(), self._ids, strict=True))
        below = rows["below"].tolist()
        self._above = {by_address[b]: i for i, b, s in zip(self._ids, below, rows["state"].tolist(), strict=True)
                       if b in by_address and s in (2, 3)}  # fmt: skip

    def tasks(self) -> list[Task]:
        """All of them."""
        columns = [self._rows[name].tolist() for name in
                   ("id", "parent", "state", "wait", "worker", "created", "waiting", "what", "needs", "team", "in_group")]
        return [self._task(*fields) for fields in zip(*columns, strict=True)]

    def _task(self, id_: int, parent: int, state: int, wait: int, worker: int, created: int, waiting: int, what: int,
              needs: int, team: int, in_group: int) -> Task:  # fmt: skip
        if state == 1 and not needs:
            made = self._site(created)
            return Task(id_, parent or None, "new", self._names.get(id_, ""), made, made)
        on = state in (2, 3)
        waits = None
        if wait and on:
            waits = Wait(KINDS.get(wait, "wait"), self._targets(id_, wait, what, team), self._site(waiting))
        elif state == 1 and needs in self._living:
            waits = Wait("dependence", (needs,), self._site(created))
        made = self._site(created)
        at = self._tops.get(worker) if state == 2 else waits.site if waits else made
        return Task(id_, parent or None, STATES[state], self._names.get(id_, ""), made, at, waits, worker if on else None,
                    self._above.get(id_))  # fmt: skip

    def _targets(self, id_: int, wait: int, what: int, team: int) -> tuple[int, ...]:
        if wait == TASKWAIT:
            return tuple(self._children.get(id_, ()))
        if wait == LOCK:
            owner = self._owners.get(what)
            return (owner,) if owner in self._living and owner is not None else ()
        if wait == GROUP:
            return tuple(self._rows["id"][(self._rows["in_group"] == what)].tolist()) if what else ()
        of_team = (self._rows["team"] == team) & (self._rows["id"] != id_)
        return tuple(self._rows["id"][of_team & ~_in_barrier(self._rows)].tolist())


def _in_barrier(rows: np.ndarray[Any, Any]) -> Any:
    """Those that stand at a barrier too: they have come."""
    return np.isin(rows["wait"], (1, 2, 3, 4, 8, 9)) & np.isin(rows["state"], (2, 3))
