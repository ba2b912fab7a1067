"""Buffers that the program touches while an operation has them (MPI-4.1, 3.7.3, 6.12, 12.3).

A buffer that MPI reads may not be written before the operation is complete; one that MPI writes may not be touched at
all. The record has the bytes of each access, and between which calls of its thread it lay; the operation was pending
from its start to the call that completed it. Both together are the proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.access.recorded_accesses import AccessTable, BufferTable, ByteRanges, PlacedRows
from weft.access.wording import add_access_site, format_bytes, format_site
from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.deadlock.collective_calls import CollectiveCalls
from weft.deadlock.traffic import Traffic, first_row_after
from weft.evidence import MetPending
from weft.findings import Finding
from weft.mpi.meaning import Form, Share, base_name
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.byte_layouts import Layout
from weft.terms.calls import masks_of
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.describe import site_suffix
from weft.terms.event_findings import call_at, make_finding, make_left_out_note
from weft.trace import Event, Flag, Rank, Trace
from weft.trace.layout import GUESSED, TouchKind, compute_return_ticks
from weft.usage.epochs import read_epochs
from weft.usage.rma_completion import find_completing_events

_EVER: Final = 2**63 - 1
_BLOCKING: Final = (
    calls.SENDS
    | calls.RECVS
    | calls.SENDRECVS
    | {"Mrecv"}
    | calls.data_collectives(lambda m: m.sends is not Share.NOTHING)
)
_REDUCTIONS: Final = calls.forms_of(calls.REDUCTIONS, Form.NONBLOCKING, Form.PERSISTENT)
MOST_ROWS: Final = 2000
"""The most accesses that are compared with a buffer of very many blocks."""
MOST_OF_A_PAIR: Final = 20
"""The most findings of one line and one call of a rank; they become one."""


def find_buffer_reuse(trace: Trace) -> list[Finding]:
    """Return findings for accesses of the program to buffers that MPI still used for pending operations. Only programs
    built with `weft cc` record such accesses; ranks without them add nothing.
    """
    gatherings = None
    found: list[Finding] = []
    for rank in trace.own:
        if not len(rank.accesses_to_pending_buffers) or not len(rank):
            continue
        placed = PlacedRows(rank)
        touches, holds = placed.read_accesses(), placed.read_buffers()
        if len(touches) and len(holds):
            gatherings = gatherings or CollectiveCalls(trace)
            found += _PendingBuffers(rank, touches, holds, gatherings).find()
    return found


@dataclass(frozen=True)
class BufferAccess:
    """An access to the buffer of a pending operation: rows of the access and buffer tables, and the shared bytes."""

    touch: int
    hold: int
    low: int
    high: int


class _PendingBuffers:
    """The buffers of one rank, each until the call that completes its operation."""

    def __init__(self, rank: Rank, touches: AccessTable, holds: BufferTable, gatherings: CollectiveCalls) -> None:
        self.rank, self.touches, self.holds = rank, touches, holds
        self.end = find_completion_events(rank, holds, gatherings)
        self.several = len(rank.threads) > 1 or bool((touches.slot < 0).any())
        self.by_clock = np.argsort(touches.first, kind="stable")
        self.clock = touches.first[self.by_clock]
        self.left: int | None = None
        """A hold whose blocks are too many to look at."""

    def find(self) -> Iterator[Finding]:
        """Yield the findings of one rank: accesses of the program to buffers while MPI used them. At most a few are
        reported for each pair of source lines.
        """
        told: dict[tuple[int, int], int] = {}
        for met in self.find_accesses():
            key = int(self.touches.site[met.touch]), int(self.rank.events["site"][self.holds.event[met.hold]])
            told[key] = told.get(key, 0) + 1
            if told[key] <= MOST_OF_A_PAIR:
                yield self._make_finding(met)
        if self.left is not None:
            event = self.rank.event(int(self.holds.event[self.left]))
            yield make_left_out_note("buffer-reuse", event, "the program accesses them meanwhile")

    def find_accesses(self) -> Iterator[BufferAccess]:
        """Yield the accesses of the program to buffers of pending operations, each with the first bytes that
        both use.
        """
        touches, holds = self.touches, self.holds
        writes = touches.writes
        for hold in np.flatnonzero((holds.event >= 0) & (self.end >= 0)).tolist():
            rows = self._find_rows_while_pending(hold)
            rows = rows[
                (touches.low[rows] < _highest_address(holds, hold))
                & (touches.high[rows] > _lowest_address(holds, hold))
            ]
            rows = rows if holds.written[hold] else rows[writes[rows]]
            yield from self._find_accesses_to_blocks(hold, rows)

    def _find_rows_while_pending(self, buffer_row: int) -> Ints:
        """Return the rows of the accesses that the program made during an operation: between its two calls, or by the
        clock if the rank has several threads. `buffer_row`: the row of the operation's buffer.
        """
        start, end = int(self.holds.event[buffer_row]), int(self.end[buffer_row])
        if not self.several:
            before = self.touches.before
            return np.arange(np.searchsorted(before, start, "right"), np.searchsorted(before, end, "right"))
        blocking, events = start == end, self.rank.events
        begun = int(events["enter"][start]) if blocking else int(compute_return_ticks(events[start : start + 1])[0])
        over = int(events["enter"][end]) if end < len(self.rank) else _EVER
        over = int(compute_return_ticks(events[start : start + 1])[0]) if blocking else over
        first, last = np.searchsorted(self.clock, begun, "right"), np.searchsorted(self.clock, over)
        rows = self.by_clock[first:last]
        own = self.rank.locate(start)[0].slot
        return rows[self.touches.slot[rows] != own] if blocking else rows

    def _find_accesses_to_blocks(self, buffer_row: int, access_rows: Ints) -> Iterator[BufferAccess]:
        """Yield the accesses among `access_rows` that touch a block of memory of a pending buffer. `buffer_row`: the
        buffer's row.
        """
        if not len(access_rows):
            return
        datatype, count, address = (
            int(column[buffer_row]) for column in (self.holds.datatype, self.holds.count, self.holds.address)
        )
        layout = layout_of_elements(self.rank.datatype(datatype), count)
        each = layout.blocks() if layout else None
        if each is None:
            yield from self._find_accesses_to_layout(buffer_row, access_rows, layout, address) if layout else ()
            return
        parts = ByteRanges(address + each.offset, address + each.offset + each.length)
        for row in self.touches.select_rows_near(access_rows, parts).tolist():
            met = self.touches.find_overlap_with_ranges(row, parts)
            if met:
                yield BufferAccess(row, buffer_row, *met)

    def _find_accesses_to_layout(
        self, buffer_row: int, access_rows: Ints, layout: Layout, address: int
    ) -> Iterator[BufferAccess]:
        """Yield the accesses among `access_rows` that touch a pending buffer, tested against the layout of its
        datatype.

        This is for datatypes with too many blocks to list. If the layout is unknown, or some of the rows are not tested
        because they are too many, `self.left` keeps the row of the buffer.
        """
        if not layout.is_known or len(access_rows) > MOST_ROWS:
            self.left = buffer_row if self.left is None else self.left
        for row in access_rows[:MOST_ROWS].tolist() if layout.is_known else ():
            met = self.touches.find_overlap_with_layout(row, layout, address)
            if met:
                yield BufferAccess(row, buffer_row, *met)

    def _make_finding(self, access: BufferAccess) -> Finding:
        """Return the finding for one access of the program to a buffer while MPI used it."""
        rank, touches, holds = self.rank, self.touches, self.holds
        start = rank.event(int(holds.event[access.hold]))
        end = int(self.end[access.hold])
        maker = _find_buffer_call(rank, start, int(holds.request[access.hold]))
        completed = rank.event(end) if end < len(rank) else None
        kind, site = int(touches.kind[access.touch]), rank.site(int(touches.site[access.touch]))
        verb = "stores to" if kind & TouchKind.WRITE else "loads from"
        begun = f", started{site_suffix(start)}," if maker is not start else ""
        other = " (in another thread)" if touches.slot[access.touch] != rank.locate(start.index)[0].slot else ""
        until = f"only {call_at(completed)} completes it" if completed else "no call completes it"
        until = "that call has not returned" if end == start.index else until
        early = bool(holds.written[access.hold]) and not kind & TouchKind.WRITE
        early &= base_name(maker.function.name) in _REDUCTIONS
        made = make_finding(
            "early-reduction-use" if early else "buffer-reuse",
            f"rank {rank.index} {verb} {format_bytes(access.low, access.high, int(holds.address[access.hold]))} of "
            f"a buffer{format_site(site)}{other} while {call_at(maker)}{begun} still uses it: {until}",
            [start, *([completed] if completed else [])],
            evidence=self._make_evidence(access, start, completed),
            cause=f"{'write' if kind & TouchKind.WRITE else 'read'}{format_site(site)}; "
            f"{maker.function.name}{site_suffix(maker)}",
        )
        return add_access_site(made, rank, site, kind)

    def _make_evidence(self, access: BufferAccess, start: Event, completed: Event | None) -> MetPending:
        """Return the evidence for an access to a pending buffer: the bytes, and the calls between which MPI used them.
        `completed`: None if no call completed the operation.
        """
        touches = self.touches
        return MetPending(
            access="write" if touches.kind[access.touch] & TouchKind.WRITE else "read",
            bytes=[access.low, access.high],
            before=EventId(self.rank.index, int(touches.before[access.touch])),
            ticks=int(touches.first[access.touch]),
            started=start.id,
            completed=completed.id if completed else None,
        )


def _highest_address(holds: BufferTable, hold: int) -> int:
    return int(holds.address[hold] + holds.bytes[hold]) + _slack(holds, hold)


def _lowest_address(holds: BufferTable, hold: int) -> int:
    return int(holds.address[hold]) - _slack(holds, hold)


def _slack(holds: BufferTable, hold: int) -> int:
    """Return how many bytes a datatype may reach before the buffer's address, or beyond its end."""
    return int(holds.bytes[hold])


def _find_buffer_call(rank: Rank, start: Event, of_request: int) -> Event:
    """Return the call that names the buffer of an operation. It is `start`, or if this starts a persistent request, the
    call that made the request. `of_request`: the request's id.
    """
    if start.function.name not in ("MPI_Start", "MPI_Startall"):
        return start
    event, request, init = Traffic(rank).starts
    rows = np.flatnonzero((event == start.index) & (request == of_request) & (init >= 0))
    return rank.event(int(init[rows[0]])) if len(rows) else start


def find_completion_events(rank: Rank, buffers: BufferTable, gatherings: CollectiveCalls) -> Ints:
    """Return, for each buffer, the index of the event that completed its operation.

    It is the number of the rank's events if none did, and -1 if Weft only guesses when it was complete.
    """
    found = np.full(len(buffers), len(rank), np.int64)
    of = Traffic(rank)
    frees = masks_of(rank.trace.functions).where(rank, frozenset(("Request_free",)))
    ids, at = of.done
    checks, checked = _find_status_checks(rank, buffers.request)
    done = np.concatenate([ids, rank.events["object"][frees].astype(np.int64), checks])
    event = np.concatenate([at, frees, checked])
    asked = np.flatnonzero(buffers.request > 1)
    if len(asked) and len(done):
        row = first_row_after(done, event, buffers.request[asked], buffers.event[asked])
        found[asked[row >= 0]] = event[row[row >= 0]]
    _enter_one_sided_completions(rank, buffers, gatherings, found)
    blocking = (buffers.event >= 0) & masks_of(rank.trace.functions).table(_BLOCKING)[
        rank.events["function"][buffers.event]
    ]
    found[blocking] = buffers.event[blocking]
    known = np.flatnonzero(found < len(rank))
    completed = found[known]
    waits = masks_of(rank.trace.functions).table(calls.COMPLETIONS)[rank.events["function"][completed]]
    found[known[waits & (rank.events["buffer"][completed] == GUESSED)]] = -1
    return found


def _find_status_checks(rank: Rank, requests: Ints) -> tuple[Ints, Ints]:
    """Return two columns (request id, event index) for requests that MPI_Request_get_status found complete. From then
    on the program may use their buffers.
    """
    which = masks_of(rank.trace.functions).where(rank, calls.STATUS_CHECKS)
    true = which[(rank.events["flags"][which] & Flag.TRUE) != 0]
    pairs = [(int(id), event) for event in true.tolist() for id in _checked_requests(rank.event(event), requests)]
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ids, events = np.array(pairs, np.int64).T
    return ids, events


def _checked_requests(event: Event, requests: Ints) -> list[int]:
    if event.function.name == "MPI_Request_get_status":
        return [event.object]
    return [int(id) for id in requests]  # one of several: which is not asked here


def _enter_one_sided_completions(
    rank: Rank, buffers: BufferTable, gatherings: CollectiveCalls, completion_events: Ints
) -> None:
    """Set in `completion_events` the indices of the events that complete one-sided operations at their origin. Its
    entries belong to the rows of `buffers`.
    """
    names = calls.RMA | calls.REQUEST_RMA
    which = np.flatnonzero(
        (buffers.event >= 0) & masks_of(rank.trace.functions).table(names)[rank.events["function"][buffers.event]]
    )
    of = read_epochs(rank, gatherings) if len(which) else None
    if of is None:
        return
    over = find_completing_events(rank, of).local
    row = np.searchsorted(of.event, buffers.event[which])
    row = np.minimum(row, len(of.event) - 1)
    hit = of.event[row] == buffers.event[which]
    end = np.where(hit, over[row], -1)
    completion_events[which] = np.where(end >= 0, end, len(rank))
