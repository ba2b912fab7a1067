"""Answers the debugger: in the thread that stands at a line while one does, else in a thread of its own."""

from __future__ import annotations

import _thread
import asyncio
import ctypes
import json
import linecache
import os
import reprlib
import select
import socket
import sys
import threading
import time
import weakref
from asyncio import base_events
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from . import births, creation, hangs
from .births import Task, ancestry, birth, is_library
from .child_processes import children
from .schedule import Schedule
from .task_deaths import Deaths, frames_of
from .task_deaths import told as died
from .task_table import columns, names
from .thread_monitor import Overlook
from .tracer import Tracer, backs, outermost
from .waits import Timers, behind, chain, innermost, shields, site, site_of
from .watchpoints import Watch

LOOK = 0.15
"""Seconds between looks whether all loops stand still."""
FOREIGN = {"uvloop", "rloop", "winloop"}
"""Libraries whose loops are not made of asyncio's own."""
OTHERS = ("trio", "gevent", "curio")
"""Libraries with tasks of their own."""
SOON, SELDOM = 2, 64
"""Looks in a row at which they must stand still for it to be told: at first, and at most."""
DRIVE = 0.002
"""Seconds between looks at what MPI has to do for others."""
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 400
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = SHORT.maxset = 40

Request = dict[str, Any]


class Agent:
    """One conversation with the debugger, over a socket. `tells_threads`: whether threads stand in the table, too."""

    tells_threads = True

    def __init__(self, line: socket.socket | None, library: str) -> None:
        self._line = line
        self._lines = b""
        self._sending = _thread.allocate_lock()
        self._turn = _thread.allocate_lock()
        self._inbox: SimpleQueue[Request] = SimpleQueue()
        self._frame: FrameType | None = None
        self._task: Task | None = None
        self._standing = self._leaving = False
        self._moving = _thread.allocate_lock()
        """Whether the program stands does not change while one has it."""
        self._stops = 0
        self._thread = 0
        self._ticks = self._patience = 0
        self._quiet = False
        self._since: float | None = None
        self._pid = os.getpid()
        self.loops: weakref.WeakSet[Any] = weakref.WeakSet()
        self.deaths = Deaths(self._died)
        self.tracer = Tracer(self.stop, self.tasks, self.deaths.born)
        self.schedule = Schedule(lambda text: self.stop(None, "interrupted", None, text))
        self._scheduled = False
        self._prepare(library)
        os.register_at_fork(after_in_child=self._forked)
        self.overlook = Overlook(self.loops, self.tasks, tells=self.tells_threads)
        self.overlook.own.add(_thread.start_new_thread(self._serve, ()))

    def _prepare(self, library: str) -> None:
        """Hear of loops and tasks from now on."""
        self._watch_loops()
        births.install(self.tracer.created, library, behind, shields)
        if self.tells_threads:
            creation.install()

    def _watch_loops(self) -> None:
        original = base_events.BaseEventLoop.__init__

        def init(loop: Any) -> None:
            original(loop)
            self.loops.add(loop)
            if self._scheduled:
                self.schedule.attend(loop)

        base_events.BaseEventLoop.__init__ = init  # type: ignore[assignment, method-assign]

    def _forked(self) -> None:
        """A child of fork() is not debugged."""
        sys.settrace(None)
        self.tracer.how = "continue"
        self.tracer.points._all = []
        self.tracer.watches.clear()
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
            going = request["do"] == "go"
            with self._moving:
                standing = self._standing and not self._leaving
                if going and standing and request.get("seen", self._stops) < self._stops:
                    continue  # it stopped while the debugger let it go on, and the debugger hears of that now
                if standing:
                    self._leaving = going  # what comes after it finds a program that runs
                    self._inbox.put(request)
                elif going:
                    self._do(request)
            if not standing and not going:
                self._do(request)
        return bool(more)

    def _died(self, task: Task, _: BaseException) -> None:
        self.stop(None, "died", task, died(task))

    def stop(self, frame: FrameType | None, why: str, task: Task | None, text: str = "") -> None:
        """Stand here until the debugger lets the program go on."""
        if os.getpid() != self._pid or self._line is None:
            return
        with self._turn:
            with self._moving:
                self._frame, self._task, self._leaving, self._standing = frame, task, False, True
                self._stops += 1
            self._thread = _thread.get_ident()
            last = innermost(frames_of(task)[::-1]) if frame is None and task is not None else None
            at = site(frame or last)
            thread = (self.overlook.at(frame) if task is None and frame is not None else None) or {}
            change = self.tracer.change if why == "watch" else None
            point = change.number if change else self.tracer.points.last if why == "breakpoint" else None
            self.tell({"stop": {
                "number": self._stops, "why": why, "text": text, "at": at,
                "task": birth(task).id if task is not None else thread.get("id"), "kind": thread.get("kind", "task"),
                "breakpoint": point, "change": change and change.told, "over": bool(change and change.over),
                "worker": _thread.get_native_id(),
                "name": names([task]).get(0, "") if task is not None else thread.get("name", ""),
            }})  # fmt: skip
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
        self._ticks, self._patience, self._since = 0, SOON, None
        task = self._find(request["task"])
        task = task if task is None or not task.done() else None
        gone = task is None and request["task"] is not None  # it is done: there is nothing left to step
        how = "continue" if gone else request["how"]
        self.tracer.aim(how, task, frame if standing else None, child=request["child"])

    def _look(self) -> None:
        """Say when no loop has anything to do: the debugger looks for a deadlock then, ever more rarely."""
        if self._standing or not self._patience:
            return
        for late in self.schedule.overdue():
            late.call_soon_threadsafe(lambda: None)  # its next round sees it
        if self.schedule.withholds:
            return
        if (asleep := self.overlook.idle()) is None:
            self._ticks, self._since, self._quiet = 0, None, False
            return
        self._since = self._since or time.monotonic()
        self._ticks += 1
        if self._ticks < self._patience - 1:
            return
        # Twice in a row: a thread of a pool that is about to take up work looks idle for an instant.
        before, self._quiet = self._quiet, hangs.quiet(list(self.loops), self.tasks(), self.overlook.threads(asleep))
        if self._ticks >= self._patience:
            self._ticks, self._patience = 0, min(2 * self._patience, SELDOM)
            self.tell({"idle": True, "quiet": before and self._quiet, "held": self.schedule.waits_for_release()})

    # Requests

    def tasks(self) -> list[Task]:
        """Every task that is not done, of all loops."""
        if not FOREIGN.isdisjoint(sys.modules):  # they make loops past us: their tasks know them
            for loop in births.loops():
                self.loops.add(loop)
        return [task for loop in list(self.loops) for task in asyncio.all_tasks(loop)]

    def do_quiet(self, _: Request) -> bool:
        """Whether nothing can happen any more, as the program runs."""
        asleep = self.overlook.asleep()
        if self._standing or self.overlook.goes_on(asleep) or self.schedule.withholds:
            return False
        return hangs.quiet(list(self.loops), self.tasks(), self.overlook.threads(asleep))

    def do_unseen(self, _: Request) -> str:
        """The library of tasks that this program has loaded, where it is not asyncio."""
        return next((name for name in OTHERS if name in sys.modules), "")

    def do_children(self, _: Request) -> list[list[Any]]:
        """The processes that the program has made by multiprocessing."""
        return children()

    def do_hung(self, _: Request) -> Any:
        """What the waiting tasks wait for, and who has it."""
        return hangs.told(self.tasks(), self.overlook.threads(self.overlook.asleep()))

    def _find(self, number: int | None) -> Task | None:
        if number is None:
            return None
        here = [self._task] if self._task is not None else []  # it may be done: where it died is looked at
        return next((task for task in (*here, *self.tasks()) if birth(task).id == number), None)

    def do_tasks(self, _: Request) -> object:
        """The table, a list a column."""
        tasks = self.tasks()
        running = {id(task): thread for thread, task in self._running()}
        loops = list(self.loops)

        def here(task: Task) -> FrameType | None:
            return self._frame if task is self._task else top_frame(running[id(task)])

        threads = self.overlook.threads(self.overlook.asleep())
        told = columns(tasks, running, here, cache(lambda: Timers(loops)), threads.task_wait)
        natives = {ident: one.native_id for ident, one in list(threading._active.items())}  # type: ignore[attr-defined]
        told["workers"] = {i: natives.get(ident, ident) for i, ident in told["workers"].items()}
        return told | self.overlook.told(threads)

    def _running(self) -> list[tuple[int, Task]]:
        found = []
        for loop in list(self.loops):
            task = asyncio.current_task(loop) if loop.is_running() else None
            if task is not None:
                here = self._thread if task is self._task else 0
                found.append((getattr(loop, "_thread_id", here) or here, task))
        return found

    def _frames(self, number: int | None, *, every: bool = False) -> list[FrameType]:
        """The frames of a task, innermost first: the program's own and the one where it was stopped, or every one."""
        task = self._find(number)
        entry = self.overlook.entry(number) if task is None else None
        if entry is not None:
            frames = [frame for frame in entry.stack if not frame.f_code.co_filename.startswith(births.OWN)]
        elif task is not None and task.done():
            frames = frames_of(task)
        elif task is None or task is self._task:
            frames, at, last = [], self._frame, outermost(task)
            while at is not None:
                frames.append(at)
                if at is last:
                    break
                at = at.f_back
        else:
            frames = chain(task)[::-1]
        return [f for f in frames if every or f is self._frame or not is_library(f.f_code.co_filename)]

    def do_frames(self, request: Request) -> Any:
        """The program's frames of a task, and who made it, and who made that one."""
        task = self._find(request["task"])
        first = self.overlook.row(request["task"]) if task is None else None
        maker = self._find(first["parent"]) if first is not None else None
        of = task if task is not None else maker
        line = [born for born in ancestry(of) if born.parent is not None] if of is not None else []
        spawns = [{"task": born.parent, "name": births.NAMES.get(born.parent or 0, ""),
                   "at": site_of(born.code, born.lasti)} for born in line]  # fmt: skip
        if first is not None and first["parent"]:
            spawns.insert(0, {"task": first["parent"], "name": births.NAMES.get(first["parent"], ""),
                              "at": first["created"]})  # fmt: skip
        return {
            "frames": [site(frame) for frame in self._frames(request["task"], every=request["every"])],
            "spawns": spawns,
        }

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

    def do_locals(self, request: Request) -> list[tuple[str, str]]:
        """The variables of a task's frame."""
        return [(name, SHORT.repr(value)) for name, value in self._frame_of(request).f_locals.items()]

    def do_assign(self, request: Request) -> str:
        """Give a variable of a task's frame another value. NameError where the frame has none of that name."""
        frame, name = self._frame_of(request), request["name"]
        value = eval(request["text"], frame.f_globals, dict(frame.f_locals))
        code = frame.f_code
        if name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars:
            frame.f_locals[name] = value
            if sys.version_info < (3, 13):
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)
        elif name in frame.f_globals:
            frame.f_globals[name] = value
        elif name.isidentifier():  # it would be forgotten with the dictionary it is put in
            raise NameError(f"the frame has no variable {name}")
        else:
            exec(f"{name} = _weft_value", frame.f_globals, {**frame.f_locals, "_weft_value": value})
        return SHORT.repr(value)

    def do_held(self, request: Request) -> tuple[int | None, str]:
        """The number of the task that an expression holds, and its value."""
        frame = self._frame_of(request)
        value = eval(request["text"], frame.f_globals, dict(frame.f_locals))
        held = next((task for task in self.tasks() if task is value or task.get_coro() is value), None)
        return birth(held).id if held is not None else self.overlook.number_of(value), SHORT.repr(value)

    def do_points(self, request: Request) -> None:
        """Take these breakpoints."""
        stacks = on_stacks()
        self.tracer.points.take(request["points"], stacks)
        if self.tracer.points.traces:
            self._trace(stacks)

    def _trace(self, stacks: list[FrameType]) -> None:
        """Trace all threads from now on."""
        threading.settrace(self.tracer.dispatch)
        self.tracer.trace(stacks)
        if self._standing:
            sys.settrace(self.tracer.dispatch)
        else:
            self.tracer.interrupt()
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(sys.settrace, self.tracer.dispatch)

    def do_watch(self, request: Request) -> str:
        """Stop where the value of an expression in a task's frame changes; its value now."""
        watch = Watch(request["number"], request["text"], self._frame_of(request), SHORT.repr)
        self.tracer.watches.add(watch)
        self._trace(on_stacks())
        return watch.value

    def do_unwatch(self, request: Request) -> None:
        """Watch it no more."""
        self.tracer.watches.remove(request["number"])

    def do_name(self, request: Request) -> None:
        """Give a task a name, asyncio's too."""
        if (task := self._find(request["task"])) is not None:
            task.set_name(request["name"])
        births.NAMES[request["task"]] = request["name"]

    def _schedule(self) -> Schedule:
        """The schedule, with every loop in its hands."""
        self._scheduled = True
        for loop in list(self.loops):
            self.schedule.attend(loop)
        return self.schedule

    def do_hold(self, request: Request) -> None:
        """Let a task make no step, or again."""
        task = self._find(request["task"])
        if task is not None and not isinstance(task.get_loop(), base_events.BaseEventLoop):
            raise TypeError("its loop is not asyncio's own: its tasks cannot be held")
        self._schedule().hold(request["task"], on=request["on"])
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(lambda: None)

    def do_schedule(self, request: Request) -> None:
        """Write down the order of steps, or keep to one."""
        getattr(self._schedule(), request["how"])(request["path"])

    def do_catch(self, request: Request) -> None:
        """Stop where a task dies of an exception, or not any more."""
        if request["on"]:
            self.deaths.catch(request["name"], self.tasks())
        else:
            self.deaths.forget()
        self.tracer.listen(self.deaths.on)

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
                idle = time.monotonic() - self._since if self._since is not None else 0
                text = f"idle for {idle:.0f} s: every loop waits" if idle > 1 else ""
                loop.call_soon_threadsafe(self.stop, None, "interrupted", None, text)
                return


class RankAgent(Agent):
    """The same in a rank of MPI: a debugger comes and goes, and MPI goes on for other ranks while a thread stands.

    `weft debug` has the rank's threads already.
    """

    tells_threads = False

    def __init__(self, path: str, library: str, hands: tuple[Any, ...]) -> None:
        self._aside, self._drive, self._look_into, own = hands
        births.LIBRARY = (*births.LIBRARY, own)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder, _, name = path.rpartition("/")
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener.bind(f"/proc/self/fd/{here}/{name}")  # a socket's own name holds 107 bytes
        os.close(here)
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
        self.tracer.watches.clear()
        self.tracer.aim("continue", None, None, child=False)
        if self._standing:
            self._inbox.put({"do": "go", "how": "continue", "task": None, "child": False})

    def _request(self) -> Request:
        while True:
            try:
                return self._inbox.get(timeout=DRIVE)
            except Empty:
                self._drive()


def on_stacks() -> list[FrameType]:
    """The frames on the stacks of all threads."""
    return [frame for top in list(sys._current_frames().values()) for frame in backs(top)]


def top_frame(thread: int) -> FrameType | None:
    """The program's innermost frame of a running thread."""
    stack = backs(sys._current_frames().get(thread))
    return next((frame for frame in stack if not is_library(frame.f_code.co_filename)), None)
