"""Time without progress as the ranks experience it: time that a busy machine takes from them is not counted.

Linux records for each thread how long it was ready to run while another one ran (`/proc/PID/task/TID/schedstat`, the
second number, in nanoseconds). A limit of so many seconds without progress means seconds in which every rank could have
gone on: on a machine with five times as many busy processes as cores it takes five times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from weft.replay.control import ControlPage

Task = tuple[int, int]
"""A process and one of its threads, by the kernel's ids."""

LOOK: Final = 0.1
"""Seconds without any progress after which the ranks' own time is counted."""
LEAST: Final = 0.05
"""The share of the clock's time that counts at least: nothing waits without end, however busy the machine is."""
ASKED: Final = 0.0005
"""Seconds between two looks, for each thread that is looked at: so it costs a few parts in a hundred of a core."""


class QuietTimer:
    """Measure how long nothing has changed. `tasks` returns the threads whose time counts, once they are quiet."""

    def __init__(self, tasks: Callable[[], Iterable[Task]]) -> None:
        self.tasks = tasks
        self._progress: object = None
        self._since = 0.0
        self._pace: ProcessorTimer | None = None

    def seconds_without_progress(self, progress: object, now: float) -> float:
        """Return for how many seconds `progress` has not changed, as experienced by the thread that got the least
        processor time.
        """
        if progress != self._progress:
            self._progress, self._since, self._pace = progress, now, None
        if now - self._since <= LOOK:
            return 0.0
        if self._pace is None:
            self._pace = ProcessorTimer(self.tasks(), now)
        return LOOK + self._pace.elapsed(now)


class ProcessorTimer:
    """Measure seconds since a moment, without those for which the slowest thread waited for a processor."""

    def __init__(self, tasks: Iterable[Task], now: float) -> None:
        self.began = now
        self._before = {task: seconds_without_processor(*task) for task in tasks}
        self._lost, self._asked = 0.0, now

    def elapsed(self, now: float) -> float:
        """Return the seconds since the begin as the slowest thread experienced them. Threads that have ended or cannot
        be read do not count.
        """
        if now - self._asked >= ASKED * len(self._before):
            self._asked = now
            self._lost = max(
                (seconds_without_processor(*task) - before for task, before in self._before.items()), default=0.0
            )
        gone = now - self.began
        return max(gone - max(self._lost, 0.0), LEAST * gone)


def seconds_without_processor(pid: int, tid: int) -> float:
    """Return for how many seconds a thread was ready to run without a processor; 0 if the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def threads_of_ranks(controls: Sequence[ControlPage]) -> list[Task]:
    """Return (process, thread) ids of all threads of ranks that have begun."""
    return [(c.pid, tid) for c in controls if c.pid for tid in {c.pid, *c.thread_ids()}]
