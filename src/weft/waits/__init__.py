"""Waiting: who cost whom how much time, and where a run's time went. Notes, not errors.

causes.py defines the wait states (Scalasca's), wait_states.py finds them, ledger.py is the one table of them, costs.py
makes findings of those that cost much.
"""

from __future__ import annotations

from weft.waits.costs import Costs, costs_of, find, told
from weft.waits.ledger import Ledger, Times, ledger_of, ledger_of_times, times_of
from weft.waits.profiles import KEYS, CallTimes, Key, blocks, matrix, profile, times
from weft.waits.wait_states import waiting

__all__ = [
    "KEYS", "CallTimes", "Costs", "Key", "Ledger", "Times", "blocks", "costs_of", "find", "ledger_of",
    "ledger_of_times",
    "matrix", "profile", "times", "times_of", "told", "waiting",
]  # fmt: skip
