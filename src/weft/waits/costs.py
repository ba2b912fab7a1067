"""What late senders, late receivers, late members of collectives and uneven work cost, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.match import Match
from weft.terms import calls
from weft.terms.cited import cause, finding
from weft.terms.describe import where
from weft.terms.words import rank_words
from weft.trace import Trace
from weft.waits.causes import COLLECTIVE, Cause
from weft.waits.clockwork import Clockwork
from weft.waits.cores import remark
from weft.waits.imbalance import imbalance
from weft.waits.kernels import Ints
from weft.waits.ledger import Base, base_of, seconds
from weft.waits.states import Waiting, WaitRows, waiting

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


def find(trace: Trace, match: Match) -> list[Finding]:
    """Notes on what cost a noticeable share of the run's time, by call site, the dearest first."""
    waits = waiting(trace, match)
    if len(trace.ranks) < 2 or not waits.clock.first[-1]:
        return []
    telling = _Telling(waits)
    found = [finding for kind, causes, text in _KINDS for finding in telling.of(kind, waits.rows.of(*causes), text)]
    found += imbalance(waits, telling.least)
    return sorted(found, key=lambda f: -int(f.evidence["ns"]))


class _Telling:
    """Waits of one kind as findings."""

    def __init__(self, waits: Waiting) -> None:
        self.clock: Clockwork = waits.clock
        self.base: Base = base_of(waits)
        self.remark = remark(waits.trace)
        self.least = max(LEAST_NS, SHARE * self.base.ns)

    def of(self, kind: str, rows: WaitRows, text: str) -> Iterator[Finding]:
        """Findings of the waits with one pair of call sites that together cost enough."""
        if int(rows.ns.sum()) < self.least:
            return
        # Sites are numbered by each rank: equal lines of several ranks come together by name below.
        clock = self.clock
        columns: list[NDArray[Any]] = [
            column for places in (rows.waiter, rows.culprit)
            for column in (clock.ranks_of(places), clock.site[places])
        ]  # fmt: skip
        first, inverse = _pairs(columns)
        totals = np.bincount(inverse, weights=rows.ns).astype(np.int64)
        groups: dict[str, list[tuple[int, int]]] = {}
        for row, total in zip(first.tolist(), totals.tolist(), strict=True):
            one, two = clock.event(int(rows.waiter[row])), clock.event(int(rows.culprit[row]))
            groups.setdefault(cause(one, two), []).append((total, row))
        for key, found in groups.items():
            if sum(ns for ns, _ in found) >= self.least:
                yield self._told(kind, text, key, rows, sorted(found, reverse=True))

    def _told(self, kind: str, text: str, key: str, rows: WaitRows, found: list[tuple[int, int]]) -> Finding:
        """The finding of some groups of rows, as (ns, row), the dearest first."""
        clock, base, remark = self.clock, self.base, self.remark
        total, dearest = sum(ns for ns, _ in found), found[0][1]
        one, two = clock.event(int(rows.waiter[dearest])), clock.event(int(rows.culprit[dearest]))
        some = np.array([row for _, row in found])
        waiters = sorted(set(clock.ranks_of(rows.waiter[some]).tolist()))
        late = sorted(set(clock.ranks_of(rows.culprit[some]).tolist()))
        share = base.share(total)
        message = (
            f"{rank_words(waiters)} wait{'s' * (len(waiters) == 1)} {seconds(total)} ({share:.0%} of all ranks' time)"
            f" in {calls.spoken(one.function.name)}{where(one)} {text.format(late=rank_words(late), there=where(two))}"
        )
        return finding(
            kind, message + (f"; {remark}" if remark else ""), [one, two],
            evidence={
                "ns": total, "share": round(share, 4), "base": base.words, "base_ns": base.ns,
                "cause": Cause(int(rows.cause[dearest])).slug, "waiting": waiters[:64], "late": late[:64],
                "crowded": remark,
            },
            cause=key,
        )  # fmt: skip


def _pairs(columns: list[NDArray[np.generic]]) -> tuple[Ints, Ints]:
    """The different rows of the columns, sorted: the first row of each, and for each row which it is."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + inverse.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.full(int(key.max(initial=-1)) + 1, len(key), np.int64)
    np.minimum.at(first, key, np.arange(len(key)))
    return first, key
