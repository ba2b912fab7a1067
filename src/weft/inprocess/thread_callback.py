"""Calls a function in another thread as soon as that thread executes Python again, even if it is in native code now.

Up to Python 3.13 this is a pending call of the interpreter. From 3.14 on the interpreter does not check for pending
calls after every call (not after `comm.recv(source=1)`, which names an argument), so that lines would be missed; there
the thread's next event of sys.monitoring is used. debug/agent.py executes this file in a rank, too. Only the standard
library is used.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_MONITORING: Any = getattr(sys, "monitoring", None)
TOOL_IDS = (3, 4, 5, 2, 1, 0)
"""Numbers of sys.monitoring's, first those that no debugger, coverage tool or profiler of the program takes."""
TRACE_EVENTS = {"LINE": "line", "PY_START": "call", "PY_RESUME": "call", "PY_THROW": "call", "PY_RETURN": "return",
          "PY_YIELD": "return", "PY_UNWIND": "return"}  # fmt: skip
"""What a trace function calls them."""


class ThreadCallback:
    """Calls `callback(frame)` in `thread` once for each request, or once for several in a row;
    `frame` executes there.
    """

    def __init__(self, thread: int, callback: Callable[[FrameType], object]) -> None:
        self._thread = thread
        self._callback = callback
        self._tool: int | None = None
        self._pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._on_pending_call)

    def request_call(self) -> None:
        """Request that the callback is called in the thread, as soon as the thread executes Python. Any thread may
        request it. Several requests in a row may cause only one call.
        """
        if self._tool is not None:
            return
        self._tool = find_free_tool_id() if sys.version_info >= (3, 14) else None
        if self._tool is None:
            ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
            return
        _MONITORING.use_tool_id(self._tool, "weft: next event")
        every = 0
        for name, event in TRACE_EVENTS.items():
            number = getattr(_MONITORING.events, name)
            _MONITORING.register_callback(self._tool, number, self._make_listener(name, event))
            every |= number
        _MONITORING.set_events(self._tool, every)

    def _on_pending_call(self, _: object) -> int:
        """Call the callback from the interpreter's pending call."""
        self._callback(sys._getframe(1))
        return 0

    def _make_listener(self, name: str, event: str) -> Callable[..., None]:
        """Return a function for sys.monitoring that calls the callback at the next event in the thread.

        `name`: the event of sys.monitoring; `event`: the name that a trace function has for it.
        """
        has_value = name in ("PY_RETURN", "PY_YIELD")

        def call_in_thread(_: CodeType, *event_arguments: Any) -> None:
            """Call the callback if this is the thread in which it is to be called, and stop listening."""
            if self._tool is not None and _thread.get_ident() == self._thread:
                tool, self._tool = self._tool, None
                _MONITORING.set_events(tool, 0)
                _MONITORING.free_tool_id(tool)
                self._call_at_event(sys._getframe(1), event, event_arguments[-1] if has_value else None)

        return call_in_thread

    def _call_at_event(self, frame: FrameType, event: str, value: object) -> None:
        """Call the callback with `frame`. If it installs a trace function, pass this event on to that function: Python
        itself passes only later events. Nothing is passed on if a trace function had been installed before, and so has
        had the event.
        """
        had = sys.gettrace() is not None and (event == "call" or frame.f_trace is not None)
        self._callback(frame)
        traced: Any = sys.gettrace()
        if had or traced is None:
            return
        if event == "call":
            frame.f_trace = traced(frame, event, value)
        elif frame.f_trace is not None:
            frame.f_trace = frame.f_trace(frame, event, value)


def find_free_tool_id() -> int | None:
    """Return a tool id of sys.monitoring that is not in use; None if all are."""
    return next((number for number in TOOL_IDS if _MONITORING.get_tool(number) is None), None)
