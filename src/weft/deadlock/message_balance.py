"""Count which messages were sent and not taken, and which receives were posted and not served, at the end of a record.

MPI keeps order per (communicator, source, destination, tag) (MPI-4.1, 3.5): of n sends and m receives of one channel
the first min(n, m) meet, whatever the times. So counting decides all but what a pending wildcard receive takes; from
the first of those on, the rank's unfinished receives are served in posting order, one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.deadlock.traffic import MessageEnds, Traffic
from weft.match.rings import DroppedOperations
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.trace.layout import ANY_SOURCE, ANY_TAG

_ANY_NUMBER = 1 << 60


class Channel(NamedTuple):
    """Messages of one sender with one tag in one communicator, all by index; the receiver is the ledger's."""

    comm: int
    source: int
    tag: int


class Pending(NamedTuple):
    """A posted receive that no completed call has served."""

    event: int
    request: int
    channel: Channel

    def fits(self, channel: Channel) -> bool:
        """Return whether the receive can take a message of `channel`."""
        mine = self.channel
        return (
            mine.comm == channel.comm
            and mine.source in (ANY_SOURCE, channel.source)
            and mine.tag in (ANY_TAG, channel.tag)
        )


class Ledger:
    """The open accounts of one receiving rank.

    `left` holds for each channel the messages that no receive takes (more than any number where a wildcard's choice
    is not known), `hungry` the pending receives that no message serves. `uncertain` names communicators in which the
    record does not tell what some receive took: nothing is claimed there.
    """

    def __init__(
        self, balance: dict[Channel, int], posts: MessageEnds, pending: Sequence[Pending], uncertain: set[int]
    ) -> None:
        self._posts = posts
        self._owed = {channel: -n for channel, n in balance.items() if n < 0}
        self.left = {channel: n for channel, n in balance.items() if n > 0}
        self.uncertain = uncertain
        self.pending = tuple(pending)
        self.hungry: list[Pending] = []
        for receive in pending:
            self._match_pending(receive)

    def _match_pending(self, receive: Pending) -> None:
        """Give a pending receive its message if just one channel fits. If no channel fits, the receive is noted as
        hungry; if several do, each of them may have been the one, so that nothing is claimed about their messages."""
        fitting = [channel for channel in self.left if receive.fits(channel)]
        if not fitting:
            self.hungry.append(receive)
        elif len(fitting) == 1 and self.left[fitting[0]] < _ANY_NUMBER:
            self._take(fitting[0])
        else:
            for channel in fitting:
                self.left[channel] = _ANY_NUMBER

    def _take(self, channel: Channel) -> None:
        self.left[channel] -= 1
        if not self.left[channel]:
            del self.left[channel]

    def is_served(self, event: int, request: int, wanted: Channel) -> bool:
        """Return whether the receive posted by `event` has its message, or may have it as far as the record tells."""
        if wanted.comm in self.uncertain:
            return True
        if any(p.event == event and p.request == request for p in self.pending):
            return not any(p.event == event and p.request == request for p in self.hungry)
        owed = self._owed.get(wanted, 0)
        return not owed or self._count_posted_after(event, request, wanted) >= owed

    def _count_posted_after(self, event: int, request: int, wanted: Channel) -> int:
        """Return how many receives of the channel `wanted` were posted after the one of `event` and `request`."""
        posts = self._posts
        same = (posts.comm == wanted.comm) & (posts.peer == wanted.source) & (posts.tag == wanted.tag)
        same &= (posts.event > event) | ((posts.event == event) & (posts.request > request))
        return int(np.count_nonzero(same))

    def has_message_for(self, wanted: Channel) -> bool:
        """Return whether an untaken message fits a receive or probe yet to come; `wanted` may hold wildcards."""
        probe = Pending(0, 0, wanted)
        return wanted.comm in self.uncertain or any(probe.fits(channel) for channel in self.left)

    def leaves_untaken(self, channel: Channel, sent_after: int) -> bool:
        """Return whether no receive takes the message of `channel` after which `sent_after` more were sent."""
        return channel.comm not in self.uncertain and sent_after < self.left.get(channel, 0) < _ANY_NUMBER


def make_ledgers(
    traffic: Sequence[Traffic], receivers: Collection[int], dropped: DroppedOperations | None = None
) -> dict[int, Ledger]:
    """Return the ledger of each rank index in `receivers`, which also counts what the rings of the run dropped."""
    wanted = np.zeros(len(traffic) + 1, np.bool_)
    wanted[list(receivers)] = True
    parts: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    for source, of in enumerate(traffic):
        sends = of.sends
        rows = (sends.peer >= 0) & wanted[np.maximum(sends.peer, -1)]
        parts.append(_counted(sends.comm[rows], np.full(rows.sum(), source), sends.peer[rows], sends.tag[rows], 1))
    posts: dict[int, MessageEnds] = {}
    pending: dict[int, list[Pending]] = {}
    uncertain: dict[int, set[int]] = {}
    for receiver in receivers:
        counted, waiting, unclear = _sort_receives(traffic[receiver].receives)
        posts[receiver], pending[receiver], uncertain[receiver] = counted, waiting, unclear
        here = np.full(len(counted), receiver)
        parts.append(_counted(counted.comm, counted.peer, here, counted.tag, -1))
    if dropped is not None:
        parts.append(_count_dropped(dropped, wanted))
        uncertain = {receiver: found | dropped.unsettled for receiver, found in uncertain.items()}
    balances = _sum_balances(parts, len(traffic))
    return {r: Ledger(balances.get(r, {}), posts[r], pending[r], uncertain[r]) for r in receivers}


def _count_dropped(dropped: DroppedOperations, wanted: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return what the dropped calls of a run sent and did not receive, as columns with a row for each channel:
    communicator, sender, receiver, tag, number of messages. `wanted`: mask of the receivers that count."""
    rows = [(*channel, n) for channel, n in dropped.surplus.items() if wanted[channel.receiver]]
    comm, source, receiver, tag, over = np.array(rows, np.int64).reshape(-1, 5).T
    return comm, source, receiver, tag, over


def _counted(comm: Ints, source: Ints, receiver: Ints, tag: Ints, one: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    return comm, source, receiver, tag, np.full(len(comm), one, np.int64)


def _sort_receives(receives: MessageEnds) -> tuple[MessageEnds, list[Pending], set[int]]:
    """Return (receives that are settled by counting, receives that must be served one by one, communicator indices).

    Wildcard receives that did not complete, and those posted after them, are served one by one. In the communicators
    the record does not tell what some receive took.
    """
    wild = (receives.peer == ANY_SOURCE) | (receives.tag == ANY_TAG)
    unclear = (receives.peer < ANY_SOURCE) | (receives.tag < ANY_TAG) | (wild & receives.done)
    waiting = wild & ~receives.done & ~unclear
    for comm in sorted_distinct(receives.comm[waiting]):
        here = receives.comm == comm
        first = receives.event[here & waiting].min()
        waiting |= here & ~receives.done & ~unclear & (receives.event >= first)
    rows = receives.pick(waiting)
    columns = (rows.event.tolist(), rows.request.tolist(), rows.comm.tolist(), rows.peer.tolist(), rows.tag.tolist())
    pending = [Pending(e, r, Channel(c, p, t)) for e, r, c, p, t in zip(*columns, strict=True)]
    return receives.pick(~waiting & ~unclear), pending, set(receives.comm[unclear].tolist())


def _sum_balances(parts: list[tuple[Ints, Ints, Ints, Ints, Ints]], rank_count: int) -> dict[int, dict[Channel, int]]:
    """Return {receiver: {channel: number}}: how many more messages of a channel were sent than received. Channels
    where the two are equal are left out. `parts`: columns communicator, sender, receiver, tag, and number to add."""
    comm, source, receiver, tag, one = (np.concatenate([p[i] for p in parts]) for i in range(5))
    pair = (comm * rank_count + source) * rank_count + receiver
    pairs, pair_of = np.unique(pair, return_inverse=True)
    keys, key_of = np.unique((pair_of.astype(np.int64) << 32) | (tag & 0xFFFFFFFF), return_inverse=True)
    total = np.bincount(key_of, weights=one, minlength=len(keys)).astype(np.int64)
    found: dict[int, dict[Channel, int]] = defaultdict(dict)
    for row in np.flatnonzero(total):
        code = int(pairs[int(keys[row]) >> 32])
        channel_tag = int(np.int32(np.uint32(int(keys[row]) & 0xFFFFFFFF)))
        channel = Channel(code // rank_count // rank_count, code // rank_count % rank_count, channel_tag)
        found[code % rank_count][channel] = int(total[row])
    return dict(found)
