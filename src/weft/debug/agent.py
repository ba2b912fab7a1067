"""The agent in a Python rank: the recorder executes it there when MPI has started; Weft never imports it.

A thread of the agent answers questions about the frames of the thread that initialised MPI, or of another thread that
is stopped at a breakpoint. Breakpoints and steps are a trace function in that thread (sys.settrace), put there by
inprocess/soon.py so that it takes effect when the MPI call that the rank is parked in returns; trace_threads.py puts it
into the other threads. Standard library and Python 3.11 only; no name is left in the program.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import json
import linecache
import os
import re
import reprlib
import socket
import sys
from types import FrameType
from typing import Any

FOLDER: str
RANK: int

OWN = __file__ if "__file__" in globals() else "agent.py"
HIDDEN: tuple[str, ...] = ("<frozen importlib", os.path.dirname(os.__file__) + "/threading.py")  # noqa: PTH120
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 400
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = SHORT.maxset = SHORT.maxarray = 40
SHORT.maxlevel = 4

UNDISTURBED = 0.1
"""The longest time (s) that a thread runs on while others want to, beside a watched expression: a change is met at the
next line of any thread, and nearly always that is the thread that made it."""

MOST_LINES = 10_000
"""Lines of ticks that are sent when the interpreter ends, as many as a search looks at."""
MANY = 100
"""The most parts of a value that are sent at once, unless the debugger asks for more."""
ARRAYS = {("numpy", "ndarray"), ("array", "array"), ("collections", "deque")}
PLAIN = (str, bytes, int, float, bool, type(None))
"""Keys whose `repr` means them."""
SLOT = type(type("Slotted", (), {"__slots__": ("a",)}).a)  # type: ignore[attr-defined]


class Breakpoint:
    """A breakpoint at a line of a file or at a function, which stops from the `count`-th visit on."""

    def __init__(self, place: dict[str, Any]) -> None:
        self.id: int = place["id"]
        self.file: str = place.get("file") or ""
        self.line: int = place.get("line") or 0
        self.function: str = place.get("function") or ""
        self.left: int = place.get("count") or 1
        self.condition: str = place.get("condition") or ""
        self.log: str = place.get("log") or ""

    def is_condition_met(self, frame: FrameType, trouble: dict[str, str]) -> bool:
        """Return whether the breakpoint's condition is true in a frame; also if there is none, or if it raises an
        error. The error is put into `trouble`.
        """
        if not self.condition:
            return True
        try:
            return bool(eval(self.condition, {**frame.f_globals, **frame.f_locals}))
        except Exception as error:
            trouble["trouble"] = f"{self.condition}: {type(error).__name__}: {error}"
            return True

    def is_in_code(self, code: Any) -> bool:
        """Return whether the breakpoint is at a line of a code object, or at its function."""
        if self.function:
            return self.function in (code.co_name, code.co_qualname)
        return same_file(code.co_filename, self.file) and any(line == self.line for _, _, line in code.co_lines())


class Watched:
    """An expression of a frame that is compared at every line, until the frame has returned."""

    def __init__(self, text: str, frame: FrameType, thread: int) -> None:
        self.text = text
        self.frame = frame
        self.thread = thread if uses_frame_variable(text, frame) else 0
        """Whose lines can change it; 0: those of any thread."""
        self.value = self.read_value()

    def read_value(self) -> str:
        """Return the current value of the expression as text; "" if it raises an error, as before its first
        assignment.
        """
        try:
            return abbreviate(eval(self.text, {**self.frame.f_globals, **self.frame.f_locals}))
        except Exception:
            return ""


class Agent:
    """The state that the rank's thread and the agent's thread share."""

    def __init__(self, folder: str, rank: int) -> None:
        self.rank = rank
        self.thread = self.focus = _thread.get_ident()
        """The thread that initialised MPI, and the one that is looked at: another one where that stands."""
        self.spared = {self.thread}
        self.standing = _thread.allocate_lock()
        """Of the thread that stands at a line; others that come to one wait for it."""
        self.several = False
        """Whether each thread may call MPI at any time."""
        self.reach: Any = None
        self.hook: Any = None
        ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
        self.state: int = ctypes.pythonapi.PyThreadState_Get()
        """The interpreter's own name for the thread that initialised MPI."""
        self.breakpoints: list[Breakpoint] = []
        self.watched: dict[int, Watched] = {}
        self.interval = 0.0
        """The program's own, where UNDISTURBED has taken its place."""
        self.numbers = 0
        self.aside: Any
        self.drive: Any
        self.stepping = ""
        self.skipped: tuple[list[str], list[str]] = [], []
        self.returned = ""
        self.base: Any = None
        self.stopped: Any = None
        self.event = ""
        self.news: dict[str, Any] = {}
        self.count: Any = None
        self.counted: Any = None
        """What counts now, and what counted last."""
        self.folder = folder
        self.go = _thread.allocate_lock()
        self.writing = _thread.allocate_lock()
        self.client: socket.socket | None = None
        self.soon: Any = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.listener.bind(f"/proc/self/fd/{here}/rank-{rank}.sock")  # a socket's own name holds 107 bytes
        os.close(here)
        self.listener.listen(1)
        try:
            self.aside = ctypes.CDLL(None).weft_debug_aside
            self.drive = ctypes.CDLL(None).weft_debug_drive
        except AttributeError:  # another recorder than the debugger's own
            self.aside = self.drive = _nothing

    # The debugger's thread

    def serve(self) -> None:
        """Answer the requests of one debugger after the other; never returns. Runs in the agent's own thread."""
        self.aside()
        self.spared.add(_thread.get_ident())
        while True:
            self.client = self.listener.accept()[0]
            for line in self.client.makefile():
                request = json.loads(line)
                try:
                    answer = getattr(self, "do_" + request["do"])(**request.get("with", {}))
                except Exception as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                self.send({"id": request["id"]} | answer)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the debugger, as a line of JSON. It is dropped if no debugger is connected."""
        with self.writing:
            if self.client is not None:
                try:
                    self.client.sendall((json.dumps(message) + "\n").encode())
                except OSError:
                    self.client = None

    def frames(self) -> list[Any]:
        """Return the stack of the inspected thread, innermost frame first, without frames of Weft, mpi4py and
        `threading`.
        """
        frames = sys._current_frames()
        if self.focus not in frames:  # it has ended
            self.focus = self.thread
        frame = frames.get(self.focus)
        found = []
        while frame is not None:
            if not hidden(frame.f_code.co_filename):
                found.append(frame)
            frame = frame.f_back
        return found

    def do_stack(self) -> dict[str, object]:
        """Return the frames of the rank."""
        return {"frames": [describe_place(frame) for frame in self.frames()]}

    def frame(self, level: int) -> Any:
        """Return the frame at a level of the inspected thread's stack (0: innermost), or the outermost one if there are
        fewer. LookupError if the thread runs no code of the program.
        """
        frames = self.frames()
        if not frames:
            raise LookupError("the rank is at no line of the Python program now")
        return frames[min(level, len(frames) - 1)]

    def do_print(self, text: str, level: int = 0, form: str = "") -> dict[str, Any]:
        """Return the value of an expression in a frame as text, and its type. `form`: the letter of a format of gdb,
        such as x.
        """
        value = self.value(text, self.frame(level))
        return {"value": format_value(value, form) if form else abbreviate(value), "type": type(value).__name__}

    def do_variables(self, level: int = 0) -> dict[str, Any]:
        """Return the names of a frame, and their values."""
        return {
            "variables": [(name, abbreviate(value)) for name, value in self.frame_variables(self.frame(level)).items()]
        }

    def frame_variables(self, frame: FrameType) -> dict[str, Any]:
        """Return the local variables of a frame, by name; of a module's frame only those that are data, not functions
        or classes.
        """
        names = dict(frame.f_locals)
        if frame.f_locals is frame.f_globals or frame.f_code.co_name == "<module>":
            names = {name: value for name, value in names.items() if not name.startswith("__") and is_data(value)}
        return names

    def do_about(self, text: str, level: int = 0) -> dict[str, Any]:
        """Return the value of an expression in a frame, with its type and the number of its parts."""
        return self.answer_about_frame(self.frame(level), "about", {"text": text})

    def do_parts(self, text: str, level: int = 0, start: int = 0, count: int = 0) -> dict[str, Any]:
        """Return the variables of a frame, or the parts of an expression's value."""
        return self.answer_about_frame(self.frame(level), "parts", {"text": text, "start": start, "count": count})

    def answer_about_frame(self, frame: FrameType, what: str, given: dict[str, Any]) -> dict[str, Any]:
        """Answer a request about a frame of a thread or a task. `what`: `about` for a value and its type, `parts` for
        its elements or a frame's variables, `assign`. `given`: the arguments of the request.
        """
        text: str = given["text"]
        if what == "assign":
            return {"value": self.assign_in_frame(frame, given["target"], text)}
        if what == "about":
            return {"part": describe_part(text, text, self.value(text, frame))}
        if not text:
            return {"parts": [describe_part(name, name, value) for name, value in self.frame_variables(frame).items()]}
        return {"parts": list_parts(text, self.value(text, frame), given["start"], given["count"] or MANY)}

    def value(self, text: str, frame: FrameType) -> Any:
        """Return the value of an expression in a frame, whose names it cannot bind."""
        # One dictionary of copies: a generator in the expression sees locals too, and nothing of the program changes.
        return eval(compile(text, "<print>", "eval"), {**frame.f_globals, **frame.f_locals})

    def do_assign(self, target: str, text: str, level: int = 0) -> dict[str, Any]:
        """Assign to a name of a frame, to an attribute or to an index."""
        return self.answer_about_frame(self.frame(level), "assign", {"target": target, "text": text})

    def assign_in_frame(self, frame: FrameType, target: str, text: str) -> str:
        """Assign the value of the expression `text` to a variable, an attribute or an element, and return the new value
        as text.
        """
        names = {**frame.f_globals, **frame.f_locals}
        value = eval(compile(text, "<set>", "eval"), names)
        if not target.isidentifier():
            exec(compile(f"{target} = __weft_value", "<set>", "exec"), {**names, "__weft_value": value})
        elif target in frame.f_locals or target not in frame.f_globals:
            assign_local(frame, target, value)
        else:
            frame.f_globals[target] = value
        return abbreviate(value)

    def do_watch(self, text: str, level: int = 0) -> dict[str, object]:
        """Set a watchpoint: the rank stops when the value of the expression in a frame changes. Return the watchpoint's
        number.
        """
        compile(text, "<watch>", "eval")
        self.numbers += 1
        self.watched[self.numbers] = Watched(text, self.frame(level), self.focus)
        self.ask_to_arm()
        self.trace_other_threads()
        return {"number": self.numbers}

    def do_unwatch(self, number: int) -> dict[str, object]:
        """Remove a watchpoint."""
        self.watched.pop(number, None)
        self.ask_to_arm()
        return {}

    def do_place(self, level: int = 0, text: str = "") -> dict[str, Any]:
        """Return the place of a frame of the rank, in a form that is the same in every replay: event of the
        interpreter, line, file, function, and depth (number of frames up to the outermost).

        The depth is 0 if the expression `text` uses no variable of the frame.
        """
        frame = self.frame(level)
        depth = depth_of(frame)
        event = self.event if self.stopped is not None else ""
        if text and not uses_frame_variable(text, frame):
            depth = 0
        return {"place": {"event": event, "line": frame.f_lineno, "path": frame.f_code.co_filename, "depth": depth,
                          "function": frame.f_code.co_name}}  # fmt: skip

    def do_count(self, marks: dict[str, Any], stop_at: int, visit_at: int) -> dict[str, Any]:
        """Count ticks from here on instead of stopping at breakpoints: visits of marked places, changes of marked
        values, or lines (count_python.py). Return how many ticks the current place itself makes.

        `stop_at`: the tick at which the rank stops. `visit_at`: the visit of the current place at which it stops. 0: at
        none.
        """
        if self.focus != self.thread:
            return {"error": "a step back needs the thread that makes the MPI calls, and the rank is in another one"}
        if self.counted is None:
            atexit.register(lambda: self.send({"counts": self.do_counted(MOST_LINES)}))
        names = self.execute_own_file("count_python.py")
        names |= {"hidden": hidden, "abbreviate": abbreviate, "depth_of": depth_of, "Breakpoint": Breakpoint}
        self.breakpoints, self.watched, self.stepping = [], {}, ""
        self.count = self.counted = names["Count"](self, marks, stop_at, visit_at)
        self.ask_to_arm()
        return {"own": self.count.count_ticks_here()}

    def execute_own_file(self, name: str) -> dict[str, Any]:
        """Execute another file of the debugger in this rank, and return the names that it defines. Its frames are
        hidden from the program's stack.
        """
        names: dict[str, Any] = {"__name__": name.removesuffix(".py")}
        with open(f"{self.folder}/{name}") as file:  # noqa: PTH123
            exec(compile(file.read(), OWN, "exec"), names)
        return names

    def do_counted(self, last: int = 1) -> dict[str, Any]:
        """Return the number of ticks, the number of visits of the place, and the lines of the last ticks."""
        count = self.counted
        return {"ticks": count.ticks, "visits": count.visits, "lines": count.log[-last:]}

    def do_execute(self, text: str, level: int = 0) -> dict[str, Any]:
        """Execute a line that a person types into the rank's console, and return its value as text, "" for a statement.
        The line may change the program's objects.
        """
        frame = self.frame(level)
        try:
            value = eval(compile(text, "<console>", "eval"), frame.f_globals, frame.f_locals)
        except SyntaxError:
            exec(compile(text, "<console>", "exec"), frame.f_globals, frame.f_locals)
            return {"value": ""}
        return {"value": "" if value is None else abbreviate(value)}

    def do_break(self, places: list[dict[str, Any]]) -> dict[str, object]:
        """Make `places` the breakpoints of the rank. A breakpoint that was set before keeps its count of visits."""
        known = {point.id: point for point in self.breakpoints}
        self.breakpoints = [known.get(place["id"]) or Breakpoint(place) for place in places]
        if known or places:
            self.ask_to_arm()
        if places:
            self.trace_other_threads()
        return {}

    def trace_other_threads(self) -> None:
        """Install the trace function in the rank's other threads too, and in those that start later."""
        self.several = may_any_thread_call_mpi()
        if self.reach is None:
            names = self.execute_own_file("trace_threads.py")
            self.reach, self.hook = names["trace_all_threads"], names["trace_new_threads"]
        self.reach(self.trace_new_frame, self.has_to_trace, self.trace_frame, (self.spared, self.state))

    def do_step(self, how: str) -> dict[str, object]:
        """Plan a stop at the next line. `how`: `next` in the same frame or a caller, `step` in any frame, `finish`
        after the frame has returned.
        """
        self.base, self.stepping = self.frame(0), how
        if how == "finish" and self.base.f_code.co_name == "<module>":
            self.stepping = ""
            return {"error": "this is the outermost frame of the program: it has no caller to finish into"}
        if self.stopped is self.base and self.event == "return" and how == "next":
            self.base = find_caller(self.base)  # the frame has no line left
        self.ask_to_arm()
        return {}

    def do_skip(self, functions: list[str], files: list[str]) -> dict[str, object]:
        """Set the functions and files that `step` does not enter."""
        self.skipped = functions, files
        return {}

    def is_skipped_by_user(self, frame: FrameType) -> bool:
        """Return whether a step must not stop in a frame, because the user skips the function or the file of this frame
        or of a caller.
        """
        functions, files = self.skipped
        at: FrameType | None = frame
        while (functions or files) and at is not None and at is not self.base:
            code = at.f_code
            if {code.co_name, code.co_qualname}.intersection(functions):
                return True
            if any(same_file(code.co_filename, name) for name in files):
                return True
            at = at.f_back
        return False

    def do_unstep(self) -> dict[str, object]:
        """Cancel the step."""
        self.stepping, self.base = "", None
        return {}

    def do_resume(self) -> dict[str, object]:
        """Let the rank continue if it is stopped at a line."""
        if self.stopped is not None:
            self.stopped = None
            self.go.release()
        return {}

    def do_state(self) -> dict[str, object]:
        """Return the line at which the rank is stopped, None if it is not."""
        return {"stopped": None if self.stopped is None else describe_place(self.stopped)}

    def ask_to_arm(self) -> None:
        """Have the rank's thread install its trace function as soon as it runs a line of Python. Does nothing while it
        is stopped.
        """
        if self.stopped is not None:
            return
        if self.soon is None:
            self.soon = self.execute_own_file("thread_callback.py")["ThreadCallback"](self.thread, self.arm)
        self.soon.request_call()

    # The rank's own thread

    def arm(self, frame: FrameType) -> None:
        """Install the trace function that breakpoints, steps and watchpoints need in `frame` and its callers, or remove
        it if there are none. Runs in the rank's own thread.
        """
        if self.count is not None:
            self.count.begin(frame)
            return
        mine = sys.gettrace() in (None, self.trace_new_frame)
        self.adjust_switch_interval()
        if not self.breakpoints and not self.stepping and not self.watched:
            if mine:
                sys.settrace(None)
            return
        if not mine or _thread.get_ident() != self.thread:
            self.send(
                {"refused": "the program uses sys.settrace itself (coverage?): breakpoints on lines do not stop it"}
            )
            return
        if self.hook is not None and (self.breakpoints or self.watched):
            self.hook(self.trace_new_frame)
        self.trace_frames_from(frame)

    def adjust_switch_interval(self) -> None:
        """Set Python's thread switch interval: a long one while an expression is watched, afterwards the program's own
        again.
        """
        if self.watched and not self.interval:
            self.interval = sys.getswitchinterval()
            sys.setswitchinterval(UNDISTURBED)
        elif not self.watched and self.interval:
            sys.setswitchinterval(self.interval)
            self.interval = 0.0

    def has_to_trace(self, frame: FrameType) -> bool:
        """Return whether the lines of a frame must be traced, for a breakpoint, a step or a watchpoint."""
        every = bool(self.stepping or self.watched)
        return self.has_breakpoint_in(frame) or (every and not hidden(frame.f_code.co_filename))

    def has_breakpoint_in(self, frame: FrameType) -> bool:
        """Return whether a frame's code belongs to the program and has a breakpoint."""
        return not hidden(frame.f_code.co_filename) and any(
            point.is_in_code(frame.f_code) for point in self.breakpoints
        )

    def stops_only_at_breakpoints(self) -> bool:
        """Return whether the calling thread may stop at breakpoints only, as steps, watchpoints and counting concern
        another thread.
        """
        own = _thread.get_ident()
        if self.count is not None:
            return own != self.thread
        return own != self.focus and not any(one.thread in (0, own) for one in self.watched.values())

    def trace_new_frame(self, frame: FrameType, event: str, _: object) -> Any:
        """Return the trace function for a new frame, None to leave it untraced. Python calls this as the thread's trace
        function.
        """
        if self.stops_only_at_breakpoints():
            return (
                self.trace_other_thread(frame, event, _)
                if self.count is None and self.has_breakpoint_in(frame)
                else None
            )
        if self.count is not None:
            return self.count.trace_event(frame, event, _)
        self.event = event
        over = self.stepping in ("next", "finish") and not self.watched
        if not self.has_to_trace(frame) or (over and not self.has_breakpoint_in(frame)):
            return None
        if event == "call":
            self.stop_at_first_hit([p for p in self.breakpoints if p.function and p.is_in_code(frame.f_code)], frame)
        return frame.f_trace or self.trace_frame

    def trace_other_thread(self, frame: FrameType, event: str, _: object) -> Any:
        """Stop at a breakpoint in a thread that is not the inspected one. Return the trace function of the frame."""
        here = [p for p in self.breakpoints if p.is_in_code(frame.f_code)] if self.has_breakpoint_in(frame) else []
        functions, lines = event == "call", event == "line"
        self.stop_at_first_hit(
            [p for p in here if (functions if p.function else lines and p.line == frame.f_lineno)], frame
        )
        return frame.f_trace or self.trace_frame

    def stop_at_first_hit(self, points: list[Breakpoint], frame: FrameType) -> bool:
        """Count a visit of the breakpoints whose condition is met, and stop at the first that has had enough visits.
        Return whether the thread stopped. A log point sends its message instead of stopping.
        """
        news: dict[str, Any] = {}
        hit = [point for point in points if point.is_condition_met(frame, news) and count_visit(point)]
        for point in (point for point in hit if point.log):
            self.send({"log": self.expand_log_message(point.log, frame)})
        hit = [point for point in hit if not point.log]
        if hit:
            self.stop(frame, "breakpoint", {"point": hit[0].id, **news})
        return bool(hit)

    def expand_log_message(self, message: str, frame: FrameType) -> str:
        """Return the message of a log point, with each `{expression}` replaced by its value in a frame."""

        def value(found: re.Match[str]) -> str:
            """Return the value of the expression in braces as text, or the error that it raises."""
            try:
                return abbreviate(self.value(found[1], frame))
            except Exception as error:
                return f"<{type(error).__name__}: {error}>"

        return re.sub(r"\{([^{}]+)\}", value, message)

    def stop_at_change(self, frame: FrameType, event: str) -> bool:
        """Stop if the value of a watched expression has changed, or if its frame returns. Return whether the thread
        stopped.
        """
        for number, one in list(self.watched.items()):
            if one.thread not in (0, _thread.get_ident()):
                continue
            now = one.read_value()
            ended = event == "return" and frame is one.frame
            if now != one.value or ended:
                news = {"expression": one.text, "old": one.value, "new": now} if now != one.value else None
                one.value = now
                if ended:
                    del self.watched[number]
                    self.adjust_switch_interval()
                self.stop(frame, "watch", news or {"expression": one.text, "old": "", "new": ""})
                return True
        return False

    def trace_frame(self, frame: FrameType, event: str, argument: object) -> object:
        """Stop at a line or a return of a frame if a breakpoint, step or watchpoint asks for it. Python calls this as
        the frame's trace function.

        Return the trace function for the next event: while the thread is stopped, the tracer of tasks (weft/inprocess)
        may have put another one in place.
        """
        if self.stops_only_at_breakpoints():
            return self.trace_other_thread(frame, event, argument) if self.count is None else self.trace_frame
        if self.count is not None:
            return self.count.trace_event(frame, event, argument)
        self.event = event
        if event in ("line", "return") and self.watched and self.stop_at_change(frame, event):
            return frame.f_trace or self.trace_frame
        if event == "line":
            points = [p for p in self.breakpoints if p.line == frame.f_lineno and p.is_in_code(frame.f_code)]
            if self.stop_at_first_hit(points, frame):
                return frame.f_trace or self.trace_frame
            if _thread.get_ident() != self.focus:
                return frame.f_trace or self.trace_frame
            if self.stepping == "finish" and self.base is None:
                self.stop(frame, "finish", {"returned": self.returned})
            elif (self.stepping == "step" and not self.is_skipped_by_user(frame)) or (
                self.stepping == "next" and frame is self.base
            ):
                self.stop(frame, "step")
        elif event == "return" and frame is self.base and self.stepping == "finish":
            self.returned, self.base = abbreviate(argument), None
        elif event == "return" and frame is self.base:
            self.base = find_caller(frame)
        return frame.f_trace or self.trace_frame

    def stop(self, frame: FrameType, why: str, news: dict[str, Any] | None = None) -> None:
        """Stop the calling thread until the debugger resumes it, and report the stop. Meanwhile MPI goes on for other
        ranks.

        `why`: "breakpoint", "step", "finish" or "watch". `news`: what else to report, such as the old and new value.
        """
        if sys.is_finalizing():  # the debugger's thread runs no more: nobody could let this one go on
            return
        with self.standing:
            self.stepping, self.base = "", None
            other = _thread.get_ident() != self.thread
            self.focus = _thread.get_ident()
            self.go.acquire()
            self.stopped, self.news = frame, news or {}
            named = {"thread": current_thread_name()} if other else {}
            self.send({"stopped": why, "at": describe_place(frame), "news": {**self.news, **named}})
            drive = self.drive if not other or self.several else _nothing
            while not self.go.acquire(timeout=0.002):
                drive()
            self.go.release()
            if not self.stepping:
                self.focus = self.thread
        self.trace_frames_from(frame) if other else self.arm(frame)

    def trace_frames_from(self, frame: FrameType | None) -> None:
        """Trace the calling thread: new frames, and `frame` and its callers where breakpoints, steps or watchpoints
        need it.
        """
        while frame is not None:
            if self.has_to_trace(frame):
                frame.f_trace = self.trace_frame
            frame = frame.f_back
        sys.settrace(self.trace_new_frame)


def current_thread_name() -> str:
    """Return the name that the program gave the calling thread; without one, `thread N` with its number in the
    kernel.
    """
    threading: Any = sys.modules.get("threading")
    known = threading._active.get(_thread.get_ident()) if threading is not None else None
    return str(known.name) if known is not None else f"thread {_thread.get_native_id()}"


def may_any_thread_call_mpi() -> bool:
    """Return whether any thread may call MPI at any time (MPI_THREAD_MULTIPLE)."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    return mpi is not None and bool(mpi.Query_thread() == mpi.THREAD_MULTIPLE)


def uses_frame_variable(text: str, frame: FrameType) -> bool:
    """Return whether an expression uses a local variable of a frame. If not, all its names are the module's."""
    code = frame.f_code
    own = code.co_varnames + code.co_cellvars + code.co_freevars
    return any(name in own for name in compile(text, "<watch>", "eval").co_names)


def find_caller(frame: FrameType) -> FrameType | None:
    """Return the nearest caller of a frame that runs code of the program; frames of Weft and other hidden files are
    skipped. None if there is none.
    """
    outer = frame.f_back
    while outer is not None and hidden(outer.f_code.co_filename):
        outer = outer.f_back
    return outer


def _nothing() -> None:
    """Drives no MPI."""


def count_visit(point: Breakpoint) -> bool:
    """Count a visit of a breakpoint, and return whether the rank has to stop at it."""
    point.left -= 1
    return point.left <= 0


def is_data(value: object) -> bool:
    """Tell whether a value is data: no module, function or class."""
    return type(value).__name__ not in ("module", "function", "builtin_function_or_method", "type", "method")


def assign_local(frame: FrameType, name: str, value: object) -> None:
    """Assign a value to a local name of a frame. LookupError if the function has no such name."""
    code = frame.f_code
    if code.co_name != "<module>" and name not in code.co_varnames + code.co_cellvars + code.co_freevars:
        raise LookupError(f"{code.co_name} has no variable {name}")
    frame.f_locals[name] = value
    if sys.version_info < (3, 13) and code.co_name != "<module>":
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def format_value(value: Any, form: str) -> str:
    """Return a value as text in one of gdb's formats: x, o, t, d, c for numbers, f for a float, s for text. Sequences
    are formatted element by element.
    """
    if isinstance(value, (list, tuple)) or type(value).__name__ == "ndarray":
        return "[" + ", ".join(format_value(one, form) for one in value) + "]"
    if form == "s":
        return str(value)
    if form == "f":
        return repr(float(value))
    if isinstance(value, (bytes, bytearray)) and form == "x":
        return value.hex()
    if isinstance(value, float):
        return value.hex() if form == "x" else format_value(int(value), form)
    number = int(value)
    if form == "c":
        return repr(chr(number))
    return {"x": hex, "o": oct, "t": bin}.get(form, str)(number)


def describe_part(name: str, expression: str, value: object) -> dict[str, Any]:
    """Return a value for the debugger: its name, text and type, the expression that yields it, how many parts it has,
    and whether these are numbered elements.
    """
    count, indexed = count_parts(value)
    kind = type(value).__name__
    return {"name": name, "value": abbreviate(value), "type": kind, "expression": expression, "parts": count,
            "indexed": indexed}  # fmt: skip


def count_parts(value: Any) -> tuple[int, bool]:
    """Return how many elements, entries or attributes a value has, and whether they are elements numbered from 0."""
    if isinstance(value, (list, tuple)):
        return len(value), True
    if isinstance(value, (dict, set, frozenset)):
        return len(value), False
    kind = type(value)
    if (kind.__module__, kind.__name__) in ARRAYS:
        return (len(value) if getattr(value, "ndim", 1) else 0), True
    return len(read_attributes(value)), False


def read_attributes(value: object) -> dict[str, Any]:
    """Return the attributes of an instance of a Python class, from its dictionary and its slots; empty for a module,
    function or class.
    """
    if not is_data(value):
        return {}
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and isinstance(kind.__dict__.get(name), SLOT):
                try:
                    found[name] = getattr(value, name)
                except AttributeError:  # not set yet
                    continue
    held = getattr(value, "__dict__", None)
    return {**found, **held} if isinstance(held, dict) else found


def list_parts(text: str, value: Any, start: int, count: int) -> list[dict[str, Any]]:
    """Return `count` elements, entries or attributes of a value, from the `start`-th on, each with an expression that
    yields it. The expression is "" for members of sets and keys that cannot be written down. `text`: the expression of
    the value itself.
    """
    total, indexed = count_parts(value)
    chosen = slice(start, min(start + count, total))
    if indexed:
        return [describe_part(f"[{i}]", f"({text})[{i}]", value[i]) for i in range(total)[chosen]]
    if isinstance(value, dict):
        entries = list(value.items())[chosen]
        return [
            describe_part(f"[{abbreviate(k)}]", f"({text})[{k!r}]" if isinstance(k, PLAIN) else "", v)
            for k, v in entries
        ]
    if isinstance(value, (set, frozenset)):
        return [describe_part("in", "", one) for one in list(value)[chosen]]
    return [describe_part(name, f"({text}).{name}", one) for name, one in list(read_attributes(value).items())[chosen]]


def hidden(file: str) -> bool:
    """Tell whether a file is not the program's own."""
    return file == OWN or "/mpi4py/" in file or file.startswith(HIDDEN)


def same_file(file: str, wanted: str) -> bool:
    """Tell whether the name `wanted`, as a person writes it, means this file."""
    return file == wanted or file.endswith("/" + wanted)


def depth_of(frame: FrameType | None) -> int:
    """Return the number of frames from the outermost one to this one, both included."""
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def describe_place(frame: FrameType) -> dict[str, object]:
    """Return file, line, function and source text of the place at which a frame is."""
    code = frame.f_code
    file = code.co_filename
    text = linecache.getline(file, frame.f_lineno).strip()
    return {"file": os.path.abspath(file), "line": frame.f_lineno, "function": code.co_name, "text": text}  # noqa: PTH100


def abbreviate(value: object) -> str:
    """Return a value as text of at most 2000 characters; long containers and strings are abbreviated, arrays printed as
    numpy does.
    """
    long = isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)) and len(value) > 200
    text = SHORT.repr(value) if long else repr(value)
    return text if len(text) <= 2000 else text[:2000] + "..."


def start(folder: str, rank: int) -> None:
    """Start the agent in a thread that the program's `threading` does not list."""
    agent = Agent(folder, rank)
    _thread.start_new_thread(agent.serve, ())
    follow_tasks(folder, rank, agent)


def follow_tasks(folder: str, rank: int, agent: Agent) -> None:
    """Start an agent for asyncio's tasks in this rank too, if the debugger has put a file tasks.json into `folder`."""
    global HIDDEN  # noqa: PLW0603
    try:
        with open(f"{folder}/tasks.json") as file:  # noqa: PTH123
            told = json.load(file)
    except OSError:
        return
    HIDDEN += (told["inside"],)
    path = told["inside"] + "/__main__.py"
    names = {"__name__": "weft_rank", "__file__": path}
    with open(path) as file:  # noqa: PTH123
        exec(compile(file.read(), path, "exec"), names)
    follow_rank_tasks: Any = names["follow_rank_tasks"]
    follow_rank_tasks(
        f"{folder}/rank-{rank}.tasks.sock", told["births"], (agent.aside, agent.drive, agent.answer_about_frame, OWN)
    )


if __name__ == "weft_agent":
    OWN = FOLDER + "/agent.py"  # noqa: F821 - the recorder gives both
    start(FOLDER, RANK)  # noqa: F821
