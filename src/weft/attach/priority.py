"""Give Weft priority over ranks that poll, which leave little of the processors to others, until they are stopped.

Only root may do so, and only for short work. Nothing is imported here that takes time: see weft.__main__.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = 0
"""This process."""


def raise_priority(pid: int = HERE) -> bool:
    """Give a process real-time priority, and return whether this changed its priority. Its children do not get it.
    False if the system forbids it, or if somebody has already chosen a policy for the process.
    """
    try:
        if os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
            return False  # it does already, or somebody has chosen for it
        least = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
        os.sched_setscheduler(pid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, least)
    except (OSError, AttributeError):
        return False
    return True


def restore_priority(pid: int = HERE) -> None:
    """Give a process the ordinary priority again that `raise_priority` has changed."""
    try:
        if os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR:
            os.sched_setscheduler(pid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    except (OSError, AttributeError):
        return


class raised_priority:  # noqa: N801 - it is read as a word: with first():
    """Give this process and others priority during a `with` block, if the system permits it."""

    def __init__(self, others: Sequence[int] = ()) -> None:
        self._asked = (HERE, *others)

    def __enter__(self) -> None:
        """Take it."""
        self._took = [pid for pid in self._asked if raise_priority(pid)]

    def __exit__(self, *_: object) -> None:
        """Those that took it leave it."""
        for pid in self._took:
            restore_priority(pid)
