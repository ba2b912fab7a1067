"""The cuts of a recorded run at which a replay stops.

The past of a point is the least consistent cut that holds it (unique): what has to run again, and no more. The opposite
is the greatest cut that holds nothing that comes after a point: the stable stop of a breakpoint.

One rule is added to happens-before: a collective ends nowhere before every member has begun it. The standard lets an
MPI do with less (MPI-4.1, 6.14), but its trees and rings pass the data over any member: in a broadcast from rank 0 over
a tree, rank 3 needs rank 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.match import NONE
from weft.order import Order
from weft.replay.holds import Hold
from weft.replay.layout import Check, PlanFlag
from weft.replay.plan import RankPlan, checks_of_function
from weft.replay.turns import Turns, find_turns
from weft.trace import Rank, Trace

U32 = NDArray[np.uint32]
Thread = tuple[int, int]
"""Rank, slot of the thread."""
Goals = dict[Thread, int]
"""Entries of the plan to pass."""


@dataclass(slots=True)
class Cut:
    """How far each thread goes. A thread without a goal goes to its end.

    `firm`: threads whose last call before the goal ends in the cut, so that they stop after it; `polls`: the failed
    polls that a thread makes at its goal, to stop before a later one.
    """

    goals: Goals = field(default_factory=dict)
    firm: set[Thread] = field(default_factory=set)
    polls: Goals = field(default_factory=dict)
    asked: tuple[EventId, ...] = ()
    """The events that a person named."""
    holds: list[Hold] = field(default_factory=list)
    """Sends that wait until a call of another rank has returned."""

    def meet(self, other: Cut) -> Cut:
        """Return the greatest cut (how far each thread goes) within both cuts: each thread stops at the earlier of its
        two goals.
        """
        met = Cut(asked=self.asked + other.asked)
        for thread in self.goals | other.goals:
            here = [cut for cut in (self, other) if thread in cut.goals]
            first = min(here, key=lambda cut: (cut.goals[thread], thread not in cut.firm, cut.polls.get(thread, 0)))
            met.goals[thread] = first.goals[thread]
            if all(thread in cut.firm for cut in here if cut.goals[thread] == first.goals[thread]):
                met.firm.add(thread)
            if thread in first.polls:
                met.polls[thread] = first.polls[thread]
        return met


class Cuts:
    """The cuts of a run, as goals for its ranks: how many entries of its plan each thread may pass. In each cut with a
    send of `holds`, the call that the send waits for has returned.
    """

    def __init__(self, trace: Trace, order: Order, plans: Sequence[RankPlan], holds: Sequence[Hold] = ()) -> None:
        self.trace = trace
        self.order = order
        self.plans = plans
        self.holds = holds

    def least_cut_reaching(self, events: Iterable[EventId], *, include_calls: bool = False) -> Cut:
        """Return the least cut (how far each thread goes) at which some calls are about to be made. With
        `include_calls`, the calls have returned.
        """
        points = np.zeros(len(self.order.processes.rank), np.int64)
        own: dict[int, int] = {}
        asked = tuple(events)
        for event in asked:
            process, point = self.order.point(*event, end=include_calls)
            points = np.maximum(points, self.order.past_points(process, point).astype(np.int64))
            if not include_calls:
                own[process] = max(own.get(process, 0), point)
        points = self._extend_past_by_threads(points)
        gathered = self._extend_past_by_window_turns(
            self._extend_past_by_threads(self._extend_past_by_collectives(points))
        )
        if all(gathered[process] <= points[process] for process in own):
            points = gathered  # else the record shows a collective that got on without a member
        cut = Cut(asked=asked)
        for process, point in enumerate(points.tolist()):
            # 2e + 1: e has started, 2e + 2: it has ended. A named call is about to start, all others have been made.
            inclusive = point > own.get(process, 0) and not self._starts_poll(process, point)
            found = self._goals_at(process, (point - 1) // 2 if point else -1, inclusive)
            cut.goals |= found
            if process in own and not inclusive:
                self._add_failed_polls(cut, found, (point - 1) // 2)
            if not inclusive or point % 2 == 0:
                cut.firm |= found.keys()
        return cut

    def greatest_cut_without(self, events: Iterable[EventId]) -> Cut:
        """Return the cut (how far each thread goes) at which all threads have gone as far as they can before any of
        some calls is made.
        """
        seeds: dict[int, int] = {}
        past = np.zeros(len(self.order.processes.rank), np.int64)
        asked = tuple(events)
        for event in asked:
            process, point = self.order.point(*event)
            seeds[process] = min(seeds.get(process, point), point)
            past = np.maximum(past, self.order.past_points(process, point - 1) if point > 1 else 0)
        points = self._extend_future_by_threads(self.order.future_points(seeds))
        gathered = self._extend_future_by_window_turns(
            self._extend_future_by_threads(self._extend_future_by_collectives(points))
        )
        if ((gathered > past) | (points <= past)).all():
            points = gathered  # else the record shows a collective that got on without a member
        cut = Cut(asked=asked)
        for process, point in enumerate(points.tolist()):
            if point != NONE:
                inclusive = point % 2 == 0 and not self._starts_poll(process, point - 1)
                found = self._goals_at(process, (point - 1) // 2, inclusive)
                cut.goals |= found
                if seeds.get(process) == point:
                    self._add_failed_polls(cut, found, (point - 1) // 2)
                if not inclusive:
                    cut.firm |= found.keys()
        return cut

    def _add_failed_polls(self, cut: Cut, goals: Goals, event: int) -> None:
        """Add to a cut how many failed polls each thread in `goals` makes right before an event, as in the record.
        `event`: its index among the rank's events.
        """
        for rank, thread in goals:
            index = int(self.trace.ranks[rank].event_positions[event])
            cut.polls[rank, thread] = self.plans[rank].threads[thread].failed_polls_before(index)

    def _starts_poll(self, process: int, point: int) -> bool:
        """Return whether a point of a process is the start of a poll (such as MPI_Test). No rank stops in a poll, as it
        is answered at once.
        """
        rank = self.trace.ranks[int(self.order.processes.rank[process])]
        if point % 2 == 0 or not len(rank):
            return False
        return int(rank.events["function"][(point - 1) // 2]) in self._polls

    @cached_property
    def _polls(self) -> frozenset[int]:
        return frozenset(function.id for function in self.trace.functions if checks_of_function(function) & Check.POLL)

    def _rows_of_threaded_ranks(
        self, points: NDArray[np.int64]
    ) -> Iterable[tuple[Any, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (rank, rows, points) for each rank with several threads. The rows are those of its threads in the order
        of events, where each thread is a process; the points are those of these rows in `points`.
        """
        for rank in self.trace.ranks:
            own = np.flatnonzero(self.order.processes.rank == rank.index)
            if len(own) > 1:
                yield rank, own, points[own]

    def _extend_past_by_threads(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `points`, raised so that each thread has made the calls which it made before the last call that its
        rank must reach. `points`: by process (a thread), the point that must be reached.
        """
        while True:
            before = points
            for rank, own, reached in self._rows_of_threaded_ranks(points):
                last = (int(reached.max()) - 1) // 2
                if last < 0:
                    continue
                now = int(rank.enter_ns(slice(last, last + 1))[0])
                for process in own.tolist():
                    events = self.order.processes.events[process]
                    nth = int(np.searchsorted(events, last)) - 1 if events is not None else -1
                    if nth >= 0:
                        event = int(events[nth])
                        over = 0 <= int(rank.exit_ns(slice(event, event + 1))[0]) <= now
                        point = 2 * event + 1 + over
                        points = np.maximum(points, self.order.past_points(process, point).astype(np.int64))
            if (points == before).all():
                return points

    def _extend_future_by_threads(self, points: U32) -> U32:
        """Return `points`, lowered so that no thread begins a call which came after the first call that its rank must
        not reach. `points`: by process (a thread), the first point that must not be reached.
        """
        while True:
            ends = points.astype(np.int64)
            for rank, own, reached in self._rows_of_threaded_ranks(ends):
                first = (int(reached.min()) - 1) // 2
                if first >= len(rank):
                    continue
                for process in own.tolist():
                    events = self.order.processes.events[process]
                    nth = int(np.searchsorted(events, first, side="right")) if events is not None else 0
                    if events is not None and nth < len(events):
                        ends[process] = min(int(ends[process]), 2 * int(events[nth]) + 1)
            if (ends >= points).all():
                return points
            points = self.order.future_points({p: e for p, e in enumerate(ends.tolist()) if e != NONE})

    def _extend_past_by_collectives(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `points`, raised so that all members have begun each collective that one of them must have ended.
        `points`: by process (a thread), the point that must be reached.
        """
        parts = _CollectiveParts(self.order)
        while True:
            ends = parts.done & (points[parts.ends_in] >= parts.end)
            needed = np.isin(parts.instance, parts.instance[ends])
            starts = np.zeros(len(points), np.int64)
            np.maximum.at(starts, parts.starts_in[needed], parts.start[needed])
            lacking = np.flatnonzero(starts > points).tolist()
            if not lacking:
                return points
            for process in lacking:
                points = np.maximum(points, self.order.past_points(process, int(starts[process])).astype(np.int64))

    def _extend_future_by_collectives(self, points: U32) -> U32:
        """Return `points`, lowered so that no member ends a collective that another member must not begin. `points`: by
        process (a thread), the first point that must not be reached.
        """
        parts = _CollectiveParts(self.order)
        while True:
            starts = parts.start >= points[parts.starts_in]
            late = np.isin(parts.instance, parts.instance[starts]) & parts.done
            ends = points.astype(np.int64)
            np.minimum.at(ends, parts.ends_in[late], parts.end[late])
            if (ends >= points).all():
                return points
            points = self.order.future_points({p: e for p, e in enumerate(ends.tolist()) if e != NONE})

    def _extend_past_by_window_turns(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `points`, raised so that all accesses to windows are over which came before an access that must be
        made. `points`: by process (a thread), the point that must be reached.
        """
        edges = self._turn_edges
        while True:
            needed = edges.first_end[points[edges.second_in] >= edges.second_end]
            into = edges.first_in[points[edges.second_in] >= edges.second_end]
            ends = np.zeros(len(points), np.int64)
            np.maximum.at(ends, into, needed)
            lacking = np.flatnonzero(ends > points).tolist()
            if not lacking:
                return points
            for process in lacking:
                points = np.maximum(points, self.order.past_points(process, int(ends[process])).astype(np.int64))
            points = self._extend_past_by_threads(self._extend_past_by_collectives(points))

    def _extend_future_by_window_turns(self, points: U32) -> U32:
        """Return `points`, lowered so that no access to a window is made which came after an access that must not be
        made. `points`: by process (a thread), the first point that must not be reached.
        """
        edges = self._turn_edges
        while True:
            late = edges.first_end >= points[edges.first_in]
            ends = points.astype(np.int64)
            np.minimum.at(ends, edges.second_in[late], edges.second_end[late])
            if (ends >= points).all():
                return points
            points = self.order.future_points({p: e for p, e in enumerate(ends.tolist()) if e != NONE})
            points = self._extend_future_by_threads(self._extend_future_by_collectives(points))

    @cached_property
    def _turn_edges(self) -> _TurnEdges:
        """Return edges (earlier point, later point) for what the plans order beside messages: an access to a window
        before the next one, and the end of a call before a send that the plan holds back until then. Empty if the plans
        have neither."""
        taken = any(plan.flags & PlanFlag.TURNS for plan in self.plans)
        ranks = self.trace.ranks[: len(self.plans)]
        edges = _TurnEdges(self.order, ranks, find_turns(ranks) if taken else Turns())
        calls = [self._find_point(one.call_rank, one.call_thread, one.call_entries, end=True) for one in self.holds]
        sends = [self._find_point(one.rank, one.thread, one.entries, end=False) for one in self.holds]
        edges.add([edge for edge in zip(calls, sends, strict=True) if None not in edge])
        return edges

    def _find_point(self, rank: int, thread: int, entry: int, *, end: bool) -> tuple[int, int] | None:
        """Return process and point of an entry of a plan, at its start or its end; None if the plan has no such
        entry."""
        plan = self.plans[rank].threads[thread]
        mine = np.flatnonzero(self.trace.ranks[rank].event_threads == plan.slot)
        if entry >= len(plan.entries):
            return None
        return self.order.point(rank, int(mine[int(plan.entries["event"][entry])]), end=end)

    def _goals_at(self, process: int, event: int, include_event: bool) -> Goals:
        """Return how many entries (recorded calls) of their plans the threads of a process pass before an event, or
        with `include_event` up to and with it: (rank, thread) -> number. Empty for a process without a plan.
        """
        rank = int(self.order.processes.rank[process])
        if rank >= len(self.plans):
            return {}  # a process that ended before its rank was known
        slot = process - int(self.order.processes.first[rank])
        index = int(self.trace.ranks[rank].event_positions[event]) + include_event if event >= 0 else 0
        threads = enumerate(self.plans[rank].threads)
        return {(rank, i): thread.entries_before(index) for i, thread in threads if thread.slot == slot}


class _TurnEdges:
    """The order of window accesses, as points of processes: `second_end` is not reached without `first_end`."""

    def __init__(self, order: Order, ranks: Sequence[Rank], found: Turns) -> None:
        pairs = np.array(found.before, np.int64).reshape(-1, 2)
        size = len(found.accesses)
        process, begun, over = (np.zeros(size, np.int64) for _ in range(3))
        owners = np.array(found.owners, np.int64).reshape(-1, 2)
        for rank in ranks if len(pairs) else ():
            slots = {d.made: d.slot for d in rank.definitions.threads}
            for made, slot in slots.items():
                mine = np.flatnonzero((owners == (rank.index, made)).all(axis=1))
                merged = np.flatnonzero(rank.event_threads == slot)
                enter = rank.events["enter"][merged]
                for name, into in (("begin", begun), ("end", over)):
                    nth = np.searchsorted(enter, found.accesses[name][mine], side="right") - 1
                    into[mine] = 2 * merged[np.maximum(nth, 0)] + 2
                process[mine] = int(order.processes.first[rank.index]) + slot
        self.first_in, self.second_in = process[pairs[:, 0]], process[pairs[:, 1]]
        self.first_end, self.second_end = over[pairs[:, 0]], begun[pairs[:, 1]]

    def add(self, edges: Sequence[tuple[Any, Any]]) -> None:
        """Add pairs ((process, point), (process, point)), of which the first point comes before the second."""
        more = np.array(edges, np.int64).reshape(-1, 4)
        self.first_in, self.first_end = np.append(self.first_in, more[:, 0]), np.append(self.first_end, more[:, 1])
        self.second_in, self.second_end = np.append(self.second_in, more[:, 2]), np.append(self.second_end, more[:, 3])


class _CollectiveParts:
    """The parts of all collectives, as points of processes."""

    def __init__(self, order: Order) -> None:
        parts, processes = order.match.collectives, order.processes
        self.instance = parts.instance
        self.starts_in = processes.processes_of_rows(parts.first, parts.event)
        self.start = 2 * parts.event.astype(np.int64) + 1
        self.done = parts.completion != NONE
        self.ends_in = processes.processes_of_rows(parts.first, parts.completion)
        self.end = 2 * parts.completion.astype(np.int64) + 2
