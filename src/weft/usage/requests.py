"""Check requests: never completed, completed or started once too often, freed too early; and buffers that pending ones
share.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.traffic import Traffic, first_row_after
from weft.evidence import Sampled
from weft.findings import Finding
from weft.mpi.meaning import base_name
from weft.terms import calls
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.calls import catalogue_of, masks_of
from weft.terms.describe import site_suffix
from weft.terms.event_findings import MAX_OF_ONE_SITE, call_at, cause_key, limit_per_site, make_finding
from weft.terms.rank_progress import has_reached_finalize
from weft.trace import Event, Flag, Rank
from weft.trace.layout import ID_DYNAMIC, PROC_NULL
from weft.usage.array_sections import describe_copy, find_copied_section
from weft.usage.buffer_memory import RankMemory
from weft.usage.file_transfers import report_wrong_transfers
from weft.usage.object_ids import believable_ids
from weft.usage.partition_readiness import report_wrong_pready_calls
from weft.usage.pending_buffers import (
    ICOLLECTIVES,
    ends_of_requests,
    find_overlapping_rows,
    find_request_ends,
    note_undecided_overlap,
    overlap_finding,
)
from weft.usage.receive_buffers import collect_message_buffers

_USES = calls.OF_ONE | calls.RELEASES
_SENDING = calls.ISENDS | calls.SEND_INITS
_WRITING: Final = calls.RECVS | calls.SENDRECVS | calls.DATA_COLLECTIVES | calls.FILE_READS
_NONE: Final = np.zeros(0, np.int64)


def check_rank_requests(rank: Rank) -> list[Finding]:
    """Find what is wrong with the requests and pending buffers of a rank; all of its calls are looked at together."""
    of = Traffic(rank)
    return [
        *Requests(of).find_misuse(),
        *report_wrong_pready_calls(of),
        *_report_changed_buffers(rank),
        *report_wrong_transfers(of),
        *report_shared_buffers(of),
    ]


class Requests:
    """The life of every request of one rank, as columns."""

    def __init__(self, of: Traffic) -> None:
        self.of, self.rank = of, of.rank
        rank = of.rank
        self.masks = self.of.masks
        events = rank.events
        makers = self.masks.where(rank, calls.REQUEST_MAKERS)
        ids = events["object"][makers].astype(np.int64)
        self._held = believable_ids(rank, lambda: ids)
        good = (ids >= max(ID_DYNAMIC, self._held.start)) & (ids < self._held.stop)
        self.makers, self.ids = (makers, ids) if good.all() else (makers[good], ids[good])
        self.functions = catalogue_of(rank).function[self.makers]
        self.frees = self.masks.where(rank, calls.RELEASES)
        self.freed = events["object"][self.frees].astype(np.int64)
        self.persistent = self.masks.table(calls.PERSISTENT)[self.functions]
        request, event = self.of.done
        good = (request >= self._held.start) & (request < self._held.stop)
        self.request, self.event = (request, event) if good.all() else (request[good], event[good])
        self._build_tables_by_id()
        self._completed_of_site: dict[int, str] = {}

    def _build_tables_by_id(self) -> None:
        """Build tables indexed by request id minus the smallest id: whether the request was made, completed, freed. Ids
        are consecutive, so the tables stay small.
        """
        freed = self.freed[(self.freed >= max(ID_DYNAMIC, self._held.start)) & (self.freed < self._held.stop)]
        every = self.ids, self.request, freed
        self.first = min(int(ids.min(initial=self._held.stop)) for ids in every)
        size = max(0, *(int(ids.max(initial=0)) + 1 - self.first for ids in every))
        self.made, self.fired = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        self.made[self.ids - self.first] = True
        self.fired[self.ids[~self.persistent] - self.first] = True
        self.times = np.bincount(self.request - self.first, minlength=size)
        """How often it was completed."""
        self.freed_ids = np.zeros(size, np.bool_)
        self.freed_ids[freed - self.first] = True
        self.gone = self.freed_ids | (self.times > 0)

    def find_misuse(self) -> Iterator[Finding]:
        """Find requests that leak, and starts, waits, tests and frees at the wrong time."""
        if has_reached_finalize(self.rank):
            yield from self._check_leaks()
        yield from self._check_stale_handles()
        yield from self._check_starts()
        yield from self._check_frees_while_active()
        yield from self._check_frees_of_collectives()

    def is_clean(self) -> bool:
        """Return whether nothing is wrong with the requests of a part of a rank's calls, and none is pending at its
        end. Whether persistent requests are ever started and freed is not checked.
        """
        over = self.gone[self.ids - self.first] | self.persistent
        lost = self._unseen_instant_requests
        event, request, init = self._persistent_starts()
        return (
            np.count_nonzero(~over) == len(lost) <= self._count_unowned_completions()
            and bool((init >= 0).all())
            and not any(True for _ in chain(
                self._check_stale_handles(), self._check_started_twice(event, request),
                self._check_frees_while_active(), self._check_frees_of_collectives(),
            ))
        )  # fmt: skip

    def _limit_per_call_site(self, indices: Ints) -> Iterator[Event]:
        """Yield the events of some indices, at most MAX_OF_ONE_SITE for each call site."""
        for index in indices[limit_per_site(self.rank, indices)].tolist():
            yield self.rank.event(index)

    def _count_unowned_completions(self) -> int:
        """Return how many completions belong to no request of the record.

        MPICH gives the same handle to all sends that were complete at once, Open MPI to all operations with
        MPI_PROC_NULL. The id of an earlier request is then lost: its completion shows as a second completion of the
        last such request, or as the completion of an unknown request.
        """
        unknown = np.count_nonzero(~self.made[self.request - self.first])
        again = self.times[self.fired & (self.times > 1)]
        return int(unknown + (again - 1).sum())

    def _check_stale_handles(self) -> Iterator[Finding]:
        """Report waits, tests and frees of a request that is over already. The program names it by an old copy of the
        handle, as the call that ended the request has set the handle itself to null.

        Only calls that failed or never returned are reported if the record lacks completions of requests that may have
        been complete at once.
        """
        events = self.rank.events
        single = self.masks.where(self.rank, _USES)
        single = single[events["object"][single] >= ID_DYNAMIC]
        strange = single[~self._were_made(events["object"][single])]
        strange = strange[~self._were_named_before(strange)]
        arrays = self.event[~self.made[self.request - self.first]]
        arrays = arrays[~np.isin(arrays, single)] if len(arrays) else arrays
        used = sorted_distinct(
            np.concatenate([strange, self._repeated_completions(), arrays, self._failed_array_calls()])
        ).astype(np.int64)
        if len(used) and len(self._unseen_instant_requests):
            closed = (events["flags"][used] & Flag.CLOSED) != 0
            used = used[(events["error"][used] != 0) | ~closed]
        for event in self._limit_per_call_site(used):
            yield self._stale_finding(event)

    def _were_made(self, ids: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return a mask of the request ids that some call of the record made."""
        places = ids.astype(np.int64) - self.first
        known = (places >= 0) & (places < len(self.made))
        known[known] = self.made[places[known]]
        return known

    def _repeated_completions(self) -> Ints:
        """Return the events that completed a nonpersistent request after an earlier call had completed it."""
        if not (self.fired & (self.times > 1)).any():
            return np.zeros(0, np.int64)
        first = np.zeros(len(self.times), np.int64)
        rows = np.arange(len(self.request))
        places = self.request - self.first
        first[places[::-1]] = rows[::-1]
        found: Ints = self.event[(first[places] != rows) & self.fired[places]]
        return found

    def _failed_array_calls(self) -> Ints:
        """Return the waits and tests on several requests that failed or never returned, and that name a request which
        no recorded call made.
        """
        events = self.rank.events
        if not catalogue_of(self.rank).failed and not catalogue_of(self.rank).open:
            return np.zeros(0, np.int64)
        which = self.masks.where(self.rank, (calls.WAITS | calls.TESTS) - _USES)
        which = which[(events["error"][which] != 0) | ((events["flags"][which] & Flag.CLOSED) == 0)]
        known = set(self.ids.tolist())
        requests = {index: self.rank.event(index).args.get("array_of_requests", []) for index in which.tolist()}
        found = [i for i, asked in requests.items() if any(r >= ID_DYNAMIC and r not in known for r in asked)]
        return np.array(found, np.int64)

    def _stale_finding(self, event: Event) -> Finding:
        """Make the finding for a call on a request that is over or never was one."""
        makers, why = self._explain_stale_handle(event.index)
        verb = "frees" if event.function.name == "MPI_Request_free" else "completes"
        return make_finding(
            "request-misuse",
            f"rank {self.rank.index} {verb} a request{site_suffix(event)} that {why}",
            [event, *makers],
            cause=cause_key(event),
        )

    def _explain_stale_handle(self, index: int) -> tuple[list[Event], str]:
        """Return the call to cite for a use of an invalid request, in a list, and in words why the request is invalid.
        The cited call made the request, or failed to make it; the list is empty if the call is not known. `index`: the
        event of the use.
        """
        if (self.makers < index).any():
            makers = self._only_maker_over_before(index)
            copied = "its handle was copied before it was waited for, tested or freed, and the copy is stale"
            if makers:
                return makers, f"is already complete, that of {call_at(makers[0])}: {copied}"
            return [], f"is already complete: {copied}; or the handle was never set"
        failed = self.masks.where(self.rank, calls.REQUEST_MAKERS)
        failed = failed[(failed < index) & (self.rank.events["error"][failed] != 0)]
        if len(failed):
            failure = self.rank.event(int(failed[-1]))
            return [failure], f"no call made: {call_at(failure)} failed, and left its handle as it was"
        return [], "no call made: its handle was never set"

    @cached_property
    def _first_request_ends(self) -> tuple[Ints, Ints]:
        """Return two columns for the two nonpersistent requests that end first: the calls that made them, and the
        events that end them.
        """
        makers = self.makers[~self.persistent]
        at = ends_of_requests(self.rank, makers, find_request_ends(self.of))
        first = np.argsort(at, kind="stable")[:2]
        return makers[first], at[first]

    def _only_maker_over_before(self, index: int) -> list[Event]:
        """Return, in a list, the call that made the only request which ended before an event; empty if several or none
        ended before.
        """
        makers, at = self._first_request_ends
        over = makers[at < index]
        return [self.rank.event(int(over[0]))] if len(over) == 1 else []

    def _were_named_before(self, uses: Ints) -> NDArray[np.bool_]:
        """Return a mask of the calls `uses` (waits, tests, frees) whose request an earlier call of another kind names.
        That call may have made the request.
        """
        if not len(uses):
            return np.zeros(0, np.bool_)
        events = self.rank.events
        others = ~self.masks.table(_USES)[catalogue_of(self.rank).function] & (events["object"] >= ID_DYNAMIC)
        first: dict[int, int] = {}
        for index in np.flatnonzero(others & np.isin(events["object"], events["object"][uses])).tolist():
            first.setdefault(int(events["object"][index]), index)
        return np.array([first.get(int(events["object"][u]), u) < u for u in uses], np.bool_)

    @cached_property
    def _unseen_instant_requests(self) -> Ints:
        """Return the calls that made requests which never completed in the record but may have been complete at once:
        sends, and operations with MPI_PROC_NULL.
        """
        rows = np.flatnonzero(~self.gone[self.ids - self.first] & ~self.persistent)
        instant = self.masks.table(_SENDING)[self.functions[rows]]
        instant |= self.rank.events["peer"][self.makers[rows]] == PROC_NULL
        lost: Ints = self.makers[rows[instant]]
        return lost

    def _check_leaks(self) -> Iterator[Finding]:
        """Report requests that are never completed, and persistent ones that are never freed."""
        active = ~self.gone[self.ids - self.first] & ~self.persistent
        instant = self._unseen_instant_requests
        if 0 < len(instant) <= self._count_unowned_completions():
            active &= ~np.isin(self.makers, instant)
        for event in self._limit_per_call_site(self.makers[active]):
            yield make_finding(
                "request-leak",
                f"rank {self.rank.index} never completes the request of {call_at(event)}: no wait, "
                f"test or free follows{self._describe_completed_of_line(event)}",
                [event],
                cause=cause_key(event),
            )
        unfreed = self.persistent & ~self.freed_ids[self.ids - self.first]
        for event in self._limit_per_call_site(self.makers[unfreed]):
            yield make_finding(
                "request-leak",
                f"rank {self.rank.index} never frees the persistent request of {call_at(event)}",
                [event],
                severity="warning",
                cause=f"unfreed {cause_key(event)}",
            )

    def _describe_completed_of_line(self, event: Event) -> str:
        """Return words for the call that completed another request of the same call site as a request that leaks; "" if
        none did. In the program this call is then left out sometimes, or names another request.
        """
        if event.site_id not in self._completed_of_site:
            alike = self.ids[self.rank.events["site"][self.makers] == event.site_id]
            done = self.event[np.isin(self.request, alike)]
            words = (
                f", though {call_at(self.rank.event(int(done[0])))} completes others of that line" if len(done) else ""
            )
            self._completed_of_site[event.site_id] = words
        return self._completed_of_site[event.site_id]

    def _persistent_starts(self) -> tuple[Ints, Ints, Ints]:
        return self.of.starts if len(self.masks.where(self.rank, calls.STARTS)) else (_NONE,) * 3

    def _check_starts(self) -> Iterator[Finding]:
        """Report starts of requests that are not persistent, or still active, and persistent requests that are never
        started.
        """
        event, request, init = self._persistent_starts()
        for index in sorted_distinct(event[(init < 0) & (request >= ID_DYNAMIC)])[:MAX_OF_ONE_SITE].tolist():
            start = self.rank.event(index)
            made = self.makers[np.isin(self.ids, request[event == index])]
            if len(made):
                yield make_finding(
                    "request-misuse",
                    f"rank {self.rank.index} starts a request that is not persistent{site_suffix(start)}",
                    [start, self.rank.event(int(made[0]))],
                    cause=cause_key(start),
                )
        yield from self._check_started_twice(event[init >= 0], request[init >= 0])
        if self.persistent.any() and has_reached_finalize(self.rank):
            never = self.persistent & ~np.isin(self.ids, request)
            for maker in self._limit_per_call_site(self.makers[never]):
                yield make_finding(
                    "request-misuse",
                    f"rank {self.rank.index} never starts the persistent request of {call_at(maker)}",
                    [maker],
                    severity="warning",
                    cause=f"never started {cause_key(maker)}",
                )

    def _check_started_twice(self, event: Ints, request: Ints) -> Iterator[Finding]:
        """Report starts of a request that is still active from an earlier start."""
        early = self._are_still_active(event, request)
        for id in sorted_distinct(request[early]).tolist():
            at = int(np.flatnonzero(early & (request == id))[0])
            start = self.rank.event(int(event[at]))
            before = self.rank.event(int(event[:at][request[:at] == id][-1]))
            makers = self.makers[self.ids == id]
            which = f"the request of {call_at(self.rank.event(int(makers[-1])))}" if len(makers) else "a request"
            yield make_finding(
                "request-misuse",
                f"rank {self.rank.index} starts {which} again{site_suffix(start)}, while it is active from its start"
                f"{site_suffix(before)}: no wait or test completed it in between",
                [start, before],
                cause=cause_key(start, before),
            )

    def _are_still_active(self, event: Ints, request: Ints) -> NDArray[np.bool_]:
        """Return a mask of the starts of persistent requests that come before the previous start of the same request
        was complete.

        `event`, `request`: the event and the request's id of each start.
        """
        order = np.lexsort((event, request))
        again = np.flatnonzero(request[order][1:] == request[order][:-1])
        before, this = order[again], order[again + 1]
        row = first_row_after(self.request, self.event, request[before], event[before])
        found = np.zeros(len(event), np.bool_)
        found[this] = row < 0
        seen = row >= 0
        found[this[seen]] = self.event[row[seen]] > event[this[seen]]
        return found

    @staticmethod
    def _count_rows_before(ids: Ints, at: Ints, request: Ints, event: Ints) -> Ints:
        """Return for each pair of `request` and `event` how many calls on the request came before the event.

        `ids`, `at`: the request's id and the event of each of these calls.
        """
        rows = np.sort(ids << 32 | at)
        count: Ints = np.searchsorted(rows, request << 32 | event) - np.searchsorted(rows, request << 32)
        return count

    def _were_active_when_freed(self, frees: Ints, freed: Ints, makers: Ints) -> NDArray[np.bool_]:
        """Return a mask of the receives whose request was active when it was freed.

        By receive: `frees`, the call that freed the request; `freed`, the request's id; `makers`, the call that made
        the request (MPI_Irecv, or MPI_Recv_init: then only a start makes it active).
        """
        starts_of, started, _ = self.of.starts
        last = np.where(self.masks.table(calls.IRECVS)[self.rank.events["function"][makers]], makers, -1)
        for row, (free, id) in enumerate(zip(frees.tolist(), freed.tolist(), strict=True)):
            mine = starts_of[(started == id) & (starts_of < free)]
            last[row] = max(int(last[row]), int(mine.max(initial=-1)))
        done = first_row_after(self.request, self.event, freed, last)
        over = np.zeros(len(frees), np.bool_)
        over[done >= 0] = self.event[done[done >= 0]] < frees[done >= 0]
        active: NDArray[np.bool_] = (last >= 0) & ~over
        return active

    def _were_cancelled_before(self, frees: Ints, freed: Ints) -> NDArray[np.bool_]:
        """Return a mask of the frees before which MPI_Cancel was called for the request, so that nobody waits for its
        message.

        `frees`, `freed`: the event of each free and the request's id.
        """
        cancels = self.masks.where(self.rank, calls.CANCELS)
        ids = self.rank.events["object"][cancels].astype(np.int64)
        return self._count_rows_before(ids, cancels, freed, frees) > 0

    def _check_frees_while_active(self) -> Iterator[Finding]:
        """Report frees of active receives: the program then cannot know when the message is there (MPI-4.1, 3.7.3)."""
        receives = self.masks.table(calls.IRECVS | calls.RECV_INITS)
        order = np.argsort(self.ids, kind="stable") if len(self.frees) else _NONE
        known = np.isin(self.freed, self.ids)
        frees, freed = self.frees[known], self.freed[known]
        made = self.makers[order[np.searchsorted(self.ids[order], freed)]]
        of_receive = receives[self.rank.events["function"][made]]
        frees, freed, made = frees[of_receive], freed[of_receive], made[of_receive]
        if not len(frees):
            return
        active = self._were_active_when_freed(frees, freed, made) & ~self._were_cancelled_before(frees, freed)
        for free, maker_ in zip(frees[active].tolist(), made[active].tolist(), strict=True):
            event, maker = self.rank.event(free), self.rank.event(maker_)
            yield make_finding(
                "request-misuse",
                f"rank {self.rank.index} frees the active request of {call_at(maker)}{site_suffix(event)}: nothing "
                "tells the program afterwards when the receive is complete",
                [event, maker],
                cause=cause_key(event, maker),
            )

    def _check_frees_of_collectives(self) -> Iterator[Finding]:
        """Report frees of requests of nonblocking collectives, which must be completed instead (MPI-4.1, 6.12)."""
        makers = self.makers[self.masks.table(calls.ICOLLECTIVES)[self.functions]]
        ids = self.rank.events["object"][makers].astype(np.int64)
        for free in self._limit_per_call_site(self.frees[np.isin(self.freed, ids)]):
            maker = self.rank.event(int(makers[ids == free.object][-1]))
            yield make_finding(
                "request-misuse",
                f"rank {self.rank.index} frees the request of {call_at(maker)}{site_suffix(free)}: it belongs to a "
                "nonblocking collective, which must be completed by a wait or test instead",
                [free, maker],
                cause=cause_key(free, maker),
            )


# Buffers


def _report_changed_buffers(rank: Rank) -> Iterator[Finding]:
    """Report operations whose buffer the program changed before they were complete, as the recorder saw.

    For a send the recorder compares the buffer at the start and at the completion. For a receive it finds bytes that
    were neither there before nor in the message.
    """
    if not catalogue_of(rank).changed:
        return
    flagged = np.flatnonzero((rank.events["flags"] & Flag.BUFFER_CHANGED) != 0)
    memory = RankMemory(rank)
    for index in flagged[:MAX_OF_ONE_SITE].tolist():
        event = rank.event(index)
        is_completion = masks_of(rank.trace.functions).table(calls.COMPLETIONS)[event.function.id]
        makers = _find_makers_of_requests(rank, event) if is_completion else _find_one_sided_maker(rank, event)
        which, it, cited = _describe_changed_operations(memory, makers)
        section = find_copied_section(cited[0]) if cited else None
        message = f"rank {rank.index} changed {which} before {call_at(event)} completed {it}"
        if section is not None:
            message = (
                f"rank {rank.index} gives {call_at(cited[0])} {describe_copy(section)}; {call_at(event)} comes later"
            )
        yield make_finding(
            "buffer-reuse",
            message,
            [*cited, event],
            evidence=Sampled(seen="by sample", completed=event.id, started=[maker.id for maker in makers]),
            cause=cause_key(*cited, event),
        )


def _describe_changed_operations(memory: RankMemory, makers: list[Event]) -> tuple[str, str, list[Event]]:
    """Return words for the operations whose buffer was changed, the pronoun for them ("it" or "them"), and a list with
    the operation to cite, empty if the operations have different buffers. `makers`: the calls that began the
    operations.
    """
    buffers = {maker.buffer for maker in makers}
    if len(buffers) != 1:
        return "the buffer of a pending operation", "it", []
    behind = memory.find_memory(makers[0], makers[0].buffer)
    buffer = f"`{behind.name}`, the buffer of" if behind is not None and behind.name else "the buffer of"
    if len(makers) == 1:
        return f"{buffer} the pending {call_at(makers[0])}", "it", makers
    names = {base_name(maker.function.name).lower() for maker in makers}
    name = f"{names.pop()} operations" if len(names) == 1 else "operations"
    return f"{buffer} {len(makers)} pending {name} at once{site_suffix(makers[0])},", "them", makers[:1]


def _find_one_sided_maker(rank: Rank, event: Event) -> list[Event]:
    """Return, in a list, the last one-sided operation before a synchronising call that has its window and buffer; empty
    if there is none. The recorder notes in that call the buffer that was changed.
    """
    events = rank.events[: event.index]
    same = (events["object"] == event.object) & (events["buffer"] == event.buffer)
    found = np.flatnonzero(same & masks_of(rank.trace.functions).table(calls.RMA)[events["function"]])
    return [rank.event(int(found[-1]))] if len(found) else []


def _find_makers_of_requests(rank: Rank, event: Event) -> list[Event]:
    """Return the calls that made the requests of a completing call: those with the buffer that was changed or, if none
    has it, all. At most MAX_OF_ONE_SITE are returned.
    """
    args = event.args
    requests = {event.object, *args.get("array_of_requests", [])} - {0, 1}
    makers = masks_of(rank.trace.functions).where(rank, _SENDING | ICOLLECTIVES | calls.IRECVS | calls.RECV_INITS)
    found = [int(i) for i in makers if int(rank.events["object"][i]) in requests]
    changed = [i for i in found if int(rank.events["buffer"][i]) == event.buffer]
    return [rank.event(i) for i in (changed or found)[:MAX_OF_ONE_SITE]]


def _may_write_pending_buffers(traffic: Traffic) -> bool:
    """Return whether the rank makes calls that may write into a pending buffer."""

    def count(names: frozenset[str]) -> int:
        return catalogue_of(traffic.rank).count(traffic.masks.table(names))

    if count(calls.IRECVS | calls.RECV_INITS | calls.ISENDRECVS | calls.ICOLLECTIVES | calls.FILE_IREADS):
        return True
    return bool(count(_SENDING | calls.FILE_IWRITES) and count(_WRITING))


def report_shared_buffers(traffic: Traffic) -> Iterator[Finding]:
    """Report buffers that share bytes while operations on both are pending, if at least one of them is written."""
    rank = traffic.rank
    if not _may_write_pending_buffers(traffic):
        return
    rows = collect_message_buffers(traffic)
    starts = traffic.masks.table(calls.STARTS)[catalogue_of(rank).function]
    found = find_overlapping_rows(rows, rank.events["site"][rows.begin], len(rank.events))
    yield from note_undecided_overlap(rank, rows, found)
    for one, two in found.pairs:
        begin = rows.begin[one]
        if begin != rows.begin[two] or starts[begin]:  # within another call it is the arguments that are wrong
            section = find_copied_section(rank.event(int(rows.begin[two])))
            note = f": it is {describe_copy(section)}" if section is not None else ""
            yield overlap_finding(rank, rows, one, two, note)
