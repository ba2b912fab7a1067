"""Shows the frames and values of one task of a rank, in the way that a rank's own are shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from weft.debug.hands import Frame, Part
from weft.errors import DebuggerError
from weft.tasks.backend import Spawn
from weft.tasks.hang_messages import read_source_line
from weft.tasks.model import SourceLine
from weft.tasks.python import RankConversation
from weft.tasks.ranks import AsyncioHand, OpenMPHand


class TaskView(Protocol):
    """The frames of a task, innermost first, the spawns that led to it, and the values in each frame by level."""

    def stack(self) -> tuple[list[Frame], list[Spawn]]:
        """Return the task's frames, and where the task and its ancestors were created."""
        ...

    def parts(self, expression: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Return variables or parts of a value in the frame at `level` of the task. `expression`: of the value; empty
        for all variables of the frame. `start`, `count`: which parts.
        """
        ...

    def about(self, expression: str, level: int) -> Part:
        """Return the value of an expression in a frame, with the number of its parts."""
        ...

    def assign(self, target: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable or a part of one, and return it as text."""
        ...


def open_task_view(hand: AsyncioHand | OpenMPHand, task: int) -> TaskView:
    """Return the view of a task in a rank. DebuggerError if the rank has no tasks."""
    return AsyncioView(hand.backend, task) if isinstance(hand, AsyncioHand) else OpenMPView(hand, task)


def convert_frames(lines: list[SourceLine]) -> list[Frame]:
    """Return the lines of a task's stack in the form in which a rank's frames are shown."""
    return [Frame(at.file, at.line, at.function, read_source_line(at), level) for level, at in enumerate(lines)]


class AsyncioView:
    """View of an asyncio task: the agent in the rank reads the frames of its coroutines."""

    def __init__(self, talk: RankConversation, task: int) -> None:
        self._talk, self._task = talk, task

    def stack(self) -> tuple[list[Frame], list[Spawn]]:
        """Return the task's frames, and where the task and its ancestors were created."""
        lines, spawns = self._talk.frames(self._task)
        return convert_frames(lines), spawns

    def parts(self, expression: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Return variables or parts of a value in the frame at `level` of the task. `expression`: of the value; empty
        for all variables of the frame. `start`, `count`: which parts.
        """
        told = self._talk.inspect_frame(self._task, level, "parts", text=expression, start=start, count=count)
        return [Part(**one) for one in told["parts"]]

    def about(self, expression: str, level: int) -> Part:
        """Return the value of an expression in a frame, with the number of its parts."""
        return Part(**self._talk.inspect_frame(self._task, level, "about", text=expression)["part"])

    def assign(self, target: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable or a part of one, and return it as text."""
        return str(self._talk.inspect_frame(self._task, level, "assign", target=target, text=expression)["value"])


class OpenMPView:
    """View of an OpenMP task: gdb reads the part of its thread's stack that belongs to the task."""

    def __init__(self, hand: OpenMPHand, task: int) -> None:
        self._hand, self._task = hand, task

    def stack(self) -> tuple[list[Frame], list[Spawn]]:
        """Return (the task's frames, innermost first; where the task and each of its ancestors was created)."""
        with self._hand.while_halted():
            lines, spawns = self._hand.backend.frames(self._task)
        return convert_frames(lines), spawns

    @contextmanager
    def _select_frame(self, level: int) -> Iterator[int]:
        """Let gdb look at the task's thread inside a `with` block, and yield the number of the frame there that is the
        task's frame at `level`. DebuggerError if the task has no frame.
        """
        hand = self._hand
        with hand.while_halted():
            before = hand.thread
            thread, levels = hand.backend.frame_levels(self._task)
            if not levels:
                raise DebuggerError(
                    "the task has no frame on any stack: it has not begun, or its frames are saved on the heap"
                )
            hand.thread = thread
            try:
                wanted = levels[min(level, len(levels) - 1)]
                yield next((i for i, frame in enumerate(hand.stack()) if frame.level == wanted), 0)
            finally:
                hand.thread = before

    def parts(self, expression: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Return variables or parts of a value in the frame at `level` of the task. `expression`: of the value; empty
        for all variables of the frame. `start`, `count`: which parts.
        """
        with self._select_frame(level) as at:
            return self._hand.parts(expression, at, start, count)

    def about(self, expression: str, level: int) -> Part:
        """Return the value of an expression in a frame, with the number of its parts."""
        with self._select_frame(level) as at:
            return self._hand.about(expression, at)

    def assign(self, target: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable or a part of one, and return it as text."""
        with self._select_frame(level) as at:
            return self._hand.assign(target, expression, at)
