"""Check the local buffers of one-sided operations: until an operation is complete at the origin, MPI owns them
(MPI-4.1, 12.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from weft.evidence import Parameter
from weft.findings import Finding
from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_argument, sorted_distinct
from weft.terms.buffer_blocks import empty_shapes
from weft.terms.calls import masks_of, word_set
from weft.terms.datatype_sizes import gapless_sizes
from weft.terms.event_findings import call_at, cause_key, limit_per_site, make_finding
from weft.terms.significant_arguments import is_significant
from weft.trace import Event, Rank
from weft.trace.layout import COUNT_IN_TAIL
from weft.usage.epochs import Epochs
from weft.usage.pending_buffers import BufferAccesses, find_overlapping_rows, merge_accesses, overlap_finding
from weft.usage.rma_completion import RmaCompletion


class _LocalBuffer(NamedTuple):
    """A local buffer of a call, by the names of its parameters; without `amount` it is one element of `datatype`."""

    address: str
    amount: str
    datatype: str
    writes: bool


_ORIGIN: Final = _LocalBuffer("origin_addr", "origin_count", "origin_datatype", writes=False)
_INTO: Final = _ORIGIN._replace(writes=True)
_RESULT: Final = _LocalBuffer("result_addr", "result_count", "result_datatype", writes=True)
_ONE: Final = {
    name: _LocalBuffer(f"{name}_addr", "", "datatype", writes=name == "result")
    for name in ("origin", "compare", "result")
}
BUFFERS: Final = {
    "Put": (_ORIGIN,), "Rput": (_ORIGIN,), "Accumulate": (_ORIGIN,), "Raccumulate": (_ORIGIN,),
    "Get": (_INTO,), "Rget": (_INTO,),
    "Get_accumulate": (_ORIGIN, _RESULT), "Rget_accumulate": (_ORIGIN, _RESULT),
    "Fetch_and_op": (_ONE["origin"], _ONE["result"]),
    "Compare_and_swap": (_ONE["origin"], _ONE["compare"], _ONE["result"]),
}  # fmt: skip
"""What each argument of a one-sided operation is: read, or written."""


def report_shared_origin_buffers(rank: Rank, local: BufferAccesses, messages: BufferAccesses) -> Iterator[Finding]:
    """Report one-sided operations whose local buffer shares bytes with another pending buffer, if at least one of the
    two is written.

    `local`: the local buffers of the rank's operations. `messages`: those of its messages.
    """
    if not len(local):
        return
    one_sided = masks_of(rank.trace.functions).table(calls.RMA | calls.REQUEST_RMA)[rank.events["function"]]
    both = merge_accesses(local, messages)
    for one, two in find_overlapping_rows(both, rank.events["site"][both.begin], len(rank)).pairs:
        held_by_operation = bool(one_sided[both.begin[one]])
        if held_by_operation or one_sided[both.begin[two]]:
            pending = rank.event(int(both.begin[one]))
            note = _explain_flush(pending, int(both.begin[two])) if held_by_operation else ""
            yield overlap_finding(rank, both, one, two, note)
    yield from _report_overlaps_in_one_call(rank, local)


def _explain_flush(operation: Event, until: int) -> str:
    """Return words on the last flush between an operation and the event `until` if it names another target and so did
    not complete the operation; "" if there is no such flush.
    """
    rank = operation.rank
    flushes = masks_of(rank.trace.functions).where(rank, word_set("Win_flush Win_flush_local"))
    here = flushes[(flushes > operation.index) & (flushes < until)]
    others = here[
        (rank.events["object"][here] == operation.object) & (rank.events["peer"][here] != operation.peer)
    ].tolist()
    if not others:
        return ""
    flush = rank.event(others[-1])
    return (
        f": {call_at(flush)} completes only operations on rank {flush.peer} of the window, and this one is on rank "
        f"{operation.peer}"
    )


def _report_overlaps_in_one_call(rank: Rank, local: BufferAccesses) -> Iterator[Finding]:
    """Report operations whose result buffer overlaps what they read: these must be disjoint (MPI-4.1, 12.3.4)."""
    order = np.lexsort((local.low, local.begin))
    begin, low, high, writes = (column[order] for column in (local.begin, local.low, local.high, local.writes))
    found = [np.zeros(0, np.int64)]
    for step in (1, 2):  # a call has three at most
        meet = (begin[step:] == begin[:-step]) & (low[step:] < high[:-step]) & (writes[step:] | writes[:-step])
        found.append(begin[step:][meet])
    events = np.unique(np.concatenate(found))
    for place in limit_per_site(rank, events).tolist():
        event = rank.event(int(events[place]))
        yield make_finding(
            "invalid-argument",
            f"rank {rank.index} gives {call_at(event)} a result buffer that shares bytes with what it reads",
            [event], evidence=Parameter(parameter="result_addr"), cause=cause_key(event),
        )  # fmt: skip


def collect_local_buffers(rank: Rank, epochs: Epochs, over: RmaCompletion) -> BufferAccesses:
    """Return the local buffers of a rank's one-sided operations. Each is in use until its operation is complete at the
    origin.
    """
    parts = [_no_accesses()]
    ops = np.flatnonzero((epochs.call == 0) & (epochs.epoch >= 0))
    functions = rank.events["function"][epochs.event[ops]]
    table = masks_of(rank.trace.functions)
    for id in sorted_distinct(functions).tolist():
        rows = ops[functions == id]
        end = np.where(over.local[rows] >= 0, over.local[rows], len(rank))
        for buffer in BUFFERS.get(table.name(id), ()):
            parts.append(_accesses_of_buffer(rank, epochs.event[rows].astype(np.int64), end, buffer))
    return merge_accesses(*parts)


def _no_accesses() -> BufferAccesses:
    none, bytes_ = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    return BufferAccesses(none, none, none, bytes_, bytes_, np.zeros(0, np.bool_), empty_shapes(0))


def _accesses_of_buffer(rank: Rank, event: Ints, end: Ints, buffer: _LocalBuffer) -> BufferAccesses:
    """Return the accesses to one buffer parameter by calls of one function. Buffers that MPI does not use, that have no
    bytes or whose datatype has gaps are left out.

    `event`: the calls. `end`: for each the event that completes it.
    """
    address = decode_argument(rank, event, buffer.address)
    count = decode_argument(rank, event, buffer.amount) if buffer.amount else np.ones(len(event), np.int64)
    kind = decode_argument(rank, event, buffer.datatype)
    size = gapless_sizes(rank, kind)
    good = (address != 0) & (count > 0) & (count != COUNT_IN_TAIL) & (size > 0) & (rank.events["error"][event] == 0)
    good &= is_significant(rank, event, buffer.address)
    low = address[good].view(np.uint64)
    high = low + (count[good] * size[good]).astype(np.uint64)
    writes = np.full(len(low), buffer.writes)
    return BufferAccesses(event[good], end[good], event[good], low, high, writes, empty_shapes(len(low)))
