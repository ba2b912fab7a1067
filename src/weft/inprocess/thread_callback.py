"""Has a thread do something as soon as it runs Python again, though it is inside a call of native code now.

Up to 3.13 that is a pending call of the interpreter. From 3.14 on it looks for those not behind every call (not behind
`comm.recv(source=1)`, which names an argument), so that lines would be missed; there it is the thread's next event of
sys.monitoring. Executed in a rank by debug/agent.py, too. Standard library only.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_MONITORING: Any = getattr(sys, "monitoring", None)
TOOLS = (3, 4, 5, 2, 1, 0)
"""Numbers of sys.monitoring's, first those that no debugger, coverage tool or profiler of the program takes."""
EVENTS = {"LINE": "line", "PY_START": "call", "PY_RESUME": "call", "PY_THROW": "call", "PY_RETURN": "return",
          "PY_YIELD": "return", "PY_UNWIND": "return"}  # fmt: skip
"""What a trace function calls them."""


class Soon:
    """`do` is called once in `thread` for each `ask`, or for some in a row, with the frame that goes on there."""

    def __init__(self, thread: int, do: Callable[[FrameType], object]) -> None:
        self._thread = thread
        self._do = do
        self._tool: int | None = None
        self._pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._called)

    def ask(self) -> None:
        """Have it done; from any thread."""
        if self._tool is not None:
            return
        self._tool = free_tool() if sys.version_info >= (3, 14) else None
        if self._tool is None:
            ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
            return
        _MONITORING.use_tool_id(self._tool, "weft: next event")
        every = 0
        for name, event in EVENTS.items():
            number = getattr(_MONITORING.events, name)
            _MONITORING.register_callback(self._tool, number, self._listener(name, event))
            every |= number
        _MONITORING.set_events(self._tool, every)

    def _called(self, _: object) -> int:
        self._do(sys._getframe(1))
        return 0

    def _listener(self, name: str, event: str) -> Callable[..., None]:
        has_value = name in ("PY_RETURN", "PY_YIELD")

        def hear(_: CodeType, *told: Any) -> None:
            if self._tool is not None and _thread.get_ident() == self._thread:
                tool, self._tool = self._tool, None
                _MONITORING.set_events(tool, 0)
                _MONITORING.free_tool_id(tool)
                self._meet(sys._getframe(1), event, told[-1] if has_value else None)

        return hear

    def _meet(self, frame: FrameType, event: str, value: object) -> None:
        """Do it, and let the trace function that it put there have this event, too, if none had it already."""
        had = sys.gettrace() is not None and (event == "call" or frame.f_trace is not None)
        self._do(frame)
        traced: Any = sys.gettrace()
        if had or traced is None:
            return
        if event == "call":
            frame.f_trace = traced(frame, event, value)
        elif frame.f_trace is not None:
            frame.f_trace = frame.f_trace(frame, event, value)


def free_tool() -> int | None:
    """A number of sys.monitoring's that nobody has taken."""
    return next((number for number in TOOLS if _MONITORING.get_tool(number) is None), None)
