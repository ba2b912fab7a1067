"""The table of messages, with both ends of each in one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.export.blocks import BLOCK, Block, Ints, Mask
from weft.export.parquet.columns import NAME, dictionary_column, masked_column
from weft.match import NONE, Operations, Post, Posts
from weft.terms.run_extent import Extent
from weft.trace import Rank, Trace

SCHEMA: Final = pa.schema(
    [
        ("sender", pa.int32()), ("receiver", pa.int32()), ("comm", NAME), ("tag", pa.int32()), ("bytes", pa.int64()),
        ("mode", NAME), ("send_event", pa.int64()), ("send_done_event", pa.int64()), ("receive_event", pa.int64()),
        ("receive_done_event", pa.int64()), ("sent_ns", pa.int64()), ("posted_ns", pa.int64()),
        ("received_ns", pa.int64()), ("any_source", pa.bool_()), ("any_tag", pa.bool_()),
    ]
)  # fmt: skip

_MODES: Final = ("standard", "synchronous", "buffered", "ready")


def read_message_columns(trace: Trace, operations: Operations, run: Extent) -> Iterator[dict[str, Any]]:
    """Yield the columns of the table of messages, block by block: first all sends in order of the sender, then the
    receives without a send.
    """
    comms = [comm.name for comm in trace.communicators]
    for rows in _row_blocks(operations.sends):
        taken = operations.sends.partner[rows] != NONE
        recvs = _make_ends(trace, operations.recvs, np.where(taken, operations.sends.partner[rows], 0), taken, run)
        yield _message_columns(_make_ends(trace, operations.sends, rows, np.ones_like(taken), run), recvs, comms)
    for rows in _row_blocks(operations.recvs):
        left = rows[operations.recvs.partner[rows] == NONE]
        here = np.ones(len(left), np.bool_)
        sends = _make_ends(trace, operations.sends, np.zeros_like(left), ~here, run)
        yield _message_columns(sends, _make_ends(trace, operations.recvs, left, here, run), comms)


def _row_blocks(posts: Posts) -> Iterator[Ints]:
    """Yield the rows of all ranks in blocks of at most BLOCK."""
    for start in range(0, len(posts), BLOCK):
        yield np.arange(start, min(start + BLOCK, len(posts)))


class _MessageEnds(NamedTuple):
    """One end of some messages; rows with `there` false are meaningless."""

    trace: Trace
    run: Extent
    there: Mask
    rank: NDArray[np.int32]
    event: Ints
    args: Ints
    completion: Ints
    comm: NDArray[np.int32]
    peer: NDArray[np.int32]
    tag: NDArray[np.int32]
    flags: NDArray[np.uint16]

    def blocks_by_rank(self, events: Ints) -> Iterator[tuple[Block, Ints]]:
        """Yield (block of calls, rows) for each rank that made some of the calls. `events`: the call of each message,
        as an event index; `rows`: the messages whose calls are in the block.
        """
        wanted = np.flatnonzero(self.there & (events != NONE))
        order = wanted[np.argsort(self.rank[wanted], kind="stable")]
        ranks, starts = np.unique(self.rank[order], return_index=True)
        for rank, rows in zip(ranks.tolist(), np.split(order, starts[1:]), strict=False):
            yield self._block(self.trace.ranks[rank], events[rows]), rows

    def _block(self, rank: Rank, events: Ints) -> Block:
        return Block(rank, events, self.run)

    def enter_times(self, events: Ints) -> pa.Array:
        """Return a column with the time in ns at which calls began. `events`: the call of each message. A cell is empty
        if the message does not have this end.
        """
        ns = np.zeros(len(events), np.int64)
        for block, rows in self.blocks_by_rank(events):
            ns[rows] = block.enter
        return masked_column(ns, self.there & (events != NONE))

    def return_times(self, events: Ints) -> pa.Array:
        """Return a column with the time in ns at which calls returned. `events`: the call of each message. A cell is
        empty if the call did not return, or if the message does not have this end.
        """
        ns, known = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
        for block, rows in self.blocks_by_rank(events):
            ns[rows], known[rows] = block.leave, ~block.open
        return masked_column(ns, known)

    def message_bytes(self) -> pa.Array:
        """Return a column with the size in bytes of each message; empty where it is unknown."""
        found = np.full(len(self.event), -1, np.int64)
        for block, rows in self.blocks_by_rank(self.args):
            found[rows] = block.bytes
        return masked_column(found, found >= 0)

    def event_ids(self, events: Ints) -> pa.Array:
        """Return a column with the event indices of calls. A cell is empty if the message does not have this end."""
        return masked_column(events, self.there & (events != NONE))

    def has_flags(self, bits: Post) -> Mask:
        """Return a mask of the ends that have one of some flags."""
        has: Mask = (self.flags & bits) != 0
        return has


def _make_ends(trace: Trace, posts: Posts, rows: Ints, is_known: Mask, run: Extent) -> _MessageEnds:
    """Return one end of some messages: their sends or their receives, at `rows` of `posts`. `is_known`: a mask of the
    messages that have this end.
    """

    def of(column: NDArray[Any]) -> NDArray[Any]:
        return column[rows] if len(posts) else np.zeros(len(rows), column.dtype)

    def events(column: NDArray[Any]) -> Ints:
        return of(column).astype(np.int64)

    rank = (np.searchsorted(posts.first, rows.astype(np.uint64), side="right") - 1).astype(np.int32)
    return _MessageEnds(
        trace, run, is_known, rank, events(posts.event), events(posts.args), events(posts.completion), of(posts.comm),
        of(posts.peer), of(posts.tag), of(posts.flags),
    )  # fmt: skip


def _message_columns(send: _MessageEnds, recv: _MessageEnds, comms: list[str]) -> dict[str, Any]:
    """Return the columns of the table of messages. `send`, `recv`: both ends of the same messages; `comms`: the names
    of the communicators.
    """
    sent = send.there
    sender, receiver = np.where(sent, send.rank, recv.peer), np.where(recv.there, recv.rank, send.peer)
    modes = np.select(
        [send.has_flags(Post.SYNCHRONOUS), send.has_flags(Post.BUFFERED), send.has_flags(Post.READY)], [1, 2, 3], 0
    )
    return {
        "sender": masked_column(sender, sender >= 0),
        "receiver": masked_column(receiver, receiver >= 0),
        "comm": dictionary_column(np.where(sent, send.comm, recv.comm), comms),
        "tag": pa.array(np.where(sent, send.tag, recv.tag)),
        "bytes": send.message_bytes(),
        "mode": dictionary_column(np.where(sent, modes, -1), _MODES),
        "send_event": send.event_ids(send.event),
        "send_done_event": send.event_ids(send.completion),
        "receive_event": recv.event_ids(recv.event),
        "receive_done_event": recv.event_ids(recv.completion),
        "sent_ns": send.enter_times(send.event),
        "posted_ns": recv.enter_times(recv.event),
        "received_ns": recv.return_times(recv.completion),
        "any_source": masked_column(recv.has_flags(Post.ANY_SOURCE), recv.there),
        "any_tag": masked_column(recv.has_flags(Post.ANY_TAG), recv.there),
    }
