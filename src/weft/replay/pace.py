"""Time as the ranks have it: what a busy machine takes from them is not counted.

Linux tells of each thread how long it was ready to run and another one ran (`/proc/PID/task/TID/schedstat`, the second
number, in nanoseconds). A limit of so many seconds without progress means seconds in which every rank could have gone
on: on a machine with five times as many busy processes as cores it takes five times as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

Task = tuple[int, int]
"""A process and one of its threads, by the kernel's ids."""

LEAST: Final = 0.05
"""The share of the clock's time that counts at least: nothing waits without end, however busy the machine is."""


class Pace:
    """Seconds since a moment, without those for which the thread that was held up most waited for a processor."""

    def __init__(self, tasks: Iterable[Task], now: float) -> None:
        self.began = now
        self._before = {task: waited(*task) for task in tasks}

    def seconds(self, now: float) -> float:
        """How long it is, as the slowest thread has it. Threads that have ended or cannot be asked do not count."""
        gone = now - self.began
        lost = max((waited(*task) - before for task, before in self._before.items()), default=0.0)
        return max(gone - max(lost, 0.0), LEAST * gone)


def waited(pid: int, tid: int) -> float:
    """Seconds that a thread was ready and had no processor; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
