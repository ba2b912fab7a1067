"""Wait states by culprit: whom the run waited for, how long, and who waited."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weft.match import Match
from weft.terms.words import rank_set
from weft.trace import Trace
from weft.waits.costs import Clockwork, late_members, late_receives, late_sends

MAX_ROWS: Final = 1000

_SORTS: Final = (
    ("late-sender", late_sends),
    ("late-receiver", late_receives),
    ("wait-at-collective", late_members),
)


def culprits(trace: Trace, match: Match) -> list[dict[str, Any]]:
    """By rank that was late and sort of waiting: what it cost the others, the dearest first, and the worst wait."""
    clock = Clockwork(trace)
    found: list[dict[str, Any]] = []
    for kind, waits in _SORTS:
        waiter, cost, culprit = waits(clock, match)
        if not len(cost):
            continue
        late = np.searchsorted(clock.first, culprit, side="right") - 1
        total = np.bincount(late, weights=cost, minlength=len(trace.ranks))
        times = np.bincount(late, minlength=len(trace.ranks))
        for rank in np.flatnonzero(total).tolist():
            mine = np.flatnonzero(late == rank)
            worst = int(mine[np.argmax(cost[mine])])
            who = np.unique(np.searchsorted(clock.first, waiter[mine], side="right") - 1)
            found.append({
                "rank": rank, "kind": kind, "ns": int(total[rank]), "waits": int(times[rank]),
                "waiting": rank_set(who.tolist()), "worst_ns": int(cost[worst]),
                "event": list(clock.event(int(waiter[worst])).id),
                "late_event": list(clock.event(int(culprit[worst])).id),
            })  # fmt: skip
    return sorted(found, key=lambda row: -row["ns"])[:MAX_ROWS]
