"""Counts what calls that the rings of a run dropped (`weft run --keep`) sent, received and took part in, by channel.

The record counts them by sort: function, communicator, peer, tag, and how they came out (native/format.h, RINGS). That
settles sends, named receives, blocking wildcards, matched probes and collectives on communicators. The message that an
MPI_Sendrecv or a wildcard MPI_Irecv took has a row of its own (RECEIVED), once it is there. Where neither says what a
call took, its communicator is unsettled for all ranks: nothing is claimed of messages on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.match.functions import Op, Post, Spec, classify_functions
from weft.match.operations import NONE, Collectives, Operations, Posts
from weft.trace import Communicator, Flag, Rank, Trace
from weft.trace.layout import DROPPED_RECEIVED
from weft.trace.rings.suffix import Suffix

Rows = TypeVar("Rows", Posts, Collectives)
Mask = NDArray[np.bool_]

_REFUSED: Final = 6
"""Classes of errors up to here are refusals in every MPI: nothing was posted (native/kernel/extract.c)."""
_ALL_UNSETTLED: Final = (Op.SEND_INIT, Op.RECV_INIT, Op.COLL_INIT, Op.START, Op.STARTALL, Op.CANCEL)
"""The sorts of these do not say on which communicator a message was."""
_WILD: Final = Flag.ANY_SOURCE | Flag.ANY_TAG


class Channel(NamedTuple):
    """Messages of one tag from one rank to another in a communicator, all by index."""

    comm: int
    source: int
    receiver: int
    tag: int


def dropped_operations(trace: Trace) -> DroppedOperations | None:
    """Return the messages and collectives of a run's dropped calls; None if no calls were dropped."""
    suffix = trace.suffix
    return None if suffix is None else suffix.derive_once(DroppedOperations, lambda: DroppedOperations(trace, suffix))


class DroppedOperations:
    """The messages and collectives of the dropped calls of all ranks, as far as these can be told apart."""

    def __init__(self, trace: Trace, suffix: Suffix) -> None:
        self.trace, self.suffix = trace, suffix
        self.sent: Counter[Channel] = Counter()
        self.received: Counter[Channel] = Counter()
        self.unsettled: set[int] = set()
        """Indices of communicators on which messages cannot be counted."""
        self._sorts: dict[int, tuple[NDArray[Any], bool]] = {}
        """The sorts of each rank's dropped calls, and whether these are all."""
        self._open: Counter[int] = Counter()
        """By communicator how many receives of the rank that is read have no row that says which message they took."""
        for rank in trace.ranks:
            self._add_dropped_calls_of(rank)

    def count_collectives(self, rank: Rank, comm: Communicator) -> int | None:
        """Return how many collectives on a communicator are among a rank's dropped calls, without those that MPI
        refused. None if some dropped calls were not counted by sort.
        """
        specs = classify_functions(self.trace.functions).specs
        is_collective = np.zeros(1 << 16, np.bool_)
        is_collective[: len(specs)] = specs["op"] == int(Op.COLL)
        return self._count_sorts(rank, comm, is_collective, lambda error: (error < 1) | (error > _REFUSED))

    def count_calls(self, rank: Rank, comm: Communicator, functions: Mask) -> int | None:
        """Return how many of a rank's dropped calls on a communicator succeeded and call one of `functions` (a mask by
        id). None if some were not counted by sort.
        """
        return self._count_sorts(rank, comm, functions, lambda error: error == 0)

    def _count_sorts(
        self, rank: Rank, comm: Communicator, functions: Mask, with_error: Callable[[NDArray[np.uint8]], Mask]
    ) -> int | None:
        """Return how many of a rank's dropped calls are on a communicator and fit `functions` and `with_error`. None if
        some dropped calls were not counted by sort.
        """
        sorts, is_all = self._sorts[rank.index]
        local = comm.local_ids.get(rank.index)
        if not is_all:
            return None
        if local is None or not len(sorts):
            return 0
        here = (sorts["comm"] == local) & functions[sorts["function"]] & with_error(sorts["error"])
        return int(sorts["count"][here].sum())

    @cached_property
    def surplus(self) -> dict[Channel, int]:
        """Return how many more messages were sent than received by dropped calls, for each channel where the numbers
        differ. Communicators whose numbers are not certain are left out.
        """
        channels = {*self.sent, *self.received}
        surplus = {channel: self.sent[channel] - self.received[channel] for channel in channels}
        return {channel: n for channel, n in surplus.items() if n and channel.comm not in self.unsettled}

    def _add_dropped_calls_of(self, rank: Rank) -> None:
        """Add the messages that a rank's dropped calls sent and received to the counts, and keep its sorts of calls."""
        sorts, uncounted = self.suffix.dropped_sorts(rank)
        self._sorts[rank.index] = sorts, not uncounted
        if uncounted:
            self._unsettle_all()
        specs = classify_functions(self.trace.functions).specs
        self._open.clear()
        for row in sorts:
            if row["function"] == DROPPED_RECEIVED:
                self._add_taken_message(rank, row)
            elif row["function"] < len(specs):
                spec = specs[row["function"]]
                self._add_sort(rank, row, Op(int(spec["op"])), Spec(int(spec["flags"])))
        self.unsettled.update(comm for comm, receives in self._open.items() if receives)
        if self._cancels_dropped(rank, specs):
            self._unsettle_all()

    def _cancels_dropped(self, rank: Rank, specs: NDArray[np.void]) -> bool:
        """Return whether a recorded call cancels a request that a dropped call made. The dropped receive was counted as
        having received a message, so that the counts may be wrong then.
        """
        events = rank.events
        known = specs[np.minimum(events["function"], len(specs) - 1)]
        made = events["object"][(known["flags"] & int(Spec.NONBLOCKING)) != 0]
        return bool((~np.isin(events["object"][known["op"] == int(Op.CANCEL)], made)).any())

    def _add_sort(self, rank: Rank, row: Any, op: Op, spec: Spec) -> None:
        """Add the messages of equal dropped calls to the counts. `row`: the sort of these calls (function,
        communicator, peer and so on) with their number.
        """
        if op in _ALL_UNSETTLED or spec & Spec.PARTITIONED:
            self._unsettle_all()
        if op not in (Op.SEND, Op.RECV, Op.SENDRECV, Op.MPROBE):
            return
        comm, flags, error = rank.comm(int(row["comm"])), int(row["flags"]), int(row["error"])
        if 0 < error <= _REFUSED or (op is Op.MPROBE and spec & Spec.FLAGGED and not flags & Flag.TRUE):
            return
        is_open = bool(spec & Spec.NONBLOCKING and flags & _WILD)
        if comm is None:
            self._unsettle_all()
            return
        if error or not flags & Flag.CLOSED or flags & Flag.CANCELLED:
            self.unsettled.add(comm.index)
            return
        if op is Op.SENDRECV or is_open:
            self._open[comm.index] += int(row["count"])
        if int(row["peer"]) >= 0 and not is_open:
            self._add_messages(rank, comm, row, sends=op in (Op.SEND, Op.SENDRECV))

    def _add_taken_message(self, rank: Rank, row: Any) -> None:
        """Add a message that a dropped receive took, if the sort of the call does not tell which one. `row`:
        communicator, peer and tag, with the number of messages.
        """
        comm = rank.comm(int(row["comm"]))
        if comm is None:
            self._unsettle_all()
            return
        self._open[comm.index] -= int(row["count"])
        if int(row["peer"]) >= 0:
            self._add_messages(rank, comm, row, sends=False)

    def _add_messages(self, rank: Rank, comm: Communicator, row: Any, *, sends: bool) -> None:
        """Add the number of a row to the messages sent or received on its channel."""
        peers, peer = comm.peers(rank.index), int(row["peer"])
        other = peers[peer] if peer < len(peers) else -1
        if other < 0:
            self.unsettled.add(comm.index)
            return
        ends = (rank.index, other) if sends else (other, rank.index)
        (self.sent if sends else self.received)[Channel(comm.index, *ends, int(row["tag"]))] += int(row["count"])

    def _unsettle_all(self) -> None:
        self.unsettled.update(range(len(self.trace.communicators)))


# The operations of the suffix


def select_pairable(operations: Operations, dropped: DroppedOperations) -> Operations:
    """Return the recorded operations whose partner cannot be among the calls that the ring buffers dropped.

    If the dropped calls sent n more messages on a channel than they received, the first n receives took these messages.
    If they received more, the first sends went to receives that had been posted before.
    """
    of, unsettled = operations, list(dropped.unsettled)
    sends, recvs, probes = (~np.isin(rows.comm, unsettled) for rows in (of.sends, of.recvs, of.probes))
    for channel, surplus in dropped.surplus.items():
        if surplus < 0:
            sends[_rows_on_channel(of.sends, channel.source, channel, channel.receiver)[:-surplus]] = False
            continue
        took = _rows_on_channel(of.recvs, channel.receiver, channel, channel.source)[:surplus]
        recvs[took] = False
        # A probe saw such a message until the last of them was taken.
        asked = _rows_on_channel(of.probes, channel.receiver, channel, channel.source)
        last = int(of.recvs.event[took[-1]]) if len(took) == surplus else NONE
        probes[asked[of.probes.event[asked] <= last]] = False
        if len(took) < surplus:  # a receive of anything may wait for what is left of these
            recvs[_rows_of_undecided_wildcards(of.recvs, channel)] = False
            probes[_rows_of_undecided_wildcards(of.probes, channel)] = False
    colls = _select_complete_collectives(dropped, of.collectives)
    return Operations(
        _select_rows(of.sends, sends), _select_rows(of.recvs, recvs), _select_rows(of.probes, probes), colls
    )


def _rows_on_channel(posts: Posts, rank: int, channel: Channel, other_rank: int) -> NDArray[np.int64]:
    """Return the rows of a rank's sends, receives or probes on one channel with another rank, in their order."""
    part = posts.of_rank(rank)
    here = (posts.comm[part] == channel.comm) & (posts.peer[part] == other_rank) & (posts.tag[part] == channel.tag)
    return np.int64(part.start) + np.flatnonzero(here & ((posts.flags[part] & Post.UNDECIDED) == 0))


def _rows_of_undecided_wildcards(posts: Posts, channel: Channel) -> NDArray[np.int64]:
    """Return the rows of the channel's receiver that may take a message of any channel of the communicator: wildcards
    with an unknown result.
    """
    part = posts.of_rank(channel.receiver)
    here = (posts.comm[part] == channel.comm) & ((posts.flags[part] & Post.UNDECIDED) != 0)
    return np.int64(part.start) + np.flatnonzero(here)


def _select_rows(rows: Rows, which: Mask) -> Rows:
    """Return the rows that a mask selects, as a table in which the begin of each rank's rows is adjusted."""
    if which.all():
        return rows
    counts = [int(np.count_nonzero(which[rows.of_rank(rank)])) for rank in range(len(rows.first) - 1)]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    columns = {column.name: getattr(rows, column.name)[which] for column in fields(rows) if column.name != "first"}
    return type(rows)(first=first, **columns)


def _select_complete_collectives(dropped: DroppedOperations, colls: Collectives) -> Collectives:
    """Return the collectives from the first one on that all members recorded. Their numbers count from this one.

    If it is not known how many calls a member dropped, no collective of the communicator is returned.
    """
    trace = dropped.trace
    top, ranks = colls.parent == NONE, colls.ranks()
    which = np.ones(len(colls), np.bool_)
    for index in np.unique(colls.comm[top]).tolist():
        comm = trace.communicators[index]
        everyone = {*comm.members, *comm.remote_members} - {-1}
        members = [rank for rank in (trace.ranks[member] for member in everyone) if not rank.missing]
        before = {rank.index: dropped.count_collectives(rank, comm) for rank in members}
        here = top & (colls.comm == index)
        counted = [n for n in before.values() if n is not None]
        if len(counted) < len(before):
            which[here] = False
            continue
        later = np.zeros(len(trace.ranks), np.int64)
        for rank, n in before.items():
            later[rank] = (n or 0) - max(counted, default=0)
        ordinal = colls.ordinal[here].astype(np.int64) + later[ranks[here]]
        which[here] = ordinal >= 0
        colls.ordinal[here] = np.maximum(ordinal, 0)
    below = np.flatnonzero(~top)
    for row in below.tolist():  # a parent comes before the calls on it
        which[row] = which[colls.parent[row]]
    moved = np.cumsum(which) - 1
    colls.parent[below] = np.where(which[below], moved[colls.parent[below]], colls.parent[below])
    return _select_rows(colls, which)
