"""The backend for OpenMP: an unmodified gdb, and Weft's OMPT tool in the program, whose table of tasks it reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.base.interrupts import deferring_interrupts
from weft.debug.answers import change_text
from weft.errors import DebuggerError, UsageError
from weft.gdb.mi import core_names, quoted, strip_reference, word
from weft.gdb.point import Point
from weft.tasks import layout, schedule
from weft.tasks.backend import Movement, Spawn, Stop, make_deadlock_stop
from weft.tasks.bodies import OutlinedBodies
from weft.tasks.gdb import Frame, Gdb, Terminal, frame_site, is_program_frame
from weft.tasks.holds import HeldTasks
from weft.tasks.model import NO_CODE, SourceLine, TaskRow, find_deadlocks
from weft.tasks.mutexes import add_mutex_waits
from weft.tasks.runtime import require_followable_program, schedule_environment, tool_environment
from weft.tasks.stacks import (
    StackedTask,
    add_stack_positions,
    assign_stack_parts,
    find_frame_level,
    find_holding_task,
    find_region_end_frame,
    find_task_frames,
    frames_of_task_on_stack,
)

STACKED = (layout.TOP, layout.MIDDLE)
Event = tuple[str, int, int, int]
"""What a traced task did, the address of its record, that of the other one, and gdb's thread."""
NO_LINES = "has no line numbers: compile with -g. Without it, only `tasks`, `waits` and breakpoints on functions work"
BEFORE_MAIN = "the program is before the first instruction of its main: no variable has a value yet"
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
class NativeWatchpoint:
    """A watched expression, by the debugger's number. `end`: gdb's breakpoint at the return of the
    frame that has it.
    """

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
        self._holds: HeldTasks | None = None
        self._names: dict[int, str] = {}
        self._signal = ""
        self._base = 0
        self._child = False
        self._suspended = 0
        self._made: OutlinedBodies | None = None
        self._leave = set[str]()
        self._behind: dict[str, Point] = {}
        """Breakpoints after the beginnings of bodies, where gdb has put its own before them."""
        self._terminal: Terminal | None = None
        self._looks = 0
        self._join = 0
        self._depth = 0
        self._skipping = False  # over the compiler's own lines, after which a line may be told again
        self._from: tuple[Any, object] = (0, "")
        self._watches: dict[str, NativeWatchpoint] = {}
        self._ends: dict[str, str] = {}
        """gdb's breakpoints where frames return with something watched in them, by thread and place."""

    @classmethod
    def attach_by_gdb(cls, gdb: Gdb, pid: int) -> NativeBackend:
        """Return a backend for a process to which `gdb` has already attached, and which it has halted."""
        made = cls([], pid=pid)
        made._gdb, made._program = gdb, os.path.realpath(f"/proc/{pid}/exe")
        made._on_program_loaded()
        return made

    def start(self) -> Stop:
        """Start the program and stop it at its main; or attach to the process, or load the core file, that was given.
        Return the stop.
        """
        if self._pid or self._core:
            return self._attach_or_load_core()
        require_followable_program(Path(self._program))
        environment = tool_environment(self._library)
        if self._turns is not None:
            schedule.check_schedule_file(*self._turns, "openmp")
            environment |= schedule_environment(*self._turns)
        self._terminal = Terminal()
        self._gdb = Gdb()
        self._gdb.start_program(self._program, self._arguments, environment, self._terminal.name)
        self._on_program_loaded()
        stop = self._make_stop("start", self._current_thread())
        return stop if stop.at is not None else replace(stop, text=f"{self._program} {NO_LINES}")

    def _attach_or_load_core(self) -> Stop:
        """Attach to a process or load a core file, and return where it is as a stop. UsageError if the program does not
        have Weft's tool in it.
        """
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
        if not self._gdb.symbol_address("weft_tasks"):
            raise UsageError("Weft's tool is not in that program: start it under `env $(weft tasks --environment)`")
        if self._core is None:
            self._on_program_loaded()
        return self._make_stop("core" if self._core else "interrupted", self._current_thread())

    def _on_program_loaded(self) -> None:
        """Set the breakpoints by which Weft's tool in the program reports events. Called once gdb has loaded the
        program.
        """
        groups = self._gdb.ask("-list-thread-groups").get("groups", [])
        self._gdb.pid = int(groups[0].get("pid", 0)) if groups else 0
        made = self._gdb.ask("-break-insert -f weft_tasks_signal")
        self._signal = str(made["bkpt"]["number"])
        if self._turns is not None:
            self._left = str(self._gdb.ask("-break-insert -f weft_turns_left")["bkpt"]["number"])

    def _current_thread(self) -> int:
        return int(self._gdb.ask("-thread-info").get("current-thread-id", 1))

    # The table

    def _read_records(self) -> tuple[Any, dict[int, int]]:
        """Return (the records of all tasks as an array, the number of the task that owns each lock by the lock's
        address). Both are empty before Weft's tool starts and after the program's end.
        """
        ended = self._gdb.exited is not None
        if not self._base and not ended:
            self._base = self._gdb.symbol_address("weft_tasks")
        if not self._base or ended:
            return np.zeros(0, layout.RECORD), {}
        return layout.read_records(self._gdb.read, self._base)

    def tasks(self) -> list[TaskRow]:
        """Return the table of tasks, from the records of Weft's tool and the stacks of the threads."""
        rows, owners = self._read_records()
        stacks = self._read_stacks(int(worker) for worker in rows["worker"][rows["state"] == layout.TOP])
        tops = {worker: innermost_line(stack) for worker, stack in stacks.items()}
        made = layout.TaskRows(rows, owners, self._gdb.read, site=self._gdb.return_site, tops=tops, names=self._names,
                               named=self._gdb.variable_name)  # fmt: skip
        lies = {
            worker: assign_stack_parts(stack, layout.tasks_on_worker(rows, worker)) for worker, stack in stacks.items()
        }
        return add_mutex_waits(self._gdb, add_stack_positions(made.tasks(), stacks, lies), stacks)

    def _read_stacks(self, workers: Iterable[int]) -> dict[int, list[Frame]]:
        threads = {worker: self._gdb.threads.get(worker) for worker in workers}
        return {worker: self._gdb.stack(thread) for worker, thread in threads.items() if thread}

    def _find_record(self, task: int) -> Any:
        """Return the record of the task with a number. None if the task is done."""
        rows, _ = self._read_records()
        found = rows[rows["id"] == task]
        return found[0] if len(found) else None

    def _record_at(self, address: int) -> Any:
        """Return the record at an address."""
        rows, _ = self._read_records()
        return rows[rows["address"] == address][0]

    def task_on_worker(self, worker: int) -> int | None:
        """Return the number of the task on top of a worker's stack; None if there is none."""
        rows, _ = self._read_records()
        found = rows[(rows["state"] == 2) & (rows["worker"] == worker)]
        return int(found[-1]["id"]) if len(found) else None

    def _set_trace_flags(self, record: Any, flags: int) -> None:
        self._gdb.write(int(record["address"]) + layout.TRACED, flags, 2)

    # Running

    def advance(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let the program run until one task has moved on, and return where it stopped."""
        with deferring_interrupts():
            return self._advance_task(movement, task, child=child)

    def _advance_task(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let the program run until a task has made a movement, such as a step, and return the stop there. UsageError
        for a core file or a held task. `child`: follow the next task that it creates.
        """
        if self._core is not None:
            raise UsageError("a core file does not run: look at it with `tasks`, `where`, `waits` and `print`")
        if self._gdb.exited is not None:
            return self._make_end_stop()
        if self._holds is not None and task in self._holds and movement != "continue":
            raise UsageError(f"task {task} is held: `release {task}` lets it continue, `continue` runs the others")
        self._child, self._looks = child, 0
        record = self._find_record(task) if task is not None else None
        self._set_spawn_watch(False)
        if record is None or movement == "continue":
            if not self._base and movement != "continue":
                return self._run_to_first_task(movement)
            self._set_spawn_watch(task is None and movement != "continue")
            return self._run_and_interpret("-exec-continue", movement, None)
        self._set_trace_flags(record, layout.RUNS | (layout.SPAWNS if child else 0))
        self._depth, self._skipping = 0, False
        with self._breakpoint_at_region_end(record):
            return self._continue_task(movement, int(record["address"]))

    @contextmanager
    def _breakpoint_at_region_end(self, record: Any) -> Iterator[None]:
        """Inside a `with` block, let the program stop where the followed task's thread leaves its part of a parallel
        region. The runtime reports the end of that implicit task much later.

        No breakpoint is set for other tasks. `record`: the followed task's.
        """
        stacked = self.runtime == "OpenMP" and int(record["state"]) in STACKED
        thread = self._gdb.threads.get(int(record["worker"]), 0) if stacked else 0
        within = thread and int(record["parent"]) and not record["depth"] and not self._has_left_region(record)
        place = find_region_end_frame(self._gdb.stack(thread)) if within else None
        if place is None:
            yield
            return
        floor = self._gdb.evaluate_pointer("$sp", thread, int(place["level"]))
        with self._gdb.temporary_breakpoints([f"*{place['addr']}"], thread, floor) as made:
            self._leave = made
            try:
                yield
            finally:
                self._leave = set()

    def _run_to_first_task(self, movement: Movement) -> Stop:
        """Run until the program creates its first task, and return where it stopped. Weft's tool starts only with the
        first implicit task.
        """
        first = str(self._gdb.ask("-break-insert -f handle_implicit_task")["bkpt"]["number"])
        stop: dict[str, Any] = {}
        try:
            self._gdb.run("-exec-continue")
            stop = self._gdb.wait(None) or {}
        finally:
            if self._gdb.exited is None:
                self._gdb.ask(f"-break-delete {first}")
        if self._gdb.exited is not None:
            return self._make_end_stop()
        if stop.get("bkptno") != first:
            return self._handle_gdb_stop(stop, movement, None)
        self._set_spawn_watch(True)
        return self._run_and_interpret("-exec-continue", movement, None)

    def stop_following(self) -> None:
        """Follow no task any more; the program runs without stops for tasks."""
        self._join = 0
        self._set_spawn_watch(False)

    def _set_spawn_watch(self, on: bool) -> None:
        """Make Weft's tool stop the program at the next new task (`on`), or stop reporting: no new tasks, and no events
        of the task that was followed.
        """
        base = self._base = self._base or self._gdb.symbol_address("weft_tasks")
        if base:
            self._gdb.write(base + layout.WATCH, layout.SPAWNS if on else 0, 4)
            rows, _ = self._read_records()
            for row in rows if on else rows[rows["traced"] & layout.SIGNALS != 0]:
                self._set_trace_flags(row, layout.SPAWNS if on else 0)

    def _continue_task(self, movement: Movement, record_address: int) -> Stop:
        """Let the followed task move on from where it is now, and return the next stop. `record_address`: the address
        of the task's record.
        """
        record = self._record_at(record_address)
        thread = self._gdb.threads.get(int(record["worker"])) if int(record["state"]) in STACKED else None
        # On no stack, and its record has what it lay on: it is done, and was not told yet.
        if (thread is None and int(record["state"]) == layout.HEAP and record["below"]) or self._has_left_region(
            record
        ):
            return self._follow_to_join(record_address)
        if thread is None:
            self._suspended = 0
            return self._run_and_interpret("-exec-continue", movement, record_address)
        if int(record["state"]) == layout.TOP and self._own_frames(record, self._gdb.stack(thread)) is None:
            self._suspended = 0
            return self._run_into_body(thread, record_address, new=True)
        if (
            int(record["state"]) == layout.MIDDLE
            and (stop := self._run_until_on_top(thread, record, movement)) is not None
        ):
            return stop
        stack = self._gdb.stack(thread)
        own = self._own_frames(record, stack)
        if not own:
            return self._run_and_interpret("-exec-continue", movement, record_address)
        deeper = len(own) - self._depth if movement == "next" and self._depth else 0
        self._depth = self._depth or len(own)
        if deeper > 0 or own[0]["level"] != stack[0]["level"]:  # inside a call of a line that is not done yet
            own = own[max(deeper, 0) :]
            self._suspended = int(own[0]["line"])
            if (stop := self._run_to_caller(thread, record_address, movement, own[0])) is not None:
                return stop
            if movement != "finish" and int(self._gdb.stack(thread)[0].get("line", 0)) not in (0, self._suspended):
                return self._make_stop("line", thread)
        self._suspended = int(own[0]["line"])
        if not self._skipping:
            self._from = own[0]["line"], own[0].get("func")
        if movement == "finish" and len(own) == 1:
            return self._run_and_interpret("-exec-continue", movement, record_address)
        return self._run_and_interpret(f"-exec-{movement} --thread {thread}", movement, record_address)

    def _run_until_on_top(self, thread: int, record: Any, movement: Movement) -> Stop | None:
        """Let the tasks above the followed task on its worker's stack run, until the followed task is on top again.

        Return the stop if the task has then reached another line, or if another stop came first; None if it is back in
        its old line. The tasks above may be at the same lines: the table shows to which task a line belongs.
        """
        address, task = int(record["address"]), int(record["id"])
        own = self._thread_and_frames(task, {row.id: row for row in self.tasks()})[1]
        if not own:
            return self._run_and_interpret("-exec-continue", movement, address)
        if movement == "finish" and len(own) == 1:  # nothing to come back to: its end is told by itself
            return self._run_and_interpret("-exec-continue", movement, address)
        floor = self._gdb.evaluate_pointer("$sp", thread, int(own[0]["level"]))
        while self.task_on_worker(int(record["worker"])) != task:
            if (stop := self._run_to_caller(thread, address, movement, own[0], floor)) is not None:
                return stop
        on = int(self._gdb.stack(thread)[0].get("line", 0)) not in (0, int(own[0]["line"]))
        return self._make_stop("line", thread) if on and movement != "finish" else None

    def _run_to_caller(
        self, thread: int, record_address: int, movement: Movement, caller: Frame | None = None, stack_pointer: int = 0
    ) -> Stop | None:
        """Run a thread out of a call, back to the program's line that made the call. Return None once it is there, or
        another stop that comes first.

        `caller`: the frame to return to, by default the innermost of the program. `stack_pointer`: that frame's stack
        pointer; tasks that the thread begins inside the call may be at the same line, but have lower ones.
        """
        caller = caller or next((frame for frame in self._gdb.stack(thread) if is_program_frame(frame)), None)
        if caller is None:
            return None
        stack_pointer = stack_pointer or self._gdb.evaluate_pointer("$sp", thread, int(caller["level"]))
        with self._gdb.temporary_breakpoints([f"*{caller['addr']}"], thread, stack_pointer) as made:
            stop = self._continue_to_stop()
            if stop.get("bkptno") in made or self._gdb.exited is not None:
                return None if self._gdb.exited is None else self._make_end_stop()
        return self._handle_gdb_stop(stop, movement, record_address)

    def _run_and_interpret(self, command: str, movement: Movement, record_address: int | None) -> Stop:
        """Let the program run by a command of gdb's machine interface. Return the next stop that concerns the followed
        task or the user.
        """
        if command == "-exec-continue":
            return self._handle_gdb_stop(self._continue_to_stop(), movement, record_address)
        self._gdb.run(command)
        return self._handle_gdb_stop(self._wait_for_stop(), movement, record_address)

    def _continue_to_stop(self) -> dict[str, object]:
        """Let the program run, and return its next stop. Interruptions by which Weft only looks for a deadlock are not
        returned.
        """
        while True:
            self._gdb.run("-exec-continue")
            stop = self._wait_for_stop()
            if not stop.get("looked"):
                return stop

    def _wait_for_stop(self) -> dict[str, object]:
        """Return the next stop as a dictionary. A program that does not stop is interrupted now and then to look for a
        deadlock. The dictionary has `deadlock` or `held` (why held tasks block the program) if the look finds one, else
        `looked`; then the program has to be continued.
        """
        stop = self._gdb.wait(LOOK[min(self._looks, len(LOOK) - 1)])
        if stop is not None and stop.get("signal-name") == "SIGINT":  # that of a look which met another stop
            return {**stop, "looked": True}
        if stop is None:
            self._looks += 1
            stop = self._gdb.halt()
            if stop.get("signal-name") in ("SIGINT", "0"):
                if found := find_deadlocks(self.tasks()):
                    return {"deadlock": found[0]}
                if self._holds is not None and (told := self._holds.explain_hang(again=True)):
                    return {"held": told}
                return {**stop, "looked": True}
        return stop

    def _handle_gdb_stop(self, stop: dict[str, Any], movement: Movement, record_address: int | None) -> Stop:
        """Return what a stop that gdb reports means for the followed task. If it does not concern this task, let the
        program run on, and return the next stop instead.
        """
        if self._gdb.exited is not None:
            return self._make_end_stop()
        if "deadlock" in stop:
            return make_deadlock_stop(stop["deadlock"])
        if "held" in stop:
            return Stop("stuck", text=stop["held"])
        reason, thread = str(stop.get("reason", "")), int(stop.get("thread-id", 0) or 0)
        if self._holds is not None and self._holds.handle_arrival(stop):
            return self._resume_task(movement, record_address)
        if (watched := self._make_watchpoint_stop(stop, thread)) is not None:
            return watched
        if reason == "breakpoint-hit" and stop.get("bkptno") == self._signal:
            if movement == "continue":  # a thread had looked before it was told that no task is traced any more
                return self._run_and_interpret("-exec-continue", movement, None)
            return self._handle_event(self._read_event(thread), movement)
        if reason == "breakpoint-hit" and stop.get("bkptno") in self._leave and record_address is not None:
            self._set_trace_flags(self._record_at(record_address), 0)
            return self._follow_to_join(record_address)
        if reason == "breakpoint-hit" and self._left and stop.get("bkptno") == self._left:
            told = self._gdb.read(int(self._gdb.evaluate("(unsigned long)text", thread)), SENTENCE)
            return self._make_stop("interrupted", thread, text=told.split(b"\0")[0].decode())
        if reason == "breakpoint-hit":
            hit = self._make_breakpoint_stop(stop, thread)
            return hit if hit is not None else self._resume_task(movement, record_address)
        if reason == "signal-received" and stop.get("signal-name") != "SIGINT":
            return self._make_stop("signal", thread, text=f"{stop.get('signal-name')}: ")
        if reason in ("end-stepping-range", "function-finished"):
            frame = self._gdb.stack(thread)[0]
            if is_program_frame(frame):
                made_up = self._bodies.is_compiler_line(frame)
                again = self._skipping and (frame["line"], frame.get("func")) == self._from
                if not made_up and not again:
                    return self._make_stop("line", thread)
                self._skipping = made_up or again
        return self._resume_task(movement, record_address)

    def _make_breakpoint_stop(self, stop: dict[str, Any], thread: int) -> Stop | None:
        """Return the stop at a breakpoint of the user. None if the breakpoint is limited to another task than the one
        that reached it.
        """
        number = str(stop.get("bkptno"))
        point = self._gdb.points.get(number) or self._behind.get(number)
        if point is None or not self.is_meant_for_thread(point, thread):
            return None
        if point.line and self._bodies.is_line_executed_elsewhere(self._gdb.stack(thread)[0]):
            return None
        if self._holds is not None and self._holds.consume_passed_breakpoint(thread, int(stop["frame"]["addr"], 16)):
            return None
        return self._make_stop("breakpoint", thread, point=point.id)

    def _make_watchpoint_stop(self, stop: dict[str, Any], thread: int) -> Stop | None:
        """Return the stop for a watchpoint whose value has changed or whose frame is about to return. None if gdb has
        stopped for another reason.
        """
        ended = {key: one for key, one in self._watches.items() if one.end and one.end == stop.get("bkptno")}
        if ended:
            for key in ended:
                self._delete_watchpoint(key)
            numbers = tuple(one.id for one in ended.values())
            text = "; ".join(change_text(one.text, "", "") for one in ended.values())
            return replace(self._make_stop("watch", thread, point=numbers[0], text=text), over=numbers)
        watch = self._watches.get(str(stop["wpt"]["number"])) if "wpt" in stop else None
        if watch is None:
            return None
        values = stop.get("value") or {}
        text = change_text(
            watch.text, strip_reference(str(values.get("old", ""))), strip_reference(str(values.get("new", "")))
        )
        return self._make_stop("watch", thread, point=watch.id, text=text)

    def _resume_task(self, movement: Movement, record_address: int | None) -> Stop:
        """Let the followed task continue after a stop that does not concern it. Return the next stop."""
        if record_address is None or movement == "continue":
            return self._run_and_interpret("-exec-continue", movement, record_address)
        thread = self._thread_at_next_line(movement, record_address)
        return self._make_stop("line", thread) if thread else self._continue_task(movement, record_address)

    def _thread_at_next_line(self, movement: Movement, record_address: int) -> int:
        """Return gdb's number of the followed task's thread if the task has reached its next line; else 0. Needed after
        a stop of another thread that came before gdb could report the line.
        """
        record = self._record_at(record_address)
        thread = self._gdb.threads.get(int(record["worker"]), 0) if int(record["state"]) == 2 else 0
        if not thread or movement == "finish" or self._skipping:
            return 0
        stack = self._gdb.stack(thread)
        frame = stack[0]
        if (
            not is_program_frame(frame)
            or (frame["line"], frame.get("func")) == self._from
            or self._bodies.is_compiler_line(frame)
        ):
            return 0
        own = self._own_frames(record, stack)
        here = own is not None and len(own) == self._depth and own[0]["level"] == frame["level"]
        return thread if here and frame.get("func") == self._from[1] else 0

    def _read_event(self, thread: int) -> Event:
        """Return the event that Weft's tool reports in a thread: (what a task did, address of its record, address of
        another task's record, gdb's number of the thread).
        """
        event, of, other = (
            int(self._gdb.evaluate(f"(unsigned long){name}", thread)) for name in ("event", "of", "other")
        )
        return layout.EVENTS[event], of, other, thread

    def _handle_event(self, event: Event, movement: Movement) -> Stop:
        """Handle an event of the followed task that Weft's tool reports, such as its end, and return the next stop."""
        name, of, other, thread = event
        if name == "create":
            return self._follow_child(other)
        if name in ("begin", "resume"):
            return self._run_into_body(thread, of, new=name == "begin")
        if name == "done":
            return self._follow_to_join(of)
        if name == "joined" and self._join == of:
            self._join = 0
            record = self._record_at(of)
            self._set_trace_flags(record, 0)
            stop = self._run_to_caller(thread, of, "next")
            return stop or self._make_stop("joined", thread)
        if name == "suspend" or int(self._record_at(of)["state"]) != 2:
            return self._run_and_interpret("-exec-continue", movement, of)
        return self._continue_task(movement, of)

    def _follow_child(self, child_address: int) -> Stop:
        """Follow a new task until it stops at its first line, and return that stop. `child_address`: the address of the
        task's record.
        """
        self._set_spawn_watch(False)
        self._set_trace_flags(self._record_at(child_address), layout.RUNS)
        self._child = False
        return self._run_and_interpret("-exec-continue", "step", child_address)

    def _follow_to_join(self, ended_address: int) -> Stop:
        """Follow the task that waits for the end of a task, until it continues, and return that stop. If no task waits,
        return a stop `done`. `ended_address`: the address of the ended task's record.
        """
        record = self._record_at(ended_address)
        rows, _ = self._read_records()
        onward = self._find_joining_record(record, rows)
        if onward is None:
            return Stop("done", int(record["id"]))
        self._set_trace_flags(onward, layout.JOINS)
        self._join = int(onward["address"])
        return self._run_and_interpret("-exec-continue", "next", self._join)

    def _find_joining_record(self, record: Any, rows: Any) -> Any:
        """Return the record of the task that waits for the end of another task: its parent, or a task at the end of its
        taskgroup or at the barrier of its team. None if there is none. `record`: the other task's; `rows`: all records.
        """
        parent = rows[rows["id"] == record["parent"]]
        if len(parent):
            return self._find_joining_record(parent[0], rows) if self._has_left_region(parent[0]) else parent[0]
        group = rows[(rows["what"] == record["scope"]) & (rows["wait"] == layout.GROUP)]
        team = rows[(rows["scope"] == record["scope"]) & np.isin(rows["wait"], layout.BARRIERS)]
        return group[0] if len(group) else team[0] if len(team) else None

    def _has_left_region(self, record: Any) -> bool:
        """Return whether an implicit task has finished its part of a parallel region. It then reaches no line of the
        program any more.
        """
        return any(one.left for one in self._tasks_on_same_worker(record) if one.id == record["id"])

    def _own_frames(self, record: Any, stack: list[Frame]) -> list[Frame] | None:
        """Return the frames that a task has in the stack of its worker. None if the task has not reached its code, or
        has just left it.
        """
        with_it = self._tasks_on_same_worker(record)
        part = assign_stack_parts(stack, with_it)[int(record["id"])] if with_it else 0
        return frames_of_task_on_stack(stack, part) if part != NO_CODE else None

    def _tasks_on_same_worker(self, record: Any) -> list[StackedTask]:
        """Return all tasks on the stack of the worker that runs a task, the topmost first. Empty if the runtime is not
        OpenMP's.
        """
        return (
            layout.tasks_on_worker(self._read_records()[0], int(record["worker"])) if self.runtime == "OpenMP" else []
        )

    def _run_into_body(self, thread: int, record_address: int, *, new: bool) -> Stop:
        """Run a worker into the body of the followed task, to the first line of the program there. Return the stop
        there, or another one that comes first. The worker is about to begin the task (`new`) or to resume it.
        """
        with self._gdb.temporary_breakpoints([f"'{name}'" for name in self._bodies.task_symbols], thread) as made:
            self._gdb.run("-exec-continue")
            while True:
                stop = self._gdb.wait(None) or {}
                if self._gdb.exited is not None:
                    return self._make_end_stop()
                if stop.get("bkptno") in made:
                    break
                if stop.get("bkptno") == self._signal:
                    return self._handle_event(self._read_event(int(stop["thread-id"])), "next")
                thread_of = int(stop.get("thread-id", 0) or 0)
                if self._holds is not None and self._holds.handle_arrival(stop):
                    self._gdb.run("-exec-continue")
                    continue
                if (
                    other := self._make_watchpoint_stop(stop, thread_of) or self._make_breakpoint_stop(stop, thread_of)
                ) is not None:
                    return other
                self._gdb.run("-exec-continue")
        skipped, steps, beginning = set() if new else {self._suspended}, 0, False
        while steps < STEPS:
            frame, before = self._gdb.stack(thread)[0], beginning
            beginning = self._bodies.is_in_prologue(int(frame["addr"], 16))
            amid = (
                before and not beginning and not self._is_first_entry_into_body(thread)
            )  # of a line that it was suspended in
            told = not amid and is_program_frame(frame) and int(frame["line"]) not in skipped
            if told and not self._bodies.is_compiler_line(frame):
                return self._make_stop("line", thread)
            steps += not beginning
            self._suspended = 0 if beginning and new else self._suspended
            self._gdb.run(f"-exec-{'next-instruction' if beginning else 'step'} --thread {thread}")
            stop = self._gdb.wait(None) or {}
            if self._gdb.exited is not None or stop.get("reason") != "end-stepping-range":
                return self._handle_gdb_stop(stop, "step", record_address)
        return self._make_stop("line", thread)

    def _is_first_entry_into_body(self, thread: int) -> bool:
        """Return whether an untied task that clang compiled enters its code for the first time. It enters it again
        after each suspension. The variable `.part_id.` of the innermost frame points to 1 at the first time.
        """
        told = self._gdb.ask(f"-stack-list-variables --thread {thread} --frame 0 --all-values")["variables"]
        part = next((str(one.get("value", "")) for one in told if one["name"] == ".part_id."), "")
        with suppress(DebuggerError, ValueError):
            return int.from_bytes(self._gdb.read(int(part, 16), 4), "little") == 1
        return False

    @property
    def _bodies(self) -> OutlinedBodies:
        if self._made is None:
            self._made = OutlinedBodies(self._gdb, self._program)
        return self._made

    def is_meant_for_thread(self, point: Point, thread: int) -> bool:
        """Return whether a breakpoint is for the task that a thread runs. It may be limited to a task, by number or
        pedigree (the path from the first task).
        """
        if point.task is None and not point.pedigree:
            return True
        at, records = self.task_on_worker(self._gdb.kernel_thread_id(thread)), self._read_records()[0]
        rows = {int(row["id"]): int(row["parent"]) for row in records}
        ways = (
            {int(row["id"]): layout.format_pedigree(int(row["pedigree"])) for row in records} if point.pedigree else {}
        )
        while at is not None and at != point.task and (not ways or ways.get(at) != point.pedigree):
            at = rows.get(at) if point.descendants else None
        return at is not None

    def _make_stop(self, why: Any, thread: int, *, point: int | None = None, text: str = "") -> Stop:
        """Return a stop at the line at which a thread is. `thread`: gdb's number of it; `point`: the number of the
        breakpoint.
        """
        stack, worker = self._gdb.stack(thread), self._gdb.kernel_thread_id(thread)
        task = self.task_on_worker(worker) if self._base or why != "start" else None
        at = innermost_line(stack)
        if task is not None and at is not None and not is_program_frame(stack[0]):  # the line may be another's
            at = next((row.at for row in self.tasks() if row.id == task), at)
        return Stop(why, task, at, worker, point, text, name=self._names.get(task or 0, ""))

    def _make_end_stop(self) -> Stop:
        """Return the stop for the end of the program, after all its output was read."""
        if self._terminal:
            self._terminal.wait_for_output()
        return Stop("ended", code=self._gdb.exited)

    # Looking

    def frames(self, task: int | None, *, with_libraries: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """Return (a task's frames, innermost first; where the task and each of its ancestors was created, the task's
        own first).
        """
        rows = {row.id: row for row in self.tasks()}
        return [
            frame_site(frame) for frame in self._thread_and_frames(task, rows, with_libraries=with_libraries)[1]
        ], find_spawns(task, rows)

    def _thread_and_frames(
        self, task: int | None, rows: dict[int, TaskRow], *, with_libraries: bool = False
    ) -> tuple[int, list[Frame]]:
        """Return (gdb's number of the thread that runs a task, the task's frames in its stack). If there is no such
        task, return the current thread with its frames.
        """
        if self._gdb.exited is not None:
            raise DebuggerError("the program has ended: there are no tasks and no frames any more")
        row = rows.get(task or 0)
        if row is None:
            thread = self._current_thread()
            return thread, [frame for frame in self._gdb.stack(thread) if with_libraries or is_program_frame(frame)]
        return find_task_frames(self._gdb, row, rows, with_libraries=with_libraries)

    def frame_levels(self, task: int) -> tuple[int, list[int]]:
        """Return gdb's numbers of a task's thread and of each of its frames."""
        thread, frames = self._thread_and_frames(task, {row.id: row for row in self.tasks()})
        return thread, [int(frame["level"]) for frame in frames]

    def evaluate(self, task: int | None, expression: str, level: int, gdb_format: str = "") -> str:
        """Return the value of an expression in a task's frame as text. `level`: of the frame, 0 for the innermost;
        `gdb_format`: a letter such as `x`, empty for none.
        """
        thread, at = self._gdb_frame(task, level)
        if self._is_before_main(at):
            told = self._gdb.ask(f"-stack-list-variables --thread {thread} --frame {at} --no-values")["variables"]
            if {str(one["name"]) for one in told} & set(re.findall(r"\w+", expression)):
                raise DebuggerError(BEFORE_MAIN)
        try:
            return self._gdb.value(expression, thread, at, gdb_format)
        except DebuggerError as error:
            if outside := NOT_TAKEN.search(str(error)):
                raise DebuggerError(
                    f"{expression}: this is a variable of {outside[1]}, which the task does not use, so it has no "
                    "copy of it"
                ) from error
            raise

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """Return (name, value as text) for the variables of a task's frame."""
        thread, at = self._gdb_frame(task, level)
        if self._is_before_main(at):
            raise DebuggerError(BEFORE_MAIN)
        told = self._gdb.ask(f"-stack-list-variables --thread {thread} --frame {at} --all-values")["variables"]
        return [
            (name, strip_reference(str(one.get("value", ""))))
            for one in told
            if not MADE_UP.match(name := str(one["name"]))
        ]

    def _is_before_main(self, level: int) -> bool:
        """Return whether the program has not executed an instruction of its `main` yet, so that the variables of the
        frame at `level` have no memory.
        """
        return level == 0 and not self._gdb.ran and not (self._pid or self._core)

    def assign(self, task: int | None, name: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable of a task's frame; return the value as text."""
        return self.evaluate(task, f"{name} = {expression}", level)

    def _gdb_frame(self, task: int | None, level: int) -> tuple[int, int]:
        """Return (gdb's number of a task's thread, gdb's number of the frame at `level`). DebuggerError if the task has
        no frame.
        """
        thread, frames = self._thread_and_frames(task, {row.id: row for row in self.tasks()})
        if not frames:
            raise DebuggerError(
                "the task has no frame on any stack: it has not begun, or its frames are saved on the heap"
            )
        return thread, int(frames[min(level, len(frames) - 1)]["level"])

    def find_task_of_value(self, frame_task: int | None, expression: str) -> int:
        """Return the number of the task into whose frames a pointer points. DebuggerError if it points into no task's
        frames. `expression`: yields the pointer; `frame_task`: the task in whose frame it is evaluated.
        """
        rows = {row.id: row for row in self.tasks()}
        thread, frames = self._thread_and_frames(frame_task, rows)
        level = int(frames[0]["level"]) if frames else 0
        address = int(self._gdb.evaluate(f"(unsigned long)({expression})", thread or self._current_thread(), level))
        found = find_holding_task(self._gdb, address, rows)
        if found is None:
            raise DebuggerError(f"{expression} is {address:#x}, which is in no frame of a task")
        return found

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Replace all breakpoints by `points`. If the function of a task begins with the compiler's own code, the
        program also stops where it executes the breakpoint's line itself.
        """
        for number in self._behind:
            self._gdb.ask(f"-break-delete {number}")
        self._behind = {}
        self._gdb.replace_breakpoints(points)
        for point in [point for point in points if point.line]:
            for place in self._bodies.line_addresses(point.file, point.line):
                made = self._gdb.insert_breakpoint(point, f"*{place:#x}")
                self._behind[str(made["bkpt"]["number"])] = point

    def watch(self, number: int, task: int | None, expression: str, level: int) -> str:
        """Stop whenever the memory of an expression changes, until the frame that contains it returns. Return the value
        now as text. `number`: under which the watchpoint is known, as a breakpoint.
        """
        if self._core is not None:
            raise UsageError("a core file does not run, so nothing in it can change")
        value = self.evaluate(task, expression, level)
        thread, at, words = self._translate_for_gdb(task, expression, level)
        address = self._gdb.evaluate_pointer(f"$weft{number} = &({words})", thread, at)
        end = self._insert_return_breakpoint(address, thread)
        try:
            with self._gdb.temporary_setting(
                "language", "c", "auto"
            ):  # Fortran has no word for what a pointer points to
                made = self._gdb.ask(f"-break-watch *$weft{number}")
        except DebuggerError:
            self._release_return_breakpoint(end)
            raise
        self._watches[str(next(v for k, v in made.items() if "wpt" in k)["number"])] = NativeWatchpoint(
            number, expression, end
        )
        return value

    def _translate_for_gdb(self, task: int | None, expression: str, level: int) -> tuple[int, int, str]:
        """Return (gdb's number of a task's thread, gdb's number of the frame, the expression in the form that gdb
        understands there).
        """
        return *self._gdb_frame(task, level), expression

    def _insert_return_breakpoint(self, variable_address: int, thread: int) -> str:
        """Set a breakpoint where the frame that contains a variable returns, and return gdb's number of the breakpoint.
        Empty if no frame contains the variable.

        The breakpoint is at the caller's next instruction. It stops only when the stack no longer reaches down to the
        variable.
        """
        for one in dict.fromkeys((thread, *self._gdb.threads.values())):
            with self._gdb.temporary_setting("backtrace past-main", "on", "off"):  # it is left, too
                stack = self._gdb.stack(one)
                level = find_frame_level(self._gdb, one, len(stack), variable_address)
                if level is None or level + 1 >= len(stack):
                    continue
                place, top = stack[level + 1]["addr"], self._gdb.evaluate_pointer("$sp", one, level + 1)
            where = f"-p {one} -c {quoted(f'$sp >= {top}')} *{place}"
            if where not in self._ends:
                with self._gdb.temporary_setting("language", "c", "auto"):
                    self._ends[where] = str(self._gdb.ask(f"-break-insert {where}")["bkpt"]["number"])
            return self._ends[where]
        return ""

    def unwatch(self, number: int) -> None:
        """Remove a watchpoint."""
        for key in [key for key, one in self._watches.items() if one.id == number]:
            self._delete_watchpoint(key)

    def _delete_watchpoint(self, gdb_number: str) -> None:
        """Delete a watchpoint by gdb's number. The breakpoint at the return of its frame is deleted too, unless another
        watchpoint needs it.
        """
        end = self._watches.pop(gdb_number).end
        with suppress(DebuggerError):
            self._gdb.ask(f"-break-delete {gdb_number}")
        self._release_return_breakpoint(end)

    def _release_return_breakpoint(self, breakpoint_number: str) -> None:
        """Delete the breakpoint at a frame's return if no watchpoint needs it any more."""
        if any(one.end == breakpoint_number for one in self._watches.values()):
            return
        for where in [where for where, number in self._ends.items() if number == breakpoint_number]:
            del self._ends[where]
            with suppress(DebuggerError):
                self._gdb.ask(f"-break-delete {breakpoint_number}")

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        self._names[task] = name

    def explain_hang(self) -> str:
        """Return a sentence that says that the program can do nothing because tasks are held; empty if that is not so.
        Other hangs are deadlocks, which `waits` shows.
        """
        return self._holds.explain_hang() if self._holds is not None else ""

    def explain_delay(self) -> str:
        """Return nothing: threads that wait are in the table."""
        return ""

    def explain_missing_tasks(self) -> str:
        """Return a sentence that says that the OpenMP runtime has not begun; empty if it has."""
        begun = self._base or self._gdb.exited is not None
        return "" if begun else f"the runtime of {self.runtime} has not started yet: the first region or task starts it"

    def hold(self, task: int, *, on: bool) -> str:
        """Hold a task together with its thread if `on`, else release it. Return in words how it is held. UsageError if
        it cannot be held.
        """
        if self.runtime != "OpenMP":
            raise UsageError(
                f"a task of {self.runtime} cannot be held: its thread, and all tasks beneath it on that thread, would "
                "be held, too"
            )
        if self._core is not None:
            raise UsageError(
                "a core file does not run, so `hold` has nothing to hold; `tasks`, `where` and `print` show its tasks "
                "and values"
            )
        if self._turns is not None:
            raise UsageError(
                "`hold` cannot be combined with --record or --replay, which choose the order of tasks themselves"
            )
        if self._holds is None:
            self._holds = HeldTasks(self._gdb, self._find_record, self.tasks, lambda: self._bodies)
        if on:
            return self._holds.hold(task)
        self._holds.release(task)
        return ""

    def workers_of_held(self) -> dict[int, int]:
        """Return the worker that waits with each held task."""
        return self._holds.waiting_threads() if self._holds is not None and self._gdb.exited is None else {}

    def catch(self, exception_name: str, *, on: bool) -> None:
        """Raise a UsageError: for native tasks nothing is to be caught, as an exception that leaves one ends the
        program by a signal.
        """
        raise UsageError(
            f"an exception that leaves a task of {self.runtime} ends the program by a signal, at which the debugger "
            "stops anyway: leave `catch` out"
        )

    def output(self) -> str:
        """Return what the program has written since the last call."""
        return self._terminal.output.read_new_output() if self._terminal else ""

    def interrupt(self) -> Stop:
        """Stop the program at its current position."""
        with deferring_interrupts():
            return self._halt_program()

    def _halt_program(self) -> Stop:
        """Halt the program, and return the stop. If gdb reported stops of held tasks before, their threads are made to
        wait first.
        """
        self._gdb.read_messages(0.05)  # it may have been told to run, or have come to its end, and not been heard yet
        stop = self._gdb.halt() if self._gdb.running else {}
        while stop or self._gdb.stops:
            if self._holds is not None:
                self._holds.handle_arrival(stop)
            stop = (self._gdb.wait(0) or {}) if self._gdb.stops else {}
        if self._gdb.exited is not None:
            return self._make_end_stop()
        return self._make_stop("interrupted", self._current_thread())

    def close(self) -> None:
        """End the program, or detach from a process that ran before the debugger came."""
        if hasattr(self, "_gdb"):
            with suppress(DebuggerError):
                if self._gdb.running:
                    self._gdb.halt()
                if self._pid:
                    if self._holds is not None:
                        self._holds.release_all()
                    self._gdb.ask(f"-break-delete {self._signal}")
                    self._gdb.console("detach")
                elif self._gdb.exited is None and self._core is None:
                    self._gdb.console("kill")
            self._gdb.close()
        if self._terminal:
            self._terminal.close()


def innermost_line(stack: list[Frame]) -> SourceLine | None:
    """Return the innermost line of the program's own source on a stack; None if there is none."""
    own = next(filter(is_program_frame, stack), None)
    return frame_site(own) if own is not None else None


def find_spawns(task: int | None, rows: dict[int, TaskRow]) -> list[Spawn]:
    """Return where a task and each of its ancestors was created, the task's own creation first. `rows`: by number."""
    found, at = [], rows.get(task or 0)
    while at is not None and at.parent is not None:
        found.append(Spawn(at.parent, rows[at.parent].name if at.parent in rows else "", at.created))
        at = rows.get(at.parent)
    return found
