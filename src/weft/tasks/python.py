"""The backend for asyncio: the program runs in its own Python, with the agent of `../inprocess/` beside it."""

from __future__ import annotations

import json
import linecache
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any

from weft.base.interpreters import OLDEST, is_free_threaded, refusal
from weft.base.lifetime import bound_to_parent
from weft.debug.answers import change
from weft.debug.hands import connect
from weft.errors import DebuggerError, UsageError
from weft.gdb.point import Point
from weft.inprocess.gc_pause import gc_paused
from weft.tasks import hung, schedule
from weft.tasks.backend import How, NoFurther, Spawn, Stop
from weft.tasks.commandline import PythonCommand
from weft.tasks.model import Deadlock, SourceLine, State, Task, Wait, deadlocks
from weft.tasks.output import Output
from weft.tasks.runtime import INSIDE, births
from weft.tasks.threads import site_of, with_threads

ANSWER = 30.0
"""Seconds for the program to answer a question."""
MOST = 256 << 20
"""Bytes of an answer."""
AGAIN = 0.15
"""Seconds between two looks whether nothing can happen any more."""
TICK = 0.01
"""Seconds between looks at what else has to go on."""


class Conversation:
    """With the agent in a Python program, over a socket: all of a backend but how the program starts and ends.

    `idle` is called again and again while the program runs; where it says so, the wait for a stop ends: NoFurther.
    """

    runtime = "asyncio"

    def __init__(self) -> None:
        self.idle: Callable[[], bool] | None = None
        self._next = 0
        self._pending: list[dict[str, Any]] = []
        self._text = bytearray()
        self._looked = self._seen = 0
        self._over: Stop | None = None
        self._line: socket.socket

    def _status(self, code: int | None) -> int | None:
        """The exit status of a program that has ended."""
        return code

    # What is said

    def _message(self, seconds: float | None) -> dict[str, Any]:
        """The next message; a stop of its own kind where the program has gone."""
        while (end := self._text.find(b"\n", self._looked)) < 0:
            self._looked = len(self._text)
            more = self._more(seconds)
            if not more:
                return {"stop": {"why": "ended", "code": None, "task": None, "at": None}}
            self._text += more
            if len(self._text) > MOST:
                raise DebuggerError("the program says more than Weft's agent does")
        line = self._text[:end]
        del self._text[: end + 1]
        self._looked = 0
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DebuggerError("the program says what Weft's agent does not") from error
        if not isinstance(found, dict):
            raise DebuggerError("the program says what Weft's agent does not")
        return found

    def _more(self, seconds: float | None) -> bytes:
        """What comes in that time; nothing where the program has gone."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            self._line.settimeout(seconds if self.idle is None else TICK)
            try:
                return self._line.recv(1 << 20)
            except TimeoutError as error:
                if until is not None and time.monotonic() >= until:
                    raise DebuggerError("the program gives no answer: its Python is held up in native code") from error
            except OSError:
                return b""
            if self.idle is not None and self.idle():
                raise NoFurther

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._line.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise DebuggerError("the program has ended") from error

    def _ask(self, do: str, **fields: Any) -> Any:
        if self._over is not None:
            raise DebuggerError("the program has ended")
        self._next += 1
        self._send({"id": self._next, "do": do, **fields})
        while True:
            message = self._message(ANSWER)
            if message.get("id") == self._next:
                if "error" in message:
                    raise DebuggerError(message["error"])
                return message["answer"]
            self._pending.append(message)
            if (stop := message.get("stop")) and stop["why"] == "ended":
                raise DebuggerError("the program has ended")

    def _stop(self, seconds: float | None) -> Stop:
        while True:
            message = self._pending.pop(0) if self._pending else self._message(seconds)
            if "stop" in message:
                return self._stopped(message["stop"])
            if "idle" in message:
                with suppress(DebuggerError):  # it has gone on, or to its end, while it was asked
                    if (stop := self._stuck(message)) is not None:
                        return stop

    def _stuck(self, idle: dict[str, Any]) -> Stop | None:
        """All loops stand still: a deadlock, or a program in which nothing can happen any more."""
        rows = self.tasks()
        if found := deadlocks(rows):
            return stop_of(found[0])
        if not idle["quiet"] or not rows:
            return None
        if idle["held"]:
            return Stop("stuck", text=hung.only_held([row for row in rows if row.id in idle["held"]]))
        return Stop("stuck", text=hung.message(self._ask("hung"), rows))

    def _going(self, how: How, task: int | None, *, child: bool) -> dict[str, Any]:
        """What lets the program go on; not where it has stopped behind the last stop that we know of."""
        return {"do": "go", "how": how, "task": task, "child": child, "seen": self._seen}

    def _stopped(self, stop: dict[str, Any]) -> Stop:
        self._seen = stop.get("number", self._seen)
        at = site_of(stop["at"])
        text, over = stop.get("text", ""), stop.get("over", False)
        if stop.get("change"):
            text = change(*stop["change"], over=over)
        made = Stop(stop["why"], stop["task"], at, stop.get("worker"), stop.get("breakpoint"), text,
                    stop.get("code"), stop.get("name", ""), (stop["breakpoint"],) if over else (),
                    stop.get("kind", "task"))  # fmt: skip
        if made.why == "ended":
            self._over = Stop("ended", code=self._status(made.code), text=made.text)
            return self._over
        return made

    # What a backend does

    def tasks(self) -> list[Task]:
        """The table, read from asyncio itself."""
        with gc_paused():
            return rows_of(self._ask("tasks"))

    def go(self, how: How, task: int | None, *, child: bool) -> Stop:
        """Let the program run until one task has come on."""
        if self._over is not None:
            return self._over
        self._pending = [message for message in self._pending if "stop" in message]
        if not self._pending:
            self._send(self._going(how, task, child=child))
        return self._stop(None)

    def frames(self, task: int | None, *, every: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """A task's own frames, innermost first, and the chain of spawns."""
        answer = self._ask("frames", task=task, every=every)
        frames = [site for row in answer["frames"] if (site := site_of(row))]
        return frames, [Spawn(row["task"], row["name"], site_of(row["at"])) for row in answer["spawns"]]

    def evaluate(self, task: int | None, text: str, level: int, form: str = "") -> str:
        """The value of an expression in a task's frame. UsageError for a format."""
        if form:
            raise UsageError("formats are for native tasks; Python has its own: `print hex(n)`, `print f'{n:b}'`")
        return str(self._ask("evaluate", task=task, text=text, level=level))

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """The variables of a task's frame, and their values."""
        return [(str(name), str(value)) for name, value in self._ask("locals", task=task, level=level)]

    def assign(self, task: int | None, name: str, text: str, level: int) -> str:
        """Give a variable of a task's frame the value of an expression there."""
        return str(self._ask("assign", task=task, name=name, text=text, level=level))

    def held(self, task: int | None, text: str) -> int:
        """The task that an expression holds: a task, or its coroutine."""
        found, value = self._ask("held", task=task, text=text)
        if found is None:
            raise DebuggerError(f"{text} is {value}, not a living task")
        return int(found)

    def arm(self, points: Sequence[Point]) -> None:
        """Take these as the breakpoints. DebuggerError for a line without code."""
        for point in points:
            refuse_codeless(point)
        self._ask("points", points=[point.as_dict() for point in points])

    def watch(self, number: int, task: int | None, text: str, level: int) -> str:
        """Stop as `number` where the value of an expression in a task's frame changes; its value now."""
        return str(self._ask("watch", number=number, task=task, text=text, level=level))

    def unwatch(self, number: int) -> None:
        """Watch it no more."""
        self._ask("unwatch", number=number)

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        self._ask("name", task=task, name=name)

    def verdict(self) -> str:
        """That nothing can happen any more, and why; empty where something can, or where it is not known."""
        for _ in range(2):  # a thread of a pool that is about to take up work looks idle for an instant
            if self._over is not None or not self._ask("quiet"):
                return ""
            time.sleep(AGAIN)
        return hung.message(self._ask("hung"), self.tasks())

    def unseen(self) -> str:
        """That the program has tasks of another library than asyncio."""
        found = self._ask("unseen") if self._over is None else ""
        return f"the program runs {found}, whose tasks are not followed: only asyncio's are" if found else ""

    def children(self) -> list[tuple[int, str]]:
        """The living processes that the program has made by multiprocessing, by number and name."""
        return [(int(pid), str(name)) for pid, name in self._ask("children")] if self._over is None else []

    def hold(self, task: int, *, on: bool) -> str:
        """Let a task make no step while the others go on, or again."""
        self._ask("hold", task=task, on=on)
        return ""

    def waiting_with(self) -> dict[int, int]:
        """A task that is held takes no thread."""
        return {}

    def catch(self, name: str, *, on: bool) -> None:
        """Stop where a task dies of an exception of that name (empty: of any), or not any more."""
        self._ask("catch", name=name, on=on)

    def interrupt(self) -> Stop:
        """Stop the loop between two tasks; where it does not get there, it is only looked at."""
        if self._over is not None:
            return self._over
        self._send({"id": 0, "do": "interrupt"})
        until = time.monotonic() + 2
        while time.monotonic() < until:
            try:
                message = self._message(0.5)
            except DebuggerError:
                continue
            if "stop" in message:
                return self._stopped(message["stop"])
        return Stop("interrupted", text="the program computes; it is looked at as it runs")


class RankConversation(Conversation):
    """With the agent in a rank of MPI that is replayed: it runs on between commands, unless it stands at a line."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connect(self._line, path)
        except OSError as error:
            raise DebuggerError(f"the rank's agent does not answer: {error.strerror}") from error

    def let(self, how: How, task: int | None, *, child: bool = False) -> None:
        """Let the rank go on, and do not wait."""
        self._send(self._going(how, task, child=child))

    def come(self) -> Stop:
        """Wait until the task has come on that was let go."""
        return self._stop(None)

    def arrived(self) -> Stop | None:
        """The stop that has come meanwhile."""
        while self._pending or select.select([self._line], [], [], 0)[0] or b"\n" in self._text:
            message = self._pending.pop(0) if self._pending else self._message(ANSWER)
            if "stop" in message:
                return self._stopped(message["stop"])
        return None

    def look(self, task: int, level: int, what: str, **given: Any) -> dict[str, Any]:
        """What the rank's own agent says of a task's frame: `about`, `parts`, `assign`."""
        found: dict[str, Any] = self._ask("look", task=task, level=level, what=what, given=given)
        return found

    def forget(self) -> None:
        """Follow no task any more; the rank runs on."""
        self._ask("forget")

    def close(self) -> None:
        """Leave the rank."""
        self._line.close()


class PythonBackend(Conversation):
    """One Python program, started as its command says."""

    def __init__(self, command: PythonCommand, *, record: str = "", replay: str = "") -> None:
        super().__init__()
        self._command = command
        self._schedule = ("record", record) if record or not replay else ("replay", replay)
        self._out = Output()
        self.program: subprocess.Popen[bytes]

    def start(self) -> Stop:
        """Start the program; it stands before its first line. UsageError where its Python is too old."""
        schedule.check(*self._schedule, "asyncio")
        ours, theirs = socket.socketpair()
        asked = self._command
        command = [asked.interpreter, *asked.options, str(INSIDE), str(theirs.fileno()), births(),
                   asked.kind, asked.target, *asked.arguments]  # fmt: skip
        try:
            self.program = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._out.file, stderr=self._out.file,
                pass_fds=(theirs.fileno(),), start_new_session=True,
                preexec_fn=bound_to_parent(),  # noqa: PLW1509 - it takes no lock
            )  # fmt: skip
        except OSError as error:
            raise DebuggerError(f"{asked.interpreter}: {error.strerror}") from error
        theirs.close()
        self._line = ours
        if asked.kind == "-c":
            lines = [line + "\n" for line in asked.target.splitlines()]
            linecache.cache["<string>"] = (len(asked.target), None, lines, "<string>")
        stop = self._stop(ANSWER)
        if stop.why == "ended":
            self._refuse(stop)
        how, path = self._schedule
        if path:
            self._ask("schedule", how=how, path=str(Path(path).resolve()))
        return stop

    def _refuse(self, stop: Stop) -> None:
        """A program that never began: UsageError where its Python is not one that Weft knows; else it says why."""
        asked = [self._command.interpreter, "-c", "import sys; print(sys.version)"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=ANSWER, check=False)
        version = tuple(int(word) for word in done.stdout.split(" ", 1)[0].split(".")[:2] if word.isdigit())
        if is_free_threaded(done.stdout):
            raise UsageError(refusal(self._command.interpreter, done.stdout, "whose tasks cannot be followed"))
        if version and version < OLDEST:
            told, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
            raise UsageError(f"{self._command.interpreter} is Python {told}: tasks can be followed from {oldest} on")
        raise UsageError(f"the program did not begin (status {stop.code}): {self.output().strip() or 'no word'}")

    def _status(self, code: int | None) -> int | None:
        """The exit status; the process may end otherwise than its main module did."""
        try:
            return self.program.wait(5)
        except subprocess.TimeoutExpired:
            return code

    def output(self) -> str:
        """What the program has written."""
        return self._out.more()

    def close(self) -> None:
        """End the program."""
        try:
            os.killpg(self.program.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError, AttributeError):
            pass
        else:
            self.program.wait()
        if hasattr(self, "_line"):
            self._line.close()
        self._out.file.close()


def refuse_codeless(point: Point) -> None:
    """DebuggerError for a breakpoint at a line that has no code, as far as its file can be found here."""
    lines = code_lines(point.file) if point.line else frozenset()
    if lines and point.line not in lines:
        after = min((line for line in lines if line > point.line), default=0)
        hint = f"; the next line with code is {after}" if after else ""
        raise DebuggerError(f"there is no code in line {point.line} of {point.file}{hint}")


@cache
def code_lines(file: str) -> frozenset[int]:
    """The lines of a Python file at which a breakpoint can stop; none where it cannot be read."""
    found: set[int] = set()
    with suppress(OSError, SyntaxError, ValueError):
        todo = [compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)]
        while todo:
            code = todo.pop()
            found |= {line for _, _, line in code.co_lines() if line}
            todo += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(found)


STATES: tuple[State, ...] = ("new", "top", "middle", "heap")


def rows_of(told: dict[str, Any]) -> list[Task]:
    """The table as the agent writes it: a list a column, places and waits by their numbers."""
    sites = [site_of(site) for site in told["sites"]]
    waits = [Wait(kind, (), None if at is None else sites[at], *rest) for kind, at, *rest in told["waits"]]
    waiting = [None if number is None else waits[number] for number in told["wait"]]
    for i, others in zip(told["waiting"], told["targets"], strict=True):
        kind, _, site, one, free, what = waiting[i]
        waiting[i] = Wait(kind, (others,) if isinstance(others, int) else tuple(others), site, one, free, what)
    count = len(waiting)
    stacked = {STATES.index("top"), STATES.index("middle")}
    columns = (
        told["ids"], [parent or None for parent in told["parents"]], [STATES[state] for state in told["states"]],
        scattered(told["names"], "", count), [None if at is None else sites[at] for at in told["created"]],
        [None if at is None else sites[at] for at in told["at"]], waiting, scattered(told["workers"], None, count),
        above_of(told), depths(told["states"]),
        [None if state in stacked else at for state, at in zip(told["states"], told["addresses"], strict=True)],
        told["pedigrees"] or [""] * count, ["task"] * count, [None] * count,
    )  # fmt: skip
    # No frame of Python for each: `Task(...)` takes three times as long.
    rows = list(map(partial(tuple.__new__, Task), zip(*columns, strict=True)))
    return with_threads(rows, told["threads"]) if told["threads"] else rows


def above_of(told: dict[str, Any]) -> list[int | None]:
    """What has to go on first, for each task: the one that holds its loop up."""
    above = told["above"]
    return [above.get(str(id_)) for id_ in told["ids"]] if above else [None] * len(told["ids"])


def depths(states: list[int]) -> list[int | None]:
    """How many tasks lie beneath each that is on its loop's stack: a task that begins eagerly lies on who made it."""
    buried = states.count(STATES.index("middle"))
    known = {STATES.index("top"): buried, STATES.index("middle"): 0 if buried == 1 else None}
    return [known.get(state) for state in states]


def scattered(told: dict[str, object], otherwise: object, count: int) -> list[object]:
    """A column of which only some rows were told."""
    column = [otherwise] * count
    for i, value in told.items():
        column[int(i)] = value
    return column


def stop_of(found: Deadlock) -> Stop:
    """A stop because of a deadlock."""
    first = found.tasks[0]
    return Stop("deadlock", first.id, first.at, text=found.message, name=first.name)
