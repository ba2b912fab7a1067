"""Make OTF2's records of messages: one where a message is sent or asked for, and one where it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import BLOCK, Block, Ints
from weft.export.otf2.definitions import NOTHING, make_member_table
from weft.export.otf2.record_rows import BEGUN, DONE, Kind, Records
from weft.export.output import FileColumns
from weft.match import NONE, Operations, Post, Posts
from weft.terms.run_extent import Extent
from weft.trace import Rank, Trace

_LATER: Final = Post.NONBLOCKING | Post.PERSISTENT


class EventRows(NamedTuple):
    """Rows with the call at which something happens to them; `event` ascends."""

    event: Ints
    row: Ints

    def rows_in_block(self, block: Block) -> tuple[Ints, Ints]:
        """Return two columns for the rows whose call lies in a block of calls without gaps: the call's place in the
        block, and the row.
        """
        part = slice(*np.searchsorted(self.event, (int(block.index[0]), int(block.index[-1]) + 1)).tolist())
        return self.event[part] - int(block.index[0]), self.row[part]


def sort_by_event(event: NDArray[np.uint32], row: Ints) -> EventRows:
    """Return rows of the match with their event indices, sorted by event. Rows without an event are left out."""
    known = np.flatnonzero(event != NONE)
    order = known[np.argsort(event[known], kind="stable")]
    return EventRows(event[order].astype(np.int64), row[order])


class MessageTraffic:
    """The operations of a run, and the bytes of every message."""

    def __init__(self, trace: Trace, of: Operations, run: Extent, beside: Path) -> None:
        self.trace, self.of = trace, of
        # A receive tells how much came only in a status that may lie far off: what was sent is what came.
        self.bytes: Ints = FileColumns(beside.parent).allocate(len(of.sends), np.int64)
        for rank in trace.ranks:
            part = of.sends.of_rank(rank.index)
            for start in range(part.start, part.stop, BLOCK):
                rows = slice(start, min(start + BLOCK, part.stop))
                known = np.flatnonzero(of.sends.args[rows] != NONE)
                calls = Block(rank, of.sends.args[rows][known].astype(np.int64), run)
                self.bytes[rows][known] = np.maximum(calls.bytes, 0)

    def of_rank(self, rank: Rank) -> RankTraffic:
        """Return the messages of one rank."""
        return RankTraffic(rank, self)


class RankTraffic:
    """The messages that one rank sends and receives, in the order of its calls."""

    def __init__(self, rank: Rank, traffic: MessageTraffic) -> None:
        self.rank, self._traffic = rank, traffic
        self.sends, self.recvs, self.collectives = traffic.of.sends, traffic.of.recvs, traffic.of.collectives
        self._trace = traffic.trace
        part = self.sends.of_rank(rank.index)
        rows, flags = np.arange(part.start, part.stop), self.sends.flags[part]
        self._sent = sort_by_event(self.sends.event[part], rows)
        later = (flags & _LATER) != 0
        self._send_done = sort_by_event(self.sends.completion[part][later], rows[later])
        self._sort_receives(rank)

    def _sort_receives(self, rank: Rank) -> None:
        """Prepare the rank's receives for lookup in two orders: by the call that completes them, and by the call that
        starts them (for nonblocking ones only).
        """
        part = self.recvs.of_rank(rank.index)
        rows, flags = np.arange(part.start, part.stop), self.recvs.flags[part]
        self._recv_done = sort_by_event(self.recvs.completion[part], rows)
        # A message that a probe took is asked for by the Imrecv, and not before.
        probed = (flags & Post.MATCHED_PROBE) != 0
        asked = np.where(probed, self.recvs.args[part], self.recvs.event[part])
        later = (flags & _LATER) != 0
        self._asked = sort_by_event(asked[later], rows[later])

    def block_records(self, block: Block) -> list[Records]:
        """Return OTF2's records for the messages in a block of calls."""
        return [
            self._make_send_records(block),
            self._send_completion_records(block),
            self._receive_request_records(block),
            self._make_receive_records(block),
        ]

    def _make_send_records(self, block: Block) -> Records:
        """Return the records of the sends in a block of calls."""
        place, row = self._sent.rows_in_block(block)
        later = (self.sends.flags[row] & _LATER) != 0
        made = Records(place, BEGUN, np.where(later, Kind.ISEND, Kind.SEND))
        return made.fill_message_columns(self._find_partners(self.sends, row), self._traffic.bytes[row], row)

    def _send_completion_records(self, block: Block) -> Records:
        place, row = self._send_done.rows_in_block(block)
        return Records(place, DONE, Kind.ISEND_COMPLETE, id=row)

    def _receive_request_records(self, block: Block) -> Records:
        place, row = self._asked.rows_in_block(block)
        return Records(place, BEGUN, Kind.IRECV_REQUEST, id=row)

    def _make_receive_records(self, block: Block) -> Records:
        """Return a record for each receive that a call of the block completes, with the sender and the bytes."""
        place, row = self._recv_done.rows_in_block(block)
        later = (self.recvs.flags[row] & _LATER) != 0
        partner = self.recvs.partner[row]
        taken = partner != NONE
        size = np.zeros(len(row), np.int64)
        size[taken] = self._traffic.bytes[partner[taken]]
        made = Records(place, DONE, np.where(later, Kind.IRECV, Kind.RECV))
        return made.fill_message_columns(self._find_partners(self.recvs, row), size, row)

    def _find_partners(self, posts: Posts, row: Ints) -> tuple[Ints, Ints, Ints]:
        """Return three columns for some sends or receives: the partner's rank in the communicator, the communicator,
        and the tag. `row`: their rows in `posts`.
        """
        comm, peer = posts.comm[row], posts.peer[row]
        other = np.full(len(row), NOTHING, np.int64)
        for index in np.unique(comm[comm >= 0]).tolist():
            mine = np.flatnonzero((comm == index) & (peer >= 0))
            other[mine] = make_member_table(self._trace, index)[peer[mine]]
        return other, comm.astype(np.int64) & NOTHING, posts.tag[row].astype(np.int64) & NOTHING
