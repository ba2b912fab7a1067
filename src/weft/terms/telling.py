"""Findings out of events, and which ranks came to their end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import KINDS, Certainty, Finding, Severity
from weft.terms import describe
from weft.terms.calls import masks, words
from weft.trace import Event, Flag, Rank

_LAST = words("Finalize Session_finalize")

MAX_OF_ONE_SITE = 50
"""Findings of one kind and one call site of a rank that are told one by one; the rest is counted."""


def finding(
    kind: str, message: str, events: Iterable[Event], *, severity: Severity | None = None,
    certainty: Certainty = "certain", evidence: Mapping[str, Any] | None = None, cause: str | None = None,
) -> Finding:  # fmt: skip
    """A finding about `events`, the one to look at first in front."""
    found = list(events)
    return Finding(
        kind=kind,
        severity=severity or KINDS[kind],
        certainty=certainty,
        message=message,
        ranks=tuple(sorted({event.rank.index for event in found})),
        sites=tuple(dict.fromkeys(describe.site(event) for event in found)),
        events=tuple(dict.fromkeys(event.id for event in found)),
        evidence=evidence or {},
        cause=cause,
    )


def some_of_sites(rank: Rank, events: NDArray[Any]) -> NDArray[np.int64]:
    """Of some events of a rank the places of those that are told, MAX_OF_ONE_SITE of each call site, in order."""
    sites = rank.events["site"][events]
    order = np.argsort(sites, kind="stable")
    starts = np.searchsorted(sites[order], sites[order])
    kept: NDArray[np.int64] = np.sort(order[np.arange(len(order)) - starts < MAX_OF_ONE_SITE])
    return kept


def cause(*events: Event) -> str:
    """What findings of the same lines have in common, whatever the rank."""
    return "; ".join(f"{event.function.name}{describe.where(event)}" for event in events)


def said(event: Event) -> str:
    """`isend(dest=1, tag=3) at a.c:5`."""
    return describe.call(event) + describe.where(event)


def reached_finalize(rank: Rank) -> bool:
    """Whether the rank came to the end of its MPI program: what it has not done by then it never does."""
    if rank.state in ("missing", "damaged"):
        return False
    last = masks(rank.trace.functions).table(_LAST)
    events = rank.events
    return rank.state == "finalized" or (len(events) > 0 and bool(last[events["function"][-1]]))


def finalized(rank: Rank) -> bool:
    """Whether the process came to MPI_Finalize, if only on its way out."""
    if rank.missing or rank.state == "damaged":
        return False
    return rank.state == "finalized" or len(masks(rank.trace.functions).where(rank, _LAST)) > 0


_ENDS: Final = {
    "missing": "left no record", "aborted": "called MPI_Abort", "stopped": "Weft gave up recording here",
    "damaged": "the record is damaged from here on",
}  # fmt: skip


def end_of(rank: Rank) -> str:
    """How a rank ended that is in no call of MPI and did not reach MPI_Finalize."""
    return _ENDS.get(rank.state, "ended outside of MPI, before MPI_Finalize")


def open_calls(rank: Rank) -> list[int]:
    """The events of a rank's calls that never returned."""
    tail = max(0, len(rank.events) - 64)
    closed = rank.events["flags"][tail:] & Flag.CLOSED
    return [tail + int(i) for i in np.flatnonzero(closed == 0)]


def ended(rank: Rank) -> bool:
    """Whether the rank reached MPI_Finalize, or its process ended outside of an MPI call."""
    if rank.missing:
        return False
    exited = rank.state == "exited" and len(rank) > 0 and not rank.event(len(rank) - 1).open
    return exited or reached_finalize(rank)
