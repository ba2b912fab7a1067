"""Which ghosts that a native program loaded went into the cell that it stored next.

Compiled code says what is loaded and stored, not what is computed of what. A ghost counts as used where the store's own
line loads it; elsewhere only as in a stencil: it lies no further from the cell than ghosts are wide, and the same line
loads it for several cells, each time from the same side, or stands close to the store.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.halo.global_arrays import PlacedPart
from weft.terms.argument_columns import Ints

Line = tuple[str, int, str]
NEAR: Final = 5
"""Lines between a load and a store that may be one statement."""


def is_ghost_used(
    load_line: Line, store_line: Line, ghost_part: PlacedPart, stored_part: PlacedPart, pairs: Ints
) -> NDArray[np.bool_]:
    """Return a mask of the pairs (loaded ghost, stored cell) in which the cell's value was probably computed from the
    ghost.
    """
    if load_line[:2] == store_line[:2]:
        return np.ones(len(pairs), bool)
    if ghost_part.of.size != stored_part.of.size:
        return np.zeros(len(pairs), bool)
    away = stored_part.to_global(pairs[:, 1]) - ghost_part.to_global(pairs[:, 0])
    wide = np.array([max(width) for width in ghost_part.of.halo])
    reached: NDArray[np.bool_] = (np.abs(away) <= np.maximum(wide, 1)).all(axis=1)
    if load_line[0] == store_line[0] and load_line[2] == store_line[2] and abs(load_line[1] - store_line[1]) <= NEAR:
        return reached
    _, side, often = np.unique(away, axis=0, return_inverse=True, return_counts=True)
    result: NDArray[np.bool_] = reached & (often[side.ravel()] > 1)
    return result
