"""Find operations that their epoch does not permit (MPI-4.1, 12.3.5 and 12.5.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_columns, integer_column
from weft.terms.calls import masks_of
from weft.terms.event_findings import call_at
from weft.trace import Event, Rank
from weft.usage.epochs import FENCE, START, Epochs
from weft.usage.window_accesses import OPERATION, READ, RmaAccesses

_NO_PUT, _NO_PRECEDE, _NO_SUCCEED = 4, 8, 16
"""Assertions as the record has them (recorder/wrap.h)."""

EpochViolation = tuple[Event, str, Event]
"""The call that is wrong, what is wrong with it, and the call that makes it so."""


def find_forbidden_operations(rank: Rank, epochs: Epochs) -> Iterator[EpochViolation]:
    """Yield one-sided operations that their epoch forbids: those with a request (MPI_Rput …) outside of a lock, and
    those that an assertion of a fence rules out.

    Each result is (call, what it does wrongly, the call that forbids it).
    """
    rows = np.flatnonzero((epochs.call == 0) & (epochs.epoch >= 0))
    rows = rows[np.isin(epochs.sort[epochs.epoch[rows]], (FENCE, START))]
    asks = masks_of(rank.trace.functions).table(calls.REQUEST_RMA)[rank.events["function"][epochs.event[rows]]]
    for row in rows[asks].tolist():
        opened = rank.event(int(epochs.begin[epochs.epoch[row]]))
        why = f"accesses a window with a request, which only a lock permits, in the epoch of {call_at(opened)},"
        yield rank.event(int(epochs.event[row])), why, opened
    yield from _find_operations_denied_by_fences(rank, epochs, rows[epochs.sort[epochs.epoch[rows]] == FENCE])


def _find_operations_denied_by_fences(rank: Rank, epochs_of_rank: Epochs, rows: Ints) -> Iterator[EpochViolation]:
    """Yield (call, what it does wrongly, the other call) for fence epochs with operations though MPI_MODE_NOSUCCEED at
    their begin or MPI_MODE_NOPRECEDE at their end rules these out. Only the first operation of an epoch counts.

    `rows`: the operations, as rows of `epochs_of_rank`.
    """
    asserted = _fence_assertions(rank, epochs_of_rank)
    if not asserted:
        return
    marked = np.array(list(asserted))
    epochs, first = np.unique(epochs_of_rank.epoch[rows], return_index=True)
    mine = np.isin(epochs_of_rank.begin[epochs], marked) | np.isin(epochs_of_rank.end[epochs], marked)
    epochs, first = epochs[mine], first[mine]
    for epoch, row in zip(epochs.tolist(), rows[first].tolist(), strict=True):
        event = rank.event(int(epochs_of_rank.event[row]))
        begin, end = int(epochs_of_rank.begin[epoch]), int(epochs_of_rank.end[epoch])
        if asserted.get(begin, 0) & _NO_SUCCEED:
            opened = rank.event(begin)
            yield event, f"accesses a window after {call_at(opened)}, which asserts MPI_MODE_NOSUCCEED,", opened
        elif asserted.get(end, 0) & _NO_PRECEDE:
            closed = rank.event(end)
            yield closed, f"asserts MPI_MODE_NOPRECEDE, though {call_at(event)} precedes it in the epoch,", event


def find_denied_updates(known: Mapping[Rank, Epochs], accesses: RmaAccesses) -> Iterator[EpochViolation]:
    """Yield (call, what it does wrongly, the fence) for operations that change a rank's window though the rank asserted
    MPI_MODE_NOPUT at the fence before. Only the first operation of an epoch counts.
    """
    changing = (
        (accesses.origin == OPERATION) & (accesses.sort != READ) & (accesses.operation >= 0) & (accesses.fence >= 0)
    )
    for rank, of in known.items():
        asserted = {event for event, asserts in _fence_assertions(rank, of).items() if asserts & _NO_PUT}
        for epoch in np.flatnonzero((of.sort == FENCE) & np.isin(of.begin, list(asserted))).tolist():
            fence = rank.event(int(of.begin[epoch]))
            comm, ordinal = of.windows[int(of.window[np.searchsorted(of.event, fence.index)])]
            rows = changing & (accesses.target == rank.index) & (accesses.fence == of.number[epoch])
            rows &= (accesses.comm == comm) & (accesses.ordinal == ordinal)
            for row in np.flatnonzero(rows)[:1].tolist():
                event = rank.trace.ranks[int(accesses.rank[row])].event(int(accesses.event[row]))
                yield (
                    event,
                    f"changes rank {rank.index}'s window, though {call_at(fence)} asserts MPI_MODE_NOPUT,",
                    fence,
                )


def denies_following_operations(rank: Rank, fence: int) -> bool:
    """Return whether a fence asserts that no operation follows before the next fence."""
    return bool(int(rank.event(fence).args.get("assert", 0)) & _NO_SUCCEED)


def _fence_assertions(rank: Rank, epochs: Epochs) -> dict[int, int]:
    """Return for the fences that assert MPI_MODE_NOPUT, NOPRECEDE or NOSUCCEED: event index → assertions, as MPI's
    bits.
    """
    found: dict[int, int] = {}
    for events, values in decode_columns(rank, epochs.event[epochs.call == FENCE], frozenset(("assert",))):
        if "assert" in values:
            asserts = integer_column(values, "assert")
            some = asserts & (_NO_PUT | _NO_PRECEDE | _NO_SUCCEED) != 0
            found.update(zip(events[some].tolist(), asserts[some].tolist(), strict=True))
    return found
