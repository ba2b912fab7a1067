"""Where in the run the first value that differs was kept: what a debugger needs to stop there."""

from __future__ import annotations

from weft.base.lazy import dataclass
from weft.compare.values.model import ValueComparison


@dataclass(frozen=True, slots=True)
class Visit:
    """A line of the program on a rank, behind so many visits before."""

    rank: int
    file: str
    line: int
    before: int


def visit(made: ValueComparison) -> Visit | None:
    """The visit of its probe at which the first difference was kept; None where there is none in the run."""
    for one in made.found[0] if made.found else []:
        place = one.after.place
        if place.file and place.line:
            return Visit(max(one.after.process.rank, 0), place.file, place.line, one.after.times)
    return None
