"""Reads from a thread's frames what the thread waits for: a future, another thread, a queue, a lock.

A thread that was just released looks the same for a moment: `SleepingThreads` tells which have not run meanwhile.
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

from .births import OWN_FOLDER
from .creation import POOL_FOLDER, is_library_function
from .source_lines import find_method_call, look_up_value
from .wait_descriptions import describe_state, find_variable_name

THREADING = threading.__file__
SYNC_FILES = (THREADING, str(Path(THREADING).with_name("queue.py")), POOL_FOLDER)
WAIT_KINDS = {
    "Future.result": "result", "Future.exception": "result", "wait": "futures", "as_completed": "futures",
    "ThreadPoolExecutor.shutdown": "shutdown", "Thread.join": "join", "_shutdown": "end", "Event.wait": "event",
    "Condition.wait": "condition", "Condition.wait_for": "condition", "Semaphore.acquire": "semaphore",
    "Barrier.wait": "barrier", "Queue.get": "queue", "Queue.put": "queue", "Queue.join": "queue",
}  # fmt: skip
"""Functions of the standard library in which a thread waits, and what that is called."""
LOCK_TYPES = (type(_thread.allocate_lock()), type(threading.RLock()))


class ThreadWait(NamedTuple):
    """The wait of a thread: its kind, the object it waits for, and a description (`what`).

    `timed`: whether it ends after a time limit. `others`: the futures or threads that it waits for: for `one` of them
    if that is set, else for all.
    """

    kind: str
    thing: object
    what: str
    timed: bool
    others: tuple[Any, ...] = ()
    one: bool = False


def find_thread_wait(stack: list[FrameType]) -> ThreadWait | None:
    """Return what a thread waits for. None if it runs, or its wait is not understood. `stack`: the frames of the
    thread, innermost first.
    """
    if not stack or stack[0].f_code.co_filename.startswith(OWN_FOLDER):
        return None
    timed = _is_timed_wait(stack[0])
    if timed is None:
        return _wait_in_c_call(stack)
    found = None
    for frame in stack:
        if not frame.f_code.co_filename.startswith(SYNC_FILES):
            break
        found = frame if frame.f_code.co_qualname in WAIT_KINDS else found
    return _wait_in_library(found, stack, timed) if found is not None else None


def find_untimed_wait(ident: int, stack: list[FrameType], asleep: set[int]) -> ThreadWait | None:
    """Return what a sleeping thread waits for without a time limit. None if the thread has just run, or if its wait may
    end by itself.

    `ident`: the identity of the thread; `stack`: its frames, innermost first; `asleep`: the identities of the threads
    that have not run for a while.
    """
    block = find_thread_wait(stack) if ident in asleep else None
    return block if block is not None and not block.timed else None


def _is_timed_wait(frame: FrameType) -> bool | None:
    """Return whether the wait in a frame of the module `threading` has a time limit. None if the frame does
    not wait.
    """
    own = frame.f_locals
    if is_library_function(frame, THREADING, "Condition.wait"):
        waiter = own.get("waiter")
        waits = waiter is not None and waiter.locked() and waiter in getattr(own.get("self"), "_waiters", ())
        return own.get("timeout") is not None if waits else None
    if is_library_function(frame, THREADING, "Thread._wait_for_tstate_lock"):
        return own.get("timeout", -1) != -1 or not own.get("block", True)
    if is_library_function(frame, THREADING, "Thread.join"):
        return own.get("timeout") is not None
    return False if is_library_function(frame, THREADING, "_shutdown") else None


def _wait_in_library(frame: FrameType, stack: list[FrameType], timed: bool) -> ThreadWait:
    """Return what a thread waits for, if it waits in a function of the standard library. `frame`: the outermost such
    function; `stack`: the thread's frames, innermost first; `timed`: whether the wait has a time limit.
    """
    own, name = frame.f_locals, frame.f_code.co_qualname
    kind, thing = WAIT_KINDS[name], own.get("self")
    if kind in {"result", "join"}:
        return ThreadWait(kind, thing, "", timed, (thing,))
    if kind == "shutdown":
        thread = own.get("t")
        return ThreadWait(kind, thing, "of a pool", timed, (thread,) if thread is not None else ())
    if kind == "futures":
        left = own.get("pending") if name == "as_completed" else own.get("not_done", own.get("fs"))
        one = name == "as_completed" or own.get("return_when") != "ALL_COMPLETED"
        return ThreadWait(kind, thing, "", timed, tuple(f for f in list(left or ()) if not f.done()), one)
    if kind == "end":
        main, living = threading.main_thread(), list(threading._active.values())  # type: ignore[attr-defined]
        return ThreadWait(kind, None, "", timed, tuple(one for one in living if one is not main and not one.daemon))
    words = find_variable_name(thing, stack[::-1]), describe_state(thing, name)
    return ThreadWait(kind, thing, ", ".join(filter(None, words)), timed)


def _wait_in_c_call(stack: list[FrameType]) -> ThreadWait | None:
    """Return the wait of a thread in a method of C, which has no frame: its innermost line takes a lock, or calls `get`
    of a SimpleQueue. None for other lines, a free lock, or a queue with items.
    """
    found = find_method_call(stack[0])
    thing: Any = look_up_value(found[1], stack[0]) if found is not None else None
    if found is None or found[0] not in ("with", "acquire", "get"):
        return None
    name = ast.unparse(found[1])
    if isinstance(thing, LOCK_TYPES) and found[0] != "get":
        return ThreadWait("lock", thing, name, False) if is_locked(thing) else None
    if type(thing).__name__ == "SimpleQueue" and found[0] == "get":
        return ThreadWait("queue", thing, f"{name}, get: empty", False) if thing.empty() else None
    return None


def is_locked(lock: Any) -> bool:
    """Return whether a lock or RLock is taken."""
    return bool(lock.locked()) if isinstance(lock, LOCK_TYPES[0]) else rlock_owner(lock) is not None


def rlock_owner(lock: object) -> int | None:
    """Return the identity of the thread that owns an RLock, read from its repr. None if the RLock is free, or `lock` is
    another object.
    """
    found = re.search(r"owner=(\d+)", repr(lock)) if isinstance(lock, LOCK_TYPES[1]) else None
    return int(found[1]) or None if found is not None else None


class SleepingThreads:
    """Finds the threads that have not run between two calls, by the kernel's counts of context switches."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, str]] = {}

    def find_sleeping_since_last_call(self) -> set[int]:
        """Return the identities of the threads that have slept without a break since the last call of this method."""
        now = {}
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            told = _sleep_counters(getattr(thread, "native_id", None))
            if told:
                now[ident] = (thread.native_id, told)
        before, self._before = self._before, now
        frames = sys._current_frames()
        return {ident for ident, told in now.items() if before.get(ident) == told and ident in frames}


def _sleep_counters(native_id: int | None) -> str:
    """Return how often a sleeping thread has been switched in and out, as text. Equal texts mean that it has not run in
    between. Empty if the thread runs, or the counts cannot be read.
    """
    try:
        with open(f"/proc/self/task/{native_id}/status") as file:  # noqa: PTH123 - pathlib may never be imported
            text = file.read()
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if "ctxt_switches" in line]
    return " ".join(lines) if "\nState:\tS" in text and len(lines) == 2 else ""
