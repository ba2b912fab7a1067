"""Findings that cite events: their ranks, places and what they have in common."""

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
"""Findings of one kind and one call site of a rank that are told one by one; the rest is counted."""


def finding(
    kind: str, message: str, events: Iterable[Event], *, severity: Severity | None = None,
    certainty: Certainty = "certain", evidence: Evidence = NO_EVIDENCE, cause: str | None = None,
) -> Finding:  # fmt: skip
    """A finding about `events`, the one to look at first in front."""
    found = list(events)
    return Finding(
        kind=kind,
        severity=severity or KINDS[kind].severity,
        certainty=certainty,
        message=message,
        ranks=tuple(sorted({event.rank.index for event in found})),
        sites=tuple(dict.fromkeys(describe.site(event) for event in found)),
        events=tuple(dict.fromkeys(event.id for event in found)),
        evidence=evidence,
        cause=cause,
    )


class Some:
    """Which findings are told one by one: MAX_OF_ONE_SITE of each key, such as a call site."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = defaultdict(int)

    def more(self, key: Hashable) -> bool:
        """Count one; whether it is still told."""
        self._seen[key] += 1
        return self._seen[key] <= MAX_OF_ONE_SITE


def some_of_sites(rank: Rank, events: NDArray[Any]) -> NDArray[np.int64]:
    """Of some events of a rank the places of those that are told, MAX_OF_ONE_SITE of each call site, in order."""
    sites = rank.events["site"][events]
    order = np.argsort(sites, kind="stable")
    starts = np.searchsorted(sites[order], sites[order])
    kept: NDArray[np.int64] = np.sort(order[np.arange(len(order)) - starts < MAX_OF_ONE_SITE])
    return kept


def left_out(kind: str, event: Event, whether: str) -> Finding:
    """The note that a datatype of a call has too many blocks to be looked at: `whether` something is so."""
    return finding(
        kind,
        f"the datatypes of {said(event)} of rank {event.rank.index} have more blocks than Weft looks at: "
        f"whether {whether} is not known, and there may be more such calls",
        [event], severity="note", certainty="undecided", cause="left out",
    )  # fmt: skip


def cause(*events: Event) -> str:
    """What findings of the same lines have in common, whatever the rank."""
    return "; ".join(f"{event.function.name}{describe.where(event)}" for event in events)


def said(event: Event) -> str:
    """`isend(dest=1, tag=3) at a.c:5`."""
    return describe.call(event) + describe.where(event)
