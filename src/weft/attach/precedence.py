"""Before ranks that poll: they leave little of the processors to who looks at them, until they stand.

Only root may do so, and it is for what is soon done. Nothing is imported here that takes time: see weft.__main__.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = 0
"""This process."""


def take(pid: int = HERE) -> bool:
    """Let a process come first from now on, but not what it starts. Whether the system allows it."""
    try:
        if os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
            return False  # it does already, or somebody has chosen for it
        least = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
        os.sched_setscheduler(pid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, least)
    except (OSError, AttributeError):
        return False
    return True


def leave(pid: int = HERE) -> None:
    """Let a process that took it be one among others again."""
    try:
        if os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR:
            os.sched_setscheduler(pid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    except (OSError, AttributeError):
        return


class first:  # noqa: N801 - it is read as a word: with first():
    """This process and others come first meanwhile, where the system allows it."""

    def __init__(self, others: Sequence[int] = ()) -> None:
        self._asked = (HERE, *others)

    def __enter__(self) -> None:
        """Take it."""
        self._took = [pid for pid in self._asked if take(pid)]

    def __exit__(self, *_: object) -> None:
        """Those that took it leave it."""
        for pid in self._took:
            leave(pid)
