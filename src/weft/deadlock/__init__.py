"""Deadlock: who can never go on, proven from the record of a run that hangs or was killed."""

from __future__ import annotations

from collections.abc import Collection

from weft.deadlock.blocked import Standstill
from weft.deadlock.telling import tell
from weft.deadlock.waitfor import components
from weft.findings import Finding
from weft.trace import Trace

__all__ = ["find"]


def find(trace: Trace, gone: Collection[int] = ()) -> list[Finding]:
    """One finding for each set of ranks that are blocked for ever; none where somebody may still go on.

    A proof from the record, not a guess from time: it holds for a live run in which these calls stay as they are.
    `gone` names ranks, by index, whose process is known to have ended though their record does not tell.
    """
    standstill = Standstill(trace, gone)
    if not standstill.open_calls:
        return []
    return [tell(standstill, part) for part in components(standstill.stuck, standstill.needs)]
