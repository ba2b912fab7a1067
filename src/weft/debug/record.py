"""The recorded run as the debugger needs it: which call is an entry of the plan, what it needs, what it was sent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np

import weft
from weft.base.event_id import EventId
from weft.base.interpreters import explain_free_threaded, is_free_threaded
from weft.errors import UsageError
from weft.match import NONE, match_operations
from weft.mpi.meaning import Act, Form, functions_with
from weft.order import order_events
from weft.replay import Cuts, Goals, make_plans
from weft.replay.layout import GOAL_NONE, PlanFlag
from weft.terms.event_findings import call_at
from weft.trace import Event, Level
from weft.trace.layout import EndingKind

_AWAIT_A_MESSAGE = frozenset(
    f"MPI_{name}" for name in functions_with(
        Act.RECEIVE, Act.MATCHED_RECEIVE, Act.PROBE, Act.MATCHED_PROBE, Act.SEND_RECEIVE,
        where=lambda m: m.form is Form.BLOCKING and not m.polls,
    )
)  # fmt: skip
"""Calls that return only with a message."""
Position = tuple[int, int]
"""A thread of the plan: rank, slot."""


class Record:
    """A run of level trace with its matching, its order and the plans of its ranks."""

    def __init__(self, path: Path) -> None:
        self.trace = weft.open(path)
        if self.trace.level is Level.OUTCOMES:
            raise UsageError(
                "this run was recorded at level `outcomes`, which has no events to stop at; replay it once whole: "
                "the replay is recorded at level `trace` and can be debugged"
            )
        missing = [rank.rank for rank in self.trace.ranks if rank.missing]
        if missing or not self.trace.ranks:
            raise UsageError(
                f"{path}: the record of rank {missing[0] if missing else 0} is missing: it cannot be replayed"
            )
        pythons = {rank.definitions.python or "" for rank in self.trace.ranks}
        if unlocked := sorted(filter(is_free_threaded, pythons)):
            lacking = "whose frames Weft does not read (`weft replay` runs it)"
            raise UsageError(explain_free_threaded("the program's interpreter", unlocked[0], lacking))
        self.match = match_operations(self.trace)
        self.order = order_events(self.trace, self.match)
        self.plans = make_plans(self.trace, self.match)
        self.cuts = Cuts(self.trace, self.order, self.plans)

    @property
    def size(self) -> int:
        """Return the number of ranks of the world."""
        return len(self.plans)

    @cached_property
    def threads(self) -> list[Position]:
        """Return all threads of the plans."""
        return [(p.rank, slot) for p in self.plans for slot in range(len(p.threads))]

    @cached_property
    def start(self) -> Goals:
        """Return the goals at which nothing has run yet."""
        return dict.fromkeys(self.threads, 0)

    @cached_property
    def end(self) -> Goals:
        """Return the goals of all that the record has: ranks that finished run to their end."""
        open_ = {p.rank for p in self.plans if p.flags & PlanFlag.OPEN}
        return {(r, t): len(self.plans[r].threads[t].entries) if r in open_ else GOAL_NONE for r, t in self.threads}

    def full(self, goals: Goals, otherwise: Goals) -> Goals:
        """Return goals for all threads: those that are not given are taken from `otherwise`."""
        return {thread: goals.get(thread, otherwise[thread]) for thread in self.threads}

    def entry(self, rank: int, position: int, slot: int = 0) -> Event | None:
        """Return the recorded call at a position of a thread's plan; None if the plan is not that long."""
        thread, record = self.plans[rank].threads[slot], self.trace.ranks[rank]
        if not 0 <= position < len(thread.entries):
            return None
        mine = np.flatnonzero(record.event_threads == thread.slot) if len(record.threads) > 1 else None
        index = int(thread.entries["event"][position])
        return record.event(index if mine is None else int(mine[index]))

    def coming(self, rank: int, position: int, polls: int, slot: int = 0) -> Event | None:
        """Return the recorded call before which a thread is: the next one of its plan, or a failed poll before that;
        None at the end.
        """
        thread, record = self.plans[rank].threads[slot], self.trace.ranks[rank]
        index = thread.next_event(position, polls)
        mine = np.flatnonzero(record.event_threads == thread.slot)
        return record.event(int(mine[index])) if index is not None and index < len(mine) else None

    def entries(self, rank: int, slot: int = 0) -> int:
        """Return how many calls the plan of a thread has."""
        return len(self.plans[rank].threads[slot].entries)

    def kept_waiting(self, events: Iterable[EventId], goals: Goals) -> frozenset[Position]:
        """Return the threads that wait for a message in the last call before their goals, as the message is sent only
        after one of `events`.

        Collectives are left out: an MPI may let a member go on if the order does not need the others.
        """
        cut = self.cuts.greatest_cut_without(events)
        return frozenset(
            (rank, slot) for (rank, slot), goal in cut.goals.items()
            if (rank, slot) not in cut.firm and goals.get((rank, slot)) == goal
            and (last := self.entry(rank, goal - 1, slot)) is not None and last.function.base in _AWAIT_A_MESSAGE
        )  # fmt: skip

    def second_half(self, rank: int, position: int, slot: int = 0) -> bool:
        """Return whether an entry of a thread's plan is the matched receive that follows a matched probe on the same
        line of Python. The recv() of mpi4py makes both calls.
        """
        one, before = self.entry(rank, position, slot), self.entry(rank, position - 1, slot)
        if one is None or before is None or one.site.file is None or not one.site.file.endswith(".py"):
            return False
        pair = before.function.base, one.function.base
        return pair in (("MPI_Mprobe", "MPI_Mrecv"), ("MPI_Improbe", "MPI_Mrecv")) and _line(one) == _line(before)

    @cached_property
    def crashes(self) -> frozenset[int]:
        """Return the native ranks that a signal of their own ended: gdb can stop them where they crash."""
        return frozenset(
            rank.rank for rank in self.trace.ranks
            if not rank.definitions.python and any(one.kind is EndingKind.SIGNAL for one in rank.endings)
        )  # fmt: skip

    def leaves(self, rank: int, position: int) -> bool:
        """Tell whether the rank leaves MPI, or PVM, with an entry."""
        one = self.entry(rank, position)
        return one is not None and one.function.base == self.trace.system.last

    def closing(self, rank: int, position: int) -> bool:
        """Return whether an entry is the MPI_Finalize that Python makes after its interpreter has ended."""
        one = self.entry(rank, position)
        if one is None or one.function.base != "MPI_Finalize" or not one.rank.definitions.python:
            return False
        return not (one.site.file or "").endswith(".py")

    def position(self, event: EventId) -> tuple[Position, int, bool]:
        """Return the thread that makes a call, the number of its plan's entries before it, and whether the call is an
        entry itself.
        """
        rank = self.trace.ranks[event[0]]
        thread, index = int(rank.event_threads[event[1]]), int(rank.event_positions[event[1]])
        for slot, one in enumerate(self.plans[event[0]].threads):
            at = one.entries_before(index)
            if one.slot == thread and (at < len(one.entries) or slot + 1 == len(self.plans[event[0]].threads)):
                return (event[0], slot), at, at < len(one.entries) and int(one.entries["event"][at]) == index
        return (event[0], 0), 0, False

    def files(self) -> list[str]:
        """Return the paths of the program's source files that the record names."""
        found: dict[str, None] = {}
        for rank in self.trace.ranks:
            for site in sorted({int(s) for s in rank.events["site"][:200000].tolist()}):
                if (file := rank.site(site).file) is not None:
                    found[file] = None
        return list(found)

    def message(self, event: Event) -> tuple[EventId | None, EventId | None]:
        """Return the send of a call's message, and the call that posts the receive. For a call that completes a
        receive, these are the calls of the completed receive. A part that is not recorded is None.
        """
        sends, recvs = self.match.sends, self.match.recvs
        if rows := self.match.sends_of(event.id):
            partner = int(sends.partner[rows[0]])
            return event.id, None if partner == NONE else recvs.id(partner)
        rows = self.match.receives_of(event.id) or self._completed(event)
        if rows:
            partner = int(recvs.partner[rows[0]])
            return None if partner == NONE else sends.id(partner), recvs.id(rows[0])
        return None, None

    def _completed(self, event: Event) -> list[int]:
        """Return the rows of the receives that a wait or a matched receive completes."""
        recvs = self.match.recvs
        part = recvs.of_rank(event.rank.index)
        hits = (
            (recvs.completion[part] == event.index)
            | (recvs.decided[part] == event.index)
            | (recvs.args[part] == event.index)
        )
        return [part.start + int(i) for i in np.flatnonzero(hits)]

    def arguments_of_send(self, event: EventId) -> EventId:
        """Return the call that has buffer, count and type of a send: the send itself, or for a persistent one its
        MPI_..._init.
        """
        rows = self.match.sends_of(event)
        args = int(self.match.sends.args[rows[0]]) if rows else NONE
        return event if args == NONE else EventId(event.rank, args)


def call_facts(event: Event) -> dict[str, object]:
    """Return a call as JSON values: its event, its text, its function and its source line."""
    site = event.site
    return {
        "event": [event.rank.index, event.index], "call": call_at(event), "function": event.function.name,
        "file": site.file, "line": site.line,
    }  # fmt: skip


def _line(event: Event) -> tuple[str | None, int]:
    return event.site.file, event.site.line
