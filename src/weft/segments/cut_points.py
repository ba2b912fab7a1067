"""Where a run may be cut: at collectives of all ranks that none leaves before all have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.mpi.meaning import Sync
from weft.order.edges import select_plain_fences
from weft.segments.window_and_file_state import Carried, Now, StateFollower, count_stored_calls, make_carried
from weft.terms import calls, kernels
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of, word_set
from weft.trace import Flag, Rank, Trace
from weft.trace.layout import Def
from weft.trace.mapping import release_pages
from weft.trace.segment import NOTHING, SEGMENT, Lookahead, Segment, is_divisible
from weft.usage.long_ranks import match_frees_with_makers

A_RANK: Final = 200
"""Calls of each rank in a segment at least: what is done once a rank is to cost little beside them."""

_PART: Final = 1 << 18
"""Calls that are looked at together."""
_MOST: Final = 8192
"""Candidates that are kept of a rank."""
_MOST_CARRIED: Final = 64 * _MOST
"""Calls that are kept of what goes on at these; where it is more, fewer candidates are."""

_FENCES: Final = calls.functions_with_sync(Sync.FENCE)
_GATHERINGS: Final = calls.ALL_TO_ALL | word_set("Barrier") | _FENCES
_EARLIER: Final = calls.SEND_INITS | calls.RECV_INITS | calls.COLLECTIVE_INITS
"""What makes requests that are started again and again."""
_UNDIVIDED: Final = (
    calls.PARTITIONED
    | word_set("Grequest_start Comm_spawn Comm_spawn_multiple Comm_accept Comm_connect Comm_join Session_init")
)  # fmt: skip
"""Calls of which something is under way that a segment does not see, or whose analyses look at the whole run."""


@dataclass(frozen=True)
class RankScan:
    """What one look at a rank's calls finds.

    `called`: ids of the functions. `candidates`: every `stride`-th collective at which a cut may be, of `many`.
    `earlier`: the calls that made persistent requests, `freed`: those that freed them. `carried`: by candidate what
    goes on there on windows and files.
    """

    called: frozenset[int]
    candidates: NDArray[np.int64]
    stride: int
    many: int
    earlier: NDArray[np.int64]
    freed: NDArray[np.int64]
    carried: Carried
    calls: int

    def request_makers(self, start: int) -> Ints:
        """Return the calls that made the persistent requests that are there at a call."""
        found: Ints = self.earlier[(self.earlier < start) & (self.freed >= start)]
        return found


@dataclass(frozen=True)
class Cuts:
    """The moments at which a run may be cut: `at[k][r]` is how many calls of rank r are before the k-th.

    The first is the start of the run, the last its end. `which[k][r]`: the place of those between among the candidates
    of rank r. `carried` holds by moment, where there are such, and by rank the calls before it whose messages belong
    behind it (closed_cuts.py). `looks` holds, by moment at which a segment begins that looks ahead, how far,
    and what is carried over that end (lookahead.py).
    """

    run: Trace
    at: NDArray[np.int64]
    seen: Sequence[RankScan]
    which: Ints
    called: frozenset[int]
    carried: Mapping[int, Sequence[NDArray[np.int64]]] = field(default_factory=dict)
    looks: Mapping[int, tuple[Ints, Lookahead, Sequence[Ints]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at) - 1

    def segment(self, low: int, high: int) -> Segment:
        """Return the part of the run between the moments number `low` and `high`."""
        if low in self.looks and high == len(self):
            return self.segment_looking_ahead(low)
        goes_on = low > 0 and any(len(one.carried.calls) for one in self.seen)
        places = self.which[low].tolist() if goes_on else []
        going = [seen.carried.state_at(place) for seen, place in zip(self.seen, places, strict=False)]
        return self.segment_between(
            self.at[low], self.at[high], self.carried.get(low, ()), self.carried.get(high, ()), going
        )

    def segment_looking_ahead(self, low: int) -> Segment:
        """Return the part of the run that begins at moment `low`, together with the later calls that its analyses have
        to look at.
        """
        end, look, out = self.looks[low]
        segment = self.segment_between(self.at[low], end, self.carried.get(low, ()), out)
        segment.look = look
        return segment

    def segment_between(
        self, begin: Ints, end: Ints, into: Sequence[Ints] = (), out: Sequence[Ints] = (),
        going: Sequence[tuple[Ints, Ints]] = (),
    ) -> Segment:  # fmt: skip
        """Return the part of the run with the calls of each rank from `begin` up to `end` (excluded).

        `into`, `out`: by rank the calls whose messages are carried into the part from before, and out of it. `going`:
        by rank the calls that make up the state of windows and files at its beginning, and how many fences each window
        had.
        """
        first, last = begin.tolist(), end.tolist()
        before, fenced = [], []
        for place, (rank, seen, start) in enumerate(zip(self.run.ranks, self.seen, first, strict=True)):
            made = seen.request_makers(start)
            here, fences = going[place] if going else (NOTHING, NOTHING)
            before.append(np.unique(np.concatenate([made, here, into[place] if into else NOTHING])))
            windows = rank.events["object"][here[fences > 0]]
            fenced.append(dict(zip(windows.tolist(), fences[fences > 0].tolist(), strict=True)))
        return Segment(self.run, first, last, before if any(map(len, before)) else (), out=out, fenced=fenced)

    def moment_before(self, event: tuple[int, int]) -> int:
        """Return the number of the last moment before an event; a later one if the event's message is carried over that
        moment.
        """
        rank, index = event
        place = min(int(np.searchsorted(self.at[:, rank], index, side="right")) - 1, len(self) - 1)
        while place + 1 in self.carried and index in self.carried[place + 1][rank]:
            place += 1
        return place


def is_worth_cutting(trace: Trace, least: int = SEGMENT) -> bool:
    """Return whether a run has enough calls to be analysed in parts, and is of a kind that allows it."""
    if any(rank.file is None for rank in trace.ranks) or len(trace.ranks) < 2:
        return False
    return trace.event_count >= 2 * calls_between_cuts(least, len(trace.ranks)) and is_divisible(trace)


def calls_between_cuts(least: int, ranks: int) -> int:
    """Return about how many calls of all ranks lie between two cuts."""
    return max(least, A_RANK * ranks)


def scan_rank(rank: Rank) -> RankScan:
    """Read the calls of a rank once, and return the collectives at which the run may be cut, with the state of windows
    and files there.
    """
    trace = rank.trace
    # Neither the catalogue of the whole rank nor its columns are made: they would be as long as the run.
    table = masks_of(trace.functions).table(_GATHERINGS)
    makes, frees = (masks_of(trace.functions).table(names) for names in (_EARLIER, calls.RELEASES))
    events, counts = rank.events, np.zeros(65536, np.int64)
    found: list[Ints] = []
    going: list[Now] = []
    earlier: list[Ints] = [NOTHING]
    released: list[Ints] = [NOTHING]
    following, of_all = StateFollower(rank), _objects_of_all_ranks(rank)
    stride, many = 1, 0
    for start in range(0, len(events), _PART):
        part = events[start : start + _PART]
        function = np.empty(len(part), np.uint16)
        kernels.fill_catalogue(part, function, counts)
        if (rows := np.flatnonzero(makes[function])).size:
            earlier.append(rows + start)
        if (rows := np.flatnonzero(frees[function])).size and len(earlier) > 1:  # of those that are made before
            released.append(rows + start)
        rows = np.flatnonzero(table[function])
        rows = rows[_gathers_all_ranks(rank, function[rows], rows + start, *of_all)]
        numbers = many + np.arange(len(rows))
        many += len(rows)
        found.append(rows[numbers % stride == stride - 1] + start)
        following.any = bool(counts[following.ids].any())
        going += following.follow_part(part, function, start, found[-1]) if following.any else [()] * len(found[-1])
        while len(going) > _MOST or (len(going) > 1 and following.any and count_stored_calls(going) > _MOST_CARRIED):
            stride, found, going = 2 * stride, [np.concatenate(found)[1::2]], going[1::2]
        release_pages(part)
    candidates = np.concatenate([NOTHING, *found]) + 1
    called = frozenset(np.flatnonzero(counts).tolist())
    made = np.concatenate(earlier)
    freed = _find_releases(rank, made, np.concatenate(released))
    return RankScan(called, candidates, stride, many, made, freed, make_carried(going), len(events))


def _find_releases(rank: Rank, made: Ints, frees: Ints) -> Ints:
    """Return for each of the calls `made`, which make requests, the event index of the call that frees the request; the
    number of the rank's calls if none does.
    """
    if not len(made):
        return made
    found = match_frees_with_makers(rank, made, frees)
    found[masks_of(rank.trace.functions).table(calls.COLLECTIVE_INITS)[rank.events["function"][made]]] = len(
        rank.events
    )
    return found


def _gathers_all_ranks(
    rank: Rank, called: NDArray[np.uint16], rows: Ints, comms: Ints, windows: Ints
) -> NDArray[np.bool_]:
    """Return a mask of the calls `rows` that returned without error and in which all ranks of the run take part.

    `called`: their functions. `comms`, `windows`: communicators and windows of which all ranks are members.
    """
    slots = rank.events[rows]
    good: NDArray[np.bool_] = (slots["flags"] & Flag.CLOSED != 0) & (slots["error"] == 0)
    fences = masks_of(rank.trace.functions).table(_FENCES)[called]
    if not fences.any():
        return good & np.isin(slots["comm"], comms)
    at = np.flatnonzero(fences & good & np.isin(slots["object"], windows))
    good &= ~fences & np.isin(slots["comm"], comms)
    good[at] = select_plain_fences(rank, rows[at])
    release_pages(rank.threads[0].tails)
    return good


def _objects_of_all_ranks(rank: Rank) -> tuple[Ints, Ints]:
    """Return the ids of the communicators, and of the windows, of which all ranks of the run are members."""
    everyone = len(rank.trace.ranks)
    comms = {
        id for id in rank.comm_ids() if (comm := rank.comm(id)) and not comm.inter and len(comm.members) == everyone
    }
    windows = [id for id in rank.definitions.ids(Def.WINDOW)
               if (made := rank.definitions.window(id)) is not None and made.comm in comms]  # fmt: skip
    return np.array(sorted(comms), np.int64), np.array(windows, np.int64)


def find_cuts(trace: Trace, seen: Sequence[RankScan], least: int = SEGMENT) -> Cuts | None:
    """Return the moments at which the run may be cut, at least `least` calls apart. None if there are none, or the run
    calls functions that forbid it. `seen`: what was found in each rank.
    """
    called = frozenset[int]().union(*(one.called for one in seen))
    if called.intersection(masks_of(trace.functions).ids(_UNDIVIDED)):
        return None
    stride = max(one.stride for one in seen)
    many = min(one.many for one in seen) // stride
    if not many:
        return None
    at = np.stack([one.candidates[stride // one.stride - 1 :: stride // one.stride][:many] for one in seen], axis=1)
    ends = np.array([one.calls for one in seen], np.int64)
    chosen = _choose_moments(at.sum(axis=1), 0, int(ends.sum()), calls_between_cuts(least, len(seen)))
    if not chosen:
        return None
    rows = [np.zeros(len(seen), np.int64), *at[chosen], ends]
    steps = np.array([stride // one.stride for one in seen])
    which = np.concatenate([[0], np.array(chosen) + 1, [0]])[:, None] * steps - 1
    return Cuts(trace, np.stack(rows), seen, which, called)


def cut_between(cuts: Cuts, low: int, high: int, wanted: int) -> Cuts | None:
    """Return cuts between two moments of a run, about `wanted` calls apart; None if there can be none. `low`, `high`:
    the numbers of the two moments in `cuts`.
    """
    if len(cuts.which) != len(cuts.at) or any(len(one.carried.calls) for one in cuts.seen):
        return None
    stride = max(one.stride for one in cuts.seen)
    steps = np.array([stride // one.stride for one in cuts.seen])
    first = int(cuts.which[low][0] + 1) // int(steps[0])
    last = (
        min(one.many for one in cuts.seen) // stride if high == len(cuts) else int(cuts.which[high][0]) // int(steps[0])
    )
    numbers = np.arange(first, last)
    if not len(numbers):
        return None
    which = (numbers[:, None] + 1) * steps - 1
    at = np.stack([one.candidates[column] for one, column in zip(cuts.seen, which.T, strict=True)], axis=1)
    chosen = _choose_moments(at.sum(axis=1), int(cuts.at[low].sum()), int(cuts.at[high].sum()), wanted)
    if not chosen:
        return None
    return replace(
        cuts, at=np.stack([cuts.at[low], *at[chosen], cuts.at[high]]),
        which=np.stack([cuts.which[low], *which[chosen], cuts.which[high]]),
    )  # fmt: skip


def _choose_moments(calls_before: Ints, begin: int, end: int, calls_apart: int) -> list[int]:
    """Return the indices of moments that are at least `calls_apart` calls apart.

    `calls_before`: how many calls are before each moment. `begin`, `end`: how many are before the begin and the end of
    what is cut. No moment is chosen that leaves less than half of `calls_apart` before `end`.
    """
    chosen: list[int] = []
    before = begin
    for place, calls_ in enumerate(calls_before.tolist()):
        if calls_ - before >= calls_apart and end - calls_ >= calls_apart // 2:
            chosen.append(place)
            before = calls_
    return chosen
