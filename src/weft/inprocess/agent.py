"""Answers the debugger's requests inside the program: in the stopped thread, or in the agent's own while none is
stopped.
"""

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
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from . import births, creation, hangs
from .births import Task, ancestry, birth, is_library
from .cancellations import find_ignored_cancellations
from .child_processes import list_child_processes
from .loop_states import all_stacks, find_blocked_loops, find_lost_wakeups, find_own_frame_and_library_call
from .schedule import Schedule
from .task_deaths import TaskDeaths, UnretrievedErrors, describe_dead_task, exception_frames, find_dead_tasks
from .task_deaths import describe_death as died
from .task_table import build_task_columns, find_given_names
from .thread_monitor import ThreadMonitor
from .tracer import Tracer, frame_and_callers, outermost_frame
from .waits import (
    Timers,
    frame_site,
    has_shield_callback,
    innermost_frame,
    instruction_site,
    task_frames,
    unwrap_awaitable,
)
from .watchpoints import WatchedExpression

CHECK_INTERVAL = 0.15
"""Seconds between looks whether all loops stand still."""
FOREIGN_LOOPS = {"uvloop", "rloop", "winloop"}
"""Libraries whose loops are not made of asyncio's own."""
OTHER_TASK_LIBRARIES = ("trio", "gevent", "curio")
"""Libraries with tasks of their own."""
FIRST_IDLE_CHECKS, MOST_IDLE_CHECKS = 2, 64
"""Looks in a row at which they must be unmoved before a hang is reported: at first, and at most."""
PROGRESS_INTERVAL = 0.002
"""Seconds between looks at what MPI has to do for others."""
SHORT_REPR = reprlib.Repr()
SHORT_REPR.maxstring = SHORT_REPR.maxother = 400
SHORT_REPR.maxlist = SHORT_REPR.maxtuple = SHORT_REPR.maxdict = SHORT_REPR.maxset = 40

Request = dict[str, Any]


class Agent:
    """Conversation with the debugger over a socket. `has_thread_rows`: whether the table of tasks
    contains threads too.
    """

    has_thread_rows = True

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
        self._lost: list[Any] = []
        self._pid = os.getpid()
        self.flush_output: Callable[[], None] = lambda: None
        """What is called before the debugger shows where the program stands: what it printed is shown first."""
        self.loops: weakref.WeakSet[Any] = weakref.WeakSet()
        self.deaths = TaskDeaths(self._stop_at_death)
        self._unretrieved = UnretrievedErrors()
        self.tracer = Tracer(self.stop, self.tasks, self.deaths.on_task_created)
        self.schedule = Schedule(lambda text: self.stop(None, "interrupted", None, text))
        self._scheduled = False
        self._install_hooks(library)
        os.register_at_fork(after_in_child=self._disable_in_fork)
        self.thread_monitor = ThreadMonitor(self.loops, self.tasks, has_rows=self.has_thread_rows)
        self.thread_monitor.own_threads.add(_thread.start_new_thread(self._serve_debugger, ()))

    def _install_hooks(self, library: str) -> None:
        """Let each new task and thread get a number at its creation, and keep track of new loops and of errors that
        nobody retrieves. `library`: the path of the C part.
        """
        self._hook_loop_creation()
        self._unretrieved.install()
        births.install_births(self.tracer.on_task_created, library, unwrap_awaitable, has_shield_callback)
        if self.has_thread_rows:
            creation.install_creation_hooks()

    def _hook_loop_creation(self) -> None:
        """From now on, add each event loop that the program creates to `loops`. If the order of steps is controlled,
        the schedule takes over the new loop, too.
        """
        original = base_events.BaseEventLoop.__init__

        def init(loop: Any) -> None:
            """Initialize a loop as asyncio does, and add it to `loops`."""
            original(loop)
            self.loops.add(loop)
            if self._scheduled:
                self.schedule.take_over_loop(loop)

        base_events.BaseEventLoop.__init__ = init  # type: ignore[assignment, method-assign]

    def _disable_in_fork(self) -> None:
        """Switch off tracing and breakpoints, and close the connection to the debugger. Needed in a child made by
        fork(), which is not debugged.
        """
        sys.settrace(None)
        self.tracer.movement = "continue"
        self.tracer.breakpoints._all = []
        self.tracer.watchpoints.clear()
        if self._line is not None:
            self._line.close()

    # The conversation

    def send(self, message: Request) -> None:
        """Send the debugger one message as a line of JSON. If the debugger no longer listens, close the connection."""
        if "stop" in message or "idle" in message:
            self.flush_output()
        try:
            with self._sending:
                if self._line is not None:
                    self._line.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._on_disconnect()

    def _on_disconnect(self) -> None:
        """Stop debugging after the debugger has gone."""
        self._disable_in_fork()

    def _serve_debugger(self) -> None:
        """Answer the debugger's requests in this thread until it disconnects. Then end the program, as the debugger has
        started it.
        """
        if self._line is not None:
            self._answer_requests(self._line)
        if os.getpid() == self._pid:
            os._exit(143)  # the debugger has gone, and the program was its own

    def _answer_requests(self, line: socket.socket) -> None:
        """Answer the requests that arrive on a socket, until its other end closes. Whenever none arrives for
        CHECK_INTERVAL, check whether the program is idle.
        """
        while os.getpid() == self._pid:
            ready, _, _ = select.select([line], [], [], CHECK_INTERVAL)
            if ready and not self._receive_requests(line):
                return
            if not ready:
                self._check_idle()

    def _receive_requests(self, line: socket.socket) -> bool:
        """Read from the debugger's socket, and handle each complete request. Return False if the other end has closed
        the socket.

        While a thread is stopped, requests are put into its inbox, and that thread handles them.
        """
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
                    self._handle_request(request)
            if not standing and not going:
                self._handle_request(request)
        return bool(more)

    def _stop_at_death(self, task: Task, _: BaseException) -> None:
        """Stop the thread in which a task has ended by an exception."""
        self.stop(None, "died", task, died(task))

    def stop(self, frame: FrameType | None, why: str, task: Task | None, text: str = "") -> None:
        """Stop the calling thread at `frame`, and report the stop to the debugger. Requests are answered here until one
        lets the program continue.

        `why`: the reason of the stop, such as `line`, `breakpoint`, `watch`, `done`. `task`: the task that stopped, if
        any. `text`: more words for the user. Nothing happens in a forked child or without a debugger.
        """
        if os.getpid() != self._pid or self._line is None:
            return
        with self._turn:
            with self._moving:
                self._frame, self._task, self._leaving, self._standing = frame, task, False, True
                self._stops += 1
            self._thread = _thread.get_ident()
            last = innermost_frame(exception_frames(task)[::-1]) if frame is None and task is not None else None
            at = frame_site(frame or last)
            thread = (
                self.thread_monitor.find_row_of_frame(frame) if task is None and frame is not None else None
            ) or {}
            change = self.tracer.change if why == "watch" else None
            point = change.number if change else self.tracer.breakpoints.last_hit if why == "breakpoint" else None
            self.send({"stop": {
                "number": self._stops, "why": why, "text": text, "at": at,
                "task": birth(task).id if task is not None else thread.get("id"), "kind": thread.get("kind", "task"),
                "breakpoint": point, "change": change and change.texts, "over": bool(change and change.is_frame_over),
                "worker": _thread.get_native_id(),
                "name": find_given_names([task]).get(0, "") if task is not None else thread.get("name", ""),
            }})  # fmt: skip
            while not self._handle_request(self._next_request()):
                pass

    def _next_request(self) -> Request:
        """Wait for the debugger's next request to the stopped thread, and return it."""
        return self._inbox.get()

    def report_exit(self, exit_status: int) -> None:
        """Tell the debugger that the program has ended."""
        if os.getpid() == self._pid:
            self.send({"stop": {"why": "ended", "code": exit_status, "task": None, "at": None}})

    def _handle_request(self, request: Request) -> bool:
        """Answer one request by calling the method `do_NAME`. Return True if the request lets the program continue."""
        if request["do"] == "go":
            self._resume_program(request)
            return True
        try:
            answer = getattr(self, "do_" + request["do"])(request)
            self.send({"id": request["id"], "answer": answer})
        except Exception as error:
            self.send({"id": request["id"], "error": f"{type(error).__name__}: {error}"})
        return False

    def _resume_program(self, request: Request) -> None:
        """Let the program continue as a request demands: freely, or until its task has made a `step`, `next` or
        `finish`. If that task is done, freely.
        """
        standing, frame = self._standing, self._frame
        self._standing, self._frame, self._task = False, None, None
        self._ticks, self._patience, self._since = 0, FIRST_IDLE_CHECKS, None
        task = self._find_task(request["task"])
        task = task if task is None or not task.done() else None
        gone = task is None and request["task"] is not None  # it is done: there is nothing left to step
        how = "continue" if gone else request["how"]
        self.tracer.resume(how, task, frame if standing else None, into_child=request["child"])

    def _check_idle(self) -> None:
        """If no loop and no thread has anything to do, report this to the debugger, which then looks for a deadlock.

        The interval between reports doubles while nothing changes, up to MOST_IDLE_CHECKS checks.
        """
        if self._standing or not self._patience:
            return
        for late in self.schedule.overdue_loops():
            late.call_soon_threadsafe(lambda: None)  # its next round sees it
        if self.schedule.is_delaying_tasks or self._check_lost_wakeups():
            return
        if (asleep := self.thread_monitor.find_idle_threads()) is None:
            self._ticks, self._since, self._quiet = 0, None, False
            return
        self._since = self._since or time.monotonic()
        self._ticks += 1
        if self._ticks < self._patience - 1:
            return
        # Twice in a row: a thread of a pool that is about to take up work looks idle for an instant.
        before, self._quiet = (
            self._quiet,
            hangs.is_stuck(list(self.loops), self.tasks(), self.thread_monitor.read_threads(asleep)),
        )
        if self._ticks >= self._patience:
            self._ticks, self._patience = 0, min(2 * self._patience, MOST_IDLE_CHECKS)
            self.send({"idle": True, "quiet": before and self._quiet, "held": self.schedule.held_ready_tasks()})

    def _check_lost_wakeups(self) -> bool:
        """Return whether a loop sleeps although a callback is ready, both now and at the previous check. Such loops are
        also reported to the debugger, less and less often.
        """
        before, now = self._lost, self._find_lost_wakeups()
        self._lost = now
        kept = [row for row in now if row["key"] in [one["key"] for one in before]]
        if not kept:
            return False
        self._ticks += 1
        if self._ticks >= self._patience:
            self._ticks, self._patience = 0, min(2 * self._patience, MOST_IDLE_CHECKS)
            self.send({"idle": True, "quiet": False, "held": [], "lost": kept})
        return True

    def _find_lost_wakeups(self) -> list[dict[str, Any]]:
        """Return a row for each loop that sleeps although a callback is ready (loop_states.py)."""
        if not any(getattr(loop, "_ready", None) for loop in list(self.loops)):
            return []
        return find_lost_wakeups(list(self.loops), all_stacks(self.thread_monitor.own_threads))

    # Requests

    def tasks(self) -> list[Task]:
        """Return all tasks that are not done, of all loops."""
        if not FOREIGN_LOOPS.isdisjoint(sys.modules):  # they make loops past us: their tasks know them
            for loop in births.find_loops():
                self.loops.add(loop)
        return [task for loop in list(self.loops) for task in asyncio.all_tasks(loop)]

    def do_quiet(self, _: Request) -> bool:
        """Return whether nothing can happen in the program any more, without stopping it."""
        asleep = self.thread_monitor.find_sleeping_threads()
        if self._standing or self.thread_monitor.is_active(asleep) or self.schedule.is_delaying_tasks:
            return False
        return hangs.is_stuck(list(self.loops), self.tasks(), self.thread_monitor.read_threads(asleep))

    def do_unseen(self, _: Request) -> str:
        """Return the name of another task library that the program has loaded, such as trio; empty if none."""
        return next((name for name in OTHER_TASK_LIBRARIES if name in sys.modules), "")

    def do_main(self, _: Request) -> dict[str, Any]:
        """Return where the main thread is, as a dictionary: `asleep` (whether the thread does not run), `at` (the
        program's innermost line) and `library` (the library function that this line has called; empty for none).
        """
        ident = threading.main_thread().ident or 0
        asleep = ident in self.thread_monitor.find_threads_that_do_not_run()
        stack = frame_and_callers(sys._current_frames().get(ident))
        own, library = find_own_frame_and_library_call(stack)
        return {"asleep": asleep, "at": frame_site(own), "library": library}

    def do_children(self, _: Request) -> list[list[Any]]:
        """Return number and name of each living process that the program has made by multiprocessing."""
        return list_child_processes()

    def do_hung(self, request: Request) -> Any:
        """Return a row for each object that tasks or threads wait for: who waits, and who could end the wait (see
        `describe_awaited_objects`). Empty if there are more tasks than the request's `most`, as the variables of all
        tasks have to be read.
        """
        tasks, dead = self.tasks(), find_dead_tasks()
        if len(tasks) > (request.get("most") or len(tasks)):
            return []
        return hangs.describe_awaited_objects(
            tasks,
            self.thread_monitor.read_threads(self.thread_monitor.find_sleeping_threads()),
            [*map(describe_dead_task, dead), *self._unretrieved],
        )

    def do_lost(self, _: Request) -> list[dict[str, Any]]:
        """Return a row for each loop that sleeps although a callback is ready; empty while the program is stopped."""
        return [] if self._standing else self._find_lost_wakeups()

    def do_delays(self, _: Request) -> dict[str, Any]:
        """Return what holds up a program that is not hung: blocked loops, and cancellations that tasks ignore."""
        asleep = self.thread_monitor.find_threads_that_do_not_run()
        loops, stacks = list(self.loops), all_stacks(self.thread_monitor.own_threads)
        return {
            "blocked": [] if self._standing else find_blocked_loops(loops, stacks, asleep),
            "cancelled": find_ignored_cancellations(self.tasks(), find_dead_tasks()),
        }

    def _find_task(self, number: int | None) -> Task | None:
        """Return the task with a number. None if there is none, or if it is done, unless it is the task that has
        stopped.
        """
        if number is None:
            return None
        here = [self._task] if self._task is not None else []  # it may be done: where it died is looked at
        return next((task for task in (*here, *self.tasks()) if birth(task).id == number), None)

    def do_tasks(self, _: Request) -> object:
        """Return the table of all tasks and threads as columns, by name."""
        tasks = self.tasks()
        running = {id(task): thread for thread, task in self._running_tasks()}
        loops = list(self.loops)

        def here(task: Task) -> FrameType | None:
            return self._frame if task is self._task else innermost_program_frame(running[id(task)])

        threads = self.thread_monitor.read_threads(self.thread_monitor.find_sleeping_threads())
        told = build_task_columns(tasks, running, here, cache(lambda: Timers(loops)), threads.describe_task_wait)
        natives = {ident: one.native_id for ident, one in list(threading._active.items())}  # type: ignore[attr-defined]
        told["workers"] = {i: natives.get(ident, ident) for i, ident in told["workers"].items()}
        return told | self.thread_monitor.thread_columns(threads)

    def _running_tasks(self) -> list[tuple[int, Task]]:
        """Return (identity of the thread, task) for each task that runs now."""
        found = []
        for loop in list(self.loops):
            task = asyncio.current_task(loop) if loop.is_running() else None
            if task is not None:
                here = self._thread if task is self._task else 0
                found.append((getattr(loop, "_thread_id", here) or here, task))
        return found

    def _task_frames(self, number: int | None, *, with_libraries: bool = False) -> list[FrameType]:
        """Return the frames of the task or thread with a number, innermost first. For None, those of the stopped
        thread.

        Frames of libraries are left out unless `with_libraries`, but the frame of the stop is always kept.
        """
        task = self._find_task(number)
        entry = self.thread_monitor.find_entry(number) if task is None else None
        if entry is not None:
            frames = [frame for frame in entry.stack if not frame.f_code.co_filename.startswith(births.OWN_FOLDER)]
        elif task is not None and task.done():
            frames = exception_frames(task)
        elif task is None or task is self._task:
            frames, at, last = [], self._frame, outermost_frame(task)
            while at is not None:
                frames.append(at)
                if at is last:
                    break
                at = at.f_back
        else:
            frames = task_frames(task)[::-1]
        return [f for f in frames if with_libraries or f is self._frame or not is_library(f.f_code.co_filename)]

    def do_frames(self, request: Request) -> Any:
        """Return {"frames": the frames of a task, innermost first, "spawns": where the task and each of its ancestors
        was created}.
        """
        task = self._find_task(request["task"])
        first = self.thread_monitor.find_row(request["task"]) if task is None else None
        maker = self._find_task(first["parent"]) if first is not None else None
        of = task if task is not None else maker
        line = [born for born in ancestry(of) if born.parent is not None] if of is not None else []
        spawns = [{"task": born.parent, "name": births.NAMES.get(born.parent or 0, ""),
                   "at": instruction_site(born.code, born.lasti)} for born in line]  # fmt: skip
        if first is not None and first["parent"]:
            spawns.insert(0, {"task": first["parent"], "name": births.NAMES.get(first["parent"], ""),
                              "at": first["created"]})  # fmt: skip
        return {
            "frames": [
                frame_site(frame) for frame in self._task_frames(request["task"], with_libraries=request["every"])
            ],
            "spawns": spawns,
        }

    def _selected_frame(self, request: Request) -> FrameType:
        """Return the frame that a request selects by its `task` and `level`; too high a level selects the outermost
        frame. LookupError if the task has no frame of the program.
        """
        frames = self._task_frames(request["task"])
        if not frames:
            raise LookupError("the task is in no function of the program")
        chosen: FrameType = frames[min(request.get("level", 0), len(frames) - 1)]
        return chosen

    def do_evaluate(self, request: Request) -> str:
        """Return the value of an expression in a task's frame as text. Assignments in the expression do not change the
        frame's variables.
        """
        frame = self._selected_frame(request)
        return SHORT_REPR.repr(eval(request["text"], frame.f_globals, dict(frame.f_locals)))

    def do_locals(self, request: Request) -> list[tuple[str, str]]:
        """Return the names and values (as text) of the local variables of a task's frame."""
        return [(name, SHORT_REPR.repr(value)) for name, value in self._selected_frame(request).f_locals.items()]

    def do_assign(self, request: Request) -> str:
        """Assign a value to a variable, attribute or item in a task's frame, and return the value as text.

        Raises NameError if a plain name is neither a local nor a global variable of the frame.
        """
        frame, name = self._selected_frame(request), request["name"]
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
        return SHORT_REPR.repr(value)

    def do_held(self, request: Request) -> tuple[int | None, str]:
        """Return (number of the task or thread that an expression yields, the value as text). The value may also be a
        task's coroutine. The number is None if the value is something else.
        """
        frame = self._selected_frame(request)
        value = eval(request["text"], frame.f_globals, dict(frame.f_locals))
        held = next((task for task in self.tasks() if task is value or task.get_coro() is value), None)
        return birth(held).id if held is not None else self.thread_monitor.find_number_of(value), SHORT_REPR.repr(value)

    def do_points(self, request: Request) -> None:
        """Replace all breakpoints by those of the request."""
        stacks = all_thread_frames()
        self.tracer.breakpoints.replace_breakpoints(request["points"], stacks)
        if self.tracer.breakpoints.needs_tracing:
            self._trace_all_threads(stacks)

    def _trace_all_threads(self, frames: list[FrameType]) -> None:
        """Install the trace function in all threads, and trace the lines of `frames` wherever breakpoints or
        watchpoints need that.
        """
        threading.settrace(self.tracer.trace_call)
        self.tracer.trace_frames(frames)
        if self._standing:
            sys.settrace(self.tracer.trace_call)
        else:
            self.tracer.trace_main_thread_soon()
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(sys.settrace, self.tracer.trace_call)

    def do_watch(self, request: Request) -> str:
        """Watch an expression in a task's frame, so that the program stops when its value changes. Return the value now
        as text.
        """
        watch = WatchedExpression(request["number"], request["text"], self._selected_frame(request), SHORT_REPR.repr)
        self.tracer.watchpoints.add(watch)
        self._trace_all_threads(all_thread_frames())
        return watch.value

    def do_unwatch(self, request: Request) -> None:
        """Remove a watchpoint by its number."""
        self.tracer.watchpoints.remove(request["number"])

    def do_name(self, request: Request) -> None:
        """Give a task a name, in Weft's table and in asyncio."""
        if (task := self._find_task(request["task"])) is not None:
            task.set_name(request["name"])
        births.NAMES[request["task"]] = request["name"]

    def _activate_schedule(self) -> Schedule:
        """Let the schedule control the order of steps in all loops, also in later ones, and return the schedule."""
        self._scheduled = True
        for loop in list(self.loops):
            self.schedule.take_over_loop(loop)
        return self.schedule

    def do_hold(self, request: Request) -> None:
        """Hold a task, so that it makes no step, or release it, as the request's `on` says. TypeError if its loop is
        not one of asyncio's own.
        """
        task = self._find_task(request["task"])
        if task is not None and not isinstance(task.get_loop(), base_events.BaseEventLoop):
            raise TypeError("its loop is not asyncio's own: its tasks cannot be held")
        self._activate_schedule().hold(request["task"], on=request["on"])
        for loop in list(self.loops):
            if loop.is_running():
                loop.call_soon_threadsafe(lambda: None)

    def do_schedule(self, request: Request) -> None:
        """Begin to record the order of steps in a file, or to replay the order that a file has. The request's `how` is
        `record` or `replay`.
        """
        getattr(self._activate_schedule(), request["how"])(request["path"])

    def do_catch(self, request: Request) -> None:
        """Stop from now on when a task ends by an exception whose class has the request's `name`; an empty name means
        any. If the request's `on` is False, stop no longer.
        """
        if request["on"]:
            self.deaths.start_catching(request["name"], self.tasks())
        else:
            self.deaths.stop_catching()
        self.tracer.listen_for_births(self.deaths.is_catching)

    def do_forget(self, _: Request) -> None:
        """Stop following a task; the program continues."""
        self.tracer.resume("continue", None, None, into_child=False)

    def do_source(self, request: Request) -> list[str]:
        """Return the lines of a source file as this process reads them."""
        return linecache.getlines(request["file"])

    def do_interrupt(self, _: Request) -> None:
        """Stop a running loop between two steps of its tasks, as soon as the loop comes there."""
        for loop in list(self.loops):
            if loop.is_running():
                idle = time.monotonic() - self._since if self._since is not None else 0
                text = f"no asyncio event loop had anything to run for {idle:.0f} s: all tasks wait" if idle > 1 else ""
                loop.call_soon_threadsafe(self.stop, None, "interrupted", None, text)
                return


class RankAgent(Agent):
    """The agent in an MPI rank: debuggers come and go, and MPI makes progress for other ranks while a thread is
    stopped.

    The table has no rows of threads, as `weft debug` shows the threads of ranks already.
    """

    has_thread_rows = False

    def __init__(self, socket_path: str, library: str, rank_functions: tuple[Any, ...]) -> None:
        self._aside, self._drive, self._look_into, own = rank_functions
        births.LIBRARY_FOLDERS = (*births.LIBRARY_FOLDERS, own)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder, _, name = socket_path.rpartition("/")
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener.bind(f"/proc/self/fd/{here}/{name}")  # a socket's own name holds 107 bytes
        os.close(here)
        self._listener.listen(1)
        super().__init__(None, library)

    def do_look(self, request: Request) -> dict[str, Any]:
        """Read or change a task's frame by the functions of the rank's own agent (debug/agent.py), and return their
        answer. The request's `what`: list variables, list parts of a value, or assign a value.
        """
        answer: dict[str, Any] = self._look_into(self._selected_frame(request), request["what"], request["given"])
        return answer

    def _serve_debugger(self) -> None:
        """Accept debuggers, one after the other, and answer their requests."""
        self._aside()
        while os.getpid() == self._pid:
            line = self._listener.accept()[0]
            self._lines, self._line = b"", line
            with suppress(OSError):
                self._answer_requests(line)
            self._on_disconnect()

    def _on_disconnect(self) -> None:
        """After a debugger has gone, remove breakpoints and watchpoints, and let the program continue."""
        line, self._line = self._line, None
        if line is None:
            return
        line.close()
        self.tracer.breakpoints.replace_breakpoints([], [])
        self.tracer.watchpoints.clear()
        self.tracer.resume("continue", None, None, into_child=False)
        if self._standing:
            self._inbox.put({"do": "go", "how": "continue", "task": None, "child": False})

    def _next_request(self) -> Request:
        """Wait for the debugger's next request to the stopped thread, and return it. MPI is called meanwhile, so that
        its messages make progress.
        """
        while True:
            try:
                return self._inbox.get(timeout=PROGRESS_INTERVAL)
            except Empty:
                self._drive()


def all_thread_frames() -> list[FrameType]:
    """Return the frames on the stacks of all threads."""
    return [frame for top in list(sys._current_frames().values()) for frame in frame_and_callers(top)]


def innermost_program_frame(thread: int) -> FrameType | None:
    """Return the innermost frame of a running thread that is the program's own code; None if there is none. `thread`:
    the identity of the thread.
    """
    stack = frame_and_callers(sys._current_frames().get(thread))
    return next((frame for frame in stack if not is_library(frame.f_code.co_filename)), None)
