"""Moves one task on by a command, wherever its frames are resumed.

gdb steps one thread. It does not know that a thief continues the frame after a spawn, or another worker after a sync.
Both reach an address that the function itself has stored, with its frame pointer: breakpoints there, on any thread,
report each such moment, and after each the task is looked for anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from weft.cilk.opencilk.cactus import Activation, CactusStack
from weft.cilk.opencilk.code import LEAVES, ProgramCode
from weft.cilk.opencilk.gdb import OpenCilkGdb
from weft.cilk.opencilk.table import OpenCilkTable, OpenCilkTask
from weft.tasks.backend import Movement, Stop
from weft.tasks.gdb import is_program_frame
from weft.tasks.model import SourceLine

Key = tuple[int, int]
HELPER_LINES = 60
"""Steps in a helper until it has detached itself."""
STEPPED = ("end-stepping-range", "function-finished")


class SteppedProgram(Protocol):
    """The program of a moving task: opencilk.backend.OpenCilkBackend."""

    gdb: OpenCilkGdb
    code: ProgramCode

    def read_table(self) -> OpenCilkTable:
        """Return all tasks as they are now."""
        ...

    def activation_line(self, place: OpenCilkTask, one: Activation) -> SourceLine | None:
        """Return where an activation of a task stands."""
        ...

    def unwind_thread(self, thread: int) -> CactusStack:
        """Return what lies on a thread's stack."""
        ...

    def task_on_thread(self, thread: int) -> OpenCilkTask | None:
        """Return the task that a thread runs."""
        ...

    def next_stop(self) -> dict[str, Any]:
        """Return the next stop of the program."""
        ...

    def make_user_stop(self, stop: dict[str, Any]) -> Stop | None:
        """Return what a stop says that is no step's."""
        ...

    def make_stop(self, why: Any, thread: int) -> Stop:
        """Return a stop where a thread stands."""
        ...


class TaskMovement:
    """The movement of one task by a command. `child`: follow the next task that it spawns."""

    def __init__(self, backend: SteppedProgram, place: OpenCilkTask, how: Movement, *, child: bool) -> None:
        self._backend, self._how, self._child = backend, how, child
        self._task = place.id
        self._chain = followed_activations(place)
        self._helper = place.activations[-1].key if place.caller is not None else None
        self._parent = place.caller.key if place.caller is not None else None
        self._resumed: set[str] = set()
        self._leaves = ""
        self._spawns: set[str] = set()
        self._lines: set[int] = set()

    def complete(self) -> Stop:
        """Run the program until the command is done for the task, and return the stop. If the task ends, its parent is
        run until it is past the sync that waits for the task.
        """
        with self._temporary_breakpoints():
            if self._how == "finish":
                stop = self._run_to_caller()
            else:
                at = self._find_activation_line(self._chain[0])
                self._lines = {at.line} if at is not None else set()
                stop = self._run_to_other_line(self._how)
            return self._run_to_join() if stop.why == "done" and stop.task == self._task else stop

    @contextmanager
    def _temporary_breakpoints(self) -> Iterator[None]:
        """Inside a `with` block, let the program stop where frames are resumed, where tasks end and, if a child is to
        be followed, in the helper functions of spawns.
        """
        gdb, code = self._backend.gdb, self._backend.code
        try:
            self._resumed = {self._insert(f"*{pc:#x}") for pc in code.resumed}
            self._leaves = self._insert(f"*{LEAVES}")
            if self._child:
                self._spawns = {self._insert(f"*{pc:#x}") for pc in code.helpers}
            yield
        finally:
            made = [number for number in (*self._resumed, self._leaves, *self._spawns) if number]
            if gdb.exited is None and not gdb.running and made:
                gdb.ask("-break-delete " + " ".join(made))

    def _insert(self, at: str) -> str:
        return str(self._backend.gdb.ask(f"-break-insert {at}")["bkpt"]["number"])

    # Where it is

    def _find_task_and_activation(self, key: Key) -> tuple[OpenCilkTask, Activation] | None:
        """Return (task, activation) for the function call that has this key (function, frame address); None if the call
        has returned. If a task on a worker and one on the heap have it, the one on the worker is returned.
        """
        found = [
            (place, one) for place in self._backend.read_table().rows for one in place.activations if one.key == key
        ]
        return min(found, key=lambda pair: pair[0].state == "heap", default=None)

    def _find_activation_line(self, key: Key) -> SourceLine | None:
        found = self._find_task_and_activation(key)
        return self._backend.activation_line(*found) if found is not None else None

    # Moves

    def _run_to_activation(self, key: Key) -> int | Stop | None:
        """Run until the function call with this key is the innermost one of a thread, and return gdb's number of the
        thread. If another stop comes first, return that stop; if the call has returned, return None.
        """
        while True:
            found = self._find_task_and_activation(key)
            if found is None:
                return None
            place, one = found
            if place.state == "top" and place.own[0].key == key:
                return place.thread
            stop = self._run_to_stop("-exec-continue", return_to=None if place.state == "heap" else (place.thread, one))
            if (told := self._make_final_stop(stop)) is not None:
                return told

    def _run_to_stop(self, command: str, return_to: tuple[int, Activation] | None = None) -> dict[str, Any]:
        """Let the program run by a command of gdb, and return its next stop.

        `return_to`: (gdb's number of a thread, activation): also stop where this thread returns to the activation.
        """
        gdb, number = self._backend.gdb, ""
        if return_to is not None:
            thread, one = return_to
            number = self._insert(f'-p {thread} -c "$rbp == {one.fp:#x}" *{one.pc:#x}')
        try:
            gdb.run(command)
            return self._backend.next_stop()
        finally:
            if number and gdb.exited is None and not gdb.running:
                gdb.ask(f"-break-delete {number}")

    def _make_final_stop(self, stop: dict[str, Any]) -> Stop | None:
        """Return the stop if it ends the movement: a stop to show to the user, the task's end, or a spawned child. None
        if the task has to run on.
        """
        number, thread = str(stop.get("bkptno", "")), int(stop.get("thread-id", 0) or 0)
        if number and number == self._leaves:
            stack = self._backend.unwind_thread(thread).activations
            if self._helper is not None and stack and stack[0].key == self._helper:
                return Stop("done", self._task)
            return None
        if number in self._spawns:
            top = self._backend.task_on_thread(thread)
            return self._run_to_detached_child(thread) if top is not None and top.id == self._task else None
        if number in self._resumed:
            return None
        return self._backend.make_user_stop(stop)

    def _skip_resumed_line(self, key: Key) -> None:
        """Let the step not stop at the line at which the followed function call is resumed after a spawn. `key`:
        (function, frame address) of the call.
        """
        found = self._find_task_and_activation(key)
        resumed = self._backend.code.resumption_at(found[1].pc) if found is not None else None
        if resumed is not None and resumed.at is not None:
            self._lines.add(resumed.at.line)

    def _run_to_other_line(self, movement: Movement) -> Stop:
        """Run to another line, and return the stop. The line is in the innermost function call, in its caller, or, for
        the movement `step`, in a called function.
        """
        begun = self._backend.gdb.moves
        while self._chain:
            came = self._run_to_activation(self._chain[0])
            if isinstance(came, Stop):
                return came
            if came is None:  # it has returned
                self._chain.pop(0)
                at = self._find_activation_line(self._chain[0]) if self._chain else None
                self._lines = {at.line} if at is not None else set()
                continue
            self._skip_resumed_line(self._chain[0])
            at = self._find_activation_line(self._chain[0])
            if self._backend.gdb.moves != begun and at is not None and at.line not in self._lines:
                return self._backend.make_stop("line", came)
            stop = self._run_to_stop(f"-exec-{movement} --thread {came}")
            if stop.get("reason") in STEPPED and self._backend.gdb.exited is None:
                if (new := self._make_step_stop(int(stop.get("thread-id", 0) or 0))) is not None:
                    return new
            elif (told := self._make_final_stop(stop)) is not None:
                return told
        return Stop("done", self._task)

    def _make_step_stop(self, thread: int) -> Stop | None:
        """Return the stop to report after gdb has stepped a thread. None if the step does not end at the line that the
        thread has reached.
        """
        if not is_program_frame(self._backend.gdb.stack(thread)[0]):
            return None
        top = self._backend.task_on_thread(thread)
        if top is None or not top.own:
            return None
        inner = top.own[0]
        if top.id != self._task and self._task not in self._backend.read_table().places:
            return Stop("done", self._task)
        if inner.helper and not inner.detached and inner.key != self._chain[0]:
            return self._run_to_detached_child(thread)
        if inner.key == self._chain[0] and int(inner.frame.get("line", 0)) in self._lines:
            return None
        return self._backend.make_stop("line", thread)

    def _run_to_detached_child(self, thread: int) -> Stop:
        """Run the helper function of a spawn until it counts as the child task (until it has detached itself), and
        return the stop.
        """
        self._child, self._spawns = False, self._disabled(self._spawns)
        for _ in range(HELPER_LINES):
            inner = next((one for one in self._backend.unwind_thread(thread).activations if one.own), None)
            if inner is None or inner.detached or not inner.helper:
                break
            stop = self._run_to_stop(f"-exec-next --thread {thread}")
            if stop.get("reason") not in STEPPED and (told := self._backend.make_user_stop(stop)) is not None:
                return told
        return self._backend.make_stop("line", thread)

    def _disabled(self, numbers: set[str]) -> set[str]:
        if numbers:
            self._backend.gdb.ask("-break-delete " + " ".join(numbers))
        return set()

    def _run_to_caller(self) -> Stop:
        """Run until the innermost function call of the task has returned to its caller, or the task ends. Return the
        stop.
        """
        for key in self._chain[1:]:
            came = self._run_to_activation(key)
            if came is not None:
                return came if isinstance(came, Stop) else self._backend.make_stop("line", came)
        while (place := self._backend.read_table().places.get(self._task)) is not None:
            back = (place.thread, place.caller) if place.caller is not None and place.state != "heap" else None
            if (told := self._make_final_stop(self._run_to_stop("-exec-continue", back))) is not None:
                return told
        return Stop("done", self._task)

    def _run_to_join(self) -> Stop:
        """After the end of the task, run its parent until it is past the sync that waits for the task. Return
        the stop.
        """
        found = self._find_task_and_activation(self._parent) if self._parent is not None else None
        if found is None:
            return Stop("done", self._task)
        place, _ = found
        chain = followed_activations(place)
        self._chain = chain[chain.index(self._parent) :] if self._parent in chain else chain
        self._task, self._child = place.id, False
        self._helper = place.activations[-1].key if place.caller is not None else None
        self._parent = place.caller.key if place.caller is not None else None
        while True:
            key = self._chain[0]
            at = self._find_activation_line(key)
            self._lines = {at.line} if at is not None else set()
            stop = self._run_to_other_line("next")
            if stop.why != "line":
                return stop
            syncs = self._backend.code.syncs
            if not syncs or self._chain[0] != key or (at is not None and (at.file, at.line) in syncs):
                return replace(stop, why="joined")


def followed_activations(task: OpenCilkTask) -> list[Key]:
    """Return the keys (function, frame address) of a task's function calls. The helper function of a spawn is left out
    as long as it is not a task of its own.
    """
    return [one.key for one in task.own if not one.helper or one.detached]
