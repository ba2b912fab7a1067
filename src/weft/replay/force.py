"""The other outcome of a race: the record is followed up to a receive, which then takes another message.

What cannot happen unless the receive has ended is left free, as the record says nothing of it any more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.errors import UsageError
from weft.match import NONE, Match, Post, Posts
from weft.mpi.meaning import Access, Act, Sync, named
from weft.order import Order
from weft.replay.layout import POSTED_FREE, EntryFlag, Outcome, PlanFlag
from weft.replay.plan import RankPlan, ThreadPlan, whole
from weft.replay.points import EventId, check
from weft.trace import Trace

_TURNS = [
    f"MPI_{name}"
    for name in named(Act.ACCESS, where=lambda m: Access.ATOMIC in m.access)
    | named(Act.EPOCH, where=lambda m: m.sync in (Sync.LOCK, Sync.LOCK_ALL))
]
"""Calls that the recorder counts as locks and atomic accesses of windows."""


def parse_force(text: str, trace: Trace) -> tuple[EventId, int]:
    """RANK:EVENT=SOURCE."""
    found = re.fullmatch(r"(\d+):(\d+)=(\d+)", text)
    if found is None:
        raise UsageError(f"--force {text}: give RANK:EVENT=SOURCE, as `weft report` prints it under a race")
    return check(trace, int(found[1]), int(found[2]), f"--force {text}"), int(found[3])


class Forcing:
    """A receive (or a probe) of any source that is to take its message from `source` instead."""

    def __init__(self, trace: Trace, match: Match, order: Order, event: EventId, source: int) -> None:
        self.trace, self.match, self.event, self.source = trace, match, event, source
        rank, index = event
        call = trace.event(rank, index)
        rows = [row for row in match.receives_of(event) if match.recvs.flags[row] & Post.ANY_SOURCE]
        if not rows and not call.function.probes:
            raise UsageError(f"--force {rank}:{index}: {call.function.name} there takes no message from any source")
        comm = call.comm
        if comm is not None and source >= len(comm.peers(rank)):
            raise UsageError(f"--force {rank}:{index}={source}: {comm} has ranks 0 to {len(comm.peers(rank)) - 1} only")
        decided = int(match.recvs.decided[rows[0]]) if rows else index
        decided = index if decided == NONE else decided
        if comm is not None:
            probes = match.probes
            row = rows[0] if rows else next((k for k in range(len(probes)) if probes.id(k) == event), None)
            self._can_happen(match.recvs if rows else probes, row, comm.peers(rank)[source], (rank, decided), order)
        process, point = order.point(rank, decided, end=True)
        self.future = order.future_points({process: point})
        self.processes = order.processes

    def _can_happen(self, posts: Posts, row: int | None, sender: int, decided: EventId, order: Order) -> None:
        """UsageError where no run that follows the record up to the receive can have this outcome."""
        rank, index = self.event
        text, sends, recvs = f"--force {rank}:{index}={self.source}", self.match.sends, self.match.recvs
        if row is None:
            return
        took = int(posts.partner[row])
        if took != NONE and sends.rank_of(took) == sender:
            raise UsageError(f"{text}: this is the outcome of the record: give another source")
        if not whole(self.trace.ranks[sender]):
            return  # it may send what its record does not have
        part = sends.of_rank(sender)
        fits = (sends.peer[part] == rank) & (sends.comm[part] == posts.comm[row])
        if not posts.flags[row] & Post.ANY_TAG:
            fits &= sends.tag[part] == posts.tag[row]
        fitting = part.start + np.flatnonzero(fits)
        if not len(fitting):
            raise UsageError(f"{text}: rank {sender} never sends a message to rank {rank} that fits this receive")
        taken = sends.partner[fitting]
        posted = recvs.event[np.where(taken == NONE, 0, taken)] if len(recvs) else np.zeros(len(taken), np.uint32)
        left = fitting[(taken == NONE) | (posted > index)]
        if not len(left):
            raise UsageError(f"{text}: all messages of rank {sender} that fit are taken by receives before this one")
        send = sends.id(int(left[0]))
        if order.reaches(decided, send, a_end=True, b_end=False):
            raise UsageError(
                f"{text}: rank {sender} sends its next message that fits (event {send[1]}) only after this receive "
                "has its own: it cannot come first"
            )

    def apply(self, plans: Sequence[RankPlan]) -> list[RankPlan]:
        """The plans, cut at what depends on the receive, with its source exchanged."""
        cut = []
        for plan in plans:
            threads = [self._cut(plan, thread) for thread in plan.threads]
            cut.append(replace(plan, threads=threads, flags=plan.flags | PlanFlag.OPEN))
        return cut

    def _cut(self, plan: RankPlan, thread: ThreadPlan) -> ThreadPlan:
        slot = thread.slot
        rank = self.trace.ranks[plan.rank]
        merged = np.flatnonzero(rank.event_threads == slot)  # index among all events of the rank
        first = int(self.future[int(self.processes.first[rank.index]) + slot])
        # 2e + 1: e cannot start without the receive; 2e + 2: it started as recorded, how it ends is free
        edge = len(merged) if first == NONE else int(np.searchsorted(merged, (first - 1) // 2))
        ends_free = first != NONE and first % 2 == 0
        entries = thread.entries[: thread.position(edge + ends_free)].copy()
        values, posts = thread.values.copy(), thread.posts.copy()
        own = int(np.searchsorted(merged, self.event[1])) if rank.index == self.event[0] else -1
        if not (0 <= own < len(merged) and merged[own] == self.event[1]):
            own = -1
        if ends_free and len(entries) and int(entries["event"][-1]) == edge and edge != own:
            entries["flags"][-1] |= EntryFlag.OPEN
        told = self._told(rank.index)
        for k, event in enumerate(thread.posted.tolist()):
            if event == own:
                posts[k] = self.source
            elif event >= edge or told.get(int(merged[event]), NONE) >= (merged[edge] if edge < len(merged) else NONE):
                posts[k] = POSTED_FREE
        if own >= 0:
            row = thread.position(own)
            if row < len(entries) and entries["outcome"][row] == Outcome.SOURCE:
                values[entries["value"][row]] = self.source
        before = rank.events[merged[:edge]]
        made = self.trace.functions.mask(_TURNS)[before["function"]] & (before["error"] == 0)
        turns = thread.turns[thread.turns["ordinal"] < np.count_nonzero(made)]
        return replace(thread, entries=entries, values=values, posts=posts, turns=turns)

    def _told(self, rank: int) -> dict[int, int]:
        """By the event that posted a wildcard receive: the one whose return told which message it took."""
        rows = self.match.recvs
        part = rows.of_rank(rank)
        wild = part.start + np.flatnonzero(rows.flags[part] & Post.ANY_SOURCE != 0)
        return dict(zip(rows.event[wild].tolist(), rows.decided[wild].tolist(), strict=True))
