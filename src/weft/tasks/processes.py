"""A program's processes: the one that was started, and those that it makes by multiprocessing, followed on request."""

from __future__ import annotations

from typing import Any

from weft.errors import UsageError
from weft.tasks.attached import AttachedBackend
from weft.tasks.debugger import Debugger

Answer = dict[str, Any]


class Processes:
    """A debugger for each process that one has gone to; `here` is the one that commands mean."""

    def __init__(self, first: Debugger) -> None:
        self.first = self.here = first
        self._line: list[tuple[int, Debugger]] = []
        self._known: dict[int, Debugger] = {}

    def go(self, text: str) -> Answer:
        """`[PID | parent]`: to a child of the process in hand, or back; alone: what there is."""
        if text == "parent":
            if not self._line:
                raise UsageError("this is the process that was started: `process` lists its children")
            self._line.pop()
            self.here = self._line[-1][1] if self._line else self.first
        elif text:
            self._down(text)
        return self._told()

    def _down(self, text: str) -> None:
        pids = [child["pid"] for child in self.here.children()]
        if not text.isdigit() or int(text) not in pids:
            raise UsageError(f"no living child process is {text}: `process` lists them")
        pid = int(text)
        if pid not in self._known:
            child = Debugger(AttachedBackend(pid))
            child.limit = self.first.limit
            child.start()
            self._known[pid] = child
        self.here = self._known[pid]
        self._line.append((pid, self.here))

    def _told(self) -> Answer:
        pid = self._line[-1][0] if self._line else None
        return {"kind": "processes", "here": pid, "children": self.here.children()}

    def close(self) -> None:
        """Leave those that one has gone to; they run on."""
        for child in self._known.values():
            child.backend.close()
