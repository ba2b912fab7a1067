"""Accesses of windows that race: overlapping, concurrent, and not both reads or equal updates (MPI-4.1, 12.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.findings import Finding
from weft.mpi.meaning import Access, Act, base, named
from weft.order import Order
from weft.terms import calls
from weft.terms.calls import masks, words
from weft.terms.cited import cause, finding, left_out, said
from weft.terms.columns import Ints, columns, distinct, ints
from weft.terms.layouts import Layout, meet, shared, whole
from weft.terms.significant import NO_OP
from weft.terms.sizes import kind_of, width_of
from weft.terms.spread import Shapes, no_shapes, numbered_shapes
from weft.terms.windows import EXCLUSIVE, SHARED
from weft.trace import Rank, Trace
from weft.usage.epochs import FENCE, LOCK, LOCK_ALL, Epochs
from weft.usage.handed import Handovers

READ, WRITE, UPDATE = 0, 1, 2
OPERATION, STORED, LOCAL = 0, 1, 2
"""What an access is: a one-sided operation, a store of the program itself, or the local buffer of an operation."""
_ORIGINS: Final = ("operation", "store", "local buffer")
_LOCKS: Final = {EXCLUSIVE: "exclusive", SHARED: "shared"}
_SORTS: Final = ("read", "write", "update")
_ATOMIC: Final = named(Act.ACCESS, where=lambda m: Access.ONE_ELEMENT in m.access)
_READING: Final = named(Act.ACCESS, where=lambda m: m.access is Access.READ)
_WRITING: Final = named(Act.ACCESS, where=lambda m: m.access is Access.WRITE)
MAX_COMPARED: Final = 2_000_000
"""Pairs of sorts of access of one window and target, and questions of order, that are looked at; more is told."""


ASKED_OF_SHAPES: Final = 50
"""What a look at two layouts counts for in these."""


@dataclass(frozen=True)
class Accesses:
    """Accesses of windows, one row each; `low` to `high` are bytes of the target's window.

    `sort`: READ, WRITE or UPDATE. `operation`: number of an update's operation, -1 for MPI_NO_OP, which reads.
    `element`: number of an update's basic type and of where its elements begin; 0 unknown. `ordered`: updates of one
    origin at one place keep their order. `bucket`: accesses of a rank with equal ones are in one epoch and no flush
    lies between. `fence`: the number of a fence epoch, else -1. `begin`, `end`: the events between which it happens,
    -1 for one without an end; `opened`, `closed`: such events of the target, -1 unknown. `lock`: the type of its
    lock, 0 without one. `origin`: OPERATION, STORED or LOCAL. `shape`: which of these bytes, None for all.
    """

    rank: Ints
    event: Ints
    site: Ints
    comm: Ints
    ordinal: Ints
    target: Ints
    low: Ints
    high: Ints
    sort: Ints
    operation: Ints
    element: Ints
    ordered: Ints
    bucket: Ints
    fence: Ints
    begin: Ints
    end: Ints
    opened: Ints
    closed: Ints
    lock: Ints
    origin: Ints
    shape: Shapes

    def __len__(self) -> int:
        return len(self.rank)

    @classmethod
    def of_rank(
        cls, rank: Rank, of: Epochs, rows: Ints, places: tuple[Ints, Ints, Ints, Shapes], time: tuple[Ints, Ints, Ints]
    ) -> Accesses:
        """The accesses of some of a rank's calls, at (target, low, high, shape), in the time (end, post, wait)."""
        target, low, high, shape = places
        event, epoch = of.event[rows], of.epoch[rows].astype(np.int64)
        windows = np.array(of.windows, np.int64).reshape(-1, 2)[of.window[rows]]
        table = masks(rank.trace.functions).table
        function = rank.events["function"][event]
        sort = np.where(table(_READING)[function], READ, UPDATE)
        sort[table(_WRITING)[function]] = WRITE
        fence = np.where(of.sort[epoch] == FENCE, of.number[epoch], -1).astype(np.int64)
        lock = np.where(of.sort[epoch] == LOCK, of.lock_type[epoch], 0).astype(np.int64)
        lock[of.sort[epoch] == LOCK_ALL] = SHARED  # a shared lock of every rank (12.5.3)
        operation, element = _updates(rank, event, sort, low)
        return cls(
            np.full(len(rows), rank.index, np.int64), event, rank.events["site"][event].astype(np.int64), windows[:, 0],
            windows[:, 1], target, low, high, sort.astype(np.int64), operation, element, _ordered(rank, of, rows),
            epoch << 32 | of.phase[rows], fence, event, *time, lock, np.full(len(rows), OPERATION, np.int64),
            shape,
        )  # fmt: skip

    def pick(self, rows: Any) -> Accesses:
        """Some of the rows."""
        return Accesses(*(getattr(self, f.name)[rows] for f in fields(self)))


_elements: dict[tuple[str, int], int] = {}
_UNNAMED: Final = 1 << 20
"""The operation of MPI_Compare_and_swap, which has none."""


def _updates(rank: Rank, event: Ints, sort: Ints, low: Ints) -> tuple[Ints, Ints]:
    """The operation of each update, and a number for its basic type and the place of its elements."""
    operation, element = (np.zeros(len(event), np.int64) for _ in range(2))
    updates = np.flatnonzero(sort == UPDATE)
    events = rank.events
    slots = (
        events["function"][event[updates]].astype(np.int64) << 48
        | events["tag"][event[updates]].astype(np.int64) << 32 & 0xFFFF00000000
        | events["datatype"][event[updates]].astype(np.int64)
    )
    for key in distinct(slots).tolist():
        mine = updates[slots == key]
        args = rank.event(int(event[mine[0]])).args
        op = int(args.get("op", _UNNAMED))
        operation[mine] = -1 if op == NO_OP else op + 1
        types = _columns_of(rank, event[mine], "target_datatype")
        types = np.full(len(mine), args.get("datatype", 0), np.int64) if types is None else types
        for id in distinct(types).tolist():
            element[mine[types == id]] = _elements_of(rank, id, low[mine[types == id]])
    return operation, element


def _columns_of(rank: Rank, events: Ints, name: str) -> Ints | None:
    """A parameter of the tails of events of one function, None where it has no such."""
    each, inverse = np.unique(events, return_inverse=True)  # an operation may have several accesses
    found = np.zeros(len(each), np.int64)
    for some, values in columns(rank, each, frozenset((name,))):
        if name not in values:
            return None
        found[np.searchsorted(each, some)] = ints(values, name)
    return found[inverse.reshape(-1)]


def _elements_of(rank: Rank, id_: int, low: Ints) -> Ints:
    """Numbers for the basic type of a datatype and where its elements lie; 0 where it has no single one."""
    datatype = rank.datatype(id_)
    signature = datatype.signature() if datatype else None
    name = signature[0][0] if signature and len(signature) == 1 else ""
    width = width_of(name)
    if not width:
        return np.zeros(len(low), np.int64)
    offsets, inverse = np.unique(low % width, return_inverse=True)
    kind = kind_of(name)
    numbers = np.array([_elements.setdefault((kind, offset), len(_elements) + 1) for offset in offsets.tolist()])
    return numbers.astype(np.int64)[inverse.reshape(-1)]


def _ordered(rank: Rank, of: Epochs, rows: Ints) -> Ints:
    """Whether the updates of each window keep their order: unless it was made with accumulate_ordering (12.7.2)."""
    found = np.ones(len(rows), np.int64)
    loose = {
        event.args.get("info")
        for event in map(rank.event, masks(rank.trace.functions).where(rank, words("Info_set")).tolist())
        if event.args.get("key") == "accumulate_ordering" and "waw" not in str(event.args.get("value"))
    }
    if loose:
        makers = map(rank.event, masks(rank.trace.functions).where(rank, calls.WINDOW_MAKERS).tolist())
        windows = [event.object for event in makers if event.args.get("info") in loose]
        found[np.isin(rank.events["object"][of.event[rows]], windows)] = 0
    return found


def joined(parts: Sequence[Accesses]) -> Accesses:
    """The accesses of several ranks as one."""
    empty = {f.name: no_shapes(0) if f.name == "shape" else np.zeros(0, np.int64) for f in fields(Accesses)}
    return Accesses(*(np.concatenate([none, *(getattr(p, name) for p in parts)]) for name, none in empty.items()))


def races(trace: Trace, order: Order, accesses: Accesses) -> Iterator[Finding]:
    """The races, of each pair of lines and each target the first.

    What one epoch of a rank and what one fence of all holds is compared part by part, swept by address. For epochs of
    locks, or of starts and posts, the accesses of a rank by one line to the same bytes in one way are one class: two
    that overlap and differ race where, walking along the epochs of both ranks once, neither of a pair comes first.
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
        yield from _Target(trace, order, handed, accesses.pick(slice(first, last))).races()


class _Target:
    """All accesses of one window of one rank."""

    def __init__(self, trace: Trace, order: Order, handed: Handovers, accesses: Accesses) -> None:
        self.trace, self.order, self.handed, self.all = trace, order, handed, accesses
        self.asked = 0
        self.left: tuple[int, int] | None = None
        """Accesses of which it is not known whether they share bytes."""
        self.names: dict[tuple[int, int], str] = {}
        if self._several_ranks:
            self._classify()

    @property
    def _several_ranks(self) -> bool:
        return bool((self.all.rank != self.all.rank[0]).any())

    def _classify(self) -> None:
        """Sort the accesses into classes."""
        accesses = self.all
        by = (numbered_shapes(accesses.shape), *(getattr(accesses, name) for name in _OF_A_CLASS))
        by_class = np.lexsort(by)  # stable: each class keeps the order of buckets
        table = np.stack([c[by_class] for c in by])
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(table, axis=1) != 0).any(axis=0)]))
        self.by_class, self.starts = by_class, np.append(starts, len(by_class))
        self.classes = accesses.pick(by_class[starts])
        fence, lock = accesses.fence[by_class], accesses.lock[by_class]
        self.fenced = np.minimum.reduceat(fence, starts) >= 0
        self.excluding = np.logical_and.reduceat(lock == EXCLUSIVE, starts)

    def races(self) -> Iterator[Finding]:
        """Sweep by address; where too much overlaps to look at all of it, say so."""
        told: set[tuple[str, str]] = set()
        seen: set[tuple[int, int, int, int]] = set()
        between = chain(self._in_one_fence(), self._in_classes(told)) if self._several_ranks else ()
        rank, site = self.all.rank.item, self.all.site.item
        for one, two in chain(self._in_one_epoch(), between):
            sites = rank(one), site(one), rank(two), site(two)
            if sites in seen:
                continue
            seen.add(sites)
            key = self._lines(one, two)
            if key not in told:
                told.add(key)
                yield self._race(one, two)
        if self.left is not None:
            event = self.trace.event(int(self.all.rank[self.left[0]]), int(self.all.event[self.left[0]]))
            yield left_out("rma-race", event, "it touches bytes that others do")
        if self.asked > MAX_COMPARED:
            yield self._given_up()

    def _in_one_epoch(self) -> Iterator[tuple[int, int]]:
        """Accesses of one rank in one epoch."""
        of = self.all
        for pair in self._within(np.arange(len(of)), np.stack([of.rank, of.bucket])):
            if of.rank.item(pair[0]) == of.rank.item(pair[1]) and not self._one_over(*pair):
                yield pair

    def _one_over(self, one: int, two: int) -> bool:
        """Whether the one of a rank's two accesses is over when the other begins."""
        one_at, two_at = self.all.event.item(one), self.all.event.item(two)
        first, later = (one, two_at) if one_at <= two_at else (two, one_at)
        return 0 <= self.all.end.item(first) < later

    def _in_one_fence(self) -> Iterator[tuple[int, int]]:
        """Accesses of two ranks between the same fences."""
        of = self.all
        rows = np.flatnonzero(of.fence >= 0)
        for pair in self._within(rows, of.fence[rows][None]):
            if of.rank.item(pair[0]) != of.rank.item(pair[1]):
                yield pair

    def _within(self, rows: Ints, keys: Ints) -> Iterator[tuple[int, int]]:
        """Pairs of rows with equal keys that overlap and may not."""
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
        if span:  # parts lie one behind the other: what begins behind all ends before it overlaps none of them
            top = np.maximum.accumulate(of.high[rows] + shift)
            new = np.concatenate([[True], (of.low[rows] + shift)[1:] >= top[:-1]])
        firsts = np.flatnonzero(new)
        worth = _worth_a_look(of.pick(rows), firsts)
        ends = np.append(firsts[1:], len(rows))
        for first, last in zip(firsts[worth].tolist(), ends[worth].tolist(), strict=True):
            pending = rows[:0]
            for row in rows[first:last].tolist():
                pending = pending[of.high[pending] > of.low[row]]
                self.asked += 1 + len(pending) // 1000
                if self.asked > MAX_COMPARED:
                    return
                for other in pending[_differ(of, pending, row)].tolist():
                    self.asked += 1
                    if self._meet(other, row):
                        yield other, row
                pending = np.append(pending, row)

    def _in_classes(self, told: set[tuple[str, str]]) -> Iterator[tuple[int, int]]:
        """Accesses of two ranks in epochs of locks, or of starts and posts, that nothing orders."""
        pending = np.zeros(0, np.int64)
        of = self.classes
        new = np.concatenate([[True], of.low[1:] >= np.maximum.accumulate(of.high)[:-1]])
        worth = _worth_a_look(of, np.flatnonzero(new))[np.cumsum(new) - 1]
        for k in np.flatnonzero(worth).tolist():
            pending = pending[of.high[pending] > of.low[k]]
            self.asked += len(pending) // 1000
            if self.asked > MAX_COMPARED:
                return
            ordered = (self.fenced[pending] & self.fenced[k]) | (self.excluding[pending] & self.excluding[k])
            differ = _differ(of, pending, k) & (of.rank[pending] != of.rank[k])
            for other in pending[differ & ~ordered].tolist():
                a, b = self.rows(other), self.rows(k)
                self.asked += 1
                if self.asked > MAX_COMPARED:
                    return
                if self._lines(int(a[0]), int(b[0])) not in told and self._meet(int(a[0]), int(b[0])):
                    pair = self._unordered(a, b, self.all.fence[a] >= 0, self.all.fence[b] >= 0)
                    if pair is not None:
                        yield pair
            pending = np.append(pending, k)

    def _meet(self, one: int, two: int) -> bool:
        """Whether two accesses that overlap have a byte in common, as far as that is known."""
        shapes = self.all.shape
        if shapes[one] is None and shapes[two] is None:
            return True
        self.asked += ASKED_OF_SHAPES
        found = meet(*self._laid(one, two))
        if found is None:
            self.left = self.left or ((one, two) if shapes[one] is not None else (two, one))
        return bool(found)

    def _laid(self, one: int, two: int) -> tuple[Layout, Layout, int]:
        """The bytes of two accesses, and how far the second begins behind the first."""
        of = self.all
        several = [
            (int(of.low[row]), whole(int(of.high[row] - of.low[row])) if of.shape[row] is None else of.shape[row])
            for row in (one, two)
        ]
        (low, first), (high, second) = several
        return first, second, high - second.low - (low - first.low)

    def _met(self, one: int, two: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """First byte and end of a block of each of two accesses that share bytes."""
        of = self.all
        ends = [(int(of.low[row]), int(of.high[row])) for row in (one, two)]
        if of.shape[one] is None and of.shape[two] is None:
            return ends[0], ends[1]
        laid = self._laid(one, two)
        found = shared(*laid) or ((laid[0].low, laid[0].high), (laid[1].low, laid[1].high))
        first, second = (
            (low - layout.low + of[0], low - layout.low + sum(of))
            for (low, _), layout, of in zip(ends, laid[:2], found, strict=True)
        )
        return first, second

    def rows(self, k: int) -> Ints:
        """The accesses of a class, in their order."""
        return self.by_class[self.starts[k] : self.starts[k + 1]]

    def _lines(self, one: int, two: int) -> tuple[str, str]:
        names = sorted(self._name(row) for row in (one, two))
        return names[0], names[1]

    def _name(self, row: int) -> str:
        key = int(self.all.rank[row]), int(self.all.site[row])
        if key not in self.names:
            self.names[key] = cause(self.trace.event(key[0], int(self.all.event[row])))
        return self.names[key]

    def _unordered(
        self, a: Ints, b: Ints, fenced_a: NDArray[np.bool_], fenced_b: NDArray[np.bool_]
    ) -> tuple[int, int] | None:
        """Walk along the epochs of two ranks, each in its order: what comes before an epoch comes before all later."""
        of = self.all
        exclusive = (of.lock[a] == EXCLUSIVE).all() and (of.lock[b] == EXCLUSIVE).all()
        if (fenced_a.all() and fenced_b.all()) or exclusive:
            return None
        i = j = 0
        while i < len(a) and j < len(b) and self.asked <= MAX_COMPARED:
            self.asked += 1
            one, two = int(a[i]), int(b[j])
            if self._before(one, two):
                i += 1
            elif self._before(two, one):
                j += 1
            elif (fenced_a[i] and fenced_b[j]) or self._exclude(one, two):
                # Excluded or ordered by the fences: the one that ends first in time is passed.
                if self._ends(one) <= self._ends(two):
                    i += 1
                else:
                    j += 1
            else:
                return one, two
        return None

    def _exclude(self, one: int, two: int) -> bool:
        """Whether both hold a lock, of which one excludes the other."""
        locks = {int(self.all.lock[one]), int(self.all.lock[two])}
        return 0 not in locks and EXCLUSIVE in locks

    def _ends(self, row: int) -> float:
        end = int(self.all.end[row])
        event = self.trace.event(int(self.all.rank[row]), end) if end >= 0 else None
        leave = event.exit_ns if event else None
        return float("inf") if leave is None else leave

    def _before(self, one: int, two: int) -> bool:
        """Whether one access is over before the other begins, as the origins or the target know it."""
        of = self.all
        target = int(of.target[0])
        ends = (int(of.rank[one]), int(of.end[one])), (target, int(of.closed[one]))
        begins = (int(of.rank[two]), int(of.begin[two])), (target, int(of.opened[two]))
        if any(self.order.before(end, begin) for end in ends if end[1] >= 0 for begin in begins if begin[1] >= 0):
            return True
        return ends[0][1] >= 0 and self.handed.reaches(*ends[0], *begins[0])

    def _race(self, one: int, two: int) -> Finding:
        of, target = self.all, int(self.all.target[0])
        one, two = sorted((one, two), key=lambda r: (int(of.rank[r]), int(of.event[r])))
        first, second = (self.trace.event(int(of.rank[r]), int(of.event[r])) for r in (one, two))
        met = self._met(one, two)
        shared = min(high for _, high in met) - max(low for low, _ in met)
        sorts = f"{_SORTS[int(of.sort[one])]} and {_SORTS[int(of.sort[two])]}"
        apart = bool(_apart(of, np.array([one]), two)[0])
        if apart:
            sorts += " of elements that do not coincide, so that neither is atomic to the other"
        # Locks and counters are made of these. By default only one operation may be used at a time (MPI-4.1, 12.2.1,
        # accumulate_ops), but every MPI does them one after the other.
        atomic = (
            of.sort[one] == of.sort[two] == UPDATE
            and not apart
            and any(base(e.function.name) in _ATOMIC for e in (first, second))
        )
        return finding(
            "rma-race",
            f"rank {first.rank.index} {self._does(one)} and rank {second.rank.index} {self._does(two)} access the same "
            f"{shared:,} bytes of rank {target}'s window ({sorts}), and nothing orders them",
            [first, second],
            severity="warning" if atomic else "error",
            certainty="possible" if atomic else "certain",
            evidence={
                "target": target,
                "bytes": shared,
                "accesses": [self._access(one, met[0]), self._access(two, met[1])],
            },
            cause="; ".join(sorted((cause(first), cause(second)))),
        )

    def _access(self, row: int, at: tuple[int, int]) -> dict[str, object]:
        """One of the two, as weft.usage.proof reads it."""
        of = self.all
        rank, target, event, fence = (int(column[row]) for column in (of.rank, of.target, of.event, of.fence))

        def place(of_rank: int, column: Ints) -> list[int] | None:
            return [of_rank, int(column[row])] if column[row] >= 0 else None

        return {
            "as": _ORIGINS[int(of.origin[row])], "access": _SORTS[int(of.sort[row])], "from": at[0],
            "to": at[1], "call": [rank, event], "named": [rank, event], "begins": place(rank, of.begin),
            "until": place(rank, of.end), "opened": place(target, of.opened), "closed": place(target, of.closed),
            "lock": _LOCKS.get(int(of.lock[row])), "fence": fence if fence >= 0 else None,
        }  # fmt: skip

    def _given_up(self) -> Finding:
        event = self.trace.event(int(self.all.rank[0]), int(self.all.event[0]))
        return finding(
            "rma-race",
            f"too many accesses of rank {int(self.all.target[0])}'s window overlap to look at every pair: "
            f"after {MAX_COMPARED:,} Weft gave up, and there may be more races than are told",
            [event], severity="note", certainty="undecided", cause="given up",
        )  # fmt: skip

    def _does(self, row: int) -> str:
        """The operation, or for a store of the program itself the fence before which it was."""
        told = said(self.trace.event(int(self.all.rank[row]), int(self.all.event[row])))
        if self.all.origin[row] == LOCAL:
            return f"in {told}, whose own buffer lies there,"
        return f"in {'a store of its own before ' if self.all.origin[row] == STORED else ''}{told}"


_OF_A_CLASS: Final = ("element", "operation", "sort", "site", "rank", "high", "low")
"""What the accesses of one class have in common, the last the first to sort by."""


def _apart(of: Accesses, others: Ints, one: int) -> NDArray[np.bool_]:
    """Which updates have elements that do not coincide with those of this one: they are not atomic to each other."""
    updates = (of.sort[others] == UPDATE) & (of.sort[one] == UPDATE)
    known = (of.element[others] > 0) & (of.element[one] > 0)
    result: NDArray[np.bool_] = updates & known & (of.element[others] != of.element[one])
    return result


def _differ(of: Accesses, others: Ints, one: int) -> NDArray[np.bool_]:
    """Which may not overlap this one (MPI-4.1, 12.7).

    Allowed are reads, and updates of the same elements that are of one operation, or of one origin that keeps order.
    """
    no_op, mine = of.operation[others] < 0, of.operation[one] < 0
    reads = ((of.sort[others] == READ) | no_op) & ((of.sort[one] == READ) | mine)
    updates = (of.sort[others] == UPDATE) & (of.sort[one] == UPDATE)
    same = (of.operation[others] == of.operation[one]) | no_op | mine
    same |= (of.rank[others] == of.rank[one]) & (of.ordered[others] > 0) & (of.ordered[one] > 0)
    result: NDArray[np.bool_] = ~reads & (~(updates & same) | _apart(of, others, one))
    return result


def _worth_a_look(of: Accesses, firsts: Ints) -> NDArray[np.bool_]:
    """Of parts that begin at `firsts`, those of several accesses that are not all reads or equal updates."""
    kind = np.where(of.sort == UPDATE, UPDATE + (np.abs(of.operation) << 32 | of.element), of.sort)
    mixed = np.minimum.reduceat(kind, firsts) != np.maximum.reduceat(kind, firsts)
    writes = np.maximum.reduceat((of.sort == WRITE).astype(np.int8), firsts) > 0
    several = np.diff(np.append(firsts, len(of))) > 1
    result: NDArray[np.bool_] = several & (mixed | writes)
    return result
