"""Watchpoints: expressions that are evaluated in a frame at every line until the frame has returned."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType


class WatchedExpression:
    """An expression that is watched in a frame.

    `value`: as text, empty while it cannot be evaluated. `is_local`: whether it uses variables of the frame and so ends
    with it.
    """

    def __init__(self, number: int, text: str, frame: FrameType, short_repr: Callable[[object], str]) -> None:
        self.number = number
        self.text = text
        self.frame = frame
        self._code: CodeType = compile(text, "<watch>", "eval")
        self._short_repr = short_repr
        own = frame.f_code.co_varnames + frame.f_code.co_cellvars + frame.f_code.co_freevars
        self.is_local = any(name in own for name in self._code.co_names)
        self.value = self.evaluate()

    def evaluate(self) -> str:
        """Return the value of the expression now, as text; empty if it cannot be evaluated."""
        try:
            return self._short_repr(eval(self._code, self.frame.f_globals, dict(self.frame.f_locals)))
        except Exception:
            return ""


class WatchedChange:
    """A change of a watched value, the return of its frame, or both."""

    def __init__(self, watch: WatchedExpression, old_value: str, is_frame_over: bool) -> None:
        self.number, self.is_frame_over = watch.number, is_frame_over
        self.texts = [watch.text, old_value, watch.value]


class WatchedExpressions:
    """All watched expressions."""

    def __init__(self) -> None:
        self._all: list[WatchedExpression] = []

    @property
    def is_active(self) -> bool:
        """Return whether anything is watched, so that lines must be traced."""
        return bool(self._all)

    def add(self, watch: WatchedExpression) -> None:
        """Watch an expression from now on."""
        self._all.append(watch)

    def remove(self, number: int) -> None:
        """Stop watching the expression of a number."""
        self._all = [one for one in self._all if one.number != number]

    def clear(self) -> None:
        """Stop watching all expressions."""
        self._all = []

    def next_change(self, returning_frame: FrameType | None) -> WatchedChange | None:
        """Return the next watchpoint whose value has changed, or whose frame returns now. In the latter case the
        watchpoint is also removed. None if there is none.

        `returning_frame`: the frame that returns now, None if none does.
        """
        for one in list(self._all):
            old, over = one.value, one.is_local and one.frame is returning_frame
            one.value = one.evaluate()
            if over:
                self.remove(one.number)
            if over or one.value != old:
                return WatchedChange(one, old, over)
        return None
