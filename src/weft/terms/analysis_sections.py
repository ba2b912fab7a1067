"""Split analyses into sections that go rank by rank, so that several processes can run them (weft.report.parallel) with
the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from weft.base.lazy import dataclass
from weft.findings import Finding
from weft.match import Match
from weft.trace import Trace


@dataclass(frozen=True)
class AnalysisSection:
    """A section of an analysis, about the ranks in `trace.own`, in their order.

    `find` yields findings in groups, of which a report shows the first `max_groups` of all ranks; None: all.
    """

    find: Callable[[Trace, Match], Iterable[list[Finding]]]
    most: int | None = None


def run_sections(sections: Sequence[AnalysisSection], trace: Trace, match: Match) -> list[Finding]:
    """Run the sections one after the other and return their findings."""
    return [found for part in sections for group in limit_groups(part.find(trace, match), part.most) for found in group]


def limit_groups(groups: Iterable[list[Finding]], max_groups: int | None) -> Iterator[list[Finding]]:
    """Return the groups of findings to report: the first `max_groups`, or all if that is None."""
    return islice(groups, max_groups)
