"""The tables of a stretch of time: what the calls under way in it spent there, and what was sent in it.

A call counts with the part of it that lies in the stretch, as waiting does, which comes first in a call. Of the whole
run the tables are those of `weft report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.match import Match
from weft.report.tables import MAX_ROWS, Tables, tables, to_json
from weft.terms.describe import where
from weft.terms.sizes import size_of
from weft.terms.words import plural
from weft.trace import Rank, Trace
from weft.trace.layout import COUNT_IN_TAIL
from weft.view.links import Links
from weft.view.waiting import culprits
from weft.waits import KEYS, Key, Row
from weft.waits.costs import Clockwork, waiting

Ints = NDArray[np.int64]

_BITS: Final = 16
"""Bits of a function's id beside a site's."""


class Sums:
    """The tables of a matched run, by stretches of its time."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.trace: Trace = links.trace
        self.match: Match = links.match

    @cached_property
    def _whole(self) -> dict[str, Any]:
        made = to_json(tables(self.trace, self.match))
        return {**made, "culprits": culprits(self.trace, self.match)}

    @cached_property
    def _clock(self) -> Clockwork:
        return Clockwork(self.trace)

    @cached_property
    def _waits(self) -> Ints:
        """By event of the run the ns that it waited, as the report has them."""
        found: Ints = waiting(self._clock, self.match)
        return found

    def whole(self) -> dict[str, Any]:
        """The tables of the run."""
        return {**self._whole, "whole": True, **self._base(self._whole["times"]["rank"])}

    def of(self, t0: int, t1: int, events: tuple[Ints, Ints]) -> dict[str, Any]:
        """The tables of [t0, t1) of the run's time; `events` are those under way in it, by rank as [first, end)."""
        spans = [slice(int(a), int(b)) for a, b in zip(*events, strict=True)]
        times: dict[Key, dict[str, list[int]]] = {key: {} for key in KEYS}
        for rank, span in zip(self.trace.ranks, spans, strict=True):
            if span.stop > span.start:
                self._add(times, rank, span, (t0, t1))
        made = {key: _sorted(rows) for key, rows in times.items()}
        sent = to_json(Tables(made, *self._sent(t0, t1, spans)))
        late = culprits(self.trace, self.match, within=lambda waiter, cost: self._inside(waiter, cost, t0, t1))
        return {**sent, "culprits": late, "whole": False, **self._base(sent["times"]["rank"])}

    def _base(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What percentages are of, in words and ns."""
        return {"base": f"the time in MPI of {plural(len(self.trace.ranks), 'rank')} together",
                "base_ns": sum(int(row["ns"]) for row in rows)}  # fmt: skip

    def _add(
        self, times: dict[Key, dict[str, list[int]]], rank: Rank, span: slice, stretch: tuple[int, int]
    ) -> None:  # fmt: skip
        first = int(self._clock.first[rank.index])
        part = slice(first + span.start, first + span.stop)
        enter, leave = self._clock.enter[part], self._clock.exit[part]
        inside = (enter < stretch[1]) & ((leave < 0) | (leave >= stretch[0]))
        spent = np.where(leave >= 0, _overlap(enter, leave, stretch), 0)
        waited = np.minimum(_overlap(enter, enter + np.minimum(self._waits[part], leave - enter), stretch), spent)
        events = rank.events[span]
        keys = {
            "rank": np.zeros(len(events), np.int64), "function": events["function"].astype(np.int64),
            "site": events["site"].astype(np.int64) << _BITS | events["function"],
        }  # fmt: skip
        for key, rows in times.items():
            unique, at, inverse = np.unique(keys[key], return_index=True, return_inverse=True)
            inverse = inverse.reshape(-1)
            sums = [np.bincount(inverse, weights=w, minlength=len(unique)) for w in (inside, spent, waited)]
            for place, *values in zip(at.tolist(), *sums, strict=True):
                event = rank.event(span.start + place)
                name = f"rank {rank.index}" if key == "rank" else event.function.name
                row = rows.setdefault(name + (where(event) if key == "site" else ""), [0, 0, 0])
                row[:] = [have + int(value) for have, value in zip(row, values, strict=True)]

    def _inside(self, waiter: Ints, cost: Ints, t0: int, t1: int) -> Ints:
        """How much of some waits lies in a stretch."""
        enter = self._clock.enter[waiter]
        return _overlap(enter, enter + cost, (t0, t1))

    def _sent(self, t0: int, t1: int, spans: Sequence[slice]) -> tuple[Ints, Ints]:
        """Messages and bytes from rank to rank of the sends that began in a stretch."""
        n, sends = len(self.trace.ranks), self.match.sends
        messages, sizes = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
        for rank, span in zip(self.trace.ranks, spans, strict=True):
            part = sends.of_rank(rank.index)
            low, high = np.searchsorted(sends.event[part], [span.start, span.stop])
            rows = slice(part.start + int(low), part.start + int(high))
            began = self._clock.enter[int(self._clock.first[rank.index]) + sends.event[rows].astype(np.int64)]
            peer, args = sends.peer[rows].astype(np.int64), sends.args[rows].astype(np.int64)
            known = (peer >= 0) & (args < len(rank.events)) & (began >= t0) & (began < t1)
            np.add.at(messages[rank.index], peer[known], 1)
            np.add.at(sizes[rank.index], peer[known], _sizes(rank, args[known]))
        return messages, sizes


def _overlap(start: Ints, end: Ints, stretch: tuple[int, int]) -> Ints:
    inside: Ints = np.maximum(0, np.minimum(end, stretch[1]) - np.maximum(start, stretch[0]))
    return inside


def _sizes(rank: Rank, events: Ints) -> Ints:
    """Bytes of some sends; 0 where they are not known."""
    types, counts = rank.events["datatype"][events], rank.events["count"][events].astype(np.int64)
    counts[(counts < 0) | (counts == COUNT_IN_TAIL)] = 0
    unit = np.zeros(len(events), np.int64)
    for id in np.unique(types).tolist():
        unit[types == id] = size_of(rank.datatype(id)) or 0
    return unit * counts


def _sorted(rows: dict[str, list[int]]) -> list[Row]:
    return sorted((Row(name, *row) for name, row in rows.items()), key=lambda row: -row.ns)[:MAX_ROWS]
