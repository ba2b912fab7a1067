"""The backend for OpenCilk: an unmodified gdb, the runtime's own records of its tasks, and the
stacks of its workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weft.cilk.opencilk import code
from weft.cilk.opencilk.cactus import Activation, CactusStack, Unwinder
from weft.cilk.opencilk.course import TaskMovement
from weft.cilk.opencilk.gdb import OpenCilkGdb
from weft.cilk.opencilk.layout import OpenCilkMemory
from weft.cilk.opencilk.table import ROOT, ChildNumbers, OpenCilkTable, OpenCilkTask, find_sync_line
from weft.errors import DebuggerError, UsageError
from weft.gdb.point import Point
from weft.tasks.backend import Movement, Spawn, Stop, make_deadlock_stop
from weft.tasks.gdb import Frame, Terminal, frame_site, is_program_frame
from weft.tasks.model import SourceLine, TaskRow, Wait
from weft.tasks.mutexes import add_mutex_waits
from weft.tasks.openmp import NO_LINES, NativeBackend, find_spawns

REGION, WORKER = "__cilkrts_need_to_cilkify", "__cilkrts_tls_worker"
"""What the runtime exports: false while its workers have the program; and, in each thread, its worker."""

REGISTERS = " ".join(map(str, range(17)))
"""x86-64's general ones and the program counter, by gdb's numbers."""
NEAR = 1 << 16
"""Bytes of a function's frame, at most, that tell one visit of a line from another."""


class OpenCilkBackend(NativeBackend):
    """One program of OpenCilk under gdb."""

    runtime = "OpenCilk"

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self._workers: dict[int, int] = {}  # by gdb's threads: what never changes again
        self._seen: tuple[int, OpenCilkTable] | None = None
        self._region = 0
        self._last = 0  # the thread that stopped last
        self._told: dict[int, tuple[str, bytes]] = {}  # where threads stand that have not moved since their last stop

    def start(self) -> Stop:
        """Start the program, stop it at its main, and return the stop. UsageError if none of its functions spawns
        anything.
        """
        self.code = code.read_program_code(self._program)
        if not self.code.resumed:
            raise UsageError(
                f"{self._program}: none of its functions spawns a task (functions of shared libraries are not followed)"
            )
        self._terminal = Terminal()
        self._gdb = self.gdb = OpenCilkGdb(self.code)
        self._gdb.start_program(self._program, self._arguments, {}, self._terminal.name)
        groups = self._gdb.ask("-list-thread-groups").get("groups", [])
        self._gdb.pid = int(groups[0].get("pid", 0)) if groups else 0
        self.code.loaded(self._gdb.symbol_address("main"))
        self._memory = OpenCilkMemory(self._gdb.read)
        self._numbers = ChildNumbers(self._memory, self._gdb.write)
        self._unwinder = Unwinder(self._gdb, self.code, self._memory)
        stop = replace(self._make_stop("start", self._current_thread()), task=ROOT)
        return stop if stop.at is not None else replace(stop, text=f"{self._program} {NO_LINES}")

    # The table

    def read_table(self) -> OpenCilkTable:
        """Return the table of all tasks at the current stop. It is read at the first call after each stop."""
        if self._seen is None or self._seen[0] != self.gdb.moves:
            self._seen = self.gdb.moves, self._read_new_table()
        return self._seen[1]

    def _read_new_table(self) -> OpenCilkTable:
        """Read all tasks from the runtime's memory and the workers' stacks. DebuggerError for an unknown version of
        OpenCilk.
        """
        table = OpenCilkTable(self._memory, self._unwinder, self._numbers)
        if self._gdb.exited is not None:
            return table
        self._region = self._region or self._gdb.symbol_address(REGION)
        workers = self._find_workers()
        if self._memory.read(self._region, 1) != b"\0" or not workers:
            table.add_program_outside_region(self.unwind_thread(self._gdb.threads[self._gdb.pid]))
            return table
        closures = self._memory.read_closures(self._memory.state(next(iter(workers.values()))))
        if not closures or not closures[0].status:
            raise DebuggerError(
                "the program was built with a version of OpenCilk that Weft does not know: build it with one of ABI 4"
            )
        found = ((thread, self._memory.read_worker(worker)) for thread, worker in workers.items())
        table.add_tasks_of_workers(
            [(self.unwind_thread(thread), worker) for thread, worker in found if worker.runs], closures
        )
        return table

    def _find_workers(self) -> dict[int, int]:
        """Return the workers of the runtime: gdb's number of the thread -> address of the worker's record. A thread
        that is no worker sees the record of the main thread; such threads are left out.
        """
        main = self._gdb.threads.get(self._gdb.pid, 0)
        for thread in sorted(self._gdb.threads.values(), key=lambda thread: thread != main):
            if thread not in self._workers:
                worker = int(self._gdb.evaluate(f"(unsigned long){WORKER}", thread))
                if self._memory.state(worker) and worker not in self._workers.values():
                    self._workers[thread] = worker
        living = set(self._gdb.threads.values())
        return {thread: worker for thread, worker in self._workers.items() if thread in living}

    def unwind_thread(self, thread: int) -> CactusStack:
        """Return what a thread's stack leads to."""
        return self._unwinder.unwind_thread(thread, self._gdb.kernel_thread_id(thread))

    def task_on_thread(self, thread: int) -> OpenCilkTask | None:
        """Return the task on top of a thread."""
        return next((p for p in self.read_table().rows if p.state == "top" and p.thread == thread), None)

    def activation_line(self, task: OpenCilkTask, activation: Activation) -> SourceLine | None:
        """Return the line at which a function call (activation) of a task is, or at which it will continue; None if
        unknown.
        """
        if task.waits and activation is task.activations[0]:
            found = self.code.resumption_at(task.waits)
            if found is not None and found.at is not None:
                return found.at
        return (
            frame_site(activation.frame) if is_program_frame(activation.frame) else self._gdb.return_site(activation.pc)
        )

    def tasks(self) -> list[TaskRow]:
        """Return the table of tasks."""
        places = self.read_table().rows
        children: dict[int, list[int]] = {}
        for place in places:
            children.setdefault(place.parent, []).append(place.id)
        made = [self._make_row(place, tuple(children.get(place.id, ()))) for place in places]
        return add_mutex_waits(
            self._gdb, made, self._read_stacks(place.worker for place in places if place.state == "top")
        )

    def _make_row(self, task: OpenCilkTask, children: tuple[int, ...]) -> TaskRow:
        """Return the row of a task with its line and its wait. `children`: the numbers of its living children."""
        at = self.activation_line(task, task.own[0]) if task.own else None
        wait = None
        if task.state == "middle":
            wait = Wait("deque", (), at, free=True, what=f"of worker {task.worker}, where any other may take it")
        elif task.state == "heap" and task.status == "suspended":
            wait = Wait("sync", children, find_sync_line(task, self.code) or at)
        on = task.state != "heap"
        created = self._gdb.return_site(task.caller.pc) if task.caller is not None else None
        address = None if on or not task.activations else task.activations[0].cfa
        return TaskRow(
            task.id, task.parent or None, task.state, self._names.get(task.id, ""), created, at, wait,
            task.worker or None, task.above or None, task.beneath if on else None, address,
        )  # fmt: skip

    def _read_records(self) -> tuple[Any, dict[int, int]]:
        """Return the living tasks, as what this shares with OpenMP asks for them."""
        return [{"id": place.id, "parent": place.parent, "pedigree": 0} for place in self.read_table().rows], {}

    def task_on_worker(self, worker: int) -> int | None:
        """Return the task on top of a worker."""
        return next((p.id for p in self.read_table().rows if p.state == "top" and p.worker == worker), None)

    # Running

    def advance(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let the program run until a task has made a movement, such as a step, and return the stop there. `child`:
        follow the next task that it spawns.
        """
        if self._gdb.exited is not None:
            return self._make_end_stop()
        self._looks = 0
        place = self.read_table().places.get(task or 0)
        if movement != "continue" and place is not None and place.own:
            return TaskMovement(self, place, movement, child=child).complete()
        while True:
            self._gdb.run("-exec-continue")
            if (told := self.make_user_stop(self.next_stop())) is not None:
                return told

    def next_stop(self) -> dict[str, Any]:
        """Return the program's next stop as gdb describes it. If gdb reports a breakpoint hit a second time for a
        thread that has not moved, only the thread is returned, without a reason.

        If two threads reach breakpoints at once, gdb reports the second one before the first one has moved, and then
        the first one once more.
        """
        stop: dict[str, Any] = self._wait_for_stop()
        if self._gdb.exited is not None:
            return stop
        thread = int(stop.get("thread-id", 0) or 0)
        stay = {one: where for one, where in self._told.items() if self._thread_position(one) == where}
        again = thread in stay and thread != self._last and stop.get("reason") == "breakpoint-hit"
        stay.pop(thread, None)
        if stop.get("reason") == "breakpoint-hit":
            stay[thread] = self._thread_position(thread)
        self._last, self._told = thread, stay
        return {"thread-id": str(thread)} if again else stop

    def _thread_position(self, thread: int) -> tuple[str, bytes]:
        """Return (a thread's registers as text, the bytes of its innermost frame), to see later whether the thread has
        moved. Both are empty if the thread has gone.
        """
        if thread not in self._gdb.threads.values():
            return "", b""
        registers = self._gdb.ask(f"-data-list-register-values --thread {thread} x {REGISTERS}")["register-values"]
        sp = self._gdb.evaluate_pointer("$sp", thread)
        size = self._gdb.evaluate_pointer("$rbp", thread) - sp
        return str(registers), self._gdb.read(sp, size) if 0 < size < NEAR else b""

    def make_user_stop(self, stop: dict[str, Any]) -> Stop | None:
        """Return the stop to show to the user: a breakpoint, watchpoint, signal, deadlock or the program's end. None
        for a stop that only Weft needs.
        """
        if self._gdb.exited is not None:
            return self._make_end_stop()
        if "deadlock" in stop:
            return make_deadlock_stop(stop["deadlock"])
        thread = int(stop.get("thread-id", 0) or 0)
        if (watched := self._make_watchpoint_stop(stop, thread)) is not None:
            return watched
        if stop.get("reason") == "breakpoint-hit":
            return self._make_breakpoint_stop(stop, thread)
        if stop.get("reason") == "signal-received" and stop.get("signal-name") not in ("SIGINT", "0"):
            return self._make_stop("signal", thread, text=f"{stop.get('signal-name')}: ")
        return None

    def make_stop(self, why: Any, thread: int) -> Stop:
        """Return a stop where a thread stands."""
        return self._make_stop(why, thread)

    def is_meant_for_thread(self, point: Point, thread: int) -> bool:
        """Return whether a breakpoint is for the task that a thread runs. UsageError for a breakpoint on a task's
        pedigree, as tasks of OpenCilk have none here.
        """
        if point.pedigree:
            raise UsageError(
                "Weft knows no pedigrees of OpenCilk's tasks: name the task by its id, `break WHERE task ID`"
            )
        return super().is_meant_for_thread(point, thread)

    def stop_following(self) -> None:
        """Nothing is followed between two commands."""

    # Looking

    def frames(self, task: int | None, *, with_libraries: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """Return (a task's frames, innermost first; where the task and each of its ancestors was created, the task's
        own first).
        """
        place = self.read_table().places.get(task or 0)
        rows = {row.id: row for row in self.tasks()}
        if place is None or with_libraries:
            return super().frames(task, with_libraries=with_libraries)
        lines = [self.activation_line(place, one) for one in place.own]
        return [line for line in lines if line is not None], find_spawns(task, rows)

    def _thread_and_frames(
        self, task: int | None, rows: dict[int, TaskRow], *, with_libraries: bool = False
    ) -> tuple[int, list[Frame]]:
        """Return (gdb's number of the thread that runs a task, the task's frames there). DebuggerError if gdb reaches
        none of the frames.
        """
        place = self.read_table().places.get(task or 0)
        if self._gdb.exited is not None or place is None:
            return super()._thread_and_frames(task, rows, with_libraries=with_libraries)
        found = [one for one in place.own if one.level >= 0]
        if place.own and not found:
            raise DebuggerError("the task is moving from one worker to another: `next` brings it to its line")
        if with_libraries and found:
            first = 0 if place.state == "top" else found[0].level
            return place.thread, self._gdb.stack(place.thread)[first : found[-1].level + 1]
        return place.thread, [one.frame for one in found]

    def _gdb_frame(self, task: int | None, level: int) -> tuple[int, int]:
        """Return (gdb's number of a task's thread, gdb's number of the frame at `level`). DebuggerError if gdb cannot
        reach the frame.
        """
        place = self.read_table().places.get(task or 0)
        if place is not None and level < len(place.own) and place.own[level].level < 0:
            raise DebuggerError(
                "gdb cannot read the variables of this frame, because the frame that it called lies on another stack: "
                "choose an inner frame"
            )
        return super()._gdb_frame(task, level)
