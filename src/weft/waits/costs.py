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
from weft.terms.describe import function_word, site_suffix
from weft.terms.event_findings import cause_key, make_finding
from weft.trace import Event, Trace
from weft.waits.causes import COLLECTIVE, Cause
from weft.waits.imbalance import Imbalance, find_imbalance
from weft.waits.kernels import Ints
from weft.waits.ledger import Base, Times, seconds, sum_times
from weft.waits.shared_cores import remark
from weft.waits.wait_states import Waiting, WaitRows, waits_of_run

SHARE: Final = 0.05
"""A wait is reported when it costs this share of all ranks' time together ..."""

MAX_PLACES: Final = 1024
"""Calls of a rank by line, at most, between which its work is compared."""

MOSTLY: Final = 0.5
"""Of a wait, the share that the others must wait longer for those who are named as the last to come."""

LEAST_NS: Final = 20_000_000
"""... and at least this much: less is noise of a healthy run."""

_KINDS: Final = (
    ("late-sender", (Cause.LATE_SENDER,), "for messages that {late} sent late{there}"),
    ("late-receiver", (Cause.LATE_RECEIVER,), "until {late} posted the receives{there}"),
    ("wait-at-collective", COLLECTIVE, "for {last}{work}"),
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
class WaitPairs:
    """Waits of one kind, one row for each pair of call sites of a pair of ranks; `a + b` is the waits of both.

    `keys`: rank and site of the waiter, then of the culprit. `events`: the ranks with the calls of the first such wait.
    """

    keys: Ints
    ns: Ints
    events: Ints
    cause: NDArray[np.uint8]

    def __add__(self, other: WaitPairs) -> WaitPairs:
        names = ("keys", "ns", "events", "cause")
        both = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in names]
        earliest = np.argsort(both[2][:, 1], kind="stable")  # whoever comes first here: the first wait of the run stays
        keys, ns, events, cause = (column[earliest] for column in both)
        first, inverse = _number_rows(list(keys.T))
        ns = np.bincount(inverse, weights=ns, minlength=len(first)).astype(np.int64)
        return WaitPairs(keys[first], ns, events[first], cause[first])


@dataclass(frozen=True)
class Costs:
    """What waits cost in a run, or in a segment of it: the times, and the pairs of each kind. `a + b` is the cost of
    both.

    `blocked`: whether standard sends were seen that may have waited, so that the result depends on which calls were
    seen.
    """

    times: Times
    pairs: tuple[WaitPairs, ...]
    blocked: bool

    def __add__(self, other: Costs) -> Costs:
        both = zip(self.pairs, other.pairs, strict=True)
        pairs = tuple(one + two for one, two in both)
        return Costs(self.times + other.times, pairs, self.blocked or other.blocked)

    def with_renamed_events(self, rename: Callable[[EventId], EventId]) -> Costs:
        """Return the same costs with other event ids, as `rename` gives them."""
        return replace(self, pairs=tuple(replace(of, events=_rename_events(of.events, rename)) for of in self.pairs))


def _rename_events(events: Ints, to: Callable[[EventId], EventId]) -> Ints:
    rows = [(*to(EventId(r1, e1)), *to(EventId(r2, e2))) for r1, e1, r2, e2 in events.tolist()]
    return np.array(rows, np.int64).reshape(-1, 4)


def find(trace: Trace, match: Match) -> list[Finding]:
    """Return findings about waits that cost a noticeable share of the run's time, one for each pair of call sites, the
    most expensive first.
    """
    if len(trace.ranks) < 2 or not any(len(rank) for rank in trace.ranks):
        return []
    return make_findings(trace, compute_costs(trace, match, only_noticeable=True))


def compute_costs(trace: Trace, match: Match, *, only_noticeable: bool = False) -> Costs:
    """Return how much time waits cost, by pairs of call sites. `only_noticeable`: leave out kinds of waits that cost
    too little to be reported.
    """
    waits = waits_of_run(trace, match)
    times = sum_times(waits)
    least = _least_cost(times) if only_noticeable else 0
    pairs = tuple(_sum_by_call_sites(waits, waits.rows.with_causes(*causes), least) for _, causes, _ in _KINDS)
    return Costs(times, pairs, waits.blocked)


def _sum_by_call_sites(waits: Waiting, rows: WaitRows, least_ns: float) -> WaitPairs:
    """Return the sums of waits for each pair of call sites (of the waiting and of the late call). Empty if all of them
    together cost less than `least_ns` ns.
    """
    if not len(rows) or int(rows.ns.sum()) < least_ns:
        rows = WaitRows(rows.waiter[:0], rows.ns[:0], rows.culprit[:0], rows.cause[:0])
    # Sites are numbered by each rank: equal lines of several ranks are merged by name when they are reported.
    clock = waits.clock
    ranks = [clock.ranks_of(places) for places in (rows.waiter, rows.culprit)]
    sites: list[NDArray[Any]] = [clock.site[places] for places in (rows.waiter, rows.culprit)]
    first, inverse = _number_rows([ranks[0], sites[0], ranks[1], sites[1]])
    ns = np.bincount(inverse, weights=rows.ns, minlength=len(first)).astype(np.int64)
    keys, events = np.empty((len(first), 4), np.int64), np.empty((len(first), 4), np.int64)
    for side, places in enumerate((rows.waiter, rows.culprit)):
        of = ranks[side][first]
        keys[:, 2 * side] = events[:, 2 * side] = of
        keys[:, 2 * side + 1] = sites[side][first]
        events[:, 2 * side + 1] = places[first] - clock.first[of]
    return WaitPairs(keys, ns, events, rows.cause[first])


def _least_cost(times: Times) -> float:
    return max(LEAST_NS, SHARE * times.base.ns)


def make_findings(trace: Trace, costs: Costs) -> list[Finding]:
    """Return a finding for each pair of call sites whose waits cost a noticeable share of the run's time, the most
    expensive first.
    """
    telling = _FindingMaker(trace, costs.times)
    kinds = zip(_KINDS, costs.pairs, strict=True)
    found = [finding for (kind, _, text), pairs in kinds for finding in telling.findings_of_kind(kind, pairs, text)]
    found += find_imbalance(trace, costs.times, telling.least)
    return sorted(found, key=_ns, reverse=True)


def _ns(one: Finding) -> int:
    return one.evidence.ns if isinstance(one.evidence, Cost | Imbalance) else 0


class _FindingMaker:
    """Makes findings of the waits of one kind."""

    def __init__(self, trace: Trace, times: Times) -> None:
        self.trace = trace
        self.base: Base = times.base
        self.remark = remark(trace)
        self.least = _least_cost(times)

    def findings_of_kind(self, kind: str, pairs: WaitPairs, text: str) -> Iterator[Finding]:
        """Yield a finding of a kind for each pair of source lines whose waits together cost enough. `text`: the end of
        the message, with fields to fill in.
        """
        if int(pairs.ns.sum()) < self.least:
            return
        groups: dict[str, list[tuple[int, int]]] = {}
        for row, total in enumerate(pairs.ns.tolist()):
            one, two = self._calls_of_pair(pairs, row)
            groups.setdefault(cause_key(one, two), []).append((total, row))
        for key, found in groups.items():
            if sum(ns for ns, _ in found) >= self.least:
                yield self._make_finding(kind, text, key, pairs, sorted(found, reverse=True))

    def _calls_of_pair(self, pairs: WaitPairs, row: int) -> tuple[Event, Event]:
        rank, event, other, place = pairs.events[row].tolist()
        return self.trace.event(rank, event), self.trace.event(other, place)

    def _make_finding(self, kind: str, text: str, key: str, pairs: WaitPairs, found: list[tuple[int, int]]) -> Finding:
        """Return one finding for the waits between two source lines. `found`: (ns, row in `pairs`) of each, the most
        expensive first.
        """
        base, remark = self.base, self.remark
        total, dearest = sum(ns for ns, _ in found), found[0][1]
        one, two = self._calls_of_pair(pairs, dearest)
        some = np.array([row for _, row in found])
        waiters, late = (sorted(set(pairs.keys[some, side].tolist())) for side in (0, 2))
        share = base.share(total)
        last = _find_awaited_ranks(pairs, some, late, waiters)
        work = _compare_work(self.trace, pairs, some, last) if kind == "wait-at-collective" else ""
        message = (
            f"{rank_words(waiters)} wait{'s' * (len(waiters) == 1)} {seconds(total)} ({share:.0%} of all ranks' time)"
            f" in {function_word(one)}{site_suffix(one)} "
            + text.format(
                late=rank_words(late),
                there=site_suffix(two),
                last=f"{rank_words(last)}, last to come"
                if last
                else "each other: a different one comes last each time",
                work=work,
            )
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


def _find_awaited_ranks(pairs: WaitPairs, pair_rows: Ints, late: list[int], waiters: list[int]) -> list[int]:
    """Return the late ranks for which others wait. If late ranks wait as well, only those remain that make others wait
    longer than they wait themselves; [] if all wait for each other about as long. `pair_rows`: the rows in `pairs` to
    look at.
    """
    if not set(late) & set(waiters):
        return late
    ns, keys = pairs.ns[pair_rows], pairs.keys[pair_rows]
    excess = {rank: int(ns[keys[:, 2] == rank].sum() - ns[keys[:, 0] == rank].sum()) for rank in late}
    found = [rank for rank in late if excess[rank] > 0]
    return found if sum(excess[rank] for rank in found) >= MOSTLY * int(ns.sum()) else []


def _compare_work(trace: Trace, pairs: WaitPairs, pair_rows: Ints, late_ranks: list[int]) -> str:
    """Return in words where a late rank computes most, compared with a rank that waits for it. "" if it does not
    compute much longer there, or if that is not known. `pair_rows`: the rows in `pairs` to look at.
    """
    rows = [
        row for row in pair_rows.tolist() if pairs.keys[row, 2] in late_ranks and pairs.keys[row, 0] not in late_ranks
    ]
    if not rows:
        return ""
    row = max(rows, key=lambda row: int(pairs.ns[row]))
    waiter, late = (trace.event(*pairs.events[row, side : side + 2].tolist()) for side in (0, 2))
    places, others = _work_by_place(late), _work_by_place(waiter)
    place = max(places, key=lambda place: places[place][0], default="")
    most, before = places.get(place, (0, None))
    other = others.get(place, (0, None))[0]
    if before is None or not place or most < 2 * other or most < LEAST_NS:
        return ""
    begin = _place(before)
    between = f"between {begin} and {place}" if begin and begin != place else f"before {place}"
    return f": rank {late.rank.index} computes {seconds(most)} {between}, rank {waiter.rank.index} {seconds(other)}"


def _work_by_place(event: Event) -> dict[str, tuple[int, Event | None]]:
    """Return how long a rank computed before its MPI calls, by the line of the call: (ns outside MPI, the MPI call
    before it). Only calls up to the last one of the line of `event` count; {} for a rank of several threads.
    """
    rank = event.rank
    if len(rank.threads) != 1:
        return {}
    keys = rank.events["site"].astype(np.int64) << 16 | rank.events["function"]
    end = int(np.flatnonzero(keys == keys[event.index])[-1]) + 1
    gaps = np.maximum(rank.enter_ns(slice(1, end)) - rank.exit_ns(slice(0, end - 1)), 0)
    kinds, first, inverse = np.unique(keys[1:end], return_index=True, return_inverse=True)
    if len(kinds) > MAX_PLACES:
        return {}
    work = np.bincount(inverse.reshape(-1), weights=gaps, minlength=len(kinds)).astype(np.int64)
    found: dict[str, tuple[int, Event | None]] = {}
    for ns, at in sorted(zip(work.tolist(), first.tolist(), strict=True), reverse=True):
        place = _place(rank.event(at + 1))
        so_far, before = found.get(place, (0, rank.event(at)))
        found[place] = so_far + ns, before
    return found


def _place(event: Event) -> str:
    return site_suffix(event).removeprefix(" at ")


def _number_rows(columns: list[NDArray[np.generic]]) -> tuple[Ints, Ints]:
    """Give equal numbers to equal rows of some columns. Return, for each number, the first row that has it, and for
    each row its number.
    """
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + inverse.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.full(int(key.max(initial=-1)) + 1, len(key), np.int64)
    np.minimum.at(first, key, np.arange(len(key)))
    return first, key
