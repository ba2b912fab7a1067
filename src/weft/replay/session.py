"""One replay from start to end: the plans laid out for the ranks, the ranks watched, what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from weft.errors import WeftError
from weft.launch.watch import Watch, inside
from weft.replay.control import Control, plan_file
from weft.replay.layout import ControlState, Divergence, PlanFlag
from weft.replay.plan import RankPlan
from weft.replay.points import Goals
from weft.trace.functions import FunctionTable

STALL = 10.0
"""Seconds without any progress, every rank inside MPI or asking for what its record does not give, that are a stall."""
SETTLE = 0.3
"""Seconds that a call at the goal has not returned for before its rank counts as standing in it."""


class Result(Enum):
    """How a replay came out."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    STALLED = "stalled"
    REFUSED = "refused"


@dataclass
class Session:
    """A running replay, seen from outside."""

    plans: Sequence[RankPlan]
    goals: Goals = field(default_factory=dict)
    hold: bool = False
    """Whether ranks that stand at their goals are left there."""
    driven: Path | None = None
    """The folder of a debugger that sets the goals while the ranks run, and says when it is over."""
    result: Result = Result.FINISHED
    settled: bool = False
    controls: list[Control] = field(default_factory=list)
    _progress: object = None
    _since: float = 0.0
    _parent: int = field(default_factory=os.getppid)

    def lay_out(self, folder: Path, functions: FunctionTable, *, bounded: bool = False) -> None:
        """Write what the ranks read. WeftError where the folder cannot be written."""
        try:
            folder.mkdir(exist_ok=True)
            for plan in self.plans:
                plan_file(folder, plan.rank).write_bytes(plan.encode(functions, bounded or bool(self.goals)))
                self.controls.append(Control(folder, plan.rank))
        except OSError as error:
            raise WeftError(f"cannot write the plan of the replay to {folder}: {error.strerror or error}") from error
        for (rank, thread), goal in self.goals.items():
            self.controls[rank].set_goal(goal, thread)

    def observe(self, watch: Watch) -> bool:
        """Look at the ranks; true when the replay is to be ended."""
        if self.driven is not None:
            watch.still_for = 0.0  # a rank that stands in a deadlock is there to be looked at, not to be ended
            return (self.driven / "end").exists() or os.getppid() != self._parent
        states = [control.state for control in self.controls]
        if ControlState.DIVERGED in states or ControlState.REFUSED in states:
            self.result = Result.DIVERGED if ControlState.DIVERGED in states else Result.REFUSED
            return True
        now = time.monotonic()
        progress = [control.progress() for control in self.controls]
        if progress != self._progress:
            self._progress, self._since = progress, now
        if self.goals and self.at_goals(watch, now):
            self.settled, self.result = True, Result.STOPPED
            return not self.hold
        if now - self._since > STALL and self.stalled(watch):
            self.result = Result.STALLED
            return True
        return False

    def at_goals(self, watch: Watch, now: float) -> bool:
        """Whether every rank stands at its goal: parked, or inside the last call before it."""
        waiting = []
        for rank, control in enumerate(self.controls):
            for thread in range(len(self.plans[rank].threads)):
                goal = self.goals.get((rank, thread))
                if goal is None or control.parked(thread) or control.state is ControlState.ENDED:
                    continue
                if control.at(thread) < goal:
                    return False
                waiting.append(rank)
        if any((rank, thread) not in self.goals and self.controls[rank].state is not ControlState.ENDED
               for rank, plan in enumerate(self.plans) for thread in range(len(plan.threads))):  # fmt: skip
            return False
        return not waiting or (now - self._since > SETTLE and all(self._inside(watch, rank) for rank in waiting))

    def _inside(self, watch: Watch, rank: int) -> bool:
        files = [f for f in watch.files.values() if f.header is not None and f.header.rank == self.plans[rank].rank]
        return bool(files) and all(inside(f) for f in files)

    def stalled(self, watch: Watch) -> bool:
        """Whether no rank can be expected to go on: each is inside MPI, parked, at its end, or asks in vain."""
        return all(
            control.state is ControlState.ENDED or control.polling() or control.parked() or self._inside(watch, rank)
            for rank, control in enumerate(self.controls)
        ) and not all(control.state is ControlState.ENDED for control in self.controls)

    @property
    def checked(self) -> bool:
        """Whether the record says every call, so that the replay is held against it."""
        return any(plan.flags & PlanFlag.CHECKED for plan in self.plans)

    def diverged(self) -> list[tuple[int, Divergence, dict[str, int]]]:
        """The ranks that left their record: rank, why, and the numbers."""
        return [(c.rank, *found) for c in self.controls if (found := c.divergence) is not None]

    def unfinished(self) -> list[tuple[int, int, int]]:
        """Ranks that made fewer calls than recorded: rank, calls made, calls recorded."""
        found = []
        for control, plan in zip(self.controls, self.plans, strict=True):
            for thread, threads_plan in enumerate(plan.threads):
                if control.at(thread) < len(threads_plan.entries):
                    found.append((plan.rank, control.at(thread), len(threads_plan.entries)))
        return found
