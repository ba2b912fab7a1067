"""Values of two runs held against each other, by structure and by index in the global array."""

from __future__ import annotations

from weft.compare.values.comparison import compare_values
from weft.compare.values.model import Unlike, ValueComparison

__all__ = ["Unlike", "ValueComparison", "compare_values"]
