"""The interface of a debugger of one rank, and the one for Python ranks; gdb.py has the one for native ranks."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from weft.debug.skips import is_file
from weft.errors import DebuggerError
from weft.gdb.point import Point

ANSWER = 15.0
"""Seconds that a rank may take for an answer."""


class NoLines(DebuggerError):
    """The rank is in code whose lines are unknown."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in a rank's stack. `level`: its number in the rank's debugger; `file` is empty if unknown."""

    file: str
    line: int
    function: str
    text: str = ""
    level: int = 0
    of_interpreter: bool = False
    address: int = 0
    """Of the instruction that it goes on with; 0 where it has none of its own."""

    def as_dict(self) -> dict[str, Any]:
        """Return the frame as JSON values."""
        return {"file": self.file or None, "line": self.line or None, "function": self.function, "text": self.text}


@dataclass(frozen=True, slots=True)
class Part:
    """A variable, or a part of one. `expression`: how to name it in its frame, empty if there is no such expression.

    `parts`: how many parts it has itself; `indexed`: whether these are numbered elements.
    """

    name: str
    value: str
    type: str
    expression: str = ""
    parts: int = 0
    indexed: bool = False


Place = dict[str, Any]
"""Where a rank stands, in its hand's own words: the same in every replay (no addresses)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A watched expression and its frame: the depth, counted from the outermost frame, and the function.

    `depth` 0: it names no variable of a frame; `path`: the file of a Python frame.
    """

    text: str
    depth: int
    function: str
    path: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the expression as JSON values, for what counts inside the rank."""
        return {"text": self.text, "depth": self.depth, "function": self.function, "path": self.path}


@dataclass(frozen=True, slots=True)
class Marks:
    """What counts as a tick: visits of points, changes of values, or (`lines`) lines of the frame of a place.

    `lines`: `next` for lines of that frame and of its caller, `step` for those of any frame. Visits of `place` itself
    are counted separately.
    """

    place: Place
    points: tuple[Point, ...] = ()
    watches: tuple[Watched, ...] = ()
    lines: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the marks as JSON values, to be sent to the counter inside the rank."""
        return {
            "place": self.place, "points": [point.as_dict() for point in self.points],
            "watches": [one.as_dict() for one in self.watches], "lines": self.lines,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Here:
    """Where a native rank is stopped: the instruction (its offset in a module), and the functions on the stack from the
    outermost to the innermost, inlined ones included. `visits`: how often it has come to a counted place so far.
    """

    module: str
    address: int
    depth: int
    """Functions on the stack without inlined ones."""
    stack: tuple[str, ...]
    visits: int

    @property
    def spot(self) -> tuple[str, int, tuple[str, ...]]:
        """Return what two stops at the same place have in common: the instruction and the functions on the stack."""
        return self.module, self.address, self.stack


@dataclass(frozen=True, slots=True)
class Tally:
    """The ticks so far, the visits of the place, and (line, depth, way) of the last ticks, latest last.

    The way of a tick is a checksum of the lines and depths of all ticks up to it: in another replay it is equal for the
    same number, unless the program went another way.
    """

    ticks: int
    visits: int
    lines: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(told: dict[str, Any]) -> Tally:
        """Return the counts from the JSON values that the counter in a rank sends."""
        return Tally(told["ticks"], told["visits"], tuple((line, depth, way) for line, depth, way in told["lines"]))

    @property
    def first(self) -> int:
        """Return the first tick whose line is known."""
        return self.ticks - len(self.lines) + 1

    def begin_of_line(self, tick: int) -> int:
        """Return the number of the first tick on the line of tick `tick`, if several ticks in a row are on that
        line.
        """
        while tick > self.first and self.lines[tick - self.first][:2] == self.lines[tick - self.first - 1][:2]:
            tick -= 1
        return tick

    def way(self, tick: int) -> int | None:
        """Return how the rank came to a tick; None if that is no longer known."""
        return self.lines[tick - self.first][2] if self.first <= tick <= self.ticks else None


class Hand(Protocol):
    """A debugger of one rank. `stopped`: the line, outside of MPI, at which it has stopped the rank.

    `refused`: why the rank stops at no line; `news`: what the stop reports (`point`: the breakpoint's id, `returned`: a
    function's value, `expression`, `old`, `new`: a watchpoint, `trouble`: a condition's error).
    """

    stopped: Frame | None
    refused: str
    news: dict[str, Any]

    @property
    def logged(self) -> list[str]:
        """Return what log points have said and nobody has taken yet; whoever takes it clears the list."""
        ...

    def stack(self) -> list[Frame]:
        """Return the program's frames, innermost first."""
        ...

    def evaluate(self, text: str, level: int, form: str = "") -> str:
        """Return the value of an expression in a frame as text. `form`: the letter of a format of gdb, such as `x`.
        DebuggerError says why there is no value.
        """
        ...

    def variables(self, level: int) -> list[tuple[str, str]]:
        """Return names and values of a frame's arguments and local variables."""
        ...

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Return the members, elements or target of an expression's value, `count` from the `start`-th on. For an empty
        text return the variables of the frame.
        """
        ...

    def about(self, text: str, level: int) -> Part:
        """Return the value of an expression, its type, and how many parts it has. DebuggerError with the reason."""
        ...

    def assign(self, target: str, text: str, level: int) -> str:
        """Assign to a variable of a frame, and return the new value. DebuggerError with the reason."""
        ...

    def watch(self, text: str, level: int) -> int:
        """Set a watchpoint: the rank stops when the value of the expression changes. Return its number, for `unwatch`.
        DebuggerError says why it cannot be set.
        """
        ...

    def unwatch(self, number: int) -> None:
        """Remove a watchpoint."""
        ...

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Make `points` the breakpoints of the rank."""
        ...

    def step(self, how: str) -> None:
        """Plan a stop at the next line; the rank moves when `resume` is called. `how`: `next` in this frame or a
        caller, `step` in any frame, `finish` after this frame has returned.
        """
        ...

    def skip(self, names: Sequence[str]) -> None:
        """Set the functions and files that steps do not enter."""
        ...

    def unstep(self) -> None:
        """Cancel the step."""
        ...

    def resume(self) -> None:
        """Let a rank that is stopped at a line go on."""
        ...

    def poll(self) -> None:
        """Handle what has happened in the rank."""
        ...

    def drive(self) -> None:
        """Let MPI go on for other ranks while this rank is stopped at a line."""
        ...

    def place(self, level: int = 0, text: str = "") -> Place:
        """Return the place of a frame of the rank, in a form that is equal in every replay. The depth in it is 0 if the
        expression `text` uses no variable of the frame.
        """
        ...

    def begin_count(self, marks: Marks, stop_at: int = 0, visit_at: int = 0) -> int:
        """Begin to count ticks from here on: visits of marked places, changes of marked values, or lines. Return how
        many ticks this place itself makes. Breakpoints, watchpoints and steps are removed.

        The rank stops at tick `stop_at`, or at visit `visit_at` of its current place; 0: at none.
        """
        ...

    def finish_count(self, last: int = 1, *, except_visits: bool = False) -> Tally:
        """Return the counts so far, with the lines of the last ticks (at most `last`). `except_visits`: visits of the
        place are counted on.
        """
        ...

    def close(self) -> None:
        """Leave the rank."""
        ...


def connect_unix_socket(made: socket.socket, path: Path) -> None:
    """Connect a socket to a Unix socket at `path`, however long the path is; the kernel itself allows only 107
    bytes.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        made.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


class PythonHand:
    """The debugger of a rank that runs agent.py."""

    def __init__(self, path: Path) -> None:
        self.stopped: Frame | None = None
        self.refused = ""
        self.news: dict[str, Any] = {}
        self.logged: list[str] = []
        self._skipped: list[str] = []
        self._last_counts: dict[str, Any] | None = None
        """What the rank had counted when its interpreter ended, which answers nothing any more."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER)
        try:
            connect_unix_socket(self._socket, path)
        except OSError as error:
            raise DebuggerError(
                f"Weft's agent in the rank does not answer ({error.strerror}): `restart` begins again"
            ) from error
        self._buffer = b""
        self._id = 0

    def _read_messages(self, seconds: float) -> list[dict[str, Any]]:
        """Return the agent's messages that are there, or that come within `seconds`; empty if none comes. DebuggerError
        if the rank's process has ended.
        """
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(until - time.monotonic(), 0.0001))
            try:
                data = self._socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                return []
            except OSError as error:
                raise DebuggerError(f"the rank has gone: {error.strerror}") from error
            if not data:
                raise DebuggerError("the rank has gone")
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def _store_report(self, message: dict[str, Any]) -> None:
        """Store what the agent reports by itself: a stop, the text of a log point, counts, or why the rank cannot be
        traced.
        """
        if "stopped" in message:
            self.stopped = _frame(message["at"])
            self.news = message.get("news") or {}
        if "log" in message:
            self.logged.append(str(message["log"]))
        self._last_counts = message.get("counts", self._last_counts)
        self.refused = message.get("refused", self.refused)

    def _request(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a request to the agent, and return its answer. DebuggerError if the request fails or no answer comes in
        time.

        `do`: the name of the request, `print` for the agent's do_print. `arguments`: its arguments.
        """
        self._id += 1
        request = {"id": self._id, "do": do, "with": arguments}
        try:
            self._socket.settimeout(ANSWER)
            self._socket.sendall((json.dumps(request) + "\n").encode())
        except OSError as error:
            raise DebuggerError("the rank has gone") from error
        until = time.monotonic() + ANSWER
        while (left := until - time.monotonic()) > 0:
            answer = None
            for message in self._read_messages(left):
                if message.get("id") == self._id:
                    answer = message
                else:
                    self._store_report(message)
            if answer is not None:
                if "error" in answer:
                    raise DebuggerError(str(answer["error"]))
                return answer
        raise DebuggerError(f"no answer within {ANSWER:.0f} s: the interpreter of the rank is busy (a long call in C?)")

    def stack(self) -> list[Frame]:
        """Return the program's frames, innermost first."""
        return [_frame(frame, level) for level, frame in enumerate(self._request("stack")["frames"])]

    def evaluate(self, text: str, level: int, form: str = "") -> str:
        """Return the repr of what Python's eval gives in the frame."""
        return str(self._request("print", text=text, level=level, form=form)["value"])

    def variables(self, level: int) -> list[tuple[str, str]]:
        """Return the frame's names; of a module those that are no functions, classes and modules."""
        return [(name, value) for name, value in self._request("variables", level=level)["variables"]]

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Return the elements, entries or attributes of an expression's value, `count` from the `start`-th on. For an
        empty text return the variables of the frame.
        """
        return [
            Part(**one) for one in self._request("parts", text=text, level=level, start=start, count=count)["parts"]
        ]

    def about(self, text: str, level: int) -> Part:
        """Return the value of an expression, its type, and how many parts it has."""
        return Part(**self._request("about", text=text, level=level)["part"])

    def assign(self, target: str, text: str, level: int) -> str:
        """Assign to a name of the frame, to an attribute or to an index."""
        return str(self._request("assign", target=target, text=text, level=level)["value"])

    def watch(self, text: str, level: int) -> int:
        """Compare the value of an expression at each line."""
        return int(self._request("watch", text=text, level=level)["number"])

    def unwatch(self, number: int) -> None:
        """Remove a watchpoint."""
        self._request("unwatch", number=number)

    def execute(self, text: str, level: int) -> str:
        """Execute statements in the frame; returns what they print."""
        return str(self._request("execute", text=text, level=level)["value"])

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Make `points` the breakpoints of the rank."""
        if any(point.function.startswith("*") for point in points):
            raise DebuggerError(
                "this rank runs Python: only ranks of C, C++ and Fortran have machine instructions to show"
            )
        self._request("break", places=[point.as_dict() for point in points])

    def step(self, how: str) -> None:
        """Stop at the next line."""
        self._request("step", how=how)

    def skip(self, names: Sequence[str]) -> None:
        """Set the functions and files that steps do not enter; does nothing if they are the same as before."""
        if list(names) != self._skipped:
            files = [name for name in names if is_file(name)]
            self._request("skip", functions=[name for name in names if name not in files], files=files)
            self._skipped = list(names)

    def unstep(self) -> None:
        """Cancel the step."""
        self._request("unstep")

    def resume(self) -> None:
        """Let the rank continue if it is stopped at a line."""
        if self.stopped is not None:
            self.stopped = None
            self._request("resume")

    def poll(self) -> None:
        """Take the messages that the agent has sent meanwhile, such as a stop."""
        with suppress(DebuggerError):
            for message in self._read_messages(0):
                self._store_report(message)

    def drive(self) -> None:
        """The agent drives MPI by itself."""

    def place(self, level: int = 0, text: str = "") -> Place:
        """Return the place of a frame of the rank. The depth in it is 0 if the expression `text` uses no variable of
        the frame.
        """
        return dict(self._request("place", level=level, text=text)["place"])

    def begin_count(self, marks: Marks, stop_at: int = 0, visit_at: int = 0) -> int:
        """Count ticks from here on, and stop at one of them, or at a visit of the place."""
        return int(self._request("count", marks=marks.as_dict(), stop_at=stop_at, visit_at=visit_at)["own"])

    def finish_count(self, last: int = 1, *, except_visits: bool = False) -> Tally:
        """Return the ticks and visits since `count`: after the interpreter has ended, those that it sent then. `last`:
        of how many of the last ticks the lines are returned.
        """
        self.poll()
        if self._last_counts is None:
            return Tally.of(self._request("counted", last=last))
        return Tally.of({**self._last_counts, "lines": self._last_counts["lines"][-last:]})

    def close(self) -> None:
        """Leave the rank."""
        self._socket.close()


def _frame(spot: dict[str, Any], level: int = 0) -> Frame:
    return Frame(spot["file"], spot["line"], spot["function"], spot["text"], level)
