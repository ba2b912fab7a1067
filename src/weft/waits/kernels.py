"""The C side of waits (native/kernel/waits.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.match import Posts
from weft.native.headers import waits as c_waits
from weft.native.headers.times import AXIS
from weft.native.headers.waits import Clocks, LateMembers, Messages, Span, kernel
from weft.trace import Rank
from weft.trace.clock import MOST_NS

Ints = NDArray[np.int64]

NO_ROW = 0xFFFFFFFF


class Found:
    """The waits found so far, in arrays with room for `room` of them."""

    def __init__(self, events: int, room: int) -> None:
        self._best = np.full(events, NO_ROW, np.uint32)
        self._columns = tuple(np.empty(room, np.int64) for _ in range(3))
        self._cause = np.empty(room, np.uint8)
        waiter, cost, culprit = self._columns
        self.view = c_waits.Found(
            best=self._best, waiter=waiter, cost=cost, culprit=culprit, cause=self._cause, found=0
        )

    def columns(self) -> tuple[Ints, Ints, Ints, NDArray[np.uint8]]:
        """Return four parallel arrays for the waits that cost time: the waiting calls, the ns, the late calls, and the
        causes.
        """
        found = int(self.view.found)
        kept = np.flatnonzero(self._columns[1][:found] > 0)
        waiter, cost, culprit = (column[kept] for column in self._columns)
        return waiter, cost, culprit, self._cause[kept]


def fill_times(rank: Rank, enter: Ints, leave: Ints) -> None:
    """Write the times (ns) at which a rank's events began and ended into two arrays."""
    kernel().weft_convert_times(np.ascontiguousarray(rank.events), len(rank.events), axes([rank]), enter, leave)


def axes(ranks: Sequence[Rank]) -> NDArray[np.void]:
    """Return the clocks of some ranks as a table for C."""
    of = [(rank.axis.start, rank.axis.origin, rank.axis.length, MOST_NS) for rank in ranks]
    return np.array(of, AXIS)


def sum_times(rank: Rank, blocks: NDArray[np.uint8], causes: NDArray[np.uint8], count: int) -> tuple[Span, Ints]:
    """Return the totals of a rank's times, and an array with the ns inside its calls for each of `count` causes."""
    events, found, inside = np.ascontiguousarray(rank.events), Span(), np.zeros(count, np.int64)
    kernel().weft_summarise_times(events, len(events), axes([rank]), blocks, causes, found, inside)
    return found, inside


class Surroundings(NamedTuple):
    """What all ranks' messages are read with: causes.blocks, and the number of each rank's host."""

    blocks: NDArray[np.uint8]
    host: NDArray[np.int32]


def make_messages(mine: Posts, theirs: Posts, around: Surroundings, sizes: list[Ints]) -> list[Messages]:
    """Return the messages of each rank as structures for the C kernel. The caller must keep the arrays alive. No
    standard send is taken to wait until `rendezvous` is set.
    """
    most = int(np.iinfo(np.int64).max)
    given = Messages(
        rank=0, size_count=0, first=mine.first, event=mine.event, args=mine.args, completion=mine.completion,
        partner=mine.partner, their_event=theirs.event, their_args=theirs.args, peer=mine.peer, flags=mine.flags,
        their_flags=theirs.flags, blocks=around.blocks, host=around.host, sizes=None, rendezvous=(most, most),
    )  # fmt: skip
    return [given.copy_with(rank=rank, size_count=len(table), sizes=table) for rank, table in enumerate(sizes)]


def late_senders(clocks: Clocks, given: Messages, found: Found) -> None:
    """Add the waits of one rank for late senders to `found`, computed in C."""
    kernel().weft_find_late_senders(clocks, given, found.view)


def late_receivers(clocks: Clocks, given: Messages, found: Found) -> None:
    """Add the waits of one rank for late receivers to `found`, computed in C."""
    kernel().weft_find_late_receivers(clocks, given, found.view)


def late_members(clocks: Clocks, given: LateMembers, found: Found) -> None:
    """Add the waits for late members of collectives to `found`, computed in C."""
    kernel().weft_find_late_members(clocks, given, found.view)


def find_blocked_sends(clocks: Clocks, sends: Messages, recvs: Messages, eager: Ints, room: int) -> Ints:
    """Return the sizes of one rank's standard sends that clearly waited for their receive, as bytes * 2, plus 1 between
    hosts. Also raises `eager`, the largest sizes of sends that did not wait. `room`: the most sends that there can be.
    """
    blocked = np.empty(room, np.int64)
    found = kernel().weft_learn_protocol(clocks, sends, recvs, eager, blocked)
    if found < 0:
        raise MemoryError("not enough memory to find which sends waited for their receive")
    return blocked[:found].copy()
