"""Divides the ranks of a run among workers: neighbours stay together, and each gets about as many bytes of record."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from weft.trace import Trace

A_RANK: Final = 64 << 10
"""The bytes of record that cost as much to read as the fixed cost of a rank."""


def divide_ranks(trace: Trace, size: int) -> list[range]:
    """Return for each of `size` workers the ranks that it analyses: consecutive ranges that cover all ranks."""
    weights = [A_RANK + (rank.file.size if rank.file else 0) for rank in trace.ranks]
    middles = np.cumsum(weights) - np.array(weights) / 2
    goals = sum(weights) * np.arange(1, size) / size
    cuts = [0, *np.searchsorted(middles, goals).tolist(), len(weights)]
    return [range(low, high) for low, high in pairwise(cuts)]
