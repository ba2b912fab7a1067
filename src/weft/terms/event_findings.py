"""Make findings that cite events: their ranks, their call sites and their common cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evidence import NO_EVIDENCE, Evidence
from weft.findings import Finding
from weft.kinds import KINDS, Certainty, Severity
from weft.terms import describe
from weft.trace import Event, Rank

MAX_OF_ONE_SITE = 50
"""The most findings of one kind and one call site of a rank that are reported one by one; the rest is counted."""


def make_finding(
    kind: str, message: str, events: Iterable[Event], *, severity: Severity | None = None,
    certainty: Certainty = "certain", evidence: Evidence = NO_EVIDENCE, cause: str | None = None,
) -> Finding:  # fmt: skip
    """Make a finding about `events`. The first event should be the one that explains most."""
    found = list(events)
    return Finding(
        kind=kind,
        severity=severity or KINDS[kind].severity,
        certainty=certainty,
        message=message,
        ranks=tuple(sorted({event.rank.index for event in found})),
        sites=tuple(dict.fromkeys(describe.finding_site(event) for event in found)),
        events=tuple(dict.fromkeys(event.id for event in found)),
        evidence=evidence,
        cause=cause,
    )


class FindingLimiter:
    """A counter that limits findings to MAX_OF_ONE_SITE for each key, such as a call site."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = defaultdict(int)

    def more(self, key: Hashable) -> bool:
        """Count one finding with this key. Return whether it is among the first ones, which are reported."""
        self._seen[key] += 1
        return self._seen[key] <= MAX_OF_ONE_SITE


def limit_per_site(rank: Rank, events: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices in `events` of the events to report: at most MAX_OF_ONE_SITE for each call site, in order."""
    sites = rank.events["site"][events]
    order = np.argsort(sites, kind="stable")
    starts = np.searchsorted(sites[order], sites[order])
    kept: NDArray[np.int64] = np.sort(order[np.arange(len(order)) - starts < MAX_OF_ONE_SITE])
    return kept


def make_left_out_note(kind: str, event: Event, question: str) -> Finding:
    """Return a note that something could not be decided about a call, because its datatypes have too many blocks.
    `question`: the undecided thing, as words after "whether".
    """
    return make_finding(
        kind,
        f"the datatypes of {call_at(event)} of rank {event.rank.index} have more blocks than Weft looks at, so Weft "
        f"does not know whether {question}; there may be more such calls",
        [event], severity="note", certainty="undecided", cause="left out",
    )  # fmt: skip


def cause_key(*events: Event) -> str:
    """Return a key that is equal for findings about the same functions called at the same lines, on whatever rank."""
    return "; ".join(f"{event.function.name}{describe.site_suffix(event)}" for event in events)


def call_at(event: Event) -> str:
    """Return a call with its place: `isend(dest=1, tag=3) at a.c:5`."""
    return describe.call_words(event) + describe.site_suffix(event)
