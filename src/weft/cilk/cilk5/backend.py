"""The backend for Cilk-5: an unmodified gdb, and the records of Weft's part in the frames of the procedures."""

from __future__ import annotations

import linecache
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from weft.cilk.cilk5 import layout
from weft.cilk.cilk5.build import Procedures, build_program, split_command
from weft.cilk.cilk5.layout import Cilk5Row, Cilk5Table
from weft.cilk.cilk5.variables import CLONE, Cilk5Frame, evaluate_in_procedure, name_in_source
from weft.errors import DebuggerError
from weft.gdb.point import Point
from weft.tasks.backend import Movement, Stop
from weft.tasks.gdb import Frame, Gdb, Terminal, is_program_frame
from weft.tasks.layout import format_pedigree
from weft.tasks.model import SourceLine, TaskRow, Wait
from weft.tasks.mutexes import add_mutex_waits
from weft.tasks.openmp import NativeBackend, innermost_line
from weft.tasks.stacks import frames_of_task_on_stack

HOW_FAR = 60
"""Lines of cilk2c's own between the begin of a clone and the first line of the program in it."""


HEAD = 4096
"""Bytes of a procedure's code in which its first line is looked for."""


class Cilk5Gdb(Gdb):
    """gdb for a program of Cilk-5; finds the tasks of frames by the names of the procedures."""

    def __init__(self, procedures: Procedures) -> None:
        super().__init__()
        self.procedures = procedures
        for files in ("*/cilk.h", "*/cilk-*cilk2c*.h", "*/cilk-lib.*", "*/cilk-sysdep.h", "*weft-cilk.*"):
            self.console(f"skip -gfile {files}")

    def stack(self, thread: int) -> list[Frame]:
        """Return all frames of a thread, innermost first. The additional key `begins` of a frame is True if the frame
        is the outermost of its task.
        """
        frames = super().stack(thread)
        for frame in frames:
            function = str(frame.get("func", ""))
            found = CLONE.match(function)
            frame["begins"] = (found[1] if found else function) in self.procedures.scopes
            if function.startswith("_cilk_") and function.endswith("_import"):
                frame.pop("fullname", None)
        return frames

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Replace all breakpoints by `points`. A breakpoint at a Cilk procedure stops at the procedure's first line,
        after the code that cilk2c puts at its begin.

        cilk2c adds blocks of its own to the line of a spawn, and gdb has a location in each: only the first one is
        kept.
        """
        before = set(self.points)
        super().replace_breakpoints(points)
        for number in set(self.points) - before:
            first: dict[str, tuple[int, str]] = {}
            made = self._breakpoint_info(number)
            if (
                not self.points[number].line
                and self.is_procedure_head(made)
                and (inside := self._first_body_address(made))
            ):
                point = self.points.pop(number)
                self.ask(f"-break-delete {number}")
                self.points[str(self.insert_breakpoint(point, f"*{inside:#x}")["bkpt"]["number"])] = point
                continue
            for place in made.get("locations", []):
                at = int(str(place["addr"]), 16), str(place["number"])
                early, late = sorted((at, first.get(str(place.get("func")), at)))
                first[str(place.get("func"))] = early
                if late != early:
                    self.ask(f"-break-disable {late[1]}")

    def _breakpoint_info(self, number: str) -> Frame:
        """Return gdb's description of a breakpoint, with its locations; empty if there is none."""
        body = self.ask(f"-break-info {number}").get("BreakpointTable", {}).get("body", [])
        return body[0] if body else {}

    def _first_body_address(self, head_frame: Frame) -> int:
        """Return the address at which a procedure's own code begins, after its head (the lines that cilk2c puts at its
        begin). 0 if unknown.
        """
        start = int(str(head_frame["addr"]), 16)
        for address, line in self.instruction_lines(start, start + HEAD):
            if address > start and not self.is_procedure_head({**head_frame, "line": line}):
                return address
        return 0

    def is_procedure_head(self, frame: Frame) -> bool:
        """Return whether a frame is at the lines that cilk2c puts at the begin of a procedure (its head)."""
        function = str(frame.get("func", ""))
        found = CLONE.match(function)
        opened = self.procedures.opened.get(found[1] if found else function, 0)
        line = int(frame.get("line", 0))
        if not line or not frame.get("fullname"):
            return False
        return line <= opened or linecache.getline(str(frame["fullname"]), line).strip() in ("{", "}")


class Cilk5Backend(NativeBackend):
    """One program of Cilk-5 under gdb."""

    runtime = "Cilk-5"

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__([])
        self._sources, self._arguments = split_command(command)
        self._folder = Path(tempfile.mkdtemp(prefix="weft-cilk-"))
        self._over = 0  # the record of what lies on the task that is followed
        self._followed = self._taking = 0  # the records of that task, and of it while a worker takes it up
        self._apart = False  # whether it lies beneath others or on the heap, as far as its events have told
        self._aborted = ""
        self._procedures = Procedures()

    def start(self) -> Stop:
        """Compile and start the program, run it to the first line of its main procedure, and return the stop."""
        program, self._procedures = build_program(self._sources, self._folder)
        self._program = str(program)
        self._terminal = Terminal()
        self._gdb = self._cilk = Cilk5Gdb(self._procedures)
        self._gdb.start_program(self._program, self._arguments, {}, self._terminal.name)
        self._on_program_loaded()
        if "cilk_main" not in self._procedures.scopes:
            return self._make_stop("start", self._current_thread())
        self._set_spawn_watch(True)
        stop = self._run_and_interpret("-exec-continue", "next", None)
        self._set_spawn_watch(False)
        return replace(stop, why="start") if stop.why == "line" else stop

    def close(self) -> None:
        """End the program."""
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # The table

    def _table(self) -> Cilk5Table | None:
        if not self._base and self._gdb.exited is None:
            self._base = self._gdb.symbol_address("weft_tasks")
        return Cilk5Table(self._gdb.read, self._base) if self._base and self._gdb.exited is None else None

    def _rows(self) -> list[Cilk5Row]:
        table = self._table()
        return table.rows if table is not None else []

    def _read_records(self) -> tuple[Any, dict[int, int]]:
        """Return the living tasks, as what this shares with OpenMP asks for them."""
        return [as_dict(row) for row in self._rows()], {}

    def tasks(self) -> list[TaskRow]:
        """Return the table of tasks, from the records in the procedures' frames."""
        table = self._table()
        if table is None:
            return []
        rows, deques = table.rows, table.map_records_to_deques()
        children: dict[int, list[int]] = {}
        for row in rows:
            children.setdefault(row.parent, []).append(row.id)
        above = {row.id: row for row in rows}
        stacks = self._read_stacks(row.worker for row in rows if row.state == "top")
        made = [
            self._make_row(row, above.get(row.above), tuple(children.get(row.id, ())), deques, stacks) for row in rows
        ]
        return add_mutex_waits(self._gdb, made, stacks)

    def _make_row(
        self,
        row: Cilk5Row,
        above: Cilk5Row | None,
        children: tuple[int, ...],
        deques: dict[int, int],
        stacks: dict[int, list[Frame]],
    ) -> TaskRow:
        """Return the row of the table for a task, made from its record in memory.

        `above`: the task on top of it on the worker's stack, None if there is none. `children`: the numbers of its
        living children. `deques`: the thread whose deque contains a task, by the address of the task's record.
        `stacks`: the frames of each worker, by the kernel's id of its thread.
        """
        site, wait = self._gdb.return_site, None
        created = self._named(site(row.created))
        if above is not None:
            at = self._named(site(above.created))
            if row.address in deques:
                wait = Wait(
                    "deque", (), at, free=True, what=f"of worker {deques[row.address]}, where any other may take it"
                )
        elif row.state == "top":
            at = self._named(innermost_line(stacks.get(row.worker, [])))
        else:
            at = self._named(site(row.waiting)) if row.waiting else created
            wait = Wait("sync", children, at) if row.wait == layout.SYNC else None
        on = row.state != "heap"
        return TaskRow(
            row.id, row.parent or None, row.state, self._names.get(row.id, ""), created, at, wait, row.worker or None,
            row.above or None, row.beneath if on else None, None if on else row.address, format_pedigree(row.pedigree),
        )  # fmt: skip

    def _named(self, at: SourceLine | None) -> SourceLine | None:
        return replace(at, function=name_in_source(at.function, self._procedures.scopes)) if at is not None else None

    def _find_record(self, task: int) -> Any:
        return next((as_dict(row) for row in self._rows() if row.id == task), None)

    def _record_at(self, address: int) -> Any:
        table = self._table()
        row = table.at(address) if table is not None else None
        return as_dict(row) if row is not None else None

    def task_on_worker(self, worker: int) -> int | None:
        """Return the task on top of a worker."""
        return next((row.id for row in self._rows() if row.state == "top" and row.worker == worker), None)

    # Running

    def _set_trace_flags(self, record: Any, flags: int) -> None:
        self._gdb.write(int(record["address"]) + layout.TRACED, flags, 4)

    def _set_spawn_watch(self, on: bool) -> None:
        """Let Weft's part in the program report each new task when it runs (`on`), or no longer. Reports that were
        requested for single tasks are switched off.
        """
        base = self._base = self._base or self._gdb.symbol_address("weft_tasks")
        self._gdb.write(base + layout.WATCH, layout.RUNS if on else 0, 4)
        for row in self._rows():
            if row.traced:
                self._set_trace_flags(as_dict(row), 0)

    def advance(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let the program run until a task has made a movement, such as a step, and return the stop there. `child`:
        follow the next task that it spawns.
        """
        record = self._find_record(task) if task is not None and self._gdb.exited is None else None
        self._followed, self._over, self._taking = int(record["address"]) if record else 0, 0, 0
        self._apart = False
        # Told now: suspended and taken up again by another worker it may be before anything of that is seen here, and
        # while it is, the table may no longer have its line.
        line = self._suspended = self._line(int(record["id"])) if record and movement != "continue" else 0
        stop = super().advance(movement, task, child=child)
        if record and line and movement in ("next", "step") and self._has_stopped_at_left_line(stop, record, line):
            return self.advance(movement, task, child=child)
        return stop

    def _has_stopped_at_left_line(self, stop: Stop, record: Any, left_line: int) -> bool:
        """Return whether a step has only come to the same task's old line, `left_line`, on another worker. That worker
        took the task, and its clone of the procedure begins at this line.
        """
        here = self._find_record(int(record["id"])) if stop.why == "line" and stop.task == record["id"] else None
        return (
            here is not None
            and here["worker"] != record["worker"]
            and stop.at is not None
            and stop.at.line == left_line
        )

    def _line(self, task: int) -> int:
        """Return the line at which a task is, 0 where that is not known."""
        at = next((row.at for row in self.tasks() if row.id == task), None)
        return at.line if at is not None else 0

    def _resume_followed_task(self, movement: Movement) -> Stop:
        """Let the followed task continue, wherever it is, after a stop that does not concern it. Return the
        next stop.
        """
        record = self._record_at(self._followed) if self._followed else None
        if record is None or movement == "continue":
            return self._run_and_interpret("-exec-continue", movement, None)
        if self._apart and int(record["worker"]):  # the next stop says that another worker took it up
            return self._run_and_interpret("-exec-continue", movement, self._followed)
        if self._taking == self._followed:
            return self._run_into_body(self._gdb.threads[int(record["worker"])], self._followed, new=False)
        return self._continue_task(movement, self._followed)

    def _continue_task(self, movement: Movement, record_address: int) -> Stop:
        """Let the followed task move on from where it is now, and return the next stop. `record_address`: the address
        of the task's record.
        """
        record = self._record_at(record_address)
        if record is None:
            return self._run_and_interpret("-exec-continue", movement, None)
        thread = self._gdb.threads.get(int(record["worker"]))
        if thread is None or record["above"]:
            return self._wait_for_task_above(movement, record, thread)
        return super()._continue_task(movement, record_address)

    def _wait_for_task_above(self, movement: Movement, record: Any, thread: int | None) -> Stop:
        """Let the program run until the followed task can continue, and return the next stop. The task waits on a
        worker's stack for the end of the task above it, or, if `thread` is None, on the heap.
        """
        address, self._apart = int(record["address"]), True
        if thread is not None:
            above = next(row for row in self._rows() if row.id == record["above"])
            self._set_trace_flags(as_dict(above), layout.RUNS)
            self._over = above.address
        return self._run_and_interpret("-exec-continue", movement, address)

    def _handle_event(self, event: tuple[str, int, int, int], movement: Movement) -> Stop:
        """Handle an event that Weft's part in the program reports, and return the next stop.

        `event`: (name, such as `done`, `joined` or `resume`; address of the task's record; address of another task's
        record; gdb's number of the thread).
        """
        name, of, other, thread = event
        if name == "done" and of == self._over:
            return self._return_to_followed_task(movement, other, thread)
        if name == "done" and of != self._followed:  # what lay on it, and was on its way when another worker took it
            return self._resume_followed_task(movement)
        if name == "done":
            self._over = 0
            row = self._record_at(of)
            self._aborted = f"task {row['id']} was aborted" if row and row["wait"] == layout.ABORTED else ""
        if name == "joined" and self._aborted:
            stop = super()._handle_event(event, movement)
            told, self._aborted = self._aborted, ""
            return replace(stop, text=told) if stop.why == "joined" else stop
        if name == "resume" and movement == "finish":
            return self._run_and_interpret("-exec-continue", movement, of)
        self._taking = of if name == "resume" else 0
        self._apart = self._apart and name != "resume"
        stop = super()._handle_event(event, movement)
        self._taking = 0
        return stop

    def _follow_child(self, child_address: int) -> Stop:
        self._followed = child_address
        return super()._follow_child(child_address)

    def _follow_to_join(self, ended_address: int) -> Stop:
        onward = self._find_joining_record(self._record_at(ended_address), ())
        self._followed, self._apart = int(onward["address"]) if onward is not None else 0, False
        return super()._follow_to_join(ended_address)

    def _find_joining_record(self, record: Any, rows: Any) -> Any:
        """Return the record of the parent, which in Cilk always waits for the end of its children."""
        return self._record_at(record["maker"])

    def _return_to_followed_task(self, movement: Movement, record_address: int, thread: int) -> Stop:
        """After the task above the followed task has ended, run back to the followed task's line, unless another worker
        has taken the followed task. Return the next stop.
        """
        self._over = 0
        record, done = self._record_at(record_address), self._gdb.stack(thread)
        frames = frames_of_task_on_stack(done, 1)
        if movement == "finish":
            return self._run_and_interpret("-exec-continue", movement, record_address)
        if not record or record["worker"] != self._gdb.kernel_thread_id(thread) or not frames:
            return self._resume_followed_task(movement)
        if (stop := self._run_to_caller(thread, record_address, movement, frames[0])) is not None:
            return stop
        self._depth, self._apart = len(frames), False
        return self._continue_task(movement, record_address)

    def _thread_at_next_line(self, movement: Movement, record_address: int) -> int:
        """Return gdb's number of the followed task's thread if the task has reached its next line; else 0. A line in
        the head of a clone does not count.
        """
        thread = super()._thread_at_next_line(movement, record_address)
        return 0 if thread and self._cilk.is_procedure_head(self._gdb.stack(thread)[0]) else thread

    def _handle_gdb_stop(self, stop: dict[str, Any], movement: Movement, record_address: int | None) -> Stop:
        """Return what a stop that gdb reports means for the followed task. If gdb has stepped a thread that no longer
        runs this task, let the program run on, and return the next stop instead.
        """
        stepped = stop.get("reason") in ("end-stepping-range", "function-finished")
        if stepped and record_address is not None and self._gdb.exited is None:
            thread = int(str(stop.get("thread-id", 0)))
            here = next(
                (r for r in self._rows() if r.state == "top" and r.worker == self._gdb.kernel_thread_id(thread)), None
            )
            if here is None or here.address != record_address:
                if movement != "step" or here is None or here.maker != record_address:
                    return self._continue_task(movement, record_address)
                record_address, self._depth = here.address, 0  # into a task that it spawned
                self._followed = record_address
                self._set_spawn_watch(False)
                self._set_trace_flags(as_dict(here), layout.RUNS)
            frame = self._gdb.stack(thread)[0]
            if is_program_frame(frame) and self._cilk.is_procedure_head(frame) and frame.get("begins"):
                return self._continue_task(movement, record_address)
        if stop.get("reason") == "breakpoint-hit" and stop.get("bkptno") in self._gdb.points:
            return self._stop_at_breakpoint(stop, movement, record_address)
        return super()._handle_gdb_stop(stop, movement, record_address)

    def _stop_at_breakpoint(self, stop: dict[str, Any], movement: Movement, record_address: int | None) -> Stop:
        """Return the stop at a breakpoint of the user. If the breakpoint is in the head of a procedure, first run on to
        the procedure's first line.
        """
        thread = int(str(stop.get("thread-id", 0)))
        frame = self._gdb.stack(thread)[0]
        if not frame.get("begins") or not self._cilk.is_procedure_head(frame):
            return super()._handle_gdb_stop(stop, movement, record_address)
        point = self._gdb.points[str(stop["bkptno"])]
        if (other := self._run_past_head(thread, movement, record_address, set())) is not None:
            return other
        here = self.task_on_worker(self._gdb.kernel_thread_id(thread))
        if here is not None and self.is_meant_for_thread(point, thread):
            return self._make_stop("breakpoint", thread, point=point.id)
        return self._resume_task(movement, record_address)

    def is_meant_for_thread(self, point: Point, thread: int) -> bool:
        """Return whether a breakpoint is for the task that a thread runs. False if the thread runs no task, as another
        worker has taken it.
        """
        return self.task_on_worker(self._gdb.kernel_thread_id(thread)) is not None and super().is_meant_for_thread(
            point, thread
        )

    def _run_into_body(self, thread: int, record_address: int, *, new: bool) -> Stop:
        """Run a worker to the followed task's next line, and return the stop there, or another one that comes first.
        The worker is about to begin the task (`new`) or to resume it.
        """
        inside = not is_program_frame(
            self._gdb.stack(thread)[0]
        )  # of the runtime still, not stopped in a line by something else
        if inside and (stop := self._run_to_caller(thread, record_address, "next")) is not None:
            return stop
        stop = self._run_past_head(
            thread, "next", record_address, set() if new else {self._suspended}, expected_address=record_address
        )
        return stop if stop is not None else self._make_stop("line", thread)

    def _run_past_head(
        self,
        thread: int,
        movement: Movement,
        record_address: int | None,
        skipped: set[int],
        *,
        expected_address: int = 0,
    ) -> Stop | None:
        """Run a thread to a line of the program that is not in the head of a procedure. Return None once it is there,
        or another stop that comes first.

        `skipped`: line numbers at which it does not stop, either. `expected_address`: the record of the task that the
        thread should run, 0 for any. If the thread comes to run another task, the expected task is continued, and its
        next stop is returned.
        """
        for _ in range(HOW_FAR):
            frame = self._gdb.stack(thread)[0]
            if (
                is_program_frame(frame)
                and int(frame["line"]) not in skipped
                and not self._cilk.is_procedure_head(frame)
            ):
                return None
            self._gdb.run(f"-exec-next --thread {thread}")
            happened = self._wait_for_stop()
            if happened.get("looked"):
                continue
            if self._gdb.exited is not None or happened.get("reason") != "end-stepping-range":
                return self._handle_gdb_stop(happened, movement, record_address)
            if expected_address and self._running_record_address(thread) != expected_address:
                return self._continue_task(movement, expected_address)
        return None

    def _running_record_address(self, thread: int) -> int:
        """Return the address of the record of the task that runs on a thread; 0 if none does."""
        lwp = self._gdb.kernel_thread_id(thread)
        return next((row.address for row in self._rows() if row.state == "top" and row.worker == lwp), 0)

    @property
    def _bodies(self) -> Any:
        return NoOutlinedBodies()

    # Looking

    def _make_stop(self, why: Any, thread: int, *, point: int | None = None, text: str = "") -> Stop:
        stop = super()._make_stop(why, thread, point=point, text=text)
        return replace(stop, at=self._named(stop.at))

    def frames(self, task: int | None, *, with_libraries: bool = False) -> Any:
        """Return (a task's frames, innermost first; where the task and each of its ancestors was created, the task's
        own first).
        """
        lines, made = super().frames(task, with_libraries=with_libraries)
        if not lines and (row := next((row for row in self.tasks() if row.id == task), None)) and row.at:
            lines = [row.at]
        return [self._named(line) for line in lines], made

    def evaluate(self, task: int | None, expression: str, level: int, gdb_format: str = "") -> str:
        """Return the value of an expression in a task's frame; variables have their names in the Cilk source."""
        return self._evaluate_translated(task, expression, level, partial(self._gdb.value, gdb_format=gdb_format))

    def _translate_for_gdb(self, task: int | None, expression: str, level: int) -> tuple[int, int, str]:
        """Return (gdb's number of a task's thread, gdb's number of the frame, the expression with the names that the
        variables have in cilk2c's C code there).
        """
        asked: list[tuple[int, int, str]] = []

        def keep(words: str, thread: int, at: int) -> str:
            asked.append((thread, at, words))
            return self._gdb.value(words, thread, at)

        self._evaluate_translated(task, expression, level, keep)
        return asked[-1]

    def _evaluate_translated(
        self, task: int | None, expression: str, level: int, evaluator: Callable[[str, int, int], str]
    ) -> str:
        """Return the value of an expression in a task's frame, after replacing the names of variables by those in
        cilk2c's C code.

        `evaluator`: returns the value as text, from the translated expression and gdb's numbers of the thread and the
        frame.
        """
        thread, frames = self._thread_and_frames(task, {row.id: row for row in self.tasks()})
        if not frames:
            return self._evaluate_on_heap(task, expression, evaluator)
        frame = frames[min(level, len(frames) - 1)]
        record = self._find_record(task or 0)
        at = int(frame["level"])
        where = Cilk5Frame(
            str(frame.get("func", "")), self._variable_names(thread, at), record["entry"] if record else 0
        )
        return evaluate_in_procedure(expression, where, self._procedures, lambda words: evaluator(words, thread, at))

    def _variable_names(self, thread: int, level: int) -> list[str]:
        """Return the names that the variables of a frame have in C."""
        place = f"--thread {thread} --frame {level}"
        told = self._gdb.ask(f"-stack-list-variables {place} --no-values").get("variables", [])
        return [str(one["name"]) for one in told]

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """Return (name, value) of all variables that a task can see in a frame. They are the variables of the C
        function, and those that cilk2c keeps in the procedure's frame on the heap. An unreadable variable has the
        reason as its value.
        """
        thread, frames = self._thread_and_frames(task, {row.id: row for row in self.tasks()})
        names: list[str] = []
        if frames:
            frame = frames[min(level, len(frames) - 1)]
            names = [
                name for name in self._variable_names(thread, int(frame["level"])) if not name.startswith("_cilk_")
            ]
            found = CLONE.match(str(frame.get("func", "")))
            kept = self._procedures.scopes.get(found[1], []) if found else []
        else:
            row = next((row for row in self.tasks() if row.id == task), None)
            kept = self._procedures.scopes.get(self._procedure(row.at if row else None), [])
        told = []
        for name in dict.fromkeys([*names, *(name for _, name in kept)]):
            try:
                told.append((name, self.evaluate(task, name, level)))
            except DebuggerError as error:
                told.append((name, f"<{error}>"))
        return told

    @staticmethod
    def _procedure(at: SourceLine | None) -> str:
        """Return cilk2c's name of the procedure that a line is in."""
        return "cilk_main" if at and at.function == "main" else at.function if at else ""

    def _evaluate_on_heap(self, task: int | None, expression: str, evaluator: Callable[[str, int, int], str]) -> str:
        """Return the value of an expression for a task that no worker runs now. Its variables are read from the
        procedure's frame on the heap. DebuggerError if the task has ended.
        """
        table = self._table()
        row = next((row for row in table.rows if row.id == task), None) if table is not None else None
        if table is None or row is None:
            raise DebuggerError("the task has ended: it has no frame any more")
        at = next(one.at for one in self.tasks() if one.id == task)
        name = self._procedure(at)
        frame = f"((struct _cilk_{name}_frame *){row.address - table.offset:#x})"
        return evaluate_in_procedure(
            expression,
            Cilk5Frame(f"_cilk_{name}_slow", ()),
            self._procedures,
            lambda words: evaluator(words.replace("_cilk_frame->", f"{frame}->"), self._current_thread(), 0),
        )


class NoOutlinedBodies:
    """Replaces OutlinedBodies: unlike OpenMP compilers, cilk2c makes up no lines."""

    def is_compiler_line(self, frame: Frame) -> bool:
        """Nothing."""
        return False

    is_line_executed_elsewhere = is_compiler_line

    def line_addresses(self, file: str, line: int) -> list[int]:
        """Return no expression: none is translated, gdb evaluates all by itself."""
        return []


def as_dict(row: Cilk5Row) -> dict[str, Any]:
    """Return a row as a dictionary in the form of OpenMP's records: by name, and with numbers for states."""
    return {**{name: getattr(row, name) for name in row.__slots__}, "state": STATE[row.state], "scope": 0}


STATE = {"top": 2, "middle": 3, "heap": 4}
