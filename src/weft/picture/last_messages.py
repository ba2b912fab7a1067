"""The last messages between some ranks, arranged in rows: messages sent from one line share a row if they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match import NONE, Match
from weft.picture.sequence_diagram import Kind, Stroke, StrokeRow
from weft.terms import describe
from weft.trace import Trace
from weft.trace.layout import ANY_TAG

MAX_ROWS: Final = 8
MOST: Final = 40
"""Messages that are laid out in rows."""

_LAST: Final = 4000
"""Sends of each rank that are looked at."""


@dataclass(frozen=True)
class Message:
    """A message; `received` is None if nobody received it."""

    sender: int
    receiver: int
    tag: int
    comm: int
    sent: EventId
    received: EventId | None

    def precedes(self, other: Message) -> bool:
        """Return whether a rank that takes part in both messages took part in this one first."""
        ends = [self.sent, *([self.received] if self.received else [])]
        others = [other.sent, *([other.received] if other.received else [])]
        return any(a[0] == b[0] and a[1] < b[1] for a in ends for b in others)


def tag_text(tag: int) -> str:
    """Return `tag 7` or `any tag`."""
    return "any tag" if tag == ANY_TAG else f"tag {tag}"


def last_messages_between(trace: Trace, match: Match, ranks: Sequence[int]) -> list[Message]:
    """Return the last received and the last unreceived message for each sender, receiver, communicator and tag among
    some ranks.

    Messages inside of mpi4py's collectives of pickled objects are left out. If there are more than `MOST` messages,
    the last ones are returned, and unreceived ones before others.
    """
    found: dict[tuple[int, ...], Message] = {}
    sends = match.sends
    for rank in ranks:
        part = sends.of_rank(rank)
        rows = np.arange(max(part.start, part.stop - _LAST), part.stop)
        for row in rows[np.isin(sends.peer[rows], ranks)].tolist():
            partner = int(sends.partner[row])
            received = None if partner == NONE else match.recvs.id(partner)
            peer, tag, comm = int(sends.peer[row]), int(sends.tag[row]), int(sends.comm[row])
            if peer != rank:
                key = rank, peer, comm, tag, partner == NONE
                found[key] = Message(rank, peer, tag, comm, sends.id(row), received)
    shown = (one for one in found.values() if not describe.pickled_collective(trace.event(*one.sent)))
    latest = sorted(shown, key=lambda m: (m.received is None, trace.event(*m.sent).enter_ns))
    return latest[-MOST:]


def arrange_rows(trace: Trace, messages: Sequence[Message], column: Mapping[int, int], room: int) -> list[StrokeRow]:
    """Return the rows of a diagram of messages, in an order that fits what each rank saw; at most the last `room`
    rows.

    `column`: the column of each rank.
    """
    placed: list[tuple[StrokeRow, list[Message]]] = []
    for message in _sort_causally(messages):
        kind: Kind = "taken" if message.received else "lost"
        stroke = Stroke(column[message.sender], column[message.receiver], kind, tag_text(message.tag))
        ending = f"{_received_text(trace, message)}{_comm_text(trace, message)}"
        note = f"{_call_site_text(trace, message.sent)}  send, {ending}".strip()
        row = _find_row_with_room(placed, message, stroke, f"{note} {kind}")
        if row is None:
            placed.append((StrokeRow([stroke], note=note), [message]))
        else:
            row[0].strokes.append(stroke)
            row[1].append(message)
    rows = [row for row, _ in placed]
    return rows[max(0, len(rows) - max(0, min(room, MAX_ROWS))) :]


def _find_row_with_room(
    placed: Sequence[tuple[StrokeRow, list[Message]]], message: Message, stroke: Stroke, note: str
) -> tuple[StrokeRow, list[Message]] | None:
    """Return the last row for the same source line in which a message's arrow has room, together with the row's
    messages. None if there is no such row, or a message that precedes this one is in a row below."""
    for row, held in reversed(placed):
        kind = row.strokes[0].kind
        if f"{row.note} {kind}" == note and row.strokes[0].label == stroke.label and row.has_room(stroke):
            return row, held
        if any(other.precedes(message) for other in held):
            return None
    return None


def _sort_causally(messages: Sequence[Message]) -> list[Message]:
    """Return the messages sorted by how many messages must come before them (the longest chain). The order is the same
    for all runs with the same order of messages."""
    by_end = sorted(messages, key=lambda m: (m.sent[0], m.sent[1]))
    depth = dict.fromkeys(by_end, 0)
    for _ in range(len(by_end)):
        moved = False
        for later in by_end:
            least = max(
                (
                    depth[one] + 1
                    for one in by_end
                    if one is not later and one.precedes(later) and not later.precedes(one)
                ),
                default=0,
            )
            moved |= least > depth[later]
            depth[later] = max(depth[later], least)
        if not moved:
            break
    return sorted(by_end, key=lambda m: (depth[m], m.sent))


def _call_site_text(trace: Trace, event: EventId) -> str:
    return describe.site_suffix(trace.event(*event)).removeprefix(" at ")


def _received_text(trace: Trace, message: Message) -> str:
    """Return text that says at which line a message was received, or that nobody received it."""
    if message.received is None:
        return "never received"
    place = _call_site_text(trace, message.received)
    return f"received at {place}" if place else "received"


def _comm_text(trace: Trace, message: Message) -> str:
    return f" on {trace.communicators[message.comm].name}" if message.comm else ""
