"""Compare the values of two runs by program structure and by index in the global array."""

from __future__ import annotations

from weft.compare.values.comparison import compare_values
from weft.compare.values.model import ValueComparison, ValueDifference

__all__ = ["ValueComparison", "ValueDifference", "compare_values"]
