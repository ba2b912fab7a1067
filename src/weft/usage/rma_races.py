"""Find accesses of windows that race: overlapping, concurrent, and not both reads or equal updates (MPI-4.1, 12.7)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.words import plural
from weft.evidence import WindowAccess, WindowOverlap
from weft.findings import Finding
from weft.mpi.meaning import Access, Act, base_name, functions_with
from weft.order import Order
from weft.terms.argument_columns import Ints
from weft.terms.buffer_blocks import number_shapes
from weft.terms.byte_layouts import Layout, first_shared_blocks, gapless_layout, share_bytes
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.event_findings import call_at, cause_key, make_finding, make_left_out_note
from weft.terms.windows import EXCLUSIVE, SHARED
from weft.trace import Event, Trace
from weft.trace.layout import ID_DYNAMIC
from weft.usage.lock_handovers import Handovers
from weft.usage.window_accesses import LOCAL, READ, STORED, UPDATE, WRITE, RmaAccesses

_ORIGINS: Final = ("operation", "store", "local buffer")
_LOCKS: Final = {EXCLUSIVE: "exclusive", SHARED: "shared"}
_SORTS: Final = ("read", "write", "update")
_ATOMIC: Final = functions_with(Act.ACCESS, where=lambda m: Access.ONE_ELEMENT in m.access)
MAX_COMPARED: Final = 2_000_000
"""The most pairs of sorts of access of one window and target, and questions of order; more is reported."""


ASKED_OF_SHAPES: Final = 50
"""What a look at two layouts counts for in these."""


def find_rma_races(trace: Trace, order: Order, accesses: RmaAccesses) -> Iterator[Finding]:
    """Yield a finding for the first race of each pair of lines at each target.

    Accesses in the same epoch of a rank, or in the same fence epoch of all ranks, are compared in the order of their
    addresses. In epochs of locks, or of starts and posts, the accesses of a rank that have line, bytes and operation in
    common form a class. Two classes that overlap and conflict race if a walk along the epochs of both ranks finds a
    pair of accesses that nothing orders.
    """
    if not len(accesses):
        return
    keys = np.stack([accesses.comm, accesses.ordinal, accesses.target])
    order_of = np.lexsort((accesses.bucket, accesses.rank, *keys[::-1]))
    accesses = accesses.pick(order_of)
    handed = Handovers(trace, order, accesses)
    changed = (np.diff(keys[:, order_of], axis=1) != 0).any(axis=0)
    cuts = [0, *(np.flatnonzero(changed) + 1).tolist(), len(accesses)]
    for first, last in pairwise(cuts):
        yield from _TargetAccesses(trace, order, handed, accesses.pick(slice(first, last))).find_races()


class _TargetAccesses:
    """All accesses of one rank's part of one window."""

    def __init__(self, trace: Trace, order: Order, handed: Handovers, accesses: RmaAccesses) -> None:
        self.trace, self.order, self.handed, self.all = trace, order, handed, accesses
        self.asked = 0
        self.left: tuple[int, int] | None = None
        """Accesses of which it is not known whether they share bytes."""
        self.names: dict[tuple[int, int], str] = {}
        if self._several_ranks:
            self._build_classes()

    @property
    def _several_ranks(self) -> bool:
        return bool((self.all.rank != self.all.rank[0]).any())

    def _build_classes(self) -> None:
        """Sort the accesses into classes that have rank, line, bytes and operation in common."""
        accesses = self.all
        by = (number_shapes(accesses.shape), *(getattr(accesses, name) for name in _OF_A_CLASS))
        by_class = np.lexsort(by)  # stable: each class keeps the order of buckets
        table = np.stack([c[by_class] for c in by])
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(table, axis=1) != 0).any(axis=0)]))
        self.by_class, self.starts = by_class, np.append(starts, len(by_class))
        self.classes = accesses.pick(by_class[starts])
        fence, lock = accesses.fence[by_class], accesses.lock[by_class]
        self.fenced = np.minimum.reduceat(fence, starts) >= 0
        self.excluding = np.logical_and.reduceat(lock == EXCLUSIVE, starts)

    def find_races(self) -> Iterator[Finding]:
        """Yield a finding for each race, the first of each two lines, and notes if there were too many overlaps or
        blocks to compare all.
        """
        told: set[tuple[str, str]] = set()
        seen: set[tuple[int, int, int, int]] = set()
        between = chain(self._pairs_in_one_fence(), self._pairs_of_classes(told)) if self._several_ranks else ()
        rank, site = self.all.rank.item, self.all.site.item
        for one, two in chain(self._pairs_in_one_epoch(), between):
            sites = rank(one), site(one), rank(two), site(two)
            if sites in seen:
                continue
            seen.add(sites)
            key = self._call_sites(one, two)
            if key not in told:
                told.add(key)
                yield self._race_finding(one, two)
        if self.left is not None:
            event = self.trace.event(int(self.all.rank[self.left[0]]), int(self.all.event[self.left[0]]))
            yield make_left_out_note("rma-race", event, "it touches bytes that others do")
        if self.asked > MAX_COMPARED:
            yield self._note_uncompared_pairs()

    def _pairs_in_one_epoch(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of accesses of one rank that conflict, in one epoch with no flush between them."""
        of = self.all
        for pair in self._conflicting_pairs(np.arange(len(of)), np.stack([of.rank, of.bucket])):
            if of.rank.item(pair[0]) == of.rank.item(pair[1]) and not self._is_earlier_complete(*pair):
                yield pair

    def _is_earlier_complete(self, one: int, two: int) -> bool:
        """Return whether the earlier of two accesses of a rank is complete when the later one begins."""
        one_at, two_at = self.all.event.item(one), self.all.event.item(two)
        first, later = (one, two_at) if one_at <= two_at else (two, one_at)
        return 0 <= self.all.end.item(first) < later

    def _pairs_in_one_fence(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of accesses of two ranks that conflict, between the same two fences."""
        of = self.all
        rows = np.flatnonzero(of.fence >= 0)
        for pair in self._conflicting_pairs(rows, of.fence[rows][None]):
            if of.rank.item(pair[0]) != of.rank.item(pair[1]):
                yield pair

    def _conflicting_pairs(self, rows: Ints, keys: Ints) -> Iterator[tuple[int, int]]:
        """Yield pairs of rows that overlap, conflict and have equal keys. `keys`: columns with a value for each of
        `rows`.
        """
        of = self.all
        order = np.lexsort((of.low[rows], *keys[::-1]))
        rows, keys = rows[order], keys[:, order]
        if not len(rows):
            return
        new = np.concatenate([[True], (np.diff(keys, axis=1) != 0).any(axis=0)])
        part = np.cumsum(new) - 1
        base = int(of.low[rows].min())
        span = int(of.high[rows].max()) - base + 1
        if span * (int(part[-1]) + 1) >= 2**62:  # too far apart to be put in one row: no part is left out below
            span = 0
        shift = part * span - base
        if span:  # parts lie one after the other: what begins after all ends before it overlaps none of them
            top = np.maximum.accumulate(of.high[rows] + shift)
            new = np.concatenate([[True], (of.low[rows] + shift)[1:] >= top[:-1]])
        firsts = np.flatnonzero(new)
        worth = _may_conflict(of.pick(rows), firsts)
        ends = np.append(firsts[1:], len(rows))
        for first, last in zip(firsts[worth].tolist(), ends[worth].tolist(), strict=True):
            pending = rows[:0]
            for row in rows[first:last].tolist():
                pending = pending[of.high[pending] > of.low[row]]
                self.asked += 1 + len(pending) // 1000
                if self.asked > MAX_COMPARED:
                    return
                for other in pending[_find_conflicting(of, pending, row)].tolist():
                    self.asked += 1
                    if self._share_bytes(other, row):
                        yield other, row
                pending = np.append(pending, row)

    def _pairs_of_classes(self, reported: set[tuple[str, str]]) -> Iterator[tuple[int, int]]:
        """Yield pairs of accesses of two ranks that conflict and that nothing orders, in epochs of locks, or of starts
        and posts.

        `reported`: pairs of lines that have a finding already; they are skipped.
        """
        pending = np.zeros(0, np.int64)
        of = self.classes
        new = np.concatenate([[True], of.low[1:] >= np.maximum.accumulate(of.high)[:-1]])
        worth = _may_conflict(of, np.flatnonzero(new))[np.cumsum(new) - 1]
        for k in np.flatnonzero(worth).tolist():
            pending = pending[of.high[pending] > of.low[k]]
            self.asked += len(pending) // 1000
            if self.asked > MAX_COMPARED:
                return
            ordered = (self.fenced[pending] & self.fenced[k]) | (self.excluding[pending] & self.excluding[k])
            differ = _find_conflicting(of, pending, k) & (of.rank[pending] != of.rank[k])
            for other in pending[differ & ~ordered].tolist():
                a, b = self.rows(other), self.rows(k)
                self.asked += 1
                if self.asked > MAX_COMPARED:
                    return
                if self._call_sites(int(a[0]), int(b[0])) not in reported and self._share_bytes(int(a[0]), int(b[0])):
                    pair = self._first_unordered_pair(a, b, self.all.fence[a] >= 0, self.all.fence[b] >= 0)
                    if pair is not None:
                        yield pair
            pending = np.append(pending, k)

    def _share_bytes(self, one: int, two: int) -> bool:
        """Return whether two accesses whose ranges overlap share a byte. If they have too many blocks to decide, return
        False and note the pair in `left`.
        """
        shapes = self.all.shape
        if shapes[one] is None and shapes[two] is None:
            return True
        self.asked += ASKED_OF_SHAPES
        found = share_bytes(*self._layouts_of_pair(one, two))
        if found is None:
            self.left = self.left or ((one, two) if shapes[one] is not None else (two, one))
        return bool(found)

    def _layouts_of_pair(self, one: int, two: int) -> tuple[Layout, Layout, int]:
        """Return the layouts of two accesses, and by how many bytes the origin of the second layout is after that of
        the first.
        """
        of = self.all
        several = [
            (
                int(of.low[row]),
                gapless_layout(int(of.high[row] - of.low[row])) if of.shape[row] is None else of.shape[row],
            )
            for row in (one, two)
        ]
        (low, first), (high, second) = several
        return first, second, high - second.low - (low - first.low)

    def _shared_blocks(self, one: int, two: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return two blocks that share bytes, one of access `one` and one of access `two`, each as (first byte, end).
        If no such blocks are found, these are the whole ranges of the accesses.
        """
        of = self.all
        ends = [(int(of.low[row]), int(of.high[row])) for row in (one, two)]
        if of.shape[one] is None and of.shape[two] is None:
            return ends[0], ends[1]
        laid = self._layouts_of_pair(one, two)
        found = first_shared_blocks(*laid) or ((laid[0].low, laid[0].high), (laid[1].low, laid[1].high))
        first, second = (
            (low - layout.low + of[0], low - layout.low + sum(of))
            for (low, _), layout, of in zip(ends, laid[:2], found, strict=True)
        )
        return first, second

    def rows(self, k: int) -> Ints:
        """Return the accesses of class `k`, in their order."""
        return self.by_class[self.starts[k] : self.starts[k + 1]]

    def _call_sites(self, one: int, two: int) -> tuple[str, str]:
        names = sorted(self._call_site_key(row) for row in (one, two))
        return names[0], names[1]

    def _call_site_key(self, row: int) -> str:
        """Return a key for the call site of an access; it is equal for equal calls on all ranks."""
        key = int(self.all.rank[row]), int(self.all.site[row])
        if key not in self.names:
            self.names[key] = cause_key(self.trace.event(key[0], int(self.all.event[row])))
        return self.names[key]

    def _first_unordered_pair(
        self, a: Ints, b: Ints, fenced_a: NDArray[np.bool_], fenced_b: NDArray[np.bool_]
    ) -> tuple[int, int] | None:
        """Return the first pair of accesses of two classes that nothing orders; None if there is none.

        The search walks along the epochs of both ranks: an access that is over before an epoch is over before all later
        ones. `a`, `b`: the accesses of the classes, in order. `fenced_a`, `fenced_b`: masks of those in fence epochs.
        """
        of = self.all
        exclusive = (of.lock[a] == EXCLUSIVE).all() and (of.lock[b] == EXCLUSIVE).all()
        if (fenced_a.all() and fenced_b.all()) or exclusive:
            return None
        i = j = 0
        while i < len(a) and j < len(b) and self.asked <= MAX_COMPARED:
            self.asked += 1
            one, two = int(a[i]), int(b[j])
            if self._is_over_before(one, two):
                i += 1
            elif self._is_over_before(two, one):
                j += 1
            elif (fenced_a[i] and fenced_b[j]) or self._do_locks_exclude(one, two):
                # Excluded or ordered by the fences: the one that ends first in time is passed.
                if self._completion_time(one) <= self._completion_time(two):
                    i += 1
                else:
                    j += 1
            else:
                return one, two
        return None

    def _do_locks_exclude(self, one: int, two: int) -> bool:
        """Return whether both accesses hold locks of which one excludes the other."""
        locks = {int(self.all.lock[one]), int(self.all.lock[two])}
        return 0 not in locks and EXCLUSIVE in locks

    def _completion_time(self, row: int) -> float:
        """Return when an access is complete, in ns; infinity if it never is."""
        end = int(self.all.end[row])
        event = self.trace.event(int(self.all.rank[row]), end) if end >= 0 else None
        leave = event.exit_ns if event else None
        return float("inf") if leave is None else leave

    def _is_over_before(self, one: int, two: int) -> bool:
        """Return whether access `one` is over before access `two` begins, by the order of the calls at their origins
        and at the target, or because values were handed over under locks.
        """
        of = self.all
        target = int(of.target[0])
        ends = EventId(int(of.rank[one]), int(of.end[one])), EventId(target, int(of.closed[one]))
        begins = EventId(int(of.rank[two]), int(of.begin[two])), EventId(target, int(of.opened[two]))
        if any(self.order.before(end, begin) for end in ends if end[1] >= 0 for begin in begins if begin[1] >= 0):
            return True
        return ends[0][1] >= 0 and self.handed.reaches(*ends[0], *begins[0])

    def _race_finding(self, one: int, two: int) -> Finding:
        """Make the finding for two accesses that race."""
        of, target = self.all, int(self.all.target[0])
        one, two = sorted((one, two), key=lambda r: (int(of.rank[r]), int(of.event[r])))
        first, second = (self.trace.event(int(of.rank[r]), int(of.event[r])) for r in (one, two))
        met = self._shared_blocks(one, two)
        shared = min(high for _, high in met) - max(low for low, _ in met)
        sorts = f"{_SORTS[int(of.sort[one])]} and {_SORTS[int(of.sort[two])]}"
        apart = bool(_have_different_elements(of, np.array([one]), two)[0])
        if apart:
            sorts += " of elements that do not coincide, so that neither is atomic to the other"
        # Locks and counters are made of these. By default only one operation may be used at a time (MPI-4.1, 12.2.1,
        # accumulate_ops), but every MPI does them one after the other.
        atomic = (
            of.sort[one] == of.sort[two] == UPDATE
            and not apart
            and any(base_name(e.function.name) in _ATOMIC for e in (first, second))
        )
        return make_finding(
            "rma-race",
            f"rank {first.rank.index} {self._describe_access(one)} and rank {second.rank.index} "
            f"{self._describe_access(two)} access the same {plural(shared, 'byte')} of rank {target}'s window "
            f"({sorts}), and nothing orders them: {_describe_remedy(first, second, met[1][0] - met[0][0])}",
            [first, second],
            severity="warning" if atomic else "error",
            certainty="possible" if atomic else "certain",
            evidence=WindowOverlap(
                target=target,
                bytes=shared,
                accesses=[self._access_evidence(one, met[0]), self._access_evidence(two, met[1])],
            ),
            cause="; ".join(sorted((cause_key(first), cause_key(second)))),
        )

    def _access_evidence(self, row: int, shared_bytes: tuple[int, int]) -> WindowAccess:
        """Return an access as evidence for a finding that two accesses race, in the form that weft.usage.proof reads.
        `shared_bytes`: first byte and end of what both access.
        """
        of = self.all
        rank, target, event, fence = (int(column[row]) for column in (of.rank, of.target, of.event, of.fence))

        def place(of_rank: int, column: Ints) -> EventId | None:
            return EventId(of_rank, int(column[row])) if column[row] >= 0 else None

        return WindowAccess(
            as_=_ORIGINS[int(of.origin[row])], access=_SORTS[int(of.sort[row])], from_=shared_bytes[0],
            to=shared_bytes[1], call=EventId(rank, event), named=EventId(rank, event), begins=place(rank, of.begin),
            until=place(rank, of.end), opened=place(target, of.opened), closed=place(target, of.closed),
            lock=_LOCKS.get(int(of.lock[row])), fence=fence if fence >= 0 else None,
        )  # fmt: skip

    def _note_uncompared_pairs(self) -> Finding:
        """Make the note that too many accesses overlap to compare every pair."""
        event = self.trace.event(int(self.all.rank[0]), int(self.all.event[0]))
        return make_finding(
            "rma-race",
            f"too many accesses of rank {int(self.all.target[0])}'s window overlap to look at every pair: after "
            f"{MAX_COMPARED:,} pairs Weft gave up, and there may be more races than are reported",
            [event], severity="note", certainty="undecided", cause="given up",
        )  # fmt: skip

    def _describe_access(self, row: int) -> str:
        """Say in words what an access is: the operation with its place, or a store of the program with the fence after
        it.
        """
        told = call_at(self.trace.event(int(self.all.rank[row]), int(self.all.event[row])))
        if self.all.origin[row] == LOCAL:
            return f"in {told}, whose own buffer is in that memory,"
        return f"in {'a store of its own before ' if self.all.origin[row] == STORED else ''}{told}"


_OF_A_CLASS: Final = ("element", "operation", "sort", "site", "rank", "high", "low")
"""What the accesses of one class have in common, the last the first to sort by."""


def _describe_remedy(first: Event, second: Event, distance: int) -> str:
    """Return words for what ends a race of two accesses; `distance`: bytes from the begin of the first to that of the
    second. If displacements count bytes and the elements of both meet in part, the displacement unit is to blame.
    """
    at, other = (event.args.get("target_disp") for event in (first, second))
    types = {event.args.get("target_datatype") for event in (first, second)}
    [datatype, *others] = types
    width = None
    if isinstance(datatype, int) and datatype < ID_DYNAMIC and not others:
        width = size_in_bytes(first.rank.datatype(datatype))
    if not isinstance(at, int) or not isinstance(other, int) or not width or other - at != distance:
        return "add a synchronisation of the window between them"
    if distance % width == 0:
        return "add a synchronisation of the window between them"
    return (
        f"the displacements {at} and {other} count bytes, while an element has {width}: make the window with a "
        f"displacement unit of {width}"
    )


def _have_different_elements(accesses: RmaAccesses, others: Ints, one: int) -> NDArray[np.bool_]:
    """Return a mask of the accesses `others` that are updates (accumulates) and whose elements begin elsewhere, or are
    of another type, than those of the update `one`. Such updates are not atomic to each other.
    """
    updates = (accesses.sort[others] == UPDATE) & (accesses.sort[one] == UPDATE)
    known = (accesses.element[others] > 0) & (accesses.element[one] > 0)
    result: NDArray[np.bool_] = updates & known & (accesses.element[others] != accesses.element[one])
    return result


def _find_conflicting(accesses: RmaAccesses, others: Ints, one: int) -> NDArray[np.bool_]:
    """Return a mask of the accesses `others` that conflict with access `one` if they overlap (MPI-4.1, 12.7).

    No conflict are two reads, and two updates of the same elements with the same operation, or from the same origin
    that keeps their order.
    """
    no_op, mine = accesses.operation[others] < 0, accesses.operation[one] < 0
    reads = ((accesses.sort[others] == READ) | no_op) & ((accesses.sort[one] == READ) | mine)
    updates = (accesses.sort[others] == UPDATE) & (accesses.sort[one] == UPDATE)
    same = (accesses.operation[others] == accesses.operation[one]) | no_op | mine
    same |= (accesses.rank[others] == accesses.rank[one]) & (accesses.ordered[others] > 0) & (accesses.ordered[one] > 0)
    result: NDArray[np.bool_] = ~reads & (~(updates & same) | _have_different_elements(accesses, others, one))
    return result


def _may_conflict(accesses: RmaAccesses, firsts: Ints) -> NDArray[np.bool_]:
    """Return a mask of the groups of rows that may contain a conflict: they have several accesses, and these are
    neither all reads nor all equal updates. `firsts`: the first row of each group.
    """
    kind = np.where(
        accesses.sort == UPDATE, UPDATE + (np.abs(accesses.operation) << 32 | accesses.element), accesses.sort
    )
    mixed = np.minimum.reduceat(kind, firsts) != np.maximum.reduceat(kind, firsts)
    writes = np.maximum.reduceat((accesses.sort == WRITE).astype(np.int8), firsts) > 0
    several = np.diff(np.append(firsts, len(accesses))) > 1
    result: NDArray[np.bool_] = several & (mixed | writes)
    return result
