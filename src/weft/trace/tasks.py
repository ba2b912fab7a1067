"""Which task made each call: RUN/tasks, of a run by `weft run --tasks` (tasks/native/switches.h draws the files).

A switch holds how many calls its thread had made, so that calls and tasks are joined by counting; no clock is asked.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.errors import RunError
from weft.native.headers.switches import SWITCH, TASKS_MAGIC, TaskKind
from weft.trace.definitions import Definitions, ThreadDefinition
from weft.trace.layout import Events, State, StreamKind
from weft.trace.rankfile import RankFile
from weft.trace.sites import UNKNOWN, CallSite, HasSites

FOLDER: Final = "tasks"
SUFFIX: Final = ".tasks"
MAX_FILES: Final = 1 << 20
NAMED: Final = 0
"""The class of the NAMEs of tasks."""


def task_label(task: int, name: str) -> str:
    """Return a task as people read it: `task 7 (name)`, or `task 7` without a name."""
    return f"task {task} ({name})" if name else f"task {task}"


@dataclass(frozen=True, slots=True)
class LogicalTask:
    """A task that made calls. `site`: where it was made; `parent`: None where it is not known."""

    id: int
    parent: int | None
    kind: TaskKind
    name: str
    site: CallSite

    @property
    def label(self) -> str:
        """Return the task as people read it: `task 7 (name)`."""
        return task_label(self.id, self.name)


class TaskFile(RankFile):
    """One rank's file of RUN/tasks."""

    MAGIC = TASKS_MAGIC.encode()
    SLOT = SWITCH.itemsize
    KINDS = (StreamKind.EVENTS, StreamKind.DEFINITIONS)
    WHAT = "file of tasks"


class SlotStay(NamedTuple):
    """A thread's time in a slot: its number in the kernel, and which rows of the slot's stream are its own."""

    tid: int
    slot: int
    first: int
    end: int


def _find_slot_stays(threads: Sequence[ThreadDefinition], lengths: dict[int, int]) -> dict[int, list[SlotStay]]:
    """Return in which slots (streams of a record) each thread wrote, and which rows of them, by the kernel's number of
    the thread. `lengths`: the rows of each slot.
    """
    found: dict[int, list[SlotStay]] = defaultdict(list)
    ends = dict(lengths)
    for thread in reversed(threads):
        end = ends.get(thread.slot, 0)
        found[thread.tid].append(SlotStay(thread.tid, thread.slot, min(thread.first_event, end), end))
        ends[thread.slot] = min(thread.first_event, end)
    return found


class TaskThread(Protocol):
    """What `Tasks` needs to know of a thread of a rank."""

    slot: int

    @property
    def events(self) -> Events:
        """Return its calls, in their order."""
        ...


class TaskRank(HasSites, Protocol):
    """What `Tasks` needs to know of a rank: the order of the calls of its threads."""

    @property
    def threads(self) -> Sequence[TaskThread]:
        """Return the threads that made calls."""
        ...

    @property
    def event_threads(self) -> NDArray[np.int32]:
        """Return, for each call, the index in `threads` of the thread that made it."""
        ...

    @property
    def event_positions(self) -> NDArray[np.int64]:
        """Return, for each call, its index among the calls of its thread."""
        ...


class Tasks:
    """The tasks of one rank that made calls. `site` resolves the places where they were made, `say` takes problems."""

    def __init__(
        self, rank: TaskRank, file: TaskFile, say: Callable[..., None], site: Callable[[HasSites, int], CallSite]
    ) -> None:
        self._rank, self._file, self._told, self._site = rank, file, say, site
        self.index = -1 - rank.index
        """Its place among all that has sites: ranks have 0 on."""
        if file.header.state == State.STOPPED:
            say(f"{file.name}: Weft stopped recording tasks; later switches of tasks are missing")
        say(*file.problems)

    def __iter__(self) -> Iterator[LogicalTask]:
        return (task for task in map(self.get, self._definitions[0].tolist()) if task is not None)

    def __len__(self) -> int:
        return len(self._definitions[0])

    @cached_property
    def definitions(self) -> Definitions:
        """Return the definitions in the file of tasks: threads, call sites and names."""
        definitions = Definitions(self._file.stream(StreamKind.DEFINITIONS).tobytes())
        self._note_problems(*definitions.problems)
        return definitions

    @property
    def runtime(self) -> str:
        """Return `openmp` or `asyncio`."""
        return (self.definitions.library or ("", ""))[0]

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Return, for each event of the rank, the number of the task that made the call; 0 if there is none or it is
        unknown.
        """
        numbers, rank = self._join_calls_and_switches[0], self._rank
        if len(rank.threads) == 1:
            return numbers[0]
        of, at = rank.event_threads, rank.event_positions
        ids = np.zeros(len(of), np.int64)
        for k, column in enumerate(numbers):
            ids[of == k] = column[at[of == k]]
        return ids

    def of(self, event: int) -> LogicalTask | None:
        """Return the task that made a call; None if there is none or it is unknown. `event`: the call's event index."""
        return self.get(int(self.ids[event]))

    def get(self, number: int) -> LogicalTask | None:
        """Return the task with this number; None if it made no call."""
        ids, rows = self._definitions
        at = int(np.searchsorted(ids, number))
        if not number or at == len(ids) or ids[at] != number:
            return None
        row = rows[at]
        names, site = self.definitions.names, int(row["site"])
        kind = TaskKind(int(row["kind"])) if int(row["kind"]) in list(TaskKind) else TaskKind.NONE
        where = self._site(self, site) if site else UNKNOWN
        return LogicalTask(number, int(row["parent"]) or None, kind, names.get((NAMED, int(row["name"])), ""), where)

    def _note_problems(self, *texts: str) -> None:
        self._told(*(f"{self._file.name}: {text}" for text in texts))

    @property
    def _definitions(self) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
        return self._join_calls_and_switches[1:]

    @cached_property
    def _join_calls_and_switches(self) -> tuple[list[NDArray[np.int64]], NDArray[np.int64], NDArray[Any]]:
        """Return three things: for each thread of the rank an array with the number of the task that made each call;
        the numbers of all tasks; and one switch to each of these tasks.
        """
        threads = self._rank.threads
        if self._file.problems or self.definitions.problems:  # where a switch is lost, the one before has no end
            self._note_problems("is damaged, so Weft does not know which tasks made the calls of its rank")
            none = [np.zeros(len(thread.events), np.int64) for thread in threads]
            return none, np.empty(0, np.int64), np.empty(0, SWITCH)
        numbers = {thread.slot: np.zeros(len(thread.events), np.int64) for thread in threads}
        rows = {slot: self._read_switches(slot) for slot in self._file.threads()}
        calling = _find_slot_stays(
            self._rank.definitions.threads, {slot: len(column) for slot, column in numbers.items()}
        )
        switching = _find_slot_stays(self.definitions.threads, {slot: len(column) for slot, column in rows.items()})
        used = []
        for tid in calling.keys() & switching.keys():
            if len(calling[tid]) > 1 or len(switching[tid]) > 1:
                self._note_problems(
                    f"two threads had the number {tid} one after the other, so Weft does not know "
                    f"which tasks made their calls"
                )
                continue
            [call], [switch] = calling[tid], switching[tid]
            if call.slot not in numbers or switch.slot not in rows:
                continue
            part = self._trusted_switches(rows[switch.slot][switch.first : switch.end], tid)
            of_call = _switch_of_each_call(part, call.end - call.first)
            known = of_call >= 0
            numbers[call.slot][call.first : call.end][known] = part["task"][of_call[known]].astype(np.int64)
            used.append(part[np.unique(of_call[known])])
        every = np.concatenate(used) if used else np.empty(0, SWITCH)
        every = every[every["task"] != 0]
        ids, first = np.unique(every["task"].astype(np.int64), return_index=True)
        return [numbers[thread.slot] for thread in threads], ids, every[first]

    def _read_switches(self, slot: int) -> NDArray[np.generic]:
        data = self._file.stream(StreamKind.EVENTS, slot)
        return data[: len(data) // SWITCH.itemsize * SWITCH.itemsize].view(SWITCH)

    def _trusted_switches(self, rows: NDArray[Any], tid: int) -> NDArray[Any]:
        """Return a thread's switches between tasks up to the first impossible one. If there is one, a problem is noted.
        `tid`: the kernel's number of the thread.
        """
        counted = rows["calls"]
        wrong = np.concatenate([[False], counted[1:] <= counted[:-1]]) if len(rows) else np.empty(0, np.bool_)
        wrong |= (counted >= 2**63) | (rows["task"] >= 2**63)
        if not wrong.any():
            return rows
        end = int(np.argmax(wrong))
        self._note_problems(
            f"switch {end} of thread {tid} is damaged, so Weft does not know which tasks made later calls"
        )
        whole = rows[:end].copy()
        whole["task"][end - 1 :] = 0  # nobody knows where the last one ends
        return whole


def _switch_of_each_call(rows: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return, for each of a thread's first `count` calls, the index of the last task switch before it. -1 if there is
    none, or if the switch covers fewer calls (its `until`).
    """
    calls = np.arange(count, dtype=np.int64)
    counted = rows["calls"].astype(np.int64)
    found = np.searchsorted(counted, calls, side="right") - 1
    until = rows["until"].astype(np.int64)[found] if len(rows) else np.zeros(count, np.int64)
    over = (until > 0) & (calls - counted[found] >= until) if len(rows) else np.zeros(count, np.bool_)
    return np.where(over, -1, found)


def read_task_files(root: Path, problems: list[str]) -> dict[tuple[str, int, str], TaskFile]:
    """Return the files of RUN/tasks that can be read, by (host, process id, job). For each other file, a sentence is
    added to `problems`.
    """
    folder = root / FOLDER
    if not folder.exists():
        return {}
    if os.path.realpath(folder) != os.path.join(os.path.realpath(root), FOLDER):  # noqa: PTH118
        problems.append(
            f"{folder} is a link to {os.path.realpath(folder)}, which Weft does not follow: copy the run with what "
            "its links lead to (cp -rL)"
        )
        return {}
    found: dict[tuple[str, int, str], TaskFile] = {}
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(SUFFIX))[:MAX_FILES]
    except OSError as error:
        problems.append(f"{folder} cannot be read: {error.strerror}")
        return {}
    for name in names:
        try:
            file = TaskFile(folder / name, root)
        except RunError as error:
            problems.append(str(error))
            continue
        key = file.header.host, file.header.pid, file.header.job
        if key in found:
            problems.append(f"{name}: its rank has tasks of two runtimes; Weft uses those in {found[key].name}")
        found.setdefault(key, file)
    return found
