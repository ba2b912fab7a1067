"""Attaches the agent to a Python program that was not started for a debugger; when it leaves, nothing has changed."""

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
from .child_processes import find_forked_loops


class LateBirths(Births):
    """Numbers for tasks that existed before the agent came; their creators are unknown, and asyncio is not changed."""

    def __init__(self) -> None:
        self._next = itertools.count(1).__next__
        self._root = itertools.count(1).__next__
        self._lines: weakref.WeakKeyDictionary[Task, Any] = weakref.WeakKeyDictionary()
        for task in sorted(births.registered_tasks(), key=_number_in_name):
            self._birth_record(task)

    def _birth_record(self, task: Task) -> Any:
        """Return the birth record of a task: its number, and no parent, as that is unknown. It is made when first asked
        for.
        """
        if task not in self._lines:
            self._lines[task] = self._new_birth_record(None, None, -1)
        return self._lines[task]

    def enable_callback(self, on: bool) -> None:
        """Do nothing: this class does not hear of new tasks."""


def _number_in_name(task: Task) -> int:
    """Return N for a task with the name `Task-N`, by which asyncio counts creations. For a task with another name,
    return a number above all others, so that it sorts last.
    """
    found = re.fullmatch(r"Task-(\d+)", task.get_name())
    return int(found[1]) if found is not None else 1 << 62


class AttachedAgent(Agent):
    """Agent that leaves the program as it was when the debugger goes."""

    def __init__(self, line: socket.socket) -> None:
        births._births = LateBirths()
        creation.clear_creations()
        super().__init__(line, "")

    def _install_hooks(self, library: str) -> None:
        """Do nothing: the program is not changed."""

    def tasks(self) -> list[Task]:
        """Return all tasks that are not done, of all loops. Tasks of a loop that a fork has copied are left out."""
        copies = {id(loop) for loop in find_forked_loops()}
        for loop in births.find_loops():
            if id(loop) not in copies:
                self.loops.add(loop)
        return super().tasks()

    def _serve_debugger(self) -> None:
        """Answer the debugger until it disconnects. The program continues afterwards."""
        if self._line is not None:
            with suppress(OSError):
                self._answer_requests(self._line)
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        """After the debugger has gone, remove breakpoints, tracing and callbacks, and let a stopped thread continue."""
        line, self._line = self._line, None
        if line is None or os.getpid() != self._pid:
            return
        line.close()
        self.tracer.breakpoints.replace_breakpoints([], [])
        self.tracer.resume("continue", None, None, into_child=False)
        self.deaths.stop_catching()
        threading.settrace(None)
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(sys.settrace, None)
        if self._standing:
            self._inbox.put({"do": "go", "how": "continue", "task": None, "child": False})

    def announce(self) -> None:
        """Tell the debugger that the agent is ready while the program keeps running."""
        self.tasks()  # the loops
        self.send({"stop": {"why": "interrupted", "task": None, "at": None, "text": "the program continues meanwhile"}})


def start_connected_agent(socket_path: str) -> Any:
    """Start an agent that is connected to a debugger's socket, and return the agent. OSError if nobody
    listens there.
    """
    importlib.import_module("asyncio.tasks")
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(socket_path)
    visitor = AttachedAgent(line)
    visitor.announce()
    return visitor
