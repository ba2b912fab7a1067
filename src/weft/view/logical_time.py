"""Logical time: the step at which each call ends, one step for each causal level (native/kernel/levels.c)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match
from weft.native.headers.levels import Steps, kernel
from weft.native.headers.view import STEP
from weft.trace import Flag
from weft.view.rows import Rows
from weft.view.scale import Scale
from weft.view.timeline import Timeline

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]


class EventNumbers:
    """Number the events of all rows consecutively."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        counts = [len(row.events) for row in rows]
        self.first: U64 = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)

    def number_events(self, rank: int, events: NDArray[Any]) -> U64:
        """Return some events of a rank by their numbers among all events of the run. `events`: indices among the rank's
        events.
        """
        found, row = self.rows.trace.ranks[rank], self.rows.first[rank]
        if len(found.threads) < 2:
            one: U64 = events.astype(np.uint64) + self.first[row]
            return one
        threads, positions = found.event_threads[events], found.event_positions[events]
        places: U64 = self.first[row + threads] + positions.astype(np.uint64)
        return places

    def number_column(self, posts: Any, column: NDArray[np.generic]) -> U64:
        """Return a column of event indices as numbers among all events of the run. `posts`: the match's sends, receives
        or collectives that the column belongs to. Entries of NONE give no meaningful number.
        """
        out = np.zeros(len(column), np.uint64)
        for rank in self.rows.trace.ranks:
            part = posts.of_rank(rank.index)
            known = column[part] < len(rank.events)
            out[part][known] = self.number_events(rank.index, column[part][known])
        return out


def logical_steps(rows: Rows, match: Match) -> list[U32]:
    """Return the logical time at which each event ends, in steps: one array for each row of the picture (a thread).
    MemoryError if the native kernel has no memory.
    """
    places, recvs, colls = EventNumbers(rows), match.recvs, match.collectives
    had = (recvs.partner != NONE) & (recvs.completion != NONE)
    sent = places.number_column(match.sends, match.sends.event)
    message = _sort_by_key(places.number_column(recvs, recvs.completion)[had], sent[recvs.partner[had]])
    # What makes no collective of itself (an incomplete one, or one half of a mistake) still has its parts as members.
    arrival = _sort_by_key(places.number_column(colls, colls.event), colls.instance)
    done = colls.completion != NONE
    departure = _sort_by_key(places.number_column(colls, colls.completion)[done], colls.instance[done])
    parts = np.bincount(colls.instance, minlength=len(match.instances)).astype(np.uint32)
    ends = np.zeros(int(places.first[-1]), np.uint32)
    given = Steps(
        rows=len(rows), first=places.first, messages=len(message[0]), message_to=message[0], message_from=message[1],
        arrivals=len(arrival[0]), arrival=arrival[0], arrival_of=arrival[1], departures=len(departure[0]),
        departure=departure[0], departure_of=departure[1], gatherings=len(parts), parts=parts,
    )  # fmt: skip
    if kernel().weft_compute_levels(given, ends):
        raise MemoryError("no memory for logical time")
    return [ends[int(a) : int(b)] for a, b in zip(places.first[:-1], places.first[1:], strict=True)]


def _sort_by_key(keys: U64, values: NDArray[np.generic]) -> tuple[U64, NDArray[np.generic]]:
    by = np.argsort(keys, kind="stable")
    return np.ascontiguousarray(keys[by]), np.ascontiguousarray(values[by])


def logical_scale(rows: Rows, match: Match) -> Scale:
    """Return the axis of logical time, on which each event follows the events that it depends on. A call that has not
    returned extends to the end of the axis.
    """
    ends = logical_steps(rows, match)
    most = max((int(e[-1]) for e in ends if len(e)), default=0)
    last = most + max(1, most // 16)
    for row, end in zip(rows, ends, strict=True):
        # Only the last call of a row goes on: what an open call before it lasted is not known.
        if len(end) and not row.events["flags"][-1] & Flag.CLOSED:
            end[-1] = last
    timeline = Timeline(rows, last * STEP, ends)
    timeline.build()
    return Scale("logical", timeline, most * STEP, unit=STEP)
