"""The backend for asyncio: the program runs in its own Python, with the agent of `../inprocess/` in it."""

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
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any

from weft.base.interpreters import OLDEST, explain_free_threaded, is_free_threaded
from weft.base.lifetime import bound_to_parent
from weft.debug.answers import change_text
from weft.debug.hands import connect_unix_socket
from weft.errors import DebuggerError, UsageError
from weft.gdb.point import Point
from weft.inprocess.gc_pause import gc_paused
from weft.tasks import hang_messages, schedule
from weft.tasks.backend import Movement, NoProgress, Spawn, Stop, make_deadlock_stop
from weft.tasks.commandline import PythonCommand
from weft.tasks.model import SourceLine, State, TaskRow, Wait, find_deadlocks
from weft.tasks.output import ProgramOutput
from weft.tasks.runtime import INSIDE, find_birth_library
from weft.tasks.threads import add_thread_rows, parse_site

ANSWER = 30.0
"""Seconds for the program to answer a question."""
MOST = 256 << 20
"""Bytes of an answer."""
MOST_SEARCHED = 2000
"""Tasks up to which the variables of all are searched in a program that is not hung."""
AGAIN = 0.15
"""Seconds between two looks whether nothing can happen any more."""
TICK = 0.01
"""Seconds between looks at what else has to go on."""


class AgentConversation:
    """A backend that talks to the agent in a Python program over a socket; subclasses start and end the program.

    `idle` is called repeatedly while the program runs; if it returns True, the wait for a stop ends with NoProgress.
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

    def _exit_status(self, code: int | None) -> int | None:
        """Return the exit status of a program that has ended."""
        return code

    # What is said

    def _receive_message(self, seconds: float | None) -> dict[str, Any]:
        """Return the agent's next message, a dictionary. If the program has gone, it is a stop `ended`. DebuggerError
        if the message is no JSON object.
        """
        while (end := self._text.find(b"\n", self._looked)) < 0:
            self._looked = len(self._text)
            more = self._receive_bytes(seconds)
            if not more:
                return {"stop": {"why": "ended", "code": None, "task": None, "at": None}}
            self._text += more
            if len(self._text) > MOST:
                raise DebuggerError(
                    "too much data came from Weft's agent in the program: something else writes to its connection"
                )
        line = self._text[:end]
        del self._text[: end + 1]
        self._looked = 0
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DebuggerError(
                "data came that Weft's agent in the program did not send: something else writes to its connection"
            ) from error
        if not isinstance(found, dict):
            raise DebuggerError(
                "data came that Weft's agent in the program did not send: something else writes to its connection"
            )
        return found

    def _receive_bytes(self, seconds: float | None) -> bytes:
        """Return the bytes that arrive from the agent; empty if the program has ended. DebuggerError if none arrive
        within `seconds`; NoProgress if the callback `idle`, which is called while it waits, returns True."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            self._line.settimeout(seconds if self.idle is None else TICK)
            try:
                return self._line.recv(1 << 20)
            except TimeoutError as error:
                if until is not None and time.monotonic() >= until:
                    raise DebuggerError(
                        "the program does not answer: its Python is in native code; try again"
                    ) from error
            except OSError:
                return b""
            if self.idle is not None and self.idle():
                raise NoProgress

    def _send(self, message: dict[str, Any]) -> None:
        """Send the agent one message. DebuggerError if the program has ended."""
        try:
            self._line.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise DebuggerError("the program has ended") from error

    def _request(self, request_name: str, **fields: Any) -> Any:
        """Send the agent a request, and return its answer. DebuggerError if the agent reports an error."""
        if self._over is not None:
            raise DebuggerError("the program has ended")
        self._next += 1
        self._send({"id": self._next, "do": request_name, **fields})
        while True:
            message = self._receive_message(ANSWER)
            if message.get("id") == self._next:
                if "error" in message:
                    raise DebuggerError(message["error"])
                return message["answer"]
            self._pending.append(message)
            if (stop := message.get("stop")) and stop["why"] == "ended":
                raise DebuggerError("the program has ended")

    def _wait_for_stop(self, seconds: float | None) -> Stop:
        """Return the next stop of the program, waiting at most `seconds`. If the agent reports meanwhile that all is
        idle, look for a deadlock, and return it as a stop.
        """
        while True:
            message = self._pending.pop(0) if self._pending else self._receive_message(seconds)
            if "stop" in message:
                return self._parse_stop(message["stop"])
            if "idle" in message:
                with suppress(DebuggerError):  # it has gone on, or to its end, while it was asked
                    if (stop := self._find_hang(message)) is not None:
                        return stop

    def _find_hang(self, idle_message: dict[str, Any]) -> Stop | None:
        """Return a stop that explains why an idle program can do nothing any more: a lost wake-up, a deadlock, held
        tasks, or another hang. None if the program may continue. `idle_message`: the agent's report.
        """
        rows = self.tasks()
        if lost := idle_message.get("lost"):
            return Stop("stuck", text=hang_messages.render_lost_wakeups(lost, rows))
        if found := find_deadlocks(rows):
            return make_deadlock_stop(found[0])
        if not idle_message["quiet"] or not rows:
            return None
        if idle_message["held"]:
            return Stop(
                "stuck",
                text=hang_messages.render_all_held_by_user([row for row in rows if row.id in idle_message["held"]]),
            )
        return Stop("stuck", text=self._render_hang(rows))

    def _make_go_request(self, movement: Movement, task: int | None, *, child: bool) -> dict[str, Any]:
        """Return the message that asks the agent to let the program continue until a task has made a movement. The
        agent ignores it if the program has stopped again since.
        """
        return {"do": "go", "how": movement, "task": task, "child": child, "seen": self._seen}

    def _parse_stop(self, stop_dict: dict[str, Any]) -> Stop:
        """Return the stop that a dictionary of the agent describes. The program's end is also stored, for later
        commands.
        """
        self._seen = stop_dict.get("number", self._seen)
        at = parse_site(stop_dict["at"])
        text, over = stop_dict.get("text", ""), stop_dict.get("over", False)
        if stop_dict.get("change"):
            text = change_text(*stop_dict["change"], over=over)
        made = Stop(stop_dict["why"], stop_dict["task"], at, stop_dict.get("worker"), stop_dict.get("breakpoint"), text,
                    stop_dict.get("code"), stop_dict.get("name", ""), (stop_dict["breakpoint"],) if over else (),
                    stop_dict.get("kind", "task"))  # fmt: skip
        if made.why == "ended":
            self._over = Stop("ended", code=self._exit_status(made.code), text=made.text)
            return self._over
        return made

    # What a backend does

    def tasks(self) -> list[TaskRow]:
        """Return the table of tasks, which the agent reads from asyncio itself."""
        with gc_paused():
            return parse_rows(self._request("tasks"))

    def advance(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let the program run until a task has made a movement, such as a step, and return the stop there. `child`:
        follow the next task that it creates.
        """
        if self._over is not None:
            return self._over
        self._pending = [message for message in self._pending if "stop" in message]
        if not self._pending:
            self._send(self._make_go_request(movement, task, child=child))
        return self._wait_for_stop(None)

    def frames(self, task: int | None, *, with_libraries: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """Return (a task's frames, innermost first; where the task and each of its ancestors was created, the task's
        own first).
        """
        answer = self._request("frames", task=task, every=with_libraries)
        frames = [site for row in answer["frames"] if (site := parse_site(row))]
        return frames, [Spawn(row["task"], row["name"], parse_site(row["at"])) for row in answer["spawns"]]

    def evaluate(self, task: int | None, expression: str, level: int, gdb_format: str = "") -> str:
        """Return the value of an expression in a task's frame as text. `level`: of the frame, 0 for the innermost.
        UsageError if a `gdb_format` is given, as Python has none.
        """
        if gdb_format:
            raise UsageError(
                "formats such as print/x are for native tasks; in Python write: `print hex(n)`, `print f'{n:b}'`"
            )
        return str(self._request("evaluate", task=task, text=expression, level=level))

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """Return the names and values of the variables of a task's frame."""
        return [(str(name), str(value)) for name, value in self._request("locals", task=task, level=level)]

    def assign(self, task: int | None, name: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable of a task's frame; return the value as text."""
        return str(self._request("assign", task=task, name=name, text=expression, level=level))

    def find_task_of_value(self, frame_task: int | None, expression: str) -> int:
        """Return the number of the task whose Task object or coroutine an expression yields. DebuggerError if it yields
        something else. `frame_task`: the task in whose frame it is evaluated.
        """
        found, value = self._request("held", task=frame_task, text=expression)
        if found is None:
            raise DebuggerError(f"{expression} is {value}, not a living task")
        return int(found)

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Replace all breakpoints by `points`. DebuggerError if a line has no code."""
        for point in points:
            require_code_at_line(point)
        self._request("points", points=[point.as_dict() for point in points])

    def watch(self, number: int, task: int | None, expression: str, level: int) -> str:
        """Watch an expression in a task's frame as breakpoint `number`; return its value now."""
        return str(self._request("watch", number=number, task=task, text=expression, level=level))

    def unwatch(self, number: int) -> None:
        """Remove a watchpoint."""
        self._request("unwatch", number=number)

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        self._request("name", task=task, name=name)

    def explain_hang(self) -> str:
        """Return text that says why nothing can happen in the program any more, or that an event loop sleeps although a
        callback is ready. Empty if neither is the case, or if the reason is not known.
        """
        if self._over is not None:
            return ""
        is_quiet, lost = self._request("quiet"), self._request("lost")
        if is_quiet or lost:  # a thread of a pool that is about to take up work looks idle for an instant
            time.sleep(AGAIN)
        if lost:
            keys = [row["key"] for row in lost]
            lost = [row for row in self._request("lost") if row["key"] in keys]
        if lost:
            return hang_messages.render_lost_wakeups(lost, self.tasks())
        if is_quiet and self._request("quiet"):
            return self._render_hang(self.tasks())
        return ""

    def _render_hang(self, rows: list[TaskRow]) -> str:
        """Return in words why nothing can happen in the program any more; `rows`: its tasks."""
        cancelled = self._request("delays")["cancelled"]
        return hang_messages.render_hang(self._request("hung"), cancelled, rows)

    def explain_delay(self) -> str:
        """Return in words what holds up a program that is not hung; empty if no reason is known."""
        if self._over is not None:
            return ""
        objects = self._request("hung", most=MOST_SEARCHED)
        return hang_messages.render_delays(self._request("delays"), objects, self.tasks())

    def explain_missing_tasks(self) -> str:
        """Return that the program has tasks of another library than asyncio; empty if it has none."""
        found = self._request("unseen") if self._over is None else ""
        return f"the program runs {found}, whose tasks are not followed: only asyncio's are" if found else ""

    def children(self) -> list[tuple[int, str]]:
        """Return number and name of each living process that the program has made by multiprocessing."""
        return [(int(pid), str(name)) for pid, name in self._request("children")] if self._over is None else []

    def hold(self, task: int, *, on: bool) -> str:
        """Hold a task, so that it makes no step while the others run, or release it."""
        self._request("hold", task=task, on=on)
        return ""

    def workers_of_held(self) -> dict[int, int]:
        """Return nothing: a held task takes no thread."""
        return {}

    def catch(self, exception_name: str, *, on: bool) -> None:
        """Stop if a task ends by an exception of a name (empty: of any), or no longer."""
        self._request("catch", name=exception_name, on=on)

    def interrupt(self) -> Stop:
        """Stop the event loop between two steps of tasks, and return the stop. If the loop does not come there within 2
        s, return a stop `interrupted` all the same, which says what holds the loop up; the program keeps running.
        """
        if self._over is not None:
            return self._over
        verdict = ""
        with suppress(DebuggerError):  # an interrupt wakes a loop that sleeps
            verdict = self.explain_hang() or self.explain_delay()
        if self._over is not None:
            return self._over
        self._send({"id": 0, "do": "interrupt"})
        until = time.monotonic() + 2
        while time.monotonic() < until:
            try:
                message = self._receive_message(0.5)
            except DebuggerError:
                continue
            if "stop" in message:
                stop = self._parse_stop(message["stop"])
                return replace(stop, text=verdict) if verdict and stop.why == "interrupted" else stop
        return Stop("interrupted", text=verdict or self._describe_main_thread())

    def _describe_main_thread(self) -> str:
        """Return in words where the main thread is, and whether it waits or computes. Used for a program whose loops
        cannot be stopped.
        """
        with suppress(DebuggerError):
            told, missing = self._request("main"), self.explain_missing_tasks()
            at = parse_site(told["at"])
            where = f" at {at}" if at is not None else ""
            inner = f", inside {told['library']}" if told["library"] else ""
            words = f"the main thread {'waits' if told['asleep'] else 'computes'}{where}{inner}"
            return "; ".join(filter(None, [words, missing]))
        return "the program computes; Weft inspects it while it runs"


class RankConversation(AgentConversation):
    """Conversation with the agent in an MPI rank of a replay; the rank runs between commands unless it is at a stop."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connect_unix_socket(self._line, path)
        except OSError as error:
            raise DebuggerError(
                f"Weft's agent in the rank does not answer ({error.strerror}): `restart` begins again"
            ) from error

    def resume_task(self, movement: Movement, task: int | None, *, child: bool = False) -> None:
        """Let the rank continue without waiting for its stop."""
        self._send(self._make_go_request(movement, task, child=child))

    def wait_for_stop(self) -> Stop:
        """Wait until the task that was resumed has moved on."""
        return self._wait_for_stop(None)

    def poll_stop(self) -> Stop | None:
        """Return the next stop that the agent has already reported; None if there is none. Does not wait."""
        while self._pending or select.select([self._line], [], [], 0)[0] or b"\n" in self._text:
            message = self._pending.pop(0) if self._pending else self._receive_message(ANSWER)
            if "stop" in message:
                return self._parse_stop(message["stop"])
        return None

    def inspect_frame(self, task: int, level: int, request: str, **given: Any) -> dict[str, Any]:
        """Return the answer of the rank's agent to a request about a task's frame. `request`: `about`, `parts` or
        `assign`; `given`: the arguments of the request.
        """
        found: dict[str, Any] = self._request("look", task=task, level=level, what=request, given=given)
        return found

    def stop_following(self) -> None:
        """Stop following a task; the rank keeps running."""
        self._request("forget")

    def close(self) -> None:
        """Disconnect from the rank."""
        self._line.close()


class PythonBackend(AgentConversation):
    """A Python program that is started by its command."""

    def __init__(self, command: PythonCommand, *, record: str = "", replay: str = "") -> None:
        super().__init__()
        self._command = command
        self._schedule = ("record", record) if record or not replay else ("replay", replay)
        self._out = ProgramOutput()
        self.program: subprocess.Popen[bytes]

    def start(self) -> Stop:
        """Start the program, and stop before its first line. UsageError if its Python is too old."""
        schedule.check_schedule_file(*self._schedule, "asyncio")
        ours, theirs = socket.socketpair()
        asked = self._command
        command = [asked.interpreter, *asked.options, str(INSIDE), str(theirs.fileno()), find_birth_library(),
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
        stop = self._wait_for_stop(ANSWER)
        if stop.why == "ended":
            self._raise_start_error(stop)
        how, path = self._schedule
        if path:
            self._request("schedule", how=how, path=str(Path(path).resolve()))
        return stop

    def _raise_start_error(self, stop: Stop) -> None:
        """Raise a UsageError that says why the program did not begin: an unsuitable Python, or the program's own
        output.
        """
        asked = [self._command.interpreter, "-c", "import sys; print(sys.version)"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=ANSWER, check=False)
        version = tuple(int(word) for word in done.stdout.split(" ", 1)[0].split(".")[:2] if word.isdigit())
        if is_free_threaded(done.stdout):
            raise UsageError(
                explain_free_threaded(self._command.interpreter, done.stdout, "whose tasks cannot be followed")
            )
        if version and version < OLDEST:
            told, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
            raise UsageError(f"{self._command.interpreter} is Python {told}: tasks can be followed from {oldest} on")
        raise UsageError(
            f"the program did not start (status {stop.code}): {self.output().strip() or 'it printed nothing'}"
        )

    def _exit_status(self, code: int | None) -> int | None:
        """Return the exit status of the process, which may differ from `code`, the status of its main module. If the
        process does not end within 5 s, return `code`.
        """
        try:
            return self.program.wait(5)
        except subprocess.TimeoutExpired:
            return code

    def output(self) -> str:
        """Return what the program has written since the last call."""
        return self._out.read_new_output()

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


def require_code_at_line(point: Point) -> None:
    """Raise a DebuggerError if a breakpoint is at a line without code. A file that cannot be read here is not
    checked.
    """
    lines = find_code_lines(point.file) if point.line else frozenset()
    if lines and point.line not in lines:
        after = min((line for line in lines if line > point.line), default=0)
        hint = f"; the next line with code is {after}" if after else ""
        raise DebuggerError(f"there is no code in line {point.line} of {point.file}{hint}")


@cache
def find_code_lines(file: str) -> frozenset[int]:
    """Return the lines of a Python file at which a breakpoint can stop; empty if the file cannot be read."""
    found: set[int] = set()
    with suppress(OSError, SyntaxError, ValueError):
        todo = [compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)]
        while todo:
            code = todo.pop()
            found |= {line for _, _, line in code.co_lines() if line}
            todo += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(found)


STATES: tuple[State, ...] = ("new", "top", "middle", "heap")


def parse_rows(table: dict[str, Any]) -> list[TaskRow]:
    """Return the table of tasks and threads from the agent's message. It has the table as columns, in which sites and
    waits are given by their index.
    """
    sites = [parse_site(site) for site in table["sites"]]
    waits = [Wait(kind, (), None if at is None else sites[at], *rest) for kind, at, *rest in table["waits"]]
    waiting = [None if number is None else waits[number] for number in table["wait"]]
    for i, others in zip(table["waiting"], table["targets"], strict=True):
        kind, _, site, one, free, what = waiting[i]
        waiting[i] = Wait(kind, (others,) if isinstance(others, int) else tuple(others), site, one, free, what)
    count = len(waiting)
    stacked = {STATES.index("top"), STATES.index("middle")}
    columns = (
        table["ids"], [parent or None for parent in table["parents"]], [STATES[state] for state in table["states"]],
        fill_column(table["names"], "", count), [None if at is None else sites[at] for at in table["created"]],
        [None if at is None else sites[at] for at in table["at"]], waiting, fill_column(table["workers"], None, count),
        parse_blockers(table), count_tasks_below_on_stack(table["states"]),
        [None if state in stacked else at for state, at in zip(table["states"], table["addresses"], strict=True)],
        table["pedigrees"] or [""] * count, ["task"] * count, [None] * count,
    )  # fmt: skip
    # No frame of Python for each: `Task(...)` takes three times as long.
    rows = list(map(partial(tuple.__new__, TaskRow), zip(*columns, strict=True)))
    return add_thread_rows(rows, table["threads"]) if table["threads"] else rows


def parse_blockers(table: dict[str, Any]) -> list[int | None]:
    """Return, for each task, the number of the task that blocks its loop and has to go on first; None if none does."""
    above = table["above"]
    return [above.get(str(id_)) for id_ in table["ids"]] if above else [None] * len(table["ids"])


def count_tasks_below_on_stack(states: list[int]) -> list[int | None]:
    """Return for each task how many others are suspended below it on its event loop's stack: a task that is started
    eagerly runs on top of the one that created it. None if the state of the task does not show it.

    `states`: for each task the index of its state in STATES.
    """
    buried = states.count(STATES.index("middle"))
    known = {STATES.index("top"): buried, STATES.index("middle"): 0 if buried == 1 else None}
    return [known.get(state) for state in states]


def fill_column(values: dict[str, object], default: object, count: int) -> list[object]:
    """Return a column of the table with `count` values. `values`: by row, written as text (a key of JSON); all other
    rows get `default`.
    """
    column = [default] * count
    for i, value in values.items():
        column[int(i)] = value
    return column
