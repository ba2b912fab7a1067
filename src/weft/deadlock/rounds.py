"""Say how many rounds of a loop a rank made where others made one more, and how many messages of a channel came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from weft.deadlock.traffic import Traffic
from weft.mpi.meaning import base_name
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.describe import function_word
from weft.trace import Event, Trace
from weft.trace.layout import Def
from weft.trace.segment import SEGMENT

_WITH_PEER: Final = (
    calls.SENDS | calls.RECVS | calls.SENDRECVS | calls.ISENDS | calls.IRECVS | calls.ISENDRECVS | calls.PROBES
)
_NO_EVENTS: Final = np.zeros(0, np.int64)
MOST_CALLS: Final = 2 * SEGMENT
"""Calls of a run up to which its messages are counted: longer ones are analysed in segments, to save memory."""


class RoundCounts:
    """Counts what ranks did over the whole run, also where a part of it is analysed."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace.origin
        self._traffic: dict[int, Traffic] = {}
        self._site_ids: dict[int, dict[tuple[str | None, int], list[int]]] = {}

    def describe_missing_rounds(self, events: Sequence[Event], others: Sequence[int]) -> str:
        """Return words such as `made 59 of the 60 rounds of sendrecv at jacobi.py:40`. They say that the ranks
        `others` all made the same number of rounds of a line, fewer than the ranks of `events`, which are there now.
        Empty if that is not so."""
        first = events[0]
        if not first.site.file or self._trace.may_lack_its_beginning or not others or min(others) < 0:
            return ""
        mine = {self._count_rounds(event.rank.index, event) for event in events}
        theirs = {self._count_rounds(other, first) for other in others}
        if len(mine) != 1 or len(theirs) != 1 or not 0 < min(theirs) < min(mine):
            return ""
        return f"made {theirs.pop():,} of the {mine.pop():,} rounds of {function_word(first)} at {_line(first)}"

    def describe_missing_sends(
        self, sender: int, receiver: int, comm: int, tag: int, *, is_probed: bool = False
    ) -> str:
        """Return words such as `sent 30 of the 31 messages with tag 4, at pipe.py:8`. They say that a rank sent some
        messages of a channel, but fewer than the receiver wanted. Empty if that is not so, or if a wildcard may have
        taken one of them.

        `comm`: index of the communicator in the run. `is_probed`: the receiver waits for one more message in a probe.
        """
        sent, received = self._find_channel_calls(sender, receiver, comm, tag)
        return self._describe_count("sent", sender, sent, len(received) + is_probed, tag)

    def describe_missing_receives(self, sender: int, receiver: int, comm: int, tag: int) -> str:
        """Return `received 30 of the 31 messages with tag 4, at pipe.py:8`, as `describe_missing_sends` does."""
        sent, received = self._find_channel_calls(sender, receiver, comm, tag)
        return self._describe_count("received", receiver, received, len(sent), tag)

    def _find_channel_calls(self, sender: int, receiver: int, comm: int, tag: int) -> tuple[Ints, Ints]:
        """Return (event indices of the sends of a channel's messages, event indices of the receives posted for them).
        Both are empty if the record does not tell."""
        if self._trace.may_lack_its_beginning or self._trace.event_count >= MOST_CALLS:
            return _NO_EVENTS, _NO_EVENTS
        posts, sends = self._traffic_of(receiver).receives, self._traffic_of(sender).sends
        if ((posts.comm == comm) & ((posts.peer < 0) | (posts.tag < 0))).any():
            return _NO_EVENTS, _NO_EVENTS  # what a wildcard took is not known
        sent = sends.event[(sends.comm == comm) & (sends.peer == receiver) & (sends.tag == tag)]
        return sent, posts.event[(posts.comm == comm) & (posts.peer == sender) & (posts.tag == tag)]

    def _describe_count(self, verb: str, rank: int, done: Ints, wanted: int, tag: int) -> str:
        """Return words such as `sent 30 of the 31 messages with tag 4, at pipe.py:8`; empty if none or all were done.
        `done`: event indices of the calls that were made. `wanted`: how many should have been made."""
        if not 0 < len(done) < wanted:
            return ""
        last = self._trace.ranks[rank].event(int(done[-1]))
        where = f", at {_line(last)}" if last.site.file else ""
        return f"{verb} {len(done):,} of the {wanted:,} messages with tag {tag}{where}"

    def _traffic_of(self, index: int) -> Traffic:
        """Return the point-to-point calls of a rank, read once."""
        if index not in self._traffic:
            self._traffic[index] = Traffic(self._trace.ranks[index])
        return self._traffic[index]

    def _count_rounds(self, index: int, like: Event) -> int:
        """Return how often a rank has come to the source line of the call `like`. For calls with a peer, only those
        with the most frequent peer are counted, as one round may contain a loop over neighbours."""
        rank = self._trace.ranks[index]
        if index not in self._site_ids:
            self._site_ids[index] = defaultdict(list)
            for id in rank.definitions.ids(Def.SITE):
                site = rank.site(id)
                self._site_ids[index][site.file, site.line].append(id)
        here = rank.events[np.isin(rank.events["site"], self._site_ids[index][like.site.file, like.site.line])]
        here = here[(here["function"] == like.function.id) & (here["error"] == 0)]
        if base_name(like.function.name) not in _WITH_PEER or not len(here):
            return len(here)
        return int(np.unique(here["peer"], return_counts=True)[1].max())


def _line(event: Event) -> str:
    return f"{Path(event.site.file or '').name}:{event.site.line}"
