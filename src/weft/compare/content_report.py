"""Render the contents of messages that differ: lines for people, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.base.event_id import EventId
from weft.base.words import plural, rank_words
from weft.compare.contents import ContentComparison, MessageContent, has_hashes
from weft.compare.differences import Comparison
from weft.compare.values.tolerance import compute_ulp_distances
from weft.match import Match
from weft.terms.event_findings import call_at
from weft.terms.reduction_values import Numbers, as_numbers, combine_contributions, operation_name, read_contributions
from weft.trace import Event

CALLERS = 3
"""Callers of a call that are named: programs have functions of their own around MPI's."""
FAR = 1 << 20
"""Units in the last place from which on their number says nothing."""


def render_contents(contents: ContentComparison | None, comparison: Comparison) -> list[str]:
    """Return report lines on messages whose contents differ. Empty if neither run has hashes of contents."""
    if contents is None:
        sides = [has_hashes(side) for side in (comparison.before, comparison.after)]
        if any(sides):
            which = "run" if sides[0] else "reference"
            return [f"the contents of messages were not compared: the {which} was recorded without --hash-messages"]
        return []
    if not contents.differing:
        return [f"the messages of {plural(contents.compared, 'equal call')} have equal contents"]
    return list(_render_differences(contents, comparison))


def _render_differences(contents: ContentComparison, comparison: Comparison) -> Iterator[str]:
    """Yield report lines on the messages whose contents differ first: the call, the other end of the message, the
    differing numbers, the callers.
    """
    for number, one in enumerate(contents.first):
        heading = "and independently" if number else "first message whose content differs"
        yield f"{heading}: {_describe_content(one, comparison.after)}"
        yield f"    {_describe_message_end(one, comparison.after)}"
        yield from _render_differing_numbers(one, comparison)
        yield from caller_lines(comparison.after.trace.event(*one.after))
        if one.known is not None:
            last = numbered_call_text(comparison.after, one.known)
            yield f"    the last content of {rank_words([one.rank])} that is as in the reference: {last}"
    if not contents.first:
        yield (
            "the contents of messages differ only where a receive took another message, or where the sender "
            "recorded no hash"
        )
    all_of_them = plural(contents.compared, "content")
    yield f"in all, {contents.differing:,} of {all_of_them} differ ({rank_words(contents.ranks)})"


def differing_text(count: int, elements: int) -> str:
    """Return how many of some elements differ."""
    return f"{count} of {plural(elements, 'element')} {'differs' if count == 1 else 'differ'}"


def caller_lines(event: Event) -> Iterator[str]:
    """Yield a line with the callers of a call."""
    if some := event.site.callers[:CALLERS]:
        yield f"    called from {', '.join(caller.text for caller in some)}"


def numbered_call_text(match: Match, event: EventId) -> str:
    """Return a call with the number of its event."""
    return f"event {event[1]}, {call_at(match.trace.event(*event))}"


def _describe_content(content: MessageContent, match: Match) -> str:
    """Return a sentence that names a message whose content differs, with its rank, size and call."""
    size = plural(content.bytes_after, "byte")
    if content.bytes_after != content.bytes_before:
        size += f" (in the reference {content.bytes_before:,})"
    verb = "sends" if content.sent else "receives"
    return f"{rank_words([content.rank])} {verb} {size} that differ: {numbered_call_text(match, content.after)}"


def _describe_message_end(content: MessageContent, match: Match) -> str:
    """Return a sentence on the other end of a message whose content differs: who sent it, or who gets it."""
    if match.collective_of(content.after) is not None:
        if content.sent:
            return "this is what the rank contributes to the collective"
        return (
            "every member contributes the same as in the reference, and the result differs: another order of "
            "summation can do that"
        )
    others = [
        f"{rank_words([rank])} ({numbered_call_text(match, EventId(rank, event))})"
        for rank, event in match.partner_events(content.after)
    ]
    other = others[0] if others else "no rank in the record"
    if content.sent:
        return f"the difference arose on rank {content.rank}, which sent the message to {other}"
    changed = "changed on its way, or in the receive buffer before the receive was complete"
    return f"{other} sent the same as in the reference: the message {changed}"


def _read_both_contents(content: MessageContent, comparison: Comparison) -> tuple[Numbers, Numbers] | None:
    """Return (the numbers of a message in the reference, those in the run). None unless both runs kept them, with the
    same type and length.
    """
    found = []
    for side, event, row in (
        (comparison.before, content.before, content.rows[0]),
        (comparison.after, content.after, content.rows[1]),
    ):
        rank = side.trace.ranks[content.rank]
        found.append(as_numbers(rank.event(event[1]), rank.message_hashes.content_of(row)))
    before, after = found
    if before is None or after is None or before.dtype != after.dtype or len(before) != len(after):
        return None
    return before, after


def _render_differing_numbers(content: MessageContent, comparison: Comparison) -> Iterator[str]:
    """Yield report lines on the numbers of a message: which element differs, from what to what, and by how much."""
    both = _read_both_contents(content, comparison)
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
    most = float(compute_ulp_distances(before[other], after[other]).max()) if floats else 0.0
    units = f", at most {plural(int(most), 'unit')} in the last place apart" if 0 < most < FAR else ""
    count = differing_text(len(other), len(before))
    yield f"    element {at} is {after[at]}, in the reference {before[at]}; {count}{units}"
    if not content.sent and floats and comparison.after.collective_of(content.after) is not None:
        yield f"    {_explain_by_order(content, comparison, np.abs(before - after))}"


def _explain_by_order(content: MessageContent, comparison: Comparison, distances: Numbers) -> str:
    """Return a sentence that says whether another order of summation in the reduction explains why its results differ.
    `distances`: how far each element of the result is from the reference.
    """
    match = comparison.after
    instance = match.collective_of(content.after)
    parts = read_contributions(match.trace, match, instance) if instance is not None else None
    if parts is not None:
        made = combine_contributions(parts, operation_name(parts[0].event))
        if made is not None and len(made[0]) == len(distances):
            if np.all(distances <= made[1]):
                return "another order of the same operation explains the difference: it is rounding, not an error"
            return "no order of the members' values explains the difference: it is not rounding"
    return "not every member's values were recorded, so Weft cannot tell whether another order explains the difference"


def to_json(contents: ContentComparison | None, comparison: Comparison) -> dict[str, Any] | None:
    """Return the comparison of message contents as JSON values. None if the runs have no hashes of contents."""
    if contents is None:
        return None
    return {
        "compared": contents.compared,
        "differing": contents.differing,
        "ranks": list(contents.ranks),
        "first": [_content_to_json(one, comparison.after) for one in contents.first],
    }


def _content_to_json(content: MessageContent, match: Match) -> dict[str, Any]:
    """Return a message whose content differs as JSON values: rank, end (sent or received), call, peer, place
    and sizes.
    """
    event = match.trace.event(*content.after)
    return {
        "rank": content.rank, "end": "sent" if content.sent else "received",
        "event": content.after[1], "reference": content.before[1],
        "call": event.function.name, "peer": event.peer, "tag": event.tag, "file": event.site.file or "",
        "line": event.site.line, "callers": [caller.text for caller in event.site.callers],
        "bytes": content.bytes_after, "reference_bytes": content.bytes_before,
    }  # fmt: skip
