"""Find messages that no receive of the run ever takes, so that they do not prevent a cut."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match, Post
from weft.mpi.meaning import Act, functions_with
from weft.segments.cut_points import Cuts
from weft.terms import calls
from weft.terms.calls import masks_of
from weft.trace import Flag
from weft.trace.mapping import release_pages

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST: Final = 64
"""Channels that are looked for through the rest of the run at one cut."""
_PART: Final = 1 << 14
_MOST_PART: Final = 1 << 20
"""Calls that are looked at together: at first few, as what is looked for mostly comes soon."""
_TAKES: Final = calls.RECVS | calls.IRECVS | calls.MATCHED_PROBES | functions_with(Act.RECEIVE)
_BOTH: Final = calls.SENDRECVS | calls.ISENDRECVS


class _Channel(NamedTuple):
    comm: int
    source: int
    receiver: int
    tag: int


class UntakenMessages:
    """What is known of messages that nobody takes, as a run is gone through."""

    def __init__(self, of: Cuts) -> None:
        self.of, self.run = of, of.run
        table = masks_of(self.run.functions).table
        self.takes, self.both = table(_TAKES), table(_BOTH)
        self._next: dict[_Channel, int] = {}
        """By channel a call of the receiver from which on, and not before, one may take a message of it."""
        self._left = 0
        """How many channels are yet to be looked for at this cut."""

    def untaken_sends(self, match: Match, ends: Ints) -> Mask:
        """Return a mask of the sends in a window whose messages are never received, neither in the window nor later in
        the run.

        `ends`: by rank the first call after the window.
        """
        sends = match.sends
        found: Mask = (sends.partner == NONE) & (sends.flags & (Post.PERSISTENT | Post.HALF | Post.PARTITIONED) == 0)
        found &= sends.peer >= 0
        rows = np.flatnonzero(found)
        if not len(rows):
            return found
        keys = np.stack([sends.comm[rows], sends.ranks()[rows], sends.peer[rows], sends.tag[rows]], axis=1)
        channels, which = np.unique(keys, axis=0, return_inverse=True)
        never = np.zeros(len(channels), np.bool_)
        self._left = MOST
        # Which message a pending receive of any tag takes is only known after the window.
        open_ = np.flatnonzero(match.recvs.flags & Post.UNDECIDED)
        columns = (match.recvs.comm, match.recvs.peer, match.recvs.ranks())
        takers = set(zip(*(column[open_].tolist() for column in columns), strict=True))
        for place, row in enumerate(channels.tolist()):
            never[place] = tuple(row[:3]) not in takers and self._is_never_taken(_Channel(*row), ends)
        found[rows] = never[which.reshape(-1)]
        return found

    def _is_never_taken(self, channel: _Channel, ends: Ints) -> bool:
        """Return whether no receive after the window may take a message of a channel. False also if too many channels
        were searched at this cut. `ends`: by rank the first call after the window.
        """
        start, length = int(ends[channel.receiver]), len(self.run.ranks[channel.receiver])
        known = self._next.get(channel, -1)
        if known < start and self._left:
            self._left -= 1
            known = self._next[channel] = self._first_taking_call(channel, start)
        return known >= length

    def _first_taking_call(self, channel: _Channel, start: int) -> int:
        """Return the first call of the receiver, from `start` on, that may take a message of a channel; the number of
        its calls if none may.
        """
        rank, comm = self.run.ranks[channel.receiver], self.run.communicators[channel.comm]
        local, events, peers = comm.local_ids.get(rank.index), rank.events, comm.peers(rank.index)
        if local is None or channel.source not in peers:
            return start
        source, step = peers.index(channel.source), _PART
        inits = events[self.of.seen[rank.index].earlier]
        if len(inits) and self._may_take(inits, local, source, channel.tag).any():
            return start
        while start < len(events):
            part = events[start : start + step]
            if (hit := self._may_take(part, local, source, channel.tag)).any():
                return start + int(hit.argmax())
            release_pages(part)
            start, step = start + step, min(2 * step, _MOST_PART)
        return len(events)

    def _may_take(self, part: NDArray[np.void], local: int, source: int, tag: int) -> Mask:
        """Return a mask of the calls in `part` that may receive a message. `local`: the receiver's id of the
        communicator. `source`: the sender's rank there.
        """
        function = part["function"]
        named = self.takes[function] & (part["peer"] == source)
        named &= (part["tag"] == tag) | (part["flags"] & Flag.ANY_TAG != 0) | (part["tag"] < 0)
        found: Mask = (named | self.both[function]) & (part["comm"] == local)
        return found
