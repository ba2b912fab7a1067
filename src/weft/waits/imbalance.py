"""Uneven work: one rank computes much longer than the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from weft.evidence import Evidence
from weft.findings import Finding
from weft.terms.calls import masks_of, word_set
from weft.terms.describe import function_word, site_suffix
from weft.terms.event_findings import make_finding
from weft.trace import Event, Rank, Trace
from weft.waits.ledger import Times, seconds

IMBALANCE: Final = 0.25
"""Work is uneven when the busiest rank computes this much longer than the mean."""

_SITES: Final = 1 << 22
"""Site ids above are taken together: a record could name any number."""

_ENDS: Final = word_set(
    "Init Init_thread Session_init Finalize Session_finalize Initialized Finalized Query_thread Get_version"
    " Get_library_version"
)
"""Calls of the start and the end of MPI, mpi4py's own among them: what lies beside them is loading, not work."""


class Imbalance(Evidence):
    """The time that the others could have used, and what each rank computed."""

    ns: int
    work_ns: Sequence[int]


def find_imbalance(trace: Trace, times: Times, least_ns: float) -> list[Finding]:
    """Return a finding about the rank that computes longest, if it computes much longer than the mean and the others
    lose at least `least_ns` by it. [] if a rank has several threads or a call was left open: then computing time is not
    known.
    """
    if (times.threads != 1).any() or times.left_open:
        return []
    polling, work = times.polling, times.wall_ns - times.by_rank.sum(axis=1)
    busiest = int(np.argmax(work))
    others = work + polling
    others[busiest] = work[busiest]
    mean, most = float(others.mean()), int(work[busiest])
    lost = int(np.maximum(most - others, 0).sum())
    if mean <= 0 or most < (1 + IMBALANCE) * mean or lost < least_ns:
        return []
    events, place = _find_longest_computation(trace.ranks[busiest])
    return [
        make_finding(
            "imbalance",
            f"rank {busiest} computes for {seconds(most)}{place}; the mean of all ranks is {seconds(mean)}. Together "
            f"the other ranks lose {seconds(lost)} waiting for it",
            events,
            evidence=Imbalance(ns=lost, work_ns=work[:1024].tolist()),
        )
    ]


def _find_longest_computation(rank: Rank) -> tuple[list[Event], str]:
    """Return the calls next to the place where the rank computed longest (at most one: the call after the computation,
    or else before it), and text that names the place. Calls that begin or end MPI do not count. The text is "" if no
    place has half of the time."""
    gaps = rank.enter_ns()[1:] - rank.exit_ns()[:-1]
    # Site ids count from 1; calls of unknown place are distinguished by their function.
    sites = rank.events["site"].astype(np.int64)
    sites = np.where(sites == 0, rank.events["function"], np.minimum(sites, _SITES) + 65536)
    ends = masks_of(rank.trace.functions).table(_ENDS)[rank.events["function"]]
    for word, keys, barred in (("before", sites[1:], ends[1:]), ("after", sites[:-1], ends[:-1])):
        kept = np.flatnonzero(~barred)
        if not len(kept):
            continue
        total = np.bincount(keys[kept], weights=gaps[kept])
        if 2 * total.max() >= gaps.sum():
            at = kept[keys[kept] == int(np.argmax(total))]
            event = rank.event(int(at[np.argmax(gaps[at])]) + (word == "before"))
            return [event], f", most of it {word} {function_word(event)}{site_suffix(event)}"
    inner = np.flatnonzero(~ends)  # no one place
    return ([rank.event(int(inner[0]))] if len(inner) else []), ""
