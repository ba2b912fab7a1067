"""Speaking with the ranks of a running replay: one page of memory each, shared through a file."""

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
    """Where the plan of a rank lies."""
    return folder / f"plan-{rank:06d}.bin"


class Control:
    """The page of one rank. `made`: another process has made it already, and it is only looked at."""

    def __init__(self, folder: Path, rank: int, *, made: bool = False) -> None:
        self.rank = rank
        path = folder / f"control-{rank:06d}.bin"
        if not made:
            path.write_bytes(bytes(CONTROL_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), CONTROL_SIZE)
        self.page: Any = np.frombuffer(self._map, CONTROL, count=1)
        if not made:
            self.page["thread"]["goal"] = GOAL_NONE
            self.page["magic"] = CONTROL_MAGIC

    @property
    def state(self) -> ControlState:
        """How far the rank is."""
        return ControlState(int(self.page["state"][0]))

    @property
    def pid(self) -> int:
        """The rank's process, 0 before it began."""
        return int(self.page["pid"][0])

    def set_goal(self, position: int | None, thread: int | None = None, polls: int = 0) -> None:
        """Let a thread (all of them) pass this many entries of its plan and then park; None: no goal.

        `polls`: how many more failed polls it makes there before it parks.
        """
        goal = GOAL_NONE if position is None else position
        which = slice(None) if thread is None else thread
        self.page["thread"]["goal_polls"][0, which] = polls  # first: a goal never counts with the polls of another
        self.page["thread"]["goal"][0, which] = goal

    def goal_polls(self, thread: int = 0) -> int:
        """Failed polls that a thread makes at its goal before it parks."""
        return int(self.page["thread"]["goal_polls"][0, thread])

    def at(self, thread: int = 0) -> int:
        """Entries that a thread has passed."""
        return int(self.page["thread"]["at"][0, thread])

    def tid(self, thread: int = 0) -> int:
        """The kernel's id of a thread, 0 before its first call."""
        return int(self.page["thread"]["tid"][0, thread])

    def tids(self) -> list[int]:
        """The kernel's ids of all threads that have made a call."""
        return [tid for tid in self.page["thread"]["tid"][0].tolist() if tid]

    def parked(self, thread: int = 0) -> bool:
        """Whether a thread stands at its goal."""
        return bool(self.page["thread"]["parked"][0, thread])

    def polling(self, thread: int | None = None) -> bool:
        """Whether a thread (any) polls on though its record goes on with something else, or is at its end."""
        threads = self.page["thread"][0, slice(None) if thread is None else thread]
        return bool((threads["polling"] | threads["free_polls"]).any())

    def held(self, thread: int = 0) -> bool:
        """Whether a thread polls on though its record goes on with something else."""
        return bool(self.page["thread"]["polling"][0, thread])

    def over(self, thread: int = 0) -> bool:
        """Whether a thread that was there is there no more, or its process is not."""
        tid = self.tid(thread) or (self.pid if thread == 0 else 0)
        return bool(self.pid and tid) and not Path(f"/proc/{self.pid}/task/{tid}").exists()

    def asleep(self, thread: int = 0) -> bool:
        """Whether a thread sleeps until another one wakes it (a join, a lock), not for some time."""
        tid = self.tid(thread) or (self.pid if thread == 0 else 0)
        task = Path(f"/proc/{self.pid}/task/{tid}")
        try:
            return (task / "syscall").read_text().split()[0] in _FUTEX
        except PermissionError:  # the system shows its calls to debuggers only
            return (task / "stat").read_text().rpartition(")")[2].split()[0] == "S"
        except OSError:
            return False

    def unanswered(self, thread: int = 0) -> bool:
        """Whether a thread polls where its record has no more."""
        return bool(self.page["thread"]["free_polls"][0, thread])

    def waiting(self) -> list[int]:
        """The kernel's ids of threads that are inside a poll which is to succeed, and wait for what answers it."""
        threads = self.page["thread"][0]
        return [tid for tid in threads["tid"][threads["waits"] != 0].tolist() if tid]

    def behind(self) -> bool:
        """Whether a thread is behind the end of its record."""
        return bool(self.page["thread"]["behind"][0].any())

    def progress(self) -> tuple[int, ...]:
        """What changes whenever the rank gets on."""
        threads = self.page["thread"][0, :CONTROL_THREADS]
        return (int(self.state), *threads["at"].tolist(), *threads["behind"].tolist())

    @property
    def divergence(self) -> tuple[Divergence, dict[str, int]] | None:
        """Why the rank does not follow its record, with the numbers of plan.h."""
        fields = {name: int(self.page["diverged"][name][0]) for name in self.page["diverged"].dtype.names}
        return (Divergence(fields["why"]), fields) if fields["why"] else None
