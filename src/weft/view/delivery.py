"""One message: both its ends, what it carried, how long it took, and who waited for it."""

from __future__ import annotations

from typing import Any

from weft.errors import UsageError
from weft.match import NONE, Match, Posts
from weft.terms import calls
from weft.terms.datatype_sizes import size_of
from weft.terms.describe import where
from weft.trace import Event
from weft.trace.layout import COUNT_IN_TAIL
from weft.view.links import Links


def size(event: Event) -> int | None:
    """Bytes of a call: what came, as the status tells, else its count times the size of its datatype."""
    if event.status is not None:
        return event.status.count
    if event.polls or not {"count", "datatype"} <= event.function.slot.keys():
        return None
    of, count = size_of(event.datatype), event.count
    return None if of is None or count < 0 or count == COUNT_IN_TAIL else of * count


def message(links: Links, side: str, row: int) -> dict[str, Any]:
    """The facts of a row of `match.sends` (side "send") or, without a partner, of `match.recvs` ("receive")."""
    match = links.match
    posts = {"send": match.sends, "receive": match.recvs}.get(side)
    if posts is None or not 0 <= row < len(posts.event):
        raise UsageError(f"the run has no message {side} {row}")
    other = int(posts.partner[row])
    sent = row if side == "send" else None if other == NONE else other
    had = row if side == "receive" else None if other == NONE else other
    comm = int(posts.comm[row])
    facts: dict[str, object] = {
        "side": side, "row": row, "tag": int(posts.tag[row]), "bytes": _bytes(match, sent, had), "latency_ns": None,
        "comm": match.trace.communicators[comm].name if comm >= 0 else "unknown",
        "send": None if sent is None else _end(_event(match.sends, sent, match)),
        "post": None if had is None else _end(_event(match.recvs, had, match)), "receive": None,
        "peer": int(posts.peer[row]),
    }  # fmt: skip
    if sent is None or had is None:
        return {**facts, "why": ["No receive of this run took it." if had is None else "Nobody sent it in this run."]}
    return {**facts, **_delivery(links, sent, had)}


def _delivery(links: Links, sent: int, had: int) -> dict[str, object]:
    """What is known of a message that came."""
    match = links.match
    send, post = _event(match.sends, sent, match), _event(match.recvs, had, match)
    done = _done(match.recvs, had, match)
    arrived = None if done is None else done.exit_ns
    return {
        "receive": None if done is None else _end(done),
        "latency_ns": None if arrived is None else arrived - send.enter_ns,
        "why": list(_why(links, send, post, done or post, _done(match.sends, sent, match) or send)),
    }


def _why(links: Links, send: Event, post: Event, done: Event, gone: Event) -> list[str]:
    """Who waited for whom, and which side came first."""
    said = []
    if late := links.waited(done.id, send.id):
        said.append(f"Rank {done.rank.index} waited {_long(late)} for it in {_call(done)}: it was sent late.")
    if late := links.held(gone.id, post.id):
        said.append(f"Rank {gone.rank.index} waited {_long(late)} in {_call(gone)} until its receive was posted.")
    if not said:
        said.append("Nobody waited for it.")
    apart = post.enter_ns - send.enter_ns
    if apart >= 0:
        said.append(f"It was sent {_long(apart)} before its receive was posted.")
    else:
        said.append(f"Its receive was posted {_long(-apart)} before it was sent.")
    return said


def _long(ns: int) -> str:
    """A time with three digits that count, as the page writes it: 1.25 ms."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= factor * 0.9995:
            return f"{ns / factor:.0f} {unit}" if ns >= 100 * factor else f"{ns / factor:.3g} {unit}"
    return f"{ns} ns"


def _call(event: Event) -> str:
    return calls.spoken(event.function.name) + where(event)


def _event(posts: Posts, row: int, match: Match) -> Event:
    return match.trace.event(*posts.id(row))


def _done(posts: Posts, row: int, match: Match) -> Event | None:
    """The call whose return said that it was complete; None where none did."""
    rank, _ = posts.id(row)
    done = int(posts.completion[row])
    return None if done == NONE else match.trace.event(rank, done)


def _end(event: Event) -> dict[str, Any]:
    return {"event": list(event.id), "function": event.function.name, "site": event.site.text, "open": event.open,
            "enter_ns": event.enter_ns, "exit_ns": event.exit_ns}  # fmt: skip


def _bytes(match: Match, sent: int | None, had: int | None) -> int | None:
    """As the receiver's status tells, else as the sender described its buffer."""
    if had is not None:
        done = _done(match.recvs, had, match)
        if done is not None and done.received is not None and done.status is not None:
            return done.status.count
    if sent is None:
        return None
    rank, _ = match.sends.id(sent)
    holder = int(match.sends.args[sent])
    return size(match.trace.event(rank, holder)) if holder < len(match.trace.ranks[rank].events) else None
