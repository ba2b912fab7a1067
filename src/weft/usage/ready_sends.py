"""Check ready sends, whose receive must be posted before they start (MPI-4.1, 3.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.evidence import Parameter
from weft.findings import Finding
from weft.match import NONE, Match, Post
from weft.order import Order
from weft.terms.event_findings import FindingLimiter, call_at, cause_key, make_finding
from weft.trace import Trace


def find(trace: Trace, match: Match, order: Order) -> list[Finding]:
    """Find ready sends whose receive is posted after them, or may be."""
    return list(_report_early_ready_sends(trace, match, order))


def _report_early_ready_sends(trace: Trace, match: Match, order: Order) -> Iterator[Finding]:
    """Yield a finding for each ready send (MPI_Rsend) that is not certain to come after its receive was posted."""
    sends, recvs = match.sends, match.recvs
    rows = np.flatnonzero(((sends.flags & Post.READY) != 0) & (sends.partner != NONE))
    some = FindingLimiter()
    for row in rows.tolist():
        send, recv = sends.id(row), recvs.id(int(sends.partner[row]))
        if order.reaches(recv, send, b_end=False):
            continue
        event, receive = trace.event(*send), trace.event(*recv)
        if not some.more((event.site_id, receive.site_id)):
            continue
        after = order.reaches(send, recv, b_end=False)
        when = "is posted only after the send" if after else "may be posted after the send: nothing orders the two"
        yield make_finding(
            "invalid-argument",
            f"rank {send[0]} makes the ready send {call_at(event)}, whose receive, {call_at(receive)} "
            f"of rank {recv[0]}, "
            f"{when}",
            [event, receive],
            severity="error" if after else "warning",
            certainty="certain" if after else "possible",
            evidence=Parameter(parameter="time"),
            cause=cause_key(event, receive),
        )
