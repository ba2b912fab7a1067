"""The tables of an interval of time: what the calls active in it spent there, and what was sent in it.

A call counts with the part of it that is in the interval, as does its waiting, which comes first in a call. The tables
of the whole run are those of `weft report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.match import Match
from weft.report.tables import MAX_BLOCKS, MAX_ROWS, make_tables, to_json
from weft.terms.describe import site_suffix
from weft.trace import Rank, Trace
from weft.view.culprits import waits_by_culprit
from weft.view.links import Links
from weft.waits import KEYS, Key, merge_blocks
from weft.waits.causes import LATE
from weft.waits.event_times import EventTimes
from weft.waits.ledger import Base, Ledger, ledger_of
from weft.waits.profiles import sizes_in_bytes
from weft.waits.wait_states import waits_of_run

Ints = NDArray[np.int64]

_BITS: Final = 16
"""Bits of a function's id beside a site's."""


class IntervalTables:
    """The tables of a matched run, by intervals of its time."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.trace: Trace = links.trace
        self.match: Match = links.match

    @cached_property
    def _whole(self) -> dict[str, Any]:
        made = to_json(make_tables(self.trace, self.match))
        return {**made, "culprits": waits_by_culprit(self.trace, self.match)}

    @cached_property
    def _clock(self) -> EventTimes:
        return waits_of_run(self.trace, self.match).clock

    @cached_property
    def _ledger(self) -> Ledger:
        return ledger_of(self.trace, self.match)

    @cached_property
    def _waits(self) -> Ints:
        """Return, for each event of the run, the ns that it waited, as in the report."""
        return waits_of_run(self.trace, self.match).waiting_ns_by_event()

    def whole_run(self) -> dict[str, Any]:
        """Return the tables of the whole run."""
        return {**self._whole, "whole": True}

    def tables_between(self, t0: int, t1: int, events: tuple[Ints, Ints]) -> dict[str, Any]:
        """Return the tables of an interval of time, from `t0` up to `t1` ns. `events`: the events active in it, as the
        first index of each rank and the index after the last.
        """
        spans = [slice(int(a), int(b)) for a, b in zip(*events, strict=True)]
        times: dict[Key, dict[str, list[int]]] = {key: {} for key in KEYS}
        for rank, span in zip(self.trace.ranks, spans, strict=True):
            if span.stop > span.start:
                self._add_calls_of_rank(times, rank, span, (t0, t1))
        made = {key: _largest_rows(rows) for key, rows in times.items()}
        (messages, each), (sizes, _) = (
            merge_blocks(values, MAX_BLOCKS) for values in self._sent_between(t0, t1, spans)
        )
        return {
            "times": made,
            "whole": False,
            "waiting": self._waiting_by_cause(t0, t1, sum(row["ns"] for row in made["rank"])),
            "matrix": {"ranks_per_block": each, "messages": messages.tolist(), "bytes": sizes.tolist()},
            "culprits": waits_by_culprit(
                self.trace, self.match, within=lambda who, cost: self._wait_ns_between(who, cost, t0, t1)
            ),
        }

    def _waiting_by_cause(self, t0: int, t1: int, ns_in_mpi: int) -> dict[str, Any]:
        """Return how long ranks waited in an interval of time (ns), by cause, with the share of all ranks' time.
        `ns_in_mpi`: the ns that all ranks spent in MPI.
        """
        rows, run = waits_of_run(self.trace, self.match).late, self._ledger
        base = Base(t1 - t0, run.base.ranks, run.base.streams)
        inside = self._wait_ns_between(rows.waiter, rows.ns, t0, t1)
        found = [(cause, int(inside[rows.cause == cause].sum())) for cause in LATE]
        late = sum(ns for _, ns in found)
        causes: list[tuple[str, str, bool, int]] = [(c.slug, c.label, True, ns) for c, ns in found if ns]
        causes.append(("else", f"everything else in {self.trace.system.name}", False, ns_in_mpi - late))
        return {
            "base": {"ns": base.ns, "span_ns": base.span, "text": base.words},
            "in_mpi_ns": ns_in_mpi,
            "late_ns": late,
            "crowded": run.crowded,
            "open_calls": run.open_calls,
            "causes": [
                {"cause": slug, "name": name, "late": of_late, "ns": ns, "share": round(base.share(ns), 6)}
                for slug, name, of_late, ns in causes
            ],
        }

    def _add_calls_of_rank(
        self, times: dict[Key, dict[str, list[int]]], rank: Rank, span: slice, interval: tuple[int, int]
    ) -> None:  # fmt: skip
        """Add the calls of a rank in an interval of time (ns) to `times`: sums by rank, by function, and by call site.
        Each sum is [calls, ns in them, ns of waiting].
        """
        first = int(self._clock.first[rank.index])
        part = slice(first + span.start, first + span.stop)
        enter, leave = self._clock.enter[part], self._clock.exit[part]
        inside = (enter < interval[1]) & ((leave < 0) | (leave >= interval[0]))
        spent = np.where(leave >= 0, _overlap_ns(enter, leave, interval), 0)
        waited = np.minimum(_overlap_ns(enter, enter + np.minimum(self._waits[part], leave - enter), interval), spent)
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
                row = rows.setdefault(name + (site_suffix(event) if key == "site" else ""), [0, 0, 0])
                row[:] = [have + int(value) for have, value in zip(row, values, strict=True)]

    def _wait_ns_between(self, waiter: Ints, cost: Ints, t0: int, t1: int) -> Ints:
        """Return how many ns of each wait lie in an interval of time. `waiter`: event numbers; `cost`: the ns of each
        wait.
        """
        enter = self._clock.enter[waiter]
        return _overlap_ns(enter, enter + cost, (t0, t1))

    def _sent_between(self, t0: int, t1: int, spans: Sequence[slice]) -> tuple[Ints, Ints]:
        """Return how many messages and how many bytes went from rank to rank: two matrices (ranks, ranks). Sends that
        began from `t0` up to `t1` ns count. `spans`: the events of each rank to look at.
        """
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
            np.add.at(sizes[rank.index], peer[known], sizes_in_bytes(rank, args[known]))
        return messages, sizes


def _overlap_ns(start: Ints, end: Ints, stretch: tuple[int, int]) -> Ints:
    inside: Ints = np.maximum(0, np.minimum(end, stretch[1]) - np.maximum(start, stretch[0]))
    return inside


def _largest_rows(rows: dict[str, list[int]]) -> list[dict[str, Any]]:
    by_time = sorted(rows.items(), key=lambda row: -row[1][1])[:MAX_ROWS]
    return [{"name": name, "calls": n, "ns": ns, "waiting_ns": waited} for name, (n, ns, waited) in by_time]
