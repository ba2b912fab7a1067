"""Waiting: who cost whom how much time, and where a run's time went. Notes, not errors.

causes.py defines the wait states (Scalasca's), wait_states.py finds them, ledger.py is the one table of them, costs.py
makes findings of those that cost much.
"""

from __future__ import annotations

from weft.waits.costs import Costs, compute_costs, find, make_findings
from weft.waits.ledger import Ledger, Times, ledger_of, ledger_of_times, sum_times
from weft.waits.profiles import KEYS, CallTimes, Key, all_profiles, merge_blocks, message_matrix, profile
from weft.waits.wait_states import waits_of_run

__all__ = [
    "KEYS",
    "CallTimes",
    "Costs",
    "Key",
    "Ledger",
    "Times",
    "all_profiles",
    "compute_costs",
    "find",
    "ledger_of",
    "ledger_of_times",
    "make_findings",
    "merge_blocks",
    "message_matrix",
    "profile",
    "sum_times",
    "waits_of_run",
]  # fmt: skip
