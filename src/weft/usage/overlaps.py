"""Pending buffers: which operations share bytes while they are under way (native/kernel/overlaps.c)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.traffic import Traffic, nth
from weft.match.native import address
from weft.native.kernel import library
from weft.terms import calls
from weft.terms.columns import Ints, distinct
from weft.terms.sizes import solid
from weft.trace import Rank
from weft.trace.layout import COUNT_IN_TAIL, GUESSED, IN_PLACE, PROC_NULL

MAX_OVERLAPS = 10_000
"""Pairs of lines of one rank that are told."""

_P = ctypes.c_void_p


class _Input(ctypes.Structure):
    """struct weft_accesses."""

    _fields_ = (
        ("count", ctypes.c_uint64), ("begin", _P), ("end", _P), ("args", _P), ("low", _P), ("high", _P), ("site", _P),
        ("writes", _P), ("by_end", _P), ("sites", ctypes.c_uint32), ("events", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True)
class Accesses:
    """Operations on buffers of one rank, in the order of their start.

    Pending from event `begin` until the return of event `end`, on the bytes `low` to `high`. `args` is the event that
    names the buffer: `begin`, or the init of a persistent request.
    """

    begin: Ints
    end: Ints
    args: Ints
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    writes: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begin)


def overlaps(accesses: Accesses, site: NDArray[np.uint32], events: int) -> list[tuple[int, int]]:
    """Pairs of rows, the earlier first, that share bytes while both are pending and at least one writes.

    Of each pair of values of `site` (a column of the rows) the first.
    """
    if not accesses.writes.any():
        return []
    sites = distinct(site)
    of = np.searchsorted(sites, site).astype(np.uint32)
    by_end = np.argsort(accesses.end, kind="stable").astype(np.uint32)
    writes = accesses.writes.view(np.uint8)
    places = (accesses.begin, accesses.end, accesses.args, accesses.low, accesses.high, of, writes, by_end)
    given = _Input(len(accesses), *(address(np.ascontiguousarray(c)) for c in places), len(sites), events)
    earlier, later = np.empty(MAX_OVERLAPS, np.uint32), np.empty(MAX_OVERLAPS, np.uint32)
    find = library().weft_overlaps
    find.restype = ctypes.c_int64
    found = find(ctypes.byref(given), ctypes.c_uint64(MAX_OVERLAPS), _P(address(earlier)), _P(address(later)))
    if found < 0:
        raise MemoryError("no memory to compare pending buffers")
    return list(zip(earlier[:found].tolist(), later[:found].tolist(), strict=True))


def accesses(of: Traffic, reads: frozenset[str], writes: frozenset[str]) -> Accesses:
    """Nonblocking operations from their start to their completion, and blocking ones, of the functions given."""
    rank, events, table = of.rank, of.events, of.masks.table
    last = len(events)
    direct = of.masks.where(events, reads | writes)
    direct = direct[~table(calls.PERSISTENT)[events["function"][direct]]]
    function = events["function"][direct]
    asked = table(calls.ISENDS | calls.IRECVS)[function]
    # A send whose completion was not seen may have been complete at once (see requests._Requests._spare).
    unseen = np.where(table(calls.ISENDS)[function], direct, last)
    end = np.where(asked, _ends(of, events["object"][direct].astype(np.int64), None, unseen), direct)
    end = np.where(table(calls.ISENDS)[function], np.minimum(end, _next_guess(of, direct)), end)
    event, request, init = of.starts
    begun = init >= 0
    event, request, init = event[begun], request[begun], init[begun]
    ended = _ends(of, request, nth(request), np.full(len(event), last))
    begin, args = np.concatenate([direct, event]), np.concatenate([direct, init])
    end = np.concatenate([end, ended])
    low, high, good = _spans(rank, args)
    rows = np.flatnonzero(good)
    rows = rows[np.argsort(begin[rows], kind="stable")]
    written = table(writes)[events["function"][args[rows]]]
    return Accesses(begin[rows], end[rows], args[rows], low[rows], high[rows], written)


def _ends(of: Traffic, request: Ints, use: Ints | None, unseen: Ints) -> Ints:
    """The completing event of the n-th use of each request; a freed one ends there as far as can be known."""
    frees = of.masks.where(of.events, frozenset(("Request_free",)))
    done = np.concatenate([of.completions.request, of.events["object"][frees].astype(np.int64)])
    event = np.concatenate([of.completions.event, frees])
    if not len(done):
        return unseen
    order = np.argsort(done, kind="stable")
    done, event = done[order], event[order]
    place = np.searchsorted(done, request) + (0 if use is None else use)
    inside = np.minimum(place, len(done) - 1)
    hit = (place < len(done)) & (done[inside] == request)
    ends: Ints = np.where(hit, event[inside], unseen)
    return ends


def _next_guess(of: Traffic, begin: Ints) -> Ints:
    """The first completion after each send that may have been the send's own, though it shows as another's.

    An MPI may give one handle to several sends that were complete at once; the recorder says where it had to guess.
    """
    completing = of.masks.where(of.events, calls.COMPLETIONS)
    guesses = completing[of.events["buffer"][completing] == GUESSED]
    return np.append(guesses, len(of.events))[np.searchsorted(guesses, begin, side="right")]


def _spans(rank: Rank, args: Ints) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
    """The bytes of each operation's buffer; False for one with gaps, without an address, or to nobody."""
    events = rank.events
    address_, count, datatype = events["buffer"][args], events["count"][args], events["datatype"][args]
    size = np.zeros(len(args), np.uint64)
    for id in distinct(datatype).tolist():
        size[datatype == id] = solid(rank.datatype(id))
    good = (address_ != 0) & (address_ != np.uint64(IN_PLACE)) & (count > 0) & (count != COUNT_IN_TAIL) & (size > 0)
    good &= (events["peer"][args] != PROC_NULL) & (events["error"][args] == 0)
    return address_, address_ + size * np.maximum(count, 0).astype(np.uint64), good
