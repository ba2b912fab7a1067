"""The contents of messages that differ, in lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.compare.contents import Content, Contents, hashed
from weft.compare.differences import Comparison
from weft.match import Match
from weft.terms.cited import said
from weft.terms.words import plural, rank_words

EventId = tuple[int, int]


def lines(contents: Contents | None, comparison: Comparison) -> list[str]:
    """What of the messages differs; nothing where no run has hashes."""
    if contents is None:
        sides = [hashed(side) for side in (comparison.before, comparison.after)]
        if any(sides):
            which = "run" if sides[0] else "reference"
            return [f"what messages hold was not compared: the {which} was recorded without --hash-messages"]
        return []
    if not contents.differing:
        return [f"what messages hold is alike: {plural(contents.compared, 'content')} of calls that are alike"]
    return list(_differing(contents, comparison))


def _differing(contents: Contents, comparison: Comparison) -> Iterator[str]:
    for number, one in enumerate(contents.first):
        heading = "and independently" if number else "first message whose content differs"
        yield f"{heading}: {_what(one, comparison.after)}"
        yield f"    {_end(one, comparison.after)}"
        if one.known is not None:
            last = _call(comparison.after, one.known)
            yield f"    the last content of {rank_words([one.rank])} that is as in the reference: {last}"
    if not contents.first:
        yield "what messages hold differs only where a receive took another message, or what was sent has no hash"
    all_of_them = plural(contents.compared, "content")
    yield f"in all, {contents.differing:,} of {all_of_them} differ ({rank_words(contents.ranks)})"


def _call(match: Match, event: EventId) -> str:
    return f"event {event[1]}, {said(match.trace.event(*event))}"


def _what(one: Content, match: Match) -> str:
    size = plural(one.bytes_after, "byte")
    if one.bytes_after != one.bytes_before:
        size += f" (in the reference {one.bytes_before:,})"
    verb = "sends" if one.sent else "receives"
    return f"{rank_words([one.rank])} {verb} {size} that differ: {_call(match, one.after)}"


def _end(one: Content, match: Match) -> str:
    """At which of the ends the difference is."""
    if match.collective_of(one.after) is not None:
        if one.sent:
            return "it is what this rank brings to the collective"
        return "every member brings what it did in the reference: the result differs, as by another order of sums"
    others = [f"{rank_words([rank])} ({_call(match, (rank, event))})" for rank, event in match.partners(one.after)]
    other = others[0] if others else "nobody in the record"
    if one.sent:
        return f"the sender's end: it was computed there, and went to {other}"
    changed = "changed on its way or while the receive was pending"
    return f"the receiver's end: it was sent as in the reference by {other}, and {changed}"


def to_json(contents: Contents | None, comparison: Comparison) -> dict[str, Any] | None:
    """The same for scripts."""
    if contents is None:
        return None
    return {
        "compared": contents.compared, "differing": contents.differing, "ranks": list(contents.ranks),
        "first": [_json(one, comparison.after) for one in contents.first],
    }  # fmt: skip


def _json(one: Content, match: Match) -> dict[str, Any]:
    event = match.trace.event(*one.after)
    return {
        "rank": one.rank, "end": "sent" if one.sent else "received", "event": one.after[1], "reference": one.before[1],
        "call": event.function.name, "peer": event.peer, "tag": event.tag, "file": event.site.file or "",
        "line": event.site.line, "bytes": one.bytes_after, "reference_bytes": one.bytes_before,
    }  # fmt: skip
