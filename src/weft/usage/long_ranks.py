"""Check the requests and buffers of long ranks a piece at a time, in the memory of one piece.

A rank is idle between two calls if whatever it began before is complete before. All that a request goes through, and
all that is pending together, lies between two idle moments: if every piece of a rank, cut at such moments, is clean,
the rank is. A rank that is not clean is checked as a whole, which makes the findings.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.deadlock.traffic import Traffic, first_row_after
from weft.findings import Finding
from weft.terms import calls
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.calls import catalogue_of, masks_of, word_set
from weft.terms.rank_progress import has_reached_finalize
from weft.trace import Rank, Trace
from weft.trace.layout import ID_DYNAMIC, PROC_NULL
from weft.trace.segment import cut_rank, release_piece
from weft.usage.pending_buffers import ends_of_requests, ends_of_starts, find_request_ends
from weft.usage.requests import Requests, check_rank_requests, report_shared_buffers

PIECE: Final = 1 << 18
"""Calls of a piece, about; ranks of fewer than four times as many stay whole."""
WIDEST: Final = 64
"""Times as many are looked through for an idle moment."""
_MAKERS: Final = calls.REQUEST_MAKERS - calls.PERSISTENT
_UNDIVIDED: Final = (
    calls.PARTITIONED | calls.READIES | calls.FILE_BEGINS | calls.FILE_ENDS | calls.FILE_IREADS | calls.FILE_IWRITES
    | word_set("Grequest_start")
)  # fmt: skip
"""Calls of which something is under way that is no request of theirs, or that depends on what others do."""


def find(trace: Trace) -> list[Finding]:
    """Find what is wrong with the requests and the pending buffers of each rank."""
    return [
        one for rank in trace.own if len(rank) and not has_clean_requests(rank) for one in check_rank_requests(rank)
    ]


def has_clean_requests(rank: Rank) -> bool:
    """Return whether a rank with very many calls uses all its requests and pending buffers correctly, as a check piece
    by piece shows. False also if the rank cannot be checked piece by piece.
    """
    of = masks_of(rank.trace.functions)
    if len(rank.threads) != 1 or len(rank) < 4 * PIECE or catalogue_of(rank).changed or len(of.where(rank, _UNDIVIDED)):
        return False
    lasting = _PersistentRequests(rank)
    start = 0
    while start < len(rank):
        found = _next_piece(rank, start, lasting.at(start))
        if found is None:
            return False
        part, of_part = found
        good = (
            _are_ids_dense(part)
            and Requests(of_part).is_clean()
            and not any(True for _ in report_shared_buffers(of_part))
        )
        lasting.take(of_part)
        start += len(part) - part.ahead
        release_piece(part)
        if not good:
            return False
    return lasting.is_clean()


def match_frees_with_makers(rank: Rank, makers: Ints, frees: Ints) -> Ints:
    """Return for each call that makes an object the call that frees it; the number of events if none does.

    `makers`, `frees`: the calls that make and free such objects, as event indices.
    """
    ids, freed = (rank.events["object"][rows].astype(np.int64) for rows in (makers, frees))
    row = first_row_after(freed, frees, ids, makers)
    return np.where(row >= 0, np.append(frees, 0)[row], len(rank.events))


def find_cancelled_requests(rank: Rank) -> tuple[Ints, Ints]:
    """Return two columns: the calls that made requests for which MPI_Cancel is called, and the event that ends each of
    these requests (the number of events if none does).
    """
    where, ids = masks_of(rank.trace.functions).where, rank.events["object"]
    cancels = where(rank, calls.CANCELS)
    if not len(cancels):
        return cancels, cancels
    makers = where(rank, calls.REQUEST_MAKERS)
    makers = makers[np.isin(ids[makers], ids[cancels])]
    return makers, ends_of_requests(rank, makers, find_request_ends(Traffic(rank)))


class _PersistentRequests:
    """The persistent requests of a rank, which last from piece to piece."""

    def __init__(self, rank: Rank) -> None:
        of, objects = masks_of(rank.trace.functions), rank.events["object"]
        self.rank = rank
        self.makers = of.where(rank, calls.PERSISTENT)
        self.ids = objects[self.makers].astype(np.int64)
        frees = of.where(rank, calls.RELEASES) if len(self.makers) else self.makers
        self._until = match_frees_with_makers(rank, self.makers, frees)
        self._started = np.zeros(0, np.int64)

    def at(self, start: int) -> Ints:
        """Return the calls that made the persistent requests which exist at call `start`."""
        found: Ints = self.makers[(self.makers < start) & (self._until >= start)]
        return found

    def take(self, of: Traffic) -> None:
        """Note which of the requests a piece starts."""
        if len(self.makers):
            self._started = np.union1d(self._started, of.starts[1])

    def is_clean(self) -> bool:
        """Return whether every persistent request was started and freed; True also if the rank did not reach
        MPI_Finalize.
        """
        if not has_reached_finalize(self.rank):
            return True
        return bool((self._until < len(self.rank)).all() and np.isin(self.ids, self._started).all())


def _next_piece(rank: Rank, start: int, lasting: Ints) -> tuple[Rank, Traffic] | None:
    """Return a rank with the next calls only, and their traffic. The piece begins at event `start` and ends at a moment
    at which no operation is pending, or with the rank. None if there is no such moment near enough.

    `lasting`: the calls that made the rank's persistent requests; they come along in every piece.
    """
    width = PIECE
    while width <= WIDEST * PIECE:
        end = min(start + width, len(rank))
        part = cut_rank(rank, range(start, end), lasting)
        of = Traffic(part)
        if end == len(rank):
            return part, of
        cut = _last_idle_moment(of, len(lasting) + width // 4)
        request, event = of.done
        release_piece(part)
        if cut:
            part = cut_rank(rank, range(start, start + cut - len(lasting)), lasting)
            of = Traffic(part)
            of.__dict__["done"] = request[event < cut], event[event < cut]  # read already
            return part, of
        width *= 4
    return None


def _last_idle_moment(traffic: Traffic, least: int) -> int:
    """Return the last moment at which no operation of the rank is pending, as the number of events before it: after a
    completing call, or at the end. 0 if there is none from `least` on.

    The completion of a send, or of an operation with MPI_PROC_NULL, may be missing from the record if it was complete
    at once, as MPI gives several such operations the same handle. This is assumed only if there is no idle moment
    otherwise. If the assumption is wrong, a later piece has a completion without a request, and is not clean.
    """
    rank, size = traffic.rank, len(traffic.events)
    rows = traffic.masks.where(rank, _MAKERS)
    ends = ends_of_requests(rank, rows, find_request_ends(traffic))
    instant = traffic.masks.table(calls.ISENDS)[traffic.events["function"][rows]] | (
        traffic.events["peer"][rows] == PROC_NULL
    )
    at_once = np.where(instant & (ends == size), rows, ends)
    if len(traffic.masks.where(rank, calls.STARTS)):
        event, request, init = traffic.starts
        begun = init >= 0
        until = ends_of_starts(traffic, request[begun], event[begun])
        rows, ends, at_once = (np.concatenate(pair) for pair in (
            (rows, event[begun]), (ends, until), (at_once, until)))  # fmt: skip
        order = np.argsort(rows, kind="stable")
        rows, ends, at_once = rows[order], ends[order], at_once[order]
    behind = sorted_distinct(traffic.done[1]) + 1
    for over_by, moments in ((ends, np.append(behind, size)), (at_once, behind)):
        begun_before = np.searchsorted(rows, moments)
        latest = np.concatenate([[-1], np.maximum.accumulate(over_by)])[begun_before]
        idle = moments[(latest < moments) & (moments >= least)]
        if len(idle):
            return int(idle[-1])
    return 0


def _are_ids_dense(part: Rank) -> bool:
    """Return whether the ids of the requests lie close together, so that tables by id stay small."""
    ids = part.events["object"][masks_of(part.trace.functions).where(part, calls.REQUEST_MAKERS)]
    ids = ids[ids >= ID_DYNAMIC]
    return not len(ids) or int(ids.max()) - int(ids.min()) <= 16 * len(part) + (1 << 16)
