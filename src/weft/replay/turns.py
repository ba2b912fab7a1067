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
"""Accesses that are tried after each of several that could come next."""
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


def find_turns(ranks: Sequence[Rank]) -> Turns:
    """Return the order in which threads accessed windows (their turns), as far as the record shows it. Ranks of
    different worlds are ordered separately.
    """
    found = Turns()
    found.owners, found.accesses = _collect_accesses(ranks)
    accesses, owners = found.accesses, found.owners
    world = {rank.index: rank.world for rank in ranks}
    if not len(accesses):
        return found
    mine: dict[Thread, list[tuple[int, int, int, int]]] = defaultdict(list)
    ordered: set[int] = set()
    for channel, rows in enumerate(_find_channels(accesses, owners, world) if _share_one_clock(ranks) else ()):
        ordered.update(row for row, _ in rows)
        for row, needed, kind in _count_awaited(rows):
            mine[owners[row]].append((row, channel, needed, kind))
        found.before += _wait_edges(rows)
    fetched = (accesses["kind"] == AccessKind.FETCH) & (accesses["bytes"] > 0)
    for row in np.flatnonzero(fetched).tolist():
        if row not in ordered:
            mine[owners[row]].append((row, 0, 0, TurnKind.NONE))
    found.rows = {owner: _make_turn_rows(accesses, rows) for owner, rows in mine.items()}
    return found


Channel = list[tuple[int, bool]]
"""Rows in order, and whether each changes something."""


def _count_awaited(rows: Channel) -> Iterator[tuple[int, int, TurnKind]]:
    """Yield (row, number of accesses that it waits for, kind of these accesses) for each access of a channel, the
    accesses that are ordered together.
    """
    changed = 0
    for i, (row, changes) in enumerate(rows):
        yield row, i if changes else changed, TurnKind.CHANGES if changes else TurnKind.READS
        changed += changes


def _wait_edges(rows: Channel) -> Iterator[tuple[int, int]]:
    """Yield (first, second) for accesses of which the second waits for the first. Pairs that follow from others are
    left out.
    """
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


def _make_turn_rows(accesses: NDArray[Any], rows: list[tuple[int, int, int, int]]) -> NDArray[np.generic]:
    """Return the turns of a thread in the form of its plan (dtype TURN). `rows`: (row of the access, channel, number of
    awaited accesses, their kind).
    """
    rows.sort(key=lambda r: (int(accesses["ordinal"][r[0]]), r[1]))
    mine = accesses[[row for row, *_ in rows]]
    table = np.zeros(len(rows), TURN)
    table["ordinal"], table["result"] = mine["ordinal"], mine["result"]
    table["bytes"] = np.where(mine["kind"] == AccessKind.FETCH, mine["bytes"], 0)
    table["channel"], table["needed"], table["kind"] = (np.array([r[i] for r in rows]) for i in (1, 2, 3))
    return table


def _collect_accesses(ranks: Sequence[Rank]) -> tuple[list[Thread], NDArray[Any]]:
    """Return (threads, accesses): the window accesses of all ranks, and for each access the thread that made it."""
    parts = [(rank.index, thread.accesses) for rank in ranks for thread in rank.threads]
    rows = np.concatenate([np.empty(0, ACCESS), *(part for _, part in parts)])
    owners = [(rank, made) for rank, part in parts for made in part["made"].tolist()]
    return owners, rows


def _share_one_clock(ranks: Sequence[Rank]) -> bool:
    """Return whether the times of all ranks were taken from the same clock."""
    return len({(r.header.host, r.header.clock) for r in ranks if r.header}) == 1


def _find_channels(
    accesses: NDArray[np.generic], owners: Sequence[Thread], world: Mapping[int, int]
) -> Iterator[Channel]:
    """Yield channels: accesses that several threads of one world made in turns, in that order. `world`: rank -> its
    world.
    """
    of = np.array([world[rank] for rank, _ in owners])
    for one in np.unique(of).tolist():
        mine = np.flatnonzero(of == one)
        for channel in _find_channels_of_world(accesses[mine], [owners[row] for row in mine.tolist()]):
            yield [(int(mine[row]), changes) for row, changes in channel]


def _find_channels_of_world(accesses: NDArray[Any], owners: Sequence[Thread]) -> Iterator[Channel]:
    """Yield, in order, the accesses to each lock and each place of a window that several threads used. All accesses are
    of one world.
    """
    for rows in _group_locks(accesses):
        if len({owners[row] for row in rows}) > 1:
            rows.sort(key=lambda row: int(accesses["held"][row]))
            yield [(row, bool(accesses["kind"][row] == AccessKind.EXCLUSIVE)) for row in rows]
    fetched, rounded = _group_atomic_accesses(accesses)
    for rows in fetched:
        if len({owners[row] for row in rows}) > 1:
            place = Location(accesses[rows], [owners[row] for row in rows])
            yield [(rows[i], not place.quiet[i]) for i in place.find_order()]
    for rows in rounded:
        if len({owners[row] for row in rows}) > 1:
            rows.sort(key=lambda row: int(accesses["held"][row]))
            yield [(row, bool(accesses["change"][row] != Change.NONE)) for row in rows]


def _group_locks(accesses: NDArray[Any]) -> Iterator[list[int]]:
    """Yield the rows of all locks of a window at a target rank, for each such pair that was locked exclusively."""
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(accesses["kind"] == AccessKind.EXCLUSIVE).tolist():
        groups.setdefault((int(accesses["window"][row]), int(accesses["target"][row])), []).append(row)
    for row in np.flatnonzero(accesses["kind"] == AccessKind.SHARED).tolist() if groups else ():
        window, target = int(accesses["window"][row]), int(accesses["target"][row])
        for key in list(groups) if target < 0 else [(window, target)]:
            if key[0] == window and key in groups:
                groups[key].append(row)
    yield from groups.values()


def _group_atomic_accesses(accesses: NDArray[Any]) -> tuple[list[list[int]], list[list[int]]]:
    """Return (fetched, rounded), groups of rows of atomic accesses. `fetched` has a group for each place of a window
    whose values were read and whose sums are exact. `rounded` has a group for each target rank where the order may
    change sums by rounding, with all its other accesses.
    """
    places: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    atomic = np.flatnonzero(~np.isin(accesses["kind"], LOCKS))
    keys = zip(*(accesses[name][atomic].tolist() for name in ("window", "target", "place")), strict=True)
    for row, key in zip(atomic.tolist(), keys, strict=True):
        places[key].append(row)
    fetches = accesses["kind"] == AccessKind.FETCH
    may_round = (accesses["kind"] == AccessKind.UPDATE) & (accesses["change"] == Change.UNKNOWN)
    without_value: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
    fetched = []
    for (window, target, _), rows in places.items():
        if (fetches[rows] & (accesses["bytes"][rows] > 0)).any() and not may_round[rows].any():
            fetched.append(rows)
        else:
            without_value[window, target].append(rows)
    rounded = []
    for groups in without_value.values():
        if any(may_round[rows].any() for rows in groups):
            rounded.append([row for rows in groups for row in rows])
        else:
            fetched += [rows for rows in groups if fetches[rows].any()]
    return fetched, rounded


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

    def find_order(self) -> list[int]:
        """Return the indices of the accesses in the order that explains most of the values that they found at the
        place.
        """
        at, value, order = [0] * len(self.queues), None, []
        for _ in self.begin:
            options, explained = self._find_next_accesses(at, value)
            self.unexplained += not explained
            chosen = min(options, key=lambda i: self._count_misses(at, i)) if len(options) > 1 else options[0]
            at[self.queue_of[chosen]] += 1
            value = self._value_after(chosen, value)
            order.append(chosen)
        return order

    def _find_next_accesses(self, done_counts: Sequence[int], value: int | None) -> tuple[list[int], bool]:
        """Return (accesses that may come next, the likeliest first; whether the first of them explains `value`, which
        is at the place).

        `done_counts`: how many accesses of each thread came already.
        """
        heads = [queue[k] for queue, k in zip(self.queues, done_counts, strict=True) if k < len(queue)]
        limit = min(self.end[i] for i in heads)
        ready = sorted((i for i in heads if self.begin[i] <= limit), key=self.end.__getitem__)
        if value is None:
            return ready, True
        fitting = [i for i in ready if self.found[i] and self.result[i] == value]
        quiet = [i for i in fitting if self.quiet[i]]
        blind = [i for i in ready if not self.found[i]]
        options = quiet[:1] or fitting or blind
        return options or ready[:1], bool(options)

    def _value_after(self, access: int, value: int | None) -> int | None:
        """Return the value that an access leaves at the place if it finds `value` there; None if that is unknown."""
        value = int(self.result[access]) if self.found[access] else value
        if self.quiet[access]:
            return value
        if not self.bytes[access] or (value is None and self.change[access] != Change.REPLACE):
            return None
        if self.change[access] == Change.SUM:
            return ((value or 0) + int(self.operand[access])) & ((1 << 8 * int(self.bytes[access])) - 1)
        swapped = self.change[access] == Change.SWAP and value == self.compare[access]
        replaced = self.change[access] == Change.REPLACE or swapped
        return int(self.operand[access]) if replaced else None

    def _count_misses(self, done_counts: Sequence[int], first: int) -> int:
        """Return how many of the next LOOK_AHEAD accesses would find another value than was recorded, if the access
        `first` came next.
        """
        done_counts, value, missed = list(done_counts), None, 0
        value = self._value_after(first, value)
        done_counts[self.queue_of[first]] += 1
        for _ in range(LOOK_AHEAD):
            if all(k == len(queue) for queue, k in zip(self.queues, done_counts, strict=True)):
                break
            options, explained = self._find_next_accesses(done_counts, value)
            missed += not explained
            done_counts[self.queue_of[options[0]]] += 1
            value = self._value_after(options[0], value)
        return missed
