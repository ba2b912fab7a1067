"""Where a run may be cut: at collectives on MPI_COMM_WORLD that no rank leaves before all have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.mpi.meaning import Act, named
from weft.plain import dataclass
from weft.terms import calls, passes
from weft.terms.calls import masks, words
from weft.trace import Flag, Rank, Trace
from weft.trace.mapping import let_go
from weft.trace.stretch import NOTHING, STRETCH, Stretch, divisible

A_RANK: Final = 200
"""Calls of each rank in a stretch at least: what is done once a rank is to cost little beside them."""

_PART: Final = 1 << 18
"""Calls that are looked at together."""
_MOST: Final = 8192
"""Candidates that are kept of a rank."""
_WORLD: Final = 2
"""The id of MPI_COMM_WORLD in every record."""

_GATHERINGS: Final = calls.ALL_TO_ALL | words("Barrier")
_EARLIER: Final = calls.SEND_INITS | calls.RECV_INITS
"""What makes requests that are started again and again."""
_UNDIVIDED: Final = (
    calls.ON_WINDOWS | calls.WINDOW_MAKERS | calls.FILE_COLLECTIVES | calls.COLLECTIVE_INITS | calls.PARTITIONED
    | named(Act.TRANSFER)
    | words("Grequest_start File_open Comm_spawn Comm_spawn_multiple Comm_accept Comm_connect Comm_join"
            " Session_init")
)  # fmt: skip
"""Calls of which something is under way that a stretch does not see, or whose analyses look at the whole run."""


@dataclass(frozen=True)
class Seen:
    """What one look at a rank's calls finds.

    `called`: ids of the functions. `candidates`: every `stride`-th collective at which a cut may be, of `many`.
    `earlier`: the calls that made persistent requests.
    """

    called: frozenset[int]
    candidates: NDArray[np.int64]
    stride: int
    many: int
    earlier: NDArray[np.int64]
    calls: int


@dataclass(frozen=True)
class Cuts:
    """The moments at which a run may be cut: `at[k][r]` is how many calls of rank r are before the k-th.

    The first is the start of the run, the last its end. `carried` holds by moment, where there are such, and by rank
    the calls before it whose messages belong behind it (closed.py).
    """

    run: Trace
    at: NDArray[np.int64]
    earlier: Sequence[NDArray[np.int64]]
    called: frozenset[int]
    carried: Mapping[int, Sequence[NDArray[np.int64]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at) - 1

    def stretch(self, low: int, high: int) -> Stretch:
        """The calls between two of the moments."""
        return self.between(self.at[low], self.at[high], self.carried.get(low, ()), self.carried.get(high, ()))

    def between(
        self, begin: NDArray[np.int64], end: NDArray[np.int64], into: Sequence[NDArray[np.int64]] = (),
        out: Sequence[NDArray[np.int64]] = (),
    ) -> Stretch:  # fmt: skip
        """The calls from some on up to before others, one a rank, with what is carried into them and out of them."""
        first, last = begin.tolist(), end.tolist()
        before = [made[: int(np.searchsorted(made, f))] for made, f in zip(self.earlier, first, strict=True)]
        if into:
            before = [np.union1d(made, more) for made, more in zip(before, into, strict=True)]
        return Stretch(self.run, first, last, before if any(map(len, before)) else (), out)

    def of(self, event: tuple[int, int]) -> int:
        """The last moment that is not behind an event, or over which it is carried."""
        rank, index = event
        place = min(int(np.searchsorted(self.at[:, rank], index, side="right")) - 1, len(self) - 1)
        while place + 1 in self.carried and index in self.carried[place + 1][rank]:
            place += 1
        return place


def worth_cutting(trace: Trace, least: int = STRETCH) -> bool:
    """Whether a run is long, and of a kind that can be cut up."""
    if any(rank.file is None for rank in trace.ranks) or len(trace.ranks) < 2:
        return False
    return trace.event_count >= 2 * apart(least, len(trace.ranks)) and divisible(trace)


def apart(least: int, ranks: int) -> int:
    """How many calls of all ranks lie between two cuts, about."""
    return max(least, A_RANK * ranks)


def look(rank: Rank) -> Seen:
    """Look through the calls of a rank once, a part at a time."""
    trace = rank.trace
    # Neither the catalogue of the whole rank nor its columns are made: they would be as long as the run.
    table = masks(trace.functions).table(_GATHERINGS)
    makes = masks(trace.functions).table(_EARLIER)
    events, counts = rank.events, np.zeros(65536, np.int64)
    found: list[NDArray[np.int64]] = []
    earlier: list[NDArray[np.int64]] = [NOTHING]
    stride, many = 1, 0
    for start in range(0, len(events), _PART):
        part = events[start : start + _PART]
        function = np.empty(len(part), np.uint16)
        passes.catalogue(part, function, counts)
        if (rows := np.flatnonzero(makes[function])).size:
            earlier.append(rows + start)
        rows = np.flatnonzero(table[function])
        ok = (part["comm"][rows] == _WORLD) & (part["flags"][rows] & Flag.CLOSED != 0) & (part["error"][rows] == 0)
        rows = rows[ok]
        numbers = many + np.arange(len(rows))
        many += len(rows)
        found.append(rows[numbers % stride == stride - 1] + start)
        if sum(map(len, found)) > _MOST:
            stride, found = 2 * stride, [np.concatenate(found)[1::2]]
        let_go(part)
    candidates = np.concatenate([NOTHING, *found]) + 1
    called = frozenset(np.flatnonzero(counts).tolist())
    return Seen(called, candidates, stride, many, np.concatenate(earlier), len(events))


def cuts(trace: Trace, seen: Sequence[Seen], least: int = STRETCH) -> Cuts | None:
    """The moments at which the run may be cut, `least` calls apart; None where there are none or it must stay whole."""
    called = frozenset[int]().union(*(one.called for one in seen))
    if called.intersection(masks(trace.functions).ids(_UNDIVIDED)):
        return None
    stride = max(one.stride for one in seen)
    many = min(one.many for one in seen) // stride
    if not many:
        return None
    at = np.stack([one.candidates[stride // one.stride - 1 :: stride // one.stride][:many] for one in seen], axis=1)
    total = at.sum(axis=1)
    ends = np.array([one.calls for one in seen], np.int64)
    wanted = apart(least, len(seen))
    chosen, before = [], 0
    for k in range(len(at)):
        if total[k] - before >= wanted and ends.sum() - total[k] >= wanted // 2:
            chosen.append(k)
            before = int(total[k])
    if not chosen:
        return None
    rows = [np.zeros(len(seen), np.int64), *at[chosen], ends]
    return Cuts(trace, np.stack(rows), [one.earlier for one in seen], called)
