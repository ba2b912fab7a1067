"""Debug native ranks: one gdb for each, started on demand, driven through its machine interface.

The rank runs on between commands, as it drives MPI for the others while it is parked; it is halted only while gdb is
asked. At a stop at a line it stays halted.
"""

from __future__ import annotations

import json
import linecache
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.base.debuggers import REMEDY, find_gdb
from weft.debug.hands import Frame, Here, Marks, NoLines, Part, Place, Tally
from weft.debug.maps import NOT_THE_PROGRAM, Maps
from weft.debug.skips import is_file
from weft.errors import DebuggerError
from weft.gdb.mi import Mi, quoted, strip_reference
from weft.gdb.point import Point

COUNT = Path(__file__).parent / "count_gdb.py"
_SHOW = "show language"
_OPENMP = re.compile(r"libi?omp5?[.]|libgomp[.]")
"""Its frames lie between those of the program: of a region and of what it was begun from."""
PARTS = Path(__file__).parents[1] / "gdb/parts_gdb.py"
PARTS_MARK = "weft-parts:"
PATIENCE_AT_CALL = 2.0
"""Seconds that other ranks may take on their own while a rank is stopped at the call of an inlined function."""
MAIN = 1
"""The thread that has initialised MPI, as gdb numbers them."""
_AT_A_LINE = ("breakpoint-hit", "end-stepping-range", "location-reached", "signal-received", "function-finished",
              "watchpoint-trigger", "watchpoint-scope")  # fmt: skip


class NativeHand:
    """gdb attached to one process. DebuggerError if it cannot attach. `thread`: the thread that stopped at a line."""

    def __init__(self, pid: int, made: Callable[[], Mi] = Mi) -> None:
        self.pid = pid
        self.stopped: Frame | None = None
        self.refused = ""
        self.why = ""
        self.news: dict[str, Any] = {}
        self._step = ""
        self._watched: dict[int, str] = {}
        self._marks: dict[int, int] = {}
        """gdb's numbers of what is counted with, and the breakpoint's that it stands for, or 0."""
        self._counts = False
        self._skipped: list[str] = []
        self._line = 0
        self._returning = self._has_parts = False
        self.thread = MAIN
        self._last_drive = self._stopped_at = 0.0
        self._hides_inlined: bool | None = None
        """Whether the rank is stopped at the call of an inlined function; None while nobody has asked."""
        if find_gdb() is None:
            raise DebuggerError(f"C, C++ and Fortran ranks need gdb, which is not installed: {REMEDY}")
        self.gdb = made()
        try:
            self.gdb.ask(f"-target-attach {pid}")
        except DebuggerError as error:
            self.gdb.exit()
            raise DebuggerError(_cannot_attach(pid, str(error))) from error
        self.gdb.await_stop()
        self.maps = Maps(pid)
        self._run()

    def _run(self) -> None:
        self.thread = MAIN
        self.gdb.stops.clear()
        self.gdb.ask("-exec-continue")

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Halt the rank during a `with` block, so that gdb can be asked. Afterwards it runs on, unless it was stopped
        at a line.
        """
        self.poll()
        if self.stopped is not None or not self.gdb.running:
            yield
            return
        self.gdb.ask("-exec-interrupt")
        stop = self.gdb.await_stop()
        if "exited" in str(stop.get("reason", "")):
            raise DebuggerError("the rank has gone")
        if stop.get("reason") in ("breakpoint-hit", "end-stepping-range", "watchpoint-trigger", "watchpoint-scope"):
            self._handle_stop(stop)
            if self.stopped is not None:
                yield
                return
            if self.gdb.running:  # it was not meant
                self.gdb.ask("-exec-interrupt")
                self.gdb.await_stop()
        try:
            yield
        finally:
            if not self.gdb.running and self.stopped is None:
                self._run()

    # What a hand does

    def _raw_frames(self) -> list[dict[str, Any]]:
        with suppress(DebuggerError):
            self.gdb.ask(f"-thread-select {self.thread}")
        return list(self.gdb.ask("-stack-list-frames").get("stack", []))

    def _frames(self) -> list[Frame]:
        """Return the stack, innermost frame first. Frames inside MPI, of an OpenMP runtime and outside of `main` are
        left out.
        """
        raw = self._raw_frames()
        modules = [self.maps.module(int(frame["addr"], 16)) for frame in raw]
        begin = next((i for i, module in enumerate(modules) if not NOT_THE_PROGRAM.search(module)), len(raw))
        found: list[Frame] = []
        for frame, module in zip(raw[begin:], modules[begin:], strict=True):
            if Path(module).name.startswith(("libc.", "libc-")) and found:
                break
            if _OPENMP.match(Path(module).name):
                continue
            file, line = frame.get("fullname") or frame.get("file") or "", int(frame.get("line", 0))
            name = frame.get("func", "??")
            where = (
                name if file else f"{name} in {Path(module).name}+{int(frame['addr'], 16) - self.maps.base(module):#x}"
            )
            python = Path(module).name.startswith(("python", "libpython"))
            text, address = source_line(file, line), int(frame["addr"], 16)
            found.append(Frame(file, line, where, text, int(frame["level"]), python, address))
            if name == "main":
                break
        return found

    def stack(self) -> list[Frame]:
        """Return the program's frames, innermost first."""
        with self.halted():
            return self._frames()

    def _gdb_level(self, level: int) -> int:
        """Return gdb's own number of a frame. `level`: its number among the program's frames, the outermost if there
        are fewer. DebuggerError if the program has no frame on the stack.
        """
        frames = self._frames()
        if not frames:
            raise DebuggerError("the rank is in no function of the program: `next event` runs to its next call")
        return frames[min(level, len(frames) - 1)].level

    def evaluate(self, text: str, level: int, form: str = "") -> str:
        """Return what gdb prints for an expression in the language of the frame."""
        with self.halted():
            return self.gdb.value(text, self.thread, self._gdb_level(level), form, self._evaluate_with_calls)

    def variables(self, level: int) -> list[tuple[str, str]]:
        """Return name and value of each argument and local variable of a frame. The value is `<optimized out>` if the
        compiler left the variable out.
        """
        with self.halted():
            where = f"--thread {self.thread} --frame {self._gdb_level(level)}"
            found = self.gdb.ask(f"-stack-list-variables {where} --all-values").get("variables", [])
        return [(str(row["name"]), strip_reference(str(row.get("value", "")))) for row in found]

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Return the members, elements or target of an expression's value as gdb's printers show them, `count` from the
        `start`-th on. For an empty text return the variables of the frame.
        """
        found = self._call_parts_script(f"parts({text!r}, {start}, {count})", level)
        if found is None:  # names and values are known all the same
            return [] if text else [Part(name, value, "", name) for name, value in self.variables(level)]
        return found

    def about(self, text: str, level: int) -> Part:
        """Return the value of an expression, its type, and how many parts it has."""
        found = self._call_parts_script(f"about({text!r})", level)
        return found[0] if found else Part(text, self.evaluate(text, level), "", text)

    def _call_parts_script(self, call: str, level: int) -> list[Part] | None:
        """Call a function of parts_gdb.py inside gdb, and return its answer; None if this gdb is built without Python.
        DebuggerError if the function reports an error. `call`: `parts(...)` or `about(...)`.
        """
        with self.halted():
            chosen = self._gdb_level(level)
            where, ask = f"--thread {self.thread} --frame {chosen}", quoted(f"python weft_{call}")
            try:
                if not self._has_parts:
                    self.gdb.console_output(f"-interpreter-exec console {quoted(f'source {PARTS}')}")
                    self._has_parts = True
                said = self.gdb.console_output(f"-interpreter-exec {where} console {ask}").partition(PARTS_MARK)[2]
            except DebuggerError:
                said = ""
        if not said:
            return None
        answer = json.loads(said)
        if "error" in answer:
            raise DebuggerError(str(answer["error"]))
        return [Part(**one) for one in answer["parts"]]

    def assign(self, target: str, text: str, level: int) -> str:
        """Assign a value to a variable of a frame, both in the language of the frame, and return the new value as
        text.
        """
        with self.halted():
            chosen = self._gdb_level(level)
            language = self.gdb.console_output(
                f"-interpreter-exec --thread {self.thread} --frame {chosen} console {quoted(_SHOW)}"
            )
            fortran = "fortran" in language
            self._evaluate_with_calls(
                f"{target} = {text}" if fortran else f"({target}) = ({text})", self.thread, chosen
            )
            return str(self._evaluate_with_calls(target, self.thread, chosen).get("value", ""))

    def watch(self, text: str, level: int) -> int:
        """Set a watchpoint on an expression and return its number. It is a hardware watchpoint if the processor has
        room for one more.
        """
        with self.halted():
            where = f"--thread {self.thread} --frame {self._gdb_level(level)}"
            made = self.gdb.ask(f"-break-watch {where} {quoted(text)}")
        number = int(next(v for k, v in made.items() if "wpt" in k)["number"])
        self._watched[number] = text
        return number

    def unwatch(self, number: int) -> None:
        """Remove a watchpoint."""
        if self._watched.pop(number, None) is not None:
            with self.halted(), suppress(DebuggerError):
                self.gdb.ask(f"-break-delete {number}")

    def _evaluate_with_calls(self, text: str, thread: int, level: int) -> dict[str, Any]:
        """Return gdb's answer for an expression that may call a function of the rank."""
        return self.gdb.evaluate_with_calls(text, thread, level)

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Make `points` the breakpoints of the rank."""
        if not self.gdb.armed(points):
            with self.halted():
                located = [replace(point, function=self._gdb_location(point.function)) for point in points]
                self.gdb.replace_breakpoints(located)

    def _gdb_location(self, function: str) -> str:
        """Return a function as gdb's breakpoints name it. For `*MODULE+OFFSET` this is the address in this process."""
        return f"*{self.maps.address(function):#x}" if function.startswith("*") else function

    def _call_count_script(self, call: str) -> Any:
        """Call a function of count_gdb.py inside gdb, and return what it prints (JSON). DebuggerError if it raises, or
        if this gdb is built without Python.
        """
        if not self._counts:
            try:
                self.gdb.ask(f"-interpreter-exec console {quoted(f'source {COUNT}')}")
            except DebuggerError as error:
                raise DebuggerError(f"going back to a line needs a gdb that was built with Python: {error}") from error
            self._counts = True
        with suppress(DebuggerError):
            self.gdb.ask(f"-thread-select {self.thread}")
        try:
            said = self.gdb.console_output(f"-interpreter-exec console {quoted(f'python {call}')}")
        except DebuggerError as error:
            why = self.gdb.last_error or str(error)
            raise DebuggerError(f"gdb cannot say where the rank is: {why}") from error
        return json.loads(said.strip().splitlines()[-1])

    def place(self, level: int = 0, text: str = "") -> Place:
        """Return the place of a frame of the rank, in a form that is equal in every replay, with the lines of the
        frame's function and of its caller. The depth is 0 if the expression `text` uses no variable of the frame.
        """
        with self.halted():
            chosen = self._gdb_level(level)
            found: Place = self._call_count_script(f"print_place({chosen})")
            if text and self._call_count_script(f"print_is_frameless({text!r}, {chosen})"):
                found["depth"] = 0
        for one in (found, *found["lines"]):
            one["module"] = self.maps.module(one["address"])
            one["address"] -= self.maps.base(one["module"])
        if self.stopped is None:
            found["address"] = 0  # inside of MPI: no place of the program's is visited again
        return found

    def begin_count(self, marks: Marks, stop_at: int = 0, visit_at: int = 0) -> int:
        """Begin to count ticks from the rank's current place on: visits of marked places, changes of marked values, or
        lines. Return how many ticks this place itself makes. Breakpoints and watchpoints are removed.

        The rank stops at tick `stop_at`, or at visit `visit_at` of its current place; 0: at none.
        """
        told = json.loads(json.dumps(marks.as_dict()))
        for one in (told["place"], *told["place"].get("lines", ())):
            if one.get("address"):
                one["address"] += self.maps.base(one["module"])
        for one in told["points"]:
            one["function"] = one["function"] and self._gdb_location(one["function"])
        with self.halted():
            self.gdb.replace_breakpoints([])
            for number in list(self._watched):
                self.unwatch(number)
            text = json.dumps(told).encode().hex()
            changed = self.news.get("old") or self.news.get("new")  # neither: its frame has returned, which is no tick
            news = str(self.news.get("expression", "")) if changed else ""
            found = self._call_count_script(
                f"start_count(bytes.fromhex('{text}').decode(), {stop_at}, {visit_at}, {news!r})"
            )
            self._marks = dict(found["numbers"])
        return int(found["own"])

    def finish_count(self, last: int = 1, *, except_visits: bool = False) -> Tally:
        """End the count that `count` began, and return the ticks and visits since then. Everything that counted is
        removed from the rank. `last`: of how many of the last ticks the lines are returned.

        `except_visits`: visits of the place are counted on, until the next call of this function.
        """
        with self.halted():
            found = self._call_count_script(f"print_counts({last})")
            self._call_count_script(f"remove_marks({except_visits})")
            self._marks = self._marks if except_visits else {}
        return Tally.of(found)

    def here(self) -> Here:
        """Return where the rank is stopped, and how often it has visited the place whose visits are counted."""
        with self.halted():
            found = self._call_count_script("print_here()")
        module = self.maps.module(found["address"])
        offset = found["address"] - self.maps.base(module)
        return Here(module, offset, found["depth"], tuple(found["stack"]), found["visits"])

    def step(self, how: str) -> None:
        """Begin a step by gdb's command `how` (next, step, finish). A rank inside MPI first returns to the line that
        called MPI.
        """
        with self.halted():
            frames = self._frames()
            if not frames:
                raise DebuggerError("the rank is in no function of the program: `next event` runs to its next call")
            if not frames[0].line:
                raise NoLines(
                    f"the source lines of {frames[0].function} are unknown: compile with -g, or use `next event`"
                )
            self._step, self._line, self.news = how, frames[0].line, {}
            if how == "finish":
                self.gdb.stops = []
                self.gdb.ask(f"-exec-finish --thread {self.thread} --frame {frames[0].level}")
                self.stopped = None
            elif frames[0].level == 0:
                self.stopped, self.gdb.stops = None, []
                self.gdb.ask(f"-exec-{how}")
            else:
                self._returning = True
                self.gdb.stops = []
                self.gdb.ask(f"-exec-finish --thread {self.thread} --frame {frames[0].level - 1}")

    @property
    def logged(self) -> list[str]:
        """Return what log points of the rank have said and nobody has taken yet."""
        return self.gdb.logged

    def skip(self, names: Sequence[str]) -> None:
        """Set the functions and files that steps do not enter; does nothing if they are the same as before."""
        if list(names) == self._skipped:
            return
        with self.halted():
            commands = ["skip delete"] if self._skipped else []
            for name in names:  # a function of a namespace or module by its own name, too; gdb takes backslashes away
                exact = re.sub(r"[^\w:]", lambda found: f"[{found[0]}]", name)
                commands.append(f"skip -gfile *{name}" if is_file(name) else f"skip -rfunction (^|::){exact}([(]|$)")
            for command in commands:
                self.gdb.ask(f"-interpreter-exec console {quoted(command)}")
            self._skipped = list(names)

    def unstep(self) -> None:
        """Cancel the step, and let the rank run on."""
        if not self._step:
            return
        self._step, self._returning = "", False
        if self.gdb.running:
            self.gdb.ask("-exec-interrupt")
            with suppress(DebuggerError):
                self.gdb.await_stop()
        self._run()

    def resume(self) -> None:
        """Let the rank continue if it is stopped at a line."""
        if self.stopped is not None:
            self.stopped = None
            if not self.gdb.running:
                self._run()

    def poll(self) -> None:
        """Handle stops that gdb has reported meanwhile: a breakpoint, a watchpoint, a signal, the end of a step or of a
        call.
        """
        with suppress(DebuggerError):
            self.gdb.read_messages(0)
            while self.gdb.stops:
                self._handle_stop(self.gdb.stops.pop(0))

    def _handle_stop(self, stop: dict[str, Any]) -> None:
        """Handle a stop that gdb reports: keep the rank stopped at its line if it is meant for the user, else let it
        run on.
        """
        reason = str(stop.get("reason", ""))
        if reason in ("", "function-finished") and self._returning:  # gdb 13 gives no reason for a void function
            self._returning = False
            if int((stop.get("frame") or {}).get("line", 0)) in (0, self._line):
                self.gdb.ask(f"-exec-{self._step}")
            else:
                self._keep_stopped()  # the call was the last of its line
        elif reason in ("", "function-finished") and self._step == "finish":
            self.news = {"returned": str(stop["return-value"])} if "return-value" in stop else {}
            self._keep_stopped()
        elif stop.get("signal-name") == "SIGINT":
            self._run()  # Ctrl-C at the prompt reached gdb too
        elif self._marks and reason == "watchpoint-scope":
            self._run()  # the frame has returned: what is counted with waits for another one
        elif (
            reason == "breakpoint-hit"
            and int(stop.get("bkptno") or 0) not in self._marks
            and not self.is_user_stop(stop)
        ):
            self._run()
        elif reason in _AT_A_LINE:
            self.thread = int(stop.get("thread-id", MAIN) or MAIN)
            self.why = str(stop.get("signal-name", "")) if reason == "signal-received" else reason
            self.news = self._describe_stop(stop)
            self._keep_stopped()
        elif not reason.startswith("exited"):
            self._run()

    def _describe_stop(self, stop: dict[str, Any]) -> dict[str, object]:
        """Return what a stop is about: `point`, the id of its breakpoint; or `expression`, `old` and `new` of its
        watchpoint. Empty for other stops.
        """
        number = str(stop.get("bkptno", 0))
        if counted := self._marks.get(int(number)):
            return {"point": counted}
        if point := self.gdb.points.get(number):
            return {"point": point.id}
        if "wpnum" in stop:
            ended = self._watched.pop(int(stop["wpnum"]), "")
            return {"expression": ended, "old": "", "new": ""}
        if "wpt" in stop:
            values = stop.get("value") or {}
            return {
                "expression": str(stop["wpt"].get("exp", "")),
                "old": str(values.get("old", "")),
                "new": str(values.get("new", "")),
            }
        return {}

    def is_user_stop(self, stop: dict[str, object]) -> bool:
        """Tell whether a breakpoint that stopped the rank is one that a person set."""
        return str(stop.get("bkptno")) in self.gdb.points

    def _keep_stopped(self) -> None:
        """Keep the rank stopped at its line (`stopped`). Let it run on instead if it has left `main`, or if a step came
        to a place whose line is unknown.
        """
        self._returning = False
        frames = self._frames()
        step, self._step = self._step, ""
        if not frames or (frames[0].level and not self.why.startswith(("SIG", "watchpoint"))):
            self._run()  # stepped out of main
            return
        if step and not frames[0].line:
            self._run()
            return
        self.stopped, self._hides_inlined = frames[0], None

    def drive(self) -> None:
        """Let MPI make progress for other ranks while this rank is stopped at a line.

        The call in the rank makes gdb enter all functions that are inlined at its place. A rank that is stopped at the
        call of one waits some seconds before that.
        """
        now = time.monotonic()
        if self.stopped is not None and now - self._last_drive > 0.05 and not self.why.startswith("SIG"):
            self._last_drive = now
            if self._hides_inlined is None:
                self._hides_inlined, self._stopped_at = self._ask_for_hidden_functions(), now
            if self._hides_inlined and now - self._stopped_at < PATIENCE_AT_CALL:
                return
            with suppress(DebuggerError):
                self._evaluate_with_calls("((void(*)(void))weft_debug_drive)()", MAIN, 0)

    def _ask_for_hidden_functions(self) -> bool:
        """Return whether the rank is stopped at the call of an inlined function that is not entered yet."""
        with suppress(DebuggerError):
            return bool(self._call_count_script("print_hides_inlined()"))
        return False

    def close(self) -> None:
        """Detach gdb from the rank, which runs on."""
        with suppress(DebuggerError):
            if self.gdb.running:
                self.gdb.ask("-exec-interrupt", 2)
                self.gdb.await_stop(2)
            self.gdb.ask("-target-detach", 2)
        self.gdb.exit()


def source_line(file: str, line: int) -> str:
    """Return the text of a line; empty if it cannot be read."""
    return linecache.getline(file, line).strip() if file and line else ""


def _cannot_attach(pid: int, gdb_error: str) -> str:
    """Return the message that gdb cannot attach to a process, with the reason and the remedy. `gdb_error`: gdb's own
    message.
    """
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if "not permitted" in gdb_error or "ptrace" in gdb_error.lower():
        level = scope.read_text().strip() if scope.exists() else "0"
        if level in ("2", "3"):
            return (
                f"gdb may not attach to process {pid}: the system allows no debugging "
                f"(kernel.yama.ptrace_scope is {level}); `sysctl kernel.yama.ptrace_scope=1` as root changes that"
            )
        return (
            f"gdb may not attach to process {pid}: another debugger is attached to it, or the container forbids it "
            "(docker: --cap-add=SYS_PTRACE)"
        )
    return f"gdb cannot attach to process {pid}: {gdb_error}"
