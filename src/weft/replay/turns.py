"""Turns: the order in which ranks had the locks of windows, and read and changed places in them.

The target has no call in the record. Each rank recorded its own side (native/format.h, WINDOWS): between which times of
the host's clock an access was active, what it found and what it left. An order of all accesses to a place explains them
if none is put before one that had ended before it began, and each found what the one before it left.

Locks are put in the order in which they were surely held: nobody else had an exclusive one then.

The sum of floating-point numbers depends on the order of its terms. Where ranks add such numbers, no value shows the
order; all accesses of that target without a value are put in the order in which their calls returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.replay.layout import TURN, TurnKind
from weft.trace import Rank
from weft.trace.layout import ACCESS, AccessKind, Change

LOOK_AHEAD: Final = 8
"""Accesses that are tried behind each of several that could come next."""
LOCKS: Final = (AccessKind.SHARED, AccessKind.EXCLUSIVE)
Thread = tuple[int, int]
"""Rank and ordinal of the thread's creation in it."""


@dataclass(slots=True)
class Turns:
    """Rows for the threads' plans (dtype TURN), and which access had to be over before which one could end."""

    rows: dict[Thread, NDArray[Any]] = field(default_factory=dict)
    owners: list[Thread] = field(default_factory=list)
    accesses: NDArray[Any] = field(default_factory=lambda: np.empty(0, ACCESS))
    before: list[tuple[int, int]] = field(default_factory=list)
    """Indexes of `owners` and `accesses`: the first one is over before the second one's call ends."""


def turns(ranks: Sequence[Rank]) -> Turns:
    """Return the turns of ranks, those of each world at its own windows.

    On several hosts no order is known: then each fetch only has its result.
    """
    found = Turns()
    found.owners, found.accesses = _gathered(ranks)
    accesses, owners = found.accesses, found.owners
    world = {rank.index: rank.world for rank in ranks}
    if not len(accesses):
        return found
    mine: dict[Thread, list[tuple[int, int, int, int]]] = defaultdict(list)
    ordered: set[int] = set()
    for channel, rows in enumerate(_channels(accesses, owners, world) if _one_clock(ranks) else ()):
        ordered.update(row for row, _ in rows)
        for row, needed, kind in _numbered(rows):
            mine[owners[row]].append((row, channel, needed, kind))
        found.before += _edges(rows)
    fetched = (accesses["kind"] == AccessKind.FETCH) & (accesses["bytes"] > 0)
    for row in np.flatnonzero(fetched).tolist():
        if row not in ordered:
            mine[owners[row]].append((row, 0, 0, TurnKind.NONE))
    found.rows = {owner: _table(accesses, rows) for owner, rows in mine.items()}
    return found


Channel = list[tuple[int, bool]]
"""Rows in order, and whether each changes something."""


def _numbered(rows: Channel) -> Iterator[tuple[int, int, TurnKind]]:
    """Yield each row, how many accesses it has to wait for, and which kind of them."""
    changed = 0
    for i, (row, changes) in enumerate(rows):
        yield row, i if changes else changed, TurnKind.CHANGES if changes else TurnKind.READS
        changed += changes


def _edges(rows: Channel) -> Iterator[tuple[int, int]]:
    """Yield which access waits for which, without what follows from others."""
    last: int | None = None
    since: list[int] = []
    for row, changes in rows:
        for other in since if changes and since else [last]:
            if other is not None:
                yield other, row
        if changes:
            last, since = row, []
        else:
            since.append(row)


def _table(accesses: NDArray[Any], rows: list[tuple[int, int, int, int]]) -> NDArray[np.generic]:
    """Return some rows of a thread as its plan has them."""
    rows.sort(key=lambda r: (int(accesses["ordinal"][r[0]]), r[1]))
    mine = accesses[[row for row, *_ in rows]]
    table = np.zeros(len(rows), TURN)
    table["ordinal"], table["result"] = mine["ordinal"], mine["result"]
    table["bytes"] = np.where(mine["kind"] == AccessKind.FETCH, mine["bytes"], 0)
    table["channel"], table["needed"], table["kind"] = (np.array([r[i] for r in rows]) for i in (1, 2, 3))
    return table


def _gathered(ranks: Sequence[Rank]) -> tuple[list[Thread], NDArray[Any]]:
    """Return all accesses of all ranks, and the thread of each."""
    parts = [(rank.index, thread.accesses) for rank in ranks for thread in rank.threads]
    rows = np.concatenate([np.empty(0, ACCESS), *(part for _, part in parts)])
    owners = [(rank, made) for rank, part in parts for made in part["made"].tolist()]
    return owners, rows


def _one_clock(ranks: Sequence[Rank]) -> bool:
    """Tell whether the ticks of all ranks are of one clock."""
    return len({(r.header.host, r.header.clock) for r in ranks if r.header}) == 1


def _channels(accesses: NDArray[np.generic], owners: Sequence[Thread], world: Mapping[int, int]) -> Iterator[Channel]:
    """Yield what several threads of one world took turns at. `world`: that of each rank."""
    of = np.array([world[rank] for rank, _ in owners])
    for one in np.unique(of).tolist():
        mine = np.flatnonzero(of == one)
        for channel in _channels_of(accesses[mine], [owners[row] for row in mine.tolist()]):
            yield [(int(mine[row]), changes) for row, changes in channel]


def _channels_of(accesses: NDArray[Any], owners: Sequence[Thread]) -> Iterator[Channel]:
    """Yield the ordered accesses of each lock and place that several threads used."""
    for rows in _locks(accesses):
        if len({owners[row] for row in rows}) > 1:
            rows.sort(key=lambda row: int(accesses["held"][row]))
            yield [(row, bool(accesses["kind"][row] == AccessKind.EXCLUSIVE)) for row in rows]
    for rows in _places(accesses):
        if len({owners[row] for row in rows}) > 1:
            place = Location(accesses[rows], [owners[row] for row in rows])
            yield [(rows[i], not place.quiet[i]) for i in place.order()]
    for rows in _find_rounded_targets(accesses):
        if len({owners[row] for row in rows}) > 1:
            rows.sort(key=lambda row: int(accesses["held"][row]))
            yield [(row, bool(accesses["change"][row] != Change.NONE)) for row in rows]


def _locks(a: NDArray[Any]) -> Iterator[list[int]]:
    """Yield for each target with an exclusive lock the rows of all its locks."""
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(a["kind"] == AccessKind.EXCLUSIVE).tolist():
        groups.setdefault((int(a["window"][row]), int(a["target"][row])), []).append(row)
    for row in np.flatnonzero(a["kind"] == AccessKind.SHARED).tolist() if groups else ():
        window, target = int(a["window"][row]), int(a["target"][row])
        for key in list(groups) if target < 0 else [(window, target)]:
            if key[0] == window and key in groups:
                groups[key].append(row)
    yield from groups.values()


def _places(a: NDArray[Any]) -> Iterator[list[int]]:
    """Yield for each fetched place the rows of all its accesses, without those of `_find_rounded_targets`."""
    elsewhere = {row for rows in _find_rounded_targets(a) for row in rows}
    yield from (
        rows
        for rows in _group_by_place(a)
        if (a["kind"][rows] == AccessKind.FETCH).any() and elsewhere.isdisjoint(rows)
    )


def _find_rounded_targets(a: NDArray[Any]) -> Iterator[list[int]]:
    """Yield for each target at which numbers are added that may be rounded its rows of places without a fetched value."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rows in _group_by_place(a):
        if not ((a["kind"][rows] == AccessKind.FETCH) & (a["bytes"][rows] > 0)).any():
            groups[int(a["window"][rows[0]]), int(a["target"][rows[0]])] += rows
    rounded = (a["kind"] == AccessKind.UPDATE) & (a["change"] == Change.UNKNOWN)
    yield from (rows for rows in groups.values() if rounded[rows].any())


def _group_by_place(a: NDArray[Any]) -> Iterator[list[int]]:
    """Yield for each place of each window and target the rows of its atomic accesses."""
    groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    atomic = np.flatnonzero(~np.isin(a["kind"], LOCKS))
    keys = zip(*(a[name][atomic].tolist() for name in ("window", "target", "place")), strict=True)
    for row, key in zip(atomic.tolist(), keys, strict=True):
        groups[key].append(row)
    yield from groups.values()


class Location:
    """All atomic accesses to one place. `quiet`: which of them change nothing."""

    def __init__(self, rows: NDArray[Any], owners: Sequence[Thread]) -> None:
        names = ("begin", "end", "operand", "compare", "result", "bytes", "change", "ordinal")
        columns = {name: rows[name].tolist() for name in names}
        self.begin, self.end, self.operand = columns["begin"], columns["end"], columns["operand"]
        self.compare, self.result = columns["compare"], columns["result"]
        self.bytes, self.change = columns["bytes"], columns["change"]
        self.found = [k == AccessKind.FETCH and b > 0 for k, b in zip(rows["kind"], self.bytes, strict=True)]
        self.quiet = [
            change == Change.NONE or (change == Change.SWAP and self.found[i] and self.result[i] != self.compare[i])
            for i, change in enumerate(self.change)
        ]
        queues: dict[Thread, list[int]] = defaultdict(list)
        for i in sorted(range(len(rows)), key=lambda i: int(columns["ordinal"][i])):
            queues[owners[i]].append(i)
        self.queues = list(queues.values())
        self.queue_of = {i: q for q, queue in enumerate(self.queues) for i in queue}
        self.unexplained = 0
        """Accesses that found something else than what the one before them left."""

    def order(self) -> list[int]:
        """Return the rows, first one first."""
        at, value, order = [0] * len(self.queues), None, []
        for _ in self.begin:
            options, explained = self._options(at, value)
            self.unexplained += not explained
            chosen = min(options, key=lambda i: self._misses(at, i)) if len(options) > 1 else options[0]
            at[self.queue_of[chosen]] += 1
            value = self._left(chosen, value)
            order.append(chosen)
        return order

    def _options(self, at: Sequence[int], value: int | None) -> tuple[list[int], bool]:
        """Return what may come next, likeliest first, and whether it finds what is there."""
        heads = [queue[k] for queue, k in zip(self.queues, at, strict=True) if k < len(queue)]
        limit = min(self.end[i] for i in heads)
        ready = sorted((i for i in heads if self.begin[i] <= limit), key=self.end.__getitem__)
        if value is None:
            return ready, True
        fitting = [i for i in ready if self.found[i] and self.result[i] == value]
        quiet = [i for i in fitting if self.quiet[i]]
        blind = [i for i in ready if not self.found[i]]
        options = quiet[:1] or fitting or blind
        return options or ready[:1], bool(options)

    def _left(self, i: int, value: int | None) -> int | None:
        """Return what the access leaves at the place if it finds `value`."""
        value = int(self.result[i]) if self.found[i] else value
        if self.quiet[i]:
            return value
        if not self.bytes[i] or (value is None and self.change[i] != Change.REPLACE):
            return None
        if self.change[i] == Change.SUM:
            return ((value or 0) + int(self.operand[i])) & ((1 << 8 * int(self.bytes[i])) - 1)
        replaced = self.change[i] == Change.REPLACE or (self.change[i] == Change.SWAP and value == self.compare[i])
        return int(self.operand[i]) if replaced else None

    def _misses(self, at: Sequence[int], first: int) -> int:
        """Return how many of the next accesses are not explained if this one comes first."""
        at, value, missed = list(at), None, 0
        value = self._left(first, value)
        at[self.queue_of[first]] += 1
        for _ in range(LOOK_AHEAD):
            if all(k == len(queue) for queue, k in zip(self.queues, at, strict=True)):
                break
            options, explained = self._options(at, value)
            missed += not explained
            at[self.queue_of[options[0]]] += 1
            value = self._left(options[0], value)
        return missed
