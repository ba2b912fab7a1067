"""Proves that nothing orders two events, by their vector times (Fidge, Mattern), as the evidence of a race.

The vector time of an event counts for each rank how many of its calls have begun, or come to their end, before it. A
message can come before the one that a receive took if its sender, when it sent, did not know how that was decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from weft.base.event_id import EventId
from weft.base.words import plural
from weft.evidence import Proof, Race, VectorTime
from weft.findings import Finding
from weft.report.analysis import Report
from weft.report.context import AnalysisContext

RACES: Final = ("message-race", "rma-race")
MOST: Final = 200
"""The most findings that get a proof."""
EVENTS: Final = 9
"""The most events of a finding whose times are shown: the receive, the message it took, and the first others."""
_SHOWN: Final = 16


def add_proofs(context: AnalysisContext, report: Report) -> Report:
    """Return the report with a `proof` for each race: the vector times of its events, and why nothing orders them."""
    many = 0
    findings = []
    for finding in report.findings:
        if finding.kind in RACES and len(finding.events) > 1 and many < MOST and not _is_place_note(finding):
            many += 1
            findings.append(replace(finding, proof=_make_proof(context, finding)))
        else:
            findings.append(finding)
    return replace(report, findings=tuple(findings))


def _is_place_note(finding: Finding) -> bool:
    """Return whether it is a note on a place, and not a race: a finding on accesses always has two events."""
    return finding.kind == "message-race" and not isinstance(finding.evidence, Race)


def _make_proof(context: AnalysisContext, finding: Finding) -> Proof:
    """Return the proof of a race: the vector times of its events, and sentences on why nothing orders them."""
    events = list(finding.events[:EVENTS])
    if finding.kind == "rma-race":
        events = events[:2]
    times = [_vector_time(*context.locate_event(event)) for event in events]
    reasons = (
        _message_reasons(*context.locate_finding(finding))
        if finding.kind == "message-race"
        else _access_reasons(context, events)
    )
    return Proof(times=times, because=reasons)


def _vector_time(context: AnalysisContext, event: EventId) -> VectorTime:
    """Return the vector time of an event: how many calls of each rank had begun, and how many had ended, before it
    began.
    """
    past = context.order.past(event, end=False)
    rank, index = context.named(event)
    begun, ended = (calls.tolist() for calls in context.count_in_past(past))
    return VectorTime(rank=rank, event=index, begun=begun, ended=ended)


def _message_reasons(context: AnalysisContext, finding: Finding) -> list[str]:
    """Return a sentence for each other message of a race on why it could have come first."""
    receive = finding.events[0]
    receiver = receive.rank
    _, decided = context.named(EventId(receiver, _deciding_call(context, receive)))
    reasons = []
    others = finding.evidence.others if isinstance(finding.evidence, Race) else ()
    for send in (EventId(other.rank, other.event) for other in others[: EVENTS - 2]):
        sender, call = context.named(send)
        known = int(context.count_in_past(context.order.past(send, end=False))[1][receiver])
        reasons.append(
            f"when rank {sender} sends in its call {call}, it knows of {plural(known, 'finished call')} of rank "
            f"{receiver}; rank {receiver} took the message only in its call {decided}, so nothing orders that "
            f"before this send"
        )
    return reasons


def _deciding_call(context: AnalysisContext, receive: EventId) -> int:
    """Return the event index of the call by whose end it was certain which message a receive gets."""
    for row in context.match.receives_of(receive):
        known = int(context.order.known[row])
        if known < len(context.trace.ranks[receive.rank]):
            return known
    return receive.event


def _access_reasons(context: AnalysisContext, events: list[EventId]) -> list[str]:
    """Return a sentence for each of two accesses of different ranks: that its rank had not seen the other access
    end.
    """
    reasons = []
    for event, (other, place) in ((events[0], events[-1]), (events[-1], events[0])):
        if event.rank != other:
            known = int(context.order.past(event, end=False).ended[other])
            reasons.append(
                f"when rank {event.rank} begins its call {event.event}, it knows of "
                f"{plural(known, 'finished call')} of rank {other}; that rank's access is its call {place}, so "
                f"nothing orders that before this one"
            )
    return reasons


def proof_lines(finding: Finding) -> Iterable[str]:
    """Yield the proof of a finding as lines of text; none if it has no proof."""
    proof = finding.proof
    if proof is None:
        return
    yield from proof.because
    for time in proof.times:
        more = ", ..." if len(time.ended) > _SHOWN else ""
        numbers = ", ".join(map(str, time.ended[:_SHOWN]))
        yield f"vector time of call {time.event} of rank {time.rank}: <{numbers}{more}> finished calls by rank"
