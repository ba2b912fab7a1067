"""Breakpoints, decided inside the program: by sys.monitoring where there is one (3.12), else by the trace function."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from .births import Task, ancestry, birth, pedigree
from .thread_callback import free_tool

if TYPE_CHECKING:
    from .tracer import Tracer

_MONITORING: Any = getattr(sys, "monitoring", None)


class Point:
    """A line of a file, or a function, for all tasks, one task, or one and its descendants; from which visit on."""

    def __init__(self, place: dict[str, Any]) -> None:
        self.id: int = place["id"]
        self.file: str = place.get("file") or ""
        self.line: int = place.get("line") or 0
        self.function: str = place.get("function") or ""
        self.task: int | None = place.get("task")
        self.descendants: bool = bool(place.get("descendants"))
        self.pedigree: str = place.get("pedigree") or ""
        self.condition: str = place.get("condition") or ""
        self._left: int = place.get("count") or 1

    def counts(self) -> bool:
        """Count a visit; whether it is one that stops."""
        self._left -= 1
        return self._left <= 0

    def true(self, frame: FrameType) -> bool:
        """Whether its condition is true there; one that cannot be computed stops."""
        try:
            return not self.condition or bool(eval(self.condition, {**frame.f_globals, **frame.f_locals}))
        except Exception:
            return True

    def lines(self, code: CodeType) -> set[int]:
        """The lines of a code object that it means."""
        if self.function:
            if self.function not in (code.co_name, code.co_qualname):
                return set()
            body = [line for _, _, line in code.co_lines() if line and line > code.co_firstlineno]
            return {min(body, default=code.co_firstlineno)}
        name = code.co_filename
        if name != self.file and not name.endswith("/" + self.file) and os.path.realpath(name) != self.file:
            return set()
        return {line for _, _, line in code.co_lines() if line == self.line}

    def meant(self, task: Task | None) -> bool:
        """Whether it stops this task."""
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


class Points:
    """All breakpoints. `traces`: they need the trace function."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._all: list[Point] = []
        self._tool: int | None = None
        self._lines: dict[CodeType, frozenset[int]] = {}
        self.last = 0

    @property
    def traces(self) -> bool:
        """Whether calls must be traced for them."""
        return bool(self._all) and _MONITORING is None

    def take(self, places: list[dict[str, Any]], running: list[FrameType]) -> None:
        """Take these instead of those before. `running`: the frames on stacks, whose code has already begun."""
        known = {point.id: point for point in self._all}
        self._all = [known.get(place["id"]) or Point(place) for place in places]
        self._lines.clear()
        if _MONITORING is not None:
            self._monitor(running)

    def within(self, code: CodeType) -> frozenset[int]:
        """The lines of a code object that have one."""
        found = self._lines.get(code)
        if found is None:
            found = self._lines[code] = frozenset().union(*(point.lines(code) for point in self._all))
        return found

    def told_next(self, code: CodeType) -> frozenset[int]:
        """The lines of a code object of which `at_line` is told right after the trace function."""
        return frozenset() if _MONITORING is None else self.within(code)

    def hit(self, frame: FrameType, line: int, task: Task | None) -> bool:
        """Whether one stops a task at a line."""
        code = frame.f_code
        if line not in self.within(code):
            return False
        for point in self._all:
            if line in point.lines(code) and point.meant(task) and point.true(frame) and point.counts():
                self.last = point.id
                return True
        return False

    # 3.12: only code that has a breakpoint pays

    def _monitor(self, running: list[FrameType]) -> None:
        events = _MONITORING.events
        if self._tool is None:
            self._tool = free_tool()
            _MONITORING.use_tool_id(self._tool, "weft")
            for event in (events.PY_START, events.PY_RESUME):
                _MONITORING.register_callback(self._tool, event, self._entered)
            _MONITORING.register_callback(self._tool, events.PY_THROW, self._thrown)
            _MONITORING.register_callback(self._tool, events.LINE, self._line)
        entries = events.PY_START | events.PY_RESUME | events.PY_THROW
        _MONITORING.set_events(self._tool, entries if self._all else 0)
        for frame in running:
            self._entered(frame.f_code, 0)
        _MONITORING.restart_events()

    def _entered(self, code: CodeType, _: int) -> Any:
        if self.within(code):
            _MONITORING.set_local_events(self._tool, code, _MONITORING.events.LINE)
        return _MONITORING.DISABLE

    def _thrown(self, code: CodeType, *_: object) -> None:
        self._entered(code, 0)  # an event that cannot be disabled

    def _line(self, code: CodeType, line: int) -> Any:
        self._tracer.at_line(sys._getframe(1), line)
        return None if line in self.within(code) else _MONITORING.DISABLE
