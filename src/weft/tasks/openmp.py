"""The backend for OpenMP: gdb as it is, and Weft's OMPT tool in the program, whose table it reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.base.interrupts import kept
from weft.debug.answers import change
from weft.errors import DebuggerError, UsageError
from weft.gdb.mi import core_names, quoted, strip_reference, word
from weft.gdb.point import Point
from weft.tasks import layout, schedule
from weft.tasks.backend import How, Spawn, Stop
from weft.tasks.bodies import Bodies
from weft.tasks.gdb import Frame, Gdb, Terminal, is_own, site_of
from weft.tasks.holds import Holds
from weft.tasks.model import NO_CODE, SourceLine, Task, deadlocks
from weft.tasks.mutexes import with_mutexes
from weft.tasks.runtime import check, in_turns, settings
from weft.tasks.stacks import Lies, cropped, frames_of, holder, leaving, level_at, lying, placed

STACKED = (layout.TOP, layout.MIDDLE)
Event = tuple[str, int, int, int]
"""What a traced task did, the address of its record, that of the other one, and gdb's thread."""
NO_LINES = "knows no lines: compile with -g; without it, `tasks`, `waits` and breakpoints on functions are what is left"
BEFORE_MAIN = "the program stands before the first instruction of its main: no variable has a value yet"
MADE_UP = re.compile(r"\.|__context$")
"""Variables of clang's and gcc's own in the bodies of tasks."""
STEPS = 20
"""Lines of the compiler's own that a task may come through before one of the program's."""
NOT_TAKEN = re.compile(r"No frame is currently executing in block (.+)\.$")
"""gdb's words for a variable of the function around a task's body, which gcc did not give to the task."""
SENTENCE = 160
"""Bytes in which turns.c says where a replay left its record."""
LOOK = (1.0, 2.0, 4.0, 8.0)
"""Seconds after which a program that does not stop is looked at for a deadlock, again and again by the last."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A watched expression by the debugger's number; gdb's breakpoint at which what it means is there no more."""

    id: int
    text: str
    end: str = ""


class NativeBackend:
    """One OpenMP program under gdb."""

    runtime = "OpenMP"

    def __init__(
        self,
        command: Sequence[str],
        library: str = "",
        *,
        pid: int = 0,
        core: Path | None = None,
        turns: tuple[str, str] | None = None,
    ) -> None:
        self._turns = turns  # "record" or "replay", and the file
        self._left = ""
        self._program = str(Path(command[0]).resolve()) if command else ""
        self._arguments = list(command[1:])
        self._library = library
        self._pid, self._core = pid, core
        self._holds: Holds | None = None
        self._names: dict[int, str] = {}
        self._signal = ""
        self._base = 0
        self._child = False
        self._suspended = 0
        self._made: Bodies | None = None
        self._leave = set[str]()
        self._behind: dict[str, Point] = {}
        """Breakpoints behind the beginnings of bodies, where gdb has put its own before them."""
        self._terminal: Terminal | None = None
        self._looks = 0
        self._join = 0
        self._depth = 0
        self._skipping = False  # over the compiler's own lines, after which a line may be told again
        self._from: tuple[Any, object] = (0, "")
        self._watches: dict[str, Watch] = {}
        self._ends: dict[str, str] = {}
        """gdb's breakpoints where frames return with something watched in them, by thread and place."""

    @classmethod
    def over(cls, gdb: Gdb, pid: int) -> NativeBackend:
        """On a process that a gdb holds already, halted."""
        made = cls([], pid=pid)
        made._gdb, made._program = gdb, os.path.realpath(f"/proc/{pid}/exe")
        made._took()
        return made

    def start(self) -> Stop:
        """Start the program, or come to one that runs or did; it stands at its main, or where it was."""
        if self._pid or self._core:
            return self._come()
        check(Path(self._program))
        environment = settings(self._library)
        if self._turns is not None:
            schedule.check(*self._turns, "openmp")
            environment |= in_turns(*self._turns)
        self._terminal = Terminal()
        self._gdb = Gdb()
        self._gdb.begin(self._program, self._arguments, environment, self._terminal.name)
        self._took()
        stop = self._here("start", self._thread())
        return stop if stop.at is not None else replace(stop, text=f"{self._program} {NO_LINES}")

    def _come(self) -> Stop:
        """Come to a process, or to a core file."""
        self._gdb = Gdb()
        if self._core is not None:
            if not self._core.is_file():
                raise UsageError(f"--core {self._core}: there is no such file")
            self._gdb.console(f"file {word(self._program)}")
            name, as_it_stands = core_names(self._core.resolve())
            try:
                self._gdb.console(f"core-file {name}")
            except DebuggerError:
                self._gdb.console(f"core-file {as_it_stands}")
        else:
            self._program = os.path.realpath(f"/proc/{self._pid}/exe")
            self._gdb.ask(f"-target-attach {self._pid}")
            self._gdb.wait(30)
        if not self._gdb.address("weft_tasks"):
            raise UsageError("Weft's tool is not in that program: start it under `env $(weft tasks --environment)`")
        if self._core is None:
            self._took()
        return self._here("core" if self._core else "interrupted", self._thread())

    def _took(self) -> None:
        """gdb has the program now."""
        groups = self._gdb.ask("-list-thread-groups").get("groups", [])
        self._gdb.pid = int(groups[0].get("pid", 0)) if groups else 0
        made = self._gdb.ask("-break-insert -f weft_tasks_signal")
        self._signal = str(made["bkpt"]["number"])
        if self._turns is not None:
            self._left = str(self._gdb.ask("-break-insert -f weft_turns_left")["bkpt"]["number"])

    def _thread(self) -> int:
        return int(self._gdb.ask("-thread-info").get("current-thread-id", 1))

    # The table

    def _records(self) -> tuple[Any, dict[int, int]]:
        ended = self._gdb.exited is not None
        if not self._base and not ended:
            self._base = self._gdb.address("weft_tasks")
        if not self._base or ended:
            return np.zeros(0, layout.RECORD), {}
        return layout.records(self._gdb.read, self._base)

    def tasks(self) -> list[Task]:
        """The table, read in bulk."""
        rows, owners = self._records()
        stacks = self._stacks(int(worker) for worker in rows["worker"][rows["state"] == layout.TOP])
        tops = {worker: top(stack) for worker, stack in stacks.items()}
        made = layout.TaskRows(rows, owners, self._gdb.read, site=self._gdb.site, tops=tops, names=self._names,
                               named=self._gdb.named)  # fmt: skip
        lies = {worker: lying(stack, layout.on_worker(rows, worker)) for worker, stack in stacks.items()}
        return with_mutexes(self._gdb, placed(made.tasks(), stacks, lies), stacks)

    def _stacks(self, workers: Iterable[int]) -> dict[int, list[Frame]]:
        threads = {worker: self._gdb.threads.get(worker) for worker in workers}
        return {worker: self._gdb.stack(thread) for worker, thread in threads.items() if thread}

    def _record(self, task: int) -> Any:
        """A task's record; None where it is done."""
        rows, _ = self._records()
        found = rows[rows["id"] == task]
        return found[0] if len(found) else None

    def _at(self, address: int) -> Any:
        """The record at an address."""
        rows, _ = self._records()
        return rows[rows["address"] == address][0]

    def on(self, worker: int) -> int | None:
        """The task on top of a worker."""
        rows, _ = self._records()
        found = rows[(rows["state"] == 2) & (rows["worker"] == worker)]
        return int(found[-1]["id"]) if len(found) else None

    def _trace(self, record: Any, what: int) -> None:
        self._gdb.write(int(record["address"]) + layout.TRACED, what, 2)

    # Running

    def go(self, how: How, task: int | None, *, child: bool) -> Stop:
        """Let the program run until one task has come on."""
        with kept():
            return self._go(how, task, child=child)

    def _go(self, how: How, task: int | None, *, child: bool) -> Stop:
        if self._core is not None:
            raise UsageError("a core file does not run: look at it with `tasks`, `where`, `waits` and `print`")
        if self._gdb.exited is not None:
            return self._ended()
        if self._holds is not None and task in self._holds and how != "continue":
            raise UsageError(f"task {task} is held: `release {task}` lets it go on, `continue` the others")
        self._child, self._looks = child, 0
        record = self._record(task) if task is not None else None
        self._watch(False)
        if record is None or how == "continue":
            if not self._base and how != "continue":
                return self._to_first(how)
            self._watch(task is None and how != "continue")
            return self._run("-exec-continue", how, None)
        self._trace(record, layout.RUNS | (layout.SPAWNS if child else 0))
        self._depth, self._skipping = 0, False
        with self._left_by(record):
            return self._onward(how, int(record["address"]))

    @contextmanager
    def _left_by(self, record: Any) -> Iterator[None]:
        """A breakpoint where a thread leaves its part of a region: the runtime calls that task done much later."""
        stacked = self.runtime == "OpenMP" and int(record["state"]) in STACKED
        thread = self._gdb.threads.get(int(record["worker"]), 0) if stacked else 0
        within = thread and int(record["parent"]) and not record["depth"] and not self._has_left(record)
        place = leaving(self._gdb.stack(thread)) if within else None
        if place is None:
            yield
            return
        floor = self._gdb.pointer("$sp", thread, int(place["level"]))
        with self._gdb.breakpoints([f"*{place['addr']}"], thread, floor) as made:
            self._leave = made
            try:
                yield
            finally:
                self._leave = set()

    def _to_first(self, how: How) -> Stop:
        """The tool is not there before the runtime starts: run up to its first implicit task, then watch."""
        first = str(self._gdb.ask("-break-insert -f on_implicit")["bkpt"]["number"])
        stop: dict[str, Any] = {}
        try:
            self._gdb.run("-exec-continue")
            stop = self._gdb.wait(None) or {}
        finally:
            if self._gdb.exited is None:
                self._gdb.ask(f"-break-delete {first}")
        if self._gdb.exited is not None:
            return self._ended()
        if stop.get("bkptno") != first:
            return self._happened(stop, how, None)
        self._watch(True)
        return self._run("-exec-continue", how, None)

    def forget(self) -> None:
        """Follow no task any more: the program runs on unheeded."""
        self._join = 0
        self._watch(False)

    def _watch(self, on: bool) -> None:
        base = self._base = self._base or self._gdb.address("weft_tasks")
        if base:
            self._gdb.write(base + layout.WATCH, layout.SPAWNS if on else 0, 4)
            rows, _ = self._records()
            for row in rows if on else rows[rows["traced"] & layout.SIGNALS != 0]:
                self._trace(row, layout.SPAWNS if on else 0)

    def _onward(self, how: How, address: int) -> Stop:
        """Let the traced task come on from where it is."""
        record = self._at(address)
        thread = self._gdb.threads.get(int(record["worker"])) if int(record["state"]) in STACKED else None
        # On no stack, and its record has what it lay on: it is done, and was not told yet.
        if (thread is None and int(record["state"]) == layout.HEAP and record["below"]) or self._has_left(record):
            return self._to_join(address)
        if thread is None:
            self._suspended = 0
            return self._run("-exec-continue", how, address)
        if int(record["state"]) == layout.TOP and self._own(record, self._gdb.stack(thread)) is None:
            self._suspended = 0
            return self._into(thread, address, new=True)
        if int(record["state"]) == layout.MIDDLE and (stop := self._uncovered(thread, record, how)) is not None:
            return stop
        stack = self._gdb.stack(thread)
        own = self._own(record, stack)
        if not own:
            return self._run("-exec-continue", how, address)
        deeper = len(own) - self._depth if how == "next" and self._depth else 0
        self._depth = self._depth or len(own)
        if deeper > 0 or own[0]["level"] != stack[0]["level"]:  # inside a call of a line that is not done yet
            own = own[max(deeper, 0) :]
            self._suspended = int(own[0]["line"])
            if (stop := self._return(thread, address, how, own[0])) is not None:
                return stop
            if how != "finish" and int(self._gdb.stack(thread)[0].get("line", 0)) not in (0, self._suspended):
                return self._here("line", thread)
        self._suspended = int(own[0]["line"])
        if not self._skipping:
            self._from = own[0]["line"], own[0].get("func")
        if how == "finish" and len(own) == 1:
            return self._run("-exec-continue", how, address)
        return self._run(f"-exec-{how} --thread {thread}", how, address)

    def _uncovered(self, thread: int, record: Any, how: How) -> Stop | None:
        """Let the tasks that lie on this one in its worker's stack go on, until it is back at its own line.

        A stop, where another one came first. The tasks above may be of the same lines: the table says whose they are.
        """
        address, task = int(record["address"]), int(record["id"])
        own = self._frames(task, {row.id: row for row in self.tasks()})[1]
        if not own:
            return self._run("-exec-continue", how, address)
        if how == "finish" and len(own) == 1:  # nothing to come back to: its end is told by itself
            return self._run("-exec-continue", how, address)
        floor = self._gdb.pointer("$sp", thread, int(own[0]["level"]))
        while self.on(int(record["worker"])) != task:
            if (stop := self._return(thread, address, how, own[0], floor)) is not None:
                return stop
        on = int(self._gdb.stack(thread)[0].get("line", 0)) not in (0, int(own[0]["line"]))
        return self._here("line", thread) if on and how != "finish" else None

    def _return(self, thread: int, address: int, how: How, to: Frame | None = None, floor: int = 0) -> Stop | None:
        """Run a thread out of a call to the program's line that made it; a stop if another one came first.

        `floor`: that frame's stack pointer. Tasks that the thread begins in the call may come to the same line.
        """
        to = to or next((frame for frame in self._gdb.stack(thread) if is_own(frame)), None)
        if to is None:
            return None
        floor = floor or self._gdb.pointer("$sp", thread, int(to["level"]))
        with self._gdb.breakpoints([f"*{to['addr']}"], thread, floor) as made:
            stop = self._continued()
            if stop.get("bkptno") in made or self._gdb.exited is not None:
                return None if self._gdb.exited is None else self._ended()
        return self._happened(stop, how, address)

    def _run(self, command: str, how: How, address: int | None) -> Stop:
        """Run, and take up what happens."""
        if command == "-exec-continue":
            return self._happened(self._continued(), how, address)
        self._gdb.run(command)
        return self._happened(self._await(), how, address)

    def _continued(self) -> dict[str, object]:
        """Let the program run to its next stop, over all looks at it."""
        while True:
            self._gdb.run("-exec-continue")
            stop = self._await()
            if not stop.get("looked"):
                return stop

    def _await(self) -> dict[str, object]:
        """The next stop. A program that does not stop is looked at now and then: it may be in a deadlock."""
        stop = self._gdb.wait(LOOK[min(self._looks, len(LOOK) - 1)])
        if stop is not None and stop.get("signal-name") == "SIGINT":  # that of a look which met another stop
            return {**stop, "looked": True}
        if stop is None:
            self._looks += 1
            stop = self._gdb.halt()
            if stop.get("signal-name") in ("SIGINT", "0"):
                if found := deadlocks(self.tasks()):
                    return {"deadlock": found[0]}
                if self._holds is not None and (told := self._holds.verdict(again=True)):
                    return {"held": told}
                return {**stop, "looked": True}
        return stop

    def _happened(self, stop: dict[str, Any], how: How, address: int | None) -> Stop:
        """What a stop means for the traced task."""
        if self._gdb.exited is not None:
            return self._ended()
        if "deadlock" in stop:
            found = stop["deadlock"]
            first = found.tasks[0]
            return Stop("deadlock", first.id, first.at, text=found.message, name=first.name)
        if "held" in stop:
            return Stop("stuck", text=stop["held"])
        reason, thread = str(stop.get("reason", "")), int(stop.get("thread-id", 0) or 0)
        if self._holds is not None and self._holds.arrived(stop):
            return self._resume(how, address)
        if (watched := self._changed(stop, thread)) is not None:
            return watched
        if reason == "breakpoint-hit" and stop.get("bkptno") == self._signal:
            if how == "continue":  # a thread had looked before it was told that no task is traced any more
                return self._run("-exec-continue", how, None)
            return self._signalled(self._event(thread), how)
        if reason == "breakpoint-hit" and stop.get("bkptno") in self._leave and address is not None:
            self._trace(self._at(address), 0)
            return self._to_join(address)
        if reason == "breakpoint-hit" and self._left and stop.get("bkptno") == self._left:
            told = self._gdb.read(int(self._gdb.evaluate("(unsigned long)text", thread)), SENTENCE)
            return self._here("interrupted", thread, text=told.split(b"\0")[0].decode())
        if reason == "breakpoint-hit":
            hit = self._visited(stop, thread)
            return hit if hit is not None else self._resume(how, address)
        if reason == "signal-received" and stop.get("signal-name") != "SIGINT":
            return self._here("signal", thread, text=f"{stop.get('signal-name')}: ")
        if reason in ("end-stepping-range", "function-finished"):
            frame = self._gdb.stack(thread)[0]
            if is_own(frame):
                made_up = self._bodies.is_made_up(frame)
                again = self._skipping and (frame["line"], frame.get("func")) == self._from
                if not made_up and not again:
                    return self._here("line", thread)
                self._skipping = made_up or again
        return self._resume(how, address)

    def _visited(self, stop: dict[str, Any], thread: int) -> Stop | None:
        """A stop at a person's breakpoint, where that is for the task that came there."""
        number = str(stop.get("bkptno"))
        point = self._gdb.points.get(number) or self._behind.get(number)
        if point is None or not self.meant(point, thread):
            return None
        if point.line and self._bodies.is_elsewhere(self._gdb.stack(thread)[0]):
            return None
        if self._holds is not None and self._holds.passed(thread, int(stop["frame"]["addr"], 16)):
            return None
        return self._here("breakpoint", thread, point=point.id)

    def _changed(self, stop: dict[str, Any], thread: int) -> Stop | None:
        """A stop at something watched: its value is another one, or the frame that has it is about to be left."""
        ended = {key: one for key, one in self._watches.items() if one.end and one.end == stop.get("bkptno")}
        if ended:
            for key in ended:
                self._unwatch(key)
            numbers = tuple(one.id for one in ended.values())
            text = "; ".join(change(one.text, "", "") for one in ended.values())
            return replace(self._here("watch", thread, point=numbers[0], text=text), over=numbers)
        watch = self._watches.get(str(stop["wpt"]["number"])) if "wpt" in stop else None
        if watch is None:
            return None
        values = stop.get("value") or {}
        text = change(
            watch.text, strip_reference(str(values.get("old", ""))), strip_reference(str(values.get("new", "")))
        )
        return self._here("watch", thread, point=watch.id, text=text)

    def _resume(self, how: How, address: int | None) -> Stop:
        """Go on where something else than the traced task stopped the program."""
        if address is None or how == "continue":
            return self._run("-exec-continue", how, address)
        thread = self._arrived(how, address)
        return self._here("line", thread) if thread else self._onward(how, address)

    def _arrived(self, how: How, address: int) -> int:
        """The traced task's thread where it stands at its next line already: the other stop came before gdb's own."""
        record = self._at(address)
        thread = self._gdb.threads.get(int(record["worker"]), 0) if int(record["state"]) == 2 else 0
        if not thread or how == "finish" or self._skipping:
            return 0
        stack = self._gdb.stack(thread)
        frame = stack[0]
        if not is_own(frame) or (frame["line"], frame.get("func")) == self._from or self._bodies.is_made_up(frame):
            return 0
        own = self._own(record, stack)
        here = own is not None and len(own) == self._depth and own[0]["level"] == frame["level"]
        return thread if here and frame.get("func") == self._from[1] else 0

    def _event(self, thread: int) -> Event:
        event, of, other = (
            int(self._gdb.evaluate(f"(unsigned long){name}", thread)) for name in ("event", "of", "other")
        )
        return layout.EVENTS[event], of, other, thread

    def _signalled(self, event: Event, how: How) -> Stop:
        """A hook of the traced task."""
        name, of, other, thread = event
        if name == "create":
            return self._to_child(other)
        if name in ("begin", "resume"):
            return self._into(thread, of, new=name == "begin")
        if name == "done":
            return self._to_join(of)
        if name == "joined" and self._join == of:
            self._join = 0
            record = self._at(of)
            self._trace(record, 0)
            stop = self._return(thread, of, "next")
            return stop or self._here("joined", thread)
        if name == "suspend" or int(self._at(of)["state"]) != 2:
            return self._run("-exec-continue", how, of)
        return self._onward(how, of)

    def _to_child(self, child: int) -> Stop:
        self._watch(False)
        self._trace(self._at(child), layout.RUNS)
        self._child = False
        return self._run("-exec-continue", "step", child)

    def _to_join(self, done: int) -> Stop:
        """The traced task is done: on to the task that waits for it, when that goes on."""
        record = self._at(done)
        rows, _ = self._records()
        onward = self._joiner(record, rows)
        if onward is None:
            return Stop("done", int(record["id"]))
        self._trace(onward, layout.JOINS)
        self._join = int(onward["address"])
        return self._run("-exec-continue", "next", self._join)

    def _joiner(self, record: Any, rows: Any) -> Any:
        parent = rows[rows["id"] == record["parent"]]
        if len(parent):
            return self._joiner(parent[0], rows) if self._has_left(parent[0]) else parent[0]
        group = rows[(rows["what"] == record["scope"]) & (rows["wait"] == layout.GROUP)]
        team = rows[(rows["scope"] == record["scope"]) & np.isin(rows["wait"], layout.BARRIERS)]
        return group[0] if len(group) else team[0] if len(team) else None

    def _has_left(self, record: Any) -> bool:
        """Whether a thread has done its part of a region: as that task it comes to no line of the program any more."""
        return any(one.left for one in self._with(record) if one.id == record["id"])

    def _own(self, record: Any, stack: list[Frame]) -> list[Frame] | None:
        """The frames of a task on top of a worker; None where it has not come to its code, or has just left it."""
        with_it = self._with(record)
        part = lying(stack, with_it)[int(record["id"])] if with_it else 0
        return cropped(stack, part) if part != NO_CODE else None

    def _with(self, record: Any) -> list[Lies]:
        """What lies on a task's worker."""
        return layout.on_worker(self._records()[0], int(record["worker"])) if self.runtime == "OpenMP" else []

    def _into(self, thread: int, address: int, *, new: bool) -> Stop:
        """A worker is about to begin or resume the traced task: on to the line of its body."""
        with self._gdb.breakpoints([f"'{name}'" for name in self._bodies.tasks], thread) as made:
            self._gdb.run("-exec-continue")
            while True:
                stop = self._gdb.wait(None) or {}
                if self._gdb.exited is not None:
                    return self._ended()
                if stop.get("bkptno") in made:
                    break
                if stop.get("bkptno") == self._signal:
                    return self._signalled(self._event(int(stop["thread-id"])), "next")
                thread_of = int(stop.get("thread-id", 0) or 0)
                if self._holds is not None and self._holds.arrived(stop):
                    self._gdb.run("-exec-continue")
                    continue
                if (other := self._changed(stop, thread_of) or self._visited(stop, thread_of)) is not None:
                    return other
                self._gdb.run("-exec-continue")
        skipped, steps, beginning = set() if new else {self._suspended}, 0, False
        while steps < STEPS:
            frame, before = self._gdb.stack(thread)[0], beginning
            beginning = self._bodies.is_beginning(int(frame["addr"], 16))
            amid = before and not beginning and not self._is_first(thread)  # of a line that it was suspended in
            told = not amid and is_own(frame) and int(frame["line"]) not in skipped
            if told and not self._bodies.is_made_up(frame):
                return self._here("line", thread)
            steps += not beginning
            self._suspended = 0 if beginning and new else self._suspended
            self._gdb.run(f"-exec-{'next-instruction' if beginning else 'step'} --thread {thread}")
            stop = self._gdb.wait(None) or {}
            if self._gdb.exited is not None or stop.get("reason") != "end-stepping-range":
                return self._happened(stop, "step", address)
        return self._here("line", thread)

    def _is_first(self, thread: int) -> bool:
        """Whether an untied task of clang's comes to its code for the first time: its part is 0 before, then 1."""
        told = self._gdb.ask(f"-stack-list-variables --thread {thread} --frame 0 --all-values")["variables"]
        part = next((str(one.get("value", "")) for one in told if one["name"] == ".part_id."), "")
        with suppress(DebuggerError, ValueError):
            return int.from_bytes(self._gdb.read(int(part, 16), 4), "little") == 1
        return False

    @property
    def _bodies(self) -> Bodies:
        if self._made is None:
            self._made = Bodies(self._gdb, self._program)
        return self._made

    def meant(self, point: Point, thread: int) -> bool:
        """Whether a breakpoint is for the task that hit it."""
        if point.task is None and not point.pedigree:
            return True
        at, records = self.on(self._gdb.lwp(thread)), self._records()[0]
        rows = {int(row["id"]): int(row["parent"]) for row in records}
        ways = {int(row["id"]): layout.pedigree(int(row["pedigree"])) for row in records} if point.pedigree else {}
        while at is not None and at != point.task and (not ways or ways.get(at) != point.pedigree):
            at = rows.get(at) if point.descendants else None
        return at is not None

    def _here(self, why: Any, thread: int, *, point: int | None = None, text: str = "") -> Stop:
        stack, worker = self._gdb.stack(thread), self._gdb.lwp(thread)
        task = self.on(worker) if self._base or why != "start" else None
        at = top(stack)
        if task is not None and at is not None and not is_own(stack[0]):  # the line may be another's
            at = next((row.at for row in self.tasks() if row.id == task), at)
        return Stop(why, task, at, worker, point, text, name=self._names.get(task or 0, ""))

    def _ended(self) -> Stop:
        if self._terminal:
            self._terminal.drain()
        return Stop("ended", code=self._gdb.exited)

    # Looking

    def frames(self, task: int | None, *, every: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """A task's own frames, innermost first, and the chain of spawns."""
        rows = {row.id: row for row in self.tasks()}
        return [site_of(frame) for frame in self._frames(task, rows, every=every)[1]], spawns(task, rows)

    def _frames(self, task: int | None, rows: dict[int, Task], *, every: bool = False) -> tuple[int, list[Frame]]:
        if self._gdb.exited is not None:
            raise DebuggerError("the program has come to its end: there are no tasks and no frames any more")
        row = rows.get(task or 0)
        if row is None:
            thread = self._thread()
            return thread, [frame for frame in self._gdb.stack(thread) if every or is_own(frame)]
        return frames_of(self._gdb, row, rows, every=every)

    def levels(self, task: int) -> tuple[int, list[int]]:
        """gdb's number of the thread that a task is on, and of each of its frames there."""
        thread, frames = self._frames(task, {row.id: row for row in self.tasks()})
        return thread, [int(frame["level"]) for frame in frames]

    def evaluate(self, task: int | None, text: str, level: int, form: str = "") -> str:
        """The value of an expression in a task's frame."""
        thread, at = self._level(task, level)
        if self._before_main(at):
            told = self._gdb.ask(f"-stack-list-variables --thread {thread} --frame {at} --no-values")["variables"]
            if {str(one["name"]) for one in told} & set(re.findall(r"\w+", text)):
                raise DebuggerError(BEFORE_MAIN)
        try:
            return self._gdb.value(text, thread, at, form)
        except DebuggerError as error:
            if outside := NOT_TAKEN.search(str(error)):
                raise DebuggerError(
                    f"{text}: {outside[1]} has that, and the task does not have it: nothing in it uses it"
                ) from error
            raise

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """The variables of a task's frame, and their values."""
        thread, at = self._level(task, level)
        if self._before_main(at):
            raise DebuggerError(BEFORE_MAIN)
        told = self._gdb.ask(f"-stack-list-variables --thread {thread} --frame {at} --all-values")["variables"]
        return [
            (name, strip_reference(str(one.get("value", ""))))
            for one in told
            if not MADE_UP.match(name := str(one["name"]))
        ]

    def _before_main(self, level: int) -> bool:
        """Whether the program stands before the first instruction of its main, which has made no room for variables."""
        return level == 0 and not self._gdb.ran and not (self._pid or self._core)

    def assign(self, task: int | None, name: str, text: str, level: int) -> str:
        """Give a variable of a task's frame the value of an expression there."""
        return self.evaluate(task, f"{name} = {text}", level)

    def _level(self, task: int | None, level: int) -> tuple[int, int]:
        """gdb's numbers of a task's thread and frame. DebuggerError where it is in none."""
        thread, frames = self._frames(task, {row.id: row for row in self.tasks()})
        if not frames:
            raise DebuggerError("the task is in no frame: it has not begun, or lies on the heap")
        return thread, int(frames[min(level, len(frames) - 1)]["level"])

    def held(self, task: int | None, text: str) -> int:
        """The task that a pointer leads to: the one in whose frames it points."""
        rows = {row.id: row for row in self.tasks()}
        thread, frames = self._frames(task, rows)
        level = int(frames[0]["level"]) if frames else 0
        address = int(self._gdb.evaluate(f"(unsigned long)({text})", thread or self._thread(), level))
        found = holder(self._gdb, address, rows)
        if found is None:
            raise DebuggerError(f"{text} is {address:#x}, and lies in no task's frames")
        return found

    def arm(self, points: Sequence[Point]) -> None:
        """Take these as the breakpoints; in bodies that have a beginning of the compiler's, where the line is done."""
        for number in self._behind:
            self._gdb.ask(f"-break-delete {number}")
        self._behind = {}
        self._gdb.arm(points)
        for point in [point for point in points if point.line]:
            for place in self._bodies.places(point.file, point.line):
                made = self._gdb.insert(point, f"*{place:#x}")
                self._behind[str(made["bkpt"]["number"])] = point

    def watch(self, number: int, task: int | None, text: str, level: int) -> str:
        """Stop as `number` where what is in memory there now changes, until the frame that it lies in has returned."""
        if self._core is not None:
            raise UsageError("a core file does not run: nothing in it changes")
        value = self.evaluate(task, text, level)
        thread, at, words = self._words(task, text, level)
        address = self._gdb.pointer(f"$weft{number} = &({words})", thread, at)
        end = self._end_of(address, thread)
        try:
            with self._gdb.set_to("language", "c", "auto"):  # Fortran has no word for what a pointer points to
                made = self._gdb.ask(f"-break-watch *$weft{number}")
        except DebuggerError:
            self._let_go(end)
            raise
        self._watches[str(next(v for k, v in made.items() if "wpt" in k)["number"])] = Watch(number, text, end)
        return value

    def _words(self, task: int | None, text: str, level: int) -> tuple[int, int, str]:
        """gdb's numbers of a task's thread and frame, and its words for an expression there."""
        return *self._level(task, level), text

    def _end_of(self, address: int, thread: int) -> str:
        """A breakpoint where the frame returns that a variable lies in; empty for one that lies in no frame.

        It is the caller's next instruction, once the stack does not reach down to the variable any more.
        """
        for one in dict.fromkeys((thread, *self._gdb.threads.values())):
            with self._gdb.set_to("backtrace past-main", "on", "off"):  # it is left, too
                stack = self._gdb.stack(one)
                level = level_at(self._gdb, one, len(stack), address)
                if level is None or level + 1 >= len(stack):
                    continue
                place, top = stack[level + 1]["addr"], self._gdb.pointer("$sp", one, level + 1)
            where = f"-p {one} -c {quoted(f'$sp >= {top}')} *{place}"
            if where not in self._ends:
                with self._gdb.set_to("language", "c", "auto"):
                    self._ends[where] = str(self._gdb.ask(f"-break-insert {where}")["bkpt"]["number"])
            return self._ends[where]
        return ""

    def unwatch(self, number: int) -> None:
        """Watch it no more."""
        for key in [key for key, one in self._watches.items() if one.id == number]:
            self._unwatch(key)

    def _unwatch(self, key: str) -> None:
        end = self._watches.pop(key).end
        with suppress(DebuggerError):
            self._gdb.ask(f"-break-delete {key}")
        self._let_go(end)

    def _let_go(self, end: str) -> None:
        """Take the breakpoint at a frame's return away, where it is for nothing watched any more."""
        if any(one.end == end for one in self._watches.values()):
            return
        for where in [where for where, number in self._ends.items() if number == end]:
            del self._ends[where]
            with suppress(DebuggerError):
                self._gdb.ask(f"-break-delete {end}")

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        self._names[task] = name

    def verdict(self) -> str:
        """A native program's deadlocks are circles, which `waits` tells; else what is held may be in the way."""
        return self._holds.verdict() if self._holds is not None else ""

    def unseen(self) -> str:
        """That there are none yet. Of other kinds of native tasks nothing is known."""
        begun = self._base or self._gdb.exited is not None
        return "" if begun else f"the runtime of {self.runtime} has not begun: the first region or task does that"

    def hold(self, task: int, *, on: bool) -> str:
        """Let a task make no step while the others go on, or again: with its thread (holds.py)."""
        if self.runtime != "OpenMP":
            raise UsageError(
                f"a task of {self.runtime} cannot be held: that would hold its thread, and all that lies beneath it"
            )
        if self._core is not None:
            raise UsageError("a core file does not run: nothing in it can be held")
        if self._turns is not None:
            raise UsageError("a task is held without --record and --replay only, which choose themselves who goes on")
        if self._holds is None:
            self._holds = Holds(self._gdb, self._record, self.tasks, lambda: self._bodies)
        if on:
            return self._holds.take(task)
        self._holds.give(task)
        return ""

    def waiting_with(self) -> dict[int, int]:
        """The worker that waits with each held task."""
        return self._holds.workers() if self._holds is not None and self._gdb.exited is None else {}

    def catch(self, name: str, *, on: bool) -> None:
        """An exception cannot leave a native task. UsageError."""
        raise UsageError(
            f"an exception that leaves a task of {self.runtime} ends the program by a signal, which stops by itself"
        )

    def output(self) -> str:
        """What the program has written."""
        return self._terminal.output.more() if self._terminal else ""

    def interrupt(self) -> Stop:
        """Stop the program where it is."""
        with kept():
            return self._interrupted()

    def _interrupted(self) -> Stop:
        self._gdb.take(0.05)  # it may have been told to run, or have come to its end, and not been heard yet
        stop = self._gdb.halt() if self._gdb.running else {}
        while stop or self._gdb.stops:
            if self._holds is not None:
                self._holds.arrived(stop)
            stop = (self._gdb.wait(0) or {}) if self._gdb.stops else {}
        if self._gdb.exited is not None:
            return self._ended()
        return self._here("interrupted", self._thread())

    def close(self) -> None:
        """End the program."""
        if hasattr(self, "_gdb"):
            with suppress(DebuggerError):
                if self._gdb.running:
                    self._gdb.halt()
                if self._pid:
                    if self._holds is not None:
                        self._holds.give_all()
                    self._gdb.ask(f"-break-delete {self._signal}")
                    self._gdb.console("detach")
                elif self._gdb.exited is None and self._core is None:
                    self._gdb.console("kill")
            self._gdb.close()
        if self._terminal:
            self._terminal.close()


def top(stack: list[Frame]) -> SourceLine | None:
    """The program's innermost line of a stack."""
    own = next(filter(is_own, stack), None)
    return site_of(own) if own is not None else None


def spawns(task: int | None, rows: dict[int, Task]) -> list[Spawn]:
    """Who made a task, and who made that one."""
    found, at = [], rows.get(task or 0)
    while at is not None and at.parent is not None:
        found.append(Spawn(at.parent, rows[at.parent].name if at.parent in rows else "", at.created))
        at = rows.get(at.parent)
    return found
