"""Waiting: who cost whom how much time, and where a run's time went. Notes, not errors.

The wait states are Scalasca's (Wolf, Mohr et al.): a late sender costs its receiver min(E_s, X_r) - E_r, a late
receiver its sender min(E_r, X_s) - E_s, the last one at a collective each member max(E_j) - E_i, where E and X are
the times of entry and exit.
"""

from __future__ import annotations

from weft.waits.costs import find
from weft.waits.tables import KEYS, Key, Row, blocks, matrix, profile, times

__all__ = ["KEYS", "Key", "Row", "blocks", "find", "matrix", "profile", "times"]
