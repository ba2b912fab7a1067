"""One task of a rank as something to look into: its frames, and the values in them, as a hand looks into a rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from weft.debug.hands import Frame, Part
from weft.errors import DebuggerError
from weft.tasks.backend import Spawn
from weft.tasks.debugger import read_source_line
from weft.tasks.model import SourceLine
from weft.tasks.python import RankConversation
from weft.tasks.ranks import AsyncioHand, OpenMPHand


class TaskView(Protocol):
    """A task's frames, innermost first, and the spawns that led to it; values by level."""

    def stack(self) -> tuple[list[Frame], list[Spawn]]:
        """Its own frames, and who made it, and who made that one."""
        ...

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """The variables of a frame (no text), or the parts of what an expression means there."""
        ...

    def about(self, text: str, level: int) -> Part:
        """The value of an expression, and how many parts it has."""
        ...

    def assign(self, target: str, text: str, level: int) -> str:
        """Another value, for a variable or a part of one."""
        ...


def open_task_view(hand: AsyncioHand | OpenMPHand, task: int) -> TaskView:
    """A task of the rank that a hand is in. DebuggerError where it has none."""
    return AsyncioView(hand.backend, task) if isinstance(hand, AsyncioHand) else OpenMPView(hand, task)


def convert_frames(lines: list[SourceLine]) -> list[Frame]:
    """Lines of a task's stack, as those of a rank's are."""
    return [Frame(at.file, at.line, at.function, read_source_line(at), level) for level, at in enumerate(lines)]


class AsyncioView:
    """A task of asyncio: the agent in the rank looks into the frames of its coroutines."""

    def __init__(self, talk: RankConversation, task: int) -> None:
        self._talk, self._task = talk, task

    def stack(self) -> tuple[list[Frame], list[Spawn]]:
        """Its own frames, and who made it, and who made that one."""
        lines, spawns = self._talk.frames(self._task)
        return convert_frames(lines), spawns

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """The variables of a frame (no text), or the parts of what an expression means there."""
        told = self._talk.look(self._task, level, "parts", text=text, start=start, count=count)
        return [Part(**one) for one in told["parts"]]

    def about(self, text: str, level: int) -> Part:
        """The value of an expression, and how many parts it has."""
        return Part(**self._talk.look(self._task, level, "about", text=text)["part"])

    def assign(self, target: str, text: str, level: int) -> str:
        """Another value, for a variable or a part of one."""
        return str(self._talk.look(self._task, level, "assign", target=target, text=text)["value"])


class OpenMPView:
    """A task of OpenMP: gdb looks into the part of its thread's stack that is the task's."""

    def __init__(self, hand: OpenMPHand, task: int) -> None:
        self._hand, self._task = hand, task

    def stack(self) -> tuple[list[Frame], list[Spawn]]:
        """Its own frames, and who made it, and who made that one."""
        with self._hand.looking():
            lines, spawns = self._hand.backend.frames(self._task)
        return convert_frames(lines), spawns

    @contextmanager
    def _select_frame(self, level: int) -> Iterator[int]:
        """Its thread in front; the level among the thread's frames. DebuggerError where it is in no frame."""
        hand = self._hand
        with hand.looking():
            before = hand.thread
            thread, levels = hand.backend.levels(self._task)
            if not levels:
                raise DebuggerError("the task is in no frame: it has not begun, or lies on the heap")
            hand.thread = thread
            try:
                wanted = levels[min(level, len(levels) - 1)]
                yield next((i for i, frame in enumerate(hand.stack()) if frame.level == wanted), 0)
            finally:
                hand.thread = before

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """The variables of a frame (no text), or the parts of what an expression means there."""
        with self._select_frame(level) as at:
            return self._hand.parts(text, at, start, count)

    def about(self, text: str, level: int) -> Part:
        """The value of an expression, and how many parts it has."""
        with self._select_frame(level) as at:
            return self._hand.about(text, at)

    def assign(self, target: str, text: str, level: int) -> str:
        """Another value, for a variable or a part of one."""
        with self._select_frame(level) as at:
            return self._hand.assign(target, text, at)
