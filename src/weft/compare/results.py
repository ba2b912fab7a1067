"""Compare runs with different numbers of ranks by the results of reductions and broadcasts over all ranks.

What a rank sends depends on how many ranks there are; the result of a reduction over all of them does not, except for
the order of its sums.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.compare.calls import Ints, align_calls, compute_call_keys
from weft.compare.contents import ExemptCalls, has_hashes
from weft.compare.values.judgement import Judgement, judge_arrays
from weft.compare.values.tolerance import Tolerance
from weft.match import Match
from weft.terms.reduction_values import Numbers, as_numbers, blocking_name
from weft.trace import Rank
from weft.trace.layout import HashSide

BROADCAST: Final = "Bcast"
SHARED: Final = frozenset(("Allreduce", "Reduce", BROADCAST))
"""The collectives with one result that does not depend on how many ranks there are, by their blocking function."""


@dataclass(frozen=True, slots=True)
class ResultDifference:
    """A result that differs: the calls of the rank that has it, in the reference and in the run.

    `judged` compares its elements; None if their numbers were not kept, or if there are more of them in one run.
    """

    before: EventId
    after: EventId
    bytes_before: int
    bytes_after: int
    judged: Judgement | None


@dataclass(slots=True)
class ResultComparison:
    """The results that both runs have. `known`: the last call before `first` with the result of the reference.

    `alone`: results that only the reference has, and only the run. `rounded` differ by no more than another order of
    sums causes, at most `ulps` units in the last place.
    """

    compared: int = 0
    alone: tuple[int, int] = (0, 0)
    differing: int = 0
    rounded: int = 0
    ulps: float = 0.0
    first: ResultDifference | None = None
    known: EventId | None = None
    left_out: int = 0
    """How many results were not compared, as they belong to exempt calls."""

    @property
    def alike(self) -> bool:
        """Return whether both runs have the same results, and at least one."""
        return self.compared > 0 and not self.differing and self.alone == (0, 0)


class _SharedResults:
    """The calls of rank 0 with a shared result, in order, and which rank has its hash in which row (-1: none)."""

    def __init__(self, match: Match) -> None:
        trace, collectives = match.trace, match.collectives
        whole = np.array([len(one.members) == len(trace.ranks) for one in trace.communicators], bool)
        kinds = {
            name: trace.functions.mask(f.name for f in trace.functions if blocking_name(f.name) == name)
            for name in SHARED
        }
        counted = np.logical_or.reduce(list(kinds.values()))[collectives.function]
        counted &= whole[match.instances.comm[collectives.instance]]
        place = np.full(len(match.instances), -1, np.int64)
        mine = collectives.of_rank(0)
        chosen = np.flatnonzero(counted[mine])
        place[collectives.instance[mine][chosen]] = np.arange(len(chosen))
        self.match, self.rank = match, trace.ranks[0]
        self.events: Ints = collectives.event[mine][chosen].astype(np.int64)
        self.holder, self.row, self.event = (np.full(len(chosen), -1, np.int64) for _ in range(3))
        self.hash, self.bytes = (np.zeros(len(chosen), np.uint64) for _ in range(2))
        for rank in reversed(trace.ranks):  # rank 0 has all but what another one is the root of
            part = collectives.of_rank(rank.index)
            rows = np.flatnonzero(counted[part] & (place[collectives.instance[part]] >= 0))
            if rank.index:
                rows = rows[kinds["Reduce"][collectives.function[part][rows]]]
            events = collectives.event[part][rows].astype(np.int64)
            given = kinds[BROADCAST][collectives.function[part][rows]]
            self._add_hashes(rank, events, place[collectives.instance[part][rows]], given)

    def _add_hashes(self, rank: Rank, events: Ints, call_indices: Ints, sends_result: Any) -> None:
        """Store the hashes of the results that one rank has.

        `events`: the rank's calls; `call_indices`: the index of each among the shared calls; `sends_result`: mask of
        the calls in which this rank, as the root, sends the result.
        """
        hashes = rank.hashes
        if not len(events) or not len(hashes):
            return
        first, end = (np.searchsorted(hashes["event"], events, side) for side in ("left", "right"))
        last = np.maximum(end - 1, 0)
        # What a broadcast's root sends is its result; started many at once, which is which is not said.
        there = (end > first) & (end - first <= 2) & (sends_result | (hashes["side"][last] == HashSide.RECEIVED))
        self.holder[call_indices[there]], self.row[call_indices[there]] = rank.index, last[there]
        self.event[call_indices[there]] = events[there]
        self.hash[call_indices[there]] = hashes["hash"][last[there]]
        self.bytes[call_indices[there]] = hashes["bytes"][last[there]]

    def read_result_numbers(self, call_index: int) -> Numbers | None:
        """Return the elements of a call's result. None if not all of them were kept, or if their type is unknown."""
        rank = self.match.trace.ranks[int(self.holder[call_index])]
        kept = rank.message_hashes.content_of(int(self.row[call_index]))
        whole = kept is not None and len(kept) == self.bytes[call_index]
        return as_numbers(rank.event(int(self.event[call_index])), kept) if whole else None

    def result_call(self, at: int) -> EventId:
        """Return the call of the rank that has a result."""
        return EventId(int(self.holder[at]), int(self.event[at]))


def differ_in_rank_count(before: Match, after: Match) -> bool:
    """Tell whether two runs have different numbers of ranks, and hashes: then only results can be compared."""
    return len(before.trace.ranks) != len(after.trace.ranks) and has_hashes(before) and has_hashes(after)


def compare_results(
    before: Match, after: Match, tolerance: Tolerance, exempt: ExemptCalls | None = None
) -> ResultComparison:
    """Return how the results of collectives over all ranks differ between two runs, in the order of rank 0's calls. The
    runs may have different numbers of ranks. `exempt`: calls whose results are not compared.
    """
    names: dict[str, int] = {}
    one, two = _SharedResults(before), _SharedResults(after)
    alike_ranges = list(
        align_calls(*(compute_call_keys(side.rank, side.events, names, with_peers=False) for side in (one, two)))
    )
    found = ResultComparison()
    i, j = (
        np.concatenate([np.arange(begin, begin + count) for begin, count in side])
        for side in ([(s.before, s.count) for s in alike_ranges], [(s.after, s.count) for s in alike_ranges])
    )
    found.alone = len(one.events) - len(i), len(two.events) - len(j)
    both = (one.row[i] >= 0) & (two.row[j] >= 0)
    if exempt is not None:
        is_exempt = exempt.mask(two.rank)[two.events[j]]
        found.left_out = int((both & is_exempt).sum())
        both &= ~is_exempt
    i, j = i[both], j[both]
    found.compared = len(i)
    known = len(i)
    for k in np.flatnonzero((one.hash[i] != two.hash[j]) | (one.bytes[i] != two.bytes[j])).tolist():
        if not _count_result_difference(found, (one, int(i[k])), (two, int(j[k])), tolerance):
            known = min(known, k)
    if known:
        found.known = two.result_call(int(j[known - 1]))
    return found


def _count_result_difference(
    comparison: ResultComparison,
    reference_result: tuple[_SharedResults, int],
    run_result: tuple[_SharedResults, int],
    tolerance: Tolerance,
) -> bool:
    """Count a result whose hashes differ in `comparison`, as differing or as rounded. Return whether the tolerance or
    rounding covers the whole difference.

    `reference_result`, `run_result`: (shared results of the run, index of the call in them).
    """
    judged = _judge_numbers(
        reference_result[0].read_result_numbers(reference_result[1]),
        run_result[0].read_result_numbers(run_result[1]),
        tolerance,
    )
    if judged is None or judged.differing:
        ids, sizes = (
            [side.result_call(at) for side, at in (reference_result, run_result)],
            [int(side.bytes[at]) for side, at in (reference_result, run_result)],
        )
        comparison.differing += 1
        comparison.first = comparison.first or ResultDifference(ids[0], ids[1], sizes[0], sizes[1], judged)
        return False
    if judged.rounded:
        comparison.rounded += 1
        comparison.ulps = max(comparison.ulps, judged.ulps)
    return True


def _judge_numbers(before: Numbers | None, after: Numbers | None, tolerance: Tolerance) -> Judgement | None:
    if before is None or after is None or before.dtype != after.dtype or len(before) != len(after):
        return None
    return judge_arrays(before, after, tolerance)
