"""Order ranks by what they hand over under exclusive locks: a read of a value that another rank wrote comes after that
write.

Epochs of exclusive locks on one target exclude each other (MPI-4.1, 12.5.3), in any order, so a lock alone orders
nothing. A program can make a mutex of them: a rank that finds the word free has read what the last holder stored there,
and comes after all that this holder did. So an edge goes from each write in such an epoch to the reads of that write in
others, up to the next write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.mpi.meaning import Access, Act, functions_with
from weft.order import Order
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of
from weft.terms.windows import EXCLUSIVE
from weft.trace import Trace
from weft.usage.window_accesses import RmaAccesses

MOST: Final = 400_000
"""Operations under exclusive locks of one window and target that are looked at, and numbers kept for answers."""
_MOST_WORDS: Final = 64
_READING: Final = functions_with(Act.ACCESS, where=lambda m: Access.READ in m.access)
_WRITING: Final = functions_with(Act.ACCESS, where=lambda m: bool(m.access & (Access.WRITE | Access.UPDATE)))


@dataclass(frozen=True)
class _HandoverEdge:
    """An edge from before an event of one rank to after event `behind` of rank `other`; the times of both in ns."""

    rank: int
    event: int
    time: int
    other: int
    behind: int
    other_time: int


class Handovers:
    """The order that exclusive locks impose on a run, computed when the first question is asked."""

    def __init__(self, trace: Trace, order: Order, accesses: RmaAccesses) -> None:
        self.trace, self.order, self.all = trace, order, accesses
        self._from: dict[int, tuple[list[int], list[dict[int, int]]]] | None = None

    def reaches(self, rank: int, event: int, other_rank: int, other_event: int) -> bool:
        """Return whether an event of a rank must come before the end of an event of another rank, because a value went
        from one to the other under exclusive locks.

        That is so if the other rank read a value that the first wrote after its event, directly or through further
        ranks.
        """
        if self._from is None:
            self._from = self._transitive_closure(list(self._find_edges()))
        events, known = self._from.get(rank, ([], []))
        at = bisect_left(events, event)
        if at == len(events):
            return False
        found = known[at]
        if found.get(other_rank, other_event + 1) <= other_event:
            return True
        return any(
            self.order.reaches(EventId(r, e), EventId(other_rank, other_event))
            for r, e in found.items()
            if r != other_rank
        )

    def _find_edges(self) -> Iterator[_HandoverEdge]:
        """Yield an edge of the happens-before order for each value that one rank wrote and another read under exclusive
        locks, for every window and target.
        """
        of = self.all
        rows = np.flatnonzero((of.lock == EXCLUSIVE) & (of.end >= 0) & (of.shape == np.array(None)))
        if not len(rows):
            return
        keys = np.stack([of.comm[rows], of.ordinal[rows], of.target[rows]])
        _, part = np.unique(keys, axis=1, return_inverse=True)
        part = part.reshape(-1)
        for k in range(int(part.max()) + 1):
            some = rows[part == k]
            if len(some) <= MOST and (of.rank[some] != of.rank[some[0]]).any():
                yield from self._find_edges_of_target(some)

    def _find_edges_of_target(self, rows: Ints) -> Iterator[_HandoverEdge]:
        """Yield an edge from each write to the reads of its value by other ranks. `rows`: accesses of one target under
        exclusive locks.
        """
        of, table = self.all, masks_of(self.trace.functions).table
        begins, ends, reads, writes = (np.zeros(len(rows), np.int64) for _ in range(4))
        for rank in np.unique(of.rank[rows]).tolist():
            mine = np.flatnonzero(of.rank[rows] == rank)
            events, axis = self.trace.ranks[rank].events, self.trace.ranks[rank].axis
            begins[mine] = axis.ns_array(events["enter"][of.event[rows[mine]]])
            ends[mine] = axis.ns_array(events["enter"][of.end[rows[mine]]])
            function = events["function"][of.event[rows[mine]]]
            reads[mine] = table(_READING)[function] | (of.operation[rows[mine]] < 0)
            writes[mine] = table(_WRITING)[function] & (of.operation[rows[mine]] >= 0)
        last: dict[tuple[int, int], int] = {}
        low, high = of.low[rows].tolist(), of.high[rows].tolist()
        for k in np.argsort(ends, kind="stable").tolist():
            place = low[k], high[k]
            if reads[k]:
                at = last if len(last) <= _MOST_WORDS else ((place,) if place in last else ())
                for w in (last[one] for one in at if one[0] < place[1] and place[0] < one[1]):
                    if of.rank[rows[w]] != of.rank[rows[k]]:
                        yield _HandoverEdge(
                            int(of.rank[rows[w]]), int(of.event[rows[w]]), int(begins[w]),
                            int(of.rank[rows[k]]), int(of.end[rows[k]]), int(ends[k]),
                        )  # fmt: skip
            if writes[k]:
                last[place] = k

    def _transitive_closure(self, edges: list[_HandoverEdge]) -> dict[int, tuple[list[int], list[dict[int, int]]]]:
        """Return by rank (events, earliest): `events` are the rank's events with edges, ascending, and `earliest` has
        for each of them a dict from every other rank to the earliest event there that chains of edges lead to.

        The walk goes from the run's end to its begin, so that the edges that leave a rank later are known when an edge
        comes to the rank.
        """
        now: dict[int, dict[int, int]] = defaultdict(dict)
        leads: dict[int, dict[int, int]] = {}
        left: dict[int, list[tuple[int, dict[int, int]]]] = defaultdict(list)
        moments = [(e.other_time, 1, k) for k, e in enumerate(edges)] + [(e.time, 0, k) for k, e in enumerate(edges)]
        room = MOST
        for _, comes, k in sorted(moments, reverse=True):
            edge = edges[k]
            if comes:
                leads[k] = _merge_earliest({edge.other: edge.behind}, now[edge.other])
                continue
            now[edge.rank] = _merge_earliest(leads.pop(k, {}), now[edge.rank])
            room -= len(now[edge.rank])
            if room < 0:
                break
            left[edge.rank].append((edge.event, now[edge.rank]))
        return {r: ([e for e, _ in all_[::-1]], [v for _, v in all_[::-1]]) for r, all_ in left.items()}


def _merge_earliest(one: dict[int, int], two: dict[int, int]) -> dict[int, int]:
    """Merge two dicts from ranks to events; where both have a rank, the earlier event counts."""
    found = dict(two)
    for rank, event in one.items():
        found[rank] = min(event, found.get(rank, event))
    return found
