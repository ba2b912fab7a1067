"""Stop all ranks at once, and let them go on as if nobody had looked, whatever ends the look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from weft.attach import guard
from weft.base.processes import why_not_examinable
from weft.debug.ptrace import Standing


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[Standing]:
    """Stop the processes during a `with` block, except those that Weft may not look into, and yield them. Whatever ends
    the block, they continue afterwards.
    """
    refused = {pid: why for pid in pids if (why := why_not_examinable(pid))}
    held = Standing(refused, [pid for pid in pids if pid not in refused])
    with guard.ensure_resumed(held.pids):
        try:
            held.hold(held.pids)
            yield held
        finally:
            held.release_all()
