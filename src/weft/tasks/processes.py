"""The processes of a program: the one that was started, and its children by multiprocessing, which are entered on
request.
"""

from __future__ import annotations

from typing import Any

from weft.errors import UsageError
from weft.tasks.attached import AttachedBackend
from weft.tasks.debugger import TaskDebugger

Answer = dict[str, Any]


class DebuggedProcesses:
    """A debugger for each process that was entered; `current` is the one that commands refer to."""

    def __init__(self, first: TaskDebugger) -> None:
        self.first = self.current = first
        self._line: list[tuple[int, TaskDebugger]] = []
        self._known: dict[int, TaskDebugger] = {}

    def switch_process(self, target: str) -> Answer:
        """Enter a child of the current process, go back to the parent, or list the children: `[PID | parent]`."""
        if target == "parent":
            if not self._line:
                raise UsageError("this is the process that was started: `process` lists its children")
            self._line.pop()
            self.current = self._line[-1][1] if self._line else self.first
        elif target:
            self._enter_child(target)
        return self._list_processes()

    def _enter_child(self, pid_text: str) -> None:
        """Make a child process the current one. At the first time, Weft attaches to it. UsageError if there is no
        living child with that number.
        """
        pids = [child["pid"] for child in self.current.children()]
        if not pid_text.isdigit() or int(pid_text) not in pids:
            raise UsageError(f"there is no living child process {pid_text}: `process` lists them")
        pid = int(pid_text)
        if pid not in self._known:
            child = TaskDebugger(AttachedBackend(pid))
            child.limit = self.first.limit
            child.start()
            self._known[pid] = child
        self.current = self._known[pid]
        self._line.append((pid, self.current))

    def _list_processes(self) -> Answer:
        pid = self._line[-1][0] if self._line else None
        return {"kind": "processes", "here": pid, "children": self.current.children()}

    def close(self) -> None:
        """Detach from all child processes; they keep running."""
        for child in self._known.values():
            child.backend.close()
