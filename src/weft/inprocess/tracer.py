"""Steps one task with a trace function that is active in a thread only while that task runs there.

When the task is suspended, the trace function is removed, and a callback on what the task waits for installs it again
right before the task continues (its own wake-up was added after ours). So other tasks run untraced meanwhile.
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

from .births import Task, birth, current_task, enable_birth_callback, is_library
from .breakpoints import TaskBreakpoints
from .task_deaths import describe_death as died
from .thread_callback import ThreadCallback
from .waits import find_joining_task, innermost_frame, task_frames
from .watchpoints import WatchedChange, WatchedExpressions

_YIELD_OPCODES = {dis.opmap["YIELD_VALUE"], dis.opmap["RESUME"]}
"""Where a frame stands that is left by a yield: from 3.13 on at the instruction after it."""


class Tracer:
    """The movement of the followed task: `step`, `next`, `finish` or `continue`.

    `stop(frame, why, task, text)`: blocks the thread until the debugger lets it continue. `tasks`: returns all tasks.
    `born`: is called for each new task while births are listened for.
    """

    def __init__(
        self, stop: Callable[..., None], tasks: Callable[[], list[Task]], born: Callable[[Task], None]
    ) -> None:
        self.stop = stop
        self.tasks = tasks
        self._born = born
        self._wanted = self._listened = False
        self._after = ""
        self.breakpoints = TaskBreakpoints(self)
        self.watchpoints = WatchedExpressions()
        self.traced_task: Task | None = None
        self.movement = ""
        self.anchor: FrameType | None = None
        self.is_stepping_into_child = False
        self._joining: FrameType | None = None
        self._thrown: FrameType | None = None
        self._resumed: tuple[FrameType, int] | None = None
        self._due: dict[FrameType, bool] = {}
        """Frames at a line with a breakpoint, of which sys.monitoring tells next; whether something stopped there."""
        self.change: WatchedChange | None = None
        """What a stop at something watched has seen."""
        self._main_thread_callback = ThreadCallback(
            threading.main_thread().ident or 0, self._on_main_thread_interrupted
        )

    # What the debugger wants

    def resume(self, movement: str, task: Task | None, frame: FrameType | None, *, into_child: bool) -> None:
        """Prepare tracing so that `task` stops again after a `step`, `next` or `finish`. For the movement `continue`,
        end the tracing of tasks.

        `frame`: where the calling thread is stopped, None if it is not a thread of the program. `into_child`: stop in
        the next task that `task` creates.
        """
        self.movement, self.traced_task, self.is_stepping_into_child = movement, task, into_child
        self._joining = None
        self._wanted = bool(into_child or (task is None and movement in ("step", "next")))
        self.listen_for_births(self._listened)
        here = task is not None and frame is not None and current_task() is task
        if task is not None and frame is None and movement != "continue" and is_in_main_thread(task):
            self.trace_main_thread_soon()
            task.get_loop().call_soon_threadsafe(lambda: None)  # one that sleeps wakes up to it
            return
        self.anchor = frame if here else innermost_frame(task_frames(task)) if task is not None else None
        if here and frame is not None and movement != "continue":
            self._trace_stack(frame)
            sys.settrace(self.trace_call)
        elif task is not None and movement != "continue":
            self.trace_at_resumption(task, frame is not None)
        elif not self.is_tracing_all:
            sys.settrace(None)

    @property
    def is_tracing_all(self) -> bool:
        """Return whether lines of all tasks are traced, for breakpoints or watchpoints."""
        return self.breakpoints.needs_tracing or self.watchpoints.is_active

    def must_trace_frame(self, frame: FrameType) -> bool:
        """Return whether breakpoints or watchpoints must see each line of a frame, whichever task executes it."""
        if self.watchpoints.is_active and not is_library(frame.f_code.co_filename):
            return True
        return self.breakpoints.needs_tracing and bool(self.breakpoints.breakpoint_lines(frame.f_code))

    def listen_for_births(self, on: bool) -> None:
        """Report new tasks to `born` from now on, or no longer (`on`: False)."""
        self._listened = on
        enable_birth_callback(on or self._wanted)

    def trace_main_thread_soon(self) -> None:
        """Trace the main thread from its next instruction of Python on, even if it is inside native code now."""
        self._main_thread_callback.request_call()

    def _on_main_thread_interrupted(self, frame: FrameType) -> None:
        """Install the trace function in the main thread, and on the frames there that need it. The main thread calls
        this between two instructions of `frame`.
        """
        task = self.traced_task
        if self.is_tracing_all:
            self.trace_frames(frame_and_callers(frame))
            sys.settrace(self.trace_call)
        if task is None or self.movement == "continue" or not is_in_main_thread(task):
            return
        if current_task() is task:
            self.anchor = next((at for at in frame_and_callers(frame) if not is_library(at.f_code.co_filename)), frame)
            self._trace_stack(frame)
            sys.settrace(self.trace_call)
        else:
            self.anchor = innermost_frame(task_frames(task))
            self.trace_at_resumption(task, True)

    def trace_frames(self, frames: Iterable[FrameType]) -> None:
        """Trace the lines of all frames in which breakpoints or watchpoints need that."""
        for frame in frames:
            if self.must_trace_frame(frame):
                frame.f_trace = self.trace_frame_event

    def _trace_stack(self, frame: FrameType) -> None:
        """Trace the frames of the running task, from `frame` out to the frame of its coroutine."""
        outer = outermost_frame(self.traced_task)
        at: FrameType | None = frame
        while at is not None:
            at.f_trace = self.trace_frame_event
            if at is outer:
                return
            at = at.f_back

    def trace_at_resumption(self, task: Task, in_this_thread: bool) -> None:
        """Trace the thread of a task as soon as the task continues. `in_this_thread`: whether the calling thread is one
        of the program.
        """
        loop = task.get_loop()
        if in_this_thread and (asyncio._get_running_loop() is loop or not loop.is_running()):
            sys.settrace(self.trace_call)
            return
        if in_this_thread and not self.is_tracing_all:
            sys.settrace(None)
        if not loop.is_closed():
            loop.call_soon_threadsafe(sys.settrace, self.trace_call)

    def on_task_created(self, task: Task, parent: Task | None) -> None:
        """Report a new task to the function `born`. If the debugger steps into a child, or waits for the first task,
        follow the new task.
        """
        if self._listened:
            self._born(task)
        if not self._wanted:
            return
        code = getattr(task.get_coro(), "cr_code", None)
        if code is None or is_library(code.co_filename):
            return
        if self.traced_task is None or (self.is_stepping_into_child and parent is self.traced_task):
            self.traced_task, self.movement, self.is_stepping_into_child, self._wanted = task, "step", False, False
            self.listen_for_births(self._listened)
            self.anchor = None
            self.trace_at_resumption(task, True)

    # Trace functions

    def trace_call(self, frame: FrameType, event: str, arg: object) -> Any:
        """Return the trace function for the lines of a frame that begins or continues; None if nobody needs its lines.
        Python calls this as a thread's trace function.
        """
        watched = self.must_trace_frame(frame)
        task = current_task()
        if task is None or task is not self.traced_task or self.movement == "continue":
            return self.trace_frame_event if watched else None
        outer = frame is outermost_frame(task)
        if frame is self._joining:
            self._joining = None
            self.anchor = frame
            self._trace_stack(frame)
            after, self._after = self._after, ""
            self.stop(frame, "joined", task, after)
            return self.trace_frame_event
        if outer or watched or (not is_library(frame.f_code.co_filename) and not self._is_below_anchor(frame)):
            if frame.f_lasti >= 0 and frame.f_code.co_flags & inspect.CO_COROUTINE:
                self._resumed = (frame, frame.f_lineno or 0)
            frame.f_trace = self.trace_frame_event
            return self.trace_frame_event
        return None

    def _is_below_anchor(self, frame: FrameType) -> bool:
        """Return whether a frame was called, directly or not, by the frame that a `next` or `finish` must not go below.
        False for a `step`.
        """
        if self.movement == "step" or self.anchor is None or frame is self.anchor:
            return False
        at = frame.f_back
        while at is not None and at is not self.anchor:
            at = at.f_back
        return at is not None

    def trace_frame_event(self, frame: FrameType, event: str, arg: object) -> Any:
        """Handle a line, an exception or the end of a frame, and return this function again. Python calls it as the
        trace function of a frame.
        """
        if event == "exception":
            self._thrown = frame
        elif event in ("line", "return"):
            told = self.watchpoints.is_active and self._stop_at_changes(
                frame, is_returning=event == "return" and not self._is_suspended(frame)
            )
            if event == "line":
                if frame.f_lineno in self.breakpoints.monitored_lines(frame.f_code):
                    self._due[frame] = told
                elif not told:
                    self._on_line(frame)
            task = current_task()
            if event == "return" and task is not None and task is self.traced_task:
                self._on_frame_left(task, frame, arg)
        return self.trace_frame_event

    def _is_suspended(self, frame: FrameType) -> bool:
        """Return whether a frame that is left will continue later."""
        return frame.f_code.co_code[frame.f_lasti] in _YIELD_OPCODES and self._thrown is not frame

    def _stop_at_changes(self, frame: FrameType, *, is_returning: bool) -> bool:
        """Stop once for each watched value that has changed, or whose frame now returns. Return whether there was a
        stop. `is_returning`: whether `frame` returns.
        """
        told = False
        while (change := self.watchpoints.next_change(frame if is_returning else None)) is not None:
            self.change, told = change, True
            self.stop(frame, "watch", current_task())
        return told

    def _on_line(self, frame: FrameType) -> None:
        """Handle a new line of a frame: stop there if a breakpoint or the end of the followed task's step is at it."""
        task = current_task()
        if self._thrown is frame:
            self._thrown = None
        if self.breakpoints.check_for_hit(frame, frame.f_lineno, task):
            self.stop(frame, "breakpoint", task)
        else:
            self._stop_at_step(frame, task)

    def _stop_at_step(self, frame: FrameType, task: Task | None) -> None:
        """Stop at the line that begins in a frame, if the step of the followed task ends there."""
        if task is None or task is not self.traced_task or is_library(frame.f_code.co_filename):
            return
        resumed, self._resumed = self._resumed, None
        if resumed == (frame, frame.f_lineno) and frame.f_lineno:
            return  # 3.11 tells the line of an await again when it goes on
        if (
            self.movement == "step"
            or (self.movement == "next" and not self._is_below_anchor(frame))
            or (self.movement == "finish" and frame is not self.anchor and not self._is_below_anchor(frame))
        ):
            self.stop(frame, "line", task)

    def on_monitored_line(self, frame: FrameType, line: int) -> None:
        """Handle a line with a breakpoint that sys.monitoring reports: stop at the breakpoint, or if a step ends there.
        The trace function has seen this line before, and has left it to this method.
        """
        told = self._due.pop(frame, None)
        if told:
            return
        task = current_task()
        if self.breakpoints.check_for_hit(frame, line, task):
            self.stop(frame, "breakpoint", task)
        elif told is not None:
            self._stop_at_step(frame, task)

    def _on_frame_left(self, task: Task, frame: FrameType, arg: Any) -> None:
        """Handle the end or the suspension of a frame of the followed task, so that the task is traced again when it
        continues. `arg`: what the frame yields.
        """
        suspended = self._is_suspended(frame)
        if frame is outermost_frame(task):
            if not self.is_tracing_all:
                sys.settrace(None)
            loop = task.get_loop()
            if suspended and arg is not None and hasattr(arg, "add_done_callback"):
                arg.add_done_callback(lambda _: self._before_task_resumes(task))
            else:
                loop.call_soon(self._before_task_resumes, task)
        elif not suspended and (frame is self.anchor or self.movement == "step"):
            if frame is self.anchor and self.movement == "finish":
                self.movement = "next"
            self.anchor = frame.f_back

    def _before_task_resumes(self, task: Task) -> None:
        """Trace the followed task again right before it continues. If it has ended, follow the task that joins it, or
        else its parent; without either, stop.
        """
        if task is not self.traced_task or self.movement == "continue":
            return
        if not task.done():
            sys.settrace(self.trace_call)
            return
        others = [t for t in self.tasks() if t is not task and not t.done()]
        onward = find_joining_task(task, others)
        if onward is not None:
            self._joining = innermost_frame(task_frames(onward))
        else:
            parent = birth(task).parent
            onward = next((t for t in others if parent is not None and birth(t).id == parent), None)
        self.traced_task, self.movement = onward, "step"
        self.anchor = None
        self._after = died(task)
        if onward is None:
            self.stop(None, "done", task, self._after)
        else:
            self.trace_at_resumption(onward, True)


def outermost_frame(task: Task | None) -> FrameType | None:
    """Return the frame of a task's own coroutine; None if the coroutine has ended."""
    coro: object = task.get_coro() if task is not None else None
    return getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)


def frame_and_callers(frame: FrameType | None) -> list[FrameType]:
    """Return a frame and all its callers, innermost first."""
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def is_in_main_thread(task: Task) -> bool:
    """Return whether a task's loop runs in the main thread, in which a call can be requested at any time."""
    return getattr(task.get_loop(), "_thread_id", None) == threading.main_thread().ident
