"""Find where two runs differ first, by rank, and which of these differences nothing earlier explains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal

import numpy as np

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.compare.calls import AlikeRange, ThreadCalls, align_calls, read_thread_calls
from weft.match import NONE, Match
from weft.order import Order

Kind = Literal["call", "message", "ends", "goes on"]
"""Another call; the same receive with another message; the run has no further call; it has more than the reference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which a rank's calls differ, after `alike` calls that are the same in both runs.

    `before` is the call of the reference and `after` that of the run; None if there is no further call.
    """

    kind: Kind
    rank: int
    alike: int
    before: EventId | None
    after: EventId | None


@dataclass(slots=True)
class Comparison:
    """What two runs have in common, rank by rank, and where each rank differs first.

    `first` are the differences that no other happens before, in the run's order; `following` are the others. `missing`
    and `added`: numbers of calls that only the reference or only the run makes, by rank.
    """

    before: Match
    after: Match
    threads: list[tuple[ThreadCalls, ThreadCalls, list[AlikeRange]]] = field(default_factory=list)
    first: list[Difference] = field(default_factory=list)
    following: list[Difference] = field(default_factory=list)
    missing: dict[int, int] = field(default_factory=dict)
    added: dict[int, int] = field(default_factory=dict)

    @property
    def alike(self) -> bool:
        """Return whether every call that both runs have ranks for is the same, with the same messages."""
        return not self.first

    @property
    def compared(self) -> int:
        """Return the number of calls of the run that have a counterpart in the reference."""
        return sum(stretch.count for _, _, alike_ranges in self.threads for stretch in alike_ranges)


def compare(before: Match, after: Match, order: Order, *, with_polls: bool = False) -> Comparison:
    """Return how the calls of run `after` differ from those of `before`, rank by rank and thread by thread.

    `order`: the happens-before order of `after`. `with_polls`: also compare tests, probes and MPI_Waitsome, whose
    outcome depends on timing.
    """
    made = Comparison(before, after)
    found: dict[int, Difference] = {}
    for one, two in _pair_threads(before, after, with_polls=with_polls):
        alike_ranges = list(align_calls(one.shape, two.shape))
        made.threads.append((one, two, alike_ranges))
        rank = two.rank.index
        same = sum(stretch.count for stretch in alike_ranges)
        made.missing[rank] = made.missing.get(rank, 0) + len(one) - same
        made.added[rank] = made.added.get(rank, 0) + len(two) - same
        difference = _find_first_difference(one, two, alike_ranges[0].count)
        if difference is not None and (
            rank not in found or _find_appearance_time(two, difference) < _find_appearance_time(two, found[rank])
        ):
            found[rank] = difference
    made.first, made.following = _split_by_cause(list(found.values()), made, order)
    return made


def _pair_threads(before: Match, after: Match, *, with_polls: bool) -> Iterator[tuple[ThreadCalls, ThreadCalls]]:
    """Yield (calls in the reference, calls in the run) for each thread that both runs have."""
    names: dict[str, int] = {}
    for rank, ranks in enumerate(zip(before.trace.ranks, after.trace.ranks, strict=False)):
        for slot in range(min(len(one.threads) for one in ranks)):
            one, two = (read_thread_calls(side, rank, slot, names, with_polls=with_polls) for side in (before, after))
            yield one, two


def _find_first_difference(reference_calls: ThreadCalls, run_calls: ThreadCalls, alike_count: int) -> Difference | None:
    """Return the first difference between the calls of a thread; None if there is none. Of the first `alike_count`
    calls, which are alike, it is the first receive that took another message; otherwise it is the call that follows
    them.
    """
    rank = run_calls.rank.index
    taken = np.flatnonzero(reference_calls.taken[:alike_count] != run_calls.taken[:alike_count])
    if len(taken):
        k = int(taken[0])
        return Difference(
            "message", rank, k, EventId(rank, int(reference_calls.events[k])), EventId(rank, int(run_calls.events[k]))
        )
    if alike_count == len(reference_calls) == len(run_calls):
        return None
    before = EventId(rank, int(reference_calls.events[alike_count])) if alike_count < len(reference_calls) else None
    after = EventId(rank, int(run_calls.events[alike_count])) if alike_count < len(run_calls) else None
    return Difference(
        "ends" if after is None else "goes on" if before is None else "call", rank, alike_count, before, after
    )


def _find_appearance_time(calls: ThreadCalls, difference: Difference) -> int:
    """Return the time in ns, in the run, at which a difference appears. If the run has no further call, return a time
    after all others.
    """
    if difference.after is None:
        return 1 << 62
    return int(calls.rank.enter_ns(slice(difference.after[1], difference.after[1] + 1))[0])


def _split_by_cause(
    differences: list[Difference], comparison: Comparison, order: Order
) -> tuple[list[Difference], list[Difference]]:
    """Return (the differences that may be causes, the differences that follow from others). Of two differences, the one
    that happens before the other is the cause.

    A message that did not come, or a rank without a further call, results from what other ranks did not do. Such a
    difference follows from the others, if any rank does something else.
    """

    points = {id(one): _find_showing_event(one, comparison.after) for one in differences}

    def before(a: Difference, b: Difference) -> bool:
        one, two = points[id(a)], points[id(b)]
        return a.after is not None and one is not None and two is not None and order.reaches(one, two)

    done = [d for d in differences if not _is_absence(d, comparison)] or differences
    first = [d for d in done if not any(before(o, d) and not before(d, o) for o in done if o is not d)]
    rest = [d for d in differences if d not in first]
    return first, sorted(rest, key=lambda d: sum(before(o, d) for o in rest))


def _find_showing_event(difference: Difference, match: Match) -> EventId | None:
    """Return the event of the run that shows a difference: the call that completes the receive of another message, or
    the differing call itself. If the rank makes no further call, return its last call, or None if it made none.
    """
    if difference.after is None:
        last = len(match.trace.ranks[difference.rank].events) - 1
        return EventId(difference.rank, last) if last >= 0 else None
    completions = [int(match.recvs.completion[row]) for row in match.receives_of(difference.after)]
    if difference.kind == "message" and completions and completions[0] != NONE:
        return EventId(difference.rank, completions[0])
    return difference.after


def _is_absence(difference: Difference, comparison: Comparison) -> bool:
    """Return whether a difference is only that something did not happen in the run: a message did not come, a call did
    not return, or the thread made no further call.
    """
    if difference.after is None or difference.before is None:
        return difference.after is None
    match = comparison.after
    if difference.kind == "message":
        return all(match.recvs.partner[row] == NONE for row in match.receives_of(difference.after))
    now, then = match.trace.event(*difference.after), comparison.before.trace.event(*difference.before)
    return now.open and not then.open and now.function.name == then.function.name
