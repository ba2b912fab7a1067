"""Observe one replay from start to end: write the plans for the ranks, watch the ranks, and decide the result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from weft.errors import WeftError
from weft.launch.watch import RankWatch, is_inside_mpi
from weft.replay.control import ControlPage, plan_file
from weft.replay.cuts import Cut, Thread
from weft.replay.driver import Driver
from weft.replay.holds import HeldSends
from weft.replay.layout import CHANNEL, ControlState, Divergence, PlanFlag
from weft.replay.pace import QuietTimer, threads_of_ranks
from weft.replay.plan import RankPlan
from weft.replay.sequence import Conductor
from weft.trace.functions import FunctionTable

STALL = 6.0
"""Seconds (as the ranks have them) without any progress, every rank inside MPI or in waits of ours: a stall."""
IDLE = 2.0
"""The same where every rank is in waits of ours: parked, at its end, or asking for what its record does not give."""
JOINED = 1.0
"""Seconds without any progress after which a thread that sleeps counts as waiting for one that is at its goal."""
SETTLE = 0.2
"""Seconds that a call at the goal has not returned for before its rank counts as stopped in it."""


class Result(Enum):
    """How a replay ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    STALLED = "stalled"
    TIMED_OUT = "timed out"
    REFUSED = "refused"


def is_sure_to_begin(controls: Sequence[ControlPage], plans: Sequence[RankPlan], rank: int) -> bool:
    """Return whether a rank has begun or is sure to begin: it was not spawned, or all its parents have made the call
    that spawns it. False if a spawned rank's parents are unknown.
    """
    if controls[rank].pid or not plans[rank].spawned:
        return True
    calls = plans[rank].parents  # unknown for a rank that runs freely
    return bool(calls) and all(controls[parent].entries_passed(thread) > position for parent, thread, position in calls)


@dataclass
class Replay:
    """A running replay, observed from outside."""

    plans: Sequence[RankPlan]
    cut: Cut = field(default_factory=Cut)
    """Where the ranks stop; without goals they run to their end."""
    hold: bool = False
    """Whether ranks that are at their goals stay there."""
    timeout: float | None = None
    """Seconds after which it is ended wherever it is."""
    conductor: Conductor | None = None
    """Lets one rank at a time go on."""
    driver: Driver | None = None
    """The debugger that sets the goals while the ranks run."""
    result: Result = Result.FINISHED
    settled: bool = False
    outside: set[Thread] = field(default_factory=set)
    """Threads that are outside of MPI: they wait for others of their process, or have ended."""
    controls: list[ControlPage] = field(default_factory=list)
    _quiet: QuietTimer | None = None
    _held: HeldSends | None = None
    _began: float = field(default_factory=time.monotonic)

    def write_plans(self, folder: Path, functions: FunctionTable, *, bounded: bool = False) -> None:
        """Write the files by which the ranks follow the replay, and set their first goals. WeftError if the folder
        cannot be written.
        """
        try:
            folder.mkdir(exist_ok=True)
            for plan in self.plans:
                plan_file(folder, plan.rank).write_bytes(plan.encode(functions, bounded or bool(self.cut.goals)))
                self.controls.append(ControlPage(folder, plan.rank))
            channels = [thread.turns["channel"] for plan in self.plans for thread in plan.threads]
            count = 1 + max((int(c.max()) for c in channels if len(c)), default=-1)
            if count:
                (folder / "turns-000000.bin").write_bytes(bytes(count * CHANNEL.itemsize))
        except OSError as error:
            raise WeftError(f"cannot write the plan of the replay to {folder}: {error.strerror or error}") from error
        for (rank, thread), goal in self.cut.goals.items():
            self.controls[rank].set_goal(goal, thread, self.cut.polls.get((rank, thread), 0))
        if self.conductor is not None:
            self.conductor.start(self.controls)
        elif self.cut.holds and self.driver is None:  # a driver holds them back itself
            self._held = HeldSends(list(self.cut.holds))
            self._set_goals_of_senders(self._held.threads)

    def _set_goals_of_senders(self, threads: Iterable[Thread]) -> None:
        """Stop each of some threads before its first send that still waits, or at its goal."""
        for rank, thread in threads:
            assert self._held is not None
            goal = self.cut.goals.get((rank, thread))
            bound = self._held.bound((rank, thread), goal)
            polls = self.cut.polls.get((rank, thread), 0) if bound == goal else 0
            self.controls[rank].set_goal(bound, thread, polls)

    def check_end(self, watch: RankWatch) -> bool:
        """Look at the ranks once, and return whether the replay has to end. If it has come to a result, `result` is
        set.
        """
        if self.driver is not None:
            watch.still_for = 0.0  # a rank in a deadlock is to be looked at, not to be ended
            return self.driver.over
        if self.note_failure():
            return True
        now = time.monotonic()
        quiet = self._measure_quiet_seconds(watch, now)
        if self._held is not None:
            self._set_goals_of_senders(self._held.release(self.controls, quiet))
        late = self.timeout is not None and now - self._began > self.timeout
        if self.cut.goals and (self.conductor is None or self.conductor.over) and self.is_at_goals(watch, quiet):
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
        """Note whether a rank left its record or could not use its plan, and return whether one did."""
        states = [control.state for control in self.controls]
        if ControlState.DIVERGED in states or ControlState.REFUSED in states:
            self.result = Result.DIVERGED if ControlState.DIVERGED in states else Result.REFUSED
            return True
        return False

    def _measure_quiet_seconds(self, watch: RankWatch, now: float) -> float:
        """Return the seconds without any progress, as the ranks experience them."""
        if self._quiet is None:
            self._quiet = QuietTimer(lambda: threads_of_ranks(self.controls) if watch.is_local else ())
        quiet = self._quiet.seconds_without_progress([control.progress() for control in self.controls], now)
        if quiet:
            watch.look_at_all()
        return quiet

    def _cannot_go_on(self, watch: RankWatch, quiet: float) -> bool:
        """Return whether no rank makes progress any more. A standstill that may still be proven to be a deadlock does
        not count.
        """
        return not watch.is_awaiting_verdict and (self.is_idle(quiet) or (quiet > STALL and self.is_stalled(watch)))

    def is_sure_to_begin(self, rank: int) -> bool:
        """Return whether a rank has begun or is sure to begin. False if it was spawned and its parents are unknown."""
        return is_sure_to_begin(self.controls, self.plans, rank)

    def is_idle(self, quiet: float) -> bool:
        """Return whether every rank waits for the replay: stopped at its goal, at its end, or polling for what its
        record does not give. Polls must have gone on for longer than when they were recorded. False if no rank polls.

        `quiet`: seconds without progress.
        """
        begun = [control for control in self.controls if self.is_sure_to_begin(control.rank)]
        threads = [(c, t) for c in begun for t in range(len(self.plans[c.rank].threads))]
        if any(not (c.state is ControlState.ENDED or c.is_polling(t) or c.is_parked(t)) for c, t in threads):
            return False
        awaited = [
            self.plans[c.rank].threads[t].seconds_before_entry(c.entries_passed(t))
            for c, t in threads
            if c.is_polling(t)
        ]
        return bool(awaited) and quiet > IDLE + 2 * max(awaited)

    def is_at_goals(self, watch: RankWatch, quiet: float) -> bool:
        """Return whether every rank is at its goal: parked there, or inside the last call before it. Threads that are
        outside of MPI are noted in `outside`. `quiet`: seconds without progress.
        """
        settled = True
        self.outside.clear()
        for rank, control in enumerate(self.controls):
            for thread in range(len(self.plans[rank].threads)) if self.is_sure_to_begin(rank) else ():
                goal = self.cut.goals.get((rank, thread))
                if self._held is not None and self._held.find_call_awaited_by(control, thread) is not None:
                    return False
                if control.state is ControlState.ENDED or (goal is not None and control.is_parked(thread)):
                    continue
                if not self._has_reached_its_last_call(watch, rank, thread, quiet):
                    return False
                settled = False
        return settled or quiet > SETTLE

    def _has_reached_its_last_call(self, watch: RankWatch, rank: int, thread: int, quiet: float) -> bool:
        """Return whether a thread that is not parked has come as far as it can: it is inside its last call, outside of
        MPI, or has ended. Threads outside of MPI are noted in `outside`. `quiet`: seconds without progress.
        """
        control, recorded = self.controls[rank], len(self.plans[rank].threads[thread].entries)
        goal = self.cut.goals.get((rank, thread))
        if control.entries_passed(thread) < (recorded if goal is None else goal):
            return False
        if goal is None and self.plans[rank].serves:
            return True
        if thread and control.has_ended(thread):
            self.outside.add((rank, thread))
            return True
        if goal is not None:
            more_to_come = goal < recorded and (thread == 0 or control.thread_id(thread) != 0)
            if not more_to_come and not thread and not self.plans[rank].flags & PlanFlag.OPEN:
                return quiet > IDLE  # it comes to its end, unless it computes for long
            if not more_to_come or ((rank, thread) not in self.cut.firm and self._is_stopped(watch, rank, thread)):
                return True
        if quiet < JOINED or not self._waits_for_other_thread(watch, rank, thread):
            return False
        self.outside.add((rank, thread))
        return True

    def _waits_for_other_thread(self, watch: RankWatch, rank: int, thread: int) -> bool:
        """Return whether a thread sleeps outside of MPI while another thread of its process is stopped in MPI. It then
        waits for the other one.
        """
        control, threads = self.controls[rank], range(len(self.plans[rank].threads))
        stopped = (
            control.is_parked(other) or (control.thread_id(other) and self._is_stopped(watch, rank, other))
            for other in threads if other != thread
        )  # fmt: skip
        return any(stopped) and control.is_asleep(thread)

    def _is_stopped(self, watch: RankWatch, rank: int, thread: int) -> bool:
        """Return whether a thread is inside a call of MPI. True also for a further thread of the process that has not
        called MPI yet.
        """
        tid = self.controls[rank].thread_id(thread)
        if not tid:
            return thread > 0
        files = [f for f in watch.files.values() if f.header is not None and f.header.pid == self.controls[rank].pid]
        waiting = self.controls[rank].threads_awaiting_answer()
        if tid in waiting:
            return True
        return bool(files) and all(
            is_inside_mpi(f, waiting) or any(f.kernel_thread_id(slot) == tid for slot in f.threads_inside_mpi())
            for f in files
        )

    @property
    def has_waiting_thread(self) -> bool:
        """Return whether a thread waits for the next call of its record, which does not come."""
        return any(
            c.is_parked(t) or c.is_polling_beyond_record(t)
            for c in self.controls
            for t in range(len(self.plans[c.rank].threads))
        )

    def is_stalled(self, watch: RankWatch) -> bool:
        """Return whether no thread can be expected to continue: each is inside MPI, stopped at its goal, at its end, or
        polls in vain.
        """
        return all(
            control.state is ControlState.ENDED
            or not self.is_sure_to_begin(rank)
            or control.is_polling()
            or all(
                control.is_parked(t)
                or self._is_stopped(watch, rank, t)
                or self._waits_for_other_thread(watch, rank, t)
                or control.has_ended(t)
                for t in range(len(self.plans[rank].threads))
            )
            for rank, control in enumerate(self.controls)
        ) and not all(control.state is ControlState.ENDED for control in self.controls)

    @property
    def is_checked(self) -> bool:
        """Return whether the record has every call, so that the replay is checked against it."""
        return any(plan.flags & PlanFlag.CHECKED for plan in self.plans)

    @property
    def ranks_without_plan(self) -> list[int]:
        """Return the ranks of spawned worlds that took no plan, as it is unknown which ranks of the record they are."""
        return [c.rank for c in self.controls if self.plans[c.rank].spawned and not c.pid]

    @property
    def has_passed_goals(self) -> bool:
        """Return whether a replay that was to stop ran to its end and came past all its goals, so that no rank had
        to stop.
        """
        return self.result is Result.FINISHED and bool(self.cut.goals) and all(
            self.controls[rank].entries_passed(thread) >= goal for (rank, thread), goal in self.cut.goals.items()
        )  # fmt: skip

    def diverged_ranks(self) -> list[tuple[int, Divergence, dict[str, int]]]:
        """Return (rank, reason, numbers of the reason) for each rank that left its record."""
        return [(c.rank, *found) for c in self.controls if (found := c.divergence) is not None]

    def unfinished_threads(self) -> list[tuple[int, int, int]]:
        """Return (rank, calls made, calls recorded) for each thread that made fewer calls than recorded."""
        found = []
        for control, plan in zip(self.controls, self.plans, strict=True):
            if control.rank in self.ranks_without_plan:
                continue
            for thread, threads_plan in enumerate(plan.threads):
                if control.entries_passed(thread) < len(threads_plan.entries):
                    found.append((plan.rank, control.entries_passed(thread), len(threads_plan.entries)))
        return found
