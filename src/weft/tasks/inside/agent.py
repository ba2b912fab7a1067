"""Answers the debugger: in the thread that stands at a line while one does, else in a thread of its own."""

from __future__ import annotations

import _thread
import asyncio
import json
import linecache
import os
import reprlib
import select
import socket
import sys
import weakref
from asyncio import base_events
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from . import births
from .births import Task, ancestry, birth, is_library
from .table import columns, names
from .tracer import Tracer, backs, outermost
from .waits import Timers, behind, chain, shields, site, site_of

LOOK = 0.15
"""Seconds between looks whether all loops stand still."""
DRIVE = 0.002
"""Seconds between looks at what MPI has to do for others."""
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 400
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = SHORT.maxset = 40

Request = dict[str, Any]


class Agent:
    """One conversation with the debugger, over a socket."""

    def __init__(self, line: socket.socket | None, library: str) -> None:
        self._line = line
        self._lines = b""
        self._sending = _thread.allocate_lock()
        self._turn = _thread.allocate_lock()
        self._inbox: SimpleQueue[Request] = SimpleQueue()
        self._frame: FrameType | None = None
        self._task: Task | None = None
        self._standing = self._leaving = False
        self._idle = 0
        self._told = True
        self._pid = os.getpid()
        self.loops: weakref.WeakSet[Any] = weakref.WeakSet()
        self.tracer = Tracer(self.stop, self.tasks)
        self._watch_loops()
        births.install(self.tracer.created, library, behind, shields)
        os.register_at_fork(after_in_child=self._forked)
        _thread.start_new_thread(self._serve, ())

    def _watch_loops(self) -> None:
        original, loops = base_events.BaseEventLoop.__init__, self.loops

        def init(loop: Any) -> None:
            original(loop)
            loops.add(loop)

        base_events.BaseEventLoop.__init__ = init  # type: ignore[assignment, method-assign]

    def _forked(self) -> None:
        """A child of fork() is not debugged."""
        sys.settrace(None)
        self.tracer.how = "continue"
        self.tracer.points._all = []
        if self._line is not None:
            self._line.close()

    # The conversation

    def tell(self, message: Request) -> None:
        """Send one message."""
        try:
            with self._sending:
                if self._line is not None:
                    self._line.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._lost()

    def _lost(self) -> None:
        """The debugger does not listen any more."""
        self._forked()

    def _serve(self) -> None:
        if self._line is not None:
            self._converse(self._line)
        if os.getpid() == self._pid:
            os._exit(143)  # the debugger has gone, and the program was its own

    def _converse(self, line: socket.socket) -> None:
        """Answer until the debugger goes."""
        while os.getpid() == self._pid:
            ready, _, _ = select.select([line], [], [], LOOK)
            if ready and not self._receive(line):
                return
            if not ready:
                self._look()

    def _receive(self, line: socket.socket) -> bool:
        more = line.recv(65536)
        self._lines += more
        *whole, self._lines = self._lines.split(b"\n")
        for text in whole:
            request = json.loads(text)
            if self._standing and not self._leaving:
                self._leaving = request["do"] == "go"  # what comes after it finds a program that runs
                self._inbox.put(request)
            else:
                self._do(request)
        return bool(more)

    def stop(self, frame: FrameType | None, why: str, task: Task | None) -> None:
        """Stand here until the debugger lets the program go on."""
        if os.getpid() != self._pid or self._line is None:
            return
        with self._turn:
            self._frame, self._task, self._leaving, self._standing = frame, task, False, True
            at = site(frame) if frame is not None else None
            self.tell({"stop": {"why": why, "task": birth(task).id if task is not None else None, "at": at,
                                "breakpoint": self.tracer.points.last if why == "breakpoint" else None,
                                "worker": _thread.get_native_id(),
                                "name": names([task]).get(0, "") if task is not None else ""}})  # fmt: skip
            while not self._do(self._request()):
                pass

    def _request(self) -> Request:
        """What the debugger wants of the thread that stands at a line."""
        return self._inbox.get()

    def ended(self, code: int) -> None:
        """The program has come to its end."""
        if os.getpid() == self._pid:
            self.tell({"stop": {"why": "ended", "code": code, "task": None, "at": None}})

    def _do(self, request: Request) -> bool:
        """One request; whether it lets the program go on."""
        if request["do"] == "go":
            self._go(request)
            return True
        try:
            answer = getattr(self, "do_" + request["do"])(request)
            self.tell({"id": request["id"], "answer": answer})
        except Exception as error:
            self.tell({"id": request["id"], "error": f"{type(error).__name__}: {error}"})
        return False

    def _go(self, request: Request) -> None:
        standing, frame = self._standing, self._frame
        self._standing, self._frame, self._task = False, None, None
        self._idle, self._told = 0, False
        task = self._find(request["task"])
        gone = task is None and request["task"] is not None  # it is done: there is nothing left to step
        how = "continue" if gone else request["how"]
        self.tracer.aim(how, task, frame if standing else None, child=request["child"])

    def _look(self) -> None:
        """Say when no loop has anything to do any more: the debugger looks for a deadlock then."""
        if self._told or self._standing:
            return
        idle = any(loop.is_running() for loop in self.loops) and not any(map(busy, list(self.loops)))
        self._idle = self._idle + 1 if idle else 0
        if self._idle >= 2:
            self._told = True
            self.tell({"idle": True})

    # Requests

    def tasks(self) -> list[Task]:
        """Every task that is not done, of all loops."""
        return [task for loop in list(self.loops) for task in asyncio.all_tasks(loop)]

    def _find(self, number: int | None) -> Task | None:
        return next((task for task in self.tasks() if birth(task).id == number), None) if number is not None else None

    def do_tasks(self, _: Request) -> object:
        """The table, a list a column."""
        running = {id(task): thread for thread, task in self._running()}
        loops = list(self.loops)

        def here(task: Task) -> FrameType | None:
            return self._frame if task is self._task else top_frame(running[id(task)])

        return columns(self.tasks(), running, here, cache(lambda: Timers(loops)))

    def _running(self) -> list[tuple[int, Task]]:
        found = []
        for loop in list(self.loops):
            task = asyncio.current_task(loop) if loop.is_running() else None
            if task is not None:
                found.append((getattr(loop, "_thread_id", 0) or 0, task))
        return found

    def _frames(self, number: int | None) -> list[FrameType]:
        """The frames of a task, innermost first."""
        task = self._find(number)
        if task is None or task is self._task:
            frames, at, last = [], self._frame, outermost(task)
            while at is not None:
                frames.append(at)
                if at is last:
                    break
                at = at.f_back
        else:
            frames = chain(task)[::-1]
        return [frame for frame in frames if not is_library(frame.f_code.co_filename)]

    def do_frames(self, request: Request) -> Any:
        """The program's frames of a task, and who made it, and who made that one."""
        task = self._find(request["task"])
        line = [born for born in ancestry(task) if born.parent is not None] if task is not None else []
        spawns = [{"task": born.parent, "name": births.NAMES.get(born.parent or 0, ""),
                   "at": site_of(born.code, born.lasti)} for born in line]  # fmt: skip
        return {"frames": [site(frame) for frame in self._frames(request["task"])], "spawns": spawns}

    def _frame_of(self, request: Request) -> FrameType:
        """The frame of a task that is meant. LookupError where it is in none."""
        frames = self._frames(request["task"])
        if not frames:
            raise LookupError("the task is in no frame of the program")
        chosen: FrameType = frames[min(request.get("level", 0), len(frames) - 1)]
        return chosen

    def do_evaluate(self, request: Request) -> str:
        """The value of an expression in a task's frame. It cannot rebind the frame's names."""
        frame = self._frame_of(request)
        return SHORT.repr(eval(request["text"], frame.f_globals, dict(frame.f_locals)))

    def do_held(self, request: Request) -> tuple[int | None, str]:
        """The number of the task that an expression holds, and its value."""
        frame = self._frame_of(request)
        value = eval(request["text"], frame.f_globals, dict(frame.f_locals))
        held = next((task for task in self.tasks() if task is value or task.get_coro() is value), None)
        return birth(held).id if held is not None else None, SHORT.repr(value)

    def do_points(self, request: Request) -> None:
        """Take these breakpoints."""
        running = list(sys._current_frames().values())
        stacks = [frame for top in running for frame in backs(top)]
        self.tracer.points.take(request["points"], stacks)
        if self.tracer.points.traces:
            # This runs in the user's program: nothing is imported there that it may never need.
            import threading

            threading.settrace(self.tracer.dispatch)
            for frame in stacks:
                if self.tracer.points.within(frame.f_code):
                    frame.f_trace = self.tracer.local
            if self._standing:
                sys.settrace(self.tracer.dispatch)
            else:
                self.tracer.interrupt()
            for loop in list(self.loops):
                if loop.is_running():
                    loop.call_soon_threadsafe(sys.settrace, self.tracer.dispatch)

    def do_name(self, request: Request) -> None:
        """Give a task a name, asyncio's too."""
        if (task := self._find(request["task"])) is not None:
            task.set_name(request["name"])
            births.NAMES[birth(task).id] = request["name"]

    def do_forget(self, _: Request) -> None:
        """Follow no task any more; the program runs on."""
        self.tracer.aim("continue", None, None, child=False)

    def do_source(self, request: Request) -> list[str]:
        """The lines of a file, as this process sees it."""
        return linecache.getlines(request["file"])

    def do_interrupt(self, _: Request) -> None:
        """Stop a loop between two of its tasks, if it gets there."""
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(self.stop, None, "interrupted", None)
                return


class RankAgent(Agent):
    """The same in a rank of MPI: a debugger comes and goes, and MPI goes on for other ranks while a thread stands."""

    def __init__(self, path: str, library: str, hands: tuple[Any, ...]) -> None:
        self._aside, self._drive, self._look_into, own = hands
        births.LIBRARY = (*births.LIBRARY, own)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(1)
        super().__init__(None, library)

    def do_look(self, request: Request) -> dict[str, Any]:
        """Variables of a task's frame, their parts, or another value of one."""
        answer: dict[str, Any] = self._look_into(self._frame_of(request), request["what"], request["given"])
        return answer

    def _serve(self) -> None:
        self._aside()
        while os.getpid() == self._pid:
            line = self._listener.accept()[0]
            self._lines, self._line = b"", line
            with suppress(OSError):
                self._converse(line)
            self._lost()

    def _lost(self) -> None:
        line, self._line = self._line, None
        if line is None:
            return
        line.close()
        self.tracer.points.take([], [])
        self.tracer.aim("continue", None, None, child=False)
        if self._standing:
            self._inbox.put({"do": "go", "how": "continue", "task": None, "child": False})

    def _request(self) -> Request:
        while True:
            try:
                return self._inbox.get(timeout=DRIVE)
            except Empty:
                self._drive()


def top_frame(thread: int) -> FrameType | None:
    """The program's innermost frame of a running thread."""
    stack = backs(sys._current_frames().get(thread))
    return next((frame for frame in stack if not is_library(frame.f_code.co_filename)), None)


def busy(loop: Any) -> bool:
    """Whether a loop has something to do, now or by a timer."""
    if not loop.is_running():
        return False
    if asyncio.current_task(loop) is not None or getattr(loop, "_ready", None):
        return True
    return any(not handle.cancelled() for handle in list(getattr(loop, "_scheduled", ())))
