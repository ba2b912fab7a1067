"""Find operations that share bytes while they are pending (native/kernel/overlaps.c)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.deadlock.traffic import Traffic, first_row_after
from weft.evidence import BufferAccess, Overlap
from weft.findings import Finding
from weft.match import NONE
from weft.mpi.meaning import Act, Form, base_name, functions_with
from weft.native.bridge import as_c_array
from weft.native.headers import layouts as c_layouts
from weft.native.headers import overlaps as c_overlaps
from weft.native.headers import requests
from weft.native.headers.requests import Access
from weft.terms import calls
from weft.terms.argument_columns import Ints, indices_in, sorted_distinct
from weft.terms.buffer_blocks import Shapes, empty_shapes, list_buffer_blocks, number_shapes
from weft.terms.byte_layouts import first_shared_blocks, gapless_layout
from weft.terms.calls import catalogue_of, masks_of
from weft.terms.datatype_sizes import gapless_size, gapless_sizes
from weft.terms.event_findings import call_at, cause_key, make_finding, make_left_out_note
from weft.trace import Rank
from weft.trace.functions import FunctionTable
from weft.trace.layout import COUNT_IN_TAIL, ID_DYNAMIC, IN_PLACE, PROC_NULL, Def
from weft.usage.object_ids import MOST_TYPES, believable_ids, end_of_believable_ids

MAX_OVERLAPS = 10_000
"""The most pairs of lines of one rank that are reported."""

STEPS: Final = 1 << 25
"""The most steps in which the layouts of one rank's buffers are compared: about a second."""

_COLLECTIVES: Final = functions_with(Act.COLLECTIVE, where=lambda m: m.form is Form.BLOCKING and m.uses_its_count)
"""Those of which every member uses at least `count` elements of the buffer in the slot."""
ICOLLECTIVES: Final = calls.nonblocking_forms(_COLLECTIVES)
_READS: Final = (
    calls.SENDS | calls.ISENDS | calls.SEND_INITS | _COLLECTIVES | ICOLLECTIVES | calls.FILE_WRITES | calls.FILE_IWRITES
)
_WRITES: Final = calls.RECVS | calls.IRECVS | calls.RECV_INITS | calls.FILE_READS | calls.FILE_IREADS
_PENDING: Final = calls.ISENDS | calls.IRECVS | calls.ICOLLECTIVES | calls.FILE_IREADS | calls.FILE_IWRITES
_OF_FILES: Final = calls.FILE_READS | calls.FILE_IREADS | calls.FILE_WRITES | calls.FILE_IWRITES
_BROADCASTS: Final = calls.forms_of(calls.BROADCASTS, Form.BLOCKING, Form.NONBLOCKING)


@dataclass(frozen=True)
class BufferAccesses:
    """Operations on buffers of one rank, in the order of their start.

    An operation is pending from event `begin` until the return of event `end`, on the bytes `low` to `high`. `args` is
    the event that names the buffer: `begin`, or the init of a persistent request. `shape`: a Layout that says which of
    these bytes, None for all.
    """

    begin: Ints
    end: Ints
    args: Ints
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    writes: NDArray[np.bool_]
    shape: Shapes

    def __len__(self) -> int:
        return len(self.begin)


class Overlaps(NamedTuple):
    """Pairs of rows that share bytes, the earlier first; and one pair, if any, for which that is not decided."""

    pairs: list[tuple[int, int]]
    undecided: tuple[int, int] | None = None


def find_overlapping_rows(accesses: BufferAccesses, site: NDArray[np.uint32], events: int) -> Overlaps:
    """Return pairs of operations whose buffers share bytes while both are pending and at least one is written. Of each
    two call sites only the first pair is returned.

    `site`: the call site of each row. `events`: number of events of the rank. MemoryError if memory is short.
    """
    if not accesses.writes.any():
        return Overlaps([])
    sites = sorted_distinct(site)
    of = indices_in(sites, site)
    shape = number_shapes(accesses.shape)
    layouts = [accesses.shape[row] for row in np.unique(shape, return_index=True)[1].tolist() if shape[row]]
    given = c_overlaps.Accesses(
        count=len(accesses), site=np.ascontiguousarray(of, np.uint32), sites=len(sites), events=events, shape=shape,
        layouts=as_c_array([layout.to_table() for layout in layouts], c_layouts.Layout),
        **{f.name: np.ascontiguousarray(getattr(accesses, f.name)) for f in fields(accesses) if f.name != "shape"},
    )  # fmt: skip
    earlier, later = np.empty(MAX_OVERLAPS, np.uint32), np.empty(MAX_OVERLAPS, np.uint32)
    steps, undecided = np.array([STEPS], np.uint64), np.empty(2, np.uint32)
    found = c_overlaps.kernel().weft_find_overlaps(given, MAX_OVERLAPS, earlier, later, steps, undecided)
    if found < 0:
        raise MemoryError("no memory to compare pending buffers")
    pairs = list(zip(earlier[:found].tolist(), later[:found].tolist(), strict=True))
    return Overlaps(pairs, None if undecided[0] == NONE else (int(undecided[0]), int(undecided[1])))


def note_undecided_overlap(rank: Rank, rows: BufferAccesses, found: Overlaps) -> Iterator[Finding]:
    """Yield a note if for some pair of rows it remained open whether they share bytes."""
    if found.undecided is not None:
        unknown = [row for row in found.undecided if rows.shape[row] is not None]
        event = rank.event(int(rows.begin[unknown[0]]))
        yield make_left_out_note("buffer-reuse", event, "it shares bytes with others that are pending")


def _shared_blocks(rows: BufferAccesses, one: int, two: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return two blocks that share bytes, one of the row `one` and one of the row `two`, each as (first address, end).
    If no such blocks are found, these are the whole ranges of the rows.
    """
    ends = [(int(rows.low[row]), int(rows.high[row])) for row in (one, two)]
    shapes = [rows.shape[row] for row in (one, two)]
    if shapes == [None, None]:
        return ends[0], ends[1]
    laid = [gapless_layout(high - low) if of is None else of for of, (low, high) in zip(shapes, ends, strict=True)]
    starts = [low - of.low for of, (low, _) in zip(laid, ends, strict=True)]
    found = first_shared_blocks(laid[0], laid[1], starts[1] - starts[0])
    if found is None:
        return ends[0], ends[1]
    first, second = ((at + of[0], at + sum(of)) for at, of in zip(starts, found, strict=True))
    return first, second


def overlap_finding(rank: Rank, rows: BufferAccesses, one: int, two: int, note: str = "") -> Finding:
    """Make the finding that two rows share bytes: the operation of row `two` began while that of row `one` was pending.
    `note`: text for the end of the message.
    """
    first, second = rank.event(int(rows.begin[one])), rank.event(int(rows.begin[two]))
    met = _shared_blocks(rows, one, two)
    shared = min(high for _, high in met) - max(low for low, _ in met)
    of_file = base_name(second.function.name) in _OF_FILES
    verb = ("reads" if of_file else "receives into") if rows.writes[two] else ("writes" if of_file else "sends from")
    pending = f"the pending {call_at(first)} {'receives into' if rows.writes[one] else 'sends'} the same memory"
    return make_finding(
        "buffer-reuse",
        f"rank {rank.index} {verb} {plural(shared, 'byte')} in {call_at(second)} while {pending}{note}",
        [second, first],
        evidence=Overlap(
            bytes=shared,
            accesses=[_access_evidence(rank, rows, row, at) for row, at in zip((one, two), met, strict=True)],
        ),
        cause=cause_key(second, first),
    )


def _access_evidence(rank: Rank, rows: BufferAccesses, row: int, shared_bytes: tuple[int, int]) -> BufferAccess:
    """Return the access in row `row` as evidence for a finding that two accesses share bytes, in the form that
    weft.usage.proof reads. `shared_bytes`: first address and end of what both access.
    """
    begin, end, args = (int(column[row]) for column in (rows.begin, rows.end, rows.args))
    return BufferAccess(
        as_="buffer", access="write" if rows.writes[row] else "read", from_=shared_bytes[0],
        to=shared_bytes[1], call=EventId(rank.index, begin), named=EventId(rank.index, args),
        until=EventId(rank.index, end) if end < len(rank) else None,
    )  # fmt: skip


def collect_slot_buffers(of: Traffic) -> BufferAccesses:
    """Return the buffers of a rank's messages and collectives."""
    return collect_buffer_accesses(of, _READS, _WRITES)


def collect_buffer_accesses(traffic: Traffic, reads: frozenset[str], writes: frozenset[str]) -> BufferAccesses:
    """Return the buffers of all calls of the functions `reads` and `writes`, and of the starts of their persistent
    requests. The buffer of a nonblocking operation is in use until the operation is complete.
    """
    found = _accesses_of_calls(traffic, reads, writes)
    if not len(traffic.masks.where(traffic.rank, calls.STARTS)):
        return found
    event, request, init = traffic.starts
    begun = init >= 0
    event, request, init = event[begun], request[begun], init[begun]
    end = ends_of_starts(traffic, request, event)
    low, high, good = buffer_spans(traffic.rank, init)
    written = traffic.masks.table(writes)[traffic.events["function"][init]]
    started = BufferAccesses(
        event[good], end[good], init[good], low[good], high[good], written[good], empty_shapes(int(good.sum()))
    )
    return merge_accesses(found, started)


def merge_accesses(*parts: BufferAccesses) -> BufferAccesses:
    """Merge several tables of accesses in order of their start."""
    columns = [np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(BufferAccesses)]
    order = np.argsort(columns[0], kind="stable")
    return BufferAccesses(*(column[order] for column in columns))


@cache
def _access_bits_by_function(
    functions: FunctionTable, reads: frozenset[str], writes: frozenset[str]
) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:  # fmt: skip
    """Return two arrays by function id for the kernel in C: whether the function is in `reads` or `writes` and makes no
    persistent request, and the bits of `Access` (native/kernel/requests.h) that say how it uses its buffer.
    """
    table = masks_of(functions).table
    chosen = table(reads | writes) & ~table(calls.PERSISTENT)
    sort = chosen * np.uint8(Access.MADE)
    sort[chosen & table(writes)] |= Access.WRITES.value
    sort[chosen & table(_PENDING)] |= Access.PENDING.value
    # A send whose completion was not seen may have been complete at once (see requests.Requests._spare).
    sort[chosen & table(calls.ISENDS)] |= Access.SHORT.value
    sort[table(calls.COMPLETIONS)] |= Access.COMPLETES.value
    return chosen, sort


def _accesses_of_calls(traffic: Traffic, reads: frozenset[str], writes: frozenset[str]) -> BufferAccesses:
    """Return the buffers of operations that a single call begins; starts of persistent requests are not among them.
    Computed in native/kernel/requests.c.
    """
    events = np.ascontiguousarray(traffic.events)
    chosen, sort = _access_bits_by_function(traffic.rank.trace.functions, reads, writes)
    room = catalogue_of(traffic.rank).count(chosen)
    types = sorted_distinct(events["datatype"][traffic.masks.where(traffic.rank, reads | writes)]).tolist()
    last = min(end_of_believable_ids(traffic.rank, len(traffic.rank.definitions.ids(Def.DATATYPE))), MOST_TYPES)
    solid_ = np.zeros(min(max(types, default=0) + 1, last), np.uint64)
    gaps = np.zeros(len(solid_), np.bool_)
    for id in types:
        if id < last:
            size = gapless_size(traffic.rank.datatype(id))
            gaps[id] = not size and id
            solid_[id] = size or gaps[id]  # of one with gaps any: its blocks come below
    done = find_request_ends(traffic)
    made: list[NDArray[Any]] = [np.empty(room, t) for t in (np.int64, np.int64, np.uint64, np.uint64, np.bool_)]
    given = requests.Buffers(
        events=events,
        count=len(events),
        sort=sort,
        solid=solid_,
        types=len(solid_),
        done=done.at,
        first=done.first,
        requests=len(done.at),
    )
    count = requests.kernel().weft_find_buffer_accesses(given, *made)
    begin, end, low, high, written = (column[:count] for column in made)
    _mark_broadcast_writes(traffic, begin, written)
    return _split_into_blocks(
        traffic.rank, BufferAccesses(begin, end, begin, low, high, written, empty_shapes(count)), gaps
    )


def _split_into_blocks(rank: Rank, accesses: BufferAccesses, gaps: NDArray[np.bool_]) -> BufferAccesses:
    """Replace each access whose datatype has gaps by one access for each contiguous block. `gaps`: whether a datatype
    has gaps, by its id.
    """
    datatype = rank.events["datatype"][accesses.args].astype(np.int64)
    inside = datatype < len(gaps)
    rows = np.flatnonzero(inside & gaps[np.where(inside, datatype, 0)])
    if not len(rows):
        return accesses
    parts = list_buffer_blocks(rank, datatype[rows], rank.events["count"][accesses.args[rows]].astype(np.int64))
    mine, whole = rows[parts.buffer], np.delete(np.arange(len(accesses)), rows)
    low = accesses.low[mine] + parts.offset.astype(np.uint64)
    high = low + parts.length.astype(np.uint64)
    unknown = np.array([shape is not None and not shape.is_known for shape in parts.shape], np.bool_)
    low[unknown], high[unknown] = 0, np.iinfo(np.uint64).max
    blocks = BufferAccesses(
        accesses.begin[mine], accesses.end[mine], accesses.args[mine], low, high, accesses.writes[mine], parts.shape
    )
    return merge_accesses(BufferAccesses(*(getattr(accesses, f.name)[whole] for f in fields(accesses))), blocks)


def _mark_broadcast_writes(traffic: Traffic, begin: Ints, written: NDArray[np.bool_]) -> None:
    """Set `written` for broadcasts at members other than the root, as these receive into the buffer. `begin`: the calls
    of the rows.
    """
    rows = np.flatnonzero(traffic.masks.table(_BROADCASTS)[traffic.events["function"][begin]])
    comms, roots = traffic.events["comm"][begin[rows]], traffic.events["peer"][begin[rows]]
    for id in sorted_distinct(comms).tolist():
        comm = traffic.rank.comm(id)
        here = comms == id
        written[rows[here]] = comm is not None and roots[here] != comm.rank_of(traffic.rank.index)


class RequestEnds(NamedTuple):
    """The event that completed or freed each request, by id from `first` on; NONE for one that never ended."""

    first: int
    at: NDArray[np.uint32]


def find_request_ends(traffic: Traffic) -> RequestEnds:
    """Return for each request of a rank the event that completed it first, or else freed it."""
    request, event = traffic.done
    frees = traffic.masks.where(traffic.rank, calls.RELEASES)
    freed = traffic.events["object"][frees].astype(np.int64)
    frees, freed = frees[freed >= ID_DYNAMIC], freed[freed >= ID_DYNAMIC]
    held = believable_ids(
        traffic.rank, lambda: traffic.events["object"][traffic.masks.where(traffic.rank, calls.REQUEST_MAKERS)]
    )
    most = max(int(request.max(initial=0)), int(freed.max(initial=0)))
    first = min(int(request.min(initial=held.stop)), int(freed.min(initial=held.stop)))
    is_sane, first = held.start <= first and most < held.stop, max(first, held.start)
    found = np.full(max(min(most + 1, held.stop) - first, 0), NONE, np.uint32)
    for ids, by in ((freed, frees), (request, event)):
        sane = slice(None) if is_sane else (ids >= held.start) & (ids < held.stop)
        found[ids[sane][::-1] - first] = by[sane][::-1]  # of several the first stays
    return RequestEnds(first, found)


def ends_of_requests(rank: Rank, rows: Ints, done: RequestEnds) -> Ints:
    """Return for each of the calls `rows`, which made or name a request, the event that completed or freed the request;
    the number of events if none did.
    """
    places = rank.events["object"][rows].astype(np.int64) - done.first
    found = np.full(len(rows), NONE, np.int64)
    inside = (places >= 0) & (places < len(done.at))
    found[inside] = done.at[places[inside]]
    return np.where(found == NONE, len(rank), found)


def ends_of_starts(traffic: Traffic, request: Ints, start: Ints) -> Ints:
    """Return for each start of a persistent request the event that completed it or freed the request; the number of
    events if none did. `request`, `start`: the request's id and the event of each start.
    """
    frees = traffic.masks.where(traffic.rank, calls.RELEASES)
    done = np.concatenate([traffic.done[0], traffic.events["object"][frees].astype(np.int64)])
    event = np.concatenate([traffic.done[1], frees])
    row = first_row_after(done, event, request, start)
    ends: Ints = (
        np.where(row >= 0, event[np.maximum(row, 0)], len(traffic.events))
        if len(event)
        else row * 0 + len(traffic.events)
    )
    return ends


def buffer_spans(rank: Rank, args: Ints) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
    """Return three columns for the buffers that the events `args` name: first address, end, and whether the two can be
    used.

    They cannot for buffers with gaps or without an address, for MPI_PROC_NULL, and in calls that failed.
    """
    events = rank.events
    address_, count, datatype = events["buffer"][args], events["count"][args], events["datatype"][args]
    size = gapless_sizes(rank, datatype).astype(np.uint64)
    good = (address_ != 0) & (address_ != np.uint64(IN_PLACE)) & (count > 0) & (count != COUNT_IN_TAIL) & (size > 0)
    good &= (events["peer"][args] != PROC_NULL) & (events["error"][args] == 0)
    return address_, address_ + size * np.maximum(count, 0).astype(np.uint64), good
