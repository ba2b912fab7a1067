"""One replay from start to end: the plans laid out for the ranks, the ranks watched, what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from weft.errors import WeftError
from weft.launch.watch import RankWatch, is_inside_mpi
from weft.replay.control import Control, plan_file
from weft.replay.cuts import Cut, Thread
from weft.replay.driver import Driver
from weft.replay.layout import CHANNEL, ControlState, Divergence, PlanFlag
from weft.replay.pace import Quiet, tasks_of
from weft.replay.plan import RankPlan
from weft.replay.sequence import Conductor
from weft.trace.functions import FunctionTable

STALL = 6.0
"""Seconds (as the ranks have them) without any progress, every rank inside MPI or in waits of ours: a stall."""
IDLE = 2.0
"""The same where every rank is in waits of ours: parked, at its end, or asking for what its record does not give."""
JOINED = 1.0
"""Seconds without any progress after which a thread that sleeps counts as waiting for one that stands at its goal."""
SETTLE = 0.2
"""Seconds that a call at the goal has not returned for before its rank counts as standing in it."""


class Result(Enum):
    """How a replay came out."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    STALLED = "stalled"
    TIMED_OUT = "timed out"
    REFUSED = "refused"


def begun(controls: Sequence[Control], plans: Sequence[RankPlan], rank: int) -> bool:
    """Whether a rank has begun, or is sure to: all its parents have made the call that spawns it."""
    if controls[rank].pid or not plans[rank].spawned:
        return True
    calls = plans[rank].parents  # none are known of one that runs freely
    return bool(calls) and all(controls[parent].at(thread) > position for parent, thread, position in calls)


@dataclass
class Replay:
    """A running replay, seen from outside."""

    plans: Sequence[RankPlan]
    cut: Cut = field(default_factory=Cut)
    """Where the ranks stop; without goals they run to their end."""
    hold: bool = False
    """Whether ranks that stand at their goals are left there."""
    timeout: float | None = None
    """Seconds after which it is ended wherever it is."""
    conductor: Conductor | None = None
    """Lets one rank at a time go on."""
    driver: Driver | None = None
    """The debugger that sets the goals while the ranks run."""
    result: Result = Result.FINISHED
    settled: bool = False
    outside: set[Thread] = field(default_factory=set)
    """Threads that stand outside of MPI: they wait for others of their process, or have ended."""
    controls: list[Control] = field(default_factory=list)
    _quiet: Quiet | None = None
    _began: float = field(default_factory=time.monotonic)

    def lay_out(self, folder: Path, functions: FunctionTable, *, bounded: bool = False) -> None:
        """Write what the ranks read. WeftError where the folder cannot be written."""
        try:
            folder.mkdir(exist_ok=True)
            for plan in self.plans:
                plan_file(folder, plan.rank).write_bytes(plan.encode(functions, bounded or bool(self.cut.goals)))
                self.controls.append(Control(folder, plan.rank))
            channels = [thread.turns["channel"] for plan in self.plans for thread in plan.threads]
            count = 1 + max((int(c.max()) for c in channels if len(c)), default=-1)
            if count:
                (folder / "turns-000000.bin").write_bytes(bytes(count * CHANNEL.itemsize))
        except OSError as error:
            raise WeftError(f"cannot write the plan of the replay to {folder}: {error.strerror or error}") from error
        for (rank, thread), goal in self.cut.goals.items():
            self.controls[rank].set_goal(goal, thread, self.cut.polls.get((rank, thread), 0))
        if self.conductor is not None:
            self.conductor.begin(self.controls)

    def observe(self, watch: RankWatch) -> bool:
        """Look at the ranks; true when the replay is to be ended."""
        if self.driver is not None:
            watch.still_for = 0.0  # a rank that stands in a deadlock is there to be looked at, not to be ended
            return self.driver.over
        if self.note_failure():
            return True
        now = time.monotonic()
        quiet = self._quiet_for(watch, now)
        late = self.timeout is not None and now - self._began > self.timeout
        if self.cut.goals and (self.conductor is None or self.conductor.over) and self.at_goals(watch, quiet):
            self.settled, self.result = True, Result.STOPPED
            return not self.hold or late
        if quiet > IDLE and self._cannot_go_on(watch, quiet):
            self.result = Result.STALLED
            return True
        if late:
            self.result = Result.TIMED_OUT
            return True
        return False

    def note_failure(self) -> bool:
        """Note that a rank left its record or could not use its plan: whether one did. Asked at the end, too.

        A program may be over before anybody has looked.
        """
        states = [control.state for control in self.controls]
        if ControlState.DIVERGED in states or ControlState.REFUSED in states:
            self.result = Result.DIVERGED if ControlState.DIVERGED in states else Result.REFUSED
            return True
        return False

    def _quiet_for(self, watch: RankWatch, now: float) -> float:
        """Seconds without any progress, as the ranks have them."""
        if self._quiet is None:
            self._quiet = Quiet(lambda: tasks_of(self.controls) if watch.is_local else ())
        quiet = self._quiet.seconds([control.progress() for control in self.controls], now)
        if quiet:
            watch.look_at_all()
        return quiet

    def _cannot_go_on(self, watch: RankWatch, quiet: float) -> bool:
        """Whether no rank goes on. A standstill that may be proven to be a deadlock is no stall."""
        return not watch.is_awaiting_verdict and (self.idle(quiet) or (quiet > STALL and self.stalled(watch)))

    def begun(self, rank: int) -> bool:
        """Whether a rank has begun, or is sure to."""
        return begun(self.controls, self.plans, rank)

    def idle(self, quiet: float) -> bool:
        """Whether every rank is in waits of ours, and none polls for less time than it did when it was recorded."""
        begun = [control for control in self.controls if self.begun(control.rank)]
        threads = [(c, t) for c in begun for t in range(len(self.plans[c.rank].threads))]
        if any(not (c.state is ControlState.ENDED or c.polling(t) or c.parked(t)) for c, t in threads):
            return False
        awaited = [self.plans[c.rank].threads[t].gap(c.at(t)) for c, t in threads if c.polling(t)]
        return bool(awaited) and quiet > IDLE + 2 * max(awaited)

    def at_goals(self, watch: RankWatch, quiet: float) -> bool:
        """Whether every rank stands at its goal: parked, or inside the last call before it."""
        settled = True
        self.outside.clear()
        for rank, control in enumerate(self.controls):
            for thread in range(len(self.plans[rank].threads)) if self.begun(rank) else ():
                goal = self.cut.goals.get((rank, thread))
                if control.state is ControlState.ENDED or (goal is not None and control.parked(thread)):
                    continue
                if not self._behind_all(watch, rank, thread, quiet):
                    return False
                settled = False
        return settled or quiet > SETTLE

    def _behind_all(self, watch: RankWatch, rank: int, thread: int, quiet: float) -> bool:
        """Whether a thread that is not parked has come as far as it can: inside its last call, or outside of MPI."""
        control, recorded = self.controls[rank], len(self.plans[rank].threads[thread].entries)
        goal = self.cut.goals.get((rank, thread))
        if control.at(thread) < (recorded if goal is None else goal):
            return False
        if goal is None and self.plans[rank].serves:
            return True
        if thread and control.over(thread):
            self.outside.add((rank, thread))
            return True
        if goal is not None:
            more_to_come = goal < recorded and (thread == 0 or control.tid(thread) != 0)
            if not more_to_come and not thread and not self.plans[rank].flags & PlanFlag.OPEN:
                return quiet > IDLE  # it comes to its end, unless it computes for long
            if not more_to_come or ((rank, thread) not in self.cut.firm and self._still(watch, rank, thread)):
                return True
        if quiet < JOINED or not self._joins(watch, rank, thread):
            return False
        self.outside.add((rank, thread))
        return True

    def _joins(self, watch: RankWatch, rank: int, thread: int) -> bool:
        """Whether a thread sleeps outside of MPI beside one that stands in it: it waits for that one."""
        control, threads = self.controls[rank], range(len(self.plans[rank].threads))
        standing = (
            control.parked(other) or (control.tid(other) and self._still(watch, rank, other))
            for other in threads if other != thread
        )  # fmt: skip
        return any(standing) and control.asleep(thread)

    def _still(self, watch: RankWatch, rank: int, thread: int) -> bool:
        """Whether a thread is inside MPI, or has not begun, or has ended."""
        tid = self.controls[rank].tid(thread)
        if not tid:
            return thread > 0
        files = [f for f in watch.files.values() if f.header is not None and f.header.pid == self.controls[rank].pid]
        waiting = self.controls[rank].waiting()
        if tid in waiting:
            return True
        return bool(files) and all(
            is_inside_mpi(f, waiting) or any(f.kernel_thread_id(slot) == tid for slot in f.threads_inside_mpi())
            for f in files
        )

    @property
    def held(self) -> bool:
        """Whether a thread waits for what its record says next, which does not come."""
        return any(c.parked(t) or c.held(t) for c in self.controls for t in range(len(self.plans[c.rank].threads)))

    def stalled(self, watch: RankWatch) -> bool:
        """Whether no thread can be expected to go on: each is inside MPI, parked, at its end, or asks in vain."""
        return all(
            control.state is ControlState.ENDED
            or not self.begun(rank)
            or control.polling()
            or all(
                control.parked(t) or self._still(watch, rank, t) or self._joins(watch, rank, t) or control.over(t)
                for t in range(len(self.plans[rank].threads))
            )
            for rank, control in enumerate(self.controls)
        ) and not all(control.state is ControlState.ENDED for control in self.controls)

    @property
    def checked(self) -> bool:
        """Whether the record says every call, so that the replay is held against it."""
        return any(plan.flags & PlanFlag.CHECKED for plan in self.plans)

    @property
    def free(self) -> list[int]:
        """Ranks of spawned worlds that took no plan up, as it is not known which of the record's they are."""
        return [c.rank for c in self.controls if self.plans[c.rank].spawned and not c.pid]

    @property
    def to_its_goals(self) -> bool:
        """Whether a replay that was to stop came to its end, as no rank had a stop to come to."""
        return self.result is Result.FINISHED and bool(self.cut.goals) and all(
            self.controls[rank].at(thread) >= goal for (rank, thread), goal in self.cut.goals.items()
        )  # fmt: skip

    def diverged(self) -> list[tuple[int, Divergence, dict[str, int]]]:
        """The ranks that left their record: rank, why, and the numbers."""
        return [(c.rank, *found) for c in self.controls if (found := c.divergence) is not None]

    def unfinished(self) -> list[tuple[int, int, int]]:
        """Ranks that made fewer calls than recorded: rank, calls made, calls recorded."""
        found = []
        for control, plan in zip(self.controls, self.plans, strict=True):
            if control.rank in self.free:
                continue
            for thread, threads_plan in enumerate(plan.threads):
                if control.at(thread) < len(threads_plan.entries):
                    found.append((plan.rank, control.at(thread), len(threads_plan.entries)))
        return found
