"""The calls of one thread as columns that two runs have in common, and how those of two runs are aligned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, communicates
from weft.trace import Flag, Rank
from weft.trace.layout import ANY_SOURCE, ANY_TAG, ID_DYNAMIC

WINDOW: Final = 1000
"""Calls that are looked through on both sides for where two runs come together again."""
AGAIN: Final = 8
"""Calls in a row that are alike where two runs come together again, unless they end before."""
STRETCHS: Final = 1000
"""Stretchs that are aligned; what comes behind so many differences is one difference more."""

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


@dataclass(slots=True)
class Calls:
    """Calls of a thread that are compared, in order: `events` of the rank, and a key for each.

    `shape` is what the program asked for: function, communicator, peer, tag, count, predefined type or operation,
    whether it returned, and its error. `taken` is whose messages its receives took, 0 for calls that receive nothing.
    """

    rank: Rank
    events: Ints
    shape: Keys
    taken: Keys

    def __len__(self) -> int:
        return len(self.events)


@dataclass(frozen=True, slots=True)
class Stretch:
    """`count` calls that are alike from `before` of the reference and `after` of the run on."""

    before: int
    after: int
    count: int


def calls(match: Match, rank: int, slot: int, names: dict[str, int]) -> Calls:
    """The calls of a thread that communicate, without polls that failed: how many there are is chance.

    `names`: numbers of functions, predefined types and operations, which two MPIs number in ways of their own.
    """
    one = match.trace.ranks[rank]
    events, functions = one.events, one.trace.functions
    polls = functions.mask(f.name for f in functions if f.is_poll)[events["function"]]
    failed = polls & (events["flags"] & (Flag.CLOSED | Flag.TRUE) == Flag.CLOSED)
    counted = functions.mask(f.name for f in functions if communicates(f))[events["function"]]
    chosen = np.flatnonzero((one.event_threads == slot) & counted & ~failed)
    return Calls(one, chosen, shape(one, chosen, names), _taken(match, rank, chosen))


def shape(rank: Rank, chosen: Ints, names: dict[str, int], *, placed: bool = True) -> Keys:
    """A key for each call, of what the program asked for; `placed`: also on which communicator and with which peer."""
    events, functions = rank.events[chosen], rank.trace.functions
    flags, tags = events["flags"], np.where(events["flags"] & Flag.ANY_TAG, ANY_TAG, events["tag"]).astype(np.int64)

    def named(column: NDArray[np.integer], name: Callable[[int], str]) -> Ints:
        known, row = np.unique(column, return_inverse=True)
        return np.array([names.setdefault(name(one), len(names) + 1) for one in known.tolist()], np.int64)[row]

    def predefined(cls: str) -> Callable[[int], str]:
        return lambda one: (functions.object_name(cls, one) if one < ID_DYNAMIC else None) or f"a {cls} of its own"

    function, nowhere = named(events["function"], lambda one: functions[one].base), np.zeros(len(chosen), np.int64)
    reduces = functions.mask(f.name for f in functions if (tag := f.slot.get("tag")) and tag.handle)[events["function"]]
    tags[reduces] = named(tags[reduces], predefined("OP"))
    columns = (
        function,
        rank.comm_indices(events["comm"]) if placed else nowhere,
        np.where(flags & Flag.ANY_SOURCE, ANY_SOURCE, events["peer"]) if placed else nowhere,
        tags,
        events["count"],
        named(events["datatype"], predefined("DATATYPE")),
        flags & Flag.CLOSED,
        events["error"],
    )
    mixed = np.zeros(len(chosen), np.uint64)
    for column in columns:
        mixed = _mix(mixed, np.asarray(column).astype(np.int64).view(np.uint64))
    return mixed


def senders(match: Match, rank: int) -> Ints:
    """Who sent the message of each receive of a rank, and with which tag, in posting order; -1: it took none."""
    rows, part = match.recvs, match.recvs.of_rank(rank)
    sender = rows.peer[part].astype(np.int64) << 32 | rows.tag[part].astype(np.int64) & 0xFFFFFFFF
    return np.where(rows.partner[part] != NONE, sender, -1)


def _taken(match: Match, rank: int, chosen: Ints) -> Keys:
    sender = senders(match, rank).view(np.uint64)
    by_event = np.zeros(len(match.trace.ranks[rank].events), np.uint64)
    # Of several receives of one call (Startall) the messages count, not which took which.
    np.add.at(by_event, match.recvs.event[match.recvs.of_rank(rank)], _mix(np.zeros_like(sender), sender))
    return by_event[chosen]


def _mix(held: Keys, column: Keys) -> Keys:
    """One more column into a key of 64 bits (SplitMix64's finalizer, Steele, Lea and Flood 2014)."""
    z = (held + np.uint64(0x9E3779B97F4A7C15)) ^ column
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def aligned(one: Keys, two: Keys) -> Iterator[Stretch]:
    """Stretchs of calls that are alike, in order; what lies between them differs.

    Where two runs differ, the nearest place is looked for at which both go on alike: as few calls as possible are left
    out on both sides together.
    """
    i = j = 0
    for _ in range(STRETCHS):
        count = _alike(one[i:], two[j:])
        yield Stretch(i, j, count)
        i, j = i + count, j + count
        if i == len(one) or j == len(two):
            return
        again = _again(one[i : i + WINDOW + AGAIN], two[j : j + WINDOW + AGAIN])
        if again is None:
            return
        i, j = i + again[0], j + again[1]


def _alike(one: Keys, two: Keys) -> int:
    """How many calls are alike from the first on."""
    size, at, step = min(len(one), len(two)), 0, 4096
    while at < size:
        end = min(at + step, size)
        differing = np.flatnonzero(one[at:end] != two[at:end])
        if len(differing):
            return at + int(differing[0])
        at, step = end, step * 4
    return size


def _again(one: Keys, two: Keys) -> tuple[int, int] | None:
    """The fewest calls to leave out on both sides, after which AGAIN calls are alike."""
    length = min(AGAIN, len(one), len(two))
    first, second = _runs(one, length), _runs(two, length)
    best: tuple[int, int] | None = None
    where: dict[int, int] = {}
    for j, key in enumerate(second.tolist()):
        where.setdefault(key, j)
    for i, key in enumerate(first.tolist()):
        other = where.get(key)
        if other is not None and (best is None or i + other < sum(best)):
            best = i, other
    return best


def _runs(keys: Keys, length: int) -> Keys:
    """A key of `length` calls in a row, from each call on."""
    count = len(keys) - length + 1
    mixed = np.zeros(count, np.uint64)
    for k in range(length):
        mixed = _mix(mixed, keys[k : k + count])
    return mixed
