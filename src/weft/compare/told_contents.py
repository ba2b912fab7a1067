"""The contents of messages that differ, in lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.base.event_id import EventId
from weft.base.words import plural, rank_words
from weft.compare.contents import Content, Contents, hashed
from weft.compare.differences import Comparison
from weft.compare.values.tolerance import ulps
from weft.match import Match
from weft.terms.event_findings import said
from weft.terms.reduction_values import Numbers, combined, members, numbers, operation
from weft.trace import Event

CALLERS = 3
"""Callers of a call that are named: programs have functions of their own around MPI's."""
FAR = 1 << 20
"""Units in the last place from which on their number says nothing."""


def lines(contents: Contents | None, comparison: Comparison) -> list[str]:
    """What of the messages differs; nothing where no run has hashes."""
    if contents is None:
        sides = [hashed(side) for side in (comparison.before, comparison.after)]
        if any(sides):
            which = "run" if sides[0] else "reference"
            return [f"what messages hold was not compared: the {which} was recorded without --hash-messages"]
        return []
    if not contents.differing:
        return [f"the messages of {plural(contents.compared, 'equal call')} have equal contents"]
    return list(_differing(contents, comparison))


def _differing(contents: Contents, comparison: Comparison) -> Iterator[str]:
    for number, one in enumerate(contents.first):
        heading = "and independently" if number else "first message whose content differs"
        yield f"{heading}: {_what(one, comparison.after)}"
        yield f"    {_end(one, comparison.after)}"
        yield from _numbers(one, comparison)
        yield from callers(comparison.after.trace.event(*one.after))
        if one.known is not None:
            last = called(comparison.after, one.known)
            yield f"    the last content of {rank_words([one.rank])} that is as in the reference: {last}"
    if not contents.first:
        yield "what messages hold differs only where a receive took another message, or what was sent has no hash"
    all_of_them = plural(contents.compared, "content")
    yield f"in all, {contents.differing:,} of {all_of_them} differ ({rank_words(contents.ranks)})"


def differ(count: int, elements: int) -> str:
    """How many of some elements differ."""
    return f"{count} of {plural(elements, 'element')} {'differs' if count == 1 else 'differ'}"


def callers(event: Event) -> Iterator[str]:
    """Who called a call, in a line."""
    if some := event.site.callers[:CALLERS]:
        yield f"    called from {', '.join(caller.text for caller in some)}"


def called(match: Match, event: EventId) -> str:
    """A call by its number and what it asks for."""
    return f"event {event[1]}, {said(match.trace.event(*event))}"


def _what(one: Content, match: Match) -> str:
    size = plural(one.bytes_after, "byte")
    if one.bytes_after != one.bytes_before:
        size += f" (in the reference {one.bytes_before:,})"
    verb = "sends" if one.sent else "receives"
    return f"{rank_words([one.rank])} {verb} {size} that differ: {called(match, one.after)}"


def _end(one: Content, match: Match) -> str:
    """At which of the ends the difference is."""
    if match.collective_of(one.after) is not None:
        if one.sent:
            return "it is what this rank brings to the collective"
        return "every member brings what it did in the reference: the result differs, as by another order of sums"
    others = [
        f"{rank_words([rank])} ({called(match, EventId(rank, event))})" for rank, event in match.partners(one.after)
    ]
    other = others[0] if others else "nobody in the record"
    if one.sent:
        return f"the sender's end: it was computed there, and went to {other}"
    changed = "changed on its way or while the receive was pending"
    return f"the receiver's end: it was sent as in the reference by {other}, and {changed}"


def _kept(one: Content, comparison: Comparison) -> tuple[Numbers, Numbers] | None:
    """The numbers of a content in the reference and in the run, where both kept them: those of reductions."""
    found = []
    for side, event, row in ((comparison.before, one.before, one.rows[0]), (comparison.after, one.after, one.rows[1])):
        rank = side.trace.ranks[one.rank]
        found.append(numbers(rank.event(event[1]), rank.hashed.kept(row)))
    before, after = found
    if before is None or after is None or before.dtype != after.dtype or len(before) != len(after):
        return None
    return before, after


def _numbers(one: Content, comparison: Comparison) -> Iterator[str]:
    """Which element differs, from what to what, and by how much."""
    both = _kept(one, comparison)
    if both is None:
        return
    before, after = both
    alike = before == after
    if before.dtype.kind in "fc":
        alike |= np.isnan(before) & np.isnan(after)
    other = np.flatnonzero(~alike)
    if not len(other):
        return
    at, floats = int(other[0]), before.dtype.kind == "f"
    most = float(ulps(before[other], after[other]).max()) if floats else 0.0
    units = f", at most {plural(int(most), 'unit')} in the last place apart" if 0 < most < FAR else ""
    yield f"    element {at} is {after[at]}, in the reference {before[at]}; {differ(len(other), len(before))}{units}"
    if not one.sent and floats and comparison.after.collective_of(one.after) is not None:
        yield f"    {_order(one, comparison, np.abs(before - after))}"


def _order(one: Content, comparison: Comparison, apart: Numbers) -> str:
    """Whether another order of the same operation explains a result."""
    match = comparison.after
    instance = match.collective_of(one.after)
    parts = members(match.trace, match, instance) if instance is not None else None
    if parts is not None:
        made = combined(parts, operation(parts[0].event))
        if made is not None and len(made[0]) == len(apart):
            if np.all(apart <= made[1]):
                return "another order of the same operation explains it: it is rounding, and no error"
            return "no order of what the members brought explains it"
    return "what all members brought is not kept: whether another order explains it is not known"


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
        "line": event.site.line, "callers": [caller.text for caller in event.site.callers],
        "bytes": one.bytes_after, "reference_bytes": one.bytes_before,
    }  # fmt: skip
