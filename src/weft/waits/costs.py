"""Report what late senders, late receivers, late members of collectives and uneven work cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.base.words import rank_words
from weft.evidence import Evidence
from weft.findings import Finding
from weft.match import Match
from weft.terms import calls
from weft.terms.describe import at_place
from weft.terms.event_findings import cause_key, make_finding
from weft.trace import Event, Trace
from weft.waits.causes import COLLECTIVE, Cause
from weft.waits.imbalance import Imbalance, imbalance
from weft.waits.kernels import Ints
from weft.waits.ledger import Base, Times, seconds, times_of
from weft.waits.shared_cores import remark
from weft.waits.wait_states import Waiting, WaitRows, waiting

SHARE: Final = 0.05
"""A wait is told when it costs this share of all ranks' time together ..."""

LEAST_NS: Final = 20_000_000
"""... and at least this much: less is noise of a healthy run."""

_KINDS: Final = (
    ("late-sender", (Cause.LATE_SENDER,), "for messages that {late} sent late{there}"),
    ("late-receiver", (Cause.LATE_RECEIVER,), "until {late} posted the receives{there}"),
    ("wait-at-collective", COLLECTIVE, "for {late}, last to come"),
    ("wait-at-epoch", (Cause.LATE_POST,), "until {late} posted the window{there}"),
    ("wait-at-epoch", (Cause.EARLY_WAIT,), "for the accesses that {late} completed late{there}"),
)


class Cost(Evidence):
    """What waits cost: their time, its share of the base, why, who waited and who was late, and where ranks shared
    cores."""

    ns: int
    share: float
    base: str
    base_ns: int
    cause: str
    waiting: Sequence[int]
    late: Sequence[int]
    crowded: str


@dataclass(frozen=True)
class Pairs:
    """Waits of one kind, one row for each pair of call sites of a pair of ranks; `a + b` is the waits of both.

    `keys`: rank and site of the waiter, then of the culprit. `events`: the ranks with the calls of the first such wait.
    """

    keys: Ints
    ns: Ints
    events: Ints
    cause: NDArray[np.uint8]

    def __add__(self, other: Pairs) -> Pairs:
        names = ("keys", "ns", "events", "cause")
        both = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in names]
        earliest = np.argsort(both[2][:, 1], kind="stable")  # whoever comes first here: the first wait of the run stays
        keys, ns, events, cause = (column[earliest] for column in both)
        first, inverse = _pairs(list(keys.T))
        ns = np.bincount(inverse, weights=ns, minlength=len(first)).astype(np.int64)
        return Pairs(keys[first], ns, events[first], cause[first])


@dataclass(frozen=True)
class Costs:
    """What waits cost in a run, or in a segment of it: the times, and the pairs of each kind. `a + b` is the cost of
    both.

    `blocked`: whether standard sends were seen that may have waited, so that the result depends on which calls were
    seen.
    """

    times: Times
    pairs: tuple[Pairs, ...]
    blocked: bool

    def __add__(self, other: Costs) -> Costs:
        both = zip(self.pairs, other.pairs, strict=True)
        pairs = tuple(one + two for one, two in both)
        return Costs(self.times + other.times, pairs, self.blocked or other.blocked)

    def moved(self, to: Callable[[EventId], EventId]) -> Costs:
        """Return the same costs with events renamed by `to`."""
        return replace(self, pairs=tuple(replace(of, events=_moved(of.events, to)) for of in self.pairs))


def _moved(events: Ints, to: Callable[[EventId], EventId]) -> Ints:
    rows = [(*to(EventId(r1, e1)), *to(EventId(r2, e2))) for r1, e1, r2, e2 in events.tolist()]
    return np.array(rows, np.int64).reshape(-1, 4)


def find(trace: Trace, match: Match) -> list[Finding]:
    """Report what cost a noticeable share of the run's time, by call site, the dearest first."""
    if len(trace.ranks) < 2 or not any(len(rank) for rank in trace.ranks):
        return []
    return told(trace, costs_of(trace, match, whole=True))


def costs_of(trace: Trace, match: Match, *, whole: bool = False) -> Costs:
    """Compute what waits cost. `whole`: leave out kinds that cost too little to be reported."""
    waits = waiting(trace, match)
    times = times_of(waits)
    least = _least(times) if whole else 0
    pairs = tuple(_costs(waits, waits.rows.of(*causes), least) for _, causes, _ in _KINDS)
    return Costs(times, pairs, waits.blocked)


def _costs(waits: Waiting, rows: WaitRows, least: float) -> Pairs:
    """Sum waits by pair of call sites; nothing if they cost less than `least` ns together."""
    if not len(rows) or int(rows.ns.sum()) < least:
        rows = WaitRows(rows.waiter[:0], rows.ns[:0], rows.culprit[:0], rows.cause[:0])
    # Sites are numbered by each rank: equal lines of several ranks come together by name when they are told.
    clock = waits.clock
    ranks = [clock.ranks_of(places) for places in (rows.waiter, rows.culprit)]
    sites: list[NDArray[Any]] = [clock.site[places] for places in (rows.waiter, rows.culprit)]
    first, inverse = _pairs([ranks[0], sites[0], ranks[1], sites[1]])
    ns = np.bincount(inverse, weights=rows.ns, minlength=len(first)).astype(np.int64)
    keys, events = np.empty((len(first), 4), np.int64), np.empty((len(first), 4), np.int64)
    for side, places in enumerate((rows.waiter, rows.culprit)):
        of = ranks[side][first]
        keys[:, 2 * side] = events[:, 2 * side] = of
        keys[:, 2 * side + 1] = sites[side][first]
        events[:, 2 * side + 1] = places[first] - clock.first[of]
    return Pairs(keys, ns, events, rows.cause[first])


def _least(times: Times) -> float:
    return max(LEAST_NS, SHARE * times.base.ns)


def told(trace: Trace, of: Costs) -> list[Finding]:
    """Make the findings of costs, the dearest first."""
    telling = _Telling(trace, of.times)
    kinds = zip(_KINDS, of.pairs, strict=True)
    found = [finding for (kind, _, text), pairs in kinds for finding in telling.of(kind, pairs, text)]
    found += imbalance(trace, of.times, telling.least)
    return sorted(found, key=_ns, reverse=True)


def _ns(one: Finding) -> int:
    return one.evidence.ns if isinstance(one.evidence, Cost | Imbalance) else 0


class _Telling:
    """Makes findings of the waits of one kind."""

    def __init__(self, trace: Trace, times: Times) -> None:
        self.trace = trace
        self.base: Base = times.base
        self.remark = remark(trace)
        self.least = _least(times)

    def of(self, kind: str, pairs: Pairs, text: str) -> Iterator[Finding]:
        """Yield a finding for each pair of call sites whose waits cost enough together. `text`: the end of the
        message.
        """
        if int(pairs.ns.sum()) < self.least:
            return
        groups: dict[str, list[tuple[int, int]]] = {}
        for row, total in enumerate(pairs.ns.tolist()):
            one, two = self._events(pairs, row)
            groups.setdefault(cause_key(one, two), []).append((total, row))
        for key, found in groups.items():
            if sum(ns for ns, _ in found) >= self.least:
                yield self._told(kind, text, key, pairs, sorted(found, reverse=True))

    def _events(self, pairs: Pairs, row: int) -> tuple[Event, Event]:
        rank, event, other, place = pairs.events[row].tolist()
        return self.trace.event(rank, event), self.trace.event(other, place)

    def _told(self, kind: str, text: str, key: str, pairs: Pairs, found: list[tuple[int, int]]) -> Finding:
        """Make the finding of some pairs. `found`: (ns, row) of each, the dearest first."""
        base, remark = self.base, self.remark
        total, dearest = sum(ns for ns, _ in found), found[0][1]
        one, two = self._events(pairs, dearest)
        some = np.array([row for _, row in found])
        waiters, late = (sorted(set(pairs.keys[some, side].tolist())) for side in (0, 2))
        share = base.share(total)
        message = (
            f"{rank_words(waiters)} wait{'s' * (len(waiters) == 1)} {seconds(total)} ({share:.0%} of all ranks' time)"
            f" in {calls.message_name(one.function.name)}{at_place(one)} "
            f"{text.format(late=rank_words(late), there=at_place(two))}"
        )
        return make_finding(
            kind, message + (f"; {remark}" if remark else ""), [one, two],
            evidence=Cost(
                ns=total, share=round(share, 4), base=base.words, base_ns=base.ns,
                cause=Cause(int(pairs.cause[dearest])).slug, waiting=waiters[:64], late=late[:64],
                crowded=remark,
            ),
            cause=key,
        )  # fmt: skip


def _pairs(columns: list[NDArray[np.generic]]) -> tuple[Ints, Ints]:
    """Return number the different rows of some columns: return the first row of each, and for each row its number."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + inverse.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.full(int(key.max(initial=-1)) + 1, len(key), np.int64)
    np.minimum.at(first, key, np.arange(len(key)))
    return first, key
