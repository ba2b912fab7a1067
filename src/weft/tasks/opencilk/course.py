"""One task come on by a command, wherever its frames are resumed.

gdb steps one thread. What it cannot know: that a thief goes on with the frame behind a spawn, or another worker behind
a sync. Both come to an address that the function itself has given, with its frame pointer: breakpoints there, on any
thread, tell each such moment, and after each the task is looked for anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from weft.tasks.backend import How, Stop
from weft.tasks.gdb import is_program_frame
from weft.tasks.model import SourceLine
from weft.tasks.opencilk.cactus import Activation, CactusStack
from weft.tasks.opencilk.code import LEAVES, ProgramCode
from weft.tasks.opencilk.gdb import OpenCilkGdb
from weft.tasks.opencilk.table import OpenCilkTask, OpenCilkTable

Key = tuple[int, int]
HELPER_LINES = 60
"""Steps in a helper until it has detached itself."""
STEPPED = ("end-stepping-range", "function-finished")


class SteppedProgram(Protocol):
    """The program that a task is a part of: opencilk.backend.OpenCilkBackend."""

    gdb: OpenCilkGdb
    code: ProgramCode

    def read_table(self) -> OpenCilkTable:
        """All tasks as they are now."""
        ...

    def activation_line(self, place: OpenCilkTask, one: Activation) -> SourceLine | None:
        """Where an activation of a task stands."""
        ...

    def unwind_thread(self, thread: int) -> CactusStack:
        """What lies on a thread's stack."""
        ...

    def task_on_thread(self, thread: int) -> OpenCilkTask | None:
        """The task that a thread runs."""
        ...

    def next_stop(self) -> dict[str, Any]:
        """The next stop of the program."""
        ...

    def make_user_stop(self, stop: dict[str, Any]) -> Stop | None:
        """What a stop says that is no step's."""
        ...

    def make_stop(self, why: Any, thread: int) -> Stop:
        """A stop where a thread stands."""
        ...


class TaskMovement:
    """A task on its way. `child`: on in what it spawns."""

    def __init__(self, backend: SteppedProgram, place: OpenCilkTask, how: How, *, child: bool) -> None:
        self._backend, self._how, self._child = backend, how, child
        self._task = place.id
        self._chain = followed_activations(place)
        self._helper = place.activations[-1].key if place.caller is not None else None
        self._parent = place.caller.key if place.caller is not None else None
        self._resumed: set[str] = set()
        self._leaves = ""
        self._spawns: set[str] = set()
        self._lines: set[int] = set()

    def run(self) -> Stop:
        """On, until the task has come to where the command wants it; from its end to its parent's join."""
        with self._temporary_breakpoints():
            if self._how == "finish":
                stop = self._run_to_caller()
            else:
                at = self._line(self._chain[0])
                self._lines = {at.line} if at is not None else set()
                stop = self._run_to_other_line(self._how)
            return self._run_to_join() if stop.why == "done" and stop.task == self._task else stop

    @contextmanager
    def _temporary_breakpoints(self) -> Iterator[None]:
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

    def _find(self, key: Key) -> tuple[OpenCilkTask, Activation] | None:
        """The task that an activation is of, and the activation; on its own worker, if it is on any."""
        found = [(place, one) for place in self._backend.table().rows for one in place.activations if one.key == key]
        return min(found, key=lambda pair: pair[0].state == "heap", default=None)

    def _line(self, key: Key) -> SourceLine | None:
        found = self._find(key)
        return self._backend.line(*found) if found is not None else None

    # Moves

    def _run_to_activation(self, key: Key) -> int | Stop | None:
        """On until an activation is on top of a thread: that thread. A stop where another one came first; None where
        the activation is no more."""
        while True:
            found = self._find(key)
            if found is None:
                return None
            place, one = found
            if place.state == "top" and place.own[0].key == key:
                return place.thread
            stop = self._run_to_stop("-exec-continue", back=None if place.state == "heap" else (place.thread, one))
            if (told := self._find_end_of_movement(stop)) is not None:
                return told

    def _run_to_stop(self, command: str, back: tuple[int, Activation] | None = None) -> dict[str, Any]:
        """Let the program run to its next stop. `back`: to where a thread comes back to an activation, too."""
        gdb, number = self._backend.gdb, ""
        if back is not None:
            thread, one = back
            number = self._insert(f'-p {thread} -c "$rbp == {one.fp:#x}" *{one.pc:#x}')
        try:
            gdb.run(command)
            return self._backend.stopped()
        finally:
            if number and gdb.exited is None and not gdb.running:
                gdb.ask(f"-break-delete {number}")

    def _find_end_of_movement(self, stop: dict[str, Any]) -> Stop | None:
        """A stop that ends the way: one for a person, the task's end, or what it has spawned."""
        number, thread = str(stop.get("bkptno", "")), int(stop.get("thread-id", 0) or 0)
        if number and number == self._leaves:
            stack = self._backend.unwound(thread).activations
            if self._helper is not None and stack and stack[0].key == self._helper:
                return Stop("done", self._task)
            return None
        if number in self._spawns:
            top = self._backend.on_top(thread)
            return self._run_to_detached_child(thread) if top is not None and top.id == self._task else None
        if number in self._resumed:
            return None
        return self._backend.told(stop)

    def _skip_resumed_line(self, key: Key) -> None:
        """Where the activation that is followed is being resumed, its line there, behind a spawn, is not a new one."""
        found = self._find(key)
        resumed = self._backend.code.resumption(found[1].pc) if found is not None else None
        if resumed is not None and resumed.at is not None:
            self._lines.add(resumed.at.line)

    def _run_to_other_line(self, how: How) -> Stop:
        """On to another line: of the innermost activation, of its caller, or (`step`) of what it calls."""
        begun = self._backend.gdb.moves
        while self._chain:
            came = self._run_to_activation(self._chain[0])
            if isinstance(came, Stop):
                return came
            if came is None:  # it has returned
                self._chain.pop(0)
                at = self._line(self._chain[0]) if self._chain else None
                self._lines = {at.line} if at is not None else set()
                continue
            self._skip_resumed_line(self._chain[0])
            at = self._line(self._chain[0])
            if self._backend.gdb.moves != begun and at is not None and at.line not in self._lines:
                return self._backend.here("line", came)
            stop = self._run_to_stop(f"-exec-{how} --thread {came}")
            if stop.get("reason") in STEPPED and self._backend.gdb.exited is None:
                if (new := self._make_step_stop(int(stop.get("thread-id", 0) or 0))) is not None:
                    return new
            elif (told := self._find_end_of_movement(stop)) is not None:
                return told
        return Stop("done", self._task)

    def _make_step_stop(self, thread: int) -> Stop | None:
        """gdb has stepped a thread to another line: None where that is no line for a person."""
        if not is_program_frame(self._backend.gdb.stack(thread)[0]):
            return None
        top = self._backend.on_top(thread)
        if top is None or not top.own:
            return None
        inner = top.own[0]
        if top.id != self._task and self._task not in self._backend.table().places:
            return Stop("done", self._task)
        if inner.helper and not inner.detached and inner.key != self._chain[0]:
            return self._run_to_detached_child(thread)
        if inner.key == self._chain[0] and int(inner.frame.get("line", 0)) in self._lines:
            return None
        return self._backend.here("line", thread)

    def _run_to_detached_child(self, thread: int) -> Stop:
        """A helper has begun: on until it has detached itself, from where on it is the child."""
        self._child, self._spawns = False, self._disabled(self._spawns)
        for _ in range(HELPER_LINES):
            inner = next((one for one in self._backend.unwound(thread).activations if one.own), None)
            if inner is None or inner.detached or not inner.helper:
                break
            stop = self._run_to_stop(f"-exec-next --thread {thread}")
            if stop.get("reason") not in STEPPED and (told := self._backend.told(stop)) is not None:
                return told
        return self._backend.here("line", thread)

    def _disabled(self, numbers: set[str]) -> set[str]:
        if numbers:
            self._backend.gdb.ask("-break-delete " + " ".join(numbers))
        return set()

    def _run_to_caller(self) -> Stop:
        """To the caller of the innermost activation, or to the task's end."""
        for key in self._chain[1:]:
            came = self._run_to_activation(key)
            if came is not None:
                return came if isinstance(came, Stop) else self._backend.here("line", came)
        while (place := self._backend.table().places.get(self._task)) is not None:
            back = (place.thread, place.caller) if place.caller is not None and place.state != "heap" else None
            if (told := self._find_end_of_movement(self._run_to_stop("-exec-continue", back))) is not None:
                return told
        return Stop("done", self._task)

    def _run_to_join(self) -> Stop:
        """The task is done: on with its parent, until that is past the sync that waits for it."""
        found = self._find(self._parent) if self._parent is not None else None
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
            at = self._line(key)
            self._lines = {at.line} if at is not None else set()
            stop = self._run_to_other_line("next")
            if stop.why != "line":
                return stop
            syncs = self._backend.code.syncs
            if not syncs or self._chain[0] != key or (at is not None and (at.file, at.line) in syncs):
                return replace(stop, why="joined")


def followed_activations(place: OpenCilkTask) -> list[Key]:
    """What a task is followed by: its activations, without a helper that is on its way to be a child, or was one."""
    return [one.key for one in place.own if not one.helper or one.detached]
