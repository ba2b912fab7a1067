"""Reductions computed again, from what each process brought, in the order of ranks (`weft run --hash-messages`).

A result that no order of the same numbers gives is wrong, wherever that comes from: a buffer that was written while the
operation was pending, members that asked for other operations, a library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.match import Match
from weft.terms.cited import finding, said
from weft.terms.reduced import PREFIX, Numbers, Part, combined, kin, operation, reductions
from weft.terms.words import plural
from weft.trace import Trace

TOLD: Final = 20
"""Findings of one call site; the rest follows from the same cause."""


def find(trace: Trace, match: Match) -> list[Finding]:
    """Reductions whose result is not what their members brought comes to."""
    told: dict[tuple[int, int], int] = {}
    found = []
    for parts in reductions(trace, match):
        for one in _judged(parts):
            place = one.events[0][0], int(parts[0].event.rank.events["site"][parts[0].event.index])
            told[place] = told.get(place, 0) + 1
            if told[place] <= TOLD:
                found.append(one)
    return found


def _judged(parts: list[Part]) -> Iterator[Finding]:
    name = operation(parts[0].event)
    for k, part in enumerate(parts):
        of = kin(part.event.function.name)
        made_of = parts[: k + PREFIX[of]] if of in PREFIX else parts
        expected = combined(made_of, name) if part.got is not None and made_of else None
        if expected is None or part.got is None or len(part.got) != len(expected[0]):
            continue
        wrong = np.flatnonzero(~_alike(part.got, *expected, logical=name in ("MPI_LAND", "MPI_LOR", "MPI_LXOR")))
        if len(wrong):
            yield _wrong(parts, part, name, wrong, expected[0])


def _alike(got: Numbers, expected: Numbers, bound: Any, *, logical: bool) -> NDArray[np.bool_]:
    if logical:
        same: NDArray[np.bool_] = (got != 0) == expected
        return same
    with np.errstate(invalid="ignore", over="ignore"):
        alike = (got == expected) | (np.abs(got - expected) <= bound) if got.dtype.kind in "fc" else got == expected
    # A number that is none, or too large, depends on the order in more than its last bits.
    odd = ~np.isfinite(expected) | ~np.isfinite(got) | ~np.isfinite(bound) if got.dtype.kind in "fc" else False
    result: NDArray[np.bool_] = alike | odd
    return result


def _wrong(parts: list[Part], part: Part, name: str, wrong: NDArray[np.int64], expected: Numbers) -> Finding:
    at, rank = int(wrong[0]), part.event.rank.index
    got = part.got[at] if part.got is not None else None
    brought = [one.brought[at].item() for one in parts if one.brought is not None]
    more = f" ({plural(len(wrong), 'element')} of it are wrong)" if len(wrong) > 1 else ""
    listed = ", ".join(f"{value:.17g}" if isinstance(value, float) else str(value) for value in brought[:8])
    ranks = plural(len(brought), "rank")
    message = (
        f"{said(part.event)} with {name} gave rank {rank} {got} as element {at}{more}; what its {ranks} brought "
        f"({listed}{', …' if len(brought) > 8 else ''}) comes to {expected[at]}"
    )
    others = [one.event for one in parts if one is not part]
    evidence = {
        "element": at,
        "got": str(got),
        "expected": str(expected[at]),
        "elements": len(wrong),
        "operation": name,
    }
    return finding("wrong-reduction", message, [part.event, *others], evidence=evidence)
