"""The table of messages: both ends of each in one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.export.blocks import BLOCK, Block, Ints, Mask
from weft.export.parquet.columns import NAME, named, where
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


def parts(trace: Trace, of: Operations, run: Extent) -> Iterator[dict[str, Any]]:
    """Every message that was sent, by sender, then the receives that nothing came to."""
    comms = [comm.name for comm in trace.communicators]
    for rows in _rows(of.sends):
        taken = of.sends.partner[rows] != NONE
        recvs = _side(trace, of.recvs, np.where(taken, of.sends.partner[rows], 0), taken, run)
        yield _messages(_side(trace, of.sends, rows, np.ones_like(taken), run), recvs, comms)
    for rows in _rows(of.recvs):
        left = rows[of.recvs.partner[rows] == NONE]
        here = np.ones(len(left), np.bool_)
        sends = _side(trace, of.sends, np.zeros_like(left), ~here, run)
        yield _messages(sends, _side(trace, of.recvs, left, here, run), comms)


def _rows(posts: Posts) -> Iterator[Ints]:
    """The rows of all ranks in parts."""
    for start in range(0, len(posts), BLOCK):
        yield np.arange(start, min(start + BLOCK, len(posts)))


class _Side(NamedTuple):
    """One end of some messages; only where `there` it means something."""

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

    def on_ranks(self, events: Ints) -> Iterator[tuple[Block, Ints]]:
        """The calls `events` of these ends rank by rank, as far as they are known, and the messages they are of."""
        wanted = np.flatnonzero(self.there & (events != NONE))
        order = wanted[np.argsort(self.rank[wanted], kind="stable")]
        ranks, starts = np.unique(self.rank[order], return_index=True)
        for rank, rows in zip(ranks.tolist(), np.split(order, starts[1:]), strict=False):
            yield self._block(self.trace.ranks[rank], events[rows]), rows

    def _block(self, rank: Rank, events: Ints) -> Block:
        return Block(rank, events, self.run)

    def enter(self, events: Ints) -> pa.Array:
        """When calls began."""
        ns = np.zeros(len(events), np.int64)
        for block, rows in self.on_ranks(events):
            ns[rows] = block.enter
        return where(ns, self.there & (events != NONE))

    def leave(self, events: Ints) -> pa.Array:
        """When calls returned."""
        ns, known = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
        for block, rows in self.on_ranks(events):
            ns[rows], known[rows] = block.leave, ~block.open
        return where(ns, known)

    def bytes(self) -> pa.Array:
        """Bytes of the messages."""
        found = np.full(len(self.event), -1, np.int64)
        for block, rows in self.on_ranks(self.args):
            found[rows] = block.bytes
        return where(found, found >= 0)

    def id(self, events: Ints) -> pa.Array:
        """Indices of calls."""
        return where(events, self.there & (events != NONE))

    def has(self, bits: Post) -> Mask:
        """Which have any of these flags."""
        has: Mask = (self.flags & bits) != 0
        return has


def _side(trace: Trace, posts: Posts, rows: Ints, there: Mask, run: Extent) -> _Side:
    def of(column: NDArray[Any]) -> NDArray[Any]:
        return column[rows] if len(posts) else np.zeros(len(rows), column.dtype)

    def events(column: NDArray[Any]) -> Ints:
        return of(column).astype(np.int64)

    rank = (np.searchsorted(posts.first, rows.astype(np.uint64), side="right") - 1).astype(np.int32)
    return _Side(
        trace, run, there, rank, events(posts.event), events(posts.args), events(posts.completion), of(posts.comm),
        of(posts.peer), of(posts.tag), of(posts.flags),
    )  # fmt: skip


def _messages(send: _Side, recv: _Side, comms: list[str]) -> dict[str, Any]:
    sent = send.there
    sender, receiver = np.where(sent, send.rank, recv.peer), np.where(recv.there, recv.rank, send.peer)
    modes = np.select([send.has(Post.SYNCHRONOUS), send.has(Post.BUFFERED), send.has(Post.READY)], [1, 2, 3], 0)
    return {
        "sender": where(sender, sender >= 0),
        "receiver": where(receiver, receiver >= 0),
        "comm": named(np.where(sent, send.comm, recv.comm), comms),
        "tag": pa.array(np.where(sent, send.tag, recv.tag)),
        "bytes": send.bytes(),
        "mode": named(np.where(sent, modes, -1), _MODES),
        "send_event": send.id(send.event),
        "send_done_event": send.id(send.completion),
        "receive_event": recv.id(recv.event),
        "receive_done_event": recv.id(recv.completion),
        "sent_ns": send.enter(send.event),
        "posted_ns": recv.enter(recv.event),
        "received_ns": recv.leave(recv.completion),
        "any_source": where(recv.has(Post.ANY_SOURCE), recv.there),
        "any_tag": where(recv.has(Post.ANY_TAG), recv.there),
    }
