"""Compare how far two ranks have come at a border between them, by the stores that both make there.

If the cell beside a ghost and the owner's cell are stored by the same lines in the same order, both ranks do the same
work on either side. A rank that has stored n times needs what the owner has after n times, unless the owner stores that
only later than the read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from weft.errors import WeftError
from weft.halo.global_arrays import PlacedPart
from weft.halo.rank_history import RankHistory, find_stored_places
from weft.terms.argument_columns import Ints

NOT_YET = -1
MOST = 1 << 28
"""Bytes of one table of stores by cells."""


class StoreCoverage:
    """Which uses store which of the cells of a part that neighbours copy."""

    def __init__(self, story: RankHistory, part: PlacedPart) -> None:
        self.part = part
        self.uses = [n for n, use in story.uses.items() if use.what == "store" and use.part == part.of.number]
        if len(self.uses) * len(part.edge) > MOST:
            raise WeftError(
                f"rank {part.of.rank} stores its border in too many ways to compare it with that of its neighbours"
            )
        self.table = np.zeros((len(self.uses), len(part.edge) + 1), bool)  # the last column is of no such cell
        for row, number in enumerate(self.uses):
            cells = part.edge_of[find_stored_places(story.uses[number], part.of).ravel()]
            self.table[row, cells[cells >= 0]] = True

    def group_stores(self, cell_places: Ints) -> tuple[list[tuple[int, ...]], Ints]:
        """Group cells by the uses (recorded statements) that store them. Return (sets of uses, indices): each set has
        the uses that store the same cells, and the indices give for each of `cell_places` the set for that cell."""
        cells = self.part.edge_of[cell_places]
        columns, which = np.unique(self.table[:, cells], axis=1, return_inverse=True)
        return [tuple(self.uses[row] for row in np.flatnonzero(column).tolist()) for column in columns.T], which.ravel()


class BorderProgress:
    """The stores on either side of a border."""

    def __init__(
        self, own: RankHistory, mine: Sequence[int], other: RankHistory, theirs: Sequence[int], looks: Sequence[int]
    ) -> None:
        self.own, self.theirs = own.find_times_of_uses(mine), other.find_times_of_uses(theirs)
        self.looks = looks
        lines = own.lines_of_runs(self.own), other.lines_of_runs(self.theirs)
        differ = (k for k, (a, b) in enumerate(zip(*lines, strict=False)) if a != b)
        self.common = next(differ, min(len(one) for one in lines))

    def find_needed_look(self, uses_made: int) -> int:
        """Return which recorded values of the owner's cells a rank needs after it has made `uses_made` uses, as an
        index into the "looks" (times at which values were recorded). Return NOT_YET if this is not known."""
        count = bisect_left(self.own, uses_made)
        if not 0 < count <= self.common:
            return NOT_YET
        return bisect_right(self.looks, self.theirs[count - 1] + 1) - 1
