"""Which ranks of a run are whose: neighbours stay together, and every worker has about as many bytes of record."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from weft.trace import Trace

A_RANK: Final = 64 << 10
"""Bytes of record that cost as much as a rank costs whatever it did."""


def divide_ranks(trace: Trace, size: int) -> list[range]:
    """The ranks of each of `size` workers: all ranks in their order, one worker's behind the other's."""
    weights = [A_RANK + (rank.file.size if rank.file else 0) for rank in trace.ranks]
    middles = np.cumsum(weights) - np.array(weights) / 2
    goals = sum(weights) * np.arange(1, size) / size
    cuts = [0, *np.searchsorted(middles, goals).tolist(), len(weights)]
    return [range(low, high) for low, high in pairwise(cuts)]
