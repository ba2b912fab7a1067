"""Count ticks in a Python rank: executed there by agent.py, never imported by Weft. Standard library and 3.11 only.

A tick is a visit of a breakpoint, a change of a watched value, or a line, counted from where the rank was when counting
began. The same MPI call before it and the same marks give the same number in every replay.
"""

from __future__ import annotations

import sys
import zlib
from types import FrameType
from typing import Any

hidden: Any = None
abbreviate: Any = None
depth_of: Any = None
Breakpoint: Any = None
"""agent.py's, which puts them here."""
LOG = 100_000


class Watched:
    """A watched expression of the frame at some depth, whichever call of the function that is."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.text: str = told["text"]
        self.depth: int = told["depth"]
        self.function: str = told["function"]
        self.path: str = told["path"]
        self.frame: FrameType | None = None
        self.value = ""

    def compare_value(self, inner: FrameType, depth: int) -> tuple[str, str] | None:
        """Return the old and the new value, as text, if the value has changed since the last call; else None.

        `inner`: the innermost frame of the stack. `depth`: the number of frames on the stack.
        """
        frame = self.find_frame(inner, depth)
        if frame is None:
            self.frame = None
            return None
        try:
            now = abbreviate(eval(self.text, {**frame.f_globals, **frame.f_locals}))
        except Exception:
            now = ""
        old, known, self.value = self.value, self.frame is frame or (not self.depth and self.frame is not None), now
        self.frame = frame
        return (old, now) if known and now != old else None

    def find_frame(self, frame: FrameType | None, depth: int) -> FrameType | None:
        """Return the frame in which the expression is to be computed; None if it is not on the stack.

        `frame`: the innermost frame of the stack. `depth`: the number of frames on the stack.
        """
        if not self.depth:  # a name of the module: any of its frames will do
            while frame is not None and frame.f_code.co_filename != self.path:
                frame = frame.f_back
            return frame
        while frame is not None and depth > self.depth:
            frame, depth = frame.f_back, depth - 1
        return frame if frame is not None and depth == self.depth and frame.f_code.co_name == self.function else None


class Count:
    """Count ticks, and stop the rank at one of them (`stop_at`) or at a visit of a place (`visit_at`)."""

    def __init__(self, agent: Any, marks: dict[str, Any], stop_at: int, visit_at: int) -> None:
        self.agent = agent
        self.points = [Breakpoint({**point, "count": 1}) for point in marks["points"]]
        self.watches = [Watched(told) for told in marks["watches"]]
        self.lines: str = marks["lines"]
        self.place: dict[str, Any] = marks["place"]
        self.stop_at, self.visit_at = stop_at, visit_at
        self.ticks = self.visits = self.way = 0
        self.log: list[tuple[int, int, int]] = []

    def count_ticks_here(self) -> int:
        """Return how many ticks the event makes at which the rank is stopped now. The count that starts here does not
        include them.
        """
        frame = self.agent.stopped
        if frame is None:
            return 0
        event = self.agent.event
        seen = bool(self.find_breakpoints_hit(frame, event) or self.is_counted_line(event, depth_of(frame)))
        news, texts = self.agent.news, [one.text for one in self.watches]
        changed = news.get("old") or news.get("new")  # neither: its frame has returned, which is no tick
        return seen + bool(changed and news.get("expression") in texts)

    def begin(self, inner: FrameType) -> None:
        """Trace every line of the thread from here on, to count. `inner`: the innermost frame. Runs in the rank's own
        thread.
        """
        frame: FrameType | None = inner
        depth = depth_of(inner)
        for one in self.watches:
            one.compare_value(inner, depth)
        while frame is not None:
            if not hidden(frame.f_code.co_filename):
                frame.f_trace = self.trace_event
            frame = frame.f_back
        sys.settrace(self.trace_event)

    def trace_event(self, frame: FrameType, event: str, argument: object) -> Any:
        """Count an event of the interpreter, and return the trace function for the next one. Python calls this as trace
        function of the thread and of its frames.
        """
        if self.agent.count is not self:
            return self.agent.trace_frame(frame, event, argument)
        if hidden(frame.f_code.co_filename):
            return None
        if event in ("call", "line", "return"):
            self.handle_event(frame, event)
        return self.trace_event

    def handle_event(self, frame: FrameType, event: str) -> None:
        """Count what an event of the interpreter shows: changes of watched values, then a breakpoint or a counted line,
        then a visit of the place. Stop the rank at the requested tick or visit.
        """
        depth = depth_of(frame)
        for one in self.watches:
            changed = one.compare_value(frame, depth)
            if changed is not None and event != "call":
                self.count_tick(frame, event, depth, {"expression": one.text, "old": changed[0], "new": changed[1]})
        hit = self.find_breakpoints_hit(frame, event)
        if hit or self.is_counted_line(event, depth):
            self.count_tick(frame, event, depth, {"point": hit[0].id} if hit else {})
        where = (event, frame.f_lineno, frame.f_code.co_filename, depth)
        if self.place and where == tuple(self.place[name] for name in ("event", "line", "path", "depth")):
            self.visits += 1
            if self.visits == self.visit_at:
                self.stop_here(frame, event, {})

    def find_breakpoints_hit(self, frame: FrameType, event: str) -> list[Any]:
        """Return the counted breakpoints that are hit by an event of the interpreter and whose condition is met."""
        return [
            point for point in self.points
            if (event == "call" if point.function else event == "line" and point.line == frame.f_lineno)
            and point.is_in_code(frame.f_code) and point.is_condition_met(frame, {})
        ]  # fmt: skip

    def is_counted_line(self, event: str, depth: int) -> bool:
        """Return whether an event is a line that counts as a tick."""
        return event == "line" and (self.lines == "step" or (self.lines == "next" and depth <= self.place["depth"]))

    def count_tick(self, frame: FrameType, event: str, depth: int, news: dict[str, Any]) -> None:
        """Count a tick, and stop the rank if it is the requested one. `news`: what the stop then reports."""
        self.ticks += 1
        self.way = zlib.crc32(b"%d %d" % (frame.f_lineno, depth), self.way)
        self.log.append((frame.f_lineno, depth, self.way))
        if len(self.log) > 2 * LOG:
            del self.log[:LOG]
        if self.ticks == self.stop_at and self.agent.count is self:
            self.stop_here(frame, event, news)

    def stop_here(self, frame: FrameType, event: str, news: dict[str, Any]) -> None:
        """Stop the rank here, and end the count: afterwards the agent traces as usual. `news`: what the stop
        reports.
        """
        agent = self.agent
        agent.count = None
        sys.settrace(agent.trace_new_frame)
        agent.event = event
        agent.stop(frame, "step", news)
