"""Sequential replay: bring one rank at a time to its goal, and others only as far as it needs them (dbxR-II, 3.3.1).

The steps are known before the replay starts, from the order of the record; a thread gives the ranks their goals one by
one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from weft.base.event_id import EventId
from weft.errors import UsageError
from weft.mpi.meaning import pvm
from weft.replay.control import ControlPage
from weft.replay.cuts import Cut, Cuts
from weft.replay.layout import ControlState, EntryFlag, PlanFlag
from weft.replay.plan import RankPlan

LOOK = 0.0003
"""Seconds between looks at the rank whose turn it is."""
LEAVING = 0.02
"""Seconds that a call has to return once it was begun, where others need no more than its beginning."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rank goes on until it has passed `goal` entries of its plan.

    `inside`: it may not return from the last of these calls before others go on, as in a collective.
    """

    rank: int
    goal: int
    inside: bool = False


def plan_steps(cuts: Cuts, plans: Sequence[RankPlan], cut: Cut) -> list[Step]:
    """Return the steps that bring the ranks, one after the other, to a cut or to their ends. UsageError if ranks have
    several threads or use locks of windows.
    """
    if any(len(plan.threads) > 1 or plan.flags & PlanFlag.TURNS for plan in plans):
        raise UsageError(
            "--sequential works for ranks with one communicating thread and without window locks only: leave "
            "--sequential out"
        )
    return _StepPlanner(cuts, plans).plan_steps_to(cut)


class _StepPlanner:
    """Walk along the record in a possible order of its calls, one rank as long as possible."""

    def __init__(self, cuts: Cuts, plans: Sequence[RankPlan]) -> None:
        self.cuts = cuts
        self.plans = plans
        self.done = [0] * len(plans)
        self.found: list[Step] = []

    def plan_steps_to(self, cut: Cut) -> list[Step]:
        """Return the steps that bring each rank to the cut, the ranks of the requested events first."""
        goals = [cut.goals.get((rank, 0), len(plan.threads[0].entries)) for rank, plan in enumerate(self.plans)]
        first = [rank for rank, _ in cut.asked]
        for rank in dict.fromkeys([*first, *range(len(goals))]):
            self._bring_rank_to(rank, goals[rank])
        return self.found

    def _bring_rank_to(self, rank: int, goal: int) -> None:
        """Add the steps that bring a rank to a goal. Before each of its calls, steps are added that bring the other
        ranks as far as this call needs.
        """
        waiting = [(rank, goal)]
        looked: dict[tuple[int, int], int] = {}
        while waiting:
            rank, goal = waiting[-1]
            if self.done[rank] >= goal:
                waiting.pop()
                continue
            needed = self._find_needs_of_call(rank, self.done[rank])
            lacking = [(other, its - (not firm)) for other, its, firm in needed if its - (not firm) > self.done[other]]
            if lacking:
                if looked.setdefault((rank, self.done[rank]), len(waiting)) < len(waiting):
                    raise UsageError(
                        "--sequential: the record is damaged, because its calls wait for each other in a circle: "
                        "leave --sequential out"
                    )
                waiting += lacking
                continue
            for other, its, firm in needed:
                if not firm and its > self.done[other]:
                    self._add_step(other, its, inside=True)
            self._add_step(rank, self.done[rank] + 1, inside=self._is_open(rank, self.done[rank]))

    def _find_needs_of_call(self, rank: int, position: int) -> list[tuple[int, int, bool]]:
        """Return how far other ranks must be before a call of a rank can return: (rank, entries of its plan, whether
        the last of these entries has to end). Ranks that are so far already are left out.
        """
        event = int(self.plans[rank].threads[0].entries["event"][position])
        past = self.cuts.least_cut_reaching([EventId(rank, event)], include_calls=True)
        call = self.cuts.trace.ranks[rank].event(event)
        if call.function.name == pvm.KILL and 0 <= call.peer < len(self.plans):
            past.goals[call.peer, 0] = len(self.plans[call.peer].threads[0].entries)  # it had done so much
            past.firm.add((call.peer, 0))
        return [
            (other, its, (other, slot) in past.firm)
            for (other, slot), its in past.goals.items()
            if other != rank and its > self.done[other]
        ]

    def _is_open(self, rank: int, position: int) -> bool:
        return bool(self.plans[rank].threads[0].entries["flags"][position] & EntryFlag.OPEN)

    def _add_step(self, rank: int, goal: int, *, inside: bool) -> None:
        """Add a step to the sequence, or extend the last step if it is of the same rank."""
        self.done[rank] = goal
        if self.found and self.found[-1].rank == rank and not self.found[-1].inside:
            self.found[-1] = Step(rank, goal, inside)
        else:
            self.found.append(Step(rank, goal, inside))


class Conductor:
    """Give the ranks their goals, one after the other, while the replay runs."""

    def __init__(self, sequence: Sequence[Step], cut: Cut) -> None:
        self.steps = sequence
        self.cut = cut
        self.over = False
        self._ended = threading.Event()

    def start(self, controls: Sequence[ControlPage]) -> None:
        """Stop all ranks before their first calls, and start the thread that sets their goals one after the other."""
        for control in controls:
            control.set_goal(0)
        threading.Thread(target=self._set_goals_in_turn, args=(controls,), name="weft sequence", daemon=True).start()

    def end(self) -> None:
        """Stop giving goals."""
        self._ended.set()

    def _set_goals_in_turn(self, controls: Sequence[ControlPage]) -> None:
        """Set the goal of each step when the step before it is done, and at last the goals of the cut for all ranks."""
        for step in self.steps:
            control = controls[step.rank]
            control.set_goal(step.goal)
            self._wait_for_step(control, step)
            if self._ended.is_set():
                return
        for control in controls:
            goal = self.cut.goals.get((control.rank, 0))
            control.set_goal(goal, polls=self.cut.polls.get((control.rank, 0), 0))
        self.over = True

    def _wait_for_step(self, control: ControlPage, step: Step) -> None:
        """Wait until a rank is at the goal of a step, has ended, or is expected to stay inside its last call
        (`inside`).
        """
        begun = 0.0
        while not self._ended.is_set():
            there = control.entries_passed() >= step.goal
            if control.state is ControlState.ENDED or (there and control.is_parked()):
                return
            if there and step.inside:
                begun = begun or time.monotonic()
                if time.monotonic() - begun > LEAVING:
                    return
            time.sleep(LOOK)
