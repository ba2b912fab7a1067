"""Find where the second of two runs took longer: calls of MPI and the computing between them, by line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.compare.calls import AlikeRange, ThreadCalls
from weft.compare.differences import Comparison
from weft.terms import describe
from weft.trace import Event, Rank, Trace

LEAST: Final = 0.05
"""A place is reported if it took this share of the reference's time longer."""
MAX_PLACES: Final = 3
"""Places of computing that are reported, and as many of calls."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlowerPlace:
    """A place of the program that took `more` ns longer on a rank; `of_mpi`: in a call, else between two calls."""

    rank: int
    place: str
    of_mpi: bool
    before: int
    more: int
    times: int
    """How often the program was there."""


def elapsed_ns(trace: Trace) -> int:
    """Return the time from the first call of a run to the last return, in ns."""
    spans = [(rank.enter_ns(slice(0, 1)), rank.exit_ns()) for rank in trace.ranks if len(rank)]
    return max((int(ends.max()) for _, ends in spans), default=0) - min((int(at[0]) for at, _ in spans), default=0)


def find_slower_places(comparison: Comparison) -> list[SlowerPlace]:
    """Return the places in the program that took longer in the run than in the reference. Places between calls of MPI
    come first, then calls; in both, the greatest difference comes first.

    A place is the line of a call, or the two lines between whose calls the program computes. Only calls that both runs
    make and return from are compared.
    """
    least = LEAST * max(elapsed_ns(comparison.before.trace), 1)
    found = [
        place
        for one, two, alike_ranges in comparison.threads
        if alike_ranges
        for place in _find_slower_in_thread(one, two, alike_ranges)
    ]
    return sorted((place for place in found if place.more >= least), key=lambda place: (place.of_mpi, -place.more))


def _find_slower_in_thread(
    reference_calls: ThreadCalls, run_calls: ThreadCalls, alike_ranges: list[AlikeRange]
) -> Iterator[SlowerPlace]:
    """Yield the places at which a thread took longer than in the reference, both in its calls of MPI and
    between them.
    """
    pairs = [(np.arange(s.before, s.before + s.count), np.arange(s.after, s.after + s.count)) for s in alike_ranges]
    before, after = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    if not len(before):
        return
    (begun, ended), (begun_after, ended_after) = _call_spans(reference_calls), _call_spans(run_calls)
    whole = (ended[before] >= 0) & (ended_after[after] >= 0)
    inside = np.where(whole, ended[before] - begun[before], 0)
    inside_after = np.where(whole, ended_after[after] - begun_after[after], 0)
    sites = run_calls.rank.events["site"][run_calls.events[after]].astype(np.int64)
    yield from _compare_times_by_place(run_calls, after, sites, inside, inside_after, is_in_mpi=True)
    next_to = (np.diff(before) == 1) & (np.diff(after) == 1) & whole[:-1]
    gap = np.where(next_to, begun[before][1:] - ended[before][:-1], 0)
    gap_after = np.where(next_to, begun_after[after][1:] - ended_after[after][:-1], 0)
    yield from _compare_times_by_place(
        run_calls, after[1:], sites[:-1] << 32 | sites[1:], gap, gap_after, is_in_mpi=False
    )


def _call_spans(calls: ThreadCalls) -> tuple[Ints, Ints]:
    return calls.rank.enter_ns()[calls.events], calls.rank.exit_ns()[calls.events]


def _compare_times_by_place(
    calls: ThreadCalls, call_indices: Ints, place_keys: Ints, reference_ns: Ints, run_ns: Ints, *, is_in_mpi: bool
) -> Iterator[SlowerPlace]:
    """Sum the times at each place, and yield the places at which the run took longer than the reference.

    The arrays have one entry for each call, or each gap between calls: `call_indices` (in `calls`), `place_keys` (equal
    for the same place), `reference_ns` and `run_ns`. `is_in_mpi`: the times are those of calls, not of gaps.
    """
    known, where, row = np.unique(place_keys, return_index=True, return_inverse=True)
    times = np.bincount(row, minlength=len(known))
    sums = [np.bincount(row, weights=column, minlength=len(known)) for column in (reference_ns, run_ns)]
    by_place: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    for k in np.flatnonzero(sums[1] > sums[0]).tolist():
        held = by_place[_describe_place(calls, int(call_indices[where[k]]), is_in_mpi=is_in_mpi)]
        for i, value in enumerate((sums[0][k], sums[1][k] - sums[0][k], times[k])):
            held[i] += value
    for place, (was, more, count) in by_place.items():
        yield SlowerPlace(calls.rank.index, place, is_in_mpi, int(was), int(more), int(count))


def _describe_place(calls: ThreadCalls, call_index: int, *, is_in_mpi: bool) -> str:
    """Return a place as text: `in recv at a.py:3`, or `computing between calls at a.py:4` for the gap before
    the call.
    """
    rank: Rank = calls.rank
    here = Event(rank, int(calls.events[call_index]))
    if is_in_mpi:
        return f"in {describe.call_words(here, peers=False)}{describe.site_suffix(here)}"
    last = Event(rank, int(calls.events[call_index - 1]))
    if (place := describe.site_suffix(here)) == describe.site_suffix(last) and place:
        return f"computing between calls{place}"
    ends = [f"{describe.call_words(event, peers=False)}{describe.site_suffix(event)}" for event in (last, here)]
    return f"computing between {ends[0]} and {ends[1]}"
