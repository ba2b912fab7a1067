"""Find when one-sided operations are complete, at their origin and at their target (MPI-4.1, 12.3 and 12.5).

An operation is complete at the target with its epoch, or with a flush that is not local. At its origin a local flush or
the wait for its request completes it as well. A fetch whose result has arrived has been read at the target.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.traffic import Traffic
from weft.mpi.meaning import Access, Act, functions_with
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of
from weft.trace import Rank
from weft.usage.epochs import FLUSH, FLUSH_ALL, FLUSH_LOCAL, FLUSH_LOCAL_ALL, Epochs

FETCHES: Final = functions_with(Act.ACCESS, where=lambda m: Access.READ in m.access)
_NEVER: Final = np.iinfo(np.int64).max


class RmaCompletion(NamedTuple):
    """For each row of an Epochs the event that completes the operation, at the origin and at the target; -1 if there is
    none.
    """

    local: Ints
    remote: Ints


def find_completing_events(rank: Rank, epochs: Epochs) -> RmaCompletion:
    """Return for each one-sided operation of a rank the events that complete it at the origin and at the target. Rows
    of other calls have no meaning.
    """
    rows = np.flatnonzero((epochs.call == 0) & (epochs.epoch >= 0))
    remote = np.full(len(epochs.event), _NEVER, np.int64)
    end = epochs.end[epochs.epoch[rows]]
    remote[rows] = np.where(end >= 0, end, _NEVER)
    peer = rank.events["peer"][epochs.event].astype(np.int64)
    _take_earlier(remote, rows, _first_call_after(epochs, rows, epochs.call == FLUSH, peer))
    _take_earlier(remote, rows, _first_call_after(epochs, rows, epochs.call == FLUSH_ALL, None))
    local = remote.copy()
    _take_earlier(local, rows, _first_call_after(epochs, rows, epochs.call == FLUSH_LOCAL, peer))
    _take_earlier(local, rows, _first_call_after(epochs, rows, epochs.call == FLUSH_LOCAL_ALL, None))
    function = rank.events["function"][epochs.event]
    table = masks_of(rank.trace.functions).table
    asked = rows[table(calls.REQUEST_RMA)[function[rows]]]
    if len(asked):
        _take_earlier(local, asked, _request_completions(rank, epochs.event[asked]))
    fetched = rows[table(FETCHES)[function[rows]]]
    _take_earlier(remote, fetched, local[fetched])
    return RmaCompletion(*(np.where(column == _NEVER, -1, column) for column in (local, remote)))


def _take_earlier(column: Ints, rows: Ints, events: Ints) -> None:
    column[rows] = np.minimum(column[rows], events)


def _first_call_after(epochs: Epochs, rows: Ints, ending: NDArray[np.bool_], peer: Ints | None) -> Ints:
    """Return for each row of `rows` the event of the first later call on the same window that the mask `ending`
    selects; _NEVER if there is none.

    `peer`: the target of every call of `epochs`; if given, the later call must have the same target.
    """
    by = np.flatnonzero(ending)
    if not len(by):
        return np.full(len(rows), _NEVER, np.int64)
    key = epochs.window.astype(np.int64)
    if peer is not None:
        key = key << 32 | (peer & 0xFFFFFFFF)
    _, number = np.unique(key, return_inverse=True)
    number = number.reshape(-1).astype(np.int64) * (len(epochs.event) + 1)
    places = np.sort(number[by] + by)
    at = np.searchsorted(places, number[rows] + rows)
    found = places[np.minimum(at, len(places) - 1)] - number[rows]
    hit = (at < len(places)) & (found < len(epochs.event))
    result: Ints = np.where(hit, epochs.event[np.where(hit, found, 0)], _NEVER)
    return result


def _request_completions(rank: Rank, events: Ints) -> Ints:
    """Return for each operation the event that completed its request; _NEVER if none did. `events`: the operations."""
    request, at = Traffic(rank).done
    order = np.lexsort((at, request))
    request, at = request[order], at[order]
    own = rank.events["object"][events].astype(np.int64)
    found = np.full(len(events), _NEVER, np.int64)
    if len(request):
        # A library may give one handle to several: only a completion after the call is its own.
        width = len(rank.events) + 1
        place = np.searchsorted(request * width + at, own * width + events)
        inside = np.minimum(place, len(request) - 1)
        hit = (place < len(request)) & (request[inside] == own)
        found[hit] = at[inside[hit]]
    return found
