"""In a Python program that was not started for a debugger: the agent comes to it, answers, and leaves it as it was."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import socket
import sys
import threading
import weakref
from contextlib import suppress
from typing import Any

from . import births, creation
from .agent import Agent
from .births import Births, Task
from .child_processes import copied


class LateBirths(Births):
    """Numbers for tasks that are there already; who made them is not known, and nothing of asyncio is changed."""

    def __init__(self) -> None:
        self._next = itertools.count(1).__next__
        self._root = itertools.count(1).__next__
        self._lines: weakref.WeakKeyDictionary[Task, Any] = weakref.WeakKeyDictionary()
        for task in sorted(births.registered(), key=_order):
            self._line(task)

    def _line(self, task: Task) -> Any:
        if task not in self._lines:
            self._lines[task] = self._made(None, None, -1)
        return self._lines[task]

    def watch(self, on: bool) -> None:
        """New tasks are not heard of."""


def _order(task: Task) -> int:
    """The number that asyncio gave a task in its name, which is that of its creation; named ones come last."""
    found = re.fullmatch(r"Task-(\d+)", task.get_name())
    return int(found[1]) if found is not None else 1 << 62


class Visitor(Agent):
    """An agent that leaves when the debugger goes."""

    def __init__(self, line: socket.socket) -> None:
        births._births = LateBirths()
        creation.forget()
        super().__init__(line, "")

    def _prepare(self, library: str) -> None:
        """Nothing of the program is changed."""

    def tasks(self) -> list[Task]:
        """Every task that is not done, of all loops that have one."""
        copies = {id(loop) for loop in copied()}
        for loop in births.loops():
            if id(loop) not in copies:
                self.loops.add(loop)
        return super().tasks()

    def _serve(self) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._converse(self._line)
        self._lost()

    def _lost(self) -> None:
        line, self._line = self._line, None
        if line is None or os.getpid() != self._pid:
            return
        line.close()
        self.tracer.points.take([], [])
        self.tracer.aim("continue", None, None, child=False)
        self.deaths.forget()
        threading.settrace(None)
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(sys.settrace, None)
        if self._standing:
            self._inbox.put({"do": "go", "how": "continue", "task": None, "child": False})

    def arrive(self) -> None:
        """Say that it is there; the program runs on meanwhile."""
        self.tasks()  # the loops
        self.tell({"stop": {"why": "interrupted", "task": None, "at": None, "text": "the program runs on meanwhile"}})


def come(path: str) -> Any:
    """Connect to the debugger, as long as it listens."""
    importlib.import_module("asyncio.tasks")
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(path)
    visitor = Visitor(line)
    visitor.arrive()
    return visitor
