"""Find ranks that only polled when a run was ended from outside, and which ranks can never go on while these poll.

What a program does between two polls is not in the record: it may count them, read a clock or wait for another thread.
So nothing here is proven of the program. What is proven: no message is on its way to a rank that polls, and nobody can
send one as long as the polling ranks do nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.blocked_ranks import Polling, Standstill
from weft.mpi.meaning import base_name, find_meaning
from weft.terms import calls
from weft.terms.library_code import innermost_user_site
from weft.trace import Ending, EndingKind, Event, Rank, Trace
from weft.trace.layout import compute_return_ticks
from weft.trace.sites import CallSite

LEAST_NS: Final = 1e9
"""A rank that has polled for less than this may find an answer with its next poll."""
LEAST_POLLS: Final = 10
MOST_PLACES: Final = 16
"""Different polls of one loop; a loop with more of them is not judged."""
TIGHT_NS: Final = 1_000
"""A loop that polls at least this often has no time for anything else. (A poll takes 150 to 500 ns.)"""
_TIGHT_LINES: Final = 2
_SLEEPS: Final = re.compile(r"sleep|futex|sem_.*wait|cond_.*wait|select|poll|epoll|sched_yield|pause|sigsuspend|join")
_LIBC: Final = re.compile(r"(libc|libpthread|ld-linux)[-.]|\[vdso\]")
_POLL_FRAME: Final = re.compile(r"P?MPI_(Test|I?probe|Improbe|Request_get)", re.IGNORECASE)
_TAKES: Final = calls.RECVS | calls.IRECVS | calls.SENDRECVS | calls.MRECVS | calls.RECV_INITS


class PollingStandstill(Standstill):
    """A run at the moment when a signal from outside came, in which a rank that only polls waits for what its polls ask
    for."""

    def __init__(self, trace: Trace, gone: Collection[int] = (), *, buffering: bool = False) -> None:
        super().__init__(trace, gone, buffering=buffering)
        self._moments: Final = {
            r.index: min(one.ticks for one in seen) for r in trace.ranks if (seen := _find_samples(r))
        }
        # What a rank did on its way out, MPI_Finalize included, it did because of the signal.
        self.gone -= {index for index in self._moments if not self._has_ended_before(trace.ranks[index])}

    @cached_property
    def polling(self) -> dict[int, Polling]:
        """Return by rank index the ranks that only polled when the signal came."""
        return {index: found for index, (found, _) in self._states.items() if found is not None}

    @cached_property
    def _states(self) -> dict[int, tuple[Polling | None, list[Event]]]:
        """Return what each rank that saw the signal did then: how it polled, and its polls and open calls. No calls for
        a rank that may have computed."""
        ranks = (self.trace.ranks[index] for index in self._moments if index not in self.gone)
        return {r.index: _find_state(r, self._moments[r.index]) for r in ranks if self.may_be_blocked(r)}

    def may_be_blocked(self, rank: Rank) -> bool:
        """Return whether the record says enough of a rank. It does if the rank called MPI_Abort after the signal."""
        return (rank.state == "aborted" and rank.index in self._moments) or super().may_be_blocked(rank)

    def find_open_calls(self, rank: Rank) -> list[Event]:
        """Return the calls in which a rank was, and its polls if it only polled; [] if a thread may have computed."""
        state = self._states.get(rank.index)
        return state[1] if state is not None else super().find_open_calls(rank)

    def waiting_function(self, event: Event) -> str:
        """Return the blocking function that waits for what an open call or a poll asks for: Wait for MPI_Test."""
        if event.open:
            return super().waiting_function(event)
        row = find_meaning(event.function.name)
        return row.kin if row is not None else base_name(event.function.name)

    def _has_ended_before(self, rank: Rank) -> bool:
        """Return whether a rank had called MPI_Finalize, or ended its session, before the signal came."""
        begun = rank.events["enter"] <= np.uint64(self._moments[rank.index])
        return bool(self.gatherings.masks.table(calls.ENDS)[rank.events["function"][begun]].any())


def _find_samples(rank: Rank) -> list[Ending]:
    """Return what the threads of a rank did when a signal from outside came, or when Weft asked before it."""
    return [one for one in rank.endings if one.kind in (EndingKind.WARNED, EndingKind.WHERE)]


def _find_state(rank: Rank, moment: int) -> tuple[Polling | None, list[Event]]:
    """Return how a rank polled at a moment (None if it did not), and its polls and open calls then.

    (None, []) if one of its threads may have computed. `moment`: in ticks of the rank.
    """
    nothing: tuple[Polling | None, list[Event]] = (None, [])
    begun = rank.events["enter"] <= np.uint64(moment)
    if calls.masks_of(rank.trace.functions).table(_TAKES)[rank.events["function"][~begun]].any():
        return nothing  # on its way out it took a message, so that it is not known what it could have taken before
    parts: list[Polling] = []
    open_: list[Event] = []
    beside: CallSite | None = None
    for thread in range(max(1, len(rank.threads))):
        rows = np.flatnonzero(begun & (rank.event_threads == thread))
        if not len(rows):
            continue
        last = rank.event(int(rows[-1]))
        sample = next((one for one in _find_samples(rank) if one.slot == last.thread.slot), None)
        part = _find_polling(rank, rows)
        if part is None and last.open:
            open_.append(last)
        elif sample is None or not (_sleeps(sample) or (part is not None and _is_tight(part, sample))):
            return nothing
        elif part is None:
            beside = beside or innermost_user_site(sample.stack)
        else:
            parts.append(part)
    if not parts:
        return None, open_
    polls = tuple(event for part in parts for event in part.polls)
    longest = max(parts, key=lambda part: part.span_ns)
    return Polling(polls, longest.count, longest.span_ns, beside), [*open_, *polls]


def _find_polling(rank: Rank, rows: NDArray[np.int64]) -> Polling | None:
    """Return the polls that a thread made without any other call since its last other call; None if these are few.
    `rows`: the events of the thread so far."""
    events = rank.events[rows]
    failed = rank.trace.functions.failed_polls(events)
    if rank.event(int(rows[-1])).open and rank.event(int(rows[-1])).function.is_poll:
        rows, events, failed = rows[:-1], events[:-1], failed[:-1]
    others = np.flatnonzero(~failed)
    first = int(others[-1]) + 1 if len(others) else 0
    rows, events = rows[first:], events[first:]
    if not len(rows):
        return None
    count = int(events["count"].sum())
    last_ticks = int(compute_return_ticks(events[-1:])[0])
    span = rank.axis.ns(last_ticks) - rank.axis.ns(int(events["enter"][0]))
    polls = _pick_different_polls(rank, rows)
    if span < LEAST_NS or count < LEAST_POLLS or not polls:
        return None
    return Polling(polls, count, span)


def _pick_different_polls(rank: Rank, rows: NDArray[np.int64]) -> tuple[Event, ...]:
    """Return the last of each different poll among some events; () if there are more than MOST_PLACES."""
    events = rank.events[rows]
    keys = np.rec.fromarrays([events[name] for name in ("function", "comm", "peer", "tag", "object", "site")])
    _, from_end = np.unique(keys[::-1], return_index=True)
    if len(from_end) > MOST_PLACES:
        return ()
    found = [rank.event(int(rows[len(rows) - 1 - at])) for at in sorted(from_end.tolist(), reverse=True)]
    arrays = [event for event in found if "array_of_requests" in event.args]
    for event in arrays:  # of a line that polls several arrays in turn only the last array is here
        alike = np.flatnonzero((events["function"] == event.function.id) & (events["site"] == event.site_id))
        if len(alike) > 1 and any(
            rank.event(int(rows[at])).args["array_of_requests"] != event.args["array_of_requests"]
            for at in alike[-MOST_PLACES:]
        ):
            return ()
    return tuple(found)


def _sleeps(sample: Ending) -> bool:
    """Return whether a thread slept, yielded or waited for another thread, in a function of libc. What MPI does in the
    poll does not count: a program that computes between polls is mostly found there if MPI yields its core."""
    if _is_inside_poll(sample):
        return False
    for frame in sample.native:
        if not _LIBC.search((frame.module or "").rpartition("/")[2]):
            return False
        if _SLEEPS.search(frame.function or ""):
            return True
    return False


def _is_tight(polling: Polling, sample: Ending) -> bool:
    """Return whether a thread polls without a pause, and was at the poll or inside of it."""
    if polling.span_ns / polling.count > TIGHT_NS:
        return False
    if _is_inside_poll(sample):
        return True
    at = innermost_user_site(sample.stack)
    return at is not None and any(_is_near(at, poll.site) for poll in polling.polls)


def _is_inside_poll(sample: Ending) -> bool:
    return any(_POLL_FRAME.match(frame.function or "") for frame in sample.native)


def _is_near(place: CallSite, other: CallSite) -> bool:
    return place.known and place.file == other.file and abs(place.line - other.line) <= _TIGHT_LINES
