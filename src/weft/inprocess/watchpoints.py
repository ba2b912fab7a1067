"""What is watched: expressions of frames, compared at every line of the program until their frame has returned."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType


class Watch:
    """An expression as a frame sees it. `value`: in words; empty while it has none. `ends`: with the frame."""

    def __init__(self, number: int, text: str, frame: FrameType, short: Callable[[object], str]) -> None:
        self.number = number
        self.text = text
        self.frame = frame
        self._code: CodeType = compile(text, "<watch>", "eval")
        self._short = short
        own = frame.f_code.co_varnames + frame.f_code.co_cellvars + frame.f_code.co_freevars
        self.ends = any(name in own for name in self._code.co_names)
        self.value = self.now()

    def now(self) -> str:
        """Its value."""
        try:
            return self._short(eval(self._code, self.frame.f_globals, dict(self.frame.f_locals)))
        except Exception:
            return ""


class Change:
    """That a value is another one than before, or that its frame has returned (`over`), or both."""

    def __init__(self, watch: Watch, old: str, over: bool) -> None:
        self.number, self.over = watch.number, over
        self.told = [watch.text, old, watch.value]


class Watches:
    """All that is watched. `on`: something is, and lines must be traced for it."""

    def __init__(self) -> None:
        self._all: list[Watch] = []

    @property
    def on(self) -> bool:
        """Whether something is watched."""
        return bool(self._all)

    def add(self, watch: Watch) -> None:
        """Watch it from now on."""
        self._all.append(watch)

    def remove(self, number: int) -> None:
        """Watch it no more."""
        self._all = [one for one in self._all if one.number != number]

    def clear(self) -> None:
        """Watch nothing."""
        self._all = []

    def change(self, left: FrameType | None) -> Change | None:
        """The first value that has changed; `left`: a frame that returns now, whose values are no longer watched."""
        for one in list(self._all):
            old, over = one.value, one.ends and one.frame is left
            one.value = one.now()
            if over:
                self.remove(one.number)
            if over or one.value != old:
                return Change(one, old, over)
        return None
