"""Order: what had to happen before what (Lamport's happens-before), by vector time over a matched run.

`order(trace, match)` sweeps the run once (native/kernel/order.c). Every event has two points, its start and its end.
Edges: a message's send to the call at whose return its receive had it; the post of a receive to the end of a
synchronous send; collectives by kind; probes; calls of two threads of a rank unless they overlap (edges.py).
"""

from __future__ import annotations

import ctypes
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post
from weft.native import bridge
from weft.native.headers import decided
from weft.native.headers.order import OrderInput, kernel
from weft.order.edges import U32, EdgeColumns, Processes, collective_edges, generic_edges, number_processes
from weft.trace import Trace

__all__ = ["Cut", "Order", "order_events"]

MEMORY: Final = 256 << 20
"""The most bytes of vectors that are kept for queries."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A causal past or future: for each rank how far it reaches.

    Of a past, `started[r]` and `ended[r]` count the events of rank r whose start, and whose end, belong to it. Of a
    future they are the indices of the first event whose start, and whose end, belong to it (the number of events of
    the rank where none does). Where a rank has several threads, see `points`: by process (thread of a rank), 2e + 1
    for the start of event e, 2e + 2 for its end, 0 and NONE for nothing.
    """

    started: NDArray[np.int64]
    ended: NDArray[np.int64]
    points: U32


class Order:
    """Happens-before of one run. Events are named (rank index, event index)."""

    def __init__(self, trace: Trace, match: Match, memory: int = MEMORY) -> None:
        self.trace = trace
        self.match = match
        self.processes: Processes = number_processes(trace)
        self.known, self.pairs = _find_decisions(match)
        """known: by receive, the event whose end proves that it was decided; pairs: (earlier, later) receives."""
        self._edges = generic_edges(trace, match, self.processes, _synchronous_chains(match, self))
        self._colls = collective_edges(trace, match)
        self.send_known: U32 = np.empty(len(match.sends), np.uint32)
        """By send: the latest point of the receiving rank that its start knows; NONE where the rank has threads."""
        forced = ctypes.c_uint64()
        self._given = self._make_kernel_input(memory)
        self._handle = kernel().weft_order_make(self._given, ctypes.byref(forced))
        if not self._handle:
            raise MemoryError("no memory to order the run")
        self._finalizer = weakref.finalize(self, kernel().weft_order_free, self._handle)
        self.left_out = int(forced.value)
        """Edges that contradict the others: more than 0 only where a record is damaged or misread."""
        self._pasts: OrderedDict[tuple[int, int], U32] = OrderedDict()

    def _make_kernel_input(self, memory: int) -> OrderInput:
        """Return the arrays from which the native kernel computes the order. `memory`: how many bytes the order may
        take."""
        m, p, e, c = self.match, self.processes, self._edges, self._colls
        first = np.concatenate([[0], np.cumsum([len(r.events) for r in self.trace.ranks])]).astype(np.uint64)
        send_process = p.processes_of_rows(m.sends.first, m.sends.event)
        coll_process = p.processes_of_rows(m.collectives.first, m.collectives.event)
        completion_process = p.processes_of_rows(m.collectives.first, m.collectives.completion)
        send_of, send_rows = self._sort_by_process(m.sends.first, m.sends.event, send_process)
        coll_of, coll_rows = self._sort_by_process(m.collectives.first, m.collectives.event, coll_process)
        target = np.full(len(m.sends), NONE, np.uint32)
        taken = m.sends.partner != NONE
        target[taken] = self.known[m.sends.partner[taken]]
        received = int(taken.sum()) + len(m.collectives) + len(e.point)
        stride = max(1, -(-received * len(p.rank) * 4 // memory))
        return OrderInput(
            processes=len(p.rank), rank_of=p.rank, event_first=first, event_counts=p.counts,
            events=bridge.array_addresses(p.events, bridge.U32, "events"), process_of_rank=p.only,
            thread_of=bridge.array_addresses(p.threads, bridge.I32, "threads"), first_process=p.first,
            sends=len(m.sends), send_of_process=send_of, send_rows=send_rows, send_event=m.sends.event,
            send_process=send_process, send_peer=m.sends.peer, send_target=target, send_known=self.send_known,
            generics=len(e.point), generic_of_process=e.of_process, generic_point=e.point, generic_process=e.process,
            generic_target_point=e.target_point, generic_target_process=e.target_process,
            colls=len(m.collectives), coll_of_process=coll_of, coll_rows=coll_rows, coll_event=m.collectives.event,
            coll_completion=m.collectives.completion, coll_instance=m.collectives.instance, coll_process=coll_process,
            coll_completion_process=completion_process, coll_place=c.place, coll_role=c.role,
            instances=len(m.instances), instance_kind=c.kind, instance_first=m.instances.first,
            instance_rows=m.instances.rows, stride=min(stride, NONE),
        )  # fmt: skip

    def _sort_by_process(
        self, first: NDArray[np.uint64], event: U32, process: U32
    ) -> tuple[NDArray[np.uint64], U32 | None]:
        """Sort rows that are in order of rank by process (thread of a rank) and event. Return (the first row of each
        process, the row indices in that order); None for the indices if each rank has one thread, as the rows are
        sorted then."""
        p = self.processes
        if len(p.rank) == len(first) - 1:
            return first, None
        rows = np.lexsort((event, process)).astype(np.uint32)
        return np.searchsorted(process[rows], np.arange(len(p.rank) + 1)).astype(np.uint64), rows

    # Questions

    def _process_and_point(self, event: EventId, end: bool) -> tuple[int, int]:
        """Return (process, point) for the begin of an event, or with `end` for its end. A process is one thread of a
        rank. Its points are numbered: the begin of event i is 2 * i + 1, its end 2 * i + 2.

        IndexError if there is no such event.
        """
        rank, index = event
        if not 0 <= index < len(self.trace.ranks[rank].events):
            raise IndexError(f"rank {rank} has {len(self.trace.ranks[rank].events)} events, no event {index}")
        return self.processes.of(rank, index), 2 * index + 1 + end

    def point(self, rank: int, index: int, *, end: bool = False) -> tuple[int, int]:
        """Return process and point of an event's start, or end, as `Cut.points` counts them."""
        return self._process_and_point(EventId(rank, index), end)

    def past_points(self, process: int, point: int) -> U32:
        """Return for each process (thread of a rank) its latest point that happens before the given point, or is that
        point.

        The points of a process are the begins (2 * index + 1) and ends (2 * index + 2) of its events.
        """
        key = process, point
        found = self._pasts.get(key)
        if found is None:
            found = np.empty(len(self.processes.rank), np.uint32)
            if kernel().weft_find_causal_past(self._handle, process, point, found):
                raise MemoryError("not enough memory to find what happens before an event")
            self._pasts[key] = found
            if len(self._pasts) > 4096:
                self._pasts.popitem(last=False)
        self._pasts.move_to_end(key)
        return found

    def reaches(self, a: EventId, b: EventId, *, a_end: bool = False, b_end: bool = True) -> bool:
        """Return whether one moment happens before another, or is the same. The first is the start of `a`, or its end
        if `a_end`; the second is the end of `b`, or its start if not `b_end`."""
        process, point = self._process_and_point(a, a_end)
        return int(self.past_points(*self._process_and_point(b, b_end))[process]) >= point

    def before(self, a: EventId, b: EventId) -> bool:
        """Return whether `b` cannot end unless `a` has started, with the messages matched as in this run.

        Members of a barrier are before each other.
        """
        return a != b and self.reaches(a, b)

    def is_concurrent(self, a: EventId, b: EventId) -> bool:
        """Return whether neither event is before the other."""
        return a != b and not self.before(a, b) and not self.before(b, a)

    def past(self, event: EventId, *, end: bool = True) -> Cut:
        """Return everything that must happen before the event ends (or, if not `end`, before it starts), and the event
        itself.

        This is the least consistent cut that contains the event.
        """
        points = self.past_points(*self._process_and_point(event, end))
        ranks = len(self.trace.ranks)
        started, ended = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
        np.maximum.at(started, self.processes.rank, (points.astype(np.int64) + 1) // 2)
        np.maximum.at(ended, self.processes.rank, points.astype(np.int64) // 2)
        return Cut(started, ended, points)

    def future_points(self, seeds: Mapping[int, int]) -> U32:
        """Return for each process (thread of a rank) its earliest point that happens after one of the seeds, or is
        one; NONE if there is none.

        `seeds`: {process: point}, with the begin of event i as point 2 * i + 1 and its end as 2 * i + 2.
        """
        given = np.full(len(self.processes.rank), NONE, np.uint32)
        for process, point in seeds.items():
            given[process] = point
        points = np.empty(len(given), np.uint32)
        if kernel().weft_find_causal_future(self._handle, given, points):
            raise MemoryError("not enough memory to find what happens after an event")
        return points

    def future(self, event: EventId, *, end: bool = False) -> Cut:
        """Return everything that cannot happen unless the event starts (or, with `end`, unless it ends), and the event
        itself."""
        process, point = self._process_and_point(event, end)
        points = self.future_points({process: point})
        counts = np.array([len(r.events) for r in self.trace.ranks], np.int64)
        wide = np.where(points == NONE, np.int64(1) << 40, points.astype(np.int64))
        started, ended = counts.copy(), counts.copy()
        np.minimum.at(started, self.processes.rank, wide // 2)
        np.minimum.at(ended, self.processes.rank, (wide - 1) // 2)
        return Cut(started, ended, points)


def _find_decisions(match: Match) -> tuple[U32, tuple[U32, U32]]:
    """Return for each receive the index of the event whose end proves which message it took. Also return pairs of
    receives, as two arrays: the earlier one must be served before the later one."""
    r, p = match.recvs, match.probes
    known = np.empty(len(r), np.uint32)
    given = decided.DecidedInput(
        ranks=len(r.first) - 1, recv_first=r.first, recv_event=r.event, recv_decided=r.decided, recv_partner=r.partner,
        recv_comm=r.comm, recv_peer=r.peer, recv_tag=r.tag, recv_flags=r.flags, probe_first=p.first,
        probe_event=p.event, probe_decided=p.decided, probe_partner=p.partner, probe_comm=p.comm, probe_peer=p.peer,
        probe_tag=p.tag,
    )  # fmt: skip
    lib = decided.kernel()
    pairs = lib.weft_find_decisions(given, known)
    if not pairs:
        raise MemoryError("no memory to order the receives")
    count = int(lib.weft_pairs_count(pairs))
    earlier, later = np.empty(count, np.uint32), np.empty(count, np.uint32)
    lib.weft_take_pairs(pairs, earlier, later)
    return known, (earlier, later)


def _synchronous_chains(match: Match, order: Order) -> list[EdgeColumns]:
    """Return edges from sends to the completion of later synchronous sends.

    A synchronous send completes after its receive is matched. If this receive had to wait for earlier pending receives,
    the messages of those receives were sent before: an edge leads from each of their sends to the completion.
    """
    earlier, later = order.pairs
    sends, recvs = match.sends, match.recvs
    if not len(later):
        return []
    sync = sends.flags & Post.SYNCHRONOUS != 0
    if not (sync & (sends.partner != NONE)).any():
        return []
    before: dict[int, list[int]] = {}
    for a, b in zip(earlier.tolist(), later.tolist(), strict=True):
        before.setdefault(b, []).append(a)
    process = order.processes.processes_of_rows(sends.first, sends.event)
    completion = order.processes.processes_of_rows(sends.first, sends.completion)
    found: list[EdgeColumns] = []
    for send in np.flatnonzero(sync & (sends.partner != NONE) & (sends.completion != NONE)).tolist():
        seen, stack = set(), list(before.get(int(sends.partner[send]), ()))
        while stack:
            recv = stack.pop()
            if recv in seen:
                continue
            seen.add(recv)
            stack += before.get(recv, ())
            first = int(recvs.partner[recv])
            if first != NONE:
                found.append((process[first], sends.event[first], completion[send], sends.completion[send]))
    return found


def order_events(trace: Trace, match: Match) -> Order:
    """Compute the order of a matched run's events."""
    return Order(trace, match)
