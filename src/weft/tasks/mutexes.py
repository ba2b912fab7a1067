"""Finds waits for a mutex of the C library (`pthread_mutex_t`, `std::mutex`), and the thread that owns it.

The library stores a mutex's owner in it, as the kernel's thread id, and a waiting thread has passed the mutex's address
to the kernel. Nothing in the program has to be changed for this, and it works for a core file, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from weft.errors import DebuggerError
from weft.tasks.gdb import Frame, Gdb, frame_site, is_program_frame
from weft.tasks.model import TaskRow, Wait

WAITS = re.compile(r"(__GI_)?_*pthread_mutex_(clock|timed)?lock(_full)?$")
FUTEX = 202
"""The system call's number on x86-64, by which a thread waits."""
SYSCALL = b"\x0f\x05"
OWNER = 8
"""Where the owner stands in a mutex, on x86-64."""


class AwaitedMutex(NamedTuple):
    """A mutex that a thread waits for. `owner`: the kernel's id of the owning thread; `name`: of the variable."""

    owner: int
    name: str
    is_timed: bool


def find_awaited_mutex(gdb: Gdb, thread: int, stack: list[Frame]) -> AwaitedMutex | None:
    """Return the mutex of the C library that a thread waits for. None if it waits for none, and always on processors
    other than x86-64. `stack`: the frames of the thread.
    """
    inner = [
        str(frame.get("func", ""))
        for frame in stack[: next((i for i, f in enumerate(stack) if is_program_frame(f)), 0)]
    ]
    called = next(filter(None, map(WAITS.match, inner)), None)
    if called is None:
        return None
    with suppress(DebuggerError, ValueError):
        registers = ("$orig_rax", "$rdi", "$pc")
        number, address, pc = (int(gdb.evaluate(f"(unsigned long){name}", thread)) for name in registers)
        if number == FUTEX and gdb.read(pc - len(SYSCALL), len(SYSCALL)) == SYSCALL:  # it has not come back from it
            owner = int.from_bytes(gdb.read(address + OWNER, 4), "little")
            return AwaitedMutex(owner, gdb.variable_name(address) or f"{address:#x}", called[2] is not None)
    return None


def add_mutex_waits(gdb: Gdb, rows: list[TaskRow], stacks: Mapping[int, list[Frame]]) -> list[TaskRow]:
    """Return the rows, with a wait in the row of each task whose thread waits for a mutex. `stacks`: the frames of each
    worker that runs a task.
    """
    found = {
        worker: mutex
        for worker, stack in stacks.items()
        if (mutex := find_awaited_mutex(gdb, gdb.threads[worker], stack))
    }
    if not found:
        return rows
    tops = {row.worker: row.id for row in rows if row.state == "top"}

    def with_wait(row: TaskRow) -> TaskRow:
        """Return a row with the wait of its worker for a mutex. A row whose worker waits for none is returned
        unchanged.
        """
        mutex = found.get(row.worker or 0) if row.state == "top" and row.wait is None else None
        if mutex is None:
            return row
        own = next(frame for frame in stacks[row.worker or 0] if is_program_frame(frame))
        has = (tops[mutex.owner],) if mutex.owner in tops else ()
        return row._replace(wait=Wait("mutex", has, frame_site(own), what=mutex.name, free=mutex.is_timed))

    return [with_wait(row) for row in rows]
