"""Hold back sends until a call of another rank has completed its forced request, so that the program's memory is as in
a real run with that outcome.

A call such as MPI_Waitany that completes its second request first does so because the first one's message is not there
yet. Without a hold the message may have arrived all the same, and its data hide what the program does without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match import NONE, Match
from weft.replay.control import ControlPage
from weft.replay.layout import ControlState
from weft.replay.plan import RankPlan
from weft.replay.planning import find_entry
from weft.replay.ready import CompletingCall, RequestOperations

PATIENCE = 1.0
"""Seconds without any progress after which the sends that wait go: what the call waits for needs one of them, by a way
that the record does not show."""


class Hold(NamedTuple):
    """A send that waits until a call of another rank has returned. Both are given by rank, thread, and how many entries
    of its plan the thread passes before it.
    """

    rank: int
    thread: int
    entries: int
    call_rank: int
    call_thread: int
    call_entries: int


def find_sends_to_hold(
    requests: RequestOperations, plans: Sequence[RankPlan], rank: int, call: CompletingCall, chosen: int
) -> list[Hold]:
    """Return the sends that have to wait until a call of a rank has completed the request at index `chosen` of its
    array. They are, for each thread, the first send whose message goes to a receive among the other requests.

    A send is left out if the call, or the other side of the chosen request, can only begin after it.
    """
    trace, match, order = requests.trace, requests.match, requests.order
    event = EventId(rank, call.event)
    needed = [event, *_find_partner(match, requests.find_operation(rank, call.event, call.requests[chosen]))]
    first: dict[tuple[int, int], int] = {}
    for index, request in enumerate(call.requests):
        operation = requests.find_operation(rank, call.event, request) if index != chosen else None
        if operation is None or operation[0] is not match.recvs:
            continue
        for send in _find_partner(match, operation):
            if send.rank != rank and not any(order.reaches(send, other, b_end=False) for other in needed):
                thread = send.rank, int(trace.ranks[send.rank].event_threads[send.event])
                first[thread] = min(send.event, first.get(thread, send.event))
    return [
        Hold(*send_entry, *call_entry)
        for call_entry in find_entry(trace.ranks[rank], plans[rank], call.event)
        for (owner, _), send_event in sorted(first.items())
        for send_entry in find_entry(trace.ranks[owner], plans[owner], send_event)
    ]


def _find_partner(match: Match, operation: Any) -> list[EventId]:
    """Return, as a list of one, the event at the other side of a message: the send for a receive, the receive for a
    send. Empty if there is none.
    """
    if operation is None or (partner := int(operation[0].partner[operation[1]])) == NONE:
        return []
    return [(match.sends if operation[0] is match.recvs else match.recvs).id(partner)]


def read_holds(run: dict[str, Any], plans: Sequence[RankPlan]) -> list[Hold]:
    """Return the sends that were held back in the replay that made a run, from its run.json. Those that do not fit the
    plans are left out.
    """
    replayed = run.get("replayed")
    rows = replayed.get("holds") if isinstance(replayed, dict) else None
    holds = [Hold(*row) for row in rows if _is_row(row)] if isinstance(rows, list) else []
    return [one for one in holds if _has_thread(plans, one.rank, one.thread)
            and _has_thread(plans, one.call_rank, one.call_thread)]  # fmt: skip


def _is_row(row: object) -> bool:
    """Return whether a value from run.json is a list of the numbers of a Hold."""
    return (
        isinstance(row, list)
        and len(row) == len(Hold._fields)
        and all(type(number) is int and 0 <= number < 1 << 31 for number in row)
    )


def _has_thread(plans: Sequence[RankPlan], rank: int, thread: int) -> bool:
    return rank < len(plans) and thread < len(plans[rank].threads)


@dataclass(slots=True)
class HeldSends:
    """The sends that still wait, and the goals by which their threads are stopped before them."""

    holds: list[Hold]

    def start(self, controls: Sequence[ControlPage]) -> None:
        """Stop each thread before its first send that has to wait."""
        self._set_goals(controls, {(one.rank, one.thread) for one in self.holds})

    def release(self, controls: Sequence[ControlPage], quiet_seconds: float) -> None:
        """Let sends go that need not wait any longer: their call has returned, or they are waiting and nothing has made
        progress for PATIENCE seconds. `quiet_seconds`: seconds without progress.
        """
        left = [
            one
            for one in self.holds
            if not _has_returned(controls[one.call_rank], one)
            and not (quiet_seconds > PATIENCE and controls[one.rank].is_parked(one.thread))
        ]
        freed = {(one.rank, one.thread) for one in self.holds} if len(left) < len(self.holds) else set()
        self.holds = left
        self._set_goals(controls, freed)

    def _set_goals(self, controls: Sequence[ControlPage], threads: Iterable[tuple[int, int]]) -> None:
        """Stop each of some threads before its first send that still waits, or nowhere if it has none."""
        for rank, thread in threads:
            waiting = [one.entries for one in self.holds if (one.rank, one.thread) == (rank, thread)]
            controls[rank].set_goal(min(waiting, default=None), thread)


def _has_returned(control: ControlPage, hold: Hold) -> bool:
    """Return whether the call of a hold has returned: its thread has made a later call, or has ended."""
    return (
        control.entries_passed(hold.call_thread) > hold.call_entries + 1
        or control.is_past_record()
        or control.state is ControlState.ENDED
        or control.has_ended(hold.call_thread)
    )
