"""Control the ranks of a running replay: one page of shared memory for each, in a file."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np

from weft.replay.layout import (
    CONTROL,
    CONTROL_MAGIC,
    CONTROL_SIZE,
    CONTROL_THREADS,
    GOAL_NONE,
    ControlState,
    Divergence,
)

_FUTEX = ("202", "98")
"""The system call that a thread sleeps in until another one wakes it, on x86-64 and AArch64."""


def plan_file(folder: Path, rank: int) -> Path:
    """Return the path of a rank's plan."""
    return folder / f"plan-{rank:06d}.bin"


class ControlPage:
    """The control page of one rank. `made`: another process has created the file already, and it is only read."""

    def __init__(self, folder: Path, rank: int, *, exists: bool = False) -> None:
        self.rank = rank
        path = folder / f"control-{rank:06d}.bin"
        if not exists:
            path.write_bytes(bytes(CONTROL_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), CONTROL_SIZE)
        self.page: Any = np.frombuffer(self._map, CONTROL, count=1)
        if not exists:
            self.page["thread"]["goal"] = GOAL_NONE
            self.page["magic"] = CONTROL_MAGIC

    @property
    def state(self) -> ControlState:
        """Return how far the rank is."""
        return ControlState(int(self.page["state"][0]))

    @property
    def pid(self) -> int:
        """Return the rank's process, 0 before it began."""
        return int(self.page["pid"][0])

    def set_goal(self, position: int | None, thread: int | None = None, polls: int = 0) -> None:
        """Let a thread, by default each of the rank's threads, pass `position` entries (recorded calls) of its plan and
        then stop there (park). None removes the goal.

        `polls`: how many more failed polls, such as MPI_Test, it makes there before it stops.
        """
        goal = GOAL_NONE if position is None else position
        which = slice(None) if thread is None else thread
        self.page["thread"]["goal_polls"][0, which] = polls  # first: a goal never counts with the polls of another
        self.page["thread"]["goal"][0, which] = goal

    def goal_polls(self, thread: int = 0) -> int:
        """Return how many failed polls a thread makes at its goal before it stops."""
        return int(self.page["thread"]["goal_polls"][0, thread])

    def entries_passed(self, thread: int = 0) -> int:
        """Return the number of entries that a thread has passed."""
        return int(self.page["thread"]["at"][0, thread])

    def thread_id(self, thread: int = 0) -> int:
        """Return the kernel's id of a thread, 0 before its first call."""
        return int(self.page["thread"]["tid"][0, thread])

    def thread_ids(self) -> list[int]:
        """Return the kernel's ids of all threads that have made a call."""
        return [tid for tid in self.page["thread"]["tid"][0].tolist() if tid]

    def is_parked(self, thread: int = 0) -> bool:
        """Return whether a thread has stopped at its goal."""
        return bool(self.page["thread"]["parked"][0, thread])

    def is_polling(self, thread: int | None = None) -> bool:
        """Return whether a thread, by default any, still polls (as with MPI_Test) although its record goes on with
        another call or has ended.
        """
        threads = self.page["thread"][0, slice(None) if thread is None else thread]
        return bool((threads["polling"] | threads["free_polls"]).any())

    def is_polling_beyond_record(self, thread: int = 0) -> bool:
        """Return whether a thread goes on polling although its record goes on with another call."""
        return bool(self.page["thread"]["polling"][0, thread])

    def has_ended(self, thread: int = 0) -> bool:
        """Return whether a thread, or its process, has ended."""
        tid = self.thread_id(thread) or (self.pid if thread == 0 else 0)
        return bool(self.pid and tid) and not Path(f"/proc/{self.pid}/task/{tid}").exists()

    def is_asleep(self, thread: int = 0) -> bool:
        """Return whether a thread sleeps until another one wakes it (a join, a lock), not for a fixed time."""
        tid = self.thread_id(thread) or (self.pid if thread == 0 else 0)
        task = Path(f"/proc/{self.pid}/task/{tid}")
        try:
            return (task / "syscall").read_text().split()[0] in _FUTEX
        except PermissionError:  # the system shows its calls to debuggers only
            return (task / "stat").read_text().rpartition(")")[2].split()[0] == "S"
        except OSError:
            return False

    def is_polling_after_end(self, thread: int = 0) -> bool:
        """Return whether a thread polls after the end of its record."""
        return bool(self.page["thread"]["free_polls"][0, thread])

    def threads_awaiting_answer(self) -> list[int]:
        """Return the kernel's ids of the threads that wait inside a poll of MPI (such as MPI_Test). The record says
        that this poll succeeds, and the message for that has not arrived yet.
        """
        threads = self.page["thread"][0]
        return [tid for tid in threads["tid"][threads["waits"] != 0].tolist() if tid]

    def is_past_record(self) -> bool:
        """Return whether a thread of the rank has gone past the end of its record."""
        return bool(self.page["thread"]["behind"][0].any())

    def progress(self) -> tuple[int, ...]:
        """Return numbers that change whenever the rank makes progress, to be compared with those of an earlier look."""
        threads = self.page["thread"][0, :CONTROL_THREADS]
        return (int(self.state), *threads["at"].tolist(), *threads["behind"].tolist())

    @property
    def divergence(self) -> tuple[Divergence, dict[str, int]] | None:
        """Return why the rank does not follow its record, and the numbers that belong to this reason by name
        (recorder/plan.h). None if it follows the record.
        """
        fields = {name: int(self.page["diverged"][name][0]) for name in self.page["diverged"].dtype.names}
        return (Divergence(fields["why"]), fields) if fields["why"] else None
