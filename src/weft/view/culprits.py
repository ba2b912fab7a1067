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
    """Return how long other ranks waited for each late rank, split by the cause of waiting. The costliest comes first;
    each row names its worst wait.

    Each wait for a late partner is in one row, so the rows add up to all such waiting. `within(waiters, ns)` returns
    how many ns of each wait count; by default all do.
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
