"""Wait states by culprit: which rank the others waited for, how long, and who waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.words import rank_set
from weft.match import Match
from weft.trace import Trace
from weft.waits.causes import LATE
from weft.waits.wait_states import waits_of_run

MAX_ROWS: Final = 1000

Ints = NDArray[np.int64]


def waits_by_culprit(
    trace: Trace, match: Match, within: Callable[[Ints, Ints], Ints] | None = None
) -> list[dict[str, object]]:  # fmt: skip
    """Return what each late rank cost the others, by cause of waiting: the costliest first, with its worst wait.

    Each wait of the ledger (weft.waits) is in one row, so the rows add up to all ranks' waiting for late partners.
    `within(waiters, ns)` returns how many ns of each wait count; None counts all.
    """
    waits = waits_of_run(trace, match)
    clock = waits.clock
    found: list[dict[str, Any]] = []
    for kind in LATE:
        rows = waits.rows.with_causes(kind)
        waiter, cost, culprit = rows.waiter, rows.ns, rows.culprit
        if within is not None:
            cost = within(waiter, cost)
            waiter, cost, culprit = waiter[cost > 0], cost[cost > 0], culprit[cost > 0]
        if not len(cost):
            continue
        late = clock.ranks_of(culprit)
        total = np.bincount(late, weights=cost, minlength=len(trace.ranks))
        times = np.bincount(late, minlength=len(trace.ranks))
        for rank in np.flatnonzero(total).tolist():
            mine = np.flatnonzero(late == rank)
            worst = int(mine[np.argmax(cost[mine])])
            who = np.unique(clock.ranks_of(waiter[mine]))
            found.append({
                "rank": rank, "kind": kind.slug, "name": kind.label, "ns": int(total[rank]), "waits": int(times[rank]),
                "waiting": rank_set(who.tolist()), "worst_ns": int(cost[worst]),
                "event": list(clock.event(int(waiter[worst])).id),
                "late_event": list(clock.event(int(culprit[worst])).id),
            })  # fmt: skip
    return sorted(found, key=lambda row: -row["ns"])[:MAX_ROWS]
