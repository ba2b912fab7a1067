"""Find where in the run the first value that differs was kept, so that a debugger can stop there."""

from __future__ import annotations

from weft.base.lazy import dataclass
from weft.compare.values.model import ValueComparison


@dataclass(frozen=True, slots=True)
class ProbeVisit:
    """A line of the program on a rank, after `before` earlier visits."""

    rank: int
    file: str
    line: int
    before: int


def find_first_visit(comparison: ValueComparison) -> ProbeVisit | None:
    """Return the visit of a probe (rank, file, line, number of earlier visits) at which the first difference appeared,
    so that a debugger can stop there. None if no difference has a source line.
    """
    for one in comparison.found[0] if comparison.found else []:
        place = one.after.place
        if place.file and place.line:
            return ProbeVisit(max(one.after.process.rank, 0), place.file, place.line, one.after.times)
    return None
