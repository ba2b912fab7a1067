"""The tasks of a run: RUN/pvm/tasks.bin, as native/tasks.h draws it, and the names that tasks go by.

A tid is another in each run. A task's name is where it comes from: `0` is the program that was started, `0.2` the
second task that it spawned, `0.2.1` the first one of that. The same task of another run has the same name.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from weft.native.headers.pvm_tasks import TASKS_MAGIC as MAGIC
from weft.native.headers.pvm_tasks import TASKS_MOST as MOST
from weft.safety.folders import read_regular

HEADER: Final = struct.Struct("<QII")
TASK: Final = struct.Struct("<iiIiII24s")
NO_ORDINAL: Final = 0xFFFFFFFF
SERVER: Final = "pvmgs"
"""The program of PVM's group server."""


class Task(NamedTuple):
    """One task; its rank is its place. `parent`: a rank, -1 for one that nobody of the run spawned."""

    rank: int
    tid: int
    parent: int
    ordinal: int
    pid: int
    state: int
    program: str

    @property
    def serves(self) -> bool:
        """Whether it is PVM's group server, which answers others and does nothing of its own."""
        return self.program == SERVER


def file_of(run: Path) -> Path:
    """Where the tasks of a run are kept."""
    return run / "pvm" / "tasks.bin"


def create(run: Path, first: int) -> None:
    """Make the file for a run that begins; `first` places are kept for what is started with it."""
    path = file_of(run)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(HEADER.pack(MAGIC, first, first) + bytes(MOST * TASK.size))


class Tasks:
    """The file of a run that goes on, seen from outside."""

    def __init__(self, run: Path) -> None:
        with file_of(run).open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def all(self) -> list[Task]:
        """The tasks that are known by now."""
        return decode(self._map)


def decode(data: mmap.mmap | bytes) -> list[Task]:
    """The tasks in the bytes of a file; none in one that is not of these."""
    if len(data) < HEADER.size:
        return []
    magic, count, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        return []
    found = []
    for rank in range(min(count, MOST, (len(data) - HEADER.size) // TASK.size)):
        tid, parent, ordinal, pid, state, _, name = TASK.unpack_from(data, HEADER.size + rank * TASK.size)
        found.append(Task(rank, tid, parent, ordinal, pid, state, name.split(b"\0")[0].decode(errors="replace")))
    return found


def read(run: Path) -> list[Task]:
    """The tasks of a run, [] where it has none: it is not one of PVM, or was damaged."""
    try:
        return decode(read_regular(file_of(run), run))
    except OSError:
        return []


def hand_on(run: Path, folder: Path) -> None:
    """Give the tasks of a run to a replay of it, which looks for them in its folder."""
    if file_of(run).exists():
        shutil.copyfile(file_of(run), folder / "tasks-000000.bin")


def trim(run: Path) -> None:
    """Cut what is not used off the file."""
    path, tasks = file_of(run), read(run)
    try:
        os.truncate(path, HEADER.size + len(tasks) * TASK.size)
    except OSError:
        return  # a longer file is no worse


def labels(run: Path) -> list[str]:
    """The program and the name of each task by its rank: `worker 0.2`."""
    tasks = read(run)
    return [label_of(tasks, task.rank) for task in tasks]


def children(run: Path) -> list[list[int]]:
    """The ranks that each rank spawned, in order."""
    tasks = read(run)
    found: list[list[int]] = [[] for _ in tasks]
    for child in sorted(tasks, key=lambda task: task.ordinal):
        if 0 <= child.parent < len(tasks):
            found[child.parent].append(child.rank)
    return found


def label_of(tasks: Sequence[Task], rank: int) -> str:
    """The program of a task, and its name where the program does not tell it all."""
    task = tasks[rank]
    return "group server" if task.serves else f"{task.program or '?'} {name_of(tasks, rank)}"


def name_of(tasks: Sequence[Task], rank: int) -> str:
    """The name of a task: the way that leads to it from the program that was started."""
    parts: list[str] = []
    while 0 <= rank < len(tasks) and len(parts) < 64:
        task = tasks[rank]
        if task.serves:
            return ".".join(["group server", *parts])
        known = task.parent >= 0 and task.ordinal != NO_ORDINAL
        parts.insert(0, str(task.ordinal + 1) if known else str(task.rank) if rank else "0")
        if task.parent < 0:
            break
        rank = task.parent
    return ".".join(parts)
