"""Why nothing orders two events: their vector times (Fidge, Mattern), put beside a race as its evidence.

The vector time of an event counts for each rank how many of its calls have begun, or come to their end, before it. A
message can come before the one that a receive took if its sender, when it sent, did not know how that was decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from weft.base.words import plural
from weft.findings import EventId, Finding
from weft.report.analysis import Report
from weft.report.ground import Ground

RACES: Final = ("message-race", "rma-race")
MOST: Final = 200
"""Findings that are proved."""
EVENTS: Final = 9
"""Events of a finding whose times are told: the receive, the message it took, and of others the first."""
_SHOWN: Final = 16


def proved(ground: Ground, report: Report) -> Report:
    """The report with the vector times of its races in their evidence, under `proof`."""
    many = 0
    findings = []
    for finding in report.findings:
        if finding.kind in RACES and len(finding.events) > 1 and many < MOST and "outcome" in _with_outcome(finding):
            many += 1
            findings.append(replace(finding, evidence={**finding.evidence, "proof": _proof(ground, finding)}))
        else:
            findings.append(finding)
    return replace(report, findings=tuple(findings))


def _with_outcome(finding: Finding) -> Iterable[str]:
    """What tells a race from a note that only names a place: of accesses every finding has two."""
    return finding.evidence if finding.kind == "message-race" else ("outcome",)


def _proof(ground: Ground, finding: Finding) -> dict[str, object]:
    events = list(finding.events[:EVENTS])
    if finding.kind == "rma-race":
        events = events[:2]
    times = [_time(*ground.around(event)) for event in events]
    reasons = _of_messages(*ground.holding(finding)) if finding.kind == "message-race" else _of_accesses(ground, events)
    return {"times": times, "because": reasons}


def _time(ground: Ground, event: EventId) -> dict[str, object]:
    """The vector time of an event: of each rank the calls that had begun, and ended, before it began."""
    past = ground.order.past(event, end=False)
    rank, index = ground.named(event)
    begun, ended = (calls.tolist() for calls in ground.counted(past))
    return {"rank": rank, "event": index, "begun": begun, "ended": ended}


def _of_messages(ground: Ground, finding: Finding) -> list[str]:
    (receiver, receive), *_ = finding.events
    _, decided = ground.named((receiver, _decision(ground, receiver, receive)))
    reasons = []
    for other in finding.evidence.get("others", ())[: EVENTS - 2]:
        sender, send = int(other["rank"]), int(other["event"])
        _, call = ground.named((sender, send))
        known = int(ground.counted(ground.order.past((sender, send), end=False))[1][receiver])
        reasons.append(
            f"rank {sender} sends in its call {call}, when it knows of {plural(known, 'finished call')} of rank "
            f"{receiver}; that receive was decided in call {decided}, which is not among them"
        )
    return reasons


def _decision(ground: Ground, rank: int, receive: int) -> int:
    """The call at whose end a receive was proved to be decided."""
    for row in ground.match.receives_of((rank, receive)):
        known = int(ground.order.known[row])
        if known < len(ground.trace.ranks[rank]):
            return known
    return receive


def _of_accesses(ground: Ground, events: list[tuple[int, int]]) -> list[str]:
    reasons = []
    for (rank, index), (other, place) in ((events[0], events[-1]), (events[-1], events[0])):
        if rank != other:
            known = int(ground.order.past((rank, index), end=False).ended[other])
            reasons.append(
                f"when rank {rank} begins its call {index}, it knows of {plural(known, 'finished call')} of rank "
                f"{other}, whose access is its call {place}"
            )
    return reasons


def lines(finding: Finding) -> Iterable[str]:
    """The proof for people."""
    proof = finding.evidence.get("proof")
    if not isinstance(proof, dict):
        return
    yield from (str(text) for text in proof["because"])
    for time in proof["times"]:
        ranks = time["ended"][:_SHOWN]
        more = ", ..." if len(time["ended"]) > _SHOWN else ""
        numbers = ", ".join(map(str, ranks))
        yield f"vector time of call {time['event']} of rank {time['rank']}: <{numbers}{more}> finished calls by rank"
