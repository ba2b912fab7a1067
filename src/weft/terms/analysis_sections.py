"""Analyses that go rank by rank: several processes run them on ranks of their own (weft.report.parallel), and the
findings are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from weft.base.lazy import dataclass
from weft.findings import Finding
from weft.match import Match
from weft.trace import Trace


@dataclass(frozen=True)
class Part:
    """A section of an analysis, about the ranks in `trace.own`, in their order.

    Its findings come in groups, of which a report tells the first `most` of all ranks; None: all.
    """

    find: Callable[[Trace, Match], Iterable[list[Finding]]]
    most: int | None = None


def in_turn(parts: Sequence[Part], trace: Trace, match: Match) -> list[Finding]:
    """What the parts find, one behind the other."""
    return [found for part in parts for group in first(part.find(trace, match), part.most) for found in group]


def first(groups: Iterable[list[Finding]], most: int | None) -> Iterator[list[Finding]]:
    """The groups that are told."""
    return islice(groups, most)
