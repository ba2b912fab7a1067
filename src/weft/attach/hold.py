"""All ranks stand still at once, and go on as if nobody had looked, whatever ends the look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from weft.attach import guard
from weft.base.processes import refusal
from weft.debug.ptrace import Standing


@contextmanager
def standing(pids: Sequence[int]) -> Iterator[Standing]:
    """Those of the processes that may be looked into stand still, and go on after this, whatever ends it."""
    refused = {pid: why for pid in pids if (why := refusal(pid))}
    held = Standing(refused, [pid for pid in pids if pid not in refused])
    with guard.guarded(held.pids):
        try:
            held.hold(held.pids)
            yield held
        finally:
            held.release_all()
