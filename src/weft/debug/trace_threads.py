"""Put the trace function of agent.py into the other threads of its rank: executed there, never imported by Weft.

Threads that `threading` starts from now on get it from `threading.settrace`; running ones get it from outside, by what
the interpreter has for that: `sys._settraceallthreads` from Python 3.12 on, before that the C function behind
`sys.settrace`, which accepts any thread of the interpreter while the caller has its lock. Standard library only.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

CALL, EXCEPTION, LINE, RETURN = range(4)
NAMES = {CALL: "call", EXCEPTION: "exception", LINE: "line", RETURN: "return"}
Traced = Callable[[FrameType, str, Any], Any]

_kept: list[Any] = []
"""C functions of ours that threads call: they stay as long as the process."""


def trace_all_threads(
    traced: Traced, wanted: Callable[[FrameType], bool], happened: Traced, spared: tuple[set[int], int]
) -> None:
    """Trace all threads but those in `spared`, also threads that start later. RuntimeError if the program traces its
    threads itself.

    `traced`: the trace function of new frames. `wanted(frame)`: whether lines of a frame on a stack have to be traced
    already; it then gets the trace function `happened`. `spared`: the idents of the debugger's threads and of the
    thread that traces itself, and the interpreter's thread state of the latter.
    """
    trace_new_threads(traced)
    running = {ident: frame for ident, frame in sys._current_frames().items() if ident not in spared[0]}
    for frame in running.values():
        at: FrameType | None = frame
        while at is not None:
            if wanted(at) and at.f_trace is None:
                at.f_trace = happened
            at = at.f_back
    if not running:
        return
    if sys.version_info >= (3, 12):
        sys._settraceallthreads(traced)  # type: ignore[attr-defined]
    else:
        trace_running_threads(traced, spared[1])


def trace_new_threads(traced: Traced) -> None:
    """Trace the threads that are started from now on. RuntimeError if the program itself uses threading.settrace."""
    threading: Any = sys.modules.get("threading")
    if threading is None:
        if _thread.get_native_id() != os.getpid():
            return  # the agent's: the rank's own thread asks again when it runs
        # Nothing is imported into a program that never needs it; another thread would be taken for the main one.
        import threading
    if threading.gettrace() not in (None, traced):
        raise RuntimeError(
            "the program uses threading.settrace itself, so breakpoints on lines do not stop its threads"
        )
    threading.settrace(traced)


def trace_running_threads(traced: Traced, spared: int) -> None:
    """Set the trace function in all running threads, except the calling thread and the one with the thread state
    `spared`. For Python 3.11, which has no function for this.
    """
    api = ctypes.pythonapi
    for name in ("PyThreadState_Get", "PyInterpreterState_Get", "PyInterpreterState_ThreadHead", "PyThreadState_Next"):
        getattr(api, name).restype = ctypes.c_void_p
    api.PyInterpreterState_ThreadHead.argtypes = api.PyThreadState_Next.argtypes = [ctypes.c_void_p]
    api._PyEval_SetTrace.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    if not _kept:
        _kept.append(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)(
            lambda _, frame, what, __: call_trace_function(traced, frame, what)
        ))  # fmt: skip
    own = api.PyThreadState_Get()
    state = api.PyInterpreterState_ThreadHead(api.PyInterpreterState_Get())
    while state:
        if state not in (own, spared):
            api._PyEval_SetTrace(state, ctypes.cast(_kept[0], ctypes.c_void_p), None)
        state = api.PyThreadState_Next(state)


def call_trace_function(traced: Traced, frame: FrameType, event_number: int) -> int:
    """Call the trace function of a frame for an event, as the interpreter's own C code does after `sys.settrace`.
    Return 0: go on.
    """
    if event_number == CALL:
        frame.f_trace = traced(frame, "call", None)
    elif event_number in NAMES and frame.f_trace is not None:
        frame.f_trace = frame.f_trace(frame, NAMES[event_number], None) or frame.f_trace
    return 0
