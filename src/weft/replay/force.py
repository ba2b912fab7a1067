"""Force the other outcome of a race: follow the record up to a call, which then takes another message or request.

What cannot happen unless the call has ended is left free, as the record says nothing of it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId, Forced
from weft.errors import UsageError
from weft.match import NONE, Match, Post, Posts
from weft.mpi.meaning import Access, Act, Sync, functions_with
from weft.order import Order
from weft.replay.holds import Hold, find_sends_to_hold
from weft.replay.layout import POSTED_FREE, EntryFlag, Outcome, PlanFlag
from weft.replay.plan import RankPlan, ThreadPlan
from weft.replay.planning import is_record_complete
from weft.replay.points import require_event
from weft.replay.ready import CompletingCall, RequestOperations, find_completing_calls
from weft.trace import Trace

_TURNS = [
    f"MPI_{name}"
    for name in functions_with(Act.ACCESS, where=lambda m: Access.ATOMIC in m.access)
    | functions_with(Act.EPOCH, where=lambda m: m.sync in (Sync.LOCK, Sync.LOCK_ALL))
]
"""Calls that the recorder counts as locks and atomic accesses of windows."""


def parse_force(text: str, trace: Trace) -> Forced:
    """Return the forced outcome that `RANK:EVENT=SOURCE` or `RANK:EVENT=#INDEX` names. UsageError if the text is
    invalid.
    """
    forced = Forced.parse(text)
    if forced is None:
        raise UsageError(
            f"--force {text}: write RANK:EVENT=SOURCE, as `weft report` prints it under a race, or RANK:EVENT=#INDEX "
            "for the request that MPI_Waitany or a similar call completes"
        )
    require_event(trace, forced.event, f"--force {text}")
    return forced


class Forcing:
    """A call that takes another message, or completes another request, than in the record."""

    def __init__(self, trace: Trace, match: Match, order: Order, forced: Forced) -> None:
        self.trace, self.match, self.order = trace, match, order
        self.forced, self.event = forced, forced.event
        self.sender = -1
        self.call: CompletingCall | None = None
        """The call that completes another request; None for a forced message."""
        self.processes = order.processes
        seeds, losers = self._effects_of_request() if forced.request >= 0 else self._effects_of_message()
        self.future = order.future_points(seeds)
        self.kept = self._find_unchanged_wildcards(losers)

    def _effects_of_message(self) -> tuple[dict[int, int], list[int]]:
        """Return (points, rows): by process (a thread), the first point that the forced message changes, and the rows
        of the receives that lose their message. Raises UsageError if the call cannot take that message.
        """
        trace, match, order = self.trace, self.match, self.order
        (rank, index), source = self.event, self.forced.source
        call = trace.event(rank, index)
        rows = [row for row in match.receives_of(self.event) if match.recvs.flags[row] & Post.ANY_SOURCE]
        if not rows and not call.function.probes:
            raise UsageError(f"--force {self.forced}: {call.function.name} there takes no message from any source")
        comm = call.comm
        if comm is not None and source >= len(comm.peers(rank)):
            raise UsageError(f"--force {self.forced}: {comm} has ranks 0 to {len(comm.peers(rank)) - 1} only")
        self.sender = comm.peers(rank)[source] if comm is not None else source
        decided = int(match.recvs.decided[rows[0]]) if rows else index
        decided = index if decided == NONE else decided
        if comm is not None:
            probes = match.probes
            row = rows[0] if rows else next((k for k in range(len(probes)) if probes.id(k) == self.event), None)
            self._require_possible(match.recvs if rows else probes, row, self.sender, EventId(rank, decided), order)
        seeds = dict([order.point(rank, decided, end=True)])
        losers = self._find_displaced_receives(rows[0] if rows else None)
        late = [(rank, int(event)) for event in match.recvs.decided[losers]]
        late += [(rank, event) for event in self._find_probes_of_sender(rows[0] if rows else None)]
        late += [(rank, event) for event in self._find_probes_after_free_receives(losers)]
        late += [event for row in [*rows[:1], *losers] for event in self._completion_of_synchronous_send(row)]
        for owner, end in late:
            if end != NONE:
                process, point = order.point(owner, end, end=True)
                seeds[process] = min(point, seeds.get(process, point))
        return seeds, losers

    def _effects_of_request(self) -> tuple[dict[int, int], list[int]]:
        """Return (points, rows): the first point that the other request changes, which is the end of its call, and no
        rows, as no receive loses its message. Raises UsageError if the call cannot complete that request.
        """
        (rank, event), index = self.event, self.forced.request
        name = self.trace.event(rank, event).function.name
        call = next(find_completing_calls(self.trace.ranks[rank], event), None)
        if call is None:
            raise UsageError(
                f"--force {self.forced}: {name} there does not choose among requests: #INDEX is for calls that do, "
                "such as waitany; give =SOURCE for a receive"
            )
        if index >= len(call.requests):
            raise UsageError(f"--force {self.forced}: {name} there has requests #0 to #{len(call.requests) - 1} only")
        if call.taken == (index,):
            raise UsageError(f"--force {self.forced}: this is what the record has already: name another request")
        ready = RequestOperations(self.trace, self.match, self.order).can_be_complete(rank, event, call.requests[index])
        if ready is None:
            raise UsageError(
                f"--force {self.forced}: request #{index} belongs to no message, so its order cannot be forced"
            )
        if not ready:
            raise UsageError(
                f"--force {self.forced}: request #{index} is not active at this call, or completes only later"
            )
        self.call = call
        return dict([self.order.point(rank, event, end=True)]), []

    def _require_possible(self, posts: Posts, row: int | None, sender: int, decided: EventId, order: Order) -> None:
        """Raise UsageError if no run that follows the record up to the receive can have the forced outcome."""
        rank, index = self.event
        text, sends, recvs = f"--force {self.forced}", self.match.sends, self.match.recvs
        if row is None:
            return
        took = int(posts.partner[row])
        if took != NONE and sends.rank_of(took) == sender:
            raise UsageError(f"{text}: this is what the record has already: name another source")
        if not is_record_complete(self.trace.ranks[sender]):
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
            raise UsageError(f"{text}: earlier receives take all messages of rank {sender} that this one could take")
        send = sends.id(int(left[0]))
        if order.reaches(decided, send, a_end=True, b_end=False):
            raise UsageError(
                f"{text}: rank {sender} sends its next message that fits (event {send[1]}) only after this receive "
                "has got its message, so it cannot come first"
            )

    def _find_displaced_receives(self, row: int | None) -> list[int]:
        """Return the rows of later receives that get another message because of the forced one. `row`: the receive that
        is forced; none are returned for a probe (None).
        """
        if row is None:
            return []
        recvs = self.match.recvs
        losers: dict[int, None] = {}
        took = int(recvs.partner[row])
        for sender in (self.sender, *([self.match.sends.rank_of(took)] if took != NONE else [])):
            later = self._next_receive_from(row, sender)
            while later is not None:
                losers[later] = None
                # One that names the sender gets that sender's next message, which another receive had.
                later = self._next_receive_from(later, sender) if not recvs.flags[later] & Post.ANY_SOURCE else None
        return list(losers)

    def _next_receive_from(self, row: int, sender: int) -> int | None:
        """Return the row of the first receive after the one at `row` that took a message of `sender`. Only messages
        that fit the receive at `row`, too, count. None if there is none.
        """
        recvs, sends = self.match.recvs, self.match.sends
        part = recvs.of_rank(self.event[0])
        rows = part.start + np.flatnonzero((recvs.event[part] > recvs.event[row]) & (recvs.partner[part] != NONE))
        fits = recvs.comm[rows] == recvs.comm[row]
        if not recvs.flags[row] & Post.ANY_TAG:
            fits &= sends.tag[recvs.partner[rows]] == recvs.tag[row]
        taken = [k for k in rows[fits].tolist() if sends.rank_of(int(recvs.partner[k])) == sender]
        return min(taken, key=lambda k: int(sends.event[recvs.partner[k]]), default=None)

    def _find_probes_of_sender(self, row: int | None) -> list[int]:
        """Return the events of later probes that saw a message of the forced sender: the forced receive now takes a
        message before them. `row`: that receive; none are returned for a probe (None).
        """
        probes = self.match.probes
        part = probes.of_rank(self.event[0])
        rows = part.start + np.flatnonzero((probes.event[part] > self.event[1]) & (probes.partner[part] != NONE))
        return [int(probes.event[k]) for k in rows.tolist()
                if row is not None and self.match.sends.rank_of(int(probes.partner[k])) == self.sender]  # fmt: skip

    def _find_probes_after_free_receives(self, losers: list[int]) -> list[int]:
        """Return the events of later probes whose message an earlier receive may now take first. `losers`: rows of
        receives that lost their message.
        """
        if not losers:
            return []
        recvs, probes, sends = self.match.recvs, self.match.probes, self.match.sends
        part = recvs.of_rank(self.event[0])
        first = int(recvs.event[losers].min())
        pending = part.start + np.flatnonzero((recvs.event[part] >= first) & (recvs.flags[part] & Post.ANY_SOURCE != 0))
        found = []
        rows = probes.of_rank(self.event[0])
        for row in range(rows.start, rows.stop):
            event, seen = int(probes.event[row]), int(probes.partner[row])
            if seen == NONE or event <= first:
                continue
            fits = (recvs.comm[pending] == probes.comm[row]) & (recvs.event[pending] < event)
            fits &= recvs.decided[pending] > event  # NONE is above all events
            fits &= (recvs.flags[pending] & Post.ANY_TAG != 0) | (recvs.tag[pending] == sends.tag[seen])
            found += [event] if fits.any() else []
        return found

    def _completion_of_synchronous_send(self, row: int) -> list[EventId]:
        """Return, as a list of one, the call at whose end the sender of a receive's message knew that it was taken.
        Empty if the send was not synchronous or not completed.
        """
        sends = self.match.sends
        send = int(self.match.recvs.partner[row])
        if send == NONE or not sends.flags[send] & Post.SYNCHRONOUS or sends.completion[send] == NONE:
            return []
        return [EventId(sends.rank_of(send), int(sends.completion[send]))]

    def _find_unchanged_wildcards(self, losers: list[int]) -> set[EventId]:
        """Return the events of the other wildcard receives that take the same message as in the record in spite of the
        forced outcome. `losers`: rows of receives that lost their message.
        """
        recvs, kept = self.match.recvs, set()
        free_on: set[int] = set()
        rows = np.flatnonzero(recvs.flags & Post.ANY_SOURCE != 0)
        for row, rank in zip(rows.tolist(), recvs.ranks()[rows].tolist(), strict=True):
            event = int(recvs.event[row])
            if (rank, event) == self.event:
                continue
            if self._is_unaffected(rank, event, end=False) and (
                self._is_unaffected(rank, int(recvs.decided[row]), end=True)
                or (row not in losers and rank not in free_on and self._is_send_unaffected(int(recvs.partner[row])))
            ):
                kept.add(EventId(rank, event))
            else:
                free_on.add(rank)
        return kept

    def _is_unaffected(self, rank: int, event: int, *, end: bool) -> bool:
        """Return whether the start, or with `end` the end, of an event does not depend on the forced call."""
        if event == NONE:
            return False
        first = int(self.future[self.processes.of(rank, event)])
        return first == NONE or 2 * event + 1 + end < first

    def _is_send_unaffected(self, send: int) -> bool:
        return send != NONE and self._is_unaffected(*self.match.sends.id(send), end=False)

    def keeps_outcome(self, rank: int, event: int, *, receive: bool) -> bool:
        """Return whether another call has the same outcome as in the record. `receive`: it is a wildcard receive, not a
        probe or completion.
        """
        return (rank, event) in self.kept if receive else self._is_unaffected(rank, event, end=True)

    def find_sends_to_hold(self, plans: Sequence[RankPlan]) -> list[Hold]:
        """Return the sends that wait until the call has completed the forced request; none for a forced message."""
        if self.call is None:
            return []
        requests = RequestOperations(self.trace, self.match, self.order)
        return find_sends_to_hold(requests, plans, self.event.rank, self.call, self.forced.request)

    def apply_to_plans(self, plans: Sequence[RankPlan]) -> list[RankPlan]:
        """Return the ranks' plans with the forced outcome; each plan ends where the record no longer applies."""
        cut = []
        for plan in plans:
            threads = [self._cut_thread_plan(plan, thread) for thread in plan.threads]
            cut.append(replace(plan, threads=threads, flags=plan.flags | PlanFlag.OPEN))
        return cut

    def _cut_thread_plan(self, plan: RankPlan, thread: ThreadPlan) -> ThreadPlan:
        """Return the plan of a thread with the forced outcome. It ends where the thread's calls begin to depend on the
        forced one.
        """
        slot = thread.slot
        rank = self.trace.ranks[plan.rank]
        merged = np.flatnonzero(rank.event_threads == slot)  # index among all events of the rank
        first = int(self.future[int(self.processes.first[rank.index]) + slot])
        # 2e + 1: e cannot start without the receive; 2e + 2: it started as recorded, how it ends is free
        edge = len(merged) if first == NONE else int(np.searchsorted(merged, (first - 1) // 2))
        ends_free = first != NONE and first % 2 == 0
        entries = thread.entries[: thread.entries_before(edge + ends_free)].copy()
        values, posts = thread.values.copy(), thread.posts.copy()
        own = int(np.searchsorted(merged, self.event[1])) if rank.index == self.event[0] else -1
        if not (0 <= own < len(merged) and merged[own] == self.event[1]):
            own = -1
        if ends_free and len(entries) and int(entries["event"][-1]) == edge and edge != own:
            entries["flags"][-1] |= EntryFlag.OPEN
        for k, event in enumerate(thread.posted.tolist()):
            if event == own and self.forced.request < 0:
                posts[k] = self.forced.source
            elif event >= edge or (rank.index, int(merged[event])) not in self.kept:
                posts[k] = POSTED_FREE
        if own >= 0:
            row = thread.entries_before(own)
            if row < len(entries):
                self._replace_outcome(entries[row], values)
        before = rank.events[merged[:edge]]
        made = self.trace.functions.mask(_TURNS)[before["function"]] & (before["error"] == 0)
        turns = thread.turns[thread.turns["ordinal"] < np.count_nonzero(made)]
        return replace(thread, entries=entries, values=values, posts=posts, turns=turns)

    def _replace_outcome(self, entry: Any, values: NDArray[np.int32]) -> None:
        """Write the forced outcome of a call into `values`, at the index that the call's plan entry gives. The outcome
        is the source of a message or the index of a request.
        """
        if entry["outcome"] == Outcome.SOURCE:
            values[entry["value"]] = self.forced.source
        elif entry["outcome"] == Outcome.INDEX:
            values[entry["value"]] = self.forced.request
        elif entry["outcome"] == Outcome.COUNT:
            values[entry["value"] : entry["value"] + 2] = 1, self.forced.request
