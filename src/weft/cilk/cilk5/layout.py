"""Reads the records in the frames of Cilk-5: the layout of cilk5/native/weft-cilk.h."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import DebuggerError
from weft.tasks.model import State

MAGIC = b"weftcil1"
RECORD = np.dtype([
    ("id", "<u8"), ("parent", "<u8"), ("created", "<u8"), ("below", "<u8"), ("maker", "<u8"), ("waiting", "<u8"),
    ("thread", "<u8"), ("self", "<u8"), ("entry", "<u8"), ("wait", "<i4"), ("traced", "<i4"),
    ("pedigree", "<u8"), ("line", "<u8"),
])  # fmt: skip
WORKER = np.dtype([
    ("top", "<u8"), ("next", "<u8"), ("thread", "<u8"), ("state", "<u8"), ("begun", "<u8"), ("ended", "<u8"),
    ("taken", "<u8"), ("unused", "<u8"),
])  # fmt: skip
COUNT, WATCH, OFFSET, WORKERS = 8, 12, 24, 32
"""Where the table has its fields."""
TRACED, SIZE = 76, RECORD.itemsize
CREATE, BEGIN, RESUME, DONE, JOINED = 1, 2, 4, 5, 6
RUNS, SPAWNS, JOINS = 1 << 8, 1 << 9, 1 << 10
SYNC, ABORTED = 5, 66

STORED = ("id", "parent", "created", "maker", "waiting", "entry", "wait", "traced", "pedigree")

Read = Callable[[int, int], bytes]


@dataclass(slots=True)
class Cilk5Row:
    """A living task: its record, and what follows from the record's place."""

    address: int
    id: int
    parent: int
    created: int
    maker: int
    waiting: int
    entry: int
    wait: int
    traced: int
    pedigree: int
    state: State = "heap"
    worker: int = 0
    above: int = 0
    beneath: int = 0


class Cilk5Table:
    """All records that can be found now."""

    def __init__(self, read: Read, base: int) -> None:
        self._read, self._seen = read, dict[int, tuple[Cilk5Row, int, int]]()
        head = read(base, WORKERS)
        if head[:8] != MAGIC:
            raise DebuggerError("the program was started with another version of Weft: start it again")
        count = int.from_bytes(head[COUNT : COUNT + 4], "little")
        self.offset = int.from_bytes(head[OFFSET : OFFSET + 8], "little")
        self.workers = np.frombuffer(read(base + WORKERS, count * WORKER.itemsize), WORKER)
        for worker in self.workers:
            self._set_worker_stack(int(worker["top"]), int(worker["thread"]))
        for row in list(self.rows):
            self._makers(row)

    @property
    def rows(self) -> list[Cilk5Row]:
        """Return the living tasks, by their numbers."""
        return sorted((row for row, _, _ in self._seen.values()), key=lambda row: row.id)

    def _read_record(self, address: int) -> tuple[Cilk5Row, int, int] | None:
        """Return (the task with a record at this address, the address of the record below it, the thread that ran the
        task last). None for address 0, or if no task has its record there.
        """
        if not address:
            return None
        if address not in self._seen:
            r: Any = np.frombuffer(self._read(address, SIZE), RECORD)[0]
            if int(r["self"]) != address:
                return None
            fields: dict[str, Any] = {name: int(r[name]) for name in STORED}
            self._seen[address] = Cilk5Row(address, **fields), int(r["below"]), int(r["thread"])
        return self._seen[address]

    def _set_worker_stack(self, top_address: int, thread: int) -> None:
        """Set state and position of the tasks on a worker's stack, from the top down to the first task that another
        worker runs now.
        """
        state: State = "top"
        above, line = 0, list[Cilk5Row]()
        while (found := self._read_record(top_address)) is not None and found[2] == thread and found[0].state == "heap":
            row, top_address, _ = found
            row.state, row.worker, row.above = state, thread, above
            state, above = "middle", row.id
            line.append(row)
        for beneath, row in enumerate(reversed(line)):
            row.beneath = beneath

    def _makers(self, row: Cilk5Row) -> None:
        while (found := self._read_record(row.maker)) is not None:
            row = found[0]

    def at(self, address: int) -> Cilk5Row | None:
        """Return the task with its record there; None where it is done."""
        found = self._read_record(address)
        return found[0] if found is not None else None

    def map_records_to_deques(self) -> dict[int, int]:
        """Return the tasks that another worker could take from a deque: address of the task's record -> the kernel's id
        of the thread whose deque has the task's frame.

        Cilk's own deques are read: a worker's state begins with pointers to the head and the tail of its deque. The
        frame at the tail is left out, as the worker runs it.
        """
        found = {}
        for worker in self.workers:
            if worker["state"]:
                head, tail = np.frombuffer(self._read(int(worker["state"]), 16), "<u8").tolist()
                if head and head + 8 < tail <= head + (1 << 20):
                    for frame in np.frombuffer(self._read(head, tail - head - 8), "<u8").tolist():
                        found[frame + self.offset] = int(worker["thread"])
        return found
