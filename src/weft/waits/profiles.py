"""Sum up where the time went, by function, rank and call site, and who sent how much to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.match import Match
from weft.terms.argument_columns import sorted_distinct
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.describe import site_suffix
from weft.trace import Rank, Trace
from weft.trace.layout import COUNT_IN_TAIL
from weft.waits.event_times import EventTimes
from weft.waits.wait_states import waits_of_run

Key = Literal["function", "rank", "site"]
KEYS: Final[tuple[Key, ...]] = ("function", "rank", "site")
MOST_BYTES: Final = 1 << 50
"""Of one message."""


class CallTimes(NamedTuple):
    """Calls and their time in ns; `name` is a function, a rank or a call site with its function.

    `waiting` is the part of the time in which the calls waited for somebody who was late (causes.LATE).
    """

    name: str
    calls: int
    ns: int
    waiting: int


def profile(trace: Trace, by: Key = "function", match: Match | None = None) -> list[CallTimes]:
    """Return the time in MPI by function, rank or call site, the largest first. A call that never returned is counted,
    but not its time. Without `match` no waiting is known.
    """
    return all_profiles(trace, match)[by]


def all_profiles(trace: Trace, match: Match | None = None) -> Mapping[Key, list[CallTimes]]:
    """Return the time in MPI by function, by rank and by call site: three tables, each the largest time first."""
    found = waits_of_run(trace, match) if match is not None else None
    clock = found.clock if found else EventTimes(trace)
    waits = found.waiting_ns_by_event() if found else np.zeros(len(clock.enter), np.int64)
    spent = np.where(clock.exit >= 0, clock.exit - clock.enter, 0)
    return {by: _sum_by_key(clock, by, spent, waits) for by in KEYS}


def _sum_by_key(clock: EventTimes, by: Key, spent: NDArray[np.int64], waits: NDArray[np.int64]) -> list[CallTimes]:
    """Return the number of calls, the time and the waiting for each value of one key, the largest time first. `spent`,
    `waits`: for each event of the run, its ns in MPI, and its ns of waiting.
    """
    rows: dict[str, list[int]] = {}
    for rank in clock.trace.ranks:
        part = slice(int(clock.first[rank.index]) + rank.ahead, int(clock.first[rank.index + 1]))
        if part.start == part.stop:
            continue
        events = rank.events[rank.ahead :]
        keys = np.zeros(len(events), np.int64) if by == "rank" else events[by].astype(np.int64)
        if by == "site":  # a site of unknown place says nothing of the function
            keys = keys << 16 | events["function"]
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        inverse = inverse.reshape(-1)
        count = np.bincount(inverse, minlength=len(unique))
        total = np.bincount(inverse, weights=spent[part], minlength=len(unique))
        waited = np.bincount(inverse, weights=waits[part], minlength=len(unique))
        for place, n, ns, wait in zip(first.tolist(), count.tolist(), total.tolist(), waited.tolist(), strict=True):
            event = rank.event(rank.ahead + place)
            name = f"rank {rank.index}" if by == "rank" else event.function.name
            name += site_suffix(event) if by == "site" else ""
            row = rows.setdefault(name, [0, 0, 0])
            row[0] += n
            row[1] += int(ns)
            row[2] += int(wait)
    return sorted((CallTimes(name, *row) for name, row in rows.items()), key=lambda row: -row.ns)


def message_matrix(trace: Trace, match: Match) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two matrices: how many messages, and how many bytes, each rank (row) sent to each rank (column). Messages
    of unknown datatypes count 0 bytes.
    """
    n = len(trace.ranks)
    messages, sizes = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    for rank in trace.ranks:
        part = match.sends.of_rank(rank.index)
        peer, args = match.sends.peer[part].astype(np.int64), match.sends.args[part].astype(np.int64)
        known = (peer >= 0) & (args < len(rank.events))
        peer, args = peer[known], args[known]
        messages[rank.index] = np.bincount(peer, minlength=n)
        np.add.at(sizes[rank.index], peer, sizes_in_bytes(rank, args))
    return messages, sizes


def sizes_in_bytes(rank: Rank, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the size in bytes of some sends. It is 0 if it is unknown, or larger than a message can be, as in a
    damaged record. `events`: the sends' event indices.
    """
    types, counts = rank.events["datatype"][events], rank.events["count"][events].astype(np.int64)
    size = np.zeros(len(events), np.int64)
    for id in sorted_distinct(types).tolist():
        size[types == id] = size_in_bytes(rank.datatype(id)) or 0
    counts[(counts < 0) | (counts == COUNT_IN_TAIL) | (size.astype(np.float64) * counts > MOST_BYTES)] = 0
    return size * counts


def merge_blocks(values: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], int]:
    """Return a square matrix merged into at most `most` rows and columns, and how many ranks each row stands for."""
    n = len(values)
    each = max(1, -(-n // most))
    starts = np.arange(0, n, each)
    merged = np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1) if n else values
    return merged, each
