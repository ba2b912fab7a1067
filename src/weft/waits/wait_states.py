"""Find the waits of a run: which call waited for which, how long and why. All reports of waiting are made from
these.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import Match
from weft.native.headers.waits import LateMembers
from weft.trace import Trace
from weft.waits import kernels
from weft.waits.causes import LATE, Cause, blocking_table, late_table
from weft.waits.eager_limits import NEVER, datatype_sizes, find_eager_limits, host_numbers
from weft.waits.event_times import EventTimes
from weft.waits.kernels import Found, Ints
from weft.waits.late_epochs import find_late_epochs

_KEY: Final = "weft.waits"

_OF_WINDOWS: Final = (Cause.WAIT_AT_FENCE, Cause.LATE_POST, Cause.EARLY_WAIT)
"""What waits for these is a call of Cause.ONE_SIDED; all other waits are in calls that are else Cause.REST."""


@dataclass(frozen=True)
class WaitRows:
    """Waits as columns of equal length: the call that waited, ns, the call that was late (indices in the row of all
    events), and the Cause.

    A call has at most one row of a late cause, and at most one of COMPLETION, whose culprit is the call itself.
    """

    waiter: Ints
    ns: Ints
    culprit: Ints
    cause: NDArray[np.uint8]

    def with_causes(self, *causes: Cause) -> WaitRows:
        """Return only the waits that have one of these causes."""
        wanted = np.zeros(len(Cause), np.bool_)
        wanted[list(causes)] = True
        kept = wanted[self.cause]
        return WaitRows(self.waiter[kept], self.ns[kept], self.culprit[kept], self.cause[kept])

    def __len__(self) -> int:
        return len(self.waiter)


class Waiting:
    """All waits of a run, and how the time in MPI divides into causes."""

    def __init__(self, trace: Trace, match: Match) -> None:
        self.trace, self.match = trace, match
        self.clock = EventTimes(trace)
        self.limits = (NEVER, NEVER)
        """Bytes from which on standard sends waited for their receive, on one host and between two; set by `rows`."""
        self.blocked = False
        """Whether standard sends were seen that may have waited for their receive; set likewise."""
        self._around = kernels.Surroundings(blocking_table(trace.functions), host_numbers(trace))

    @cached_property
    def rows(self) -> WaitRows:
        """Return every wait of the run."""
        match, clock = self.match, self.clock
        room = len(match.sends) + 2 * len(match.recvs) + len(match.probes) + 2 * len(match.collectives)
        found = Found(int(clock.first[-1]), room)
        self._find_late_messages(found)
        self._find_late_members(found)
        waiter, ns, culprit, cause = found.columns()
        epochs = find_late_epochs(self.trace, clock)
        if not len(epochs[0]):
            return WaitRows(waiter, ns, culprit, cause)
        waiter, ns, culprit = (np.concatenate([a, b]) for a, b in zip((waiter, ns, culprit), epochs[:3], strict=True))
        return WaitRows(waiter, ns, culprit, np.concatenate([cause, epochs[3]]))

    @cached_property
    def late(self) -> WaitRows:
        """Return the waits for somebody who was late."""
        return self.rows.with_causes(*LATE)

    def _find_late_messages(self, found: Found) -> None:
        """Find the waits for late senders and late receivers, and add them to `found`. Also sets the sizes from which
        on sends wait.
        """
        match, clocks = self.match, self.clock.clocks
        sizes = datatype_sizes(self.trace)

        recvs, sends, probes = (
            kernels.make_messages(mine, theirs, self._around, sizes)
            for mine, theirs in ((match.recvs, match.sends), (match.sends, match.recvs), (match.probes, match.sends))
        )
        for of_rank in (*recvs, *probes):
            kernels.late_senders(clocks, of_rank, found)
        *of, self.blocked = find_eager_limits(self.clock, match, sends, recvs)
        self.limits = of[0], of[1]
        for of_rank in sends:
            of_rank.rendezvous[:] = self.limits
            kernels.late_receivers(clocks, of_rank, found)

    def _find_late_members(self, found: Found) -> None:
        """Find the waits for late members of collectives, and add them to `found`."""
        parts, of, trace = self.match.collectives, self.match.instances, self.trace
        if not len(of):
            return
        groups = [() if c.inter else c.members for c in trace.communicators]
        member_first = np.concatenate([[0], np.cumsum([len(g) for g in groups])]).astype(np.int64)
        members = np.fromiter((m for group in groups for m in group), np.int32, int(member_first[-1]))
        place = np.full(len(trace.ranks), kernels.NO_ROW, np.uint32)
        given = LateMembers(
            instances=len(of), first=of.first, rows=of.rows, rank=parts.ranks(), event=parts.event,
            completion=parts.completion, function=parts.function, sort=late_table(trace.functions), comm=of.comm,
            member_first=member_first, members=members, blocks=self._around.blocks, host=self._around.host, place=place,
        )  # fmt: skip
        kernels.late_members(self.clock.clocks, given, found)

    @cached_property
    def by_rank(self) -> Ints:
        """Return the ns in MPI of each rank (row) by Cause (column). The sum of a row is all the rank's time in MPI."""
        clock, rows = self.clock, self.rows
        found = clock.inside.copy()
        found[:, Cause.POLLING] = [span.polling for span in clock.spans]
        key = clock.ranks_of(rows.waiter) * len(Cause) + rows.cause
        waited = np.bincount(key, weights=rows.ns, minlength=found.size).astype(np.int64).reshape(found.shape)
        of_windows = waited[:, list(_OF_WINDOWS)].sum(axis=1)
        found[:, Cause.ONE_SIDED] -= of_windows
        found[:, Cause.REST] -= waited.sum(axis=1) - of_windows
        return found + waited

    def waiting_ns_by_event(self) -> Ints:
        """Return, for each event of the run, the ns that it waited for a late call of another rank."""
        total = np.zeros(int(self.clock.first[-1]), np.int64)
        total[self.late.waiter] = self.late.ns
        return total


def waits_of_run(trace: Trace, match: Match) -> Waiting:
    """Return all waits of a matched run. They are computed at the first request and stored with the match."""
    found = match.made.get(_KEY)
    if not isinstance(found, Waiting):
        found = match.made[_KEY] = Waiting(trace, match)
    return found
