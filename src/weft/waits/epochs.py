"""Waiting in general active target synchronisation (MPI-4.1, 12.5.2): late posts and early waits.

The n-th access epoch in which an origin names a target belongs to the n-th exposure epoch in which the target names
the origin. MPI may hold the origin in MPI_Win_start or only in MPI_Win_complete: the one that was there when the last
target posted waited. MPI_Win_wait waits for the last origin's MPI_Win_complete.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from weft.mpi.meaning import Sync
from weft.plain import dataclass
from weft.terms import calls
from weft.terms.calls import masks
from weft.terms.windows import Window, group_members, window_of
from weft.trace import Rank, Trace
from weft.waits.causes import Cause
from weft.waits.clockwork import Clockwork
from weft.waits.kernels import Ints

_CALLS = calls.syncs(Sync.START, Sync.COMPLETE, Sync.POST, Sync.WAIT)


@dataclass
class _Epoch:
    """An access or exposure epoch: its two calls as places, -1 while one is missing, and whom it names."""

    opened: int
    others: tuple[int, ...]
    closed: int = -1


@dataclass
class _Epochs:
    """Those of a rank on a window, in order; `about[other]`: those that name it."""

    about: dict[int, list[_Epoch]] = field(default_factory=lambda: defaultdict(list))
    every: list[_Epoch] = field(default_factory=list)

    def begin(self, place: int, others: tuple[int, ...]) -> None:
        epoch = _Epoch(place, others)
        self.every.append(epoch)
        for other in others:
            self.about[other].append(epoch)

    def end(self, place: int) -> None:
        if self.every and self.every[-1].closed < 0:
            self.every[-1].closed = place


_Key = tuple[int, Window]


def late_epochs(trace: Trace, clock: Clockwork) -> tuple[Ints, Ints, Ints, NDArray[np.uint8]]:
    """The waits of access and exposure epochs as columns: places that waited, ns, places that were late, causes."""
    access: dict[_Key, _Epochs] = defaultdict(_Epochs)
    exposure: dict[_Key, _Epochs] = defaultdict(_Epochs)
    for rank in trace.ranks:
        _read(rank, int(clock.first[rank.index]), access, exposure)
    found: list[tuple[int, int, int, int]] = []
    for key, epochs in access.items():
        for epoch, partners in _partnered(key, epochs, exposure):
            posts = [-1 if post is None else post.opened for post in partners]
            found += _waits(clock, (epoch.opened, epoch.closed), posts, Cause.LATE_POST)
    for key, epochs in exposure.items():
        for epoch, partners in _partnered(key, epochs, access):
            completes = [-1 if origin is None else origin.closed for origin in partners]
            found += _waits(clock, (epoch.closed,), completes, Cause.EARLY_WAIT)
    columns = np.array(found, np.int64).reshape(-1, 4)
    return columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3].astype(np.uint8)


def _read(rank: Rank, first: int, access: dict[_Key, _Epochs], exposure: dict[_Key, _Epochs]) -> None:
    """Sort the rank's epochs by window."""
    of = masks(rank.trace.functions)
    for index in of.where(rank, _CALLS).tolist():
        event = rank.event(index)
        window = window_of(rank, event.object)
        if window is None or event.error:
            continue
        name = of.name(event.function.id)
        epochs = (access if name in ("Win_start", "Win_complete") else exposure)[rank.index, window]
        if "group" in event.args:
            epochs.begin(first + index, group_members(rank, event.args["group"]))
        else:
            epochs.end(first + index)


def _partnered(key: _Key, epochs: _Epochs, theirs: dict[_Key, _Epochs]) -> list[tuple[_Epoch, list[_Epoch | None]]]:
    """Each epoch with those on the other side, None for one that the record does not hold."""
    me, window = key
    seen: dict[int, int] = defaultdict(int)
    found = []
    for epoch in epochs.every:
        partners: list[_Epoch | None] = []
        for other in epoch.others:
            about = theirs[other, window].about[me] if (other, window) in theirs else []
            partners.append(about[seen[other]] if seen[other] < len(about) else None)
            seen[other] += 1
        found.append((epoch, partners))
    return found


def _waits(
    clock: Clockwork, calls: tuple[int, ...], needed: list[int], cause: Cause
) -> list[tuple[int, int, int, int]]:
    """Which of the calls waited for the last of those that they need; one that returned before it came did not."""
    known = [place for place in needed if place >= 0]
    if len(known) < len(needed) or not known:
        return []
    last = max(known, key=lambda place: clock.times(place)[0])
    at = clock.times(last)[0]
    found = []
    for place in calls:
        if place < 0:
            continue
        enter, leave = clock.times(place)
        if enter < at <= leave:
            found.append((place, at - enter, last, int(cause)))
    return found
