"""The facts of one message: both ends, what it carried, how long it took, and who waited for it."""

from __future__ import annotations

from typing import Any

from weft.errors import UsageError
from weft.match import NONE, Match, Posts
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.describe import function_word, site_suffix
from weft.trace import Event
from weft.trace.layout import COUNT_IN_TAIL
from weft.view.links import Links


def call_bytes(event: Event) -> int | None:
    """Return how many bytes a call transferred: as its status says, or else its count times the size of its datatype.
    None if neither is known.
    """
    if event.status is not None:
        return event.status.count
    if event.polls or not {"count", "datatype"} <= event.function.slot.keys():
        return None
    of, count = size_in_bytes(event.datatype), event.count
    return None if of is None or count < 0 or count == COUNT_IN_TAIL else of * count


def message_facts(links: Links, side: str, row: int) -> dict[str, Any]:
    """Return what the page shows about one message.

    `row` is a row of `match.sends` if `side` is "send". It is a row of `match.recvs` if `side` is "receive", for a
    receive without a send. UsageError if there is no such row.
    """
    match = links.match
    posts = {"send": match.sends, "receive": match.recvs}.get(side)
    if posts is None or not 0 <= row < len(posts.event):
        raise UsageError(f"the run has no message {side} {row}")
    other = int(posts.partner[row])
    sent = row if side == "send" else None if other == NONE else other
    had = row if side == "receive" else None if other == NONE else other
    comm = int(posts.comm[row])
    facts: dict[str, object] = {
        "side": side,
        "row": row,
        "tag": int(posts.tag[row]),
        "bytes": _message_bytes(match, sent, had),
        "latency_ns": None,
        "comm": match.trace.communicators[comm].name if comm >= 0 else "unknown",
        "send": None if sent is None else _call_to_json(_event_of_row(match.sends, sent, match)),
        "post": None if had is None else _call_to_json(_event_of_row(match.recvs, had, match)),
        "receive": None,
        "peer": int(posts.peer[row]),
    }
    if sent is None or had is None:
        return {**facts, "why": ["No receive of this run took it." if had is None else "Nobody sent it in this run."]}
    return {**facts, **_delivery_facts(links, sent, had)}


def _delivery_facts(links: Links, send_row: int, receive_row: int) -> dict[str, object]:
    """Return how a message was received: the call that completed the receive, the latency in ns, and who waited for
    whom.
    """
    match = links.match
    send, post = _event_of_row(match.sends, send_row, match), _event_of_row(match.recvs, receive_row, match)
    done = _completing_call(match.recvs, receive_row, match)
    arrived = None if done is None else done.exit_ns
    return {
        "receive": None if done is None else _call_to_json(done),
        "latency_ns": None if arrived is None else arrived - send.enter_ns,
        "why": list(
            _explain_waiting(links, send, post, done or post, _completing_call(match.sends, send_row, match) or send)
        ),
    }


def _explain_waiting(links: Links, send: Event, post: Event, receive_end: Event, send_end: Event) -> list[str]:
    """Return sentences on who waited for whom, and which side came first. `send` and `post` are the calls that started
    the send and the receive; `send_end` and `receive_end` are the calls that completed them.
    """
    said = []
    if late := links.receive_wait_ns(receive_end.id, send.id):
        said.append(
            f"Rank {receive_end.rank.index} waited {_format_duration(late)} for it in {_call_text(receive_end)}: "
            "it was sent late."
        )
    if late := links.send_wait_ns(send_end.id, post.id):
        said.append(
            f"Rank {send_end.rank.index} waited {_format_duration(late)} in {_call_text(send_end)} "
            "until its receive was posted."
        )
    if not said:
        said.append("Nobody waited for it.")
    apart = post.enter_ns - send.enter_ns
    if apart >= 0:
        said.append(f"It was sent {_format_duration(apart)} before its receive was posted.")
    else:
        said.append(f"Its receive was posted {_format_duration(-apart)} before it was sent.")
    return said


def _format_duration(ns: int) -> str:
    """Return a duration with three significant digits, as the page writes it: `1.25 ms`."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= factor * 0.9995:
            return f"{ns / factor:.0f} {unit}" if ns >= 100 * factor else f"{ns / factor:.3g} {unit}"
    return f"{ns} ns"


def _call_text(event: Event) -> str:
    return function_word(event) + site_suffix(event)


def _event_of_row(posts: Posts, row: int, match: Match) -> Event:
    return match.trace.event(*posts.id(row))


def _completing_call(posts: Posts, row: int, match: Match) -> Event | None:
    """Return the call that completed a send or receive; None if none did. `row`: its row in `posts`."""
    rank, _ = posts.id(row)
    done = int(posts.completion[row])
    return None if done == NONE else match.trace.event(rank, done)


def _call_to_json(event: Event) -> dict[str, Any]:
    """Return the facts of the call at one end of a message, as JSON values."""
    return {
        "event": list(event.id),
        "function": event.function.name,
        "site": event.site.text,
        "open": event.open,
        "enter_ns": event.enter_ns,
        "exit_ns": event.exit_ns,
    }


def _message_bytes(match: Match, send_row: int | None, receive_row: int | None) -> int | None:
    """Return how many bytes a message has: as the receiver's status says, or else by the sender's count and datatype.
    None if neither is known.
    """
    if receive_row is not None:
        done = _completing_call(match.recvs, receive_row, match)
        if done is not None and done.received is not None and done.status is not None:
            return done.status.count
    if send_row is None:
        return None
    rank, _ = match.sends.id(send_row)
    holder = int(match.sends.args[send_row])
    return call_bytes(match.trace.event(rank, holder)) if holder < len(match.trace.ranks[rank].events) else None
