"""Finds what the other outcome of a race leads to: the same, or a receive that another message does not fit.

A racing message has a receive of its own in the record. Where that one could take the message that the wildcard took,
and both fit where they would go, the receives exchange their messages and all goes on. Else the other outcome is
another one, and the louder finding. Whether somebody then waits for ever deadlock/wildcard_alternatives.py finds out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Match
from weft.races.search import Races, can_exchange
from weft.terms import describe
from weft.terms.argument_columns import Ints
from weft.terms.datatype_sizes import machine_type, size_in_bytes
from weft.trace import Event
from weft.trace.layout import COUNT_IN_TAIL, ID_DYNAMIC
from weft.trace.tails import Status

SAME: Final = "same"
OPEN: Final = "unknown"
TOO_LONG: Final = "truncation"
OTHER_TYPE: Final = "type-mismatch"
NO_MESSAGE: Final = "unmatched-receive"
_BYTES: Final = frozenset(("MPI_BYTE", "MPI_PACKED", "PVM_BYTE", "packed"))
"""Types of raw memory: they fit messages of any type."""
_LENGTHS: Final = frozenset(("MPI_Get_count", "MPI_Get_elements", "MPI_Get_elements_x"))
_NEAR: Final = 32
"""Calls of its thread before a receive among which its probe is looked for."""
_FAR: Final = 4096
"""The same, of all threads."""


def find_races_without_exchange(match: Match, races: Races) -> NDArray[np.bool_]:
    """Return a mask of the races in which a receive may be left without a message: one of the other messages is
    received elsewhere, by a receive that cannot take the message of the racing receive in exchange.
    """
    first = races.first.astype(np.int64)
    recv = np.repeat(races.row.astype(np.int64), first[1:] - first[:-1])
    send = races.messages.astype(np.int64)
    of_probe = np.repeat(races.probe, first[1:] - first[:-1])
    other = np.zeros(len(send), np.bool_)
    plain = np.flatnonzero(~of_probe)
    lost: Ints = match.sends.partner[send[plain]].astype(np.int64)
    other[plain] = (lost != NONE) & ~can_exchange(match, recv[plain], send[plain])
    found: NDArray[np.bool_] = np.logical_or.reduceat(other, first[:-1]) if len(races) else other
    return found


def worst_outcome(match: Match, races: Races, race: int) -> tuple[str, str]:
    """Return the worst that happens if one of the other messages comes first: a word for programs ("truncation",
    "same", "unknown"), and text for people.
    """
    if races.probe[race]:
        return OPEN, ""
    row = int(races.row[race])
    took = int(match.recvs.partner[row])
    worst = SAME, ""
    for send in races.others(race).tolist():
        own = int(match.sends.partner[send])
        if own == NONE:
            worst = (OPEN, "") if worst[0] == SAME else worst
            continue
        pair = np.array([row], np.int64), np.array([send], np.int64)
        if not can_exchange(match, *pair)[0]:
            return NO_MESSAGE, _left_over_text(match, own, took)
        for message, receive in ((send, row), (took, own)):
            if _surely_fits(match, message, receive):
                continue
            misfit = _find_misfit(_buffer_event(match, message, sends=True), _buffer_event(match, receive, sends=False))
            if misfit[0] != SAME:
                worst = misfit
    return worst


def is_sized_by_probe(receive: Event) -> bool:
    """Return whether a receive has room for whichever message comes, as the program asked a probe for the length just
    before (by MPI_Get_count; MPI-4.1, 3.8.1 and 3.8.2).
    """
    size, asked, left = size_in_bytes(receive.datatype), None, _NEAR
    for index in range(receive.index - 1, max(-1, receive.index - 1 - _FAR), -1):
        event = receive.rank.event(index)
        if event.thread is not receive.thread:
            continue
        if left == 0:
            break
        left -= 1
        if asked is None and event.function.base in _LENGTHS:
            status = event.args.get("status")
            asked = status if isinstance(status, Status) and status.count == receive.count * (size or 0) else None
        elif asked is not None and event.function.probes and event.status is not None:
            seen = event.status
            return (seen.source, seen.tag, seen.count) == (asked.source, asked.tag, asked.count)
    return False


def _surely_fits(match: Match, send: int, recv: int) -> bool:
    """Return whether a message and a receive are of the same predefined type and the message is no longer than the
    receive. False also if that is unknown. `send`, `recv`: rows of the match.
    """
    (sent, wanted) = (
        match.trace.ranks[posts.rank_of(row)].events[int(posts.args[row])] if posts.args[row] != NONE else None
        for posts, row in ((match.sends, send), (match.recvs, recv))
    )
    if sent is None or wanted is None:
        return False
    same = int(sent["datatype"]) == int(wanted["datatype"]) < ID_DYNAMIC
    return same and int(sent["count"]) <= int(wanted["count"])


def _buffer_event(match: Match, row: int, *, sends: bool) -> Event:
    """Return the call that names the buffer of a send or receive; for a persistent request that is the call that made
    it.
    """
    posts = match.sends if sends else match.recvs
    args = int(posts.args[row])
    rank, event = posts.id(row)
    return match.trace.event(rank, event if args == NONE else args)


def _left_over_text(match: Match, receive_row: int, send_row: int) -> str:
    """Return words on a receive that may be left without a message, as it cannot take the one of a send. `receive_row`,
    `send_row`: rows of the match.
    """
    event = match.trace.event(*match.recvs.id(receive_row))
    source = match.sends.rank_of(send_row)
    return (
        f"{describe.call_words(event)}{describe.site_suffix(event)} cannot take the message of rank "
        f"{source} instead, and may wait for ever"
    )


def _find_misfit(send: Event, receive: Event) -> tuple[str, str]:
    """Return why a message does not fit a receive: a word for programs, and text for people. ("same", "") if it fits or
    that is unknown.
    """
    sent, wanted = send.datatype, receive.datatype
    sizes = size_in_bytes(sent), size_in_bytes(wanted)
    if sent is None or wanted is None or sizes[0] is None or sizes[1] is None:
        return SAME, ""
    if COUNT_IN_TAIL in (send.count, receive.count) or "recv" in send.function.name.lower():
        return SAME, ""
    if "send" in receive.function.name.lower():
        return SAME, ""  # a half of MPI_Sendrecv, whose receive is not in the slot
    place = f"{describe.call_words(receive)}{describe.site_suffix(receive)}"
    if send.count * sizes[0] > receive.count * sizes[1] and not is_sized_by_probe(receive):
        return TOO_LONG, f"the message{describe.site_suffix(send)} is too long for {place}"
    kinds = [{machine_type(name) for name, _ in type.signature() or ()} for type in (sent, wanted)]
    if all(kinds) and kinds[0] != kinds[1] and not _BYTES & (kinds[0] | kinds[1]):
        return (
            OTHER_TYPE,
            f"{place} gets the {sent.name} sent{describe.site_suffix(send)}, a datatype that it does not expect",
        )
    return SAME, ""
