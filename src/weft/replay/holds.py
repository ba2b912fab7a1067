"""Hold back sends until a call of another rank has completed its forced request, so that the program's memory is as in
a real run with that outcome.

A call such as MPI_Waitany that completes its second request first does so because the first one's message is not there
yet. Without a hold the message may have arrived all the same, and its data hide what the program does without them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    """The sends that still wait. Their threads are stopped before them, whatever their goals are."""

    holds: list[Hold]

    @property
    def threads(self) -> set[tuple[int, int]]:
        """Return the threads that have sends which wait."""
        return {(one.rank, one.thread) for one in self.holds}

    def bound(self, thread: tuple[int, int], goal: int | None) -> int | None:
        """Return the goal of a thread, or its first send that still waits if that comes before. None: no goal."""
        waiting = [one.entries for one in self.holds if (one.rank, one.thread) == thread]
        return min([*waiting, *([] if goal is None else [goal])], default=None)

    def find_call_awaited_by(self, control: ControlPage, thread: int) -> tuple[int, int] | None:
        """Return the thread (rank, slot) whose call a thread waits for, as it stands before a send that is held back;
        None if it does not.
        """
        at = control.entries_passed(thread)
        mine = [one for one in self.holds if (one.rank, one.thread, one.entries) == (control.rank, thread, at)]
        return (mine[0].call_rank, mine[0].call_thread) if mine and control.is_parked(thread) else None

    def release(
        self, controls: Sequence[ControlPage], quiet_seconds: float, stopped: Collection[int] = ()
    ) -> set[tuple[int, int]]:
        """Let sends go that need not wait any longer: their call has returned, or they are waiting and nothing has made
        progress for PATIENCE seconds. Return the threads that need new goals for that.

        `quiet_seconds`: seconds without progress. `stopped`: ranks that a debugger has stopped at lines of the program.
        """
        left = [
            one
            for one in self.holds
            if not _has_returned(controls[one.call_rank], one)
            and not (
                quiet_seconds > PATIENCE
                and controls[one.rank].is_parked(one.thread)
                and not controls[one.call_rank].is_parked(one.call_thread)
                and one.call_rank not in stopped
            )
        ]
        freed = self.threads if len(left) < len(self.holds) else set()
        self.holds = left
        return freed

    def release_behind_stops(self, controls: Sequence[ControlPage], stopped: Collection[int]) -> None:
        """Let sends go whose call has returned in a rank that is stopped at a line after it. `stopped`: the ranks that
        are stopped at lines.
        """
        self.holds = [
            one
            for one in self.holds
            if one.call_rank not in stopped
            or controls[one.call_rank].entries_passed(one.call_thread) <= one.call_entries
        ]


def _has_returned(control: ControlPage, hold: Hold) -> bool:
    """Return whether the call of a hold has returned: its thread has made a later call or is stopped before it, or has
    ended."""
    passed = control.entries_passed(hold.call_thread)
    return (
        passed > hold.call_entries + 1
        or (passed > hold.call_entries and control.is_parked(hold.call_thread))
        or control.is_past_record()
        or control.state is ControlState.ENDED
        or control.has_ended(hold.call_thread)
    )
