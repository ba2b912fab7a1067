"""The proofs of findings, replayed on the record: what is so holds, and what the record does not say does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.base.event_id import EventId
from weft.base.facts import changed
from weft.evidence import BufferAccess, Evidence, Overlap, WindowOverlap
from weft.findings import Finding
from weft.order import Order
from weft.trace import Trace
from weft.usage import proof


def unproven(trace: Trace, findings: Sequence[Finding], order: Order) -> list[str]:
    """Findings of memory whose proof does not hold, or holds all the same where it was spoilt."""
    of_memory = [f for f in findings if f.kind in ("rma-race", "buffer-reuse") and f.certainty != "undecided"]
    return [
        f.message
        for f in of_memory
        if not proof.is_evidence_confirmed(trace, f.evidence, order)
        or any(proof.is_evidence_confirmed(trace, evidence, order) for evidence in _spoilt(f.evidence))
    ]


def _spoilt(evidence: Evidence) -> Iterator[Evidence]:
    """Evidence that says something else than the record: bytes beside, nobody writes, over before the other began."""
    if not isinstance(evidence, Overlap | WindowOverlap):
        return
    one, two = evidence.accesses
    for accesses in _others(one, two):
        yield changed(evidence, accesses=accesses)


def _others(one: BufferAccess, two: BufferAccess) -> Iterator[list[BufferAccess]]:
    yield [changed(one, from_=one.to, to=one.to + 4), two]
    yield [changed(access, access="read") for access in (one, two)]
    if one.call.rank == two.call.rank:
        first, second = sorted((one, two), key=lambda access: access.call)
        yield [changed(first, until=EventId(second.call.rank, second.call.event - 1)), second]
    else:
        yield [changed(one, fence=1), changed(two, fence=2)]
        yield [changed(one, lock="exclusive"), changed(two, lock="shared")]
