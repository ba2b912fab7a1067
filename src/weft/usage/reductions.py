"""Check the results of reductions against what each process brought (`weft run --hash-messages`).

A result that no order of the same numbers gives is wrong, whatever the reason: a buffer that was written while the
operation was pending, members that asked for other operations, a library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.words import plural
from weft.evidence import Evidence
from weft.findings import Finding
from weft.match import Match
from weft.terms.event_findings import call_at, make_finding
from weft.terms.reduction_values import (
    PREFIX,
    Contribution,
    Numbers,
    blocking_name,
    combine_contributions,
    operation_name,
    read_contributions,
)
from weft.trace import Trace
from weft.usage.reduction_batches import are_allowed_results, find_wrong_results

TOLD: Final = 20
"""Findings of one call site; the rest follows from the same cause."""


class Element(Evidence):
    """The first element that is wrong, how many are, and by which operation."""

    element: int
    got: str
    expected: str
    elements: int
    operation: str


def find(trace: Trace, match: Match) -> list[Finding]:
    """Find reductions that gave a rank a result that does not follow from what the ranks brought."""
    if not any(len(rank.hashes) for rank in trace.ranks):
        return []
    told: dict[tuple[int, int], int] = {}
    found: list[Finding] = []
    for instance, member in find_wrong_results(trace, match).tolist():
        row = int(match.instances.parts(instance)[member])
        rank, event = match.collectives.id(row)
        place = rank, int(trace.ranks[rank].events["site"][event])
        told[place] = told.get(place, 0) + 1
        if told[place] <= TOLD:
            found += _check_member_result(read_contributions(trace, match, instance) or [], member)
    return found


def _check_member_result(parts: list[Contribution], member: int) -> Iterator[Finding]:
    """Compute one reduction again from what its members brought, and report if the result of the member `member` is
    wrong.
    """
    part, name = parts[member], operation_name(parts[0].event)
    of = blocking_name(part.event.function.name)
    expected = combine_contributions(parts[: member + PREFIX[of]] if of in PREFIX else parts, name)
    if expected is not None and part.got is not None:
        wrong = np.flatnonzero(~are_allowed_results(part.got, *expected, name))
        yield _wrong_result_finding(parts, part, name, wrong, expected[0])


def _wrong_result_finding(
    parts: list[Contribution], part: Contribution, name: str, wrong: NDArray[np.int64], expected: Numbers
) -> Finding:
    """Make the finding for a wrong result of one rank.

    `parts`: what each rank brought and got, `part`: that of this rank. `wrong`: indices of the wrong elements.
    `expected`: the right numbers.
    """
    at, rank = int(wrong[0]), part.event.rank.index
    got = part.got[at] if part.got is not None else None
    brought = [one.brought[at].item() for one in parts if one.brought is not None]
    more = f" ({plural(len(wrong), 'element')} of it are wrong)" if len(wrong) > 1 else ""
    listed = ", ".join(f"{value:.17g}" if isinstance(value, float) else str(value) for value in brought[:8])
    ranks = plural(len(brought), "rank")
    message = (
        f"{call_at(part.event)} with {name} gave rank {rank} {got} as element {at}{more}; the values of its {ranks} "
        f"({listed}{', …' if len(brought) > 8 else ''}) give {expected[at]}"
    )
    others = [one.event for one in parts if one is not part]
    evidence = Element(element=at, got=str(got), expected=str(expected[at]), elements=len(wrong), operation=name)
    return make_finding("wrong-reduction", message, [part.event, *others], evidence=evidence)
