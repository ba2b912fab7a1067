"""Time as the ranks have it: what a busy machine takes from them is not counted.

Linux tells of each thread how long it was ready to run and another one ran (`/proc/PID/task/TID/schedstat`, the second
number, in nanoseconds). A limit of so many seconds without progress means seconds in which every rank could have gone
on: on a machine with five times as many busy processes as cores it takes five times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from weft.replay.control import Control

Task = tuple[int, int]
"""A process and one of its threads, by the kernel's ids."""

LOOK: Final = 0.1
"""Seconds without any progress after which the ranks' own time is counted."""
LEAST: Final = 0.05
"""The share of the clock's time that counts at least: nothing waits without end, however busy the machine is."""
ASKED: Final = 0.0005
"""Seconds between two looks, for each thread that is looked at: so it costs a few parts in a hundred of a core."""


class Quiet:
    """How long nothing has changed. `tasks`: the threads whose time it is, when they begin to be quiet."""

    def __init__(self, tasks: Callable[[], Iterable[Task]]) -> None:
        self.tasks = tasks
        self._progress: object = None
        self._since = 0.0
        self._pace: Pace | None = None

    def seconds(self, progress: object, now: float) -> float:
        """Seconds since `progress` was another, as the thread has them that got least of the machine."""
        if progress != self._progress:
            self._progress, self._since, self._pace = progress, now, None
        if now - self._since <= LOOK:
            return 0.0
        if self._pace is None:
            self._pace = Pace(self.tasks(), now)
        return LOOK + self._pace.seconds(now)


class Pace:
    """Seconds since a moment, without those for which the thread that was held up most waited for a processor."""

    def __init__(self, tasks: Iterable[Task], now: float) -> None:
        self.began = now
        self._before = {task: waited(*task) for task in tasks}
        self._lost, self._asked = 0.0, now

    def seconds(self, now: float) -> float:
        """How long it is, as the slowest thread has it. Threads that have ended or cannot be asked do not count."""
        if now - self._asked >= ASKED * len(self._before):
            self._asked = now
            self._lost = max((waited(*task) - before for task, before in self._before.items()), default=0.0)
        gone = now - self.began
        return max(gone - max(self._lost, 0.0), LEAST * gone)


def waited(pid: int, tid: int) -> float:
    """Seconds that a thread was ready and had no processor; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def tasks_of(controls: Sequence[Control]) -> list[Task]:
    """The threads of all ranks that have begun."""
    return [(c.pid, tid) for c in controls if c.pid for tid in {c.pid, *c.tids()}]
