"""Report what a forced outcome changed: where its run differs from the record, which messages are taken,
how it ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.base.event_id import EventId
from weft.base.words import plural, rank_words
from weft.compare import Comparison, compare
from weft.compare.calls import find_message_senders
from weft.compare.report import render_changed_findings
from weft.findings import Finding
from weft.match import NONE, Match, Post
from weft.order import Order
from weft.terms.event_findings import call_at


def count_changed_receives(before: Match, after: Match) -> list[tuple[int, int, int]]:
    """Return (rank, number of receives that differ, number of receives) for each rank where a receive takes another
    message than before, or where one of the runs has more receives.
    """
    found = []
    for rank in range(len(before.trace.ranks)):
        one, two = (
            find_message_senders(m, rank) if rank < len(m.trace.ranks) else np.zeros(0, np.int64)
            for m in (before, after)
        )
        size = max(len(one), len(two))
        differing = size - int((one[: len(two)] == two[: len(one)]).sum())
        if differing:
            found.append((rank, differing, size))
    return found


def describe_outcome(
    record: Match,
    forced_run: Match,
    order: Order,
    forced: EventId,
    findings: tuple[Sequence[Finding], Sequence[Finding]],
) -> list[str]:
    """Return lines that say what a forced outcome changed. `order` is that of the forced run; `findings` are those of
    the record and those of the forced run.
    """
    lines = _describe_first_difference(compare(record, forced_run, order), forced)
    changed = [
        f"{n} of {plural(size, 'receive')} of {rank_words([rank])}"
        for rank, n, size in count_changed_receives(record, forced_run)
    ]
    lines.append(
        f"other messages arrive at {'; '.join(changed)}" if changed else "every receive takes the same message"
    )
    before, after = (
        f"{t.run.get('ended')} with status {t.run.get('exit_code')}" for t in (record.trace, forced_run.trace)
    )
    lines.append(f"it {after}" + (", as in the record" if before == after else f"; the record {before}"))
    lines += render_changed_findings(*findings)
    return lines


def _describe_first_difference(comparison: Comparison, forced: EventId) -> list[str]:
    """Return lines about the first call that differs from the record, or a line that says that none does."""
    differing = next((d for d in comparison.first if d.before and d.after), None)
    if differing is None or differing.before is None or differing.after is None:
        return [f"after event {forced[1]} of rank {forced[0]} every rank makes the calls of the record"]
    now, call = differing.after, _describe_call_and_sender(comparison.after, differing.after)
    return [
        f"the runs differ from this call on: event {now[1]} of rank {now[0]}, {call}",
        f"  in the record it is {_describe_call_and_sender(comparison.before, differing.before)}",
    ]


def _describe_call_and_sender(match: Match, event: EventId) -> str:
    """Return a call as text; for a wildcard receive also the rank whose message it took."""
    call, rows = call_at(match.trace.event(*event)), match.receives_of(event)
    if not rows or not match.recvs.flags[rows[0]] & Post.ANY_SOURCE or match.recvs.partner[rows[0]] == NONE:
        return call
    return f"{call}, which takes the message of rank {int(match.recvs.peer[rows[0]])}"
