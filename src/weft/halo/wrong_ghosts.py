"""Ghost cells that did not hold what they should, and one of them to be reported."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.halo.global_arrays import GlobalArray, PlacedPart
from weft.halo.rank_history import Done, Read, Use
from weft.terms.argument_columns import Ints

Values = NDArray[np.float32]


@dataclass(frozen=True)
class WrongGhosts:
    """Ghosts that one read of a use took from one owner, and that did not hold what they should."""

    rank: int
    use: Use
    read: Read
    done: Done
    moment: int
    owner: int
    ghosts: Ints
    held: Values
    should: Values
    known: int
    """The look at the owner's cells that the reader needs."""
    told: bool
    """Whether messages told the reader of it; else both ranks' stores at their border say that it is needed."""


@dataclass(frozen=True)
class GhostCase:
    """One of the ghosts, with the global array."""

    field: GlobalArray
    wrong: WrongGhosts
    k: int

    @property
    def source(self) -> PlacedPart:
        """Return the part that has the ghost."""
        return self.field.parts[self.wrong.rank]
