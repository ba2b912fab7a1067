"""Holds native tasks while the others run; each is held with its thread, as a native task has no other place.

A task that has not begun, or is on the heap, is held by Weft's tool when a worker would take it. A running task is held
at a line of the program: the next instruction of its thread is then in the tool, which waits (native/holds.c). If the
thread is in a library, whose locks it may own, it is held as soon as it is back in the program.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from weft.base.words import listed, plural
from weft.errors import DebuggerError, UsageError
from weft.gdb.mi import quoted
from weft.tasks import layout
from weft.tasks.bodies import OutlinedBodies
from weft.tasks.gdb import Frame, Gdb, frame_site
from weft.tasks.hang_messages import conjugate, render_all_held_by_user, render_labels
from weft.tasks.model import NO_CODE, SourceLine, TaskRow, Wait, find_deadlocks, find_stuck_tasks
from weft.tasks.stacks import RED_ZONE, count_entered_tasks, count_tasks_above, innermost_program_frame

BYTE = layout.TRACED + 3
"""Where in a record the byte of HELD lies; the debugger writes no other one beside it."""
BELOW = RED_ZONE + 16
"""What a thread finds below its stack pointer where it is made to wait: two words, and beneath them the red zone."""


@dataclass
class HeldTask:
    """A held task: its record; the breakpoints that catch its thread; the thread that waits, and
    the address it was at.
    """

    address: int
    points: set[str] = field(default_factory=set)
    thread: int = 0
    at: int = 0


class HeldTasks:
    """The held tasks of one program."""

    def __init__(
        self,
        gdb: Gdb,
        record: Callable[[int], Any],
        rows: Callable[[], list[TaskRow]],
        bodies: Callable[[], OutlinedBodies],
    ) -> None:
        self._gdb, self._record, self._rows, self._bodies = gdb, record, rows, bodies
        self._held: dict[int, HeldTask] = {}
        self._passed: set[tuple[int, int]] = set()
        self._before: list[object] = []

    def __contains__(self, task: object) -> bool:
        return task in self._held

    def hold(self, task: int) -> str:
        """Hold a task, so that it makes no step, and return in words how it is held and which tasks wait for it."""
        record = self._record(task)
        one = self._held.setdefault(task, HeldTask(int(record["address"])))
        self._gdb.write(one.address + BYTE, 1, 1)
        try:
            place = self._stop_thread_of_task(task, one)
        except (DebuggerError, UsageError):
            self.release(task)
            raise
        row, rows = self._find_row(task), self._rows()
        told = [f"{row.label} {place}", *_render_waiting([row], rows)]
        left = len(self._gdb.threads) - len(self._held)
        if left <= 1:
            told.append(f"only {plural(left, 'other thread')} can still run" if left else "no other thread can run")
        return f"{'; '.join(told)}: `release {task}` lets it go on"

    def release(self, task: int) -> None:
        """Let a held task continue; nothing happens if it has ended meanwhile."""
        one = self._held.pop(task, None)
        if one is None:  # it had come to its end before it could be held
            return
        self._delete_breakpoints(one)
        if self._gdb.exited is None and self._record(task) is not None:
            self._gdb.write(one.address + BYTE, 0, 1)
        if one.thread and one.at in self._breakpoint_addresses():
            self._passed.add((one.thread, one.at))

    def release_all(self) -> None:
        """Let all held tasks continue."""
        for task in list(self._held):
            self.release(task)

    def waiting_threads(self) -> dict[int, int]:
        """Return the threads that wait in Weft's tool together with a held task: task number -> the kernel's id of the
        thread. A held task without a waiting thread is left out.
        """
        found = {}
        for task, one in self._held.items():
            record = self._record(task)
            lwp = (
                self._gdb.kernel_thread_id(one.thread)
                if one.thread
                else int(record["caught"])
                if record is not None
                else 0
            )
            if lwp:
                found[task] = lwp
        return found

    def handle_arrival(self, stop: dict[str, Any]) -> bool:
        """If a stop is the return of a held task to the program's code, make the task's thread wait there. Return
        whether the stop was such a return.
        """
        number = str(stop.get("bkptno"))
        found = next(((task, one) for task, one in self._held.items() if number in one.points), None)
        if found is None:
            return False
        self._delete_breakpoints(found[1])
        if self._record(found[0]) is None:  # its thread had left its code already, and begins another one
            del self._held[found[0]]
            return True
        with suppress(DebuggerError, UsageError):
            self._stop_thread_of_task(*found)
        return True

    def consume_passed_breakpoint(self, thread: int, address: int) -> bool:
        """Return whether a thread had already stopped at the breakpoint at `address` when it was held there. The user
        must then not see this stop again. The fact is forgotten, so that a second call returns False.
        """
        known = (thread, address) in self._passed
        self._passed.discard((thread, address))
        return known

    def explain_hang(self, *, again: bool = False) -> str:
        """Return in words that nothing can happen any more because tasks are held, and which tasks wait for them. Empty
        if something can happen, or if no thread waits with a held task.

        `again`: a task that an idle worker could take counts as stuck if nothing has changed since the last call.
        """
        rows = self._rows() if self._held else []
        waiting = {worker: task for task, worker in self.waiting_threads().items()}
        caught = set(waiting.values())
        tied = [self._add_hold_wait(row, waiting) for row in rows]
        left = find_stuck_tasks(tied)
        if not caught or any(row.state == "top" and row.id not in left for row in tied) or find_deadlocks(rows):
            self._before = []
            return ""
        ready = [row for row in tied if row.id not in left]
        now: list[object] = [(row.id, row.state, row.wait, row.worker) for row in rows]
        before, self._before = self._before, now
        if ready and not (again and before == now):
            return ""
        held = [row for row in rows if row.id in self._held]
        told = [*_render_waiting(held, rows), *_render_blocked_workers(rows, waiting)]
        return "\n".join([render_all_held_by_user(held), *(f"  {line}" for line in told)])

    def _add_hold_wait(self, row: TaskRow, held_by_worker: dict[int, int]) -> TaskRow:
        """Return a task's row, changed if a hold stops the task. A held task gets a wait for itself. A task on top of a
        worker that waits with a held task gets the held task as the task above it.

        `held_by_worker`: the held task with which each worker waits.
        """
        held = row.id in self._held and (row.state in ("new", "heap") or row.id in held_by_worker.values())
        on = held_by_worker.get(row.worker or 0) if row.state == "top" else None
        if held:
            return row._replace(wait=Wait("hold", (row.id,)))
        return row._replace(above=on) if on is not None else row

    def _find_row(self, task: int) -> TaskRow:
        return next(row for row in self._rows() if row.id == task)

    # A task that runs

    def _stop_thread_of_task(self, task: int, hold: HeldTask) -> str:
        """Make a held task's thread wait: at once, or as soon as it is back in the program's code. Return how it is
        held, in words. UsageError if that is impossible.
        """
        row = self._find_row(task)
        if row.worker is None:
            return ("is held before it begins" if row.state == "new" else "is held in the queue") + (
                ", and a worker that takes it up waits with it"
            )
        if platform.machine() not in ("x86_64", "AMD64"):
            raise UsageError(f"{row.label} is running, and a running task can be held on x86-64 only")
        thread = self._gdb.threads[row.worker]
        stack = self._gdb.stack(thread)
        frame = (
            innermost_program_frame(stack, count_tasks_above(row, {r.id: r for r in self._rows()}))
            if row.part != NO_CODE
            else None
        )
        if frame is not None and int(frame["level"]) == 0:
            self._make_thread_wait(hold, thread, int(frame["addr"], 16))
            return f"is held at {frame_site(frame)}, with worker {row.worker}"
        if frame is not None:
            hold.points = {self._insert_return_breakpoint(frame, thread)}
        place = f"back at {frame_site(frame)}" if frame is not None else ""
        if row.state == "top" and count_entered_tasks(stack) <= (
            row.beneath or 0
        ):  # it may be about to begin: these are another's
            hold.points |= {
                self._insert_breakpoint(f"-p {thread} " + quoted(f"'{name}'")) for name in self._bodies().task_symbols
            }
            place = "at a line of the program"
        if not place:
            raise UsageError(f"{row.label} is at no line of the program, so it cannot be held")
        return f"is held as soon as it is {place}, with worker {row.worker}"

    def _insert_return_breakpoint(self, frame: Frame, thread: int) -> str:
        """Set a breakpoint at which a thread returns to a frame; deeper frames of the same function do not count."""
        top = self._gdb.evaluate_pointer("$sp", thread, int(frame["level"]))
        return self._insert_breakpoint(f"-p {thread} -c {quoted(f'$sp >= {top}')} *{frame['addr']}")

    def _insert_breakpoint(self, where: str) -> str:
        with self._gdb.temporary_setting("language", "c", "auto"):
            return str(self._gdb.ask(f"-break-insert {where}")["bkpt"]["number"])

    def _make_thread_wait(self, hold: HeldTask, thread: int, address: int) -> None:
        """Make a stopped thread wait in Weft's tool, by setting its registers and stack. It later continues at
        `address`, where it is now.
        """
        below = self._gdb.evaluate_pointer("$sp", thread) - BELOW
        self._gdb.write(below, address, 8)
        self._gdb.write(below + 8, hold.address, 8)
        hold.thread, hold.at = thread, address
        with self._gdb.temporary_setting(
            "language", "c", "auto"
        ):  # both at once, for Ctrl-C may come between two commands
            self._gdb.evaluate(f"$sp = {below}, $pc = {self._gdb.symbol_address('weft_tasks_pause')}", thread)

    def _delete_breakpoints(self, hold: HeldTask) -> None:
        """Delete the breakpoints that were to catch the thread of a held task."""
        for number in hold.points:
            with suppress(DebuggerError):
                self._gdb.ask(f"-break-delete {number}")
        hold.points = set()

    def _breakpoint_addresses(self) -> set[int]:
        """Return the addresses of all breakpoints of the user."""
        found = set()
        with suppress(DebuggerError):
            for made in self._gdb.ask("-break-list")["BreakpointTable"]["body"]:
                for place in (made, *made.get("locations", [])):
                    with suppress(KeyError, ValueError):
                        found.add(int(place["addr"], 16))
        return found


def _render_waiting(held_tasks: list[TaskRow], rows: Iterable[TaskRow]) -> list[str]:
    """Return lines that say which tasks wait for held tasks, and where."""
    found: dict[tuple[SourceLine | None, str, tuple[str, ...]], list[TaskRow]] = {}
    for row in rows:
        if row.wait is not None and (for_ := tuple(task.label for task in held_tasks if task.id in row.wait.tasks)):
            at = next((at for at in (row.wait.site, row.at, row.created) if at is not None and at.line), None)
            found.setdefault((at, f"{row.wait.kind} {row.wait.what}".strip(), for_), []).append(row)
    return [
        f"{render_labels(these)} {conjugate(these, 'wait')} at {at or '?'} ({kind}) for {listed(list(for_), 'and')}"
        for (at, kind, for_), these in found.items()
    ]


def _render_blocked_workers(rows: list[TaskRow], held_by_worker: dict[int, int]) -> list[str]:
    """Return lines for the tasks that wait only because the worker that runs them waits with a held task.

    `held_by_worker`: the number of the held task with which each worker waits.
    """
    known = {row.id: row for row in rows}
    return [
        f"{row.label} at {row.at or '?'} has its worker {row.worker} wait with {known[on].label}"
        for row in rows
        if row.state == "top" and row.wait is None and (on := held_by_worker.get(row.worker or 0, row.id)) != row.id
    ]
