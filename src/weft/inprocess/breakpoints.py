"""Breakpoints on tasks, checked inside the program: by sys.monitoring (Python 3.12), else by the trace function."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from .births import Task, ancestry, birth, pedigree
from .thread_callback import find_free_tool_id

if TYPE_CHECKING:
    from .tracer import Tracer

_MONITORING: Any = getattr(sys, "monitoring", None)


class TaskBreakpoint:
    """Breakpoint at a line of a file or at a function, for all tasks, one task, or one task and its descendants."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.id: int = settings["id"]
        self.file: str = settings.get("file") or ""
        self.line: int = settings.get("line") or 0
        self.function: str = settings.get("function") or ""
        self.task: int | None = settings.get("task")
        self.descendants: bool = bool(settings.get("descendants"))
        self.pedigree: str = settings.get("pedigree") or ""
        self.condition: str = settings.get("condition") or ""
        self._left: int = settings.get("count") or 1

    def count_visit(self) -> bool:
        """Count a visit of the breakpoint, and return whether it stops; the first visits may be skipped."""
        self._left -= 1
        return self._left <= 0

    def is_condition_true(self, frame: FrameType) -> bool:
        """Return whether the breakpoint's condition is true in a frame. A condition that cannot be evaluated counts as
        true.
        """
        try:
            return not self.condition or bool(eval(self.condition, {**frame.f_globals, **frame.f_locals}))
        except Exception:
            return True

    def matching_lines(self, code: CodeType) -> set[int]:
        """Return the lines of a code object at which this breakpoint stops. Empty if the code is of another file or
        function.
        """
        if self.function:
            if self.function not in (code.co_name, code.co_qualname):
                return set()
            body = [line for _, _, line in code.co_lines() if line and line > code.co_firstlineno]
            return {min(body, default=code.co_firstlineno)}
        name = code.co_filename
        if name != self.file and not name.endswith("/" + self.file) and os.path.realpath(name) != self.file:
            return set()
        return {line for _, _, line in code.co_lines() if line == self.line}

    def applies_to_task(self, task: Task | None) -> bool:
        """Return whether the breakpoint may stop a task. It may be limited to one task, given by number or pedigree
        (its path from the first task), and to this task's descendants.
        """
        if self.task is None and not self.pedigree:
            return True
        if task is None:
            return False
        if self.pedigree:
            way = pedigree(task)
            return way == self.pedigree or (self.descendants and way.startswith(self.pedigree + "."))
        if self.descendants:
            return any(born.id == self.task for born in ancestry(task))
        return birth(task).id == self.task


class TaskBreakpoints:
    """All breakpoints of the program."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._all: list[TaskBreakpoint] = []
        self._tool: int | None = None
        self._lines: dict[CodeType, frozenset[int]] = {}
        self.last_hit = 0

    @property
    def needs_tracing(self) -> bool:
        """Return whether the breakpoints need the trace function, because this Python has no sys.monitoring."""
        return bool(self._all) and _MONITORING is None

    def replace_breakpoints(self, settings: list[dict[str, Any]], stack_frames: list[FrameType]) -> None:
        """Replace all breakpoints. A breakpoint that stays keeps its count of visits.

        `settings`: a dictionary for each breakpoint. `stack_frames`: the frames of all threads now, whose code has been
        entered before.
        """
        known = {point.id: point for point in self._all}
        self._all = [known.get(place["id"]) or TaskBreakpoint(place) for place in settings]
        self._lines.clear()
        if _MONITORING is not None:
            self._monitor_code(stack_frames)

    def breakpoint_lines(self, code: CodeType) -> frozenset[int]:
        """Return the lines of a code object that have a breakpoint."""
        found = self._lines.get(code)
        if found is None:
            found = self._lines[code] = frozenset().union(*(point.matching_lines(code) for point in self._all))
        return found

    def monitored_lines(self, code: CodeType) -> frozenset[int]:
        """Return the lines of a code object that sys.monitoring reports to `Tracer.on_monitored_line`, after the trace
        function has seen them. Empty before Python 3.12.
        """
        return frozenset() if _MONITORING is None else self.breakpoint_lines(code)

    def check_for_hit(self, frame: FrameType, line: int, task: Task | None) -> bool:
        """Count the visit of a line, and return whether a breakpoint stops the task there. If one does, its number is
        stored as `last_hit`.
        """
        code = frame.f_code
        if line not in self.breakpoint_lines(code):
            return False
        for point in self._all:
            if (
                line in point.matching_lines(code)
                and point.applies_to_task(task)
                and point.is_condition_true(frame)
                and point.count_visit()
            ):
                self.last_hit = point.id
                return True
        return False

    # 3.12: only code that has a breakpoint pays

    def _monitor_code(self, stack_frames: list[FrameType]) -> None:
        """Let sys.monitoring report each code object when it is first entered, so that only code with a breakpoint gets
        slower. `stack_frames`: frames whose code has been entered before.
        """
        events = _MONITORING.events
        if self._tool is None:
            self._tool = find_free_tool_id()
            _MONITORING.use_tool_id(self._tool, "weft")
            for event in (events.PY_START, events.PY_RESUME):
                _MONITORING.register_callback(self._tool, event, self._on_code_entered)
            _MONITORING.register_callback(self._tool, events.PY_THROW, self._on_exception_thrown)
            _MONITORING.register_callback(self._tool, events.LINE, self._on_line)
        entries = events.PY_START | events.PY_RESUME | events.PY_THROW
        _MONITORING.set_events(self._tool, entries if self._all else 0)
        for frame in stack_frames:
            self._on_code_entered(frame.f_code, 0)
        _MONITORING.restart_events()

    def _on_code_entered(self, code: CodeType, _: int) -> Any:
        """Switch on the line events of a code object if it has breakpoints. Return the value by which sys.monitoring
        does not report this entry again.
        """
        if self.breakpoint_lines(code):
            _MONITORING.set_local_events(self._tool, code, _MONITORING.events.LINE)
        return _MONITORING.DISABLE

    def _on_exception_thrown(self, code: CodeType, *_: object) -> None:
        self._on_code_entered(code, 0)  # an event that cannot be disabled

    def _on_line(self, code: CodeType, line: int) -> Any:
        self._tracer.on_monitored_line(sys._getframe(1), line)
        return None if line in self.breakpoint_lines(code) else _MONITORING.DISABLE
