"""What a debugger can do inside one rank, and the hand for Python ranks; the one for native ranks is gdb.py."""

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
    """The rank stands in code of which no lines are known."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the program in a rank's stack. `level`: what the hand calls it; `file` empty where not known."""

    file: str
    line: int
    function: str
    text: str = ""
    level: int = 0
    of_interpreter: bool = False
    address: int = 0
    """Of the instruction that it goes on with; 0 where it has none of its own."""

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"file": self.file or None, "line": self.line or None, "function": self.function, "text": self.text}


@dataclass(frozen=True, slots=True)
class Part:
    """A variable, or a part of one. `expression`: what means it in its frame, empty where nothing does.

    `parts`: how many parts it has itself; `indexed`: whether they are elements, numbered.
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
    """A watched expression and the frame that it is of: its depth, counted from the outermost, and its function.

    `depth` 0: it names no variable of a frame; `path`: the file of a Python frame.
    """

    text: str
    depth: int
    function: str
    path: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For what counts inside the rank."""
        return {"text": self.text, "depth": self.depth, "function": self.function, "path": self.path}


@dataclass(frozen=True, slots=True)
class Marks:
    """What counts as a tick: visits of points, changes of values, or (`lines`) lines of the frame of a place.

    `lines`: `next` for lines of that frame and of its caller, `step` for those of any frame. Visits of `place` itself
    are counted beside the ticks.
    """

    place: Place
    points: tuple[Point, ...] = ()
    watches: tuple[Watched, ...] = ()
    lines: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For what counts inside the rank."""
        return {
            "place": self.place, "points": [point.as_dict() for point in self.points],
            "watches": [one.as_dict() for one in self.watches], "lines": self.lines,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tally:
    """Ticks so far, visits of the place, and line, depth and way of each of the last ticks, the last one last.

    The way of a tick is a check sum of the lines and depths of all up to it: of the same number in another replay it
    is the same, unless the program went another way.
    """

    ticks: int
    visits: int
    lines: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(told: dict[str, Any]) -> Tally:
        """As what counts in a rank tells it."""
        return Tally(told["ticks"], told["visits"], tuple((line, depth, way) for line, depth, way in told["lines"]))

    @property
    def first(self) -> int:
        """The first tick of which the line is known."""
        return self.ticks - len(self.lines) + 1

    def begin_of_line(self, tick: int) -> int:
        """The first tick of the run of equal lines that a tick is in."""
        while tick > self.first and self.lines[tick - self.first][:2] == self.lines[tick - self.first - 1][:2]:
            tick -= 1
        return tick

    def way(self, tick: int) -> int | None:
        """How the rank came to a tick, None where that is not known any more."""
        return self.lines[tick - self.first][2] if self.first <= tick <= self.ticks else None


class Hand(Protocol):
    """A debugger's hand in one rank. `stopped`: the line that the rank stands at, outside of MPI, because of it.

    `refused`: why the rank stops at no line; `news`: what is to be told of the stop (`point`: the breakpoint's id,
    `returned`: a function's value, `expression`, `old`, `new`: what a watch saw, `trouble`: a condition's error).
    """

    stopped: Frame | None
    refused: str
    news: dict[str, Any]

    def stack(self) -> list[Frame]:
        """The program's frames, innermost first."""
        ...

    def evaluate(self, text: str, level: int, form: str = "") -> str:
        """The value of an expression in a frame, in a format of gdb's (`x`). DebuggerError with the reason."""
        ...

    def variables(self, level: int) -> list[tuple[str, str]]:
        """Names and values of a frame's arguments and local variables."""
        ...

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Members, elements (`count` of them from `start`) or target of an expression's value; of `` the variables."""
        ...

    def about(self, text: str, level: int) -> Part:
        """The value of an expression, its type, and how many parts it has. DebuggerError with the reason."""
        ...

    def assign(self, target: str, text: str, level: int) -> str:
        """Give a variable of a frame another value; the new one. DebuggerError with the reason."""
        ...

    def watch(self, text: str, level: int) -> int:
        """Stop where the value of an expression changes; a number for `unwatch`. DebuggerError with the reason."""
        ...

    def unwatch(self, number: int) -> None:
        """Watch it no more."""
        ...

    def arm(self, points: Sequence[Point]) -> None:
        """Take these as the rank's breakpoints."""
        ...

    def step(self, how: str) -> None:
        """Stop at the next line: `next` in this frame or above, `step` in any, `finish` where the frame has returned.

        The rank goes on by `resume`.
        """
        ...

    def skip(self, names: Sequence[str]) -> None:
        """Take these as the functions and files that steps do not go into."""
        ...

    def unstep(self) -> None:
        """Forget the step."""
        ...

    def resume(self) -> None:
        """Let a rank that stands at a line go on."""
        ...

    def poll(self) -> None:
        """Take up what has happened in the rank."""
        ...

    def drive(self) -> None:
        """Let MPI go on for others while the rank stands at a line."""
        ...

    def place(self, level: int = 0, text: str = "") -> Place:
        """Where the rank stands, or one of its frames; with depth 0 where an expression is of no frame."""
        ...

    def count(self, marks: Marks, stop_at: int = 0, visit_at: int = 0) -> int:
        """Count ticks from here on, and stop at one of them, or at a visit of the place; those of this place itself.

        Breakpoints, watches and steps are forgotten.
        """
        ...

    def counted(self, last: int = 1) -> Tally:
        """What was counted, with the lines of the last ticks."""
        ...

    def close(self) -> None:
        """Leave the rank."""
        ...


def connect(made: socket.socket, path: Path) -> None:
    """Connect to a Unix socket, however long its path is: the name of one holds 107 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        made.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


class PythonHand:
    """The hand in a rank that runs agent.py."""

    def __init__(self, path: Path) -> None:
        self.stopped: Frame | None = None
        self.refused = ""
        self.news: dict[str, Any] = {}
        self._skipped: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER)
        try:
            connect(self._socket, path)
        except OSError as error:
            raise DebuggerError(f"the rank's agent does not answer: {error.strerror}") from error
        self._buffer = b""
        self._id = 0

    def _lines(self, seconds: float) -> list[dict[str, Any]]:
        """Messages that have come, or that come within some time."""
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

    def _take(self, message: dict[str, Any]) -> None:
        if "stopped" in message:
            self.stopped = _frame(message["at"])
            self.news = message.get("news") or {}
        self.refused = message.get("refused", self.refused)

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
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
            for message in self._lines(left):
                if message.get("id") == self._id:
                    answer = message
                else:
                    self._take(message)
            if answer is not None:
                if "error" in answer:
                    raise DebuggerError(str(answer["error"]))
                return answer
        raise DebuggerError(f"no answer within {ANSWER:.0f} s: the rank holds the interpreter (a long call in C?)")

    def stack(self) -> list[Frame]:
        """The program's frames, innermost first."""
        return [_frame(frame, level) for level, frame in enumerate(self._ask("stack")["frames"])]

    def evaluate(self, text: str, level: int, form: str = "") -> str:
        """What Python's eval gives in the frame, as its repr."""
        return str(self._ask("print", text=text, level=level, form=form)["value"])

    def variables(self, level: int) -> list[tuple[str, str]]:
        """The frame's names; of a module those that are no functions, classes and modules."""
        return [(name, value) for name, value in self._ask("variables", level=level)["variables"]]

    def parts(self, text: str, level: int, start: int = 0, count: int = 0) -> list[Part]:
        """Elements, entries or attributes of an object; no code of the program is run but for its `repr`."""
        return [Part(**one) for one in self._ask("parts", text=text, level=level, start=start, count=count)["parts"]]

    def about(self, text: str, level: int) -> Part:
        """The value of an expression, its type, and how many parts it has."""
        return Part(**self._ask("about", text=text, level=level)["part"])

    def assign(self, target: str, text: str, level: int) -> str:
        """Bind a name of the frame anew, or what an attribute or an index means."""
        return str(self._ask("assign", target=target, text=text, level=level)["value"])

    def watch(self, text: str, level: int) -> int:
        """Compare the value at each line."""
        return int(self._ask("watch", text=text, level=level)["number"])

    def unwatch(self, number: int) -> None:
        """Watch it no more."""
        self._ask("unwatch", number=number)

    def execute(self, text: str, level: int) -> str:
        """Run statements in the frame; what they print."""
        return str(self._ask("execute", text=text, level=level)["value"])

    def arm(self, points: Sequence[Point]) -> None:
        """Take these as the rank's breakpoints."""
        if any(point.function.startswith("*") for point in points):
            raise DebuggerError("instructions are those of native ranks, and this one is Python")
        self._ask("break", places=[point.as_dict() for point in points])

    def step(self, how: str) -> None:
        """Stop at the next line."""
        self._ask("step", how=how)

    def skip(self, names: Sequence[str]) -> None:
        """Take these as the functions and files that steps do not go into."""
        if list(names) != self._skipped:
            files = [name for name in names if is_file(name)]
            self._ask("skip", functions=[name for name in names if name not in files], files=files)
            self._skipped = list(names)

    def unstep(self) -> None:
        """Forget the step."""
        self._ask("unstep")

    def resume(self) -> None:
        """Let a rank that stands at a line go on."""
        if self.stopped is not None:
            self.stopped = None
            self._ask("resume")

    def poll(self) -> None:
        """Take up what has happened in the rank."""
        with suppress(DebuggerError):
            for message in self._lines(0):
                self._take(message)

    def drive(self) -> None:
        """The agent drives MPI by itself."""

    def place(self, level: int = 0, text: str = "") -> Place:
        """Where the rank stands, or one of its frames; with depth 0 where an expression is of no frame."""
        return dict(self._ask("place", level=level, text=text)["place"])

    def count(self, marks: Marks, stop_at: int = 0, visit_at: int = 0) -> int:
        """Count ticks from here on, and stop at one of them, or at a visit of the place."""
        return int(self._ask("count", marks=marks.as_dict(), stop_at=stop_at, visit_at=visit_at)["own"])

    def counted(self, last: int = 1) -> Tally:
        """What was counted."""
        return Tally.of(self._ask("counted", last=last))

    def close(self) -> None:
        """Leave the rank."""
        self._socket.close()


def _frame(spot: dict[str, Any], level: int = 0) -> Frame:
    return Frame(spot["file"], spot["line"], spot["function"], spot["text"], level)
