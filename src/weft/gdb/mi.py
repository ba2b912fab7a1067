"""Speak with gdb through its machine interface (MI): one command, its result, and the stops in between."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pygdbmi.gdbcontroller import GdbController

from weft.base.debuggers import REMEDY, command, find_gdb
from weft.base.interrupts import deferring_interrupts
from weft.base.processes import PATIENCE, poll_until_idle, wait_or_kill_idle
from weft.errors import DebuggerError
from weft.gdb.point import Point

ENDING = 10.0
"""Seconds in which it does nothing after it was asked to end."""
_OF_WATCHES = {"wpnum": "watchpoint-scope", "wpt": "watchpoint-trigger", "value": "watchpoint-trigger"}
"""Fields of a stop that gdb says of watchpoints, and the reason that they belong to."""
SETTINGS = ("set mi-async on", "set width 0", "set style enabled off", "set print elements 40", "set print repeats 12",
            "set breakpoint pending off", "set unwindonsignal on",
            "handle SIGUSR1 SIGUSR2 SIGPIPE SIGALRM SIGVTALRM SIGPROF SIGTERM SIGHUP nostop noprint pass")  # fmt: skip


_NO_CODE = "No compiled code for line"
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What gdb's own configuration may put around the words of its messages."""
LOG = Path(__file__).parent / "log_gdb.py"
LOG_MARK = "weft-log:"


def _clean_stop(stop: dict[str, Any]) -> dict[str, Any]:
    """Return gdb's report of a stop without the fields that belong to earlier stops. If gdb's Python let the program
    continue after a stop, as at a log point, gdb reports the fields of that stop once more, together with the fields of
    the next one.
    """
    often = {name: stop[name] for name in ("reason", *_OF_WATCHES) if name in stop}
    last = {name: value[-1] if isinstance(value, list) else value for name, value in often.items()}
    reason = last.get("reason")
    return {name: last.get(name, value) for name, value in stop.items() if _OF_WATCHES.get(name, reason) == reason}


PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')


def quoted(text: str) -> str:
    """Return a text as a C string for gdb's machine interface (MI), so that no character of it ends the string or
    begins a new line.

    gdb reads a command to the end of its line, so that a newline in a name would begin another command, and gdb has
    `shell`. All rooms pass texts to gdb by this function and by `word`.
    """
    return '"' + "".join(chr(one) if one in PLAIN else f"\\{one:03o}" for one in os.fsencode(text)) + '"'


def word(text: str) -> str:
    """Return a text as one word of gdb's own language; passed through MI, the whole command is `quoted` again."""
    return re.sub(r"([\\\s'\"])", r"\\\1", text)


def core_names(path: Path) -> tuple[str, str]:
    """Return a core file's path for `core-file`: as a word, and unchanged, which gdb before 16 needs."""
    return word(str(path)), str(path)


def require_one_line(command: str) -> str:
    """Return a command for gdb unchanged. DebuggerError if it contains a line break, as then a text in it was not
    `quoted`.
    """
    if re.search(r"[\n\r\0]", command):
        raise DebuggerError(f"gdb is given one line at a time, not {command!r}")
    return command


Evaluator = Callable[[str, int, int], dict[str, Any]]
"""Evaluates an expression: its text, gdb's number of the thread, the frame's."""


class Mi:
    """One gdb, and the breakpoints that users set in it. Raises DebuggerError with gdb's own words if it refuses."""

    def __init__(self) -> None:
        gdb = find_gdb()
        if gdb is None:
            raise DebuggerError(f"native programs need gdb, which is not installed: {REMEDY}")
        self.running = False
        self.stops: list[dict[str, object]] = []
        self.points: dict[str, Point] = {}
        self._token = 0
        self._console: list[str] = []
        self.logged: list[str] = []
        """What log points have said and nobody has taken yet."""
        self._has_log_points = False
        self.last_error = ""
        """The last line of gdb's own error output: of a traceback, what was raised."""
        # pygdbmi waits that long for more after each answer; with its own 0.2, or 0, every command takes 50 ms.
        # In a session of its own: the terminal's Ctrl-C is Weft's, which halts the program by it.
        self._gdb: Any = GdbController(["setsid", *command(gdb), "--interpreter=mi3"], 1e-4)
        for setting in SETTINGS:
            with suppress(DebuggerError):
                self.ask(f"-interpreter-exec console {quoted(setting)}")

    @property
    def process(self) -> int:
        """gdb's own process."""
        return int(self._gdb.gdb_process.pid)

    def read_messages(self, seconds: float) -> list[dict[str, Any]]:
        """Return the messages that gdb sends within `seconds`; what they report, such as stops, is also stored."""
        with deferring_interrupts(raise_at_end=True):
            return self._read_messages_now(seconds)

    def _read_messages_now(self, seconds: float) -> list[dict[str, Any]]:
        """Return the messages that gdb sends within `seconds`. Stops, console output and the like that they report are
        also stored. DebuggerError if gdb has ended.
        """
        try:
            found: list[dict[str, Any]] = self._gdb.get_gdb_response(timeout_sec=seconds, raise_error_on_timeout=False)
        except Exception as error:  # pygdbmi raises several kinds when gdb has gone
            raise DebuggerError(f"gdb has gone: {error}") from error
        for message in found:
            if message["type"] == "notify" and message["message"] == "stopped":
                self.running = False
                self.stops.append(_clean_stop(message["payload"] or {}))
            elif message["type"] == "console":
                text = _COLOURS.sub("", str(message["payload"]))
                if text.startswith(LOG_MARK):
                    self.logged.append(str(json.loads(text.removeprefix(LOG_MARK))))
                else:
                    self._console.append(text)
            elif message["type"] == "log":
                lines = _COLOURS.sub("", str(message["payload"])).strip().splitlines()
                self.last_error = lines[-1] if lines else self.last_error
            elif message["message"] == "running" and message["type"] in ("notify", "result"):
                self.running = True
        return found

    def ask(self, command: str, patience: float = PATIENCE) -> dict[str, Any]:
        """Run one MI command and return its result. Raises DebuggerError with gdb's own words."""
        with deferring_interrupts(raise_at_end=True):
            return self._send_and_await_answer(command, patience)

    def _send_and_await_answer(self, command: str, patience: float) -> dict[str, Any]:
        """Send gdb a command of MI, and return its result. DebuggerError with gdb's own words if it refuses, or if no
        answer comes within `patience` seconds without gdb working.
        """
        self._token += 1
        line = require_one_line(f"{self._token}{command}")
        try:
            self._gdb.write(line, read_response=False)
        except Exception as error:
            raise DebuggerError(f"gdb has gone: {error}") from error
        still = poll_until_idle(self.process, patience)
        while next(still):
            for message in self.read_messages(0.05):
                if message["type"] == "result" and message["token"] == self._token:
                    payload = message["payload"] or {}
                    if message["message"] == "error":
                        raise DebuggerError(_COLOURS.sub("", str(payload.get("msg", "gdb could not"))))
                    return payload if isinstance(payload, dict) else {}
        raise DebuggerError(f"gdb gave no answer to {command} within {patience:.0f} seconds")

    def console_output(self, command: str, until: str = "") -> str:
        """Return what a command of gdb's console prints. DebuggerError with gdb's own words if it refuses.

        `until`: a text at the end of the output to wait for. It is needed once a process runs, as gdb then answers
        before everything is printed.
        """
        self._console.clear()
        self.ask(command)
        still = poll_until_idle(self.process, PATIENCE)
        while until not in (said := "".join(self._console)) and next(still):
            self.read_messages(0.05)
        return said

    def value(
        self, expression: str, thread: int, level: int, gdb_format: str = "", evaluator: Evaluator | None = None
    ) -> str:
        """Return the value of an expression in a frame as gdb prints it, in the frame's language. For a reference,
        return the value that it refers to.

        `level`: the frame's number. `gdb_format`: a format letter of gdb, empty for none. `evaluator`: evaluates the
        expression instead of `evaluate_with_calls`.
        """
        where = f"--thread {thread} --frame {level}"
        if gdb_format:
            return strip_reference(
                self.console_output(f"-interpreter-exec {where} console {quoted(f'output/{gdb_format} {expression}')}")
            )
        value = str((evaluator or self.evaluate_with_calls)(expression, thread, level).get("value", ""))
        if re.fullmatch(r"@0x[0-9a-f]+", value):  # of a reference it says the address alone
            value = self.console_output(f"-interpreter-exec {where} console {quoted(f'output {expression}')}")
        return strip_reference(value)

    def evaluate_with_calls(self, expression: str, thread: int, level: int) -> dict[str, Any]:
        """Return gdb's answer for an expression, which may call functions of the program. The stops that gdb has
        reported meanwhile are dropped, and the program counts as stopped: after such a call gdb reports `running`, but
        never `stopped`.
        """
        try:
            return self.ask(f"-data-evaluate-expression --thread {thread} --frame {level} {quoted(expression)}")
        finally:
            self.running = False
            self.stops.clear()

    def await_stop(self, seconds: float = PATIENCE) -> dict[str, object]:
        """Return the next stop that gdb reports, and wait for it. DebuggerError if none comes within `seconds`."""
        still = poll_until_idle(self.process, seconds)
        while not self.stops and next(still):
            self.read_messages(0.02)
        if not self.stops:
            raise DebuggerError("the rank could not be halted")
        return self.stops.pop(0)

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Set exactly these breakpoints in gdb, and remove all others. DebuggerError if a line has no code."""
        wanted = {point.id: point for point in points}
        for number, point in list(self.points.items()):
            if wanted.pop(point.id, None) is None:
                self.ask(f"-break-delete {number}")
                del self.points[number]
        for point in wanted.values():
            place = f"{point.file}:{point.line}" if point.line else point.function
            try:
                made = self.insert_breakpoint(point, quoted(place))
            except DebuggerError as error:
                if _NO_CODE in str(error):  # gdb from 16 on, where the next line with code is another function's
                    raise self._explain_missing_code(point) from error
                raise
            at = int(made["bkpt"].get("line") or point.line)
            if point.line and at != point.line:
                self.ask(f"-break-delete {made['bkpt']['number']}")
                raise _error_without_code(point, at)
            number = str(made["bkpt"]["number"])
            if point.log:
                self.ask(f"-break-delete {number}")
                number = self._insert_log_point(point, place)
            self.points[number] = point

    def _insert_log_point(self, point: Point, location: str) -> str:
        """Set a log point, which prints a message and does not stop, and return its number. `location`: in gdb's words.
        DebuggerError if this gdb has no Python.
        """
        if not self._has_log_points:
            try:
                self.ask(f"-interpreter-exec console {quoted(f'source {LOG}')}")
            except DebuggerError as error:
                raise DebuggerError(f"log points need a gdb that was built with Python: {error}") from error
            self._has_log_points = True
        call = f"weft_log({location!r}, {point.log!r}, {point.condition!r}, {point.count})"
        return self.console_output(f"-interpreter-exec console {quoted(f'python {call}')}").strip().splitlines()[-1]

    def _explain_missing_code(self, point: Point) -> DebuggerError:
        """Return an error for a breakpoint at a line without code. It names the next line of the file that has code."""
        listed = self.ask(f"-symbol-list-lines {quoted(point.file)}").get("lines", ())
        return _error_without_code(
            point, min((at for one in listed if (at := int(one["line"])) > point.line), default=None)
        )

    def insert_breakpoint(self, point: Point, location: str) -> dict[str, Any]:
        """Set a breakpoint, and return gdb's answer. `location`: in gdb's words."""
        skip = f"-i {point.count - 1} " if point.count > 1 else ""
        only = f"-c {quoted(point.condition)} " if point.condition else ""
        return self.ask(f"-break-insert {skip}{only}{location}")

    def armed(self, points: Sequence[Point]) -> bool:
        """Return whether these are the breakpoints already."""
        return {point.id for point in points} == {point.id for point in self.points.values()}

    def exit(self) -> None:
        """End gdb. It is killed if it does not end, for example as it waits for a file of the program that is
        a pipe.
        """
        process = self._gdb.gdb_process
        if process is None:
            return
        process.terminate()
        wait_or_kill_idle(process, ENDING)
        with suppress(Exception):
            self._gdb.exit()


def _error_without_code(point: Point, at: int | None) -> DebuggerError:
    onward = f"; the next line with code is {at}" if at else ", nor in a later one"
    return DebuggerError(f"there is no code in line {point.line}{onward}")


def strip_reference(value: str) -> str:
    """Return a value, for a reference that of what it refers to: its address is another one on each rank."""
    return re.sub(r"^(\(.*?&\) )?@0x[0-9a-f]+: ", "", value)
