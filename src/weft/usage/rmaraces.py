"""Accesses of windows that race: overlapping, concurrent, and not both reads or equal updates (MPI-4.1, 12.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.order import Order
from weft.terms.calls import base, masks, words
from weft.terms.columns import Ints
from weft.terms.sizes import kind_of
from weft.terms.telling import cause, finding, said
from weft.trace import Event, Rank, Trace
from weft.usage.epochs import FENCE, LOCK, Epochs

EXCLUSIVE: Final = 1  # as the recorder numbers MPI_LOCK_EXCLUSIVE for every library; shared is 2
READ, WRITE, UPDATE = 0, 1, 2
_SORTS: Final = ("read", "write", "update")
_NO_OP: Final = 15
"""MPI_NO_OP among the predefined operations: a read that may meet any update."""

_ATOMIC: Final = words("Fetch_and_op Compare_and_swap")
MAX_COMPARED: Final = 2_000_000
"""Pairs of sorts of access of one window and target, and questions of order, that are looked at; more is told."""


@dataclass(frozen=True)
class Accesses:
    """Operations on windows, one row each; `low` to `high` are bytes of the target's window.

    `sort`: READ, WRITE or UPDATE. `operation`: number of (operation, basic type); -1: one that meets every update.
    `bucket`: accesses of a rank with equal ones are in one epoch and no flush lies between. `fence`: the number of a
    fence epoch, else -1. `begin`, `end`: events of the epoch, -1 for one without an end. `exclusive`: by its lock.
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
    bucket: Ints
    fence: Ints
    begin: Ints
    end: Ints
    exclusive: Ints

    def __len__(self) -> int:
        return len(self.rank)

    @classmethod
    def of_rank(cls, rank: Rank, of: Epochs, rows: Ints, places: tuple[Ints, Ints, Ints]) -> Accesses:
        """The accesses of some of a rank's calls, at (target, low, high)."""
        target, low, high = places
        event, epoch = of.event[rows], of.epoch[rows].astype(np.int64)
        windows = np.array(of.windows, np.int64).reshape(-1, 2)[of.window[rows]]
        table = masks(rank.trace.functions).table
        function = rank.events["function"][event]
        sort = np.where(table(words("Get Rget"))[function], READ, UPDATE)
        sort[table(words("Put Rput"))[function]] = WRITE
        fence = np.where(of.sort[epoch] == FENCE, of.number[epoch], -1).astype(np.int64)
        exclusive = (of.sort[epoch] == LOCK) & (of.lock_type[epoch] == EXCLUSIVE)
        return cls(
            np.full(len(rows), rank.index, np.int64), event, rank.events["site"][event].astype(np.int64), windows[:, 0],
            windows[:, 1], target, low, high, sort.astype(np.int64), _operations(rank, event, sort),
            epoch << 32 | of.phase[rows], fence, of.begin[epoch], of.end[epoch], exclusive.astype(np.int64),
        )  # fmt: skip

    def pick(self, rows: Any) -> Accesses:
        """Some of the rows."""
        return Accesses(*(getattr(self, f.name)[rows] for f in fields(self)))


_numbers: dict[tuple[int, str], int] = {}


def _operations(rank: Rank, event: Ints, sort: Ints) -> Ints:
    """A number for the operation and basic type of each update: two updates with equal ones may meet."""
    found = np.zeros(len(event), np.int64)
    updates = np.flatnonzero(sort == UPDATE)
    events = rank.events
    slots = (
        events["function"][event[updates]].astype(np.int64) << 48
        | events["tag"][event[updates]].astype(np.int64) << 32 & 0xFFFF00000000
        | events["datatype"][event[updates]].astype(np.int64)
    )
    for key in np.unique(slots).tolist():
        mine = updates[slots == key]
        args = rank.event(int(event[mine[0]])).args
        datatype = rank.datatype(args.get("target_datatype", args.get("datatype", 0)))
        signature = datatype.signature() if datatype else None
        if int(args.get("op", -1)) == _NO_OP:
            found[mine] = -1
            continue
        name = (int(args.get("op", -1)), kind_of(signature[0][0]) if signature and "op" in args else "")
        found[mine] = _numbers.setdefault(name, len(_numbers) + 1)
    return found


def joined(parts: Sequence[Accesses]) -> Accesses:
    """The accesses of several ranks as one."""
    empty = np.zeros(0, np.int64)
    return Accesses(*(np.concatenate([empty, *(getattr(p, f.name) for p in parts)]) for f in fields(Accesses)))


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
    changed = (np.diff(keys[:, order_of], axis=1) != 0).any(axis=0)
    cuts = [0, *(np.flatnonzero(changed) + 1).tolist(), len(accesses)]
    for first, last in pairwise(cuts):
        yield from _Target(trace, order, accesses.pick(slice(first, last))).races()


class _Target:
    """All accesses of one window of one rank."""

    def __init__(self, trace: Trace, order: Order, accesses: Accesses) -> None:
        self.trace, self.order, self.all = trace, order, accesses
        self.asked = 0
        columns = (accesses.operation, accesses.sort, accesses.site, accesses.rank, accesses.high, accesses.low)
        by_class = np.lexsort(columns)  # stable: each class keeps the order of buckets
        table = np.stack([c[by_class] for c in columns])
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(table, axis=1) != 0).any(axis=0)]))
        self.by_class, self.starts = by_class, np.append(starts, len(by_class))
        self.names: dict[tuple[int, int], str] = {}
        self.low, self.high = table[5, starts], table[4, starts]
        self.rank, self.site = table[3, starts], table[2, starts]
        self.sort, self.operation = table[1, starts], table[0, starts]
        fence, exclusive = accesses.fence[by_class], accesses.exclusive[by_class]
        self.fenced = np.minimum.reduceat(fence, starts) >= 0
        self.excluding = np.logical_and.reduceat(exclusive.astype(np.bool_), starts)

    def races(self) -> Iterator[Finding]:
        """Sweep by address; where too much overlaps to look at all of it, say so."""
        told: set[tuple[str, str]] = set()
        for one, two in chain(self._in_one_epoch(), self._in_one_fence(), self._in_classes(told)):
            key = self._lines(one, two)
            if key not in told:
                told.add(key)
                yield self._race(one, two)
        if self.asked > MAX_COMPARED:
            yield self._given_up()

    def _in_one_epoch(self) -> Iterator[tuple[int, int]]:
        """Accesses of one rank in one epoch."""
        of = self.all
        for pair in self._within(np.arange(len(of)), np.stack([of.rank, of.bucket])):
            if of.rank[pair[0]] == of.rank[pair[1]]:
                yield pair

    def _in_one_fence(self) -> Iterator[tuple[int, int]]:
        """Accesses of two ranks between the same fences."""
        of = self.all
        rows = np.flatnonzero(of.fence >= 0)
        for pair in self._within(rows, of.fence[rows][None]):
            if of.rank[pair[0]] != of.rank[pair[1]]:
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
        worth = _worth_a_look(of.sort[rows], of.operation[rows], firsts)
        ends = np.append(firsts[1:], len(rows))
        for first, last in zip(firsts[worth].tolist(), ends[worth].tolist(), strict=True):
            pending = rows[:0]
            for row in rows[first:last].tolist():
                pending = pending[of.high[pending] > of.low[row]]
                self.asked += 1 + len(pending) // 1000
                if self.asked > MAX_COMPARED:
                    return
                for other in pending[_differ(of.sort, of.operation, pending, row)].tolist():
                    self.asked += 1
                    yield other, row
                pending = np.append(pending, row)

    def _in_classes(self, told: set[tuple[str, str]]) -> Iterator[tuple[int, int]]:
        """Accesses of two ranks in epochs of locks, or of starts and posts, that nothing orders."""
        pending = np.zeros(0, np.int64)
        new = np.concatenate([[True], self.low[1:] >= np.maximum.accumulate(self.high)[:-1]])
        worth = _worth_a_look(self.sort, self.operation, np.flatnonzero(new))[np.cumsum(new) - 1]
        for k in np.flatnonzero(worth).tolist():
            pending = pending[self.high[pending] > self.low[k]]
            self.asked += len(pending) // 1000
            if self.asked > MAX_COMPARED:
                return
            ordered = (self.fenced[pending] & self.fenced[k]) | (self.excluding[pending] & self.excluding[k])
            differ = _differ(self.sort, self.operation, pending, k) & (self.rank[pending] != self.rank[k])
            for other in pending[differ & ~ordered].tolist():
                a, b = self.rows(other), self.rows(k)
                self.asked += 1
                if self.asked > MAX_COMPARED:
                    return
                if self._lines(int(a[0]), int(b[0])) not in told:
                    pair = self._unordered(a, b, self.all.fence[a] >= 0, self.all.fence[b] >= 0)
                    if pair is not None:
                        yield pair
            pending = np.append(pending, k)

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
        if (fenced_a.all() and fenced_b.all()) or (of.exclusive[a].all() and of.exclusive[b].all()):
            return None
        i = j = 0
        while i < len(a) and j < len(b) and self.asked <= MAX_COMPARED:
            self.asked += 1
            one, two = int(a[i]), int(b[j])
            if self._before(one, two):
                i += 1
            elif self._before(two, one):
                j += 1
            elif (fenced_a[i] and fenced_b[j]) or (of.exclusive[one] | of.exclusive[two] and self._locks(one, two)):
                # Excluded or ordered by the fences: the one that ends first in time is passed.
                if self._ends(one) <= self._ends(two):
                    i += 1
                else:
                    j += 1
            else:
                return one, two
        return None

    def _locks(self, one: int, two: int) -> bool:
        """Whether both are epochs of MPI_Win_lock, of which one excludes the other."""
        table = masks(self.trace.functions)
        begins = [self.trace.event(int(self.all.rank[x]), int(self.all.begin[x])) for x in (one, two)]
        return all(table.name(event.function.id) == "Win_lock" for event in begins)

    def _ends(self, row: int) -> float:
        end = int(self.all.end[row])
        event = self.trace.event(int(self.all.rank[row]), end) if end >= 0 else None
        leave = event.exit_ns if event else None
        return float("inf") if leave is None else leave

    def _before(self, one: int, two: int) -> bool:
        """Whether the epoch of one access ends before that of the other begins."""
        of = self.all
        end = (int(of.rank[one]), int(of.end[one]))
        return end[1] >= 0 and self.order.before(end, (int(of.rank[two]), int(of.begin[two])))

    def _race(self, one: int, two: int) -> Finding:
        of, target = self.all, int(self.all.target[0])
        one, two = sorted((one, two), key=lambda r: (int(of.rank[r]), int(of.event[r])))
        first, second = (self.trace.event(int(of.rank[r]), int(of.event[r])) for r in (one, two))
        shared = int(min(of.high[one], of.high[two]) - max(of.low[one], of.low[two]))
        sorts = f"{_SORTS[int(of.sort[one])]} and {_SORTS[int(of.sort[two])]}"
        # Locks and counters are made of these. By default only one operation may be used at a time (MPI-4.1, 12.2.1,
        # accumulate_ops), but every MPI does them one after the other.
        atomic = of.sort[one] == of.sort[two] == UPDATE and any(
            base(e.function.name) in _ATOMIC for e in (first, second)
        )
        return finding(
            "rma-race",
            f"rank {first.rank.index} {_does(first)} and rank {second.rank.index} {_does(second)} access the same "
            f"{shared:,} bytes of rank {target}'s window ({sorts}), and nothing orders them",
            [first, second],
            severity="warning" if atomic else "error",
            certainty="possible" if atomic else "certain",
            evidence={"target": target, "bytes": shared},
            cause="; ".join(sorted((cause(first), cause(second)))),
        )

    def _given_up(self) -> Finding:
        event = self.trace.event(int(self.all.rank[0]), int(self.all.event[0]))
        return finding(
            "rma-race",
            f"too many accesses of rank {int(self.all.target[0])}'s window overlap to look at every pair: "
            f"after {MAX_COMPARED:,} Weft gave up, and there may be more races than are told",
            [event], severity="note", certainty="undecided", cause="given up",
        )  # fmt: skip


def _does(event: Event) -> str:
    """The operation, or for a store of the program itself the fence before which it was."""
    store = base(event.function.name) == "Win_fence"
    return f"in a store of its own before {said(event)}" if store else f"in {said(event)}"


def _differ(sort: Ints, operation: Ints, others: Ints, one: int) -> NDArray[np.bool_]:
    """Which may not overlap this one: one changes what the other touches, and they are no equal updates."""
    reads = (sort[others] == READ) & (sort[one] == READ)
    updates = (sort[others] == UPDATE) & (sort[one] == UPDATE)
    same = operation[others] == operation[one]
    no_op = (operation[others] < 0) | (operation[one] < 0)
    result: NDArray[np.bool_] = ~reads & ~(updates & (same | no_op))
    return result


def _worth_a_look(sort: Ints, operation: Ints, firsts: Ints) -> NDArray[np.bool_]:
    """Of parts that begin at `firsts`, those of several accesses that are not all reads or equal updates."""
    kind = np.where(sort == UPDATE, UPDATE + np.abs(operation), sort)
    mixed = np.minimum.reduceat(kind, firsts) != np.maximum.reduceat(kind, firsts)
    writes = np.maximum.reduceat((sort == WRITE).astype(np.int8), firsts) > 0
    several = np.diff(np.append(firsts, len(sort))) > 1
    result: NDArray[np.bool_] = several & (mixed | writes)
    return result
