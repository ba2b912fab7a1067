"""Collect the receive buffers of messages and collectives that the slot of their event does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.deadlock.traffic import Traffic
from weft.mpi import meaning
from weft.mpi.meaning import Share, base_name
from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_argument, sorted_distinct
from weft.terms.buffer_blocks import empty_shapes
from weft.terms.calls import catalogue_of
from weft.terms.datatype_sizes import gapless_sizes
from weft.terms.significant_arguments import is_significant
from weft.trace import Function, Rank
from weft.trace.layout import COUNT_IN_TAIL, IN_PLACE
from weft.usage.pending_buffers import (
    BufferAccesses,
    collect_slot_buffers,
    ends_of_requests,
    find_request_ends,
    merge_accesses,
)

_PAIRS: Final = calls.SENDRECVS | calls.ISENDRECVS
_COLLECTIVES: Final = (calls.DATA_COLLECTIVES | calls.ICOLLECTIVES) - calls.forms_of(frozenset(("Exscan",)))
"""The first member's buffer counts for nothing in MPI_Exscan."""
_PENDING: Final = calls.ISENDRECVS | calls.ICOLLECTIVES


def collect_message_buffers(of: Traffic) -> BufferAccesses:
    """Return the buffers of a rank's messages and collectives, with the receive buffers of calls that also send."""
    return merge_accesses(collect_slot_buffers(of), collect_receive_buffers(of))


def collect_receive_buffers(traffic: Traffic) -> BufferAccesses:
    """Return the buffers that MPI_Sendrecv and its kin use, and the receive buffers of collectives. Each is in use
    until its call is complete.

    Left out are buffers whose datatype has gaps, and those with a count for each member.
    """
    none, bytes_ = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    parts = [BufferAccesses(none, none, none, bytes_, bytes_, np.zeros(0, np.bool_), empty_shapes(0))]
    done = None
    for id in catalogue_of(traffic.rank).present:
        function = traffic.rank.trace.functions[id]
        name = base_name(function.name)
        if name not in _PAIRS | _COLLECTIVES:
            continue
        which = catalogue_of(traffic.rank).of(function)
        which = which[traffic.events["error"][which] == 0]
        end = which
        if name in _PENDING and len(which):
            done = find_request_ends(traffic) if done is None else done
            end = ends_of_requests(traffic.rank, which, done)
        parts += _buffers_of_function(traffic.rank, function, which, end) if len(which) else ()
    return merge_accesses(*parts) if len(parts) > 1 else parts[0]


def _buffers_of_function(rank: Rank, function: Function, which: Ints, end: Ints) -> Iterator[BufferAccesses]:
    """Yield the buffers of the calls `which` of one function, a table for each parameter. `end`: for each call the
    event that completes it.
    """
    names = function.parameters_by_name
    if "recvbuf" in names:
        yield _accesses_of_buffer(rank, function, which, end, "recv")
    if base_name(function.name) in _PAIRS and "sendbuf" in names:
        yield _accesses_of_buffer(rank, function, which, end, "send")
    elif base_name(function.name) in _PAIRS:  # MPI_Sendrecv_replace
        yield _accesses_of_buffer(rank, function, which, end, "")


def _accesses_of_buffer(rank: Rank, function: Function, which: Ints, end: Ints, side: str) -> BufferAccesses:
    """Return the accesses to one buffer parameter by the calls `which` of a function. Left out are calls whose buffer
    MPI does not use or whose bytes are not known.

    `end`: for each call the event that completes it. `side`: "send", "recv", or "" for a function with one buffer.
    """
    names, row = function.parameters_by_name, meaning.find_meaning(function.name)
    either = (side + "count", "count"), (side + "type", "datatype")
    count, kind = (next((name for name in of if name in names), "") for of in either)
    good = is_significant(rank, which, side + "buf")
    if not count or not kind or row is None or row.is_neighbourhood:
        good[:] = False
        count, kind = "", ""
    address = decode_argument(rank, which, side + "buf")
    counts = decode_argument(rank, which, count) if count else np.zeros(len(which), np.int64)
    good &= ~np.isin(address, _NOWHERE) & (counts > 0) & (counts != COUNT_IN_TAIL)
    size = gapless_sizes(rank, decode_argument(rank, which, kind)) if kind else counts
    if row is not None and row.receives is Share.EACH and side == "recv":
        counts = counts * _communicator_sizes(rank, which)
    good &= size > 0
    low = address[good].view(np.uint64)
    high = low + (counts[good] * size[good]).astype(np.uint64)
    written = np.full(len(low), side != "send")
    return BufferAccesses(which[good], end[good], which[good], low, high, written, empty_shapes(len(low)))


_NOWHERE: Final = np.array([0, IN_PLACE], np.uint64).view(np.int64)


def _communicator_sizes(rank: Rank, which: Ints) -> Ints:
    """Return for each of the calls `which` how many members of its communicator send to it; 0 if unknown."""
    ids = rank.events["comm"][which]
    found = np.zeros(len(which), np.int64)
    for id in sorted_distinct(ids).tolist():
        comm = rank.comm(id)
        found[ids == id] = len(comm.peers(rank.index)) if comm is not None else 0
    return found
