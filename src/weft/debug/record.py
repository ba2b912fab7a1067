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
from weft.replay.holds import read_holds
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
                "this run was recorded at level `outcomes`, which has no events to stop at: replay it once (`weft "
                "replay`), then debug the record of that replay"
            )
        missing = [rank.rank for rank in self.trace.ranks if rank.missing]
        if missing or not self.trace.ranks:
            raise UsageError(
                f"{path}: the record of rank {missing[0] if missing else 0} is missing, so the run cannot be replayed"
            )
        pythons = {rank.definitions.python or "" for rank in self.trace.ranks}
        if unlocked := sorted(filter(is_free_threaded, pythons)):
            lacking = "whose frames Weft does not read (`weft replay` runs it)"
            raise UsageError(explain_free_threaded("the program's interpreter", unlocked[0], lacking))
        self.match = match_operations(self.trace)
        self.order = order_events(self.trace, self.match)
        self.plans = make_plans(self.trace, self.match)
        self.holds = read_holds(self.trace.run, self.plans)
        self.cuts = Cuts(self.trace, self.order, self.plans, self.holds)

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

    def complete_goals(self, goals: Goals, otherwise: Goals) -> Goals:
        """Return goals for all threads: those that are not given are taken from `otherwise`."""
        return {thread: goals.get(thread, otherwise[thread]) for thread in self.threads}

    def entry(self, rank: int, position: int, slot: int = 0) -> Event | None:
        """Return the recorded call at a position of a thread's plan (the calls that a replay follows); None if the plan
        has no such position. `slot`: the thread.
        """
        thread, record = self.plans[rank].threads[slot], self.trace.ranks[rank]
        if not 0 <= position < len(thread.entries):
            return None
        mine = np.flatnonzero(record.event_threads == thread.slot) if len(record.threads) > 1 else None
        index = int(thread.entries["event"][position])
        return record.event(index if mine is None else int(mine[index]))

    def next_call(self, rank: int, position: int, polls: int, slot: int = 0) -> Event | None:
        """Return the recorded call before which a thread is: the next one of its plan, or a failed poll before that.
        None at the end.

        `position`, `polls`: how many calls of its plan, and how many failed polls after these, the thread has made.
        """
        thread, record = self.plans[rank].threads[slot], self.trace.ranks[rank]
        index = thread.next_event(position, polls)
        mine = np.flatnonzero(record.event_threads == thread.slot)
        return record.event(int(mine[index])) if index is not None and index < len(mine) else None

    def entries(self, rank: int, slot: int = 0) -> int:
        """Return how many calls the plan of a thread has."""
        return len(self.plans[rank].threads[slot].entries)

    def find_waiting_threads(self, events: Iterable[EventId], goals: Goals) -> frozenset[Position]:
        """Return the threads whose last call before their goals waits for a message that is sent only after one of
        `events`, so that the call does not return as long as these events are held back.

        Collectives are left out: an MPI may let a member return if the order of messages does not need the others.
        """
        cut = self.cuts.greatest_cut_without(events)
        return frozenset(
            (rank, slot) for (rank, slot), goal in cut.goals.items()
            if (rank, slot) not in cut.firm and goals.get((rank, slot)) == goal
            and (last := self.entry(rank, goal - 1, slot)) is not None and last.function.base in _AWAIT_A_MESSAGE
        )  # fmt: skip

    def is_receive_of_probe(self, rank: int, position: int, slot: int = 0) -> bool:
        """Return whether the call at a position of a thread's plan is a matched receive right after a matched probe on
        the same line of Python: mpi4py's recv() makes these two calls.
        """
        one, before = self.entry(rank, position, slot), self.entry(rank, position - 1, slot)
        if one is None or before is None or one.site.file is None or not one.site.file.endswith(".py"):
            return False
        pair = before.function.base, one.function.base
        return pair in (("MPI_Mprobe", "MPI_Mrecv"), ("MPI_Improbe", "MPI_Mrecv")) and _line(one) == _line(before)

    @cached_property
    def crashes(self) -> frozenset[int]:
        """Return the native ranks that crashed by a signal of their own when they were recorded; gdb can stop them
        there.
        """
        return frozenset(
            rank.rank for rank in self.trace.ranks
            if not rank.definitions.python and any(one.kind is EndingKind.SIGNAL for one in rank.endings)
        )  # fmt: skip

    def is_end_of_mpi(self, rank: int, position: int) -> bool:
        """Tell whether the rank leaves MPI, or PVM, with an entry."""
        one = self.entry(rank, position)
        return one is not None and one.function.base == self.trace.system.last

    def is_finalize_of_interpreter(self, rank: int, position: int) -> bool:
        """Return whether a call of a rank's plan is the MPI_Finalize that mpi4py makes after Python's interpreter has
        ended.
        """
        one = self.entry(rank, position)
        if one is None or one.function.base != "MPI_Finalize" or not one.rank.definitions.python:
            return False
        return not (one.site.file or "").endswith(".py")

    def position(self, event: EventId) -> tuple[Position, int, bool]:
        """Return where a call is in the plans: its thread (rank, slot), the number of calls of the plan before it, and
        whether the plan contains the call itself.
        """
        rank = self.trace.ranks[event[0]]
        thread, index = int(rank.event_threads[event[1]]), int(rank.event_positions[event[1]])
        for slot, one in enumerate(self.plans[event[0]].threads):
            at = one.entries_before(index)
            if one.slot == thread and (at < len(one.entries) or slot + 1 == len(self.plans[event[0]].threads)):
                return (event[0], slot), at, at < len(one.entries) and int(one.entries["event"][at]) == index
        return (event[0], 0), 0, False

    def files(self) -> list[str]:
        """Return the paths of the source files that the record names."""
        found: dict[str, None] = {}
        for rank in self.trace.ranks:
            for site in sorted({int(s) for s in rank.events["site"][:200000].tolist()}):
                if (file := rank.site(site).file) is not None:
                    found[file] = None
        return list(found)

    def message(self, event: Event) -> tuple[EventId | None, EventId | None]:
        """Return the send of the message that a call sends or receives, and the call that posts the receive; None for
        what is not recorded. A call that completes a receive counts as receiving its message.
        """
        sends, recvs = self.match.sends, self.match.recvs
        if rows := self.match.sends_of(event.id):
            partner = int(sends.partner[rows[0]])
            return event.id, None if partner == NONE else recvs.id(partner)
        rows = self.match.receives_of(event.id) or self._find_completed_receives(event)
        if rows:
            partner = int(recvs.partner[rows[0]])
            return None if partner == NONE else sends.id(partner), recvs.id(rows[0])
        return None, None

    def _find_completed_receives(self, event: Event) -> list[int]:
        """Return the rows in match.recvs of the receives that a wait or a matched receive completes."""
        recvs = self.match.recvs
        part = recvs.of_rank(event.rank.index)
        hits = (
            (recvs.completion[part] == event.index)
            | (recvs.decided[part] == event.index)
            | (recvs.args[part] == event.index)
        )
        return [part.start + int(i) for i in np.flatnonzero(hits)]

    def arguments_of_send(self, event: EventId) -> EventId:
        """Return the call that has the buffer, count and datatype of a send: the send itself, or the MPI_Send_init of a
        persistent send and the like.
        """
        rows = self.match.sends_of(event)
        args = int(self.match.sends.args[rows[0]]) if rows else NONE
        return event if args == NONE else EventId(event.rank, args)


def call_facts(event: Event) -> dict[str, object]:
    """Return a call as JSON values: its rank and event index, its text, its function, and its source line."""
    site = event.site
    return {
        "event": [event.rank.index, event.index], "call": call_at(event), "function": event.function.name,
        "file": site.file, "line": site.line,
    }  # fmt: skip


def _line(event: Event) -> tuple[str | None, int]:
    return event.site.file, event.site.line
