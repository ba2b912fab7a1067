"""The proofs of findings, replayed on the record: what is so holds, and what the record does not say does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
        if not proof.holds(trace, f.evidence, order)
        or any(proof.holds(trace, evidence, order) for evidence in _spoilt(f.evidence))
    ]


def _spoilt(evidence: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Evidence that says something else than the record: bytes beside, nobody writes, over before the other began."""
    if "accesses" not in evidence:
        return
    one, two = evidence["accesses"]
    yield {**evidence, "accesses": [{**one, "from": one["to"], "to": one["to"] + 4}, two]}
    yield {**evidence, "accesses": [{**access, "access": "read"} for access in (one, two)]}
    if one["call"][0] == two["call"][0]:
        first, second = sorted((one, two), key=lambda access: list(access["call"]))
        yield {**evidence, "accesses": [{**first, "until": [second["call"][0], second["call"][1] - 1]}, second]}
    else:
        yield {**evidence, "accesses": [{**one, "fence": 1}, {**two, "fence": 2}]}
        yield {**evidence, "accesses": [{**one, "lock": "exclusive"}, {**two, "lock": "shared"}]}
