"""What the calls that a run no longer has (`weft run --keep`) sent, received and took part in, by channel.

The record counts them by sort: function, communicator, peer, tag, and how they came out (native/format.h, RINGS). That
settles sends, named receives, blocking wildcards, matched probes and collectives on communicators. What an MPI_Sendrecv
or a wildcard MPI_Irecv took is told beside (RECEIVED), once it is there. What neither tells leaves its communicator
unsettled, for all ranks: there nothing is claimed of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.match.functions import Op, Post, Spec, tables
from weft.match.operations import NONE, Collectives, Operations, Posts
from weft.trace import Communicator, Flag, Rank, Trace
from weft.trace.layout import DROPPED, DROPPED_RECEIVED

_REFUSED: Final = 6
"""Classes of errors up to here are refusals in every MPI: nothing was posted (native/kernel/extract.c)."""
_ALL_UNSETTLED: Final = (
    Op.SEND_INIT, Op.RECV_INIT, Op.COLL_INIT, Op.START, Op.STARTALL, Op.CANCEL,
)  # fmt: skip
"""Of these no sort tells the communicator of what they moved."""
_WILD: Final = Flag.ANY_SOURCE | Flag.ANY_TAG


class Channel(NamedTuple):
    """Messages of one tag from one rank to another in a communicator, all by index."""

    comm: int
    source: int
    receiver: int
    tag: int


def dropped_calls(trace: Trace) -> Before | None:
    """What the dropped calls of a run came to, None of a run that is whole."""
    kept = trace.kept
    if kept is None:
        return None
    found = kept.made.get(__name__) or Before(trace)
    assert isinstance(found, Before)
    kept.made[__name__] = found
    return found


class Before:
    """The dropped calls of all ranks, as far as they can be told apart."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.sent: Counter[Channel] = Counter()
        self.received: Counter[Channel] = Counter()
        self.unsettled: set[int] = set()
        """Indices of communicators on which messages cannot be counted."""
        self._rows: dict[int, tuple[NDArray[Any], bool]] = {}
        self._open: Counter[int] = Counter()
        """Of the rank at hand and each communicator, how many receives have a message that is not told."""
        for rank in trace.ranks:
            self._read(rank)

    def parts(self, rank: Rank, comm: Communicator) -> int | None:
        """How many collectives on a communicator a rank no longer has, whatever came of them but a refusal."""
        specs = tables(self.trace.functions).specs
        of_op = np.zeros(1 << 16, np.bool_)
        of_op[: len(specs)] = specs["op"] == int(Op.COLL)
        return self._counted(rank, comm, of_op, lambda error: (error < 1) | (error > _REFUSED))

    def collectives(self, rank: Rank, comm: Communicator, functions: NDArray[np.bool_]) -> int | None:
        """How many calls on a communicator of functions in a mask a rank no longer has; None where nobody counted."""
        return self._counted(rank, comm, functions, lambda error: error == 0)

    def _counted(
        self, rank: Rank, comm: Communicator, functions: NDArray[np.bool_],
        came: Callable[[NDArray[np.uint8]], NDArray[np.bool_]],
    ) -> int | None:  # fmt: skip
        rows, whole = self._rows[rank.index]
        local = comm.local_ids.get(rank.index)
        if not whole:
            return None
        if local is None or not len(rows):
            return 0
        here = (rows["comm"] == local) & functions[rows["function"]] & came(rows["error"])
        return int(rows["count"][here].sum())

    @cached_property
    def balance(self) -> dict[Channel, int]:
        """Of each channel, how many more were sent than received; without those that are level or unsettled."""
        channels = {*self.sent, *self.received}
        over = {channel: self.sent[channel] - self.received[channel] for channel in channels}
        return {channel: n for channel, n in over.items() if n and channel.comm not in self.unsettled}

    def _read(self, rank: Rank) -> None:
        kept = self.trace.kept
        rows, uncounted = kept.before(rank) if kept is not None else (np.zeros(0, DROPPED), 0)
        self._rows[rank.index] = rows, not uncounted
        if uncounted:
            self._unsettle()
        specs = tables(self.trace.functions).specs
        self._open.clear()
        for row in rows:
            if row["function"] == DROPPED_RECEIVED:
                self._told(rank, row)
            elif row["function"] < len(specs):
                spec = specs[row["function"]]
                self._take(rank, row, Op(int(spec["op"])), Spec(int(spec["flags"])))
        self.unsettled.update(comm for comm, receives in self._open.items() if receives)
        if kept is not None and self._recalls(rank, specs):
            self._unsettle()

    def _recalls(self, rank: Rank, specs: NDArray[np.void]) -> bool:
        """Whether a kept call cancels what a dropped one asked for: that was counted as received."""
        events = rank.events
        known = specs[np.minimum(events["function"], len(specs) - 1)]
        made = events["object"][(known["flags"] & int(Spec.NONBLOCKING)) != 0]
        return bool((~np.isin(events["object"][known["op"] == int(Op.CANCEL)], made)).any())

    def _take(self, rank: Rank, row: Any, op: Op, spec: Spec) -> None:
        if op in _ALL_UNSETTLED or spec & Spec.PARTITIONED:
            self._unsettle()
        if op not in (Op.SEND, Op.RECV, Op.SENDRECV, Op.MPROBE):
            return
        comm, flags, error = rank.comm(int(row["comm"])), int(row["flags"]), int(row["error"])
        if 0 < error <= _REFUSED or (op is Op.MPROBE and spec & Spec.FLAGGED and not flags & Flag.TRUE):
            return
        open_wild = bool(spec & Spec.NONBLOCKING and flags & _WILD)
        if comm is None:
            self._unsettle()
            return
        if error or not flags & Flag.CLOSED or flags & Flag.CANCELLED:
            self.unsettled.add(comm.index)
            return
        if op is Op.SENDRECV or open_wild:
            self._open[comm.index] += int(row["count"])
        if int(row["peer"]) >= 0 and not open_wild:
            self._count(rank, comm, row, sends=op in (Op.SEND, Op.SENDRECV))

    def _told(self, rank: Rank, row: Any) -> None:
        """A message that a receive took of which its sort does not say so."""
        comm = rank.comm(int(row["comm"]))
        if comm is None:
            self._unsettle()
            return
        self._open[comm.index] -= int(row["count"])
        if int(row["peer"]) >= 0:
            self._count(rank, comm, row, sends=False)

    def _count(self, rank: Rank, comm: Communicator, row: Any, *, sends: bool) -> None:
        peers, peer = comm.peers(rank.index), int(row["peer"])
        other = peers[peer] if peer < len(peers) else -1
        if other < 0:
            self.unsettled.add(comm.index)
            return
        ends = (rank.index, other) if sends else (other, rank.index)
        (self.sent if sends else self.received)[Channel(comm.index, *ends, int(row["tag"]))] += int(row["count"])

    def _unsettle(self) -> None:
        self.unsettled.update(range(len(self.trace.communicators)))


# The operations that are left

Rows = TypeVar("Rows", Posts, Collectives)
Mask = NDArray[np.bool_]


def paired_with_the_rest(before: Before, of: Operations) -> Operations:
    """The operations without those whose other side may be among the dropped calls.

    Of a channel on which n more were sent than received before, the first n receives took these messages; where more
    were received, the first sends went to receives that had been posted before.
    """
    sends, recvs, probes = (_settled(before, rows) for rows in (of.sends, of.recvs, of.probes))
    for channel, over in before.balance.items():
        if over < 0:
            sends[_on_channel(of.sends, channel.source, channel, channel.receiver)[:-over]] = False
            continue
        took = _on_channel(of.recvs, channel.receiver, channel, channel.source)[:over]
        recvs[took] = False
        # A probe saw such a message until the last of them was taken.
        asked = _on_channel(of.probes, channel.receiver, channel, channel.source)
        last = int(of.recvs.event[took[-1]]) if len(took) == over else NONE
        probes[asked[of.probes.event[asked] <= last]] = False
        if len(took) < over:  # what waits for anything may wait for what is left of these
            recvs[_undecided(of.recvs, channel)] = False
            probes[_undecided(of.probes, channel)] = False
    colls = _from_the_first_whole(before, of.collectives)
    return Operations(_taken(of.sends, sends), _taken(of.recvs, recvs), _taken(of.probes, probes), colls)


def _settled(before: Before, posts: Posts) -> Mask:
    return ~np.isin(posts.comm, list(before.unsettled))


def _on_channel(posts: Posts, rank: int, channel: Channel, other: int) -> NDArray[np.int64]:
    """Rows of a rank on a channel, in their order."""
    part = posts.of_rank(rank)
    here = (posts.comm[part] == channel.comm) & (posts.peer[part] == other) & (posts.tag[part] == channel.tag)
    return np.int64(part.start) + np.flatnonzero(here & ((posts.flags[part] & Post.UNDECIDED) == 0))


def _undecided(posts: Posts, channel: Channel) -> NDArray[np.int64]:
    part = posts.of_rank(channel.receiver)
    here = (posts.comm[part] == channel.comm) & ((posts.flags[part] & Post.UNDECIDED) != 0)
    return np.int64(part.start) + np.flatnonzero(here)


def _taken(rows: Rows, which: Mask) -> Rows:
    """The rows that a mask selects."""
    if which.all():
        return rows
    counts = [int(np.count_nonzero(which[rows.of_rank(rank)])) for rank in range(len(rows.first) - 1)]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    columns = {column.name: getattr(rows, column.name)[which] for column in fields(rows) if column.name != "first"}
    return type(rows)(first=first, **columns)


def _from_the_first_whole(before: Before, colls: Collectives) -> Collectives:
    """The collectives from the first on that is there of every member, counted from that one on.

    Where it is not known how many a member no longer has, none of a communicator.
    """
    trace = before.trace
    top, ranks = colls.parent == NONE, colls.ranks()
    which = np.ones(len(colls), np.bool_)
    for index in np.unique(colls.comm[top]).tolist():
        comm = trace.communicators[index]
        everyone = {*comm.members, *comm.remote_members} - {-1}
        members = [rank for rank in (trace.ranks[member] for member in everyone) if not rank.missing]
        ahead = {rank.index: before.parts(rank, comm) for rank in members}
        here = top & (colls.comm == index)
        counted = [n for n in ahead.values() if n is not None]
        if len(counted) < len(ahead):
            which[here] = False
            continue
        later = np.zeros(len(trace.ranks), np.int64)
        for rank, n in ahead.items():
            later[rank] = (n or 0) - max(counted, default=0)
        ordinal = colls.ordinal[here].astype(np.int64) + later[ranks[here]]
        which[here] = ordinal >= 0
        colls.ordinal[here] = np.maximum(ordinal, 0)
    below = np.flatnonzero(~top)
    for row in below.tolist():  # a parent stands in front of what is called on it
        which[row] = which[colls.parent[row]]
    moved = np.cumsum(which) - 1
    colls.parent[below] = np.where(which[below], moved[colls.parent[below]], colls.parent[below])
    return _taken(colls, which)
