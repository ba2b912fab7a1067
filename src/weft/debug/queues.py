"""The message queues at a stop: what was sent and not received, and which receives are posted and wait, by channel.

Both are known from the record and from how far each thread has come: no queue inside an MPI is read, so it works with
every MPI (TotalView and gdb plugins read them by the MQD interface, which most builds lack).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.debug.record import Record, call_facts
from weft.match import NONE, Post, Posts
from weft.trace import Event

Answer = dict[str, Any]
MOST = 40
"""Messages and receives that are listed; all are counted."""


class Queues:
    """`passed` returns how many entries a thread (rank, slot) has begun; `inside` whether it is inside the last of
    them.
    """

    def __init__(
        self, record: Record, passed: Callable[[int, int], int], inside: Callable[[int, int], bool]
    ) -> None:  # fmt: skip
        self.record, self._passed, self._inside = record, passed, inside

    def describe_pending(self, ranks: Iterable[int]) -> Answer:
        """Return the messages from or to some ranks that were sent and not received, and the receives of these ranks
        that have no message yet. At most MOST of each are described; `all_sent` and `all_posted` are the total
        numbers."""
        chosen = np.isin(np.arange(len(self.record.trace.ranks)), list(ranks))
        sends, recvs = self.record.match.sends, self.record.match.recvs
        begun, over = self._find_begun_and_returned()
        source, taker = sends.ranks(), recvs.ranks()
        told = np.where(recvs.decided != NONE, recvs.decided, recvs.completion)
        complete = (told != NONE) & _are_reached(told, over, taker)
        posted = (recvs.event != NONE) & _are_reached(recvs.event, begun, taker) & (recvs.flags & Post.CANCELLED == 0)
        partner = np.where(sends.partner == NONE, 0, sends.partner)
        received = (sends.partner != NONE) & (complete[partner] if len(recvs) else False)
        known = (sends.peer >= 0) & (sends.peer < len(chosen))
        concerns = chosen[source] | (known & chosen[np.where(known, sends.peer, 0)])
        sent = np.flatnonzero(_are_reached(sends.event, begun, source) & ~received & concerns)
        waiting = np.flatnonzero(posted & ~complete & chosen[taker])
        sent_rows = self._first_by_channel(sends, source, sent)
        posted_rows = self._first_by_channel(recvs, taker, waiting)
        return {
            "kind": "messages", "sent": [self._describe_message(int(row), posted) for row in sent_rows],
            "posted": [self._describe_receive(int(row), begun) for row in posted_rows],
            "all_sent": len(sent), "all_posted": len(waiting),
        }  # fmt: skip

    def _first_by_channel(self, posts: Posts, ranks: NDArray[np.generic], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first MOST of some rows, sorted by channel (rank, peer, communicator, tag) and then by order."""
        order = np.lexsort((posts.event[rows], posts.tag[rows], posts.comm[rows], posts.peer[rows], ranks[rows]))
        return rows[order][:MOST]

    def _find_begun_and_returned(self) -> tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]]:
        """Return for each rank a mask of its events that have begun, and for each rank a mask of those that have
        returned.
        """
        begun, over = [], []
        for rank in self.record.trace.ranks:
            first, last = np.zeros(len(rank), np.bool_), np.zeros(len(rank), np.bool_)
            plan = self.record.plans[rank.index].threads if rank.index < len(self.record.plans) else []
            for slot, thread in enumerate(plan):
                passed = min(self._passed(rank.index, slot), len(thread.entries))
                if not passed:
                    continue
                mine = np.flatnonzero(rank.event_threads == thread.slot)
                upto = int(thread.entries["event"][passed - 1])
                first[mine[: upto + 1]] = True
                last[mine[: upto + (not self._inside(rank.index, slot))]] = True
            begun.append(first)
            over.append(last)
        return begun, over

    def _describe_message(self, row: int, posted: NDArray[np.bool_]) -> Answer:
        """Return a row for a message that was sent, with the call that receives it in the record. `row`: its row in
        match.sends. `posted`: a mask of the receives that have been posted.
        """
        match, trace = self.record.match, self.record.trace
        send = trace.event(*match.sends.id(row))
        taken = int(match.sends.partner[row])
        receive = None if taken == NONE else call_facts(trace.event(*match.recvs.id(taken)))
        return _envelope(send) | {
            "source": send.rank.index, "dest": int(match.sends.peer[row]), "tag": int(match.sends.tag[row]),
            "comm": trace.communicators[int(match.sends.comm[row])].name, "sent": call_facts(send),
            "received": receive, "posted": taken != NONE and bool(posted[taken]),
        }  # fmt: skip

    def _describe_receive(self, row: int, begun: list[NDArray[np.bool_]]) -> Answer:
        """Return a row for a receive that waits, as it was posted, with the message that it gets in the record. `row`:
        its row in match.recvs. `begun`: for each rank a mask of its events that have begun.
        """
        match, trace = self.record.match, self.record.trace
        recvs = match.recvs
        receive = trace.event(*recvs.id(row))
        wild, any_tag = bool(recvs.flags[row] & Post.ANY_SOURCE), bool(recvs.flags[row] & Post.ANY_TAG)
        taken = int(recvs.partner[row])
        send = None if taken == NONE else match.sends.id(taken)
        return {
            "rank": receive.rank.index, "source": None if wild else int(recvs.peer[row]),
            "tag": None if any_tag else int(recvs.tag[row]), "comm": trace.communicators[int(recvs.comm[row])].name,
            "receive": call_facts(receive), "message": None if send is None else call_facts(trace.event(*send)),
            "sent": send is not None and bool(begun[send[0]][send[1]]),
        }  # fmt: skip


def _are_reached(
    events: NDArray[Any], reached_by_rank: list[NDArray[np.bool_]], ranks: NDArray[np.generic]
) -> NDArray[np.bool_]:
    """Return a mask of the events that their rank has reached. `events`, `ranks`: event index and rank of each.
    `reached_by_rank`: for each rank a mask of its events.
    """
    first = np.concatenate([[0], np.cumsum([len(one) for one in reached_by_rank])]).astype(np.int64)
    flat = np.concatenate([np.zeros(0, np.bool_), *reached_by_rank])
    known = events != NONE
    found = np.zeros(len(events), np.bool_)
    found[known] = flat[first[ranks[known]] + events[known]]
    return found


def _envelope(send: Event) -> Answer:
    """Return count, datatype and size in bytes of a send; None for what is unknown."""
    type_ = send.datatype
    size = None if type_ is None else type_.size
    return {
        "count": send.count, "datatype": type_.name if type_ else None,
        "bytes": None if size is None else send.count * size,
    }  # fmt: skip
