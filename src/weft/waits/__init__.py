"""Waiting: who cost whom how much time, and where a run's time went. Notes, not errors.

causes.py defines the wait states (Scalasca's), states.py finds them, ledger.py is the one table of them, costs.py
makes findings of those that cost much.
"""

from __future__ import annotations

from weft.waits.costs import find
from weft.waits.ledger import Ledger, ledger_of
from weft.waits.tables import KEYS, CallTimes, Key, blocks, matrix, profile, times

__all__ = ["KEYS", "CallTimes", "Key", "Ledger", "blocks", "find", "ledger_of", "matrix", "profile", "times"]
