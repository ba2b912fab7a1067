"""Points of a recorded run that a person names, and the cuts that a replay stops at.

RANK:EVENT             an event by its index (`weft dump` shows it)
[RANK:]FILE:LINE[#N]   the N-th call (the first) that the record has from this line
[RANK:]NAME[#N]        likewise by the name of an MPI function, or of the program's function that makes the call
t=SECONDS              every rank's last call that began before this time of the record
finding:N              the events of the N-th finding of `weft report`

The past of a point is the least consistent cut that holds it (unique): what has to run again, and no more. The
opposite is the greatest cut that holds nothing that comes after a point: the stable stop of a breakpoint.

One rule is added to happens-before: a collective ends nowhere before every member has begun it. The standard lets an
MPI do with less (MPI-4.1, 6.14), but its trees and rings pass the data over any member: in a broadcast from rank 0
over a tree, rank 3 needs rank 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import UsageError
from weft.match import NONE
from weft.order import Order
from weft.replay.layout import PlanFlag
from weft.replay.plan import RankPlan
from weft.replay.turns import Turns, turns
from weft.trace import Rank, Trace
from weft.trace.sites import CallSite

EventId = tuple[int, int]
U32 = NDArray[np.uint32]
Goals = dict[tuple[int, int], int]
"""Entries of the plan to pass, by (rank, slot of the thread)."""


@dataclass(frozen=True, slots=True)
class SourcePoint:
    """A place in the source, as a person wrote it."""

    text: str
    rank: int | None
    file: str | None
    line: int | None
    name: str | None
    visit: int


def parse_event(text: str, trace: Trace) -> EventId:
    """RANK:EVENT. UsageError where the run has no such event."""
    rank_text, _, event_text = text.partition(":")
    rank, index = int(rank_text), int(event_text)
    return check(trace, rank, index, text)


def check(trace: Trace, rank: int, index: int, text: str) -> EventId:
    """The event, if the run has it."""
    if rank >= len(trace.ranks):
        raise UsageError(f"{text}: the run has no rank {rank}, only 0 to {len(trace.ranks) - 1}")
    count = len(trace.ranks[rank])
    if not 0 <= index < count:
        what = f"events 0 to {count - 1}" if count else "no events"
        raise UsageError(f"{text}: rank {rank} has no event {index}, its record has {what}")
    return rank, index


def parse_place(text: str) -> SourcePoint:
    """[RANK:]FILE:LINE[#N] or [RANK:]NAME[#N]."""
    found = re.fullmatch(r"(?:(\d+):)?(?:(.+):(\d+)|([A-Za-z_][\w.<>]*))(?:#(\d+))?", text)
    if found is None or (found[5] is not None and int(found[5]) < 1):
        raise UsageError(f"{text!r} is no place: give RANK:EVENT, FILE:LINE, FUNCTION, t=SECONDS or finding:N")
    rank = int(found[1]) if found[1] else None
    return SourcePoint(text, rank, found[2], int(found[3]) if found[3] else None, found[4], int(found[5] or 1))


def events_at(trace: Trace, place: SourcePoint) -> list[EventId]:
    """The place's visit on each rank that has one, first in time first. UsageError where no rank has one."""
    if place.rank is not None and place.rank >= len(trace.ranks):
        raise UsageError(f"{place.text}: the run has no rank {place.rank}, only 0 to {len(trace.ranks) - 1}")
    found: list[tuple[int, EventId]] = []
    most = 0
    for rank in trace.ranks:
        if place.rank not in (None, rank.index) or not len(rank):
            continue
        rows = np.flatnonzero(_matching(rank, place))
        most = max(most, len(rows))
        if len(rows) >= place.visit:
            row = int(rows[place.visit - 1])
            found.append((int(rank.enter_ns(slice(row, row + 1))[0]), (rank.index, row)))
    if not found:
        where = f"rank {place.rank}" if place.rank is not None else "any rank"
        times = f"only {most} call{'s' * (most > 1)}" if most else "no MPI call"
        raise UsageError(f"{place.text}: the record has {times} from there on {where}{_nearby(trace, place)}")
    return [event for _, event in sorted(found)]


def _nearby(trace: Trace, place: SourcePoint) -> str:
    """Where the record does have calls, for one who named another place."""
    sites = {rank.site(int(s)) for rank in trace.ranks if len(rank) for s in np.unique(rank.events["site"])}
    lines = sorted({s.line for s in sites if s.line and s.file and place.file and _is_file(s.file, place.file)})
    if lines and place.line is not None:
        nearest = sorted(sorted(lines, key=lambda line: abs(line - int(place.line or 0)))[:3])
        return f"; the nearest lines with one are {', '.join(map(str, nearest))}"
    return f"; `weft dump {trace.path}` shows which calls it has"


def _is_file(file: str, wanted: str) -> bool:
    return file == wanted or file.endswith("/" + wanted)


def visits(trace: Trace, place: SourcePoint) -> list[EventId]:
    """Every call that the record has from a place, each rank's in order; with #N the N-th only."""
    found: list[EventId] = []
    for rank in trace.ranks:
        if place.rank in (None, rank.index) and len(rank):
            rows = np.flatnonzero(_matching(rank, place)).tolist()
            found += [(rank.index, row) for row in (rows[place.visit - 1 : place.visit] if "#" in place.text else rows)]
    return found


def _matching(rank: Any, place: SourcePoint) -> NDArray[np.bool_]:
    events = rank.events
    sites, inverse = np.unique(events["site"], return_inverse=True)
    if place.name is not None:
        mask: NDArray[np.bool_] = rank.trace.functions.mask([place.name])[events["function"]]
        if mask.any():
            return mask
    known = [rank.site(int(s)) for s in sites]
    here = np.array([_is_there(site, place) for site in known], bool)
    if not here.any():  # a line that calls what calls MPI
        here = np.array([any(_is_there(caller, place) for caller in site.callers) for site in known], bool)
    return here[inverse]


def _is_there(site: CallSite, place: SourcePoint) -> bool:
    if place.name is not None:
        return site.function == place.name
    return site.line == place.line and site.file is not None and _is_file(site.file, str(place.file))


def resolve(trace: Trace, text: str, findings: Callable[[], Sequence[Any]]) -> list[EventId]:
    """The events that a person names."""
    if re.fullmatch(r"\d+:\d+", text):
        return [parse_event(text, trace)]
    if found := re.fullmatch(r"finding:(\d+)", text):
        all_findings = findings()
        number = int(found[1])
        if not 1 <= number <= len(all_findings):
            have = "1 finding" if len(all_findings) == 1 else f"{len(all_findings)} findings"
            raise UsageError(f"{text}: the report has {have}, counted from 1 (`weft report {trace.path}`)")
        events = [(int(r), int(e)) for r, e in all_findings[number - 1].events]
        if not events:
            raise UsageError(f"{text}: this finding names no event of the record")
        return events
    if found := re.fullmatch(r"t=(\d+(?:\.\d*)?|\.\d+)s?", text):
        return _at_time(trace, float(found[1]), text)
    return events_at(trace, parse_place(text))[:1]


def _at_time(trace: Trace, seconds: float, text: str) -> list[EventId]:
    starts = [int(r.enter_ns(slice(0, 1))[0]) for r in trace.ranks if len(r)]
    limit = min(starts, default=0) + int(seconds * 1e9)
    found = []
    for rank in trace.ranks:
        before = int(np.searchsorted(rank.enter_ns(), limit)) if len(rank) else 0
        if before:
            found.append((rank.index, before - 1))
    if not found:
        raise UsageError(f"{text}: no call had begun by then")
    return found


class Cuts:
    """Cuts of a run as goals for its ranks: how many entries of its plan each thread may pass."""

    def __init__(self, trace: Trace, order: Order, plans: Sequence[RankPlan]) -> None:
        self.trace = trace
        self.order = order
        self.plans = plans
        self.firm: set[tuple[int, int]] = set()
        """Of the goals given last: threads whose last call before the goal ends in the cut. They stand behind it."""

    def past(self, events: Iterable[EventId], *, ended: bool = False) -> Goals:
        """What has to run again so that these calls are about to be made, or (`ended`) so that they return."""
        points = np.zeros(len(self.order.processes.rank), np.int64)
        own: dict[int, int] = {}
        for event in events:
            process, point = self.order.point(*event, end=ended)
            points = np.maximum(points, self.order.past_points(process, point).astype(np.int64))
            if not ended:
                own[process] = max(own.get(process, 0), point)
        points = self._with_threads(points)
        gathered = self._with_turns(self._with_threads(self._with_members(points)))
        if all(gathered[process] <= points[process] for process in own):
            points = gathered  # else the record shows a collective that got on without a member
        goals: Goals = {}
        self.firm = set()
        for process, point in enumerate(points.tolist()):
            # 2e + 1: e has started, 2e + 2: it has ended. A named call is about to start, all others have been made.
            inclusive = point > own.get(process, 0)
            found = self._goal(process, (point - 1) // 2 if point else -1, inclusive)
            goals |= found
            if not inclusive or point % 2 == 0:
                self.firm |= found.keys()
        return goals

    def before_future(self, events: Iterable[EventId]) -> Goals:
        """How far all can go without these calls."""
        seeds: dict[int, int] = {}
        past = np.zeros(len(self.order.processes.rank), np.int64)
        for event in events:
            process, point = self.order.point(*event)
            seeds[process] = min(seeds.get(process, point), point)
            past = np.maximum(past, self.order.past_points(process, point - 1) if point > 1 else 0)
        points = self._without_threads(self.order.future_points(seeds))
        gathered = self._without_turns(self._without_threads(self._without_members(points)))
        if ((gathered > past) | (points <= past)).all():
            points = gathered  # else the record shows a collective that got on without a member
        goals: Goals = {}
        self.firm = set()
        for process, point in enumerate(points.tolist()):
            if point != NONE:
                found = self._goal(process, (point - 1) // 2, point % 2 == 0)
                goals |= found
                if point % 2:
                    self.firm |= found.keys()
        return goals

    def _several(self, points: NDArray[np.int64]) -> Iterable[tuple[Any, NDArray[np.int64], NDArray[np.int64]]]:
        """The ranks of several threads: rank, its processes, and their points."""
        for rank in self.trace.ranks:
            own = np.flatnonzero(self.order.processes.rank == rank.index)
            if len(own) > 1:
                yield rank, own, points[own]

    def _with_threads(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """A past, and of each rank's other threads what they had done by then.

        Threads wait for each other by means that are no calls of MPI (a join, a lock), so that what one had not done
        the other may not get by without.
        """
        while True:
            before = points
            for rank, own, reached in self._several(points):
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

    def _without_threads(self, points: U32) -> U32:
        """A future, and of each rank's other threads what they began later."""
        while True:
            ends = points.astype(np.int64)
            for rank, own, reached in self._several(ends):
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

    def _with_members(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """A past, and for each collective that ends in it the start of every member."""
        parts = _Parts(self.order)
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

    def _without_members(self, points: U32) -> U32:
        """A future, and for each collective that a member starts in it the end of every member."""
        parts = _Parts(self.order)
        while True:
            starts = parts.start >= points[parts.starts_in]
            late = np.isin(parts.instance, parts.instance[starts]) & parts.done
            ends = points.astype(np.int64)
            np.minimum.at(ends, parts.ends_in[late], parts.end[late])
            if (ends >= points).all():
                return points
            points = self.order.future_points({p: e for p, e in enumerate(ends.tolist()) if e != NONE})

    def _with_turns(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """A past, and of each window's accesses in it those whose turn came before."""
        edges = self._turns
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
            points = self._with_threads(self._with_members(points))

    def _without_turns(self, points: U32) -> U32:
        """A future, and of each window's accesses those whose turn comes after one in it."""
        edges = self._turns
        while True:
            late = edges.first_end >= points[edges.first_in]
            ends = points.astype(np.int64)
            np.minimum.at(ends, edges.second_in[late], edges.second_end[late])
            if (ends >= points).all():
                return points
            points = self.order.future_points({p: e for p, e in enumerate(ends.tolist()) if e != NONE})
            points = self._without_threads(self._without_members(points))

    @cached_property
    def _turns(self) -> _TurnEdges:
        taken = any(plan.flags & PlanFlag.TURNS for plan in self.plans)
        ranks = [rank for rank in self.trace.ranks if rank.world == 0]
        return _TurnEdges(self.order, ranks, turns(ranks) if taken else Turns())

    def _goal(self, process: int, event: int, inclusive: bool) -> Goals:
        """The goal that lies before an event of a process, or behind it."""
        rank = int(self.order.processes.rank[process])
        if self.trace.ranks[rank].world != 0:
            return {}
        slot = process - int(self.order.processes.first[rank])
        index = int(self.trace.ranks[rank].event_positions[event]) + inclusive if event >= 0 else 0
        threads = enumerate(self.plans[rank].threads)
        return {(rank, i): thread.position(index) for i, thread in threads if thread.slot == slot}


class _TurnEdges:
    """What takes turns at windows, as points of processes: `second_end` is not reached without `first_end`."""

    def __init__(self, order: Order, ranks: Sequence[Rank], found: Turns) -> None:
        pairs = np.array(found.before, np.int64).reshape(-1, 2)
        size = len(found.accesses)
        process, begun, over = (np.zeros(size, np.int64) for _ in range(3))
        owners = np.array(found.owners, np.int64).reshape(-1, 2)
        for rank in ranks if len(pairs) else ():
            slots = {d.made: d.slot for d in rank.definitions.threads}
            for made, slot in slots.items():
                mine = np.flatnonzero((owners == (rank.rank, made)).all(axis=1))
                merged = np.flatnonzero(rank.event_threads == slot)
                enter = rank.events["enter"][merged]
                for name, into in (("begin", begun), ("end", over)):
                    nth = np.searchsorted(enter, found.accesses[name][mine], side="right") - 1
                    into[mine] = 2 * merged[np.maximum(nth, 0)] + 2
                process[mine] = int(order.processes.first[rank.index]) + slot
        self.first_in, self.second_in = process[pairs[:, 0]], process[pairs[:, 1]]
        self.first_end, self.second_end = over[pairs[:, 0]], begun[pairs[:, 1]]


class _Parts:
    """The parts of all collectives, as points of processes."""

    def __init__(self, order: Order) -> None:
        parts, processes = order.match.collectives, order.processes
        self.instance = parts.instance
        self.starts_in = processes.of_rows(parts.first, parts.event)
        self.start = 2 * parts.event.astype(np.int64) + 1
        self.done = parts.completion != NONE
        self.ends_in = processes.of_rows(parts.first, parts.completion)
        self.end = 2 * parts.completion.astype(np.int64) + 2
