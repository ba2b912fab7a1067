"""Compare two runs of a program: where they differ first, what follows from it, and where the second lost its time."""

from __future__ import annotations

from weft.compare.differences import Comparison, Difference, compare
from weft.compare.times import SlowerPlace, find_slower_places

__all__ = ["Comparison", "Difference", "SlowerPlace", "compare", "find_slower_places"]
