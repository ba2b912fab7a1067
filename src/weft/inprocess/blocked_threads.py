"""What a thread waits for, read from its frames: a future, another thread, a queue, a lock.

One that was let go on a moment ago looks the same for an instant: `Sleepers` tells who has not run meanwhile.
"""

from __future__ import annotations

import _thread
import ast
import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from .births import OWN
from .creation import POOL, is_of
from .source_lines import asked, value_of
from .wait_descriptions import called, state_of

THREADING = threading.__file__
SYNC = (THREADING, str(Path(THREADING).with_name("queue.py")), POOL)
KINDS = {
    "Future.result": "result", "Future.exception": "result", "wait": "futures", "as_completed": "futures",
    "ThreadPoolExecutor.shutdown": "shutdown", "Thread.join": "join", "_shutdown": "end", "Event.wait": "event",
    "Condition.wait": "condition", "Condition.wait_for": "condition", "Semaphore.acquire": "semaphore",
    "Barrier.wait": "barrier", "Queue.get": "queue", "Queue.put": "queue", "Queue.join": "queue",
}  # fmt: skip
"""Functions of the standard library in which a thread waits, and what that is called."""
LOCKS = (type(_thread.allocate_lock()), type(threading.RLock()))


class Block(NamedTuple):
    """What a thread waits for. `others`: the futures or threads, all of them or `one`; `timed`: for a time only."""

    kind: str
    thing: object
    what: str
    timed: bool
    others: tuple[Any, ...] = ()
    one: bool = False


def blocked(stack: list[FrameType]) -> Block | None:
    """What it waits for; None where it does something, or something that is not understood."""
    if not stack or stack[0].f_code.co_filename.startswith(OWN):
        return None
    timed = _waits(stack[0])
    if timed is None:
        return _in_c(stack)
    found = None
    for frame in stack:
        if not frame.f_code.co_filename.startswith(SYNC):
            break
        found = frame if frame.f_code.co_qualname in KINDS else found
    return _of(found, stack, timed) if found is not None else None


def held_up(ident: int, stack: list[FrameType], asleep: set[int]) -> Block | None:
    """What a thread waits for as long as it takes; None for one that has run a moment ago, or may by itself."""
    block = blocked(stack) if ident in asleep else None
    return block if block is not None and not block.timed else None


def _waits(frame: FrameType) -> bool | None:
    """Whether a frame that waits does so for a time only; None for one that does not wait."""
    own = frame.f_locals
    if is_of(frame, THREADING, "Condition.wait"):
        waiter = own.get("waiter")
        waits = waiter is not None and waiter.locked() and waiter in getattr(own.get("self"), "_waiters", ())
        return own.get("timeout") is not None if waits else None
    if is_of(frame, THREADING, "Thread._wait_for_tstate_lock"):
        return own.get("timeout", -1) != -1 or not own.get("block", True)
    if is_of(frame, THREADING, "Thread.join"):
        return own.get("timeout") is not None
    return False if is_of(frame, THREADING, "_shutdown") else None


def _of(frame: FrameType, stack: list[FrameType], timed: bool) -> Block:
    """The wait by the outermost function of the standard library."""
    own, name = frame.f_locals, frame.f_code.co_qualname
    kind, thing = KINDS[name], own.get("self")
    if kind in {"result", "join"}:
        return Block(kind, thing, "", timed, (thing,))
    if kind == "shutdown":
        thread = own.get("t")
        return Block(kind, thing, "of a pool", timed, (thread,) if thread is not None else ())
    if kind == "futures":
        left = own.get("pending") if name == "as_completed" else own.get("not_done", own.get("fs"))
        one = name == "as_completed" or own.get("return_when") != "ALL_COMPLETED"
        return Block(kind, thing, "", timed, tuple(f for f in list(left or ()) if not f.done()), one)
    if kind == "end":
        main, living = threading.main_thread(), list(threading._active.values())  # type: ignore[attr-defined]
        return Block(kind, None, "", timed, tuple(one for one in living if one is not main and not one.daemon))
    words = called(thing, stack[::-1]), state_of(thing, name)
    return Block(kind, thing, ", ".join(filter(None, words)), timed)


def _in_c(stack: list[FrameType]) -> Block | None:
    """A lock, or a queue without frames of its own, that the innermost line asks for."""
    found = asked(stack[0])
    thing: Any = value_of(found[1], stack[0]) if found is not None else None
    if found is None or found[0] not in ("with", "acquire", "get"):
        return None
    name = ast.unparse(found[1])
    if isinstance(thing, LOCKS) and found[0] != "get":
        return Block("lock", thing, name, False) if is_locked(thing) else None
    if type(thing).__name__ == "SimpleQueue" and found[0] == "get":
        return Block("queue", thing, f"{name}, get: empty", False) if thing.empty() else None
    return None


def is_locked(lock: Any) -> bool:
    """Whether somebody has it."""
    return bool(lock.locked()) if isinstance(lock, LOCKS[0]) else owner_of(lock) is not None


def owner_of(lock: object) -> int | None:
    """The thread that has an RLock, by its identity: it says so itself."""
    found = re.search(r"owner=(\d+)", repr(lock)) if isinstance(lock, LOCKS[1]) else None
    return int(found[1]) or None if found is not None else None


class Sleepers:
    """Threads that have not run between two looks, by what the system counts for each."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, str]] = {}

    def look(self) -> set[int]:
        """The identities of those that have slept ever since the last look."""
        now = {}
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            told = _told(getattr(thread, "native_id", None))
            if told:
                now[ident] = (thread.native_id, told)
        before, self._before = self._before, now
        frames = sys._current_frames()
        return {ident for ident, told in now.items() if before.get(ident) == told and ident in frames}


def _told(native: int | None) -> str:
    """How often a thread has been let run, where it sleeps; empty where that cannot be known."""
    try:
        with open(f"/proc/self/task/{native}/status") as file:  # noqa: PTH123 - pathlib may never be imported
            text = file.read()
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if "ctxt_switches" in line]
    return " ".join(lines) if "\nState:\tS" in text and len(lines) == 2 else ""
