"""Steps one task: a trace function that is on in a thread only while the traced task runs there.

When the task is suspended, the trace function goes, and a callback on what the task waits for puts it back right before
the task goes on (its own wake-up was added after ours). So other tasks run untraced meanwhile.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from .births import Task, birth, current, is_library, watch
from .breakpoints import Points
from .task_deaths import told as died
from .thread_callback import Soon
from .waits import chain, innermost, joiner
from .watchpoints import Change, Watches

_YIELDS = {dis.opmap["YIELD_VALUE"], dis.opmap["RESUME"]}
"""Where a frame stands that is left by a yield: from 3.13 on at the instruction behind it."""


class Tracer:
    """What the debugger wants of which task. `stop(frame, why, task, text)` blocks the thread until it wants more.

    `born`: is told of each task that is made while somebody listens (`listen`).
    """

    def __init__(
        self, stop: Callable[..., None], tasks: Callable[[], list[Task]], born: Callable[[Task], None]
    ) -> None:
        self.stop = stop
        self.tasks = tasks
        self._born = born
        self._wanted = self._listened = False
        self._after = ""
        self.points = Points(self)
        self.watches = Watches()
        self.traced: Task | None = None
        self.how = ""
        self.anchor: FrameType | None = None
        self.child = False
        self._joining: FrameType | None = None
        self._thrown: FrameType | None = None
        self._resumed: tuple[FrameType, int] | None = None
        self._due: dict[FrameType, bool] = {}
        """Frames at a line with a breakpoint, of which sys.monitoring tells next; whether something stopped there."""
        self.change: Change | None = None
        """What a stop at something watched has seen."""
        self._soon = Soon(threading.main_thread().ident or 0, self._interrupted)

    # What the debugger wants

    def aim(self, how: str, task: Task | None, frame: FrameType | None, *, child: bool) -> None:
        """Let `task` go on by `how`; `frame` is where this thread stands, None where no thread of the program calls."""
        self.how, self.traced, self.child = how, task, child
        self._joining = None
        self._wanted = bool(child or (task is None and how in ("step", "next")))
        self.listen(self._listened)
        here = task is not None and frame is not None and current() is task
        if task is not None and frame is None and how != "continue" and in_main_thread(task):
            self.interrupt()
            task.get_loop().call_soon_threadsafe(lambda: None)  # one that sleeps wakes up to it
            return
        self.anchor = frame if here else innermost(chain(task)) if task is not None else None
        if here and frame is not None and how != "continue":
            self._trace_stack(frame)
            sys.settrace(self.dispatch)
        elif task is not None and how != "continue":
            self.arm(task, frame is not None)
        elif not self.always:
            sys.settrace(None)

    @property
    def always(self) -> bool:
        """Whether lines of every task are traced."""
        return self.points.traces or self.watches.on

    def wants(self, frame: FrameType) -> bool:
        """Whether lines of a frame matter whose task is not traced."""
        if self.watches.on and not is_library(frame.f_code.co_filename):
            return True
        return self.points.traces and bool(self.points.within(frame.f_code))

    def listen(self, on: bool) -> None:
        """Whether `born` is to hear of tasks."""
        self._listened = on
        watch(on or self._wanted)

    def interrupt(self) -> None:
        """Trace the main thread from where it is now, inside a call of native code too: when that returns."""
        self._soon.ask()

    def _interrupted(self, frame: FrameType) -> None:
        """In the main thread, between two of its instructions."""
        task = self.traced
        if self.always:
            self.trace(backs(frame))
            sys.settrace(self.dispatch)
        if task is None or self.how == "continue" or not in_main_thread(task):
            return
        if current() is task:
            self.anchor = next((at for at in backs(frame) if not is_library(at.f_code.co_filename)), frame)
            self._trace_stack(frame)
            sys.settrace(self.dispatch)
        else:
            self.anchor = innermost(chain(task))
            self.arm(task, True)

    def trace(self, frames: Iterable[FrameType]) -> None:
        """Trace the lines of those frames on stacks whose lines matter."""
        for frame in frames:
            if self.wants(frame):
                frame.f_trace = self.local

    def _trace_stack(self, frame: FrameType) -> None:
        """Watch the frames of the running task, from here out to its coroutine."""
        outer = outermost(self.traced)
        at: FrameType | None = frame
        while at is not None:
            at.f_trace = self.local
            if at is outer:
                return
            at = at.f_back

    def arm(self, task: Task, here: bool) -> None:
        """Trace the thread of a task until the task goes on."""
        loop = task.get_loop()
        if here and (asyncio._get_running_loop() is loop or not loop.is_running()):
            sys.settrace(self.dispatch)
            return
        if here and not self.always:
            sys.settrace(None)
        if not loop.is_closed():
            loop.call_soon_threadsafe(sys.settrace, self.dispatch)

    def created(self, task: Task, parent: Task | None) -> None:
        """The traced task made another one; or the program's first task came."""
        if self._listened:
            self._born(task)
        if not self._wanted:
            return
        code = getattr(task.get_coro(), "cr_code", None)
        if code is None or is_library(code.co_filename):
            return
        if self.traced is None or (self.child and parent is self.traced):
            self.traced, self.how, self.child, self._wanted = task, "step", False, False
            self.listen(self._listened)
            self.anchor = None
            self.arm(task, True)

    # Trace functions

    def dispatch(self, frame: FrameType, event: str, arg: object) -> Any:
        """A frame begins or goes on."""
        watched = self.wants(frame)
        task = current()
        if task is None or task is not self.traced or self.how == "continue":
            return self.local if watched else None
        outer = frame is outermost(task)
        if frame is self._joining:
            self._joining = None
            self.anchor = frame
            self._trace_stack(frame)
            after, self._after = self._after, ""
            self.stop(frame, "joined", task, after)
            return self.local
        if outer or watched or (not is_library(frame.f_code.co_filename) and not self._inner(frame)):
            if frame.f_lasti >= 0 and frame.f_code.co_flags & inspect.CO_COROUTINE:
                self._resumed = (frame, frame.f_lineno or 0)
            frame.f_trace = self.local
            return self.local
        return None

    def _inner(self, frame: FrameType) -> bool:
        """Whether a frame is beneath the one that a `next` or `finish` stays in."""
        if self.how == "step" or self.anchor is None or frame is self.anchor:
            return False
        at = frame.f_back
        while at is not None and at is not self.anchor:
            at = at.f_back
        return at is not None

    def local(self, frame: FrameType, event: str, arg: object) -> Any:
        """A line begins, or a frame is left."""
        if event == "exception":
            self._thrown = frame
        elif event in ("line", "return"):
            told = self.watches.on and self._changed(frame, left=event == "return" and not self._suspended(frame))
            if event == "line":
                if frame.f_lineno in self.points.told_next(frame.f_code):
                    self._due[frame] = told
                elif not told:
                    self._line(frame)
            task = current()
            if event == "return" and task is not None and task is self.traced:
                self._left(task, frame, arg)
        return self.local

    def _suspended(self, frame: FrameType) -> bool:
        """Whether a frame that is left goes on later."""
        return frame.f_code.co_code[frame.f_lasti] in _YIELDS and self._thrown is not frame

    def _changed(self, frame: FrameType, *, left: bool) -> bool:
        """Stop where what is watched has changed, or its frame returns; whether it did."""
        told = False
        while (change := self.watches.change(frame if left else None)) is not None:
            self.change, told = change, True
            self.stop(frame, "watch", current())
        return told

    def _line(self, frame: FrameType) -> None:
        task = current()
        if self._thrown is frame:
            self._thrown = None
        if self.points.hit(frame, frame.f_lineno, task):
            self.stop(frame, "breakpoint", task)
        else:
            self._step(frame, task)

    def _step(self, frame: FrameType, task: Task | None) -> None:
        """A line begins that has no breakpoint for the task."""
        if task is None or task is not self.traced or is_library(frame.f_code.co_filename):
            return
        resumed, self._resumed = self._resumed, None
        if resumed == (frame, frame.f_lineno) and frame.f_lineno:
            return  # 3.11 tells the line of an await again when it goes on
        if (
            self.how == "step"
            or (self.how == "next" and not self._inner(frame))
            or (self.how == "finish" and frame is not self.anchor and not self._inner(frame))
        ):
            self.stop(frame, "line", task)

    def at_line(self, frame: FrameType, line: int) -> None:
        """A line that sys.monitoring tells: where the trace function had it too, it was left to this."""
        told = self._due.pop(frame, None)
        if told:
            return
        task = current()
        if self.points.hit(frame, line, task):
            self.stop(frame, "breakpoint", task)
        elif told is not None:
            self._step(frame, task)

    def _left(self, task: Task, frame: FrameType, arg: Any) -> None:
        """A frame of the traced task is suspended, or has ended."""
        suspended = self._suspended(frame)
        if frame is outermost(task):
            if not self.always:
                sys.settrace(None)
            loop = task.get_loop()
            if suspended and arg is not None and hasattr(arg, "add_done_callback"):
                arg.add_done_callback(lambda _: self._again(task))
            else:
                loop.call_soon(self._again, task)
        elif not suspended and (frame is self.anchor or self.how == "step"):
            if frame is self.anchor and self.how == "finish":
                self.how = "next"
            self.anchor = frame.f_back

    def _again(self, task: Task) -> None:
        """Right before a suspended task goes on; or right after it has ended."""
        if task is not self.traced or self.how == "continue":
            return
        if not task.done():
            sys.settrace(self.dispatch)
            return
        others = [t for t in self.tasks() if t is not task and not t.done()]
        onward = joiner(task, others)
        if onward is not None:
            self._joining = innermost(chain(onward))
        else:
            parent = birth(task).parent
            onward = next((t for t in others if parent is not None and birth(t).id == parent), None)
        self.traced, self.how = onward, "step"
        self.anchor = None
        self._after = died(task)
        if onward is None:
            self.stop(None, "done", task, self._after)
        else:
            self.arm(onward, True)


def outermost(task: Task | None) -> FrameType | None:
    """The frame of a task's own coroutine."""
    coro: object = task.get_coro() if task is not None else None
    return getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)


def backs(frame: FrameType | None) -> list[FrameType]:
    """A frame and all behind it."""
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def in_main_thread(task: Task) -> bool:
    """Whether a task's loop runs in the thread that can be called at any time."""
    return getattr(task.get_loop(), "_thread_id", None) == threading.main_thread().ident
