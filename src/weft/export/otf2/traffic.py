"""The messages of a rank as OTF2 has them: a record where one is sent or asked for, and one where it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import BLOCK, Block, Ints
from weft.export.otf2.definitions import NOTHING, ranks_in
from weft.export.otf2.rows import BEGUN, DONE, Kind, Records
from weft.export.output import Shelf
from weft.match import NONE, Operations, Post, Posts
from weft.terms.run_extent import Extent
from weft.trace import Rank, Trace

_LATER: Final = Post.NONBLOCKING | Post.PERSISTENT


class Sorted(NamedTuple):
    """Rows by the call at which something happens to them; `event` ascends."""

    event: Ints
    row: Ints

    def of(self, block: Block) -> tuple[Ints, Ints]:
        """(place in the block, row) of those in a block of calls that follow each other."""
        part = slice(*np.searchsorted(self.event, (int(block.index[0]), int(block.index[-1]) + 1)).tolist())
        return self.event[part] - int(block.index[0]), self.row[part]


def by_event(event: NDArray[np.uint32], row: Ints) -> Sorted:
    """The rows in order of their events, without those that have none."""
    known = np.flatnonzero(event != NONE)
    order = known[np.argsort(event[known], kind="stable")]
    return Sorted(event[order].astype(np.int64), row[order])


class Traffic:
    """The operations of a run, and how many bytes every message had."""

    def __init__(self, trace: Trace, of: Operations, run: Extent, beside: Path) -> None:
        self.trace, self.of = trace, of
        # A receive tells how much came only in a status that may lie far off: what was sent is what came.
        self.bytes: Ints = Shelf(beside.parent).room(len(of.sends), np.int64)
        for rank in trace.ranks:
            part = of.sends.of_rank(rank.index)
            for start in range(part.start, part.stop, BLOCK):
                rows = slice(start, min(start + BLOCK, part.stop))
                known = np.flatnonzero(of.sends.args[rows] != NONE)
                calls = Block(rank, of.sends.args[rows][known].astype(np.int64), run)
                self.bytes[rows][known] = np.maximum(calls.bytes, 0)

    def of_rank(self, rank: Rank) -> RankTraffic:
        """What one rank sends and receives."""
        return RankTraffic(rank, self)


class RankTraffic:
    """What one rank sends and receives, in the order of its calls."""

    def __init__(self, rank: Rank, traffic: Traffic) -> None:
        self.rank, self._traffic = rank, traffic
        self.sends, self.recvs, self.collectives = traffic.of.sends, traffic.of.recvs, traffic.of.collectives
        self._trace = traffic.trace
        part = self.sends.of_rank(rank.index)
        rows, flags = np.arange(part.start, part.stop), self.sends.flags[part]
        self._sent = by_event(self.sends.event[part], rows)
        later = (flags & _LATER) != 0
        self._send_done = by_event(self.sends.completion[part][later], rows[later])
        self._post_recvs(rank)

    def _post_recvs(self, rank: Rank) -> None:
        part = self.recvs.of_rank(rank.index)
        rows, flags = np.arange(part.start, part.stop), self.recvs.flags[part]
        self._recv_done = by_event(self.recvs.completion[part], rows)
        # A message that a probe took is asked for by the Imrecv, and not before.
        probed = (flags & Post.MATCHED_PROBE) != 0
        asked = np.where(probed, self.recvs.args[part], self.recvs.event[part])
        later = (flags & _LATER) != 0
        self._asked = by_event(asked[later], rows[later])

    def rows(self, block: Block) -> list[Records]:
        """The records of messages in a block."""
        return [self._sends(block), self._sends_done(block), self._requests(block), self._received(block)]

    def _sends(self, block: Block) -> Records:
        place, row = self._sent.of(block)
        later = (self.sends.flags[row] & _LATER) != 0
        made = Records(place, BEGUN, np.where(later, Kind.ISEND, Kind.SEND))
        return made.fill(self._partners(self.sends, row), self._traffic.bytes[row], row)

    def _sends_done(self, block: Block) -> Records:
        place, row = self._send_done.of(block)
        return Records(place, DONE, Kind.ISEND_COMPLETE, id=row)

    def _requests(self, block: Block) -> Records:
        place, row = self._asked.of(block)
        return Records(place, BEGUN, Kind.IRECV_REQUEST, id=row)

    def _received(self, block: Block) -> Records:
        place, row = self._recv_done.of(block)
        later = (self.recvs.flags[row] & _LATER) != 0
        partner = self.recvs.partner[row]
        taken = partner != NONE
        size = np.zeros(len(row), np.int64)
        size[taken] = self._traffic.bytes[partner[taken]]
        made = Records(place, DONE, np.where(later, Kind.IRECV, Kind.RECV))
        return made.fill(self._partners(self.recvs, row), size, row)

    def _partners(self, posts: Posts, row: Ints) -> tuple[Ints, Ints, Ints]:
        """Rank of the other side in the communicator, the communicator and the tag."""
        comm, peer = posts.comm[row], posts.peer[row]
        other = np.full(len(row), NOTHING, np.int64)
        for index in np.unique(comm[comm >= 0]).tolist():
            mine = np.flatnonzero((comm == index) & (peer >= 0))
            other[mine] = ranks_in(self._trace, index)[peer[mine]]
        return other, comm.astype(np.int64) & NOTHING, posts.tag[row].astype(np.int64) & NOTHING
