"""Read the epochs of a rank's windows as columns (native/kernel/epochs.c)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.deadlock.collective_calls import CollectiveCalls
from weft.mpi.meaning import Sync
from weft.native.headers.epochs import Call, EpochsInput, EpochsOutput, kernel
from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_columns, integer_column
from weft.terms.calls import catalogue_of
from weft.terms.rank_progress import has_reached_finalize
from weft.trace import Flag, Rank

OPS: Final = calls.RMA | calls.REQUEST_RMA
_CALLS: Final = (OPS, *(calls.functions_with_sync(Sync[call.name]) for call in Call if call is not Call.OPERATION))
"""By number of the call in C."""

_ANY: Final = frozenset().union(*_CALLS)

FENCE, START, LOCK, LOCK_ALL = Call.FENCE.value, Call.START.value, Call.LOCK.value, Call.LOCK_ALL.value
"""Sorts of epochs: the numbers of the calls that open them."""
POST, WAIT, TEST, FREE = Call.POST.value, Call.WAIT.value, Call.TEST.value, Call.FREE.value
FLUSH, FLUSH_ALL, FLUSH_LOCAL, FLUSH_LOCAL_ALL = (
    Call.FLUSH.value, Call.FLUSH_ALL.value, Call.FLUSH_LOCAL.value, Call.FLUSH_LOCAL_ALL.value
)  # fmt: skip
MOST_PEERS: Final = 1 << 22

Window = tuple[int, int]


@dataclass(frozen=True)
class Epochs:
    """One rank's one-sided calls and its access epochs.

    For each call: `event`, `call` (0: an operation), `window` (row of `windows`, -1 unknown), `epoch` of an operation
    or -1, `phase`: flushes of its target before it. For each window: `fenced`, its fences before this segment of the
    run. For each epoch: the events `begin` and `end` (-1: never closed), `sort` (FENCE, START, LOCK, LOCK_ALL),
    `number` of its fence, `lock_type`. For each misuse: its number `wrong`, and the events `at` and `other` (-1: none).
    """

    windows: list[Window]
    fenced: NDArray[np.int32]
    event: Ints
    call: NDArray[np.uint8]
    window: NDArray[np.int32]
    epoch: NDArray[np.int32]
    phase: NDArray[np.uint32]
    begin: Ints
    end: Ints
    number: NDArray[np.int32]
    sort: NDArray[np.uint8]
    lock_type: NDArray[np.uint8]
    wrong: NDArray[np.uint8]
    at: Ints
    other: Ints


def read_epochs(rank: Rank, gatherings: CollectiveCalls) -> Epochs | None:
    """Return a rank's one-sided calls and its access epochs, the spans between the calls that open and close access to
    windows. None if the rank makes no one-sided calls. MemoryError if memory is short.
    """
    masks, events = gatherings.masks, rank.events
    which = masks.where(rank, _ANY)
    if not len(which):
        return None
    numbers = np.full(65536, 255, np.uint8)
    for number, names in enumerate(_CALLS):
        numbers[masks.table(names)] = number
    call = np.ascontiguousarray(numbers[catalogue_of(rank).function[which]])
    windows, fenced, window = _number_windows(rank, gatherings, which)
    flags = events["flags"][which]
    done = ((flags & Flag.CLOSED) != 0) & ((call != TEST) | ((flags & Flag.TRUE) != 0))
    peer = np.ascontiguousarray(events["peer"][which])
    window[peer > MOST_PEERS] = -1
    lock_type = _lock_types(rank, which, call)
    plain = _are_plain_fences(rank, which, call)
    n = len(which)
    given = EpochsInput(
        count=n, call=call, lock_type=lock_type, plain=plain, done=done, window=window, peer=peer,
        windows=len(windows), finalized=has_reached_finalize(rank) and not rank.trace.goes_on,
    )  # fmt: skip
    made: list[NDArray[Any]] = [
        np.empty(n, t) for t in (np.int32, np.uint32, np.int32, np.int32, np.int32, np.uint8, np.uint8)
    ]
    made += [np.empty(3 * n + 3, t) for t in (np.uint8, np.int32, np.int32)]
    epoch, phase, begin, end, fence, sort, kind, wrong, at, other = made
    out = EpochsOutput(
        epoch=epoch, phase=phase, begin=begin, end=end, number=fence, sort=sort, lock_type=kind, wrong=wrong, at=at,
        other=other, epochs=0, wrongs=0,
    )  # fmt: skip
    if kernel().weft_find_epochs(given, out):
        raise MemoryError(f"not enough memory for the epochs of rank {rank.index}")
    opened, wrongs = out.epochs, out.wrongs
    fenced_epochs = np.flatnonzero(sort[:opened] == FENCE)
    fence[fenced_epochs] += fenced[window[begin[fenced_epochs]]]
    return Epochs(
        windows, fenced, which, call, window, epoch, phase, which[begin[:opened]], _events_at_rows(which, end[:opened]),
        fence[:opened], sort[:opened], kind[:opened], wrong[:wrongs], which[at[:wrongs]],
        _events_at_rows(which, other[:wrongs]),
    )  # fmt: skip


def _events_at_rows(which: Ints, rows: NDArray[np.int32]) -> Ints:
    return np.where(rows >= 0, which[np.maximum(rows, 0)], -1)


def _number_windows(
    rank: Rank, gatherings: CollectiveCalls, which: Ints
) -> tuple[list[Window], NDArray[np.int32], NDArray[np.int32]]:
    """Return three parts: the windows that the calls `which` name, how many fences each had before this part of the
    run, and for each call the index of its window in the list, -1 if unknown.
    """
    ids = rank.events["object"][which].astype(np.int64)
    requested = gatherings.masks.table(calls.REQUEST_RMA)[rank.events["function"][which]]
    if requested.any():
        for events, found in decode_columns(rank, which[requested], frozenset(("win",))):
            ids[np.searchsorted(which, events)] = integer_column(found, "win")
    unique, inverse = np.unique(ids, return_inverse=True)
    known: list[Window] = []
    fenced: list[int] = []
    rows = np.full(len(unique), -1, np.int32)
    for i, id in enumerate(unique.tolist()):
        window = gatherings.window(rank, id) if id > 1 else None
        if window is not None:
            rows[i] = len(known)
            known.append(window)
            fenced.append(rank.fenced.get(id, 0))
    return known, np.array(fenced, np.int32), rows[inverse.reshape(-1)]


def _are_plain_fences(rank: Rank, which: Ints, call: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 1 for each call that is a fence without assertions."""
    found = np.zeros(len(which), np.uint8)
    for events, values in decode_columns(rank, which[call == FENCE], frozenset(("assert",))):
        if "assert" in values:
            found[np.searchsorted(which, events)] = integer_column(values, "assert") == 0
    return found


def _lock_types(rank: Rank, which: Ints, call: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return for each call its lock type (shared or exclusive) as MPI's number; 0 for calls that do not lock."""
    found = np.zeros(len(which), np.uint8)
    for events, values in decode_columns(rank, which[call == LOCK], frozenset(("lock_type",))):
        kind = values.get("lock_type")
        if isinstance(kind, np.ndarray):
            found[np.searchsorted(which, events)] = np.clip(kind, 0, 255)
    return found
