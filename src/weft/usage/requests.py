"""Requests: never completed, completed or started once too often, freed too early; buffers that pending ones share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.traffic import Traffic, nth
from weft.findings import Finding
from weft.terms import calls
from weft.terms.columns import Ints
from weft.terms.describe import where
from weft.terms.telling import MAX_OF_ONE_SITE, cause, finding, reached_finalize, said
from weft.trace import Event, Flag, Rank, Trace
from weft.trace.layout import ID_DYNAMIC, PROC_NULL
from weft.usage.overlaps import accesses, overlaps

_FREES = frozenset(("Request_free",))
_USES = frozenset(("Wait", "Test", "Request_free"))
_FIRED = calls.REQUEST_MAKERS - calls.PERSISTENT
_SENDING = calls.ISENDS | calls.SEND_INITS
_READS = calls.SENDS | _SENDING
_WRITES = calls.RECVS | calls.IRECVS | calls.RECV_INITS


def find(trace: Trace) -> list[Finding]:
    """What is wrong with the requests and the pending buffers of each rank."""
    found: list[Finding] = []
    for rank in trace.ranks:
        if len(rank):
            found += _Requests(rank).find()
            found += _changed(rank)
            found += _overlaps(rank)
    return found


class _Requests:
    """The life of every request of one rank, as columns."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.of = Traffic(rank)
        self.masks = self.of.masks
        events = rank.events
        self.makers = self.masks.where(events, calls.REQUEST_MAKERS)
        self.makers = self.makers[events["object"][self.makers] >= ID_DYNAMIC]
        self.ids = events["object"][self.makers].astype(np.int64)
        self.functions = events["function"][self.makers]
        self.frees = self.masks.where(events, _FREES)
        self.freed = events["object"][self.frees].astype(np.int64)
        self.persistent = self.masks.table(calls.PERSISTENT)[self.functions]

    def find(self) -> Iterator[Finding]:
        """Leaks, and starts, waits and frees at the wrong time."""
        if reached_finalize(self.rank):
            yield from self._leaks()
        yield from self._stale()
        yield from self._starts()
        yield from self._frees_while_active()

    def _events(self, indices: Ints) -> Iterator[Event]:
        """Events of some indices, of each call site at most some."""
        seen: dict[int, int] = defaultdict(int)
        for index in indices.tolist():
            event = self.rank.event(index)
            seen[event.site_id] += 1
            if seen[event.site_id] <= MAX_OF_ONE_SITE:
                yield event

    def _spare(self) -> int:
        """Completions that belong to no request of the record.

        MPICH gives one handle to all sends that were complete at once, Open MPI to all operations with MPI_PROC_NULL,
        so that the id of an earlier one is lost: its completion shows as a second one of the last such request, or as
        one of an unknown request.
        """
        done = self.of.completions.request
        fired = self.ids[~self.persistent]
        known = np.isin(done, self.ids)
        times = np.unique(done[np.isin(done, fired)], return_counts=True)[1]
        return int(np.count_nonzero(~known) + (times - 1).sum())

    def _stale(self) -> Iterator[Finding]:
        """Waits, tests and frees of a request that is over: of a copy of its handle, as the call sets its own to null.

        A request that nobody made in the record may also be one whose id was lost (see `_spare`): where a send is left
        over, only a call that failed, or never returned, is told.
        """
        events, done = self.rank.events, self.of.completions
        single = self.masks.where(events, _USES)
        single = single[events["object"][single] >= ID_DYNAMIC]
        known = np.isin(events["object"][single], self.ids) | self._seen_before(single)
        strange = single[~known]
        again = [row for row, use in enumerate(nth(done.request)) if use and int(done.request[row]) in self._fired_ids]
        arrays = done.event[~np.isin(done.request, self.ids) & ~np.isin(done.event, single)]
        used = np.unique(np.concatenate([strange, done.event[again], arrays, self._failed_arrays()])).astype(np.int64)
        if len(self._lost_instant()):
            closed = (events["flags"][used] & Flag.CLOSED) != 0
            used = used[(events["error"][used] != 0) | ~closed]
        for event in self._events(used):
            yield self._stale_finding(event)

    def _failed_arrays(self) -> Ints:
        """Calls on several requests that failed or never returned, with one that no call of the record made."""
        events = self.rank.events
        which = self.masks.where(events, (calls.WAITS | calls.TESTS) - _USES)
        which = which[(events["error"][which] != 0) | ((events["flags"][which] & Flag.CLOSED) == 0)]
        known = set(self.ids.tolist())
        requests = {index: self.rank.event(index).args.get("array_of_requests", []) for index in which.tolist()}
        found = [i for i, asked in requests.items() if any(r >= ID_DYNAMIC and r not in known for r in asked)]
        return np.array(found, np.int64)

    def _stale_finding(self, event: Event) -> Finding:
        over = np.unique(np.concatenate([self.of.completions.request[self.of.completions.event < event.index],
                                         self.freed[self.frees < event.index]]))  # fmt: skip
        made = self.makers[np.isin(self.ids, over) & ~self.persistent]
        makers = [self.rank.event(int(made[0]))] if len(made) == 1 else []
        which = f", that of {said(makers[0])}" if makers else ""
        verb = "frees" if event.function.name == "MPI_Request_free" else "completes"
        return finding(
            "request-misuse",
            f"rank {self.rank.index} {verb} a request{where(event)} that is already over{which}: its handle was copied "
            "before it was waited for, tested or freed, and the copy is stale",
            [event, *makers],
            cause=cause(event),
        )

    def _seen_before(self, uses: Ints) -> NDArray[np.bool_]:
        """Whether another kind of call dealt with the request of each use before: then that one may have made it."""
        events = self.rank.events
        others = ~self.masks.table(_USES)[events["function"]] & (events["object"] >= ID_DYNAMIC)
        first: dict[int, int] = {}
        for index in np.flatnonzero(others & np.isin(events["object"], events["object"][uses])).tolist():
            first.setdefault(int(events["object"][index]), index)
        return np.array([first.get(int(events["object"][u]), u) < u for u in uses], np.bool_)

    @property
    def _fired_ids(self) -> set[int]:
        return set(self.ids[~self.persistent].tolist())

    def _lost_instant(self) -> Ints:
        """Requests of calls that may be complete at once and were never seen to complete."""
        gone = np.union1d(self.of.completions.request, self.freed)
        instant = self.masks.table(_SENDING)[self.functions]
        instant |= self.rank.events["peer"][self.makers] == PROC_NULL
        lost: Ints = self.makers[instant & ~self.persistent & ~np.isin(self.ids, gone)]
        return lost

    def _leaks(self) -> Iterator[Finding]:
        gone = np.concatenate([self.of.completions.request, self.freed])
        lost = ~np.isin(self.ids, gone)
        active = lost & ~self.persistent
        instant = self._lost_instant()
        if 0 < len(instant) <= self._spare():
            active &= ~np.isin(self.makers, instant)
        for event in self._events(self.makers[active]):
            yield finding(
                "request-leak",
                f"rank {self.rank.index} never completes the request of {said(event)}: no wait, test or free follows",
                [event],
                cause=cause(event),
            )
        unfreed = self.persistent & ~np.isin(self.ids, self.freed)
        for event in self._events(self.makers[unfreed]):
            yield finding(
                "request-leak",
                f"rank {self.rank.index} never frees the persistent request of {said(event)}",
                [event],
                severity="warning",
                cause=f"unfreed {cause(event)}",
            )

    def _starts(self) -> Iterator[Finding]:
        """Persistent requests that were started while active, or never."""
        event, request, init = self.of.starts
        for index in np.unique(event[(init < 0) & (request >= ID_DYNAMIC)])[:MAX_OF_ONE_SITE].tolist():
            start = self.rank.event(index)
            made = self.makers[np.isin(self.ids, request[event == index])]
            if len(made):
                yield finding(
                    "request-misuse",
                    f"rank {self.rank.index} starts a request that is not persistent{where(start)}",
                    [start, self.rank.event(int(made[0]))],
                    cause=cause(start),
                )
        for id in np.unique(request[init >= 0]).tolist():
            yield from self._started_twice(id, event[request == id])
        never = self.persistent & ~np.isin(self.ids, request)
        if reached_finalize(self.rank):
            for maker in self._events(self.makers[never]):
                yield finding(
                    "request-misuse",
                    f"rank {self.rank.index} never starts the persistent request of {said(maker)}",
                    [maker],
                    severity="warning",
                    cause=f"never started {cause(maker)}",
                )

    def _started_twice(self, request: int, starts: Ints) -> Iterator[Finding]:
        done = self.of.completions
        completed = done.event[done.request == request]
        # Before the n-th start, n - 1 completions must have been seen.
        early = np.flatnonzero(np.searchsorted(completed, starts) < np.arange(len(starts)))
        if len(early):
            start = self.rank.event(int(starts[early[0]]))
            before = self.rank.event(int(starts[early[0] - 1]))
            yield finding(
                "request-misuse",
                f"rank {self.rank.index} starts a request{where(start)} that is still active from its start"
                f"{where(before)}",
                [start, before],
                cause=cause(start, before),
            )

    def _frees_while_active(self) -> Iterator[Finding]:
        """Freeing an active receive leaves nobody to tell when its buffer is filled (MPI-4.1, 3.7.3)."""
        done = self.of.completions
        starts_of, started, _ = self.of.starts
        receives = self.masks.table(calls.IRECVS | calls.RECV_INITS)
        order = np.argsort(self.ids, kind="stable")
        for free, request in zip(self.frees.tolist(), self.freed.tolist(), strict=True):
            place = int(np.searchsorted(self.ids[order], request))
            if place == len(order) or self.ids[order][place] != request:
                continue
            made = int(self.makers[order[place]])
            if not receives[self.rank.events["function"][made]]:
                continue
            maker = self.rank.event(made)
            begun = int(np.count_nonzero((started == request) & (starts_of < free)))
            begun += maker.function.name.startswith("MPI_Irecv")
            if begun > np.count_nonzero((done.request == request) & (done.event < free)):
                event = self.rank.event(free)
                yield finding(
                    "request-misuse",
                    f"rank {self.rank.index} frees the active request of {said(maker)}{where(event)}: nothing tells "
                    "when its message is there",
                    [event, maker],
                    cause=cause(event, maker),
                )


# Buffers


def _changed(rank: Rank) -> Iterator[Finding]:
    """Sends whose buffer was not at their completion what it was at their start: the recorder's checksum says so."""
    flagged = np.flatnonzero((rank.events["flags"] & Flag.BUFFER_CHANGED) != 0)
    for index in flagged[:MAX_OF_ONE_SITE].tolist():
        event = rank.event(index)
        makers = _sends_completed(rank, event)
        which = f" of {said(makers[0])}" if len(makers) == 1 else ""
        yield finding(
            "buffer-reuse",
            f"rank {rank.index} changed the buffer of a pending send{which} before {said(event)} completed it",
            [*(makers if len(makers) == 1 else []), event],
            cause=cause(event),
        )


def _sends_completed(rank: Rank, event: Event) -> list[Event]:
    """The sends among the requests of a completing call."""
    args = event.args
    requests = {event.object, *args.get("array_of_requests", [])} - {0, 1}
    masks = Traffic(rank).masks
    makers = masks.where(rank.events, _SENDING)
    return [rank.event(int(i)) for i in makers if int(rank.events["object"][i]) in requests][:MAX_OF_ONE_SITE]


def _overlaps(rank: Rank) -> Iterator[Finding]:
    """Buffers of operations that are pending together, at least one of which is written."""
    of = Traffic(rank)
    if not len(of.masks.where(rank.events, calls.IRECVS | calls.RECV_INITS)):
        return  # nobody writes into a pending buffer
    rows = accesses(of, _READS, _WRITES)
    for one, two in overlaps(rows, rank.events["site"][rows.begin], len(rank.events)):
        first, second = rank.event(int(rows.begin[one])), rank.event(int(rows.begin[two]))
        shared = int(min(rows.high[one], rows.high[two])) - int(max(rows.low[one], rows.low[two]))
        verb = "receives into" if rows.writes[two] else "sends from"
        held = "is received into" if rows.writes[one] else "is sent"
        yield finding(
            "buffer-reuse",
            f"rank {rank.index} {verb} {shared:,} bytes in {said(second)} that {held} by the pending {said(first)}",
            [second, first],
            evidence={"bytes": shared},
            cause=cause(second, first),
        )
