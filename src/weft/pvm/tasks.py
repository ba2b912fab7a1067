"""Reads and writes the tasks of a run, RUN/pvm/tasks.bin, in the layout of native/tasks.h, and names the tasks.

A task has another tid in each run. Its name tells where it comes from: `0` is the program that was started, `0.2` the
second task that it spawned, `0.2.1` the first one that this spawned. The same task of another run has the same name.
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


class PvmTask(NamedTuple):
    """A task of PVM; its rank is its place in the file. `parent`: a rank, -1 if no task of the run spawned it."""

    rank: int
    tid: int
    parent: int
    ordinal: int
    pid: int
    state: int
    program: str

    @property
    def is_group_server(self) -> bool:
        """Return whether the task is PVM's group server, which only answers others."""
        return self.program == SERVER


def task_file(run: Path) -> Path:
    """Return the path of the file with the tasks of a run."""
    return run / "pvm" / "tasks.bin"


def create_task_file(run: Path, first: int) -> None:
    """Create the file in which a new run lists its tasks. `first`: how many entries to reserve for the tasks that are
    started with the run."""
    path = task_file(run)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(HEADER.pack(MAGIC, first, first) + bytes(MOST * TASK.size))


class LiveTasks:
    """The tasks of a run that is still going on."""

    def __init__(self, run: Path) -> None:
        with task_file(run).open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def read_tasks(self) -> list[PvmTask]:
        """Return the tasks that are known by now."""
        return decode_tasks(self._map)


def decode_tasks(data: mmap.mmap | bytes) -> list[PvmTask]:
    """Return the tasks in the content of a run's task file; empty if the file is of another kind."""
    if len(data) < HEADER.size:
        return []
    magic, count, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        return []
    found = []
    for rank in range(min(count, MOST, (len(data) - HEADER.size) // TASK.size)):
        tid, parent, ordinal, pid, state, _, name = TASK.unpack_from(data, HEADER.size + rank * TASK.size)
        found.append(PvmTask(rank, tid, parent, ordinal, pid, state, name.split(b"\0")[0].decode(errors="replace")))
    return found


def read_tasks(run: Path) -> list[PvmTask]:
    """Return the tasks of a run; empty if it is not a run of PVM, or the file is damaged."""
    try:
        return decode_tasks(read_regular(task_file(run), run))
    except OSError:
        return []


def copy_to_replay(run: Path, folder: Path) -> None:
    """Copy the tasks of a run to the folder of a replay."""
    if task_file(run).exists():
        shutil.copyfile(task_file(run), folder / "tasks-000000.bin")


def trim_task_file(run: Path) -> None:
    """Cut the unused end off a run's task file."""
    path, tasks = task_file(run), read_tasks(run)
    try:
        os.truncate(path, HEADER.size + len(tasks) * TASK.size)
    except OSError:
        return  # a longer file is no worse


def read_labels(run: Path) -> list[str]:
    """Return the program and name of each task by its rank, such as `worker 0.2`."""
    tasks = read_tasks(run)
    return [render_label(tasks, task.rank) for task in tasks]


def read_children(run: Path) -> list[list[int]]:
    """Return for each rank the list of ranks that it spawned, in the order of spawning."""
    tasks = read_tasks(run)
    found: list[list[int]] = [[] for _ in tasks]
    for child in sorted(tasks, key=lambda task: task.ordinal):
        if 0 <= child.parent < len(tasks):
            found[child.parent].append(child.rank)
    return found


def render_label(tasks: Sequence[PvmTask], rank: int) -> str:
    """Return the program of a task with the task's name, or `group server`."""
    task = tasks[rank]
    return "group server" if task.is_group_server else f"{task.program or '?'} {render_task_name(tasks, rank)}"


def render_task_name(tasks: Sequence[PvmTask], rank: int) -> str:
    """Return the name of a task: its path from the program that was started, such as `0.2.1`."""
    parts: list[str] = []
    while 0 <= rank < len(tasks) and len(parts) < 64:
        task = tasks[rank]
        if task.is_group_server:
            return ".".join(["group server", *parts])
        known = task.parent >= 0 and task.ordinal != NO_ORDINAL
        parts.insert(0, str(task.ordinal + 1) if known else str(task.rank) if rank else "0")
        if task.parent < 0:
            break
        rank = task.parent
    return ".".join(parts)
